"""Residual quantization, identifiers, and the records that a generator learns from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from paper_models import SMALL, annotated, changed, lake, vectors

from gentus.arrays import F32, I64
from gentus.paper.ablation import Identifiers, atomic, no_suffix, random_codes, semantic
from gentus.paper.quantizer import Positives, Quantizer, resolve_collisions, sid, train_quantizer
from gentus.paper.records import aug, mine_hard_negatives, profile, r_idx, r_pairwise, r_pos, symmetrize
from gentus.table import Column, Table


def drawn_quantizer() -> Quantizer:
    torch.manual_seed(0)
    made = Quantizer(10, SMALL.sid)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


def test_quantization_takes_the_nearest_codeword_of_the_residual() -> None:
    made, e = drawn_quantizer(), vectors(40)
    books = made.codebooks.detach().numpy()
    codes, errors = made.encode(e)
    for at in range(len(e)):
        z = made.f_omega(torch.from_numpy(e[at])).detach().numpy()
        residual = z / np.linalg.norm(z)
        for level, book in enumerate(books):
            distances = [float(((residual - word) ** 2).sum()) for word in book]
            assert codes[at, level] == int(np.argmin(distances))
            residual = residual - book[codes[at, level]]
        assert errors[at] == pytest.approx(float((residual**2).sum()), abs=1e-5)
    assert len(np.unique(codes, axis=0)) > 5


def test_codes_do_not_depend_on_the_tables_beside() -> None:
    made, e = drawn_quantizer(), vectors(40)
    codes, errors = made.encode(e)
    alone = [made.encode(e[at : at + 1]) for at in range(len(e))]
    assert (codes == np.concatenate([one[0] for one in alone])).all()
    assert (errors == np.concatenate([one[1] for one in alone])).all()


def test_collisions_get_suffixes() -> None:
    codes = np.array([[1, 2], [3, 0], [1, 2], [1, 2], [3, 1]], np.uint8)
    suffixes = resolve_collisions(codes, np.array([0.3, 0.1, 0.1, 0.2, 0.0], np.float32))
    assert suffixes.tolist() == [3, 0, 1, 2, 0]
    names = {sid(code, int(suffix)) for code, suffix in zip(codes, suffixes, strict=True)}
    assert names == {"1-2+3", "3-0", "1-2+1", "1-2+2", "3-1"}


def test_training_brings_annotated_tables_together() -> None:
    e, pairs = vectors(), symmetrize(annotated())
    made = train_quantizer(e, pairs, changed("sid", lambda_u=5.0, steps=150).sid, 0)
    ordinary = train_quantizer(e, pairs, changed("sid", lambda_u=0.0, steps=150).sid, 0)

    def together(quantizer: Quantizer) -> float:
        z = quantizer.z(torch.from_numpy(e)).detach().numpy()
        return float(np.mean([z[a] @ z[b] for a, b in pairs]))

    assert together(made) > together(ordinary) + 0.3


BYTES = {"beta": 0.3, "lambda_u": 0.2, "tau": 0.2, "start": 30, "rate": 2e-3}


def test_every_constant_changes_the_quantizer() -> None:
    def learnt(**values: object) -> bytes:
        settings = changed("sid", steps=40, **values).sid
        made = train_quantizer(vectors(), symmetrize(annotated()), settings, 0)
        return b"".join(p.detach().numpy().tobytes() for p in made.parameters())

    usual = learnt()
    assert learnt() == usual
    for name, value in BYTES.items():
        assert learnt(**{name: value}) != usual, name


def test_dead_codewords_are_reset() -> None:
    def used(reset_every: int) -> int:
        settings = changed("sid", K=16, steps=200, start=0, reset_every=reset_every).sid
        codes, _ = train_quantizer(vectors(64), symmetrize(annotated()), settings, 0).encode(vectors(64))
        return sum(len(np.unique(codes[:, level])) for level in range(settings.L))

    assert used(10) > used(10**6)


# --- positives ---------------------------------------------------------------------------------------


def test_exactly_the_annotated_pairs_both_ways() -> None:
    pairs = np.array([(0, 1), (1, 2), (0, 1), (4, 0), (3, 3)], np.int64)
    both = symmetrize(pairs)
    # 0-1 and 1-2 do not make 0-2: nothing is inferred.
    assert {tuple(pair) for pair in both.tolist()} == {(0, 1), (1, 0), (1, 2), (2, 1), (4, 0), (0, 4)}
    batch = np.array([5, 2, 0, 1, 3], np.int64)
    matrix = Positives(both, 6).matrix(batch).numpy()
    expected = {(a, b) for a, b in both.tolist()}
    for i, a in enumerate(batch.tolist()):
        for j, b in enumerate(batch.tolist()):
            assert matrix[i, j] == ((a, b) in expected)


def test_annotated_pairs_meet_in_batches() -> None:
    pairs = symmetrize(np.array([(0, 700), (1, 800)], np.int64))
    batches = Positives(pairs, 1000)
    for seed in range(5):
        batch = batches.batch(np.random.default_rng(seed), 32, 8)
        assert len(set(batch.tolist())) == 32
        assert batches.matrix(batch).sum() == 4


# --- records -----------------------------------------------------------------------------------------


def test_views_have_all_columns_in_any_order_and_some_rows() -> None:
    table = Table("t", [Column("", [f"{letter}{row}" for row in range(9)]) for letter in "abcd"], 9)
    orders = set()
    for number in range(1, 40):
        view = aug(table, number, SMALL.records)
        columns = {tuple(column.cells): at for at, column in enumerate(table.columns)}
        found = []
        for column in view.columns:
            (own,) = (at for cells, at in columns.items() if set(column.cells) <= set(cells))
            found.append(own)
            assert SMALL.records.least_rows <= len(column.cells) <= 9
        assert sorted(found) == [0, 1, 2, 3]
        orders.add(tuple(found))
        # The same rows of every column.
        rows = [
            [table.columns[own].cells.index(cell) for cell in c.cells]
            for own, c in zip(found, view.columns, strict=True)
        ]
        assert all(one == rows[0] for one in rows)
    assert len(orders) > 5
    assert aug(table, 0, SMALL.records) is table
    assert aug(table, 7, SMALL.records) == aug(table, 7, SMALL.records)


def test_records() -> None:
    pairs, random = annotated(4, 4), np.random.default_rng(0)
    positive = r_pos(pairs, SMALL.records, 2, random)
    found = sorted((view.table, target) for view in positive for target in view.targets)
    assert found == sorted(map(tuple, pairs.tolist()))  # every pair once
    assert max(len(view.targets) for view in positive) == 2
    assert {view.number == 0 for view in positive} == {True, False}
    negatives = {0: np.array([5, 9], np.int32), 4: np.array([], np.int32), 8: np.array([1], np.int32)}
    negatives[12] = negatives[8]
    ranked = r_pairwise(positive, negatives, random)
    assert [view._replace(negative=-1) for view in ranked] == positive
    assert all(view.negative in (negatives[view.table].tolist() or [-1]) for view in ranked)
    assert [(view.table, view.targets) for view in r_idx([3, 5], SMALL.records, random)] == [
        (3, (3,)),
        (5, (5,)),
    ]


def test_hard_negatives_by_jaccard() -> None:
    tables = lake()
    profiles = [profile(table, 256) for table in tables]
    pairs: I64 = np.array([(0, 1), (3, 4), (3, 5)], np.int64)

    def jaccard(a: int, b: int) -> float:
        return len(profiles[a] & profiles[b]) / len(profiles[a] | profiles[b])

    shared: list[set[int]] = [one | {at % 5, at % 3} for at, one in enumerate(profiles)]
    profiles = shared
    mined = mine_hard_negatives([0, 3], profiles, pairs, len(profiles), 3)
    for query, annotated_ in ((0, {1}), (3, {4, 5})):
        others = [
            at for at in range(len(tables)) if at not in annotated_ | {query} and jaccard(query, at) > 0
        ]
        best = sorted(others, key=lambda at: (-jaccard(query, at), at))[:3]
        assert mined[query].tolist() == best
    assert mine_hard_negatives([0], [{1}, {2}], pairs[:0], 2, 3)[0].tolist() == []


def test_profiles_are_of_cells_only() -> None:
    assert profile(Table("t", [], 0), 9) == set()
    assert len(profile(lake()[2], 5)) == 5


# --- identifiers of the ablation ---------------------------------------------------------------------


@pytest.mark.parametrize("assign", [semantic, no_suffix, random_codes, atomic])
def test_identifiers_of_the_ablation(assign: Callable[..., Identifiers]) -> None:
    codes = np.random.default_rng(0).integers(0, 3, (60, 2), np.uint8)
    errors: F32 = np.arange(60, dtype=np.float32)
    found = assign(codes, errors, 4, np.random.default_rng(1))
    names = {
        (*code, suffix) for code, suffix in zip(found.codes.tolist(), found.suffixes.tolist(), strict=True)
    }
    assert found.codes.max() < found.K
    assert found.reachable.sum() == len(names)
    if assign is no_suffix:
        assert (found.codes == codes).all()
        assert len(names) == 9
    else:
        assert found.reachable.all()
    if assign is atomic:
        assert found.codes.shape == (60, 1)
        assert found.suffixes.max() == 0
