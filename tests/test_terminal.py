"""What names and cells of others can do to a terminal: nothing, in any command.

The commands run on pseudo-terminals (`on_terminal.py`). All that arrives there is compared with the sequences
that gentus itself may send; everything else has to be printable.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from conftest import QUICK, rows_of, write_pairs, write_table
from data.workbooks import xlsx
from test_architecture import SOURCE

import gentus
from gentus.app.cli.main import app, main
from gentus.terminal import markup, one_line, visible

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

# Colour, title, hyperlink, screen, bell, delete, C1, directions, line ends; then markup and emoji of Rich.
HOSTILE = (
    "\x1b[31;47mE\x1b]0;title\x07\x1b]8;;http:x\x1b\\\x1bc\x9b2J\x7f\u202etxe\u2066\u200f\u061c\u2028\u2029\x85\t\x0c"
    "\rCR\nFORGED[blink]m[link=x] :warning:"
)
NAME = HOSTILE.replace("\x1b\\", "\x1b")  # a backslash in a name is a folder elsewhere
CELL = f"{HOSTILE}[/blink]"
PLAIN = "[blink]m[link"  # is shown as it is
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


def _workbook(path: Path) -> None:
    """A workbook with a hostile sheet and cell, as far as XML has the characters."""
    plain = io.BytesIO(xlsx([["name", "kind"], ["\u202etrout\x9b", "river"], ["carp", "lake"]]))
    with zipfile.ZipFile(plain) as parts, zipfile.ZipFile(path, "w") as changed:
        for name in parts.namelist():
            sheet = 'name="\u202etxe\u2066\x9b2J\x85[blink]m"'.encode()
            changed.writestr(name, parts.read(name).replace(b'name="Sheet1"', sheet))


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
    write_table(lake / f"1{NAME}.csv", [[f"{n}.5", f"{n * 7}.25"] for n in range(9, 30)])
    (lake / f"title{NAME}.csv").write_text("Fish of the year\n\nname,kind\n" + "carp,lake\npike,river\n" * 9)
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
    # Closed: a copy of the folder in this process would drop the locks of a connection that is still open.
    gentus.build(lake, folder / "index", settings=QUICK).close()
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
            ("index", query, "--tables", table, "-o", "-"),
            ("index", query, "--tables", unknown, "--dry-run"),
            ("index", query, "--dry-run", "--decimal", f"{CELL}:{CELL}=."),
            ("--plan", f"plan{NAME}.json", "--dry-run"),
            ("--plan", f"no{NAME}.json", "--dry-run"),
        ],
        "groups": [("index",), ("index", "--members"), ("index", "-o", f"groups{NAME}.csv")],
        "duplicates": [("index",), ("index", "--json")],
        "info": [("index",), ("index", "--skipped"), ("index", "--headers"), ("index", "--reading"), (CELL,)],
        "eval": [("index", "--groundtruth", pairs), ("index", "--groundtruth", f"labels{NAME}.csv")],
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


MANY_LINES = ("(defect)", "(libraries)")  # a traceback or a warning has the line ends of its text
SILENT: tuple[Words, ...] = (("check", "index"), ("compact", "index"), ("serve", "index", "--port", "0"))
SLOW: dict[str, list[Words]] = {
    "demo": [("--dir", f"demo{NAME}")],
    "refit": [("index",)],
    "eval": [("index", "--groundtruth", f"pairs{NAME}.csv", "--json")],
}


def run(folder: Path, jobs: list[dict[str, Any]], **environment: str) -> list[dict[str, Any]]:
    """What the commands show, each on a terminal."""
    script = Path(__file__).with_name("on_terminal.py")
    environment = {**os.environ, **environment, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    done = subprocess.run(
        command, input=json.dumps(jobs), capture_output=True, text=True, cwd=folder, env=environment
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
    lists: list[Words] = [("tables", "index"), ("groups", "index"), ("groups", "index", "--members")]
    for words in (*lists, ("duplicates", "index"), ("info", "index", "--skipped")):
        assert (escaped if "info" not in words else PLAIN) in shown[words], words
    for words, text in shown.items():
        if words[0] not in MANY_LINES and words[-1] != "-":
            assert not re.search(r"^\s*FORGED", text, re.MULTILINE), (words, text)
        assert "Traceback" not in text or words[0] == "(defect)", (words, text)
        assert PLAIN in text or words in SILENT or words[0] == "eval", (words, text)
    listed = json.loads(shown["tables", "index", "--json"])["tables"]
    assert f"{NAME}0/{NAME}.jsonl" in {one["name"] for one in listed}


def test_an_old_encoding_is_no_way_around(folder: Path) -> None:
    """Typer writes to the bytes below a stream that is ASCII."""
    jobs = [{"words": [f"--{CELL}"]}, {"words": ["tables", CELL]}]
    for ended in run(folder, jobs, PYTHONIOENCODING="ascii"):
        assert PLAIN in check(ended["shown"], jobs)


@pytest.mark.slow
def test_no_name_or_cell_commands_a_terminal_in_long_commands(folder: Path) -> None:
    run_all(folder, SLOW)


def test_pipes_and_files_get_names_as_they_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Except for line ends, so that a table is a line."""
    monkeypatch.chdir(folder)
    name = f"copy{NAME}.jsonl"

    def piped(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["gentus", *words])
        with suppress(SystemExit):
            main()
        return capsys.readouterr().out

    listed = piped("tables", "index").split("\n")
    with gentus.open(folder / "index") as index:
        assert len(listed) == 1 + len(index) + 1
    assert any(line.endswith(one_line(name)) for line in listed)
    assert json.loads(piped("describe", "index", name, "--json"))["name"] == name
    assert "\x9b" in piped("describe", "index", name, "--json")


def test_what_is_written_out() -> None:
    for code in range(0x3000):
        sign = chr(code)
        shown = visible(sign)
        assert shown.isprintable() or shown == "\n" or not list(obeyed(sign)), code
        assert shown == sign or list(obeyed(sign)) == [repr(sign)]
    assert visible("a\tb\x1b\x9b\u202e\n") == "a\\tb\\x1b\\x9b\\u202e\n"
    assert visible("Zürich 東京 👍 עברית") == "Zürich 東京 👍 עברית"
    assert one_line("a\r\nb") == "a\\r\\nb"
    assert markup("[red]\n[/]") == "\\[red]\\n\\[/]"


# --- nothing else writes ------------------------------------------------------------------------------

SINK = "terminal.py"
WRITERS = {
    "print",
    "input",
    "breakpoint",
    "pprint",
    "echo",
    "secho",
    "prompt",
    "confirm",
    "print_exc",
    "print_tb",
}
WRITERS |= {
    "print_exception",
    "print_stack",
    "StreamHandler",
    "RichHandler",
    "Console",
    "fdopen",
    "showwarning",
}
OURS = {"page.print", "screen.print", "console.print", "console().print", "console(stderr=True).print"}
ASKED = {"isatty", "flush", "close", "encoding"}  # of a stream, without writing to it
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
EXCEPTIONS = {
    ("__main__.py", "print"): "one fixed word, where nothing is imported yet",
    ("__main__.py", "sys.stderr"): "the same",
    ("app/cli/main.py", "sys.stdout"): "sets how it encodes, before the sink takes it",
    ("app/cli/main.py", "sys.stderr"): "the same",
    ("app/cli/main.py", "sys.__stdout__"): "is flushed, and compared with None",
    ("union/output.py", "sys.__stdout__"): "is compared with None",
}


def writes(tree: ast.Module) -> Iterator[str]:
    """What writes to the streams in a module, or could."""
    typed = {
        node
        for one in ast.walk(tree)
        if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"
        for node in ast.walk(one)
    }
    asked = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in ASKED}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)) if (
                name in WRITERS
            ):
                if ast.unparse(node.func) not in OURS:
                    yield name
            case ast.ImportFrom(module="rich.console" | "rich.logging" | "click") if node not in typed:
                yield f"from {node.module}"
            case ast.Attribute(value=ast.Name(id="sys"), attr=name) if name in STREAMS and node not in asked:
                yield f"sys.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write")):
                yield "os.write"
            case ast.Call(func=ast.Name(id="open"), args=[ast.Constant(value=1 | 2), *_]):
                yield "open"
            case ast.Constant(value="/dev/stdout" | "/dev/stderr" | "/dev/tty"):
                yield str(node.value)


def test_nothing_else_writes_to_the_streams() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), what)
        for path in SOURCE.rglob("*.py")
        if path.name != SINK
        for what in writes(ast.parse(path.read_text("utf-8")))
    }
    assert found == set(EXCEPTIONS)


@pytest.mark.parametrize(
    "code",
    [
        "print(1)",
        "typer.echo(name)",
        "from rich.console import Console",
        "Console().print(name)",
        "rich.print(name)",
        "sys.stdout.write(name)",
        "write = sys.stderr.write",
        "stream = sys.stdout",
        "sys.stdout.buffer.write(name)",
        "os.write(1, name)",
        "open(1, 'wb', closefd=False)",
        "logging.StreamHandler()",
        "traceback.print_exc()",
    ],
)
def test_the_lint_finds(code: str) -> None:
    assert list(writes(ast.parse(code)))
    assert not list(writes(ast.parse("sys.stdout.isatty(); page.print(1); sys.stderr.flush()")))
