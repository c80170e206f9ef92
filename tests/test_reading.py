"""Every reading call beside a writer: none may take a change for damage."""

from __future__ import annotations

import random
import sqlite3
import threading
from pathlib import Path

import pytest
from conftest import SUBJECTS, make_lake, rows_of, write_table
from served import served
from stress.reading import CALLS, CHANGING, COMMANDS, SLOW, Reading, Writer
from victim import TINY

import gentus
from gentus.index.catalogue import Catalogue, database
from gentus.index.index import Index

SECONDS = 3.0


@pytest.fixture
def world(tmp_path: Path) -> Reading:
    """A small index, and files that a writer can add and remove."""
    lake = make_lake(tmp_path / "lake", list(SUBJECTS)[:4])
    for seed in range(12):
        write_table(tmp_path / "beside" / f"birds_{seed}.csv", rows_of("birds", seed))
    query = write_table(tmp_path / "query.csv", rows_of("birds", 99))
    gentus.build(lake, tmp_path / "my.index", settings=TINY, workers=1).close()
    return Reading(tmp_path / "my.index", query, random.Random(0))


def names_of(world: Reading) -> list[str]:
    with gentus.open(world.index) as index:
        return [*index.tables()[:6], *map(str, sorted((world.index.parent / "beside").glob("*.csv")))]


def test_every_reading_call_is_known() -> None:
    public = {name for name in dir(Index) if not name.startswith("_")}
    assert public - CHANGING == {name for name in CALLS if name in public}


def read_beside_a_writer(world: Reading, seconds: float, slow: bool) -> None:
    """Python first, then the server and the command line."""
    names = names_of(world)
    with Writer(world.index, world.index.parent / "beside", 0, refits=slow) as writer:
        with gentus.open(world.index) as opened:
            world.some_calls(opened, names, seconds / 2, slow)
        requests = [Reading(world.index, world.query, random.Random(seed)) for seed in range(3)]
        with served(world.index) as client:
            threads = [
                threading.Thread(target=one.some_requests, args=(client, names, seconds / 2))
                for one in requests
            ]
            for thread in threads:
                thread.start()
            for command in COMMANDS if slow else ():
                world.run(command, names)
            for thread in threads:
                thread.join()
        assert writer.stop() > 5
    assert [problem for one in (world, *requests) for problem in one.wrong] == []


def test_reading_beside_a_writer(world: Reading) -> None:
    read_beside_a_writer(world, SECONDS, slow=False)


@pytest.mark.slow
def test_all_reading_beside_a_writer(world: Reading) -> None:
    """With commands, unions, and indexes that are fitted anew."""
    read_beside_a_writer(world, 60.0, slow=True)


def test_threads_share_an_open_index(world: Reading) -> None:
    """Their reads do not end those of others."""
    names = names_of(world)
    readers = [Reading(world.index, world.query, random.Random(seed)) for seed in range(3)]
    with Writer(world.index, world.index.parent / "beside", 0, refits=False) as writer:
        with gentus.open(world.index) as opened:
            threads = [
                threading.Thread(target=one.some_calls, args=(opened, names, 2.0, False)) for one in readers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        writer.stop()
    assert [one.wrong for one in readers] == [[], [], []]


class Interrupting:
    """Changes an index between any two statements of those who read it."""

    def __init__(self, folder: Path) -> None:
        self.writable = Catalogue(folder / "catalogue.sqlite", writable=True)
        tables = self.writable.tables.ids()
        self.left = sorted(name for name in tables if name.startswith("/"))  # to be removed
        self.name = next(iter(tables))  # withdrawn, assigned, ...
        self.id, self.changes = tables[self.name], 0
        found = self.writable.identifiers.of_table(self.name, TINY.quantizer.levels or 3)
        assert found is not None
        self.codes = found[0][None]

    def __call__(self, statement: str) -> None:
        self.changes += 1
        identifiers = self.writable.identifiers
        with self.writable.transaction():
            if self.changes % 9 == 0 and self.left:
                identifiers.remove_tables([self.left.pop()])
            elif self.changes % 2:
                identifiers.withdraw([self.name])
            else:
                identifiers.assign([self.id], self.codes, [0.0])


def test_a_change_between_any_two_statements(world: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    """No luck is needed to notice a check that reads twice."""
    kinds = sorted(CALLS.keys() - SLOW - {"gentus.check"})  # which compares with files, too
    with gentus.open(world.index) as index:
        index.add(world.index.parent / "beside")
    change = Interrupting(world.index)
    usual = database.connect

    def connect(path: Path, mode: str) -> sqlite3.Connection:
        opened = usual(path, mode)
        opened.set_trace_callback(change)
        return opened

    monkeypatch.setattr(database, "connect", connect)
    with gentus.open(world.index) as index:
        names = [name for name in change.left if name != change.name]
        for kind in kinds:
            for _ in range(4):
                before = change.changes
                world.call(index, kind, world.chance.choice(names))
                world.calls["changes"] += change.changes - before
    change.writable.close()
    assert world.calls["changes"] > 200
    assert world.wrong == []
