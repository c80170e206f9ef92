"""Families of unionable tables: communities of a graph, their names, `Index.groups` and `gentus groups`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from conftest import QUICK, SUBJECTS, genes, make_lake, rows_of, sparse, subject_of, write_pairs, write_table
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_cli import Run, run

import gentus
from gentus.identifiers.codebooks import Codebooks
from gentus.index.group_names import WordCounts, group_name, shared_columns, table_words
from gentus.index.index import Index
from gentus.neighbours.communities import propagate_labels, symmetric_graph
from gentus.retrieval import nearest_rows as module
from gentus.retrieval.nearest_rows import nearest_rows
from gentus.retrieval.overlay import apply_delta
from gentus.retrieval.trie import build_trie
from gentus_bench.experiments.groups import scores

__all__ = ["run"]


def blobs(sizes: list[int], spread: float = 0.4) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Unit vectors around some centres, and the centre of each."""
    chance = np.random.default_rng(0)
    centres = np.repeat(np.arange(len(sizes)), sizes)
    noise = chance.normal(size=(len(centres), 64)) * spread / 8
    points = chance.normal(size=(len(sizes), 64))[centres] / 8 + noise
    return points / np.linalg.norm(points, axis=1, keepdims=True), centres


@pytest.mark.parametrize("sizes", [[2] * 30, [5] * 20 + [300] * 2, [400]])
def test_communities_of_any_size_are_found(sizes: list[int]) -> None:
    points, centres = blobs(sizes)
    similarity = (points @ points.T).astype(np.float32)
    np.fill_diagonal(similarity, -1)
    ids = np.argsort(-similarity, axis=1, kind="stable")[:, :15].astype(np.int32)
    weights = np.maximum(np.take_along_axis(similarity, ids, 1), 0) ** 8
    labels = propagate_labels(symmetric_graph(ids, weights))
    pairs = {(int(a), int(b)) for a, b in zip(labels, centres, strict=True)}
    assert len(pairs) == len(sizes) == len(set(labels.tolist()))


@given(st.integers(0, 9), st.integers(1, 25))
def test_labels_never_cross_what_is_not_connected(seed: int, size: int) -> None:
    graph = sp.random(size, size, 0.1, "csr", np.float32, np.random.default_rng(seed))
    graph = sp.csr_matrix(graph.maximum(graph.T))
    labels = propagate_labels(sparse(graph.toarray()))
    components = sp.csgraph.connected_components(graph, directed=False)[1]
    for label in set(labels.tolist()):
        assert len(set(components[labels == label].tolist())) == 1
    assert sorted(set(labels.tolist())) == list(range(labels.max() + 1))


def test_nearest_rows_are_those_of_all_products_also_after_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(1)
    books = Codebooks(chance.normal(size=(3, 8, 16)).astype(np.float32))
    codes = np.unique(chance.integers(0, 8, (120, 3)).astype(np.uint8), axis=0)
    plain = np.zeros(len(codes), np.int64)
    ids = np.arange(len(codes))
    base = build_trie(codes[:-10], plain[:-10], ids[:-10])
    changed = apply_delta(
        base,
        build_trie(codes[-10:], plain[-10:], ids[-10:]),
        build_trie(codes[:7], plain[:7], ids[:7]),
    )
    found = nearest_rows(changed, books, 5)
    tables = changed.table(found.rows)
    assert sorted(tables.tolist()) == list(range(7, len(codes)))
    vectors = books.decode(codes)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for at, table in enumerate(tables.tolist()):
        cosines = vectors[7:] @ vectors[table]
        cosines[table - 7] = -1
        expected = np.sort(cosines)[::-1][:5]
        assert np.allclose(found.nearest.scores[at], expected, atol=2e-3)  # half precision
        assert np.allclose(vectors[tables[found.nearest.ids[at]]] @ vectors[table], expected, atol=4e-3)
    monkeypatch.setattr(module, "REACH", 30)  # cells near by only
    few = nearest_rows(changed, books, 5)
    same = np.mean(
        [len(set(a) & set(b)) / 5 for a, b in zip(few.nearest.ids, found.nearest.ids, strict=True)]
    )
    assert 0.4 < same <= 1


def test_a_group_is_named_by_what_its_tables_share() -> None:
    names = ["eu/sales_2024-01.csv", "eu/sales_2024-02.csv.gz", "us/export7.csv", "b/Sales 2023.parquet"]
    words = WordCounts.of(names)
    assert table_words("a/salesReport_2024-01.v2.csv.gz") == ["sales", "report"]
    assert words.common([names[0], names[1], names[3]]) == ["sales"]
    assert words.common(names[:3]) == []  # export7 has no such word, and it is one of three
    columns = shared_columns([["Id", "Price"], ["id", "price", "Country"], ["Price", "column_3"]])
    assert columns == ["Price", "Id", "Country"]
    assert group_name(["sales"], columns, "x.csv") == "sales: Price, Id, Country"
    assert group_name([], list("abcdef"), "x.csv") == "a, b, c, d, .."
    assert group_name([], [], "x.csv") == "like x.csv"


def test_subjects_are_families_and_what_fits_nothing_is_single(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake")
    write_table(lake / "genome.csv", genes())
    with gentus.build(lake, tmp_path / "index", settings=QUICK, workers=1) as index:
        found = index.groups()
        assert [group.id for group in found] == list(range(1, len(found) + 1))
        assert sum(group.size for group in found) + found.single == len(index)
        assert "genome.csv" not in found.of_table()
        for group in found:
            assert len({subject_of(name) for name in group.tables}) == 1
            assert group.size == len(group.tables)
            assert group.example in group.tables
        assert {subject_of(group.example) for group in found} == set(SUBJECTS)
        largest = found[0]
        assert subject_of(largest.example) in largest.name
        assert "kind" in largest.columns
        table = found.to_arrow()
        assert table.num_rows == sum(group.size for group in found)
        index.remove(largest.tables)
        assert largest.example not in index.groups().of_table()
        more = write_table(tmp_path / "more" / "fish_77.csv", rows_of("fish", 77))
        (added,) = index.add([more]).added
        assert index.groups().of_table()[added] == index.groups().of_table()["fish_0.csv"]
        with pytest.raises(ValueError, match="at least 2"):
            index.groups(1)


def test_a_large_family_with_several_headers_is_one(tmp_path: Path) -> None:
    headers = [["name", "kind", "size", "year"], ["Titel", "Art", "Größe", "Jahr"]]
    for subject in ("fish", "films"):
        for number in range(40):
            _, *body = rows_of(subject, number)
            write_table(tmp_path / "lake" / f"{subject}_{number}.csv", [headers[number % 2], *body])
    with gentus.build(tmp_path / "lake", tmp_path / "index", settings=QUICK, workers=1) as index:
        found = index.groups()
        assert [group.size for group in found] == [40, 40]
        assert [{subject_of(name) for name in group.tables} for group in found] == [{"films"}, {"fish"}]


def test_an_index_of_one_table_has_no_families(tmp_path: Path) -> None:
    write_table(tmp_path / "lake" / "a.csv", rows_of("fish", 1))
    with gentus.build(tmp_path / "lake", tmp_path / "index", settings=QUICK, workers=1) as index:
        assert len(index.groups()) == 0
        assert index.groups().single == 1
        assert index.groups().to_arrow().num_rows == 0


def test_the_command_shows_writes_and_prints_families(run: Run, index: Index, tmp_path: Path) -> None:
    path = str(index.layout.root)
    shown = run("groups", path)
    assert "fish: name, kind, size, year" in shown.out
    assert "families with" in shown.err
    members = run("groups", path, "--members")
    assert "  fish_0.csv" in members.out.splitlines()
    document = json.loads(run("groups", path, "--json").out)
    assert document["tables"] == len(index)
    assert document["groups"][0].keys() == {"id", "name", "size", "columns", "example", "tables"}
    few = run("groups", path, "--limit", "1")
    assert "more families" in few.err
    run("groups", path, "--out", str(tmp_path / "families.csv"))
    with (tmp_path / "families.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(index) - document["single"]
    run("groups", path, "--out", str(tmp_path / "families.parquet"))
    assert pq.read_table(tmp_path / "families.parquet").num_rows == len(rows)
    refused = run("groups", path, "--out", "families.txt")
    assert refused.code == 2
    assert ".parquet" in refused.err


def test_agreement_with_true_groups_is_measured(run: Run, tmp_path: Path) -> None:
    truth = {"a": 1, "b": 1, "c": 2, "d": 2}
    assert scores(truth, {"a": 5, "b": 5, "c": 7, "d": 7, "x": 5})["ari"] == 1
    assert scores(truth, {"a": 5, "b": 5})["homogeneity"] == 1  # c and d are groups of their own
    assert scores(truth, {"a": 5, "b": 5})["completeness"] < 1
    assert scores(truth, dict.fromkeys("abcd", 1))["homogeneity"] == 0
    lake = make_lake(tmp_path / "data" / "small" / "datalake", ["fish", "films", "tools"], 4)
    names = sorted(path.relative_to(lake).as_posix() for path in lake.rglob("*.*"))
    pairs = [(a, b) for a in names for b in names if a < b and subject_of(a) == subject_of(b)]
    write_pairs(lake.parent / "groundtruth_dev.csv", pairs)
    shown = run("bench", "run", "groups", "--data", tmp_path / "data", "--out", tmp_path / "results")
    assert "TF-IDF words, same graph" in shown.out
    document = json.loads((tmp_path / "results" / "groups.json").read_text())
    (found,) = document["lakes"]
    assert found["truth"] == {"tables": 12, "groups": 3}
    assert found["gentus"]["homogeneity"] == 1
