"""Kills, full disks, folders that cannot be written, and several processes at once: what was stored stays."""

from __future__ import annotations

import errno
import importlib
import json
import operator
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SUBJECTS, make_lake, rows_of, subject_of, write_table
from victim import TINY, Operation, Outcome, Trial

import gentus
from gentus.features.extract import Features
from gentus.index.check import check
from gentus.index.feature_cache import stream_features
from gentus.index.folder import IndexFolderError, Layout
from gentus.index.index import Index
from gentus.index.ingest import examine
from gentus.index.stages import FEW
from gentus.index.writer import writer
from gentus.lake import read
from gentus.retrieval.trie import Tree

KINDS = ("add", "remove", "sync", "compact", "index")
KILLS = int(os.environ.get("CRASH_KILLS", "40"))
SEED = os.environ.get("CRASH_SEED", "0")  # which operations and moments; another one is another test
LEFT = {"a writer that was stopped left it behind", "it is not the same version as that of the catalogue"}
VICTIM = Path(__file__).with_name("victim.py")
Sid = tuple[int, ...]  # codes, then the suffix


# --- what has to hold of an index at any moment -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """What an index holds."""

    generation: int
    config_version: int
    sids: dict[str, Sid]  # by the table's name
    stamps: dict[str, int | None]  # the date of the file that each was read from
    waiting: set[str]  # read by a build that was stopped: their identifiers are to come, or of old content


def reachable(tree: Tree) -> dict[Sid, int]:
    """Every table that the root leads to, by the symbols on the way."""
    if not len(tree):
        return {}
    nodes, counts, written = np.array([tree.root]), np.array([len(tree)]), np.zeros((1, 0), np.int64)
    for level in range(tree.levels + 1):
        parent, nodes, counts, symbols = tree.expand(nodes, counts, level)
        written = np.hstack([written[parent], symbols[:, None]])
    assert len(np.unique(written, axis=0)) == len(written)
    return dict(zip(map(tuple, written.tolist()), tree.table(tree.row(nodes)).tolist(), strict=True))


def state_of(folder: Path, query: Path) -> State:
    """What the index holds, after a look at whether any of it is half there. Opens it anew."""
    assert {problem.what for problem in check(folder)} <= LEFT
    with gentus.open(folder) as index:
        found = index.catalogue.db.execute(
            "SELECT id, name, codes, suffix, mtime_ns, pending, chunk, slot FROM tables"
        )
        rows = found.fetchall()
        tables = {
            name: (table, (*np.frombuffer(codes, np.uint8).tolist(), suffix))
            for table, name, codes, suffix, *_ in rows
            if codes is not None
        }
        assert index.tables() == sorted(tables)
        assert len(index) == len(tables)
        assert reachable(index.decoder.trie) == {sid: table for table, sid in tables.values()}
        read = {name: (table, chunk, slot) for table, name, *_, chunk, slot in rows if chunk is not None}
        waiting = {name for _, name, *_, pending, chunk, _ in rows if pending and chunk is not None}
        assert set(read) - set(tables) <= waiting  # what was read and is not to be found is known to be due
        named_by_their_features(index, [read[name] for name in sorted(set(read) - waiting)])
        everything = index.search(query, k=1000, beam=1000)
        assert {hit.table for hit in everything} == set(tables)
        near = [hit.table for hit in index.search(query, k=6)]
        assert subject_of(query.name) in {subject_of(name) for name in near}
        stamps = {name: stamp for _, name, _, _, stamp, *_ in rows}
        sids = {name: sid for name, (_, sid) in tables.items()}
        return State(index.config.generation, index.config.config_version, sids, stamps, waiting)


def named_by_their_features(index: Index, tables: list[tuple[int, int, int]]) -> None:
    """The identifier of a table is that of the features which the cache has of it.

    Tables of a fit with a neighbour graph are smoothed by it, which their own features do not tell.
    """
    fitted = index.config.fit_sequence if index.config.report.tables >= FEW else -1
    rows = index.catalogue.db.execute("SELECT id, error FROM tables WHERE assigned_in > ?", (fitted,))
    stored = dict(rows)
    tables = [table for table in tables if table[0] in stored]
    identified = index.catalogue.identifiers.select(index.config.levels)
    expected = dict(zip(identified.tables.tolist(), identified.codes, strict=True))
    retriever = index._snapshot.retriever
    for features in stream_features(tables, index.layout):
        codes, errors = retriever.codes([], features)
        assert np.array_equal(codes, [expected[table] for table, _, _ in tables])
        assert errors == pytest.approx([stored[table] for table, _, _ in tables], abs=1e-3)


def holds_what_the_files_say(folder: Path, names: set[str]) -> None:
    """The catalogue and the cache know these tables as they are on the disk now."""
    with gentus.open(folder) as index:
        sources, entries = index.sources(), index.catalogue.tables.entries(names)
        for name in names:
            entry, source = entries[name], sources[name]
            file = source.file.stat()
            assert (entry.size, entry.mtime_ns) == (file.st_size, file.st_mtime_ns)
            (kept,) = stream_features([(0, entry.chunk or 0, entry.slot or 0)], index.layout)
            assert alike(kept, examine([(source, read(source, index.limits))])[0].features)


def alike(one: Features, other: Features) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in Features.__dataclass_fields__
    )


# --- kills at any moment -------------------------------------------------------------------------------


class Killer:
    """The warm process that runs trials."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, VICTIM], stdin=pipe, stdout=pipe, text=True)

    def run(self, trial: Trial) -> Outcome:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asdict(trial)) + "\n")
        self.process.stdin.flush()
        return Outcome(**json.loads(self.process.stdout.readline()))


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    started = Killer()
    yield started
    assert started.process.stdin is not None
    started.process.stdin.close()
    started.process.wait(10)


class World:
    """A lake that changes, its index, and files beside the lake."""

    def __init__(self, root: Path, seed: str) -> None:
        self.lake = make_lake(root / "lake", ["cities", "fish", "films"], 4)
        self.beside, self.index = root / "beside", root / "index"
        self.query = write_table(root / "fish_query.csv", rows_of("fish", 0))
        self.chance = random.Random(seed)
        self.made = 100

    def write(self, path: Path) -> Path:
        """Other rows than any before, of the subject that the name says, or of a new one."""
        self.made += 1
        subject = self.chance.choice(list(SUBJECTS)) if path.is_dir() else subject_of(path.name)
        path = path / f"{subject}_{self.made}.csv" if path.is_dir() else path
        return write_table(path, rows_of(subject, self.made, self.chance.randint(8, 20)))

    def in_lake(self) -> set[str]:
        return {path.relative_to(self.lake).as_posix() for path in self.lake.rglob("*") if path.is_file()}

    def name(self, path: str | Path) -> str:
        path = Path(path)
        return path.relative_to(self.lake).as_posix() if path.is_relative_to(self.lake) else str(path)

    def prepare(self, kind: str, now: State) -> tuple[list[Operation], set[str]]:
        """Operations of which the last is of this kind, and the tables that are removed by them."""
        self.beside.mkdir(exist_ok=True)
        chance, removed = self.chance, set[str]()
        free = sorted(set(now.sids) - now.waiting - {"fish_0.csv"})  # one of the query's subject stays
        chance.shuffle(free)
        surplus = max(0, len(self.in_lake()) - 16)

        def adding() -> Operation:
            return Operation("add", [str(self.write(chance.choice([self.lake, self.beside])))])

        def removing(count: int) -> Operation:
            names = [free.pop() for _ in range(count)]
            for name in names:
                removed.add(name)
                if surplus or chance.random() < 0.3:  # else a sync brings it back
                    (self.lake / name).unlink(missing_ok=True)
            return Operation("remove", names)

        operations: list[Operation] = []
        if kind == "compact" or chance.random() < 0.5:  # to be acknowledged, and survive what follows
            operations.append(adding() if chance.random() < 0.5 else removing(1))
        inside = [name for name in free if not os.path.isabs(name) and (self.lake / name).is_file()]
        texts = [name for name in inside if name.endswith(".csv")]
        if kind == "add":
            last = adding()
            last.what += [path for _ in range(chance.randint(0, 2)) for path in adding().what]
            last.what += [str(self.write(self.lake / name)) for name in texts[: chance.randint(0, 1)]]
            return [*operations, last], removed
        if kind == "remove":
            return [*operations, removing(chance.randint(1, 2) + max(0, len(now.sids) - 24))], removed
        if kind in ("sync", "index"):
            for name in texts[: chance.randint(1, 2)]:
                self.write(self.lake / name)
            for name in inside[-(1 + surplus) : len(inside) - chance.randint(0, 1)]:
                (self.lake / name).unlink()
            for _ in range(chance.randint(1, 3)):
                self.write(self.lake)
        return [*operations, Operation(kind)], removed

    def stages(self, operation: Operation, there: set[str], waiting: set[str]) -> list[set[str]]:
        """What an index may hold while an operation runs, transaction by transaction, and when it is done."""
        lake = self.in_lake()
        final = lake | {name for name in there if os.path.isabs(name)}
        if operation.kind == "add":
            more = there | {self.name(path) for path in operation.what}
            return [there, more, more | waiting]
        if operation.kind == "remove":
            return [there, there - set(operation.what)]
        if operation.kind == "sync":
            more = there | (lake - waiting)
            return [there, more, more | waiting, final]
        return [there, final] if operation.kind == "index" else [there]


def test_kills_at_any_moment(killer: Killer, tmp_path: Path) -> None:
    world = World(tmp_path, SEED)
    chance = world.chance
    gentus.build(world.lake, world.index, settings=TINY, workers=1).close()
    before = state_of(world.index, world.query)
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}  # of operations that were finished
    moments: dict[str, list[int]] = {kind: [] for kind in KINDS}
    hits = Counter[str]()
    late = Counter[str]()  # kills that came after the transaction they might have stopped
    while hits.total() < KILLS:
        kind = min(KINDS, key=lambda kind: (len(seconds[kind]) > 1, hits[kind], chance.random()))
        operations, removed = world.prepare(kind, before)
        trial = Trial(str(world.lake), str(world.index), operations)
        if len(seconds[kind]) > 1:  # else it is left alone, to see how long it takes
            share = chance.choice([chance.random(), chance.uniform(0.8, 1.05)])  # much happens at the end
            if hits[kind] % 2:
                trial.delay = share * statistics.median(seconds[kind][-5:])
            else:
                trial.moment = 1 + int(share * statistics.median(moments[kind][-5:]))
        outcome = killer.run(trial)
        try:
            assert not outcome.error, outcome.error
            assert outcome.acknowledged == len(operations) or outcome.killed
            if outcome.acknowledged == len(operations):
                seconds[kind].append(outcome.seconds)
                moments[kind].append(outcome.moments)
            after = state_of(world.index, world.query)
            effect = verify(world, before, after, operations, outcome, removed)
        except BaseException as error:
            error.add_note(f"{trial} {outcome} {before} seed {SEED}")
            raise
        if outcome.killed:
            hits[kind] += 1
            late[kind] += effect
            if hits.total() % 20 == 0:
                check(world.index, repair=True)
                assert check(world.index) == []
        before = after
    for kind in KINDS:
        assert hits[kind] == KILLS // len(KINDS)
        assert late[kind] <= 0.75 * hits[kind], (kind, late)
    # How often a kill comes after the transaction is chance, and on a busy machine rare for the quick ones.
    assert late.total() >= KILLS / 40, late
    with gentus.build(world.lake, world.index, settings=TINY, workers=1) as index:
        assert world.in_lake() <= set(index.tables())
        assert check(world.index) == []


def verify(
    world: World,
    before: State,
    after: State,
    operations: list[Operation],
    outcome: Outcome,
    removed: set[str],
) -> bool:
    """All that was acknowledged has happened; the operation in flight has, or not at all, or up to a stage.

    Returns whether the operation in flight has had an effect.
    """
    there, waiting = set(before.sids), before.waiting
    finished, in_flight = operations[: outcome.acknowledged], operations[outcome.acknowledged :]
    for operation in finished:
        there = world.stages(operation, there, waiting)[-1]
        if operation.kind not in ("remove", "compact"):
            waiting = set()
    allowed = world.stages(in_flight[0], there, waiting) if in_flight else [there]
    assert set(after.sids) in allowed
    if in_flight and in_flight[0].kind == "index":
        assert set(after.sids) == allowed[after.generation != before.generation]
    else:
        assert (after.generation != before.generation) == any(one.kind == "index" for one in finished)
    if after.generation == before.generation:
        same = set(before.sids) & set(after.sids) - removed - before.waiting
        if any(one.kind not in ("index", "compact") for one in (*finished, *in_flight)):
            same = {name for name in same if before.stamps[name] == after.stamps[name]}
        assert {name: after.sids[name] for name in same} == {name: before.sids[name] for name in same}
    for operation in finished[-1:]:
        if operation.kind == "add":
            holds_what_the_files_say(world.index, {world.name(path) for path in operation.what})
        elif operation.kind in ("sync", "index"):
            holds_what_the_files_say(world.index, world.in_lake())
    return set(after.sids) != there or after.config_version != before.config_version


def test_a_first_build_that_is_killed(killer: Killer, tmp_path: Path) -> None:
    world, chance = World(tmp_path, SEED), random.Random(SEED)
    trial = Trial(str(world.lake), str(tmp_path / "once"), [Operation("index")])
    last = killer.run(trial).moments
    trial.index = str(world.index)
    seen = Counter[str]()
    for number in range(8):
        trial.moment = {0: last, 3: last // 3}.get(number, chance.randint(1, last))
        if number in (0, 3):
            shutil.rmtree(world.index, ignore_errors=True)
        outcome = killer.run(trial)
        assert outcome.killed or outcome.acknowledged, outcome.error
        try:
            gentus.open(world.index).close()
        except IndexFolderError as error:
            told = str(error)
            assert f"gentus index LAKE -o {world.index}" in told
            assert not outcome.acknowledged
            seen["unfinished"] += 1
            continue
        assert set(state_of(world.index, world.query).sids) == world.in_lake()
        seen["finished"] += 1
    assert min(seen["finished"], seen["unfinished"]) > 0
    with gentus.build(world.lake, world.index, settings=TINY, workers=1) as index:
        assert set(index.tables()) == world.in_lake()
    assert check(world.index) == []


# --- the moments that matter most, one by one ---------------------------------------------------------


class DiedError(BaseException):
    """The end of a process, as far as one can have that without ending it."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A lake and its index, built once. Not to be changed by a test."""
    world = World(tmp_path_factory.mktemp("world"), "")
    gentus.build(world.lake, world.index, settings=TINY, workers=1).close()
    return world


@pytest.fixture
def world(built: World, tmp_path: Path) -> World:
    """A copy for a test to change, with a table added since the build and files that a sync would follow."""
    world = World(tmp_path, "")
    shutil.copytree(built.index, world.index)
    with gentus.open(world.index) as index:
        index.sync(world.lake)
        index.add(write_table(world.beside / "fish_50.csv", rows_of("fish", 50)))
    write_table(world.lake / "films_0.csv", rows_of("cities", 51))
    write_table(world.lake / "fish_51.csv", rows_of("fish", 51))
    (world.lake / "cities_0.csv").unlink()
    return world


def change(world: World, kind: str) -> set[str]:
    """Carry out an operation here; returns the tables that have to be there then."""
    before = {*world.in_lake(), "cities_0.csv", str(world.beside / "fish_50.csv")} - {"fish_51.csv"}
    with gentus.open(world.index) as index:
        if kind == "add":
            index.add(world.lake / "fish_51.csv")
        elif kind == "remove":
            index.remove(["films_0.csv", str(world.beside / "fish_50.csv")])
        elif kind == "sync":
            index.sync()
        elif kind == "compact":
            index.compact()
        elif kind == "refit":
            gentus.refit(world.index, workers=1).close()
        else:
            gentus.build(world.lake, world.index, settings=TINY, workers=1).close()
    if kind == "add":
        return before | {"fish_51.csv"}
    if kind == "remove":
        return before - {"films_0.csv", str(world.beside / "fish_50.csv")}
    return before if kind in ("compact", "refit") else before - {"cities_0.csv"} | {"fish_51.csv"}


@pytest.mark.parametrize(
    ("kind", "when", "place", "switched"),
    [
        ("add", "after", "index.ingest.write_chunk", False),  # features lie there, and nobody knows yet
        ("sync", "after", "index.ingest.write_chunk", False),
        ("compact", "after", "index.compactor.write_chunk", False),
        ("compact", "before", "index.compactor.delete_other_chunks", False),
        ("compact", "after", "retrieval.trie.Trie.save", False),
        ("compact", "before", "index.writer.write_config", True),
        ("compact", "before", "index.writer.remove_superseded", True),
        ("index", "after", "index.stages.save_model", False),
        ("index", "after", "retrieval.trie.Trie.save", False),
        ("index", "after", "index.stages.publish", False),  # in the transaction that switches
        ("index", "before", "index.writer.write_config", True),
        ("index", "before", "index.stages.delete_other_chunks", True),
    ],
)
def test_a_process_that_dies_at_the_worst_moment(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, when: str, place: str, switched: bool
) -> None:
    before = state_of(world.index, world.query)
    with monkeypatch.context() as patch:
        package, module, name = place.split(".", 2)
        found = importlib.import_module(f"gentus.{package}.{module}")
        really: Callable[..., object] = operator.attrgetter(name)(found)

        def dying(*arguments: object, **options: object) -> None:
            if when == "after":
                really(*arguments, **options)
            raise DiedError

        patch.setattr(f"gentus.{place}", dying)
        with pytest.raises(DiedError):
            change(world, kind)
    then = state_of(world.index, world.query)
    assert (then.config_version != before.config_version) == switched
    if kind != "index" or not switched:
        assert then.sids == before.sids
    with gentus.open(world.index) as index:  # the next writer, whatever it does, clears away what was left
        index.remove("fish_0.csv")
    assert check(world.index) == []
    assert len(list(world.index.glob("trie-*"))) == len(list(world.index.glob("model-*"))) == 1
    expected = change(world, kind)
    now = set(state_of(world.index, world.query).sids)
    assert now - {"fish_0.csv"} == expected - {"fish_0.csv"}
    assert check(world.index) == []


def test_what_a_killed_union_left_is_removed_by_the_next(world: World) -> None:
    temporary = world.beside / "temporary"
    temporary.mkdir()
    large = write_table(world.beside / "large.csv", rows_of("fish", 0, 5_000))  # more than a pipe holds
    table = str(world.lake / "fish_0.csv")
    command = [sys.executable, "-m", "gentus", "union", str(world.index)]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(
        [*command, str(large), "--tables", table, "-o", "-"],
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as union:
        assert union.stdout is not None
        union.stdout.read(1)
        os.killpg(union.pid, signal.SIGKILL)  # with the process that writes
    assert list(temporary.iterdir())
    command = [*command, str(world.query), "--tables", table, "-o", "-"]
    end = time.monotonic() + 60
    while list(temporary.iterdir()):  # its process may take a moment to end
        assert time.monotonic() < end
        subprocess.run(command, check=True, capture_output=True, env=environment)


@pytest.mark.parametrize("options", [{}, {"engine": "ray", "address": "127.0.0.1:1"}])
def test_a_build_that_stores_nothing_leaves_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    pytest.importorskip("ray", reason="pip install 'gentus[ray]'")
    lake, own = tmp_path / "lake", tmp_path / "own"
    for folder in (lake, own):
        folder.mkdir()
    for index in (tmp_path / "new" / "deep" / "index", own):
        with pytest.raises(
            (gentus.GentusError, ValueError), match=r"No table could be read|There is no Ray cluster"
        ):
            gentus.build(lake, index, **options)
        assert sorted(tmp_path.rglob("*")) == [lake, own]
    (lake / "empty.csv").touch()  # why it was skipped is kept, for `gentus info --skipped`
    with pytest.raises(
        (gentus.GentusError, ValueError), match=r"gentus info .* --skipped|There is no Ray cluster"
    ):
        gentus.build(lake, own, **options)
    assert (own / "catalogue.sqlite").exists() == (not options)


# --- no room, and no permission -----------------------------------------------------------------------


@contextmanager
def room(limit: int) -> Iterator[None]:
    """No file may grow beyond so many bytes. Close to a full disk: every write can fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # Python ignores the signal, so a write fails
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "with a reader"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk(world: World, kind: str, watched: bool) -> None:
    before = state_of(world.index, world.query)
    reader = gentus.open(world.index) if watched else None  # whoever has it open keeps SQLite's files there
    refused = 0
    for limit in (0, *(1 << bits for bits in range(9, 30, 2 if kind != "index" else 5))):
        try:
            with room(limit):
                expected = change(world, kind)
        except IndexFolderError as error:
            refused, told = refused + 1, str(error)
            assert re.match(
                rf"Cannot write to {world.index}: .*there is no room on the disk\. The index is", told
            )
            with room(limit), gentus.open(world.index) as index:
                assert index.search(world.query)
                if reader is not None:
                    assert reader.search(world.query) == index.search(world.query)
            then = state_of(world.index, world.query)
            assert then.generation == before.generation
            # Several transactions may be needed for a sync; each is there or not.
            allowed = world.stages(Operation(kind), set(before.sids), set())[: -1 if kind == "sync" else 1]
            assert set(then.sids) in allowed
            same = set(before.sids) - {"films_0.csv"}
            assert {name: then.sids[name] for name in same} == {name: before.sids[name] for name in same}
            continue
        break
    assert refused > 1
    assert set(state_of(world.index, world.query).sids) == expected
    if reader is not None:
        assert {hit.table for hit in reader.search(world.query, k=100)} == expected
        reader.close()


@pytest.mark.parametrize("kind", ["add", "sync", "compact", "index", "refit"])
def test_a_full_disk_is_called_that(world: World, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = state_of(world.index, world.query)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            IndexFolderError, match=r": there is no room on the disk\. The index is as it was"
        ):
            change(world, kind)
    assert state_of(world.index, world.query).sids == before.sids
    assert change(world, kind) == set(state_of(world.index, world.query).sids)


def test_control_c_while_a_checksum_is_written_is_an_interrupt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*values: object) -> int:
        raise KeyboardInterrupt

    before = state_of(world.index, world.query)
    with monkeypatch.context() as patch:
        patch.setattr("gentus.index.catalogue.row_checksums.row_checksum", pressed)
        with pytest.raises(KeyboardInterrupt):  # SQLite tells it as an error of its own
            change(world, "add")
    assert state_of(world.index, world.query).sids == before.sids
    assert change(world, "add") == set(state_of(world.index, world.query).sids)


# Root may write anywhere, unless it gives that up for good.
HUMBLY = """
import ctypes, os, sys
if sys.platform == "linux":
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


# Runs commands one after the other; prints the exit code, stdout and stderr of each.
COMMANDS = """
import contextlib, io, json, sys
from gentus.app.cli.main import main
told = []
for command in sys.argv[1:]:
    sys.argv[1:] = json.loads(command)
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""


def humbly(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python as somebody to whom permissions apply."""
    command = [sys.executable, "-c", HUMBLY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_folder_that_cannot_be_read(world: World) -> None:
    command = (
        "-c",
        "import gentus, sys; gentus.open(sys.argv[1]).search(sys.argv[2])",
        world.index,
        world.query,
    )
    mode = world.index.stat().st_mode
    world.index.chmod(0)
    try:
        ran = humbly(*command)
        if ran.returncode == 0:
            pytest.skip("nothing keeps us from reading here")
    finally:
        world.index.chmod(mode)
    assert f"IndexFolderError: {world.index} cannot be read: Permission denied" in ran.stderr
    assert humbly(*command).returncode == 0


@pytest.mark.parametrize("crashed", [False, True])
def test_a_folder_that_cannot_be_written(world: World, crashed: bool) -> None:
    if crashed:  # what the dead writer had committed lies in SQLite's log
        with writer(Layout(world.index)) as catalogue:
            with catalogue.transaction():
                catalogue.identifiers.remove_tables(["fish_0.csv"])
            shutil.copytree(world.index, world.beside / "copy")
        world.index = world.beside / "copy"
        assert (world.index / "catalogue.sqlite-wal").stat().st_size
    everything = [world.index, *world.index.rglob("*")]
    modes = [path.stat().st_mode for path in everything]
    try:
        for path, mode in zip(everything, modes, strict=True):
            path.chmod(mode & 0o555)
        tried = humbly("-c", "import os, sys; os.mkdir(sys.argv[1])", world.index / "new")
        if tried.returncode == 0:
            pytest.skip("nothing keeps us from writing here")
        changes = (
            ("add", world.index, world.lake / "fish_51.csv"),
            ("remove", world.index, "films_0.csv"),
            ("sync", world.index),
            ("compact", world.index),
        )
        search = ("search", world.index, world.query, "--json", "-k", 100)
        ran = humbly("-c", COMMANDS, *(json.dumps([*map(str, command)]) for command in (*changes, search)))
        *refused, (code, answer, error) = json.loads(ran.stdout)
        for code_of_change, out, err in refused:
            assert (code_of_change, out) == (1, "")
            assert err.startswith(f"Error: Cannot write to {world.index}: ")
            assert "The index is as it was" in err
            assert err.count("\n") == 1
        assert (code, len(refused)) == (0, 4), error
        found = {hit["table"] for hit in json.loads(answer)["queries"][0]["results"]}
        assert str(world.beside / "fish_50.csv") in found
        assert ("fish_0.csv" in found) == (not crashed)
    finally:
        for path, mode in zip(everything, modes, strict=True):
            path.chmod(mode)


def test_a_reader_that_may_not_write_sees_what_others_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(index: Index) -> set[str]:
        return {hit.table for hit in index.search(world.query, k=100)}

    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        reader = gentus.open(world.index)
        before = found(reader)
        with gentus.open(world.index) as other:  # which keeps SQLite from moving its log into the catalogue
            other.add(world.lake / "fish_51.csv")
            assert found(reader) == found(other) == before | {"fish_51.csv"}
            other.remove("fish_51.csv")
            assert found(reader) == found(other) == before
        assert found(reader) == before
        for kind in KINDS:
            change(world, kind)
            with gentus.open(world.index) as other:
                assert found(reader) == found(other) == set(reader.tables())
        reader.close()


# --- several at once ----------------------------------------------------------------------------------


def test_a_second_writer_is_refused_until_the_first_is_dead(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gentus.index.writer.LOCK_TIMEOUT", 0.3)
    code = (
        "import sys, pathlib, time, gentus.index.folder as store\n"
        "with store.write_lock(store.Layout(pathlib.Path(sys.argv[1]))):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    before = state_of(world.index, world.query)
    command = [sys.executable, "-c", code, str(world.index)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for kind in KINDS:
            started = time.monotonic()
            with pytest.raises(
                IndexFolderError, match=r"being changed by another process.*wait for the other"
            ):
                change(world, kind)
            assert time.monotonic() - started < 4
        assert state_of(world.index, world.query).sids == before.sids
        other.kill()
    assert change(world, "add") == set(state_of(world.index, world.query).sids)


def test_two_writers_wait_for_each_other(killer: Killer, world: World) -> None:
    theirs, ours = (
        [str(write_table(world.lake / f"{whose}_{n}.csv", rows_of("birds", n))) for n in range(10)]
        for whose in ("theirs", "ours")
    )
    trial = Trial(str(world.lake), str(world.index), [Operation("add", [path]) for path in theirs])
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(killer.run(trial)))
    thread.start()
    with gentus.open(world.index) as index:
        for path in ours:
            index.add(path)
    thread.join()
    assert [(outcome.acknowledged, outcome.error) for outcome in outcomes] == [(10, "")]
    assert {world.name(path) for path in (*theirs, *ours)} <= set(state_of(world.index, world.query).sids)


def test_two_readers_and_a_writer(world: World) -> None:
    always = set(state_of(world.index, world.query).sids) & world.in_lake() - {"films_0.csv"}
    outputs = [world.beside / f"reader_{number}" for number in range(2)]
    readers = []
    for output in outputs:
        with output.open("w") as file:
            command = [sys.executable, str(VICTIM), str(world.index), str(world.query)]
            readers.append(subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True))
    try:
        while not all(output.read_text() for output in outputs):
            assert not any(reader.poll() for reader in readers), "a reader failed"
            time.sleep(0.05)
        lives = write_for_a_while(world, 5.0)
    finally:
        (world.index.parent / "stop").touch()
        errors = [reader.communicate(timeout=60)[1] for reader in readers]
    assert (errors, [reader.returncode for reader in readers]) == (["", ""], [0, 0])
    assert len(lives) > 10
    for output in outputs:
        searches = [json.loads(line) for line in output.read_text().splitlines()]
        assert len(searches) > 20
        late = [0.0]  # how long after a change was acknowledged a search began that did not know of it
        for begun, ended, found in searches:
            assert len(set(found)) == len(found)
            assert always <= set(found)
            for life in lives:
                if life.added < begun and ended < life.leaves and life.name not in found:
                    late.append(begun - life.added)
                if life.removed < begun and life.name in found:
                    late.append(begun - life.removed)
                assert ended > life.comes or life.name not in found
        assert max(late) == 0


@dataclass(slots=True)
class Life:
    """When a table was about to be added, was, was about to be removed, and was."""

    name: str
    comes: float
    added: float = float("inf")
    leaves: float = float("inf")
    removed: float = float("inf")


def write_for_a_while(world: World, seconds: float) -> list[Life]:
    """Add and remove tables, make snapshots between, and once learn the index anew."""
    lives: list[Life] = []
    begun = time.monotonic()
    with gentus.open(world.index) as index:
        while time.monotonic() - begun < seconds or len(lives) < 12:
            number = len(lives)
            path = write_table(world.beside / f"birds_{number}.csv", rows_of("birds", number))
            life = Life(str(path), time.monotonic())
            index.add(path)
            life.added = time.monotonic()
            lives.append(life)
            time.sleep(0.03)
            if number % 2:
                old = lives[number // 2]
                old.leaves = time.monotonic()
                index.remove(old.name)
                old.removed = time.monotonic()
            if number % 5 == 4:
                index.compact()
            if number == 8:
                (world.lake / "films_0.csv").unlink()
                gentus.build(world.lake, world.index, settings=TINY, workers=1).close()
    return lives
