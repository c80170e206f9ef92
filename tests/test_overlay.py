"""A tree with a delta applied against one that is rebuilt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gentus.identifiers.codebooks import Codebooks
from gentus.retrieval.beam import Decoder
from gentus.retrieval.overlay import Overlay, apply_delta
from gentus.retrieval.trie import Tree, Trie, build_trie

LEVELS, SIZE = 3, 3
Sid = tuple[int, ...]  # codes, then the suffix

sids = st.lists(
    st.tuples(*[st.integers(0, SIZE - 1)] * LEVELS, st.integers(0, 2)), unique=True, min_size=0, max_size=40
)


def tree_of(tables: dict[Sid, int], scanned: int = 4) -> Trie:
    listed = sorted(tables)
    array = np.array(listed, np.int64).reshape(len(listed), LEVELS + 1)
    return build_trie(
        array[:, :LEVELS].astype(np.uint8),
        array[:, LEVELS],
        np.array([tables[sid] for sid in listed]),
        scanned,
    )


def contents(tree: Tree) -> dict[Sid, int]:
    """Everything that can be reached from the root, and only by its own symbols."""
    if not len(tree):
        return {}
    nodes, counts, written = np.array([tree.root]), np.array([len(tree)]), np.zeros((1, 0), np.int64)
    for level in range(LEVELS + 1):
        parent, nodes, counts, symbols = tree.expand(nodes, counts, level)
        assert (np.diff(parent) >= 0).all()
        rows = tree.row(nodes)
        assert np.array_equal(symbols, tree.code(rows, level) if level < LEVELS else tree.suffix(rows))
        written = np.hstack([written[parent], symbols[:, None]])
        entry, below = tree.descendants(nodes, counts)
        assert np.array_equal(np.bincount(entry, minlength=len(nodes)), counts)
        assert len(below) == len(tree)
        assert np.isin(rows, below).all()  # the row of a node is not deleted
        for at in range(level + 1):  # and all that is below a node begins as it does
            assert at == LEVELS or np.array_equal(tree.code(below, at), written[entry, at])
    assert (counts == 1).all()
    assert np.array_equal(np.sort(below), np.sort(rows))
    for level in range(LEVELS):  # a row is what was written on the way to it
        assert np.array_equal(tree.code(rows, level), written[:, level])
    return dict(zip(map(tuple, written.tolist()), tree.table(rows).tolist(), strict=True))


@settings(max_examples=300, deadline=None)
@given(sids, st.data())
def test_the_overlay_is_the_tree_built_anew(everything: list[Sid], data: st.DataObject) -> None:
    kind = st.sampled_from(["old", "new", "deleted"])
    kinds = data.draw(st.lists(kind, min_size=len(everything), max_size=len(everything)))
    table = {sid: number for number, sid in enumerate(everything)}
    of = {
        kind: {s: table[s] for s, k in zip(everything, kinds, strict=True) if k in kind.split()}
        for kind in ("old deleted", "new", "deleted", "old new")
    }
    tree = apply_delta(tree_of(of["old deleted"]), tree_of(of["new"]), tree_of(of["deleted"]))
    now = of["old new"]
    assert len(tree) == len(now)
    assert contents(tree) == now
    asked = np.array(everything, np.int64).reshape(len(everything), LEVELS + 1)
    if len(tree):
        rows = tree.find(asked[:, :LEVELS].astype(np.uint8), asked[:, LEVELS])
        found = {
            sid: int(tree.table(rows[at : at + 1])[0]) for at, sid in enumerate(everything) if rows[at] >= 0
        }
        assert found == now

    # Beam search with any width answers as on a tree built anew.
    words = np.random.default_rng(len(everything)).normal(size=(LEVELS, SIZE, 4)).astype(np.float32)
    anew = tree_of(now)
    for beam in (2, 100):
        answers = []
        for one in (tree, anew):
            rows, left = Decoder(one, Codebooks(words)).search(words[0, 0] + words[1, 1], beam)
            answers.append((sorted(left.round(4).tolist()), left, one.table(rows)))
        assert answers[0][0] == pytest.approx(answers[1][0], abs=1e-3)
        if beam == 100:
            assert sorted(answers[0][2].tolist()) == sorted(answers[1][2].tolist())


def test_one_change_makes_few_nodes_anew() -> None:
    random = np.random.default_rng(0)
    codes = np.unique(random.integers(0, 256, (50_000, 8), dtype=np.uint8), axis=0)
    none = np.zeros(len(codes), np.int64)
    ids = np.arange(len(codes))
    base = build_trie(codes[1:], none[1:], ids[1:])
    added = build_trie(codes[:1], none[:1], ids[:1])
    deleted = build_trie(codes[-1:], none[-1:], ids[-1:])
    tree = apply_delta(base, added, deleted)
    assert isinstance(tree, Overlay)
    assert len(tree.rows) < 20
    assert len(tree.edges.nodes) < 2_000  # a list of at most 256 children for each
