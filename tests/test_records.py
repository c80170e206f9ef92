"""Training records: against slow, obvious references, and through the command line."""

# ruff: noqa: F401, F811 - `run` is a fixture

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from conftest import subject_of, write_pairs
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from test_cli import Run, run

import gentus
from gentus.arrays import I32, Integers
from gentus.features.extract import HASH_BITS, KINDS, Features, concatenate, featurize
from gentus.generator import records as module
from gentus.generator.records import (
    Record,
    View,
    count_records,
    jaccard,
    label_pairs,
    make_view,
    mine_negatives,
    records,
    word_profiles,
)
from gentus.index.folder import Layout
from gentus.index.writer import writer
from gentus.metrics import load_groundtruth
from gentus.settings import RecordSettings
from gentus.table import Column, Table


def table_of(*columns: list[str], rows: int | None = None) -> Table:
    size = max(map(len, columns)) if rows is None else rows
    return Table("t", [Column(f"c{at}", cells) for at, cells in enumerate(columns)], size)


# --- views --------------------------------------------------------------------------------------------


def test_a_view_that_changes_nothing() -> None:
    table = table_of(["a", "b"], [], ["x"])
    assert View(3).apply(table) == table


def test_a_view_keeps_whole_rows_where_columns_have_no_gaps() -> None:
    table = table_of([str(i) for i in range(100)], [f"row {i}" for i in range(100)], ["x", "y", "z"])
    seen = View(0, 0.5, 7, (1, 0, 2)).apply(table)
    assert [column.name for column in seen.columns] == ["c1", "c0", "c2"]
    assert [len(column.cells) for column in seen.columns] == [50, 50, 2]
    assert seen.columns[0].cells == [f"row {cell}" for cell in seen.columns[1].cells]
    assert seen.rows == 50


def test_positions_skip_columns_without_cells_as_features_do() -> None:
    table = table_of([], ["a"], [], ["b"])
    assert len(featurize(table).profile) == 2
    assert [column.name for column in View(0, columns=(1, 0)).apply(table).columns] == ["c3", "c1"]
    with pytest.raises(ValueError, match="fewer columns"):
        View(0, columns=(2,)).apply(table)


cells = st.lists(st.text("abc", min_size=1, max_size=2), max_size=12)


@given(st.lists(cells, min_size=1, max_size=6), st.floats(0.01, 1), st.integers(1, 5), st.integers(0, 99))
def test_a_view_leaves_out_and_never_invents(
    columns: list[list[str]], least: float, number: int, seed: int
) -> None:
    # Every cell is told apart by its row, so that order and origin can be checked.
    table = table_of(*([f"{i:03d} {cell}" for i, cell in enumerate(column)] for column in columns))
    width = sum(map(bool, columns))
    settings = RecordSettings(least_rows=least, least_columns=least)
    view = make_view(5, number, width, settings, seed)
    seen = view.apply(table)
    assert view == make_view(5, number, width, settings, seed)
    assert seen == view.apply(table)
    assert least * width <= len(seen.columns) <= width
    assert least <= view.share <= 1
    assert min(table.rows, 1) <= seen.rows <= table.rows
    whole = {column.name: column.cells for column in table.columns}
    assert len({column.name for column in seen.columns}) == len(seen.columns)
    for column in seen.columns:
        assert set(column.cells) <= set(whole[column.name])
        assert column.cells == sorted(set(column.cells))
        assert len(column.cells) == max(1, round(view.share * len(whole[column.name])))
        assert len(column.cells) <= seen.rows


@pytest.mark.parametrize(
    "wrong", [{"least_rows": 0}, {"least_columns": 1.5}, {"views": -1}, {"negatives": -1}, {"tokens": 0}]
)
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"at least|lies above"):
        RecordSettings(**wrong)  # type: ignore[arg-type]


# --- profiles and negatives ---------------------------------------------------------------------------


def lake_of(count: int, seed: int = 0) -> list[Table]:
    """Tables of random words, some of which have none."""
    random = np.random.default_rng(seed)
    texts = [[f"w{word}" for word in random.integers(0, 30, random.integers(1, 20))] for _ in range(count)]
    return [
        table_of(["?!"] if at % 7 == 3 else text, text[:2] * (at % 7 != 3)) for at, text in enumerate(texts)
    ]


def words_of(features: Features, table: int) -> set[int]:
    first, last = KINDS["words"]
    return {
        int(i) - first >> HASH_BITS - module._BITS for i in features.take([table]).ids if first <= i < last
    }


def reference(samples: list[set[int]], pairs: list[tuple[int, int]], count: int) -> list[list[int]]:
    """The negatives of each query, by Python sets."""
    found = []
    for query in sorted({a for a, _ in pairs}):
        scored = []
        for table, words in enumerate(samples):
            shared = len(samples[query] & words)
            if shared and table != query and (query, table) not in pairs:
                scored.append((-shared / len(samples[query] | words), table))
        best = [table for _, table in sorted(scored)[:count]]
        found.append(best + [-1] * (count - len(best)))
    return found


@pytest.mark.parametrize("tokens", [1, 4, 128])
def test_profiles_are_a_bounded_sample_of_words(tokens: int) -> None:
    tables = lake_of(20)
    parts = [featurize(table) for table in tables]
    whole = concatenate(parts)
    batches = [concatenate(parts[:7]), concatenate([]), concatenate(parts[7:])]
    profiles = word_profiles(batches, tokens)
    assert (profiles.shape, profiles.dtype) == ((20, module._BUCKETS), bool)
    for table in range(20):
        assert profiles[table].indices.tolist() == sorted(words_of(whole, table))[:tokens]
    assert profiles[3].nnz == 0
    assert word_profiles([], tokens).shape == (0, module._BUCKETS)


@pytest.mark.parametrize(("tokens", "count"), [(128, 3), (2, 5), (5, 60), (128, 0)])
def test_negatives_are_those_of_the_reference(
    tokens: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 120)  # three queries a block
    features = concatenate([featurize(table) for table in lake_of(40, tokens)])
    random = np.random.default_rng(1)
    pairs = [(int(a), int(b)) for a, b in random.integers(0, 40, (50, 2)) if a != b] + [(3, 5), (39, 0)]
    samples = [set(sorted(words_of(features, table))[:tokens]) for table in range(40)]
    profiles = word_profiles([features], tokens)
    mined = mine_negatives(profiles, np.array(pairs), count)
    assert mined.dtype == np.int32
    assert mined.tolist() == reference(samples, pairs, count)
    assert (mined[sorted({a for a, _ in pairs}).index(3)] == -1).all()  # a query without words
    a, b = pairs[0]
    assert jaccard(profiles, a, b) == len(samples[a] & samples[b]) / max(1, len(samples[a] | samples[b]))


def test_no_pairs_no_negatives() -> None:
    assert mine_negatives(word_profiles([], 8), np.zeros((0, 2), np.int64), 4).shape == (0, 4)


# --- records ------------------------------------------------------------------------------------------


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Integers, Integers, I32, RecordSettings]:
    """Annotated pairs in a small lake, with mined negatives, of which there may be few or none."""
    tables = draw(st.integers(2, 8))
    at = st.integers(0, tables - 1)
    pairs = np.array(draw(st.lists(st.tuples(at, at), max_size=10)), np.int64).reshape(-1, 2)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    settings = RecordSettings(
        views=draw(st.integers(0, 3)),
        negatives=draw(st.integers(0, 3)),
        index=draw(st.sampled_from(["positives", "all", "none"])),
    )
    words = draw(st.lists(st.sampled_from(["a", "b", "a b", "b c", "?"]), min_size=tables, max_size=tables))
    features = [featurize(table_of([word], ["a"] * draw(st.integers(0, 1)))) for word in words]
    mined = mine_negatives(word_profiles(features, 8), pairs, settings.negatives)
    widths = np.concatenate([np.diff(part.tables) for part in features])
    return pairs, widths, mined, settings


@limits(deadline=None)
@given(tasks(), st.integers(0, 99), st.integers(0, 3))
def test_records_are_what_the_paper_says(
    task: tuple[Integers, Integers, I32, RecordSettings], seed: int, epoch: int
) -> None:
    pairs, widths, mined, settings = task
    made = list(records(*task, seed, epoch))
    assert made == list(records(*task, seed, epoch))
    assert Counter(record.kind for record in made) == Counter(count_records(*task))
    assert sorted(map(repr, made)) == sorted(set(map(repr, made)))  # none twice

    annotated = set(map(tuple, pairs.tolist()))
    queries = sorted({query for query, _ in annotated})
    views = {
        q: {make_view(q, n, widths[q], settings, seed) for n in range(settings.views + 1)} for q in queries
    }
    expected = {(view, target) for query, target in annotated for view in views[query]}
    assert {(r.view, r.target) for r in made if r.kind == "positive"} == expected
    found = {query: set(row.tolist()) - {-1} for query, row in zip(queries, mined, strict=True)}
    ranking = [record for record in made if record.kind == "ranking"]
    assert {(r.view, r.target) for r in ranking} == {pair for pair in expected if found[pair[0].table]}
    for record in ranking:
        query = record.view.table
        assert record.negative in found[query]
        assert record.negative != query
        assert (query, record.negative) not in annotated
    for query in queries:  # in turn: none is used twice before all are used once
        used = Counter(r.negative for r in ranking if r.view.table == query)
        if found[query] and used:
            assert max(used.values()) - min(used[table] for table in found[query]) <= 1
    indexed = {"positives": {t for _, t in annotated}, "all": set(range(len(widths))), "none": set()}
    wanted = [Record("indexing", View(table), table) for table in sorted(indexed[settings.index])]
    assert sorted((r for r in made if r.kind == "indexing"), key=lambda r: r.target) == wanted


def test_epochs_differ_in_order_and_go_on_with_the_negatives() -> None:
    pairs, widths = np.array([[0, 1]]), np.full(9, 3)
    negatives = np.array([[2, 3, 4, 5, 6, -1]], np.int32)
    settings = RecordSettings(views=1, index="all")
    epochs = [list(records(pairs, widths, negatives, settings, 0, epoch)) for epoch in range(5)]
    assert epochs[0] != epochs[1]
    assert {r.view for r in epochs[0]} == {r.view for r in epochs[1]}
    used = [sorted(r.negative for r in epoch if r.negative is not None) for epoch in epochs]
    assert used == [[2, 3], [4, 5], [2, 6], [3, 4], [5, 6]]
    other = list(records(pairs, widths, negatives, settings, 1))
    assert {r.view for r in epochs[0]} != {r.view for r in other}


def test_records_are_streamed() -> None:
    """A few of very many records are there at once, and pairs given twice count once."""
    pairs = np.stack([np.arange(200_000) % 1000, 1000 + np.arange(200_000) // 1000], 1)
    task = (np.concatenate([pairs, pairs]), np.full(2000, 4), np.full((1000, 8), 1999, np.int32))
    assert len(list(islice(records(*task, RecordSettings(), 0), 5))) == 5
    counts = count_records(*task, RecordSettings())
    assert counts == {"positive": 600_000, "indexing": 200, "ranking": 600_000}
    with pytest.raises(ValueError, match="1000 queries and negatives of 2"):
        count_records(*task[:2], task[2][:2], RecordSettings())


def test_labels_become_positions() -> None:
    pairs, outside = label_pairs({"a": ["b", "x"], "y": ["a"]}, {"a": 0, "b": 1})
    assert (pairs.tolist(), outside) == ([[0, 1]], 2)
    assert label_pairs({}, {})[0].shape == (0, 2)


# --- through the command line -------------------------------------------------------------------------


@pytest.fixture
def labels(index_path: Path, tmp_path: Path) -> Path:
    names = gentus.open(index_path).tables()
    pairs = [(q, c) for q in names if q.endswith("_0.csv") for c in names if subject_of(c) == subject_of(q)]
    return write_pairs(tmp_path / "labels.csv", [*pairs, ("fish_0.csv", "gone.csv")])


def test_a_look_at_the_records(run: Run, index_path: Path, labels: Path) -> None:
    ran = run("records", index_path, "--labels", labels, "--show", 7, "--kind", "ranking", "--json")
    document = ran.json()
    assert ran.code == 0
    assert "1 labelled pairs name tables that are not in the index" in ran.err
    assert (document["pairs"], document["pairs_outside_the_lake"]) == (30, 1)
    assert document["records"] == {"positive": 90, "indexing": 30, "ranking": 90}
    with gentus.open(index_path) as opened:
        sids = {
            hit.table: hit.sid
            for name in ("fish_0.csv", "birds_0.csv")
            for hit in opened.search(opened.sources()[name], 40)
        }
    assert len(document["shown"]) == 7
    for record in document["shown"]:
        query, target, negative = record["input"], record["target"], record["negative"]
        subject = subject_of(query["table"])
        assert subject == subject_of(target["table"]) != subject_of(negative["table"])
        assert 0 < negative["jaccard"] < 1
        assert all(sids[table["table"]] == table["sid"] for table in (query, target, negative))
        assert query["rows"][1] == 12
        assert query["columns"][0] == len(query["values"]) <= query["columns"][1] == 4

    again = run("records", index_path, "--labels", labels, "--show", 7, "--kind", "ranking", "--json")
    assert again.out == ran.out
    plain = run("records", index_path, "--labels", labels, "--seed", 2)
    assert plain.out.startswith("90 positive, 30 indexing, 90 ranking records\n")
    assert plain.out.count("  target    ") == 5


def test_what_can_be_wrong_with_a_look(run: Run, index_path: Path, labels: Path, tmp_path: Path) -> None:
    alien = write_pairs(tmp_path / "alien.csv", [("x.csv", "y.csv")])
    for arguments, words in (
        ((), "No labels are known"),
        (("--labels", alien), "none of its 1 pairs names two tables of the index"),
        (("--labels", labels, "--kind", "odd"), "there are positive, indexing, ranking"),
        (("--labels", tmp_path / "no.csv"), "no.csv: No such file"),
    ):
        ran = run("records", index_path, *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert words in ran.err
    copied = shutil.copytree(index_path, tmp_path / "copy.index")
    shutil.rmtree(copied / "cache")
    ran = run("records", copied, "--labels", labels)
    assert (ran.code, ran.out) == (1, "")
    assert "Cached features are missing" in ran.err
    assert "Make them again: gentus index" in ran.err


def test_an_index_that_knows_its_labels(run: Run, index_path: Path, labels: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(index_path, tmp_path / "copy.index")
    with writer(Layout(copied)) as catalogue, catalogue.transaction():
        catalogue.put_labels(load_groundtruth(labels))
    assert run("records", copied, "--json").json()["pairs"] == 30
