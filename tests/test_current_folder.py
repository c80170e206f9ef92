"""The current folder is data: of a hostile one, no module is imported and no settings are read."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from conftest import make_lake, rows_of, write_pairs, write_table
from mcp import Client, StdioServerParameters

GENTUS = Path(sys.executable).with_name("gentus")
# What Python looks for at its start, and what users may have beside it.
OTHERS = {"gentus", "sitecustomize", "usercustomize", "__main__", "__mp_main__"}
NAMES = sorted(
    name for name in {*sys.stdlib_module_names, *packages_distributions(), *OTHERS} if name.isidentifier()
)
SETTINGS = (".env", ".pyiceberg.yaml", ".duckdbrc", "pyvenv.cfg", "setup.cfg", "matplotlibrc")
OUTPUTS = ("csv", "xlsx", "duckdb", "parquet", "sqlite", "jsonl", "tsv")


@dataclass(frozen=True, slots=True)
class Hostile:
    """A downloaded folder: tables beside modules that shadow everything which a Python may import."""

    folder: Path
    ran: Path  # what its modules write when they are run
    packages: bool

    def check(self, command: Sequence[object], done: subprocess.CompletedProcess[str]) -> str:
        """What a command has printed, if it worked and none of the modules ran."""
        assert not self.ran.exists(), f"{command} ran {set(self.ran.read_text().split())}"
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        return done.stdout

    def python(self, *arguments: object, text: str = "", **more: str) -> str:
        """Run a Python in the folder."""
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.folder, input=text, capture_output=True, text=True, env=environment(**more)
        )
        return self.check(arguments, done)

    def gentus(self, *arguments: object, text: str = "", **more: str) -> str:
        """Run the installed script in the folder."""
        return self.python(GENTUS, *arguments, text=text, **more)


def environment(**more: str) -> dict[str, str]:
    """As users have it: nothing in it protects Python, and Ray is as it was installed."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RAY_"))}
    return kept | {"OMP_NUM_THREADS": "1"} | more


def fill(folder: Path, ran: Path, packages: bool) -> Hostile:
    """Write a module or a package of every name."""
    code = f"open({str(ran)!r}, 'a').write(__name__ + '\\n')\nraise ImportError('hostile')\n"
    for name in NAMES:
        path = folder / name / "__init__.py" if packages else folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    for name in SETTINGS:
        (folder / name).write_text("hostile: [\n")
    return Hostile(folder, ran, packages)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["modules", "packages"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Hostile:
    return fill(make_lake(tmp_path / "lake", ["cities", "fish"], 6), tmp_path / "ran", request.param)


@contextmanager
def serving(hostile: Hostile, index: Path) -> Iterator[str]:
    """The address of `gentus serve`, which is stopped by Ctrl-C."""
    command = [str(GENTUS), "serve", str(index), "-p", "0"]
    with subprocess.Popen(
        command,
        cwd=hostile.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield next(word for line in process.stdout for word in line.split() if word.startswith("http"))
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    hostile.check(command, subprocess.CompletedProcess(command, 0, out, err))


async def ask_agent_tools(hostile: Hostile, index: Path, query: str) -> None:
    """Search by `gentus mcp`."""
    server = StdioServerParameters(
        command=str(GENTUS), args=["mcp", str(index)], cwd=str(hostile.folder), env=environment()
    )
    async with Client(server) as client:
        found = await client.call_tool("search_tables", {"path": query})
        assert not found.is_error, found
        assert not hostile.ran.exists()


def test_no_command_runs_a_module_of_the_current_folder(hostile: Hostile, tmp_path: Path) -> None:
    index, query, run = tmp_path / "my.index", "typed/fish_3.parquet", hostile.gentus
    rows = rows_of("fish", 50)
    outside = write_table(tmp_path / "other.csv", rows)
    pairs = write_pairs(tmp_path / "pairs.csv", [("fish_0.csv", "deep/er/fish_1.csv")])
    run("--version")
    run(_GENTUS_COMPLETE="complete_bash", COMP_WORDS=f"gentus search {index} f", COMP_CWORD="3")
    run("index", ".", "-o", index)
    assert "full" in run("search", index, query, "--explain")
    assert "full" in run("search", index, "-", text=outside.read_text())
    run("search", index, query, "fish_0.csv", "--json")
    run("align", index, query, outside)
    run("union", index, query, "--dry-run")
    run("union", index, query, "--sql", tmp_path / "union.sql")
    (tmp_path / "made").mkdir()
    for ending in OUTPUTS if hostile.packages else OUTPUTS[:3]:  # the rest takes longer
        out = tmp_path / "made" / f"out.{ending}"
        run("union", index, query, "-o", out, "--lineage", tmp_path / f"{ending}.lineage")
    run("add", index, tmp_path / "made", outside)
    run("remove", index, outside)
    write_table(hostile.folder / "typed" / "fish_9.parquet", rows)
    run("sync", index)
    for command in ("groups", "tables", "info", "duplicates", "check", "compact", "refit"):
        run(command, index)
    run("describe", index, query)
    run("eval", index, "--groundtruth", pairs)
    asyncio.run(ask_agent_tools(hostile, index, query))
    with serving(hostile, index) as address:
        for page in ("", f"api/search?table={query}", f"api/table?name={query}"):
            with urllib.request.urlopen(f"{address.rstrip('/')}/{page}") as answer:
                assert answer.status == 200


# A notebook looks for modules in the current folder; what it has loaded is not loaded again from there.
NOTEBOOK = """
import multiprocessing.popen_spawn_posix, multiprocessing.resource_tracker, os, sys
from gentus.lake.sandbox.process import SandboxProcess
sys.path.insert(0, "")
before = list(sys.path), dict(os.environ)
print(SandboxProcess()(eval, "__import__('sys').path"), os.getcwd())
assert before == (sys.path, dict(os.environ))
"""


def test_processes_of_a_notebook_do_not_look_there(hostile: Hostile, tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # with -P, its processes would have it, too
    script.write_text(NOTEBOOK)
    path, folder = hostile.python(script).rsplit(maxsplit=1)
    assert repr(folder) not in path
    assert "''" not in path


@pytest.mark.slow
def test_neither_do_training_and_demo(hostile: Hostile, tmp_path: Path) -> None:
    names = [path.relative_to(hostile.folder).as_posix() for path in hostile.folder.rglob("*_?.*")]
    fish, cities = ([name for name in names if subject in name] for subject in ("fish", "cities"))
    pairs = [(a, b) for same in (fish, cities) for a in same for b in same if a != b]
    labels = write_pairs(tmp_path / "pairs.csv", pairs)
    given = ("--labels", labels)
    hostile.gentus("index", ".", "-o", tmp_path / "index", *given)
    hostile.gentus("search", tmp_path / "index", "typed/fish_3.parquet")
    hostile.gentus("demo", "--dir", tmp_path / "demo")


LIBRARY = """
import gentus, sys
with gentus.build(".", sys.argv[1], engine="ray") as index:
    print(len(index.tables()))
"""


@pytest.mark.slow
def test_nor_tasks_on_ray(hostile: Hostile, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'gentus[ray]'")
    hostile.gentus("index", ".", "-o", tmp_path / "index", "--engine", "ray")
    (tmp_path / "script.py").write_text(LIBRARY)
    assert hostile.python(tmp_path / "script.py", tmp_path / "library") == "12\n"
