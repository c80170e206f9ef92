"""The scale benchmark on small lakes: what it makes up, and that it compares like with like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_cli import Run, run

from gentus.identifiers.codebooks import Codebooks
from gentus.identifiers.semantic_ids import assign_suffixes
from gentus.index.index import Index
from gentus.progress import Progress
from gentus.retrieval.trie import Trie, build_trie
from gentus.settings import Softmax
from gentus_bench import timer
from gentus_bench.experiments import scale, scale_decoding, scale_transformers, scale_trees
from gentus_bench.experiments.scale_decoding import comparable_generator, made_up_inputs, profile, write_alone
from gentus_bench.experiments.scale_identifiers import LakeModel, fit_model, real_codes, skew
from gentus_bench.experiments.scale_transformers import (
    MAKERS,
    Task,
    TooLargeError,
    TransformersSearch,
    identifiers,
    what_t5_reads,
)

__all__ = ["run"]

LEVELS, CODES, SUFFIXES, BEAM = 4, 16, 6, 20


def some_tree(count: int = 200) -> Trie:
    """Identifiers that are unevenly spread; some share all their codes."""
    chance = np.random.default_rng(0)
    codes = (CODES * chance.random((count, LEVELS)) ** 3).astype(np.uint8)
    codes[-4:] = codes[0]
    return build_trie(codes, assign_suffixes(codes, np.zeros(count, np.float32)), np.arange(count))


@pytest.fixture(scope="module")
def codebooks() -> Codebooks:
    return Codebooks(np.random.default_rng(1).standard_normal((LEVELS, CODES, 8), np.float32))


@pytest.fixture
def model(index: Index) -> LakeModel:
    return fit_model(index.decoder.trie, index.decoder.codebooks)


def test_skew_tells_how_identifiers_are_spread() -> None:
    codes = np.array([[0, 1], [1, 0], [0, 0], [0, 1]], np.uint8)
    facts = skew(codes, size=2)
    assert (facts["prefixes"], facts["largest"]) == ({"1": 2, "2": 3}, {"1": 3, "2": 2})
    assert (facts["collisions"], facts["most_alike"]) == (0.5, 2)
    assert facts["codes_until_alone"] == (2 + 2 + 2 + 1) / 4
    assert facts["perplexity"][1] == 2.0
    assert facts["perplexity"][0] == pytest.approx(0.25**-0.25 * 0.75**-0.75, abs=0.01)


def test_a_made_up_lake_is_like_the_real_one(model: LakeModel, index: Index) -> None:
    real = skew(real_codes(index.decoder.trie), index.decoder.codebooks.size)
    made_up = skew(model.trial(), index.decoder.codebooks.size)
    assert made_up["tables"] == real["tables"] == 36
    assert made_up["perplexity"][0] == pytest.approx(real["perplexity"][0], rel=0.35)
    assert made_up["prefixes"]["2"] == pytest.approx(real["prefixes"]["2"], rel=0.35)


def test_a_small_made_up_lake_begins_a_large_one_and_queries_are_in_neither(model: LakeModel) -> None:
    few, many = (np.concatenate(list(model.tables(count))) for count in (100, 9000))
    assert (len(few), len(many)) == (100, 9000)
    assert (few == many[:100]).all()
    queries = model.queries(20)
    assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
    assert not (model.codebooks.decode(many[:20]) == queries).all(1).any()


@pytest.mark.parametrize("kind", MAKERS)
def test_a_token_trie_allows_what_the_tree_has(kind: str) -> None:
    tree = some_tree()
    trie = MAKERS[kind](identifiers(tree, CODES, SUFFIXES))
    written = [tuple(symbols) for symbols in identifiers(tree, CODES, SUFFIXES)]
    assert len(set(written)) == len(tree)
    for prefix in {symbols[:length] for symbols in written for length in range(LEVELS + 2)}:
        longer = {symbols[len(prefix)] for symbols in written if symbols[: len(prefix)] == prefix != symbols}
        assert sorted(trie.following(list(prefix))) == sorted(longer)
    assert trie.following([CODES - 1] * LEVELS) == []
    assert (trie.nbytes is None) == (kind == "dict")


@pytest.mark.parametrize("softmax", ["children", "vocabulary"])
@pytest.mark.parametrize("kind", MAKERS)
def test_transformers_and_ours_write_the_same(kind: str, softmax: Softmax, codebooks: Codebooks) -> None:
    tree = some_tree()
    generator = comparable_generator(codebooks, SUFFIXES)
    usual = TransformersSearch(generator, MAKERS[kind](identifiers(tree, CODES, SUFFIXES)))
    for inputs in made_up_inputs(np.zeros((3, 8), np.float32)):
        found = write_alone(generator, inputs, tree, codebooks, BEAM, softmax)
        theirs = usual.search(what_t5_reads(generator, inputs), BEAM, softmax)
        ours = list(identifiers(tree, CODES, SUFFIXES))
        assert len(found.rows) == BEAM
        assert [symbols for symbols, _ in theirs] == [ours[row][:-1] for row in found.rows]
        assert np.allclose([score for _, score in theirs], found.scores, atol=1e-4)


def test_a_trie_that_outgrows_its_memory_is_given_up(tmp_path: Path, model: LakeModel) -> None:
    with pytest.raises(TooLargeError, match="GB taken by the first 0 identifiers"):
        next(identifiers(some_tree(), CODES, SUFFIXES, most_bytes=1))
    trees = scale_trees.TreeFolder(tmp_path)
    trees.fill(model, 50, 2, Progress())
    codes = np.load(trees.codes)
    suffixes = assign_suffixes(codes, np.zeros(50, np.float32))
    build_trie(codes, suffixes, np.arange(50)).save(trees.tree(50))
    told = scale_transformers._measure(
        Task(str(tmp_path), 50, "dict", int(suffixes.max()), BEAM, 2, (1,), 1.0)
    )
    assert told["did_not_run"].endswith("taken by the first 0 identifiers")


def test_a_stopwatch_does_not_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(now)))

    class Work:
        def outer(self) -> None:
            self.inner()
            self.inner()

        def inner(self) -> None:
            pass

    plain = Work.inner
    watch = timer.Profile()
    watch.run([("outer", Work, "outer"), ("inner", Work, "inner")], lambda: Work().outer())
    # A look at the clock is a second: 0 rest, 1 outer, 2-3 and 4-5 inner, 6 outer ends, 7 rest ends.
    assert dict(watch.seconds) == {"inner": 2.0, "outer": 3.0, "rest": 2.0}
    assert dict(watch.calls) == {"inner": 2, "outer": 1, "rest": 1}
    assert Work.inner is plain


def test_ways_are_looked_at_in_turn_and_told_by_medians() -> None:
    asked: list[tuple[str, int]] = []

    def way(name: str) -> Callable[[int], timer.Facts]:
        def one(query: int) -> timer.Facts:
            asked.append((name, query))
            return {"ms": {"part": query**2}, "steps": query}

        return one

    found = timer.medians({"a": way("a"), "b": way("b")}, range(3))
    assert asked == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert found == {name: {"ms": {"part": 1}, "steps": 1} for name in "ab"}


def test_the_parts_of_decoding_are_all_seen(codebooks: Codebooks) -> None:
    tree, generator = some_tree(), comparable_generator(codebooks, SUFFIXES)
    inputs = made_up_inputs(np.zeros((1, 8), np.float32))
    way = profile(lambda at: write_alone(generator, inputs[at], tree, codebooks, BEAM, "vocabulary"), Trie)
    facts = timer.medians({"ours": way}, range(1))["ours"]
    assert facts["ms"].keys() == {"reading", "generator", "tree", "children", "pruning", "rest"}
    assert all(taken > 0 for taken in facts["ms"].values())
    assert LEVELS + 1 <= facts["steps"] <= LEVELS + 2
    constraint = facts["ms"]["tree"] + facts["ms"]["children"]
    assert facts["constraint_ms"] == pytest.approx(constraint)
    assert facts["constraint_share"] == pytest.approx(constraint / facts["ms"]["generator"])


@pytest.mark.slow
def test_the_command_measures_and_tells(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(scale_trees, "OPENED", 1)
    monkeypatch.setattr(scale_decoding, "BATCH", 2)
    monkeypatch.setattr(scale, "MAKERS", {"dict": MAKERS["dict"]})  # a process less
    out = tmp_path / "out"
    command = ["bench", "run", "scale", "--index", index_path, "--out", out]
    for setting in ("sizes=2000,200", "queries=3", f"beam={BEAM}", "threads=1", "transformers_most=200"):
        command += ["--set", setting]
    ran = run(*command)
    assert ran.code == 0
    (file,) = out.glob("scale-*.json")
    document = json.loads(file.read_text())
    small, large = document["trees"]["200"], document["trees"]["2000"]
    assert small["skew"]["tables"] == 200
    on_disk = sum(path.stat().st_size for path in (out / "scale" / "my.index" / "tree-2000").iterdir())
    assert large["disk_bytes_per_table"] == on_disk / 2000
    assert 0 < large["resident"] < 2 * on_disk + (1 << 20)
    assert document["transformers"].keys() == {"200"}
    beside = document["transformers"]["200"]["dict"]
    times = beside["threads"]["1"]["times"]
    assert (
        0 < beside["least_ms"] < times["ours children"]["ms_p50"] < times["transformers children"]["ms_p50"]
    )
    assert times["search"]["ms_p50"] < times["ours children"]["ms_p50"]
    for ending in ("md", "png", "svg"):
        assert (out / f"scale-my.index.{ending}").stat().st_size
    assert "| made up | 2,000 |" in ran.out
    assert "Beside `prefix_allowed_tokens_fn`" in ran.out
