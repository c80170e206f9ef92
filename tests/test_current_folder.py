"""The current folder is data: of a hostile one, no module is imported and no settings are read."""

from __future__ import annotations

import json
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

GENTUS = Path(sys.executable).with_name("gentus")
# What Python looks for at its start, and what users may have beside it.
OTHERS = {"gentus", "sitecustomize", "usercustomize", "__main__", "__mp_main__"}
NAMES = sorted(
    name for name in {*sys.stdlib_module_names, *packages_distributions(), *OTHERS} if name.isidentifier()
)
SETTINGS = (".env", ".pyiceberg.yaml", ".duckdbrc", "pyvenv.cfg", "setup.cfg", "matplotlibrc", "pg_service.conf")
OUTPUTS = ("csv", "tsv", "jsonl", "parquet", "xlsx", "sqlite", "duckdb")


@dataclass(frozen=True, slots=True)
class Hostile:
    """A downloaded folder: tables beside modules that shadow everything which a Python may import."""

    folder: Path
    ran: Path  # what its modules write when they are run

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
    return Hostile(folder, ran)


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
    for ending in OUTPUTS:
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
    run("records", index, "--labels", pairs)
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    call = {"name": "search_tables", "arguments": {"path": query}}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    print(run("mcp", index, text="".join(f"{json.dumps(one)}\n" for one in asked)))
    with serving(hostile, index) as address:
        for page in ("", f"api/search?table={query}", f"api/table?name={query}"):
            with urllib.request.urlopen(f"{address.rstrip('/')}/{page}") as answer:
                assert answer.status == 200
