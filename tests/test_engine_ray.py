"""A build on a Ray cluster of several nodes: the same index, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import QUICK, make_lake, write_table
from typer.testing import CliRunner

import gentus
from gentus.app.cli import main as cli
from gentus.extras import install_extra
from gentus.features.weights import WeightsMissingError
from gentus.index import engine_ray
from gentus.index import ingest as reading
from gentus.index.engine_ray import RayEngine, ray_engine
from gentus.index.folder import Layout
from gentus.lake import Excluded, Limits, Skipped, Source, scan
from gentus.lake.exclude import NOTHING, Exclude
from gentus.lake.sandbox import pool as parallel
from gentus.progress import Progress, Step
from gentus.table import Table
from gentus_bench.experiments.engines import measure_engines, tables

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # nodes that others cannot reach, on any system
ray = pytest.importorskip("ray", reason="pip install 'gentus[ray]'")
pytestmark = pytest.mark.slow

SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
PATIENCE = 60.0  # seconds for what takes one on a calm machine
Index = list[tuple[Any, ...]]
Opened = Sequence[tuple[Source, Table]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A node with one core, which may be removed if another is added, and a head that works for nobody."""
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    pickling: Any = cloudpickle
    pickling.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
    try:
        add_node(made)
        yield made
    finally:
        made.shutdown()


def add_node(cluster: Any) -> None:
    cluster.add_node(num_cpus=1, **SMALL)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_CHUNK", 2)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a file that cannot be read."""
    lake = make_lake(tmp_path_factory.mktemp("ray") / "lake")
    (lake / "empty.csv").write_text("a,b\n")
    return lake


@pytest.fixture(scope="module")
def expected(mixed: Path) -> Index:
    folder = mixed.parent / "local"
    gentus.build(mixed, folder, settings=QUICK, workers=1).close()
    return told(folder)


def told(folder: Path) -> Index:
    """What the catalogue knows of every table: identifier, error, hash, ..; not where its features lie.

    A chunk is written after some seconds at the latest, so that depends on how busy the machine is.
    """
    with gentus.open(folder) as index:
        found = index.catalogue.db.execute(
            "SELECT id, name, path, real_path, part, size, mtime_ns, hash, rows, columns, pending, codes,"
            " suffix, assigned_in, error, skipped FROM tables ORDER BY name"
        )
        return [tuple(row) for row in found]


def learnt(folder: Path) -> dict[str, bytes]:
    """The model and the tree, byte by byte."""
    files = [*folder.glob("model-*"), *(file for trie in folder.glob("trie-*") for file in trie.iterdir())]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


class Watching(Progress):
    """Calls a function when the first table was read."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then: Callable[[], None] | None = then

    @contextmanager
    def stage(self, title: str, total: int | None, *rest: Any, **more: Any) -> Iterator[Step]:
        def tick(done: int, *rest: Any) -> None:
            if self.then is not None and title.startswith("Reading"):
                then, self.then = self.then, None
                then()

        yield tick


def awaited(path: Path) -> dict[str, Any]:
    """What was written to a file, as soon as it is there."""
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"nobody wrote {path}"
        time.sleep(0.01)
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def hold(mark: Path) -> None:
    """The first who comes here says where it is, and waits for its end; others pass."""
    if mark.exists():
        return
    node = ray.get_runtime_context().get_node_id()
    part = mark.with_suffix(".part")
    part.write_text(json.dumps({"pid": os.getpid(), "node": node}))
    part.rename(mark)
    time.sleep(PATIENCE)
    raise AssertionError("nobody ended this process")


def test_a_killed_worker_and_a_lost_node_cost_no_table(
    cluster: Any,
    mixed: Path,
    expected: Index,
    tmp_path: Path,
    small_batches: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_node(cluster)
    names = [item.name for item in scan(mixed) if isinstance(item, Source)]
    marks = {names[5]: tmp_path / "process", names[9]: tmp_path / "node"}
    examine = reading.examine

    def held(found: Opened) -> list[reading.Examined]:
        for source, _ in found:
            if source.name in marks:
                hold(marks[source.name])
        return examine(found)

    def end_them() -> None:
        process, node = awaited(tmp_path / "process"), awaited(tmp_path / "node")
        assert process["node"] != node["node"]
        os.kill(process["pid"], signal.SIGKILL)
        (lost,) = (one for one in cluster.worker_nodes if one.node_id == node["node"])
        cluster.remove_node(lost, allow_graceful=False)

    monkeypatch.setattr(reading, "examine", held)
    index = gentus.build(
        mixed,
        tmp_path / "index",
        settings=QUICK,
        engine="ray",
        address=cluster.address,
        progress=Watching(end_them),
    )
    index.close()
    assert told(tmp_path / "index") == expected
    assert learnt(tmp_path / "index") == learnt(mixed.parent / "local")  # to the last bit
    assert not ray.is_initialized()


def test_stopped_it_keeps_what_was_read(
    cluster: Any, mixed: Path, expected: Index, tmp_path: Path, small_batches: None
) -> None:
    def press() -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        gentus.build(
            mixed, folder, settings=QUICK, engine="ray", address=cluster.address, progress=Watching(press)
        )
    assert not ray.is_initialized()
    assert len(list(Layout(folder).cache.glob("features-*"))) == 1
    gentus.build(mixed, folder, settings=QUICK, workers=1).close()
    kept = [row[:9] for row in told(folder)]
    assert kept == [row[:9] for row in expected]


def test_engines_are_measured_side_by_side(
    cluster: Any, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gentus, "build", partial(gentus.build, settings=QUICK))
    document = measure_engines(mixed, ("local", "ray"), workers=1, address=cluster.address)
    assert document["same_identifiers"]
    assert [row["tables"] for row in document["rows"]] == [36, 36]
    assert "are the same, bit for bit" in tables(document)[0].note


def test_its_own_cluster_listens_to_this_machine_only(tmp_path: Path) -> None:
    code = """
import json, psutil
from gentus.index.engine_ray import ray_engine
with ray_engine(workers=1) as engine:
    done = list(engine.map(abs, [-1, -2]))
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    heard = {c.laddr.ip for p in mine for c in p.net_connections("inet") if c.status == "LISTEN"}
print(json.dumps([done, sorted(heard), len(mine)]))
"""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean)
    assert ran.returncode == 0, ran.stderr
    done, heard, processes = json.loads(ran.stdout)
    assert done == [1, 2]
    assert processes > 3
    assert heard
    assert set(heard) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--address", "somewhere:1"], "choose the engine ray, too"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster at 127.0.0.1:1"),
        (
            ["--engine", "spark"],
            "Invalid value for '--engine': Value error, 'spark' is not one of 'local', 'ray'.",
        ),
    ],
)
def test_what_cannot_be_is_said(mixed: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    ran = CliRunner().invoke(cli.app, ["index", str(mixed), "-o", str(tmp_path / "index"), *arguments])
    assert ran.exit_code != 0
    said = " ".join(f"{ran.output} {ran.exception}".replace("│", " ").split())  # a box of Rich wraps lines
    assert message in said


def test_without_ray_the_command_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install_extra("ray"))), ray_engine():
        pass


@pytest.fixture(scope="module")
def engine(cluster: Any) -> Iterator[RayEngine]:
    """Connected once: tests that connect by themselves come before those that use it."""
    with ray_engine(cluster.address) as opened:
        yield opened


def cells(found: Opened) -> list[str]:
    """The first of every table."""
    return [table.columns[0].cells[0] for _, table in found]


def numbered(folder: Path, count: int) -> list[Source]:
    for number in range(count):
        write_table(folder / f"{number:03}.csv", [["a"], [str(number)]])
    return [item for item in scan(folder) if isinstance(item, Source)]


def test_files_that_kill_their_readers_or_take_too_long_cost_themselves(
    engine: RayEngine, tmp_path: Path, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_ray, "ATTEMPTS", 2)

    def misbehave(found: Opened) -> list[str]:
        if "5" in cells(found):
            os.kill(os.getpid(), signal.SIGKILL)
        if "2" in cells(found):
            time.sleep(1000)
        return cells(found)

    results = list(engine.each(numbered(tmp_path, 7), misbehave, Limits(seconds=2.0)))
    assert [source.name for source, _ in results] == [f"{number:03}.csv" for number in range(7)]
    (_, dead), (_, late) = results.pop(5), results.pop(2)
    assert isinstance(dead, Skipped)
    assert dead.name == "005.csv"
    assert "every process reading it died" in dead.reason
    assert isinstance(late, Skipped)
    assert late.name == "002.csv"
    assert "the 2 s that a file may take" in late.reason
    assert [result for _, result in results] == ["0", "1", "3", "4", "6"]


def test_an_error_in_the_work_is_raised_as_it_is(engine: RayEngine, tmp_path: Path) -> None:
    def fail(found: Opened) -> list[str]:
        raise WeightsMissingError("not installed")

    with pytest.raises(WeightsMissingError, match=r"^not installed$"):
        list(engine.each(numbered(tmp_path, 3), fail, Limits()))
    with pytest.raises(ZeroDivisionError):
        list(engine.map(lambda x: 1 / x, [1, 0]))


def test_items_are_taken_as_they_are_needed(engine: RayEngine) -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    results = engine.map(lambda x: 2 * x, endless())
    assert [next(results) for _ in range(20)] == list(range(2, 42, 2))
    assert taken <= 20 + 2 * engine_ray.AHEAD  # one core, and perhaps one that was just lost
    results.close()  # type: ignore[attr-defined]


def test_a_lake_is_listed_as_it_is_here(engine: RayEngine, tmp_path: Path) -> None:
    for folder in range(30):
        place = tmp_path / f"{folder % 7}" / f"of {folder}"
        place.mkdir(parents=True)
        for number in range(80):  # together more than one task lists
            (place / f"{number}.csv").touch()
    exclude = Exclude.of(["of 5/", "of 9", "!**/of 9/*", "*7.csv"])
    (tmp_path / "3" / "broken.sqlite").write_bytes(b"SQLite format 3\0 and nothing more")
    found = list(engine.scan(tmp_path, exclude))
    assert found == list(scan(tmp_path, exclude))
    assert (len(found), sum(isinstance(item, Excluded) for item in found)) == (2401, 312)


def test_machines_that_would_do_other_work_are_refused(
    engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="does not see the lake: mount it at /no/such/folder"):
        engine._check_nodes(Path("/no/such/folder"))
    monkeypatch.setattr(engine_ray, "__version__", "9.9.9")
    with pytest.raises(ValueError, match=r"needs gentus 9\.9\.9, as there is here, and has"):
        list(engine.scan(tmp_path, NOTHING))


def test_a_file_that_only_this_machine_sees_is_told_apart(
    engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = numbered(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    near = Source("000.csv", Path("000.csv"), None, source.size, source.mtime_ns)  # workers are elsewhere
    gone = Source("gone.csv", tmp_path / "gone.csv", None, 1, 1)
    (_, unseen), (_, missing) = engine.each([near, gone], cells, Limits())
    assert isinstance(unseen, Skipped)
    assert "it is there, but not on the machine" in unseen.reason
    assert isinstance(missing, Skipped)
    assert "no longer there" in missing.reason
