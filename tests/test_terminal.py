"""What names and cells of others can do to a terminal: nothing, in any command.

The commands run on pseudo-terminals (`on_terminal.py`). All that arrives there is compared with the sequences
that gentus itself may send; everything else has to be printable.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from conftest import HASTY, rows_of, write_pairs, write_table
from data.workbooks import xlsx

import gentus
from gentus.app.cli.main import app
from gentus.terminal import one_line, visible

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

# Colour, title, hyperlink, screen, bell, delete, C1, directions, line ends; then markup and emoji of Rich.
HOSTILE = (
    "\x1b[31;47mE\x1b]0;title\x07\x1b]8;;http:x\x1b\\\x1bc\x9b2J\x7f\u202etxe\u2066\u200f\u061c\u2028\u2029\x85\t\x0c"
    "\rCR\nFORGED[blink]m[link=x] :warning:"
)
NAME = HOSTILE.replace("\x1b\\", "\x1b")  # a backslash in a name is a folder elsewhere
CELL = f"{HOSTILE}[/blink]"
PLAIN = "[blink]m[link=x] :warning:"  # of which all is shown as it is
# Styles of Rich, and what its progress display does to cursor and lines.
OWN = re.compile(r"\x1b\[\d+(?:;\d+)*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r(?=\n|\x1b\[)")
FOREIGN = ("\x1b[31;47m", "\x1b[5m")  # styles that gentus has not; the second is that of [blink]


def check(shown: str, words: object) -> str:
    """The text that a terminal shows, after making sure that only gentus has commanded it."""
    for style in FOREIGN:
        assert style not in shown, words
    text = OWN.sub("", shown)
    control = list(obeyed(text))
    assert not control, (words, control, text)
    assert not re.search(r"^\s*(FORGED|CR)", text, re.MULTILINE), (words, text)
    return text


def obeyed(text: str) -> Iterator[str]:
    """The signs of a text that a terminal may obey: written here once more, not taken from the package."""
    for sign in text:
        code = ord(sign)
        if (code < 32 and sign != "\n") or 127 <= code < 160 or code in (0x61C, 0x200E, 0x200F):
            yield repr(sign)
        if 0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069:
            yield repr(sign)


def _jsonl(path: Path, rows: list[list[str]]) -> Path:
    """A table whose columns and some of whose cells are hostile."""
    header = (CELL, "kind", f"size {CELL}", "year")
    lines = [[CELL, *row[1:]] if number % 4 == 0 else row for number, row in enumerate(rows)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(dict(zip(header, line, strict=True))) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hostile lake, its index, and files that commands are given."""
    folder = tmp_path_factory.mktemp("terminal")
    lake = folder / NAME
    lake.mkdir()
    rows = rows_of("fish", 1)[1:]
    for number in range(4):
        _jsonl(lake / f"{NAME}{number}" / f"{NAME}.jsonl", rows_of("fish", number)[1:])
    _jsonl(lake / f"copy{NAME}.jsonl", rows_of("fish", 0)[1:])
    write_table(lake / f"1{NAME}.csv", [["1", "2"], *[row[2:] for row in rows_of("cities", 0)[1:]]])
    (lake / f"empty{NAME}.csv").touch()
    (lake / f"broken{NAME}.parquet").write_bytes(b"PAR1" + CELL.encode() * 9 + b"PAR1")
    (lake / f"broken{NAME}.json").write_text(f'{{"{PLAIN}": [1, {PLAIN}')
    (lake / f"link{NAME}.csv").symlink_to(f"nowhere{NAME}.csv")
    pq.write_table(pa.table({CELL: [CELL] * 12, "year": ["1"] * 12}), lake / f"{NAME}.parquet")
    with closing(sqlite3.connect(lake / f"{NAME}.sqlite")) as database, database:
        quoted = CELL.replace('"', '""')
        database.execute(f'CREATE TABLE "{quoted}" ("{quoted}" TEXT, kind TEXT)')
        database.executemany(f'INSERT INTO "{quoted}" VALUES (?, ?)', [[CELL, row[1]] for row in rows])
    (lake / f"{NAME}.xlsx").write_bytes(
        xlsx([["name", "kind"], ["\u202etrout\x9b", "river"], ["carp", "lake"]])
    )
    query = _jsonl(folder / f"query{NAME}.jsonl", rows_of("fish", 9)[1:])
    gentus.build(lake, folder / "index", settings=HASTY)
    write_pairs(
        folder / f"pairs{NAME}.csv", [(f"{NAME}0/{NAME}.jsonl", f"{NAME}1/{NAME}.jsonl"), (CELL, CELL)]
    )
    (folder / f"labels{NAME}.csv").write_text(f"query_table,candidate_table\n{HOSTILE}\n".replace("\r", ""))
    (folder / f"plan{NAME}.json").write_text(json.dumps({"gentus_union_plan": 1, CELL: query.name}))
    (folder / f"no{NAME}.json").write_text(CELL)
    return folder


Words = tuple[str, ...]


def commands() -> dict[str, list[Words]]:
    """Every command: what it shows of a hostile lake, and its errors. They run in this order."""
    query, table, other = f"query{NAME}.jsonl", f"{NAME}0/{NAME}.jsonl", f"{NAME}1/{NAME}.jsonl"
    pairs, unknown = f"pairs{NAME}.csv", f"{NAME}0/{NAME}.json"
    return {
        "tables": [("index",), ("index", "--like", NAME[:9]), (NAME,), ("index", "--json")],
        "describe": [
            ("index", table),
            ("index", unknown),
            ("index", f"{NAME}.sqlite/{CELL}"),
            ("index", CELL),
        ],
        "search": [
            ("index", query, "--explain"),
            ("index", table, unknown, CELL, f"empty{NAME}.csv"),
            ("index", "--fit", CELL, query),
            (query, "index"),
            ("index", query, f"--{CELL}"),
        ],
        "align": [("index", query, table), ("index", query, unknown), ("index", CELL, table)],
        "union": [
            ("index", query, "--dry-run"),
            ("index", query, "--tables", table, other, "-o", f"out{NAME}.csv"),
            ("index", query, "--tables", table, "--sql", "-"),
            ("index", query, "--tables", unknown, "--dry-run"),
            ("index", query, "--dry-run", "--decimal", f"{CELL}:{CELL}=."),
            ("--plan", f"plan{NAME}.json", "--dry-run"),
            ("--plan", f"no{NAME}.json", "--dry-run"),
        ],
        "groups": [("index",), ("index", "--members"), ("index", "-o", f"groups{NAME}.csv")],
        "duplicates": [("index",), ("index", "--json")],
        "info": [("index",), ("index", "--skipped"), ("index", "--headers"), ("index", "--reading"), (CELL,)],
        "eval": [("index", "--groundtruth", pairs), ("index", "--groundtruth", f"labels{NAME}.csv")],
        "records": [(f"no{CELL}",)],
        "add": [("index", query), ("index", f"none{NAME}.jsonl"), ("index", f"no{NAME}.json")],
        "remove": [("index", unknown), ("index", f"1{NAME}.csv")],
        "sync": [("index", "--dry-run"), ("index",), ("index", CELL)],
        "check": [("index",), (f"damaged{NAME}",)],
        "compact": [("index",), (CELL,)],
        "refit": [("index", "--labels", f"labels{NAME}.csv"), (CELL,)],
        "index": [
            (NAME, "-o", f"new{NAME}"),
            (f"none{NAME}", "-o", "other"),
            (NAME, "-o", f"other{NAME}", "--labels", f"labels{NAME}.csv"),
            (NAME, "-o", f"other{NAME}", "--preset", CELL),
        ],
        "demo": [("--dir", query)],
        "serve": [("index", "--port", "0"), (CELL,), ("index", "--host", CELL)],
        "mcp": [("index", "--folder", CELL), (CELL,)],
        "(defect)": [(CELL,)],
        "(libraries)": [(CELL,)],
        CELL: [()],
        f"--{CELL}": [()],
    }


SLOW: dict[str, list[Words]] = {
    "demo": [("--dir", f"demo{NAME}")],
    "refit": [("index",)],
    "records": [("index",)],
    "eval": [("index", "--groundtruth", f"pairs{NAME}.csv", "--json")],
}


def run(folder: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the commands show, each on a terminal."""
    script = Path(__file__).with_name("on_terminal.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)],
        **{"input": json.dumps(jobs), "capture_output": True, "text": True},
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def run_all(folder: Path, cases: dict[str, list[Words]]) -> dict[tuple[str, ...], str]:
    """The texts that the terminals show, checked."""
    words = [(command, *arguments) for command, several in cases.items() for arguments in several]
    jobs = [{"words": one, "stop_at": "Ctrl-C stops" if one[0] == "serve" else ""} for one in words]
    return {one: check(ended["shown"], one) for one, ended in zip(words, run(folder, jobs), strict=True)}


@pytest.fixture
def damaged(folder: Path) -> None:
    copy = shutil.copytree(folder / "index", folder / f"damaged{NAME}")
    next(copy.glob("trie-*/*")).write_bytes(b"junk")


@pytest.mark.usefixtures("damaged")
def test_no_name_or_cell_commands_a_terminal(folder: Path) -> None:
    cases = commands()
    assert set(typer.main.get_command(app).commands) <= set(cases), "a new command: give it hostile arguments"  # type: ignore[attr-defined]
    shown = run_all(folder, cases)
    escaped = visible(one_line(f"{NAME}0/{NAME}.jsonl"))
    for words in (
        ("tables", "index"),
        ("groups", "index"),
        ("groups", "index", "--members"),
        ("duplicates", "index"),
    ):
        assert escaped in shown[words], words
    for words, text in shown.items():
        assert "Traceback" not in text or words[0] == "(defect)", (words, text)
        if words[0] not in ("serve", "mcp", "compact", "demo", "records") and words != ("check", "index"):
            assert PLAIN in text or "--json" in words, (words, text)
    listed = json.loads(shown["tables", "index", "--json"])["tables"]
    assert f"{NAME}0/{NAME}.jsonl" in {one["name"] for one in listed}


@pytest.mark.slow
def test_no_name_or_cell_commands_a_terminal_in_long_commands(folder: Path) -> None:
    run_all(folder, SLOW)
