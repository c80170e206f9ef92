"""An index that lives: tables come, go and change; other identifiers stay, and readers see it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from conftest import QUICK, make_lake, rows_of, subject_of, write_pairs, write_table
from test_cli import Run, run

import gentus
from gentus.arrays import F32
from gentus.features.evidence import normalize
from gentus.identifiers.codebooks import held_out_error, learn_codebooks
from gentus.index import build as building
from gentus.index import ingest as reading
from gentus.index import updater as updating
from gentus.index.check import check
from gentus.index.engine import LocalEngine
from gentus.index.folder import IndexFolderError, Layout, read_config, write_lock
from gentus.index.index import Index
from gentus.index.stages import Run as BuildRun
from gentus.index.stages import draw_sample
from gentus.index.updater import Changes
from gentus.lake import Source, as_location
from gentus.progress import Progress
from gentus.retrieval.overlay import Overlay
from gentus.table import Table

__all__ = ["run"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return make_lake(tmp_path / "lake", subjects=("cities", "fish", "films"), slices=4)


@pytest.fixture
def path(lake: Path, tmp_path: Path, built: Path) -> Path:
    """An index of the lake: a copy of one that was built once, with the lake where it is now."""
    shutil.copytree(built, tmp_path / "index")
    with gentus.open(tmp_path / "index") as index:
        index.sync(lake)
    return tmp_path / "index"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("living")
    lake = make_lake(root / "lake", subjects=("cities", "fish", "films"), slices=4)
    gentus.build(lake, root / "index", settings=QUICK).close()
    return root / "index"


def sids(index: Index) -> dict[str, str]:
    """Every table's identifier, as its catalogue has it."""
    levels = index.config.levels
    found = index.catalogue.identifiers.select(levels)
    names = index.catalogue.tables.names(found.tables.tolist())
    return {
        names[table][0]: f"{codes.tolist()}+{suffix}"
        for table, codes, suffix in zip(
            found.tables.tolist(), found.codes, found.suffixes.tolist(), strict=True
        )
    }


def tables(index: Index, query: Path, k: int = 50) -> list[str]:
    return [hit.table for hit in index.search(query, k=k)]


def test_a_table_added_is_found_at_once_and_others_keep_their_identifiers(lake: Path, path: Path) -> None:
    with gentus.open(path) as index, gentus.open(path) as other:
        before = sids(index)
        new = write_table(lake / "fresh" / "fish_20.csv", rows_of("fish", 20))
        assert index.add(new) == Changes(added=["fresh/fish_20.csv"])
        assert "fresh/fish_20.csv" in tables(index, lake / "fish_0.csv")
        assert "fresh/fish_20.csv" in tables(other, lake / "fish_0.csv")  # opened before, told nothing
        assert len(other) == len(before) + 1
        assert {name: sid for name, sid in sids(index).items() if name in before} == before
        assert isinstance(other.decoder.trie, Overlay)
        # A query in the lake is never its own answer, also when it is new.
        assert "fresh/fish_20.csv" not in tables(index, new)
    with gentus.open(path) as again:
        assert "fresh/fish_20.csv" in again.tables()
        assert check(path) == []


def test_adding_twice_changes_nothing_and_a_changed_file_is_replaced(lake: Path, path: Path) -> None:
    with gentus.open(path) as index:
        before = sids(index)
        assert index.add(lake / "fish_0.csv") == Changes(unchanged=1)
        assert index.add([lake]) == Changes(unchanged=12)  # a whole folder
        write_table(lake / "fish_0.csv", rows_of("cities", 99))
        assert index.add(lake / "fish_0.csv") == Changes(replaced=["fish_0.csv"])
        after = sids(index)
        assert [name for name in before if before[name] != after[name]] == ["fish_0.csv"]
        near = [subject_of(name) for name in tables(index, lake / "fish_0.csv", k=3)]
        assert set(near) == {"cities"}


def test_equal_tables_get_suffixes_and_a_used_identifier_is_never_given_again(lake: Path, path: Path) -> None:
    rows = rows_of("films", 77)
    with gentus.open(path) as index:
        seen: set[str] = set()
        for turn in range(3):
            for twin in range(3):
                write_table(lake / f"twin_{twin}.csv", rows)
            index.add([lake / f"twin_{twin}.csv" for twin in range(3)])
            now = {name: sid for name, sid in sids(index).items() if name.startswith("twin")}
            assert len(set(now.values())) == 3, turn
            assert not seen & set(now.values()), turn
            seen |= set(now.values())
            assert {"twin_0.csv", "twin_1.csv", "twin_2.csv"} <= set(tables(index, lake / "films_0.csv"))
            index.remove(list(now))
            assert not {"twin_0.csv", "twin_1.csv", "twin_2.csv"} & set(tables(index, lake / "films_0.csv"))
            if turn == 1:
                assert index.compact()
        assert len({sid.split("+")[0] for sid in seen}) == 1  # same codes, nine suffixes


def test_a_table_is_coded_the_same_beside_any_others(tmp_path: Path) -> None:
    """Built and added alike: the tables coded with it tip no code over."""
    lake = tmp_path / "lake"
    names = [f"{subject}_{at}.csv" for subject in ("cities", "films", "fish") for at in range(60)]
    for at, name in enumerate(names):
        write_table(lake / name, rows_of(subject_of(name), at))
    # Tables that the fit sees are placed by the neighbour graph; so it sees few of them.
    settings = replace(QUICK, fit_columns=100)
    with gentus.build(lake, tmp_path / "index", settings=settings, workers=1) as index:
        fitted = {index.catalogue.tables.names([table])[table].name for table in _fitted(index)}
        copy: dict[str, str] = {}
        for at in range(0, len(names), 7):
            copies = tmp_path / f"copies {at}"
            copies.mkdir()
            copy |= {name: str(shutil.copy(lake / name, copies / name)) for name in names[at : at + 7]}
            index.add(copies)
        codes = {name: sid.split("+")[0] for name, sid in sids(index).items()}
        assert len(codes) == 2 * len(names)
        assert {name for name in names if codes[name] != codes[copy[name]]} <= fitted


def _fitted(index: Index) -> list[int]:
    """The tables that a fit of this index sees, by id."""
    lake, settings = as_location(index.config.lake), index.config.settings
    run = BuildRun(lake, index.layout, index.catalogue, settings, LocalEngine(), Progress())
    sample = draw_sample(run)
    return [int(table) for table in sample.tables[sample.chosen, 0]]


def test_removing_is_all_or_nothing(lake: Path, path: Path) -> None:
    with gentus.open(path) as index:
        with pytest.raises(
            ValueError, match=r"fish_O.csv \(did you mean fish_0.csv\?\). Nothing was removed"
        ):
            index.remove(["films_0.csv", "fish_O.csv"])
        assert "films_0.csv" in index.tables()
        assert index.remove(["films_0.csv", "fish_0.csv"]).removed == ["films_0.csv", "fish_0.csv"]
        assert "films_0.csv" not in index.tables()
        assert "films_0.csv" not in tables(index, lake / "cities_0.csv")


def test_everything_can_go_and_come_back(lake: Path, path: Path) -> None:
    with gentus.open(path) as index:
        names = index.tables()
        index.remove(names)
        assert (len(index), list(index.search(lake / "fish_0.csv"))) == (0, [])
        assert index.info()["drift"]["refit_advised"] is False  # twelve tables say nothing
        index.compact()
        assert (len(index), list(index.search(lake / "fish_0.csv"))) == (0, [])
        assert check(path) == []
        index.add(lake)
        assert index.tables() == names
        assert len(tables(index, lake / "fish_0.csv")) == 11


def test_compacting_changes_no_answer(lake: Path, path: Path) -> None:
    for seed in range(30, 36):
        write_table(lake / f"fish_{seed}.csv", rows_of("fish", seed))
    with gentus.open(path) as index, gentus.open(path) as other:
        index.add(lake)
        index.remove(["fish_0.csv", "cities_0.csv"])
        queries = sorted(lake.glob("*.csv"))
        before = [[(hit.table, hit.sid, hit.score) for hit in index.search(q, k=50)] for q in queries]
        assert index.compact()
        assert not index.compact()  # nothing left to do
        for one in (index, other):
            after = [[(hit.table, hit.sid, hit.score) for hit in one.search(q, k=50)] for q in queries]
            assert [sorted(found) for found in after] == [sorted(found) for found in before]
            assert not isinstance(one.decoder.trie, Overlay)
        assert check(path) == []
        assert len(list(path.glob("trie-*"))) == 1


def test_much_change_is_compacted_in_the_background(
    lake: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gentus.index.compactor.most_changes", lambda tables: 2)
    with gentus.open(path) as index:
        tree = index.config.tree
        index.remove(["fish_0.csv", "cities_0.csv", "films_0.csv"])
        deadline = time.monotonic() + 10
        while index.config.tree == tree and time.monotonic() < deadline:
            time.sleep(0.01)
            index.refresh()
        assert index.config.tree > tree
        index.add(lake / "fish_0.csv")
        assert "fish_0.csv" in index.tables()


# --- following a lake ----------------------------------------------------------------------------------


def test_sync_follows_a_lake(lake: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    examine = reading.examine

    def noted(found: Sequence[tuple[Source, Table]]) -> list[reading.Examined]:
        read.extend(table.name for _, table in found)
        return examine(found)

    monkeypatch.setattr(reading, "examine", noted)
    monkeypatch.setattr(updating, "LocalEngine", lambda: LocalEngine(0))  # here, where it can be watched
    with gentus.open(path) as index:
        before = sids(index)
        assert len(index.sync()) == 0
        os.utime(lake / "cities_0.csv", ns=(5, 5))
        write_table(lake / "films_0.csv", rows_of("fish", 55))
        write_table(lake / "new" / "fish_40.csv", rows_of("fish", 40))
        (lake / "fish_0.csv").unlink()
        (lake / "broken.parquet").write_bytes(b"PAR1 no")
        foreseen = index.sync(dry_run=True)
        assert sids(index) == before
        assert read == []
        changes = index.sync()
        for one in (foreseen, changes):
            assert (one.added[-1:], one.replaced) == (["new/fish_40.csv"], ["films_0.csv"])
            assert (one.removed, one.unchanged) == (["fish_0.csv"], 10)
        assert list(changes.unreadable) == ["broken.parquet"]
        assert sorted(read) == ["films_0.csv", "new/fish_40.csv"]
        after = sids(index)
        assert {name for name in before if after.get(name) != before[name]} == {"films_0.csv", "fish_0.csv"}
        assert index.catalogue.tables.entries()["cities_0.csv"].mtime_ns == 5
        assert "broken.parquet" in dict(index.skipped())
        assert len(index.sync()) == 0
        # A table that was there and cannot be read any more is not an answer any more.
        (lake / "films_0.csv").write_bytes(b"")
        lost = index.sync()
        assert list(lost.unreadable) == ["films_0.csv", "broken.parquet"]  # new ones first
        assert lost.still_unreadable == 1
        assert (lost.removed, lost.added, lost.replaced) == (["films_0.csv"], [], [])
        assert "films_0.csv" not in index.tables()
        assert check(path) == []
        # Only reading shows whether it is readable again; it is then one table more.
        write_table(lake / "films_0.csv", rows_of("films", 0))
        foreseen = index.sync(dry_run=True)
        assert (len(foreseen), list(foreseen.unreadable)) == (0, ["broken.parquet", "films_0.csv"])
        assert foreseen.still_unreadable == 2
        found = index.sync()
        assert (found.added, found.replaced, list(found.unreadable)) == (
            ["films_0.csv"],
            [],
            ["broken.parquet"],
        )


def test_of_very_many_changes_some_are_named_and_all_are_counted(
    run: Run, lake: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updating, "MOST_NAMES", 2)
    for seed in range(40, 45):
        write_table(lake / f"fish_{seed}.csv", rows_of("fish", seed))
        (lake / f"broken_{seed}.parquet").write_bytes(b"PAR1 no")
    for name in ("cities_0.csv", "films_0.csv", "fish_0.csv"):
        (lake / name).unlink()
    told = run("sync", path, "--json").json()
    assert (told["added"], told["removed"]) == (
        ["fish_40.csv", "fish_41.csv"],
        ["cities_0.csv", "films_0.csv"],
    )
    assert list(told["unreadable"]) == ["broken_40.parquet", "broken_41.parquet"]
    assert told["unnamed"] == {"added": 3, "removed": 1, "unreadable": 3}
    with gentus.open(path) as index:
        assert len(index) == 12 + 5 - 3
    for seed in range(40, 45):
        (lake / f"fish_{seed}.csv").unlink()
        (lake / f"broken_{seed}.parquet").unlink()
    ran = run("sync", path, "--dry-run")
    assert ran.out.splitlines() == ["- fish_40.csv", "- fish_41.csv", "- and 3 more"]
    assert "5 would be removed, 9 unchanged (" in ran.err


def test_an_unmounted_lake_does_not_empty_the_index(lake: Path, path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with gentus.open(path) as index:
        with pytest.raises(ValueError, match=r"12 of 12 tables are not in .*mounted"):
            index.sync(tmp_path / "empty")
        assert len(index) == 12
        with pytest.raises(FileNotFoundError, match="mounted"):
            index.sync(tmp_path / "nowhere")
        assert len(index.sync(tmp_path / "empty", force=True).removed) == 12


# --- what cannot be listed is not gone ------------------------------------------------------------------

HOLD_DUCKDB = "import duckdb; held = duckdb.connect(path)"
HOLD_SQLITE = (
    "import sqlite3; held = sqlite3.connect(path, isolation_level=None);"
    " held.execute('PRAGMA locking_mode = EXCLUSIVE'); held.execute('BEGIN EXCLUSIVE');"
    " held.execute('CREATE TABLE new (a)'); held.execute('COMMIT')"
)


@contextmanager
def held(path: Path, how: str) -> Iterator[int]:
    """Another process that holds a database; its id."""
    code = f"import sys, time; path = sys.argv[1]; {how}; print('held', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process.pid
        finally:
            process.kill()


def databases(folder: Path) -> tuple[Path, Path]:
    """A DuckDB and an SQLite file of twelve tables each."""
    folder.mkdir(exist_ok=True)
    paths = folder / "shop.duckdb", folder / "shop.sqlite"
    with duckdb.connect(str(paths[0])) as duck, closing(sqlite3.connect(paths[1])) as lite:
        lite.execute("PRAGMA journal_mode = WAL")
        for number in range(12):
            duck.execute(f"CREATE TABLE t{number} AS SELECT range AS id, 'n' || range AS name FROM range(9)")
            lite.execute(f"CREATE TABLE t{number} (id, name)")
            lite.executemany(f"INSERT INTO t{number} VALUES (?, ?)", [(n, f"n{n}") for n in range(9)])
        lite.commit()
    return paths


@pytest.mark.parametrize("one_file", [False, True])
def test_a_database_that_another_process_holds_is_not_gone(tmp_path: Path, one_file: bool) -> None:
    """The report names the lock, and the process where the database says it."""
    duck, lite = databases(tmp_path / "lake")
    lake = duck if one_file else tmp_path / "lake"
    with gentus.build(lake, tmp_path / "index", settings=QUICK, workers=1) as index:
        before = sids(index)
        with held(duck, HOLD_DUCKDB) as process, held(lite, HOLD_SQLITE):
            for dry_run in (True, False):
                changes = index.sync(dry_run=dry_run)
                assert (len(changes), changes.unchanged) == (0, len(before))
                assert not changes.needs_force
                assert f"PID {process}" in changes.unreadable["shop.duckdb"]
                if not one_file:
                    assert "another process holds it locked" in changes.unreadable["shop.sqlite"]
            assert sids(index) == before
        assert index.sync().removed == []
        assert before.items() <= sids(index).items()
        assert "shop.duckdb" not in dict(index.skipped())


def test_files_and_folders_that_cannot_be_listed_are_not_gone(
    tmp_path: Path, lake: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duck, lite = databases(lake)
    with gentus.open(path) as index:
        assert len(index.sync().added) == 24
        before = sids(index)
        inner = lake / "deep"
        assert inner.is_dir()
        good, usual = duck.read_bytes(), os.scandir
        with monkeypatch.context() as patch:
            duck.write_bytes(b"PK" + good[2:])  # damaged

            def refused(folder: str | os.PathLike[str] = ".") -> Any:
                if Path(folder) == inner:
                    raise PermissionError(13, "Permission denied", str(folder))
                return usual(folder)

            patch.setattr(os, "scandir", refused)
            lite.rename(tmp_path / "elsewhere")
            lite.symlink_to(tmp_path / "not mounted")
            changes = index.sync()
            assert (changes.removed, changes.unchanged) == ([], len(before))
            assert changes.unreadable.keys() == {"shop.duckdb", "shop.sqlite", "deep"}
            assert changes.unreadable["deep"].startswith("no permission")
            assert sids(index) == before
        duck.write_bytes(good)
        lite.unlink()
        changes = index.sync()  # now its tables are gone
        assert sorted(changes.removed) == sorted(name for name in before if name.startswith("shop.sqlite/"))
        with duckdb.connect(str(duck)) as connection:
            for number in range(12):
                connection.execute(f"DROP TABLE t{number}")
        assert len(index.sync(force=True).removed) == 12


def test_a_lake_that_moved_is_followed(lake: Path, path: Path, tmp_path: Path) -> None:
    with gentus.open(path) as index:
        before = sids(index)
        lake.rename(tmp_path / "moved")
        assert len(index.sync(tmp_path / "moved")) == 0
        assert sids(index) == before
        assert index.config.lake == str(tmp_path / "moved")
        assert "fish_0.csv" not in tables(index, tmp_path / "moved" / "fish_0.csv")


def test_a_lake_that_moved_behind_a_link_is_the_same(lake: Path, path: Path, tmp_path: Path) -> None:
    """The index is not damaged, and a table is known by both of its paths."""
    moved = lake.rename(tmp_path / "moved")
    lake.symlink_to(moved)
    with gentus.open(path) as index:
        before = sids(index)
        for folder in (lake, moved):
            assert "fish_0.csv" not in tables(index, folder / "fish_0.csv")
        assert "fish_0.csv" not in [hit.table for hit in index.search("fish_0.csv", k=20)]
        assert index.describe("fish_0.csv").rows
        assert index.align("fish_0.csv", "films_0.csv") is not None
        assert index.union("fish_0.csv", "deep/er/fish_1.csv").to_arrow().num_rows
        assert check(path) == []
        write_table(moved / "fish_9.csv", rows_of("fish", 9))
        assert index.add(lake / "fish_9.csv").added == ["fish_9.csv"]
        for folder in (lake, moved):
            assert "fish_9.csv" not in tables(index, folder / "fish_9.csv")
        index.remove("fish_9.csv")
        (moved / "fish_9.csv").unlink()
        assert (len(index.sync()), sids(index)) == (0, before)
        assert (index.config.lake, check(path)) == (str(moved), [])


def test_a_sync_with_another_lake_that_is_stopped_leaves_an_index_of_it(
    lake: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_lake(tmp_path / "other", subjects=("birds",), slices=2)
    kept = write_table(other / "fish_0.csv", rows_of("fish", 0))
    with gentus.open(path) as index:
        with monkeypatch.context() as patch:
            patch.setattr("gentus.index.ingest.Ingest.read_sources", _stop)
            with pytest.raises(KeyboardInterrupt):
                index.sync(other, force=True)
        index.refresh()
        assert index.config.lake == str(other)
        assert check(path) == []
        assert index.align(kept, "fish_0.csv").pairs
        with pytest.raises(gentus.GentusError, match="no longer there"):
            index.align(kept, "deep/er/fish_1.csv")
        index.sync(force=True)
        assert sorted(index.tables()) == ["birds_0.csv", "deep/er/birds_1.csv", "fish_0.csv"]


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_tables_from_outside_the_lake_stay(lake: Path, path: Path, tmp_path: Path) -> None:
    outside = write_table(tmp_path / "elsewhere" / "fish_60.csv", rows_of("fish", 60))
    with gentus.open(path) as index:
        assert index.add(outside).added == [str(outside)]
        index.sync()
        assert str(outside) in tables(index, lake / "fish_0.csv")
    gentus.build(lake, path, settings=QUICK).close()
    with gentus.open(path) as index:
        assert str(outside) in index.tables()
        index.remove(str(outside))
        assert len(index) == 12


def test_what_an_interrupted_build_had_read_is_named_by_a_sync(
    lake: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(lake / "fish_0.csv", rows_of("cities", 3))
    write_table(lake / "fish_90.csv", rows_of("fish", 90))

    def stopped(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "fit", stopped)
    with gentus.open(path) as index:
        before = sids(index)
        with pytest.raises(KeyboardInterrupt):
            gentus.build(lake, path, settings=QUICK)
        assert sids(index) == before
        index.sync()
        after = sids(index)
        assert after.keys() - before.keys() == {"fish_90.csv"}
        assert [name for name in before if before[name] != after[name]] == ["fish_0.csv"]


# --- several at once -----------------------------------------------------------------------------------


def test_a_second_writer_is_told(lake: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gentus.open(path) as index:
        held = threading.Event()
        release = threading.Event()

        def hold() -> None:
            with write_lock(Layout(path)):
                held.set()
                release.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        try:
            monkeypatch.setattr("gentus.index.writer.LOCK_TIMEOUT", 0.1)
            with pytest.raises(IndexFolderError, match="being changed by another process"):
                index.remove("fish_0.csv")
            assert tables(index, lake / "cities_0.csv")
        finally:
            release.set()
            thread.join()
        index.remove("fish_0.csv")


# --- drift and refit -----------------------------------------------------------------------------------


def test_drift_is_told_in_plain_words(lake: Path, path: Path, run: Run) -> None:
    assert "0 tables added or changed, 0 removed or changed. No refit is needed" in run("info", path).out
    strange = lake / "strange"
    for seed in range(24):
        chance = np.random.default_rng(seed)
        rows = [[f"{chance.integers(1 << 60):x}" for _ in range(9)] for _ in range(12)]
        write_table(strange / f"hex_{seed}.csv", [[f"c{i}" for i in range(9)], *rows])
    ran = run("sync", path)
    assert "24 added" in ran.err
    assert "A refit is advised: " in ran.err
    assert f"gentus refit {path}" in ran.err
    drift = run("info", path, "--json").json()["drift"]
    assert drift["added"] == 24
    assert drift["refit_advised"]
    assert "24 tables were added to the 12 it was learnt from" in drift["reasons"]


def test_refit_learns_anew_without_reading(
    lake: Path, path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(40, 46):
        write_table(lake / f"fish_{seed}.csv", rows_of("fish", seed))
    with gentus.open(path) as index:
        index.add(lake)
        index.remove(["cities_0.csv"])
        before = sids(index)
        read: list[str] = []
        monkeypatch.setattr(reading, "examine", lambda found: read.extend(table.name for _, table in found))
        ran = run("refit", path, "--json")
        assert ran.code == 0, ran.err
        assert read == []
        facts = ran.json()
        assert facts["tables"] == 17
        assert (facts["drift"]["added"], facts["drift"]["removed"]) == (0, 0)
        after = sids(index)
        assert after.keys() == before.keys()
        assert after != before
        assert "fish_40.csv" in tables(index, lake / "fish_0.csv")  # opened before the refit
        assert "cities_0.csv" not in index.tables()
        assert index.config.settings == read_config(Layout(path)).settings
        assert check(path) == []


def test_refit_reads_what_the_cache_has_lost(lake: Path, path: Path, run: Run) -> None:
    shutil.rmtree(path / "cache")
    (lake / "cities_0.csv").unlink()
    assert run("refit", path).code == 0
    with gentus.open(path) as index:
        assert "cities_0.csv" not in index.tables()
        assert "no longer there" in dict(index.skipped())["cities_0.csv"]
        assert len(index) == 11


def test_refit_keeps_the_labels_it_was_built_with(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", subjects=("cities", "fish", "films"), slices=4)
    names = sorted(p.relative_to(lake).as_posix() for p in lake.rglob("*") if p.is_file())
    pairs = [(a, b) for a in names for b in names if a != b and subject_of(a) == subject_of(b)]
    labels = write_pairs(tmp_path / "labels.csv", pairs)
    gentus.build(lake, tmp_path / "index", labels, settings=QUICK, workers=1).close()
    labels.unlink()
    with building.refit(tmp_path / "index") as index:
        assert index.info()["labels"]["pairs"] == len(pairs)
        assert index.info()["labels"]["ranking"]["training_queries"] == len(names) - 1  # one validates


# --- check and repair ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "repaired"),
    [
        ("config.json", True),
        ("trie-1/codes.npy", True),
        ("trie-1/starts.npy", True),
        ("cache/features-000000.npz", True),
        ("model-1.safetensors", False),
    ],
)
@pytest.mark.parametrize("harm", ["cut", "flipped", "missing"])
def test_a_damaged_file_is_found_named_and_repaired(
    lake: Path, path: Path, run: Run, file: str, repaired: bool, harm: str
) -> None:
    with gentus.open(path) as index:
        answer = tables(index, lake / "fish_0.csv")
    data = bytearray((path / file).read_bytes())
    data[len(data) // 2] ^= 0x10
    if harm == "missing":
        (path / file).unlink()
    else:
        (path / file).write_bytes(bytes(data) if harm == "flipped" else bytes(data[:-7]))
    ran = run("check", path)
    if (file.split("/")[0], harm) == ("cache", "missing"):
        assert (ran.code, ran.out) == (0, "")  # a cache may be deleted
        return
    assert ran.code == 1
    assert file in ran.out
    if not file.startswith("cache"):
        assert file in run("search", path, lake / "fish_0.csv").err or harm == "missing"
    ran = run("check", path, "--repair")
    assert ran.code == (0 if repaired else 1), ran.out
    assert ("(repaired)" in ran.out) == repaired
    if repaired:
        assert run("check", path).code == 0
    else:
        assert f"gentus refit {path}" in ran.out
        assert run("refit", path).code == 0  # what it says helps
        assert run("check", path).code == 0
    with gentus.open(path) as index:
        assert sorted(tables(index, lake / "fish_0.csv")) == sorted(answer)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tables SET name = 'fisj_0.csv' WHERE name = 'fish_0.csv'",
        "UPDATE tables SET path = replace(path, 'fish_0', 'gish_0') WHERE name = 'fish_0.csv'",
        "UPDATE tables SET suffix = suffix + 4 WHERE name = 'fish_0.csv'",
        "UPDATE tables SET codes = zeroblob(length(codes)) WHERE name = 'fish_0.csv'",
        "UPDATE tables SET assigned_in = assigned_in + 1 WHERE name = 'fish_0.csv'",
        "UPDATE meta SET value = replace(value, '\"seed\": 0', '\"seed\": 8') WHERE key = 'config'",
    ],
)
def test_a_catalogue_that_was_altered_is_noticed(path: Path, change: str) -> None:
    """SQLite notices damage to its own structure; what was altered within it shows beside the other files."""
    assert check(path) == []
    with sqlite3.connect(path / "catalogue.sqlite") as db:
        assert db.execute(change).rowcount == 1
    db.close()
    problems = check(path)
    assert problems
    assert {problem.file for problem in problems} <= {"catalogue.sqlite", "trie-1"}


def test_leftovers_are_named_and_removed(path: Path, run: Run) -> None:
    (path / "model-9.safetensors.part").write_bytes(b"half")
    (path / "trie-9").mkdir()
    ran = run("check", path, "--json")
    assert {problem["file"] for problem in ran.json()["problems"]} == {"model-9.safetensors.part", "trie-9"}
    assert run("check", path, "--repair").code == 0
    assert not (path / "trie-9").exists()


def test_a_tree_swapped_with_that_of_another_index_is_noticed(path: Path, tmp_path: Path) -> None:
    other = make_lake(tmp_path / "other lake", subjects=("birds", "tools", "metals"), slices=4)
    gentus.build(other, tmp_path / "other", settings=QUICK).close()
    shutil.rmtree(path / "trie-1")
    shutil.copytree(tmp_path / "other" / "trie-1", path / "trie-1")
    with pytest.raises(IndexFolderError, match=r"trie-1.*damaged.*gentus check"):
        gentus.open(path)
    assert all(problem.repaired for problem in check(path, repair=True))
    with gentus.open(path) as index:
        assert len(index) == 12


# --- the command line ----------------------------------------------------------------------------------


def test_the_commands_of_a_living_index(lake: Path, path: Path, run: Run, tmp_path: Path) -> None:
    write_table(lake / "fish_50.csv", rows_of("fish", 50))
    ran = run("add", path, lake / "fish_50.csv", lake / "nothing.csv")
    assert ran.code == 1  # one of the two could not be added
    assert ran.out == "+ fish_50.csv\n"
    assert "nothing.csv: there is no such file" in ran.err
    assert "1 added, 0 replaced, 0 removed, 0 unchanged, 1 unreadable" in ran.err
    (lake / "broken.parquet").write_bytes(b"PAR1 no")
    (lake / "empty.csv").touch()
    ran = run("sync", path)
    assert "broken.parquet: " in ran.err
    assert "13 unchanged, 2 unreadable (" in ran.err
    (lake / "broken.parquet").touch()  # another date, and the same problem
    ran = run("sync", path)
    assert len(ran.err.splitlines()) == 1
    assert "13 unchanged, 2 unreadable as before (" in ran.err
    (lake / "empty.csv").write_text("a,b\n")
    ran = run("sync", path)
    assert ran.err.startswith("empty.csv: it has a header row and no rows under it\n")
    assert "13 unchanged, 1 unreadable, 1 unreadable as before (" in ran.err
    assert "2 unreadable as before, which sync would try again" in run("sync", path, "--dry-run").err
    told = run("sync", path, "--json").json()
    assert (set(told["unreadable"]), told["still_unreadable"]) == ({"broken.parquet", "empty.csv"}, 2)
    ran = run("add", path, lake / "empty.csv")  # a file that is named is told of in any case
    assert (ran.code, "empty.csv: it has a header row" in ran.err) == (1, True)
    for name in ("broken.parquet", "empty.csv"):
        (lake / name).unlink()
    assert run("sync", path).code == 0
    ran = run("remove", path, "fish_50.csv")
    assert ran.out == "- fish_50.csv\n"
    assert ran.err.startswith("1 removed, 12 left (")
    assert ran.err.endswith(f"Still in the lake: fish_50.csv. gentus sync {path} would add it again.\n")
    before = files_of(path)
    ran = run("sync", path, "--dry-run")
    assert (ran.out, "1 would be added" in ran.err) == ("+ fish_50.csv\n", True)
    assert "Nothing was changed. Only reading shows" in ran.err
    assert files_of(path) == before
    assert run("sync", path, lake).code == 0
    (answer,) = run("search", path, lake / "fish_0.csv", "--json").json()["queries"]
    assert "fish_50.csv" in [row["table"] for row in answer["results"]]
    assert "in one snapshot" in run("compact", path).err
    assert "Nothing to do" in run("compact", path).err
    ran = run("remove", path, "nothing.csv")
    assert (ran.code, "Not in the index: nothing.csv" in ran.err) == (1, True)
    assert run("add", tmp_path / "nowhere", lake / "fish_0.csv").code == 1
    assert json.loads(run("check", path, "--json").out) == {"problems": []}


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and date of every file with content; a reader of SQLite leaves an empty log and a lock."""
    states = {file.name: file.stat() for file in folder.rglob("*") if file.suffix != ".sqlite-shm"}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in states.items() if state.st_size}


def test_remove_says_what_comes_back_and_what_was_never_there(
    lake: Path, path: Path, run: Run, tmp_path: Path
) -> None:
    """By the name of a file, of a table in a database, of a file outside the lake, of one never read."""
    with sqlite3.connect(lake / "shop.sqlite") as shop:
        for table in ("orders", "items"):
            shop.execute(f"CREATE TABLE {table} (name, kind)")
            shop.executemany(f"INSERT INTO {table} VALUES (?, ?)", [row[:2] for row in rows_of("fish", 3)])
    shop.close()
    (lake / "broken.parquet").write_bytes(b"PAR1 no")
    outside = write_table(tmp_path / "outside.csv", rows_of("fish", 51))
    run("sync", path)
    run("add", path, outside)
    names = ["shop.sqlite/orders", "fish_0.csv", "cities_0.csv", str(outside), "broken.parquet"]
    (lake / "cities_0.csv").unlink()
    told = run("remove", path, *names, "--json").json()
    assert (sorted(told["removed"]), list(told["unreadable"])) == (sorted(names[:-1]), names[-1:])
    assert (sorted(told["returning"]), told["tables"]) == (["fish_0.csv", "shop.sqlite/orders"], 11)
    assert sorted(run("sync", path, "--json").json()["added"]) == ["fish_0.csv", "shop.sqlite/orders"]
    ran = run("remove", path, "broken.parquet")
    assert (ran.out, "0 removed, 13 left" in ran.err, "Still in" in ran.err) == ("", True, False)
    assert "broken.parquet was not in the index" in ran.err


def test_an_index_of_another_lake_is_replaced_only_with_force(
    lake: Path, path: Path, run: Run, tmp_path: Path
) -> None:
    other = make_lake(tmp_path / "other lake", subjects=("birds",), slices=2)
    ran = run("index", other, "-o", path)
    assert (ran.code, f"{path} is the index of {lake}. --force replaces it" in ran.err) == (1, True)
    assert f"gentus sync {path} '{other}'" in ran.err
    ran = run("sync", path, other, "--dry-run")
    assert "12 would be removed" in ran.err
    assert "sync would refuse it without --force" in ran.err
    with gentus.open(path) as index:
        assert len(index) == 12
    assert run("index", other, "-o", path, "--force").code == 0
    with gentus.open(path) as index:
        assert (index.config.lake, len(index)) == (str(other), 2)
    ran = run("sync", path, lake, "--force")
    assert f"The lake of this index is now {lake}; it was {other}." in ran.err


def test_names_that_cannot_be_added_say_why(lake: Path, path: Path, run: Run) -> None:
    (lake / "notes.docx").write_bytes(b"x")
    (lake / "link.csv").symlink_to("/etc/hostname")
    ran = run("add", path, lake / "notes.docx", lake / "link.csv")
    assert ran.code == 1
    assert "notes.docx: its name does not end like that of a table" in ran.err
    assert "link.csv: it is a link out of the lake" in ran.err


def test_the_error_to_expect_of_new_tables_is_that_of_tables_left_out() -> None:
    """On latents drawn alike, what is expected is what comes; on others, more comes than was expected."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(40, 16))

    def drawn(count: int, spread: float) -> F32:
        chosen = centres[random.integers(0, len(centres), count)]
        return normalize((chosen + spread * random.normal(size=(count, 16))).astype(np.float32))

    old, shape = drawn(600, 0.3), (3, 16)
    told = held_out_error(old, old, shape, seed=0)
    assert told is not None
    expected, usual = told
    books = learn_codebooks(old, shape, rounds=4, seed=0)

    def error(latents: F32) -> F32:
        return books.error(latents, books.encode(latents))

    assert error(old).mean() < expected
    assert error(drawn(600, 0.3)).mean() == pytest.approx(expected, rel=0.2)
    assert (error(drawn(600, 0.3)) > usual).mean() == pytest.approx(0.05, abs=0.05)
    unlike = normalize(random.normal(size=(600, 16)).astype(np.float32))
    assert error(unlike).mean() > 1.5 * expected
    assert held_out_error(old[:49], old[:49], shape, seed=0) is None  # too few to say
