"""Building, searching, resuming: the index as a program uses it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, cast

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, SLICES, SUBJECTS, make_lake, rows_of, subject_of, write_pairs, write_table

import gentus
from gentus.arrays import F32, I64
from gentus.index import ingest as reading
from gentus.index import stages
from gentus.index.build import BuildOptions
from gentus.index.catalogue import Catalogue, Entry
from gentus.index.folder import IndexFolderError, Layout, next_generation, read_config, write_lock
from gentus.index.hits import Hit
from gentus.index.index import Index
from gentus.index.queries import QueryInput
from gentus.lake import Limits, Source, Unreadable, reader
from gentus.lake.sandbox import pool as parallel
from gentus.neighbours import graph as neighbours
from gentus.progress import Progress, Step
from gentus.table import Table
from gentus.union import PlanError


def build(lake: Path, index: Path, labels: Path | None = None, **options: Unpack[BuildOptions]) -> Index:
    chosen: BuildOptions = {"settings": QUICK, "workers": 0, **options}
    return gentus.build(lake, index, labels, **chosen)


def sids(index: Index) -> dict[str, tuple[bytes, int]]:
    found = index.catalogue.db.execute("SELECT name, codes, suffix FROM tables WHERE codes IS NOT NULL")
    return {name: (codes, suffix) for name, codes, suffix in found}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A lake of six tables that a test may change."""
    return make_lake(tmp_path / "lake", ["cities", "fish"], 3)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables that builds read, in order."""
    names: list[str] = []
    examine = reading.examine

    def counting(found: Sequence[tuple[Source, Table]]) -> object:
        names.extend(table.name for _, table in found)
        return examine(found)

    monkeypatch.setattr(reading, "examine", counting)
    return names


class Interrupting(Progress):
    """Presses Ctrl-C when a stage has done this much."""

    def __init__(self, stage: str, after: int) -> None:
        self.title, self.left = stage, after

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        def tick(done: int, effort: float | None = None, /) -> None:
            self.left -= done
            if self.left <= 0:
                raise KeyboardInterrupt

        yield tick if title == self.title else lambda done, effort=None: None


# --- searching ----------------------------------------------------------------------------------------


def test_answers_are_of_the_querys_subject_and_never_the_query(index: Index) -> None:
    right = 0
    for name, source in index.sources().items():
        hits = index.search(source.path, k=SLICES - 1)
        assert len(hits) == SLICES - 1
        assert [hit.rank for hit in hits] == list(range(1, SLICES))
        assert all(0 <= hit.score <= 1 and hit.fit == "full" for hit in hits)
        assert all(
            -1 <= hit.generated <= 1 and re.fullmatch(r"\d+(-\d+){15}(\+\d+)?", hit.sid) for hit in hits
        )
        assert name not in {hit.table for hit in hits}
        assert all(Path(hit.path).is_file() and hit.path.endswith(hit.table) for hit in hits)
        right += sum(subject_of(hit.table) == subject_of(name) for hit in hits)
    assert right / (len(index) * (SLICES - 1)) > 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda rows, folder: write_table(folder / "new table.csv", rows),
        lambda rows, folder: str(write_table(folder / "neu_ü.semicolon.csv", rows)),
        lambda rows, folder: write_table(folder / "new.parquet", rows),
        lambda rows, folder: write_table(folder / "new.jsonl", rows),
        lambda rows, folder: write_table(folder / "new.csv.gz", rows),
        lambda rows, folder: pl.DataFrame(rows[1:], schema=rows[0], orient="row"),
        lambda rows, folder: pd.DataFrame(rows[1:], columns=rows[0]),
        lambda rows, folder: pa.table(
            dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))
        ),
        lambda rows, folder: pl.DataFrame(rows[1:], schema=rows[0], orient="row").lazy(),
        lambda rows, folder: pa.table(
            dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))
        ).to_reader(),
        lambda rows, folder: duckdb.connect().read_csv(str(write_table(folder / "new.csv", rows))),
    ],
    ids=[
        *("csv", "str", "parquet", "jsonl", "gzip", "polars", "pandas", "arrow"),
        *("lazy", "stream", "duckdb"),
    ],
)
def test_any_kind_of_table_is_a_query(
    index: Index, tmp_path: Path, make: Callable[[list[list[str]], Path], QueryInput]
) -> None:
    hits = index.search(make(rows_of("birds", 99), tmp_path), k=SLICES)
    assert sum(subject_of(hit.table) == "birds" for hit in hits) >= SLICES - 1


def test_several_queries_give_several_answers(index: Index, lake: Path) -> None:
    paths: list[QueryInput] = [lake / "fish_0.csv", str(lake / "tools_0.csv")]
    both = index.search(paths, k=3)
    assert [subject_of(hits[0].table) for hits in both] == ["fish", "tools"]
    assert index.search([]) == []


def test_a_list_of_queries_is_answered_as_each_of_them_is(index: Index, lake: Path) -> None:
    queries = sorted(lake.rglob("*.csv"))[:7]
    several = index.search(queries, k=4)
    assert len(several) == len(queries)
    for query, answer in zip(queries, several, strict=True):
        alone = index.search(query, k=4)
        assert [hit.table for hit in answer] == [hit.table for hit in alone]
        assert [hit.score for hit in answer] == pytest.approx([hit.score for hit in alone], abs=1e-5)


def test_the_query_is_known_by_any_of_its_paths(
    index: Index, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.csv").symlink_to(lake / "fish_0.csv")
    (tmp_path / "linked lake").symlink_to(lake)
    monkeypatch.chdir(lake / "deep")
    for path in ("../fish_0.csv", tmp_path / "link.csv", tmp_path / "linked lake" / "fish_0.csv"):
        names = [hit.table for hit in index.search(path, k=len(index))]
        assert "fish_0.csv" not in names
        assert len(names) == len(index) - 1
    copy = shutil.copy(lake / "fish_0.csv", tmp_path / "copy.csv")
    best = index.search(copy, k=1)[0]
    assert best.table == "fish_0.csv"  # a copy elsewhere is another table
    assert best.score > 0.9


def test_k_from_one_to_more_than_there_are(index: Index, lake: Path) -> None:
    query = lake / "birds_0.csv"
    assert len(index.search(query, k=1)) == 1
    assert len(index.search(query, k=1000)) == len(index) - 1 == len(SUBJECTS) * SLICES - 1
    assert len(index.search(query, k=2, beam=1)) <= 2
    for k in (0, -1):
        with pytest.raises(ValueError, match="at least one"):
            index.search(query, k=k)


def test_what_cannot_be_a_query_says_why(index: Index, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    for query, reason in (
        (tmp_path / "empty.csv", "empty"),
        (tmp_path / "none.csv", "no file"),
        (tmp_path, "folder"),
        (cast(QueryInput, 42), "int is no table"),
        (pl.DataFrame({"a": []}), "no rows"),
    ):
        with pytest.raises(Unreadable, match=reason):
            index.search(query)


def test_a_table_that_is_a_link_out_of_the_lake_now_is_not_read(small: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("name,kind\ntop,secret\n")
    (small / "more").mkdir()
    shutil.copy(small / "fish_0.csv", small / "more" / "fish_9.csv")
    with gentus.build(small, tmp_path / "index", settings=QUICK, workers=1) as index:
        (small / "fish_0.csv").unlink()
        (small / "fish_0.csv").symlink_to(tmp_path / "secret.csv")
        shutil.rmtree(small / "more")
        (tmp_path / "elsewhere").mkdir()
        shutil.copy(tmp_path / "secret.csv", tmp_path / "elsewhere" / "fish_9.csv")
        (small / "more").symlink_to(tmp_path / "elsewhere")
        for name in ("fish_0.csv", "more/fish_9.csv"):
            shown = index.describe(name)
            assert "a link that leads out of the lake" in (shown.missing or "")
            assert shown.columns == []
            for read in (
                lambda name=name: index.search(name),
                lambda name=name: index.read(index.sources()[name]),
                lambda name=name: index.align(name, "cities_0.csv"),
                lambda name=name: index.align("cities_0.csv", name),
                lambda name=name: index.union(name, "cities_0.csv").preview(),
                lambda name=name: index.union("cities_0.csv", name).preview(),
            ):
                with pytest.raises((Unreadable, PlanError), match="a link that leads out of the lake"):
                    read()
        union = index.union("cities_0.csv", index.search("cities_0.csv", k=9), fit="any")
        left = {one.table for one in union.plan.left_out}
        assert {"fish_0.csv", "more/fish_9.csv"} <= left


def test_an_index_tells_what_it_is(index: Index, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    info = index.info()
    assert (info["tables"], info["skipped"], info["levels"]) == (len(index), 0, 16)
    assert info["lake"] == str(lake.resolve())
    assert json.loads(json.dumps(info)) == info
    assert index.tables() == sorted(path.relative_to(lake).as_posix() for path in lake.rglob("*.*"))
    assert "36 tables" in repr(index)
    hit = index.search(lake / "fish_0.csv", k=1)[0]
    assert isinstance(hit, Hit)
    assert set(hit.to_dict()) >= {"rank", "table", "score", "sid"}


def test_the_lake_may_be_named_in_any_way(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("lake")
    names = None
    for lake in ("lake", "./lake/", "../" + tmp_path.name + "/lake", "link"):
        with gentus.build(lake, "an index/", settings=QUICK, workers=1) as index:
            names = names or index.tables()
            assert index.tables() == names
            assert len(index.search("lake/fish_0.csv")) == len(index) - 1 == 5
    assert len(list((tmp_path / "an index").glob("model-*"))) == 1


def test_links_sheets_and_databases_are_never_their_own_answer(small: Path, tmp_path: Path) -> None:
    (small / "linked.csv").symlink_to("fish_0.csv")
    pd.DataFrame(rows_of("fish", 7)[1:]).to_excel(small / "book.xlsx", index=False)
    with sqlite3.connect(small / "base.db") as db:
        pd.DataFrame(rows_of("fish", 8)[1:]).to_sql("only", db, index=False)
    db.close()
    with build(small, tmp_path / "index") as index:
        assert {"linked.csv", "book.xlsx/Sheet1", "base.db/only"} <= set(index.tables())
        for query, own in (
            ("linked.csv", {"linked.csv", "fish_0.csv"}),
            ("fish_0.csv", {"linked.csv", "fish_0.csv"}),
            ("book.xlsx", {"book.xlsx/Sheet1"}),
            ("base.db", {"base.db/only"}),
        ):
            found = {hit.table for hit in index.search(small / query, k=99)}
            assert found == set(index.tables()) - own
        truth = write_pairs(tmp_path / "t.csv", [("base.db/only", "fish_0.csv")])
        from gentus.index.evaluate import evaluate_index

        report = evaluate_index(index, truth, 5)
        assert report.check.ok
        assert report.metrics.recall == 1


def test_a_database_is_a_lake(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "lake.db") as db:
        for subject in ("fish", "cities"):
            for i in range(2):
                header, *rows = rows_of(subject, i)
                pd.DataFrame(rows, columns=header).to_sql(f"{subject}_{i}", db, index=False)
    db.close()
    with build(tmp_path / "lake.db", tmp_path / "index") as index:
        assert index.tables() == ["cities_0", "cities_1", "fish_0", "fish_1"]
        hits = index.search(index.sources()["fish_0"], k=3)
        assert "fish_0" not in [hit.table for hit in hits]
        assert len(hits) == 3


# --- small, bad and odd lakes -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
def test_tiny_lakes(tmp_path: Path, count: int) -> None:
    for i in range(count):
        write_table(tmp_path / "lake" / f"fish_{i}.csv", rows_of("fish", i))
    with build(tmp_path / "lake", tmp_path / "index") as index:
        assert len(index) == count
        assert len(index.search(tmp_path / "lake" / "fish_0.csv")) == count - 1
        query = write_table(tmp_path / "q.csv", rows_of("fish", 9))
        assert len(index.search(query)) == count


def test_tables_alike_are_told_apart_by_suffixes(tmp_path: Path) -> None:
    for i in range(5):
        write_table(tmp_path / "lake" / f"{i}.csv", rows_of("fish", 0))
    with build(tmp_path / "lake", tmp_path / "index") as index:
        hits = index.search(tmp_path / "lake" / "0.csv")
        assert sorted(hit.table for hit in hits) == ["1.csv", "2.csv", "3.csv", "4.csv"]
        assert len({hit.sid for hit in hits}) == 4
        assert index.info()["codebook_statistics"]["largest_bucket"] == 5


@pytest.mark.parametrize("junk", [False, True])
def test_nothing_to_read_is_said(tmp_path: Path, junk: bool) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "picture.png").write_bytes(b"\x89PNG")
    if junk:
        (lake / "junk.parquet").write_bytes(b"junk")
    with pytest.raises(IndexFolderError, match="No table could be read") as caught:
        build(lake, tmp_path / "index")
    assert ("junk.parquet" in str(caught.value)) == junk
    with pytest.raises(IndexFolderError, match="not a finished index" if junk else "There is no index"):
        gentus.open(tmp_path / "index")


def test_no_lake_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no lake"):
        build(tmp_path / "none", tmp_path / "index")
    with pytest.raises(FileNotFoundError):
        build(tmp_path, tmp_path / "index", tmp_path / "no labels.csv")
    assert not (tmp_path / "index").exists()


def test_a_bad_file_costs_only_itself(small: Path, tmp_path: Path) -> None:
    (small / "empty.csv").touch()
    (small / "header.csv").write_text("a,b,c\n")
    (small / "junk.parquet").write_bytes(os.urandom(300))
    (small / "junk.csv.gz").write_bytes(b"\x1f\x8b" + os.urandom(300))
    (small / "broken.csv").symlink_to("nowhere.csv")
    (small / "cut.jsonl").write_text('{"a": 1, "b"')
    (small / "zeros.csv").write_bytes(bytes(500))
    (small / "junk.xlsx").write_bytes(b"PK junk")
    with open(os.fsencode(small) + b"/odd \xff name.csv", "w") as file:
        file.writelines(",".join(row) + "\n" for row in rows_of("fish", 20))
    for _ in range(2):
        with build(small, tmp_path / "index") as index:
            assert len(index) == 7
            skipped = dict(index.skipped())
            assert set(skipped) == {
                "empty.csv",
                "header.csv",
                "junk.parquet",
                "junk.csv.gz",
                "broken.csv",
                "cut.jsonl",
                "zeros.csv",
                "junk.xlsx",
            }
            assert all(skipped.values())
            hits = index.search(small / "fish_0.csv", k=3)
            assert any(hit.table == r"odd \xff name.csv" and os.path.exists(hit.path) for hit in hits)
            odd = next(hit.path for hit in hits if "odd" in hit.table)
            assert r"odd \xff name.csv" not in {hit.table for hit in index.search(odd)}


def test_what_was_in_the_way_may_be_gone(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(source: Source, limits: Limits) -> gentus.table.Table:
        if source.name == "fish_0.csv":
            raise Unreadable("no permission")
        return real(source, limits)

    real = reader.read
    monkeypatch.setattr(parallel, "read", forbidden)
    with build(small, tmp_path / "index") as index:
        assert index.skipped() == [("fish_0.csv", "no permission")]
    monkeypatch.setattr(parallel, "read", real)
    with build(small, tmp_path / "index") as index:
        assert index.skipped() == []
        assert len(index) == 6


def test_indexes_in_the_lake_are_no_part_of_it(small: Path) -> None:
    names = None
    for folder in ("index", "deep/other.index", "index"):
        with build(small, small / folder) as index:
            names = names or index.tables()
            assert len(names) == 6
            assert index.tables() == names
            assert index.skipped() == []
    with pytest.raises(IndexFolderError, match="the lake itself"):
        build(small, small)


def test_the_lake_may_lie_in_the_index_folder(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake", ["fish"], 3)
    with build(tmp_path / "lake", tmp_path) as index:
        assert len(index) == 3


# --- building again -----------------------------------------------------------------------------------


def test_only_what_changed_is_read_again(small: Path, tmp_path: Path, read: list[str]) -> None:
    build(small, tmp_path / "index").close()
    assert len(read) == 6
    read.clear()
    before = build(small, tmp_path / "index")
    assert read == []

    os.utime(small / "fish_0.csv", ns=(1, 1))  # touched
    write_table(small / "cities_0.csv", rows_of("cities", 50, 15))  # changed
    write_table(small / "new" / "fish_77.csv", rows_of("fish", 77))
    (small / "deep" / "er" / "fish_1.csv").unlink()
    with build(small, tmp_path / "index") as index:
        assert read == ["cities_0.csv", "new/fish_77.csv"]
        assert "deep/er/fish_1.csv" not in index.tables()
        assert len(index) == 6
        assert index.catalogue.tables.entries()["fish_0.csv"].mtime_ns == 1
        found = {hit.table for hit in index.search(small / "fish_0.csv")}
        assert found == set(index.tables()) - {"fish_0.csv"}
    # An index that was open all the time goes on answering, without the table that is gone.
    assert {hit.table for hit in before.search(small / "fish_0.csv")} <= found | {"deep/er/fish_1.csv"}
    before.close()
    left = {path.name for path in (tmp_path / "index").iterdir()}
    assert {name for name in left if name[0] in "mt"} == {"model-3.safetensors", "trie-3"}


def test_a_build_with_other_limits_reads_anew(small: Path, tmp_path: Path, read: list[str]) -> None:
    build(small, tmp_path / "index").close()
    read.clear()
    build(small, tmp_path / "index", settings=replace(QUICK, limits=Limits(rows=5))).close()
    assert len(read) == 6


def test_the_cache_may_be_deleted_or_damaged(small: Path, tmp_path: Path, read: list[str]) -> None:
    build(small, tmp_path / "index").close()
    shutil.rmtree(tmp_path / "index" / "cache")
    with gentus.open(tmp_path / "index") as index:
        assert index.search(small / "fish_0.csv")
    read.clear()
    build(small, tmp_path / "index").close()
    assert len(read) == 6
    chunk = next((tmp_path / "index" / "cache").iterdir())
    chunk.write_bytes(chunk.read_bytes()[:1000])
    with pytest.raises(IndexFolderError, match=f"{chunk.name} is damaged.*Delete it"):
        build(small, tmp_path / "index")
    chunk.unlink()
    build(small, tmp_path / "index").close()


def test_a_build_goes_on_where_it_stopped(
    small: Path, tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_CHUNK", 2)  # what is worked on together is stored or not
    with pytest.raises(KeyboardInterrupt):
        build(small, tmp_path / "index", progress=Interrupting("Reading tables", 4))
    assert len(read) == 4
    with pytest.raises(IndexFolderError, match=r"not finished.*gentus index"):
        gentus.open(tmp_path / "index")
    with pytest.raises(KeyboardInterrupt):
        build(small, tmp_path / "index", progress=Interrupting("Learning codes", 2))
    assert len(read) == len(set(read)) == 6
    with build(small, tmp_path / "index") as index, build(small, tmp_path / "fresh") as fresh:
        assert len(read) == 12
        assert sids(index) == sids(fresh)


@pytest.mark.parametrize("stage", ["Reading tables", "Encoding tables", "Learning codes"])
def test_the_old_index_answers_while_a_new_build_is_interrupted(
    small: Path, tmp_path: Path, stage: str
) -> None:
    query = write_table(tmp_path / "q.csv", rows_of("fish", 9))
    with build(small, tmp_path / "index") as index:
        before, names = index.search(query), index.tables()
        (small / "fish_0.csv").unlink()
        (small / "cities_0.csv").write_text("")
        for i in range(3):
            write_table(small / f"birds_{i}.csv", rows_of("birds", i))
        with pytest.raises(KeyboardInterrupt):
            build(small, tmp_path / "index", progress=Interrupting(stage, 2))
        for opened in (index, gentus.open(tmp_path / "index")):
            assert opened.search(query) == before
            assert opened.tables() == names
    with build(small, tmp_path / "index") as index:
        assert sorted(set(index.tables()) - set(names)) == ["birds_0.csv", "birds_1.csv", "birds_2.csv"]
        assert sorted(set(names) - set(index.tables())) == ["cities_0.csv", "fish_0.csv"]
        assert len(index.search(query)) == 7


def test_two_builds_at_once_do_not_mix(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gentus.index.writer.LOCK_TIMEOUT", 0.1)
    layout = Layout(tmp_path / "index")
    build(small, layout.root).close()
    with write_lock(layout), pytest.raises(IndexFolderError, match="another process"):
        build(small, layout.root)
    build(small, layout.root).close()
    assert next_generation(layout) == 3


def test_a_reader_follows_a_switch_that_happens_while_it_opens(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(small, tmp_path / "index").close()
    stale = read_config(Layout(tmp_path / "index"))
    build(small, tmp_path / "index").close()
    answers = [stale]
    monkeypatch.setattr(
        "gentus.index.opened.read_config", lambda layout: answers.pop() if answers else read_config(layout)
    )
    with gentus.open(tmp_path / "index") as index:
        assert index.config.generation == 2


def test_the_same_seed_gives_the_same_identifiers(small: Path, tmp_path: Path) -> None:
    first, second = (build(small, tmp_path / name, seed=7) for name in "ab")
    other = build(small, tmp_path / "c", seed=8)
    assert sids(first) == sids(second)
    for name in ("codes", "tables", "suffixes", "offsets", "symbols", "starts"):
        np.testing.assert_array_equal(
            getattr(first.decoder.trie, name), getattr(second.decoder.trie, name), strict=True
        )
    assert first.layout.model(1).read_bytes() == second.layout.model(1).read_bytes()
    assert other.layout.model(1).read_bytes() != first.layout.model(1).read_bytes()
    for index in (first, second, other):
        index.close()


def test_labels_are_taken_and_those_outside_counted(small: Path, tmp_path: Path) -> None:
    pairs = [
        ("fish_0.csv", "cities_0.csv"),
        ("fish_0.csv", "not there.csv"),
        ("gone.csv", "fish_0.csv"),
        ("fish_0.csv", "fish_0.csv"),
    ]
    labels = write_pairs(tmp_path / "labels.csv", pairs)
    with build(small, tmp_path / "index", labels) as index:
        facts = index.info()["labels"]
        assert (facts["pairs"], facts["pairs_outside_the_lake"]) == (1, 2)
    (tmp_path / "labels.csv").write_text("query_table,candidate_table\nonly one\n")
    with pytest.raises(ValueError, match="line 2"):
        build(small, tmp_path / "index", labels)


def test_labels_of_another_lake_are_refused_before_any_work(small: Path, tmp_path: Path) -> None:
    pairs = [("lake/fish_0.csv", "lake/cities_0.csv"), ("gone.csv", "fish_0.csv")]
    labels = write_pairs(tmp_path / "labels.csv", pairs)
    with pytest.raises(ValueError, match="none of its 2 pairs") as refused:
        build(small, tmp_path / "index", labels)
    assert not (tmp_path / "index").exists()
    assert "their queries, such as gone.csv, are not in" in str(refused.value)
    build(small, tmp_path / "index").close()
    with pytest.raises(ValueError, match="none of its 2 pairs"):
        gentus.refit(tmp_path / "index", labels)


def test_an_unknown_option_is_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unknown option colour"):
        gentus.build(small, tmp_path / "index", colour="red")  # type: ignore[call-arg]
    assert not (tmp_path / "index").exists()


# --- the folder ---------------------------------------------------------------------------------------


@pytest.fixture
def copied(index_path: Path, tmp_path: Path) -> Path:
    return shutil.copytree(index_path, tmp_path / "copy.index")


def test_an_index_may_be_moved(copied: Path, index: Index, lake: Path) -> None:
    with gentus.open(copied) as moved:
        assert moved.search(lake / "fish_0.csv") == index.search(lake / "fish_0.csv")


@pytest.mark.parametrize("read_only", [True, False])
def test_searching_a_folder_that_cannot_be_written(
    copied: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    for log in copied.glob("catalogue.sqlite-*"):
        log.unlink()
    before = sorted(copied.iterdir())
    monkeypatch.setattr(os, "access", lambda path, mode: not read_only)
    with gentus.open(copied) as index:
        assert index.search(lake / "fish_0.csv")
        assert (sorted(copied.iterdir()) == before) == read_only


def test_other_people_may_read_the_files(copied: Path) -> None:
    mode = (copied / "config.json").stat().st_mode
    assert all(path.stat().st_mode == mode for path in copied.rglob("*") if path.is_file())


def test_nothing_in_the_folder_is_a_pickle(index_path: Path) -> None:
    kinds = {path.suffix for path in index_path.rglob("*") if path.is_file()}
    assert kinds <= {
        ".json",
        ".sqlite",
        ".safetensors",
        ".npy",
        ".npz",
        ".lock",
        ".sqlite-wal",
        ".sqlite-shm",
    }


def test_many_names_at_once(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "c.sqlite", writable=True)
    with catalogue.transaction():
        catalogue.tables.put(Entry(f"{i}.csv", f"/lake/{i}.csv") for i in range(40_000))
    names = catalogue.tables.names(range(1, 40_001))
    assert len(names) == 40_000
    assert names[40_000][:2] == ("39999.csv", "/lake/39999.csv")
    with catalogue.transaction():
        catalogue.tables.purge()
        catalogue.tables.put([Entry("new.csv", "/lake/new.csv")])
    (found,) = catalogue.tables.names([40_000, 40_001]).items()  # no id comes twice
    assert (found[0], *found[1][:2]) == (40_001, "new.csv", "/lake/new.csv")
    catalogue.close()


def test_searching_imports_nothing_heavy(index_path: Path, lake: Path) -> None:
    code = (
        "import sys\n"
        "from gentus.app.cli.main import app\n"
        "try:\n    app()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'scipy', 'sklearn', 'transformers', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    arguments = ["search", str(index_path), str(lake / "fish_0.csv"), "--json"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["queries"][0]["results"]


def test_no_pickle_and_no_eval_in_the_source() -> None:
    forbidden = re.compile(
        r"\bimport pickle\b|\bpickle\.\w|\bmarshal\b|\bshelve\b|allow_pickle\s*=\s*True|torch\.load"
        r"|(?<![.\w])(eval|exec)\("
    )
    for path in Path(gentus.__file__).parent.rglob("*.py"):
        if path.name == "safe_pickle.py":
            continue  # reads names that others pickled, and refuses all else; it has tests of its own
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            code = line.split("#")[0]
            assert not forbidden.search(code), f"{path.name}:{number}: {line.strip()}"


def test_parquet_query_of_another_writer(index: Index, tmp_path: Path) -> None:
    header, *rows = rows_of("metals", 42)
    typed = pa.table(
        {name: list(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)}
    )
    typed = typed.set_column(2, "size", typed["size"].cast(pa.float64()))
    pq.write_table(typed, tmp_path / "typed.parquet", compression="zstd", row_group_size=3)
    assert subject_of(index.search(tmp_path / "typed.parquet", k=1)[0].table) == "metals"


def test_reading_processes_do_not_import_torch() -> None:
    code = "import sys, gentus.index.ingest; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_very_wide_table_finds_its_copies(small: Path, tmp_path: Path) -> None:
    """A query is encoded as the tables of the lake are, by some of its columns."""
    for number in range(3):
        cells = [[f"{'xyz'[number]}{i} {row * i % 7}" for i in range(1300)] for row in range(1, 9)]
        write_table(small / f"wide{number}.csv", [[f"{'abc'[number]} {i}" for i in range(1300)], *cells])
        write_table(tmp_path / f"copy{number}.csv", [[f"{'abc'[number]} {i}" for i in range(1300)], *cells])
    with build(small, tmp_path / "index") as index:
        for number in range(3):
            best, *_ = index.search(tmp_path / f"copy{number}.csv", k=2)
            assert best.table == f"wide{number}.csv"
            assert best.same_rows is not None
            assert best.generated > 0.95


def test_tables_with_very_many_columns_are_matched_on_some_of_them(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[int] = []
    match = neighbours.match_columns

    def watching(own: F32, columns: F32, starts: I64, *rest: Any) -> F32:
        widths.extend([len(own), int(np.diff(starts).max())])
        return match(own, columns, starts, *rest)

    monkeypatch.setattr(neighbours, "match_columns", watching)
    monkeypatch.setattr(stages, "FEW", 3)  # as in lakes of more tables
    for number in range(3):
        cells = [[f"gene{i} {number * row}" for i in range(600)] for row in range(1, 4)]
        write_table(small / f"wide{number}.csv", [[f"c{i}" for i in range(600)], *cells])
    with build(small, tmp_path / "index") as index:
        assert max(widths) == QUICK.fit_width
        assert {hit.table for hit in index.search(small / "wide0.csv", k=2)} == {"wide1.csv", "wide2.csv"}
