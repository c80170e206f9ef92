"""Status a comparison of lake and catalogue decides, in bounded memory, is what an obvious one would."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gentus.index import diff as comparing
from gentus.index.catalogue import Catalogue, Entry
from gentus.index.diff import LakeDiff, Status, compare, effort
from gentus.index.folder import Layout
from gentus.lake import Skipped, Source, Unreadable

PIECES = ["a", "b.csv", "é", "\U0001f41f", "￿", "a/b", "a.b", "a0", "caf\\xe9", "Z", "/outside/x.csv"]
CHUNKS = (0, 1, 2)  # of which the last is missing in the cache


def digest(source: Source) -> str:
    """In place of a look at the file: odd dates stand for other content, and 13 for a file that is gone."""
    if source.mtime_ns == 13:
        raise Unreadable("gone")
    return f"{source.name} {source.size} {source.mtime_ns % 2}"


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "fingerprint", digest)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "index")
    made.cache.mkdir(parents=True)
    for chunk in CHUNKS[:-1]:
        made.chunk(chunk).touch()
    return made


@pytest.fixture
def catalogue(layout: Layout) -> Iterator[Catalogue]:
    with closing(Catalogue(layout.catalogue, writable=True)) as opened:
        yield opened


def some_names(chance: random.Random, count: int) -> list[str]:
    return sorted({chance.choice(PIECES) + str(chance.randrange(2 * count)) for _ in range(count)})


def some_source(chance: random.Random, name: str) -> Source | Skipped:
    path = Path("/lake", name)
    if chance.random() < 0.1:
        return Skipped(name, path, "it is a pipe")
    return Source(name, path, chance.choice([None, "t"]), chance.randrange(3), chance.choice([2, 4, 5, 13]))


def some_entry(chance: random.Random, name: str) -> Entry:
    kind = chance.random()
    if kind < 0.1:
        return Entry(name, f"/lake/{name}")  # retired
    if kind < 0.2:
        return Entry(name, f"/lake/{name}", skipped="it was a pipe")
    found = some_source(chance, name)
    while isinstance(found, Skipped):
        found = some_source(chance, name)
    path = chance.choice([str(found.path), "/elsewhere"])
    told = digest(replace(found, mtime_ns=found.mtime_ns % 4))
    return Entry(
        name,
        path,
        found.part,
        found.size,
        found.mtime_ns,
        told,
        1,
        1,
        chance.choice(CHUNKS),
        chance.randrange(9),
    )


def obvious(
    found: list[Source | Skipped], known: dict[str, Entry], layout: Layout, whole: bool
) -> tuple[dict[str, Status], int]:
    """Everything in memory, one question after the other."""
    decided: dict[str, Status] = {}
    unchanged, seen = 0, set[str]()
    for item in found:
        if item.name in seen:
            continue
        seen.add(item.name)
        entry = known.get(item.name)
        if isinstance(item, Skipped):
            lost = whole and entry is not None and entry.skipped is None
            decided[item.name] = Status.WITHDRAWN if lost else Status.UNREADABLE
            continue
        if entry is None or entry.skipped is not None:
            decided[item.name] = Status.NEW if entry is None else Status.RETRIED
            continue
        same = (entry.size, entry.part) == (item.size, item.part)
        same = same and entry.chunk is not None and layout.chunk(entry.chunk).exists()
        if same and entry.mtime_ns != item.mtime_ns:
            same = item.mtime_ns != 13 and entry.hash == digest(item)
        if not same:
            decided[item.name] = Status.CHANGED
            continue
        unchanged += 1
        if (entry.mtime_ns, entry.path) != (item.mtime_ns, str(item.path)):
            decided[item.name] = Status.TOUCHED
    for name, entry in known.items():
        if whole and name not in seen and not os.path.isabs(name):
            decided[name] = Status.DELETED if entry.skipped is None else Status.DELETED_UNREADABLE
    return decided, unchanged


def decisions(diff: LakeDiff) -> dict[str, Status]:
    return {name: what for what in Status for name in diff.names(what)}


@pytest.mark.parametrize("seed", range(40))
def test_it_decides_what_an_obvious_comparison_would(
    layout: Layout, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(comparing, "_BATCH", 7)
    chance = random.Random(seed)
    names = some_names(chance, 60)
    known = {name: some_entry(chance, name) for name in names if chance.random() < 0.7}
    with catalogue.transaction():
        catalogue.tables.put(known.values())
        catalogue.tables.retire(name for name, entry in known.items() if entry == Entry(name, entry.path))
    found = [some_source(chance, name) for name in names if chance.random() < 0.8]
    found += [some_source(chance, item.name) for item in found[:3]]  # two files of one name
    if seed % 2:
        chance.shuffle(found)  # the order of a lake is nothing to rely on
    whole = seed % 3 > 0
    decided, unchanged = obvious(found, known, layout, whole)
    with compare(iter(found), catalogue, layout, whole) as diff:
        assert decisions(diff) == decided
        assert diff.unchanged == unchanged
        first = {item.name: item for item in reversed(found)}
        planned: list[Source | Skipped] = [*diff.to_read(), *diff.touched(), *diff.unreadable()]
        assert planned == [first[item.name] for item in planned]
        to_read = (Status.NEW, Status.CHANGED, Status.RETRIED)
        reading = sorted(name for name, what in decided.items() if what in to_read)
        assert [source.name for source in diff.to_read()] == reading
        sizes = [source.size for source in diff.to_read()]
        work = diff.workload()
        assert work.tables == len(sizes)
        assert work.effort == pytest.approx(sum(map(effort, sizes)))
        assert [diff.count(what) for what in Status] == [len(list(diff.names(what))) for what in Status]


def test_what_turns_out_to_be_unreadable_is_told_as_such_while_others_are_read(
    layout: Layout, catalogue: Catalogue
) -> None:
    found = [Source(f"{n:03d}.csv", Path(f"/lake/{n:03d}.csv"), None, 1, 1) for n in range(200)]
    with compare(found, catalogue, layout) as diff:
        reading = diff.to_read()
        read = [next(reading) for _ in range(50)]
        for source in read[::2]:
            diff.mark_unreadable(source.name, "broken")
        read += reading
        assert read == found
        assert {item.name: item.reason for item in diff.unreadable()} == {
            source.name: "broken" for source in found[:50:2]
        }
        assert diff.count(Status.NEW) == 175
        assert list(diff.names(Status.NEW, most=2)) == ["001.csv", "003.csv"]


def test_memory_does_not_grow_with_the_lake(layout: Layout, catalogue: Catalogue) -> None:
    def lake(count: int) -> Iterator[Source]:
        for number in range(count):
            # Parts of one file: the names in a path are interned by Python, in a table that grows.
            part = f"table-{number:06d}"
            yield Source(f"lake.duckdb/{part}", Path("/lake/lake.duckdb"), part, 100, 1)

    def peak(count: int) -> int:
        """The most memory that it takes to compare, to go through what is to be read, and to store it."""
        tracemalloc.start()
        try:
            with compare(lake(count), catalogue, layout, whole=True) as diff, catalogue.transaction():
                assert diff.count(Status.NEW) == count
                catalogue.tables.put(
                    Entry(source.name, str(source.path), skipped="no") for source in diff.to_read()
                )
            with compare(iter(()), catalogue, layout, whole=True) as diff, catalogue.transaction():
                assert diff.count(Status.DELETED_UNREADABLE) == count
                catalogue.identifiers.remove_tables(diff.names(Status.DELETED_UNREADABLE))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1000)  # what the first one loads is not what it takes
    assert peak(6000) < 1.2 * peak(1000)
