"""The layouts of public benchmarks, made small, and pickles that must not be trusted."""

from __future__ import annotations

import collections
import json
import os
import pickle
import sqlite3
import struct
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import rows_of, write_table

from gentus_bench.experiments.quality import Systems, compare
from gentus_bench.experiments.quality import tables as tables_of
from gentus_bench.lakes.benchmarks import Benchmark, find, recognise
from gentus_bench.lakes.safe_pickle import UnsafePickleError, load_plain, load_truth_pickle
from gentus_bench.lakes.truths import load_truth, resolved
from gentus_bench.published import AUTHORS, BENCHMARKS, FIGURES, K, figures, rows_for
from gentus_bench.results import Results

LAKE = {"fish_1.csv": 1, "fish_2.csv": 2, "films_1.csv": 3, "films_2.csv": 4}
PAIRS = [("fish_0.csv", "fish_1.csv"), ("fish_0.csv", "fish_2.csv"), ("films_0.csv", "films_1.csv")]
TRUTH = {"fish_0.csv": ["fish_1.csv", "fish_2.csv"], "films_0.csv": ["films_1.csv"]}


def tables(folder: Path, names: Iterable[str], rows: int = 8) -> None:
    for name in names:
        write_table(folder / name, rows_of(name.split("_")[0], len(name), rows))


def lake(folder: Path, name: str = "datalake", query: str | None = "query") -> Path:
    tables(folder / name, LAKE if query else [*LAKE, *TRUTH])
    if query:
        tables(folder / query, TRUTH)
    return folder


def dump(path: Path, truth: object = TRUTH) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(truth))
    return path


def pairs(path: Path, header: str = "query_table,candidate_table", more: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *(f"{query},{name}{more}" for query, name in PAIRS)]) + "\n")
    return path


def tus_original(root: Path) -> Path:
    folder = root / "small"
    for place, script in (
        (
            "data/benchmark.sqlite",
            "".join(f'create table "{n.removesuffix(".csv")}" (a, b);' for n in [*LAKE, *TRUTH]),
        ),
        (
            "groundtruth/groundtruth.sqlite",
            "create table att_groundtruth"
            " (query_table, candidate_table, query_col_name, candidate_col_name);"
            + "".join(
                f"insert into att_groundtruth values ('{q}', '{c}', 'x', '{x}');"
                for q, c in PAIRS
                for x in "ab"
            ),
        ),
    ):
        (folder / place).parent.mkdir(parents=True)
        with closing(sqlite3.connect(folder / place)) as database:
            database.executescript(script)
    return folder


def tus_starmie(root: Path) -> Path:
    folder = lake(root / "table-union-search-benchmark" / "large", "benchmark", "santos-query")
    bare = {q.removesuffix(".csv"): [c.removesuffix(".csv") for c in found] for q, found in TRUTH.items()}
    dump(folder / "tus-groundtruth" / "tusLabeledtusLargeUnionBenchmark", bare)  # without a suffix
    return folder


def tus_csv(root: Path) -> Path:
    folder = lake(root / "tus", "csv_benchmark", None)
    pairs(
        folder / "csv_groundtruth" / "att_groundtruth.csv",
        "query_table,candidate_table,query_col_name,candidate_col_name",
        ",a,b",
    )
    return folder


def tus_santos(root: Path) -> Path:
    dump(root / "santos" / "groundtruth" / "tusUnionBenchmark.pickle")
    return lake(root / "santos" / "benchmark" / "tus_benchmark", "dataLake")


def santos_zenodo(root: Path) -> Path:
    folder = lake(root / "santos_benchmark")
    path = folder / "santos_small_benchmark_groundtruth.csv"
    lines = [f"{at},{q},{c},0,name" for at, (q, c) in enumerate(PAIRS)]
    path.write_text(
        "\n".join([",query_table,data_lake_table,intent_column_index,intent_column_name", *lines])
    )
    return folder


def santos_repository(root: Path) -> Path:
    dump(root / "santos" / "groundtruth" / "santosUnionBenchmark.pickle")
    return lake(root / "santos" / "benchmark" / "santos_benchmark", "dataLake")


def santos_starmie(root: Path) -> Path:
    folder = lake(root / "santos")
    dump(folder / "santosUnionBenchmark.pickle")
    return folder


def santos_large(root: Path) -> Path:
    dump(root / "groundtruth" / "real_tablesUnionBenchmark.pickle")
    return lake(root / "benchmark" / "real_tables_benchmark")


def wiki_pickle(root: Path) -> Path:
    folder = lake(root / "wiki_union", "tables", None)
    dump(folder / "benchmark.pkl")
    return folder


def lakebench(root: Path, name: str, rows: int) -> Path:
    folder = lake(root / name, "datalake", "opendata_union_query")
    tables(folder / "datalake", ["fish_long.csv"], rows)
    # LakeBench's file has its header again in the middle.
    path = pairs(folder / "opendata_union_ground_truth.csv")
    path.write_text(path.read_text() + "query_table,candidate_table\n" + ",".join(PAIRS[0]) + "\n")
    return folder


def unified(root: Path) -> Path:
    folder = lake(root / "lb-opendata-1k")
    dump(folder / "benchmark.pkl", {q: [q, *found] for q, found in TRUTH.items()})  # with the query itself
    return folder


def webtable(root: Path) -> Path:
    folder = lake(root / "webtable", "tables", "webtable_union_query")
    pairs(folder / "groundtruth" / "webtable_union_ground_truth.csv")
    return folder


SHAPES: list[tuple[Callable[[Path], Path], str, int]] = [
    (tus_original, "TUS_small", 60),
    (tus_starmie, "TUS_large", 60),
    (tus_csv, "TUS_small", 60),
    (tus_santos, "TUS_small", 60),
    (santos_zenodo, "SANTOS_small", 10),
    (santos_repository, "SANTOS_small", 10),
    (santos_starmie, "SANTOS_small", 10),
    (santos_large, "SANTOS_large", 20),
    (wiki_pickle, "wiki_union", 40),
    (lambda root: lakebench(root, "opendata", 900), "LakeBench_1k", 60),
    (lambda root: lakebench(root, "opendata", 1200), "LakeBench_30k", 60),
    (lambda root: lakebench(root, "lb_30k", 9), "LakeBench_30k", 60),
    (unified, "LakeBench_1k", 60),
    (webtable, "LakeBench_webtable", 60),
]


@pytest.mark.parametrize(("make", "name", "k"), SHAPES)
def test_each_layout_is_recognised(make: Callable[[Path], Path], name: str, k: int, tmp_path: Path) -> None:
    folder = make(tmp_path)
    found = recognise(folder)
    assert (found.name, found.k) == (name, k)
    stems = {q: sorted(c) for q, c in _stems(found).items()}
    assert stems == {"fish_0": ["fish_1", "fish_2"], "films_0": ["films_1"]}
    assert found.evidence
    own = recognise(folder, k=3)
    assert own.k == 3


def _stems(found: Benchmark) -> dict[str, list[str]]:
    return {
        q.removesuffix(".csv"): [c.removesuffix(".csv") for c in names] for q, names in found.truth.items()
    }


def test_the_plain_layout_has_splits(tmp_path: Path) -> None:
    folder = lake(tmp_path / "mine", query=None)
    pairs(folder / "groundtruth.csv")
    assert recognise(folder).labels is None
    pairs(folder / "groundtruth_dev.csv")
    (folder / "groundtruth_train.csv").write_text("fish_1.csv,fish_2.csv\n")
    found = recognise(folder)
    assert (found.name, found.k, found.queries, found.truth) == ("mine", 10, None, TRUTH)
    assert found.labels == {"fish_1.csv": ["fish_2.csv"]}
    standard = recognise(folder.rename(tmp_path / "tus_tidy"))
    assert (standard.name, standard.k) == ("tus_tidy", 20)  # it is not TUS


def test_labelled_pairs_of_wiki_union(tmp_path: Path) -> None:
    folder = lake(tmp_path / "wiki_union" / "wiki-union", "tables", None)

    def pair(one: str, two: str, label: float) -> dict[str, Any]:
        return {"table1": {"filename": f"tables/{one}"}, "table2": {"filename": two}, "label": label}

    document = {
        "train": [pair("films_1.csv", "films_2.csv", 1), pair("fish_0.csv", "films_2.csv", 1)],
        "valid": [],
        "test": [*(pair(*names, 1) for names in PAIRS), pair("fish_0.csv", "films_1.csv", 0)],
    }
    (folder / "labels.json").write_text(json.dumps(document))
    found = recognise(tmp_path / "wiki_union")  # unpacked into a folder of nearly the same name
    assert (found.name, found.truth) == ("wiki_union", TRUTH)
    assert found.labels == {"films_1.csv": ["films_2.csv"]}  # nothing of a query that is scored
    assert "published figures do not compare" in found.notes[0]
    (folder / "labels.json").write_text('{"test": [{"table1": 1}]}')
    for place in (folder, folder.parent):
        with pytest.raises(ValueError, match="is not labelled pairs"):
            recognise(place)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        recognise(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"there are no tables\..*datalake.*santosUnionBenchmark.pickle"):
        recognise(tmp_path)
    folder = lake(tmp_path / "real_data_lake_benchmark")
    with pytest.raises(ValueError, match="there is datalake, but no ground truth"):
        recognise(folder)
    (folder / "real_data_lake_benchmark_query_tables.csv").write_text("query\nfish_0.csv\n")
    with pytest.raises(ValueError, match=r"put real_tablesUnionBenchmark.pickle beside it"):
        recognise(folder)
    pairs(tmp_path / "bare" / "groundtruth.csv")
    with pytest.raises(ValueError, match=r"there is groundtruth.csv, but no folder of tables"):
        recognise(tmp_path / "bare")


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("Query_Table,Data_Lake_Table\na,b\n", {"a": ["b"]}),
        ("query,candidate,unionable\na,b,1\na,c,0\n", {"a": ["b"]}),
        ("query_table,data_lake_table,manual_unionable\na,b,2\nc,d,False\n", {"a": ["b"]}),
        ("a.csv,b.csv\na.csv,b.csv\na.csv,a.csv\n\n", {"a.csv": ["b.csv"]}),
        ("\ufeffx,query_table,candidate_table\n1,a,b\n", {"a": ["b"]}),
    ],
)
def test_columns_of_ground_truths(text: str, truth: dict[str, list[str]], tmp_path: Path) -> None:
    path = tmp_path / "groundtruth.csv"
    path.write_text(text, encoding="utf-8")
    assert load_truth(path) == truth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("left,right,score\na,b,1\n", "one of query_table"),
        ("query_table,other\na,b\n", "has the columns query_table, other"),
        ("query_table,candidate_table\na\n", "line 2: no pair"),
        ("query_table,candidate_table\na,a\n", "no pair of two different tables"),
    ],
)
def test_ground_truths_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "groundtruth.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_truth(path)


def test_names_are_those_of_the_lake() -> None:
    there = ["deep/a.csv", "b.csv", "one/c.csv", "two/c.csv"]
    truth = {"b": ["a", "x/a.csv", "c", "gone.csv"]}
    assert resolved(truth, there, there) == {"b.csv": ["deep/a.csv", "c", "gone.csv"]}  # two are called c


# --- pickles ------------------------------------------------------------------------------------------


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


class Ordinary:
    pass


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_pickles_of_every_protocol(protocol: int, tmp_path: Path) -> None:
    filled: dict[str, list[str]] = collections.defaultdict(list)
    filled["q"].append("a")
    ordered = collections.OrderedDict(q={"b", "a"})
    for truth, expected in (
        (TRUTH, TRUTH),
        (filled, {"q": ["a"]}),
        (ordered, {"q": ["a", "b"]}),
        (
            {"q": frozenset("a"), "r": ("a", "b"), "s": ["b", "a", "b"]},
            {"q": ["a"], "r": ["a", "b"], "s": ["b", "a"]},
        ),
    ):
        path = tmp_path / "benchmark.pkl"
        path.write_bytes(pickle.dumps(truth, protocol))
        assert load_truth_pickle(path) == expected
        assert type(load_plain(path)) is dict


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_in_a_pickle_runs(protocol: int, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    path = tmp_path / "benchmark.pkl"
    path.write_bytes(pickle.dumps({"q": [Evil(marker)]}, protocol))
    with pytest.raises(UnsafePickleError, match=r"benchmark\.pkl needs (posix|nt)\.system"):
        load_truth_pickle(path)
    assert not marker.exists()
    pickle.loads(path.read_bytes())  # so it would have, had it been loaded blindly
    assert marker.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"c__builtin__\ngetattr\n(S'a'\nS'b'\ntR.",
        b"(S'touch x'\nios\nsystem\n.",  # INST
        b"cgentus.bench.safe_pickle\nload_plain\n.",
        b"ccollections\ndefaultdict\n}S'__defaults__'\n(I1\ntsb.",  # BUILD on what is allowed
        b"Pname\n.",
        b"\x80\x02\x82\x01.",  # an extension
        pickle.dumps(Ordinary()),
        b"\x80\x02}r" + struct.pack("<I", 0x7FFFFFFF) + b".",  # a memo of gigabytes
    ],
)
def test_other_ways_to_run_something_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "benchmark.pkl"
    path.write_bytes(data)
    with pytest.raises(UnsafePickleError):
        load_plain(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_tuples_that_take_forever_to_hash_are_refused(protocol: int, tmp_path: Path) -> None:
    bomb: tuple[Any, ...] = ("a", "b")
    for _ in range(60):
        bomb = (bomb, bomb)
    path = tmp_path / "benchmark.pkl"
    path.write_bytes(pickle.dumps([bomb], protocol))
    with pytest.raises(UnsafePickleError, match="uses a tuple again"):
        load_plain(path)


def test_numpy_is_refused_with_a_hint(tmp_path: Path) -> None:
    for value in ([np.str_("a")], np.array(["a"]), [np.int64(1)]):
        path = dump(tmp_path / "benchmark.pkl", {"q": value})
        with pytest.raises(UnsafePickleError, match=r"needs numpy\..*save plain lists of str"):
            load_plain(path)


def test_damaged_large_and_odd_pickles(tmp_path: Path) -> None:
    path = dump(tmp_path / "benchmark.pkl")
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="cut off or damaged"):
            load_plain(path)
    path.write_bytes(whole)
    with pytest.raises(UnsafePickleError, match="more than the 10 that are loaded"):
        load_plain(path, most_bytes=10)
    for odd, message in (
        (["a"], "holds a list"),
        ({1: ["a"]}, "the query 1 is no text"),
        ({"q": "a"}, "are a str, not a list"),
        ({"q": [1]}, "is no text"),
    ):
        with pytest.raises(ValueError, match=message):
            load_truth_pickle(dump(path, odd))


# --- measuring, and what is published --------------------------------------------------------------------


@pytest.mark.parametrize("make", [santos_zenodo, tus_original])
def test_one_benchmark_is_measured(make: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = make(tmp_path)
    if make is tus_original:
        with closing(sqlite3.connect(folder / "data" / "benchmark.sqlite")) as database:
            for name in [*LAKE, *TRUTH]:
                rows = rows_of(name.split("_")[0], len(name))[1:]
                table = name.removesuffix(".csv")
                database.executemany(f'insert into "{table}" values (?, ?)', [row[:2] for row in rows])
            database.commit()
    document = compare(recognise(folder), Systems(["tfidf-words"]), Results(tmp_path / "out"))
    assert document["lake"]["groundtruth"].startswith("Every table of the ground truth is there")
    assert document["rows"][0]["map"] == 1.0
    assert "| GenTUS (paper) (published) | 0.9" in tables_of(document)[0].markdown()


def labelled(folder: Path, name: str, found: Iterable[tuple[str, str]]) -> None:
    lines = ["query_table,candidate_table", *(",".join(pair) for pair in found)]
    (folder / name).write_text("\n".join(lines) + "\n")


def test_labels_name_no_query_that_is_scored(tmp_path: Path) -> None:
    """In neither direction, and how many did is said; the published ones stand beside them."""
    folder = lake(tmp_path / "small", query=None)
    labelled(folder, "groundtruth_dev.csv", [("fish_0.csv", "fish_1.csv"), ("films_0.csv", "films_1.csv")])
    train = [("fish_1.csv", "fish_0.csv"), ("fish_1.csv", "fish_2.csv"), ("films_0.csv", "films_2.csv")]
    labelled(folder, "groundtruth_train.csv", [*train, ("films_1.csv", "films_2.csv")])
    found = recognise(folder)
    assert found.labels == {"fish_1.csv": ["fish_2.csv"], "films_1.csv": ["films_2.csv"]}
    assert found.annotated == {"fish_1.csv": ["fish_0.csv", "fish_2.csv"], "films_1.csv": ["films_2.csv"]}
    (note,) = found.notes
    assert note == (
        "groundtruth_train.csv: 2 of its 4 pairs name a query of the ground truth and are left out; of 2"
        " pairs of the ground truth, 0 stand in it, 1 the other way round"
    )
    labelled(folder, "groundtruth_train_unseen.csv", [("fish_1.csv", "fish_2.csv")])
    assert recognise(folder).labels == {"fish_1.csv": ["fish_2.csv"]}  # preferred
    assert recognise(folder).annotated == found.annotated
    assert "unseen.csv: 0 of its 1 pairs" in recognise(folder).notes[1]
    labelled(folder, "groundtruth_train.csv", [("fish_1.csv", "fish_2.csv")])
    assert recognise(folder).annotated is None  # nothing else


@pytest.mark.parametrize("name", ["groundtruth.pickle", "groundtruth.pkl"])
def test_a_ground_truth_as_a_pickle_is_enough(tmp_path: Path, name: str) -> None:
    folder = lake(tmp_path / "mine")
    dump(folder / name)
    assert recognise(folder).truth == TRUTH


def test_a_digest_is_of_all_data(tmp_path: Path) -> None:
    folder = lake(tmp_path / "small")
    pairs(folder / "groundtruth_dev.csv")
    seen = [recognise(folder).digest]
    assert recognise(folder).digest == seen[0]
    for change in (
        lambda: (folder / "datalake" / "films_2.csv").unlink(),
        lambda: write_table(folder / "datalake" / "fish_1.csv", rows_of("fish", 3, 5)),
        lambda: os.utime(folder / "query" / "fish_0.csv", (1, 1)),
        lambda: labelled(folder, "groundtruth_train.csv", [("fish_1.csv", "fish_2.csv")]),
        lambda: labelled(folder, "groundtruth_dev.csv", PAIRS[:2]),
    ):
        change()
        seen.append(recognise(folder).digest)
    assert len(set(seen)) == len(seen)


def test_one_folder_or_a_folder_of_lakes(tmp_path: Path) -> None:
    for name in ("tus_tidy", "ugen_v1"):
        folder = lake(tmp_path / "data" / name, query="query" if name == "ugen_v1" else None)
        pairs(folder / "groundtruth_dev.csv")
    (tmp_path / "data" / "other").mkdir()
    found = {one.name: one.k for one in find(tmp_path / "data")}
    assert found == {"tus_tidy": 20, "ugen_v1": 10}
    assert [one.name for one in find(tmp_path / "data", ["ugen_v1"])] == ["ugen_v1"]
    assert [(one.name, one.k) for one in find(tmp_path / "data" / "ugen_v1", k=3)] == [("ugen_v1", 3)]
    with pytest.raises(ValueError, match="no benchmark"):
        list(find(tmp_path / "data" / "other"))


def test_published_figures() -> None:
    others = {"SANTOS_small": 10, "SANTOS_large": 20, "wiki_union": 40}
    assert {name: K[name] for name in BENCHMARKS} == dict.fromkeys(BENCHMARKS, 60) | others
    rows = {row["method"]: row for row in rows_for("wiki_union")}
    assert (rows["TACTUS"]["map"], rows["TACTUS"]["precision"], rows["TACTUS"]["recall"]) == (
        0.654,
        0.624,
        0.507,
    )
    assert rows["GenTUS (paper)"]["map"] == 0.704
    assert len(rows) == 6
    authors = {row["method"]: row["map"] for row in rows_for("ugen_v2")}
    assert authors == {"Starmie": 0.480, "SANTOS": 0.248, "D3L": 0.068}
    sources = {row["method"]: row["table"] for row in rows_for("SANTOS_small")}
    assert (sources["SANTOS"], sources["Starmie"]) == (AUTHORS, "tab:main")
    assert rows_for("mine") == []
    assert len(figures(table="tab:main")) == 7 * 6 * 3
    assert len(figures(table="tab:robustness")) == 2 * 4 * 5
    assert len(figures(table="tab:abl-sid")) == len(figures(table="tab:prefix-decoding")) == 28
    assert {one["source"] for one in figures("TUS_small")} == {"published"}
    assert all(one.benchmark in BENCHMARKS for one in FIGURES)
    deviations = [one.std for one in FIGURES if one.std is not None]
    assert len(deviations) == 21
    full = {(one.benchmark, one.method): one.value for one in FIGURES if one.setting == "7,970 tables"}
    main = {
        (one.benchmark, one.method): one.value
        for one in FIGURES
        if one.table == "tab:main" and one.metric == "map"
    }
    assert {method for (_, method), value in full.items() if main[_, method] != value} == {"TACTUS"}
