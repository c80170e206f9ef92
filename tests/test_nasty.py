"""A lake of nothing but nasty files: indexed, searched and united, and every refusal has its reason."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import QUICK
from data.nasty import Nasty, arrow_of, make, plain_table

import gentus
from gentus.app.cli import main as cli
from gentus.index.hits import Hits
from gentus.index.index import Index
from gentus.lake import Limits, Skipped, Source, Unreadable, each, read, scan

pytest.importorskip("python_calamine", reason="some of the files are workbooks: pip install 'gentus[excel]'")
WIDE = "csv/many columns.csv"
# Refused as that one is, or read as another one: a search has tried each of them, and a union takes long.
LIKE_OTHERS = ("json/many keys.json", "typed/wide.parquet", "csv/one long line.csv", "excel/bomb.xlsx")
SECONDS = 120.0  # for all of them, on a busy machine


class World:
    """The files, the index of them, and what building it cost."""

    def __init__(self, root: Path) -> None:
        self.lake, self.folder = root / "lake", root / "index"
        self.files = make(self.lake)
        begun = time.monotonic()
        gentus.build(self.lake, self.folder, settings=QUICK, workers=1).close()
        self.seconds = time.monotonic() - begun

    def owner(self, name: str) -> Nasty:
        (found,) = [
            one for one in self.files if one.name == name or (one.part and name.startswith(f"{one.name}/"))
        ]
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("nasty"))


@pytest.fixture
def index(world: World) -> Iterator[Index]:
    with gentus.open(world.folder) as opened:
        yield opened


def test_all_are_read_or_refused_for_their_reason(world: World, index: Index) -> None:
    assert world.seconds < SECONDS
    reasons = dict(index.skipped())
    tables = set(index.tables())
    told = {world.owner(name).name for name in (*reasons, *tables)}
    assert told == {one.name for one in world.files}  # nothing goes unsaid
    for name, reason in reasons.items():
        expected = world.owner(name).refused
        assert expected is not None, f"{name!r} was refused: {reason}"
        assert re.search(expected, reason), f"{name!r} was refused: {reason}"
        assert "Traceback" not in reason
    for name in tables:
        assert world.owner(name).refused is None, f"{name!r} was read"


def test_each_is_searched_with_or_refused_in_words(world: World, index: Index) -> None:
    for one in world.files:
        try:
            hits, reason = index.search(world.lake / one.name, k=3), None
        except Unreadable as error:
            hits, reason = Hits(), error.reason
        if reason is None:
            assert hits
            assert one.refused is None or "out of the lake" in one.refused, f"{one.name!r} was read"
        else:
            assert one.refused or one.part, f"{one.name!r} was refused: {reason}"


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command and what it says, as a person sees it."""

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["gentus", *map(str, arguments)])
        code: object = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        said = "".join(capsys.readouterr())
        assert isinstance(code, int)
        assert "Traceback" not in said
        return code, said

    return run


def test_the_command_says_what_is_wrong(world: World, run: Run) -> None:
    for name in ("csv/nothing.csv", "json/deep keys.json", "typed/cut.parquet", "special/pipe.csv"):
        code, said = run("search", world.folder, world.lake / name)
        assert code != 0
        assert Path(name).name in said.replace("\n", " ")
    code, said = run("info", world.folder, "--skipped")
    assert code == 0
    assert "special/pipe.csv" in said


def test_each_is_united_or_refused_in_words(world: World, index: Index, tmp_path: Path) -> None:
    united = 0
    for one in world.files:
        if one.name.startswith("bytes/") and one.name not in ("bytes/00.csv", "bytes/22.json"):
            continue  # a byte is refused before anything is united, and a search has tried all of them
        if one.name.startswith("bombs/rows"):
            continue  # all of their rows are rows: a union of them takes its time
        if one.name in LIKE_OTHERS or (
            one.name.startswith(("csv/", "names/", "text/")) and len(one.name) % 3
        ):
            continue
        path = world.lake / one.name
        twin = tmp_path / f"twin.{path.name.split('.', 1)[1][-9:]}"
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 30:
            shutil.copy(path, twin)
        with suppress(Unreadable, ValueError):  # what the command tells in a sentence
            index.union(path, ["csv/ragged.csv" if one.name == WIDE else twin]).write_csv(
                tmp_path / "all.csv", force=True
            )
            united += 1
    assert united > 20


def test_the_command_unites_or_says_what_is_wrong(world: World, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "all.csv"
    for name in ("csv/one long cell.csv", "typed/lies a little.arrow", "special/pipe.csv"):
        code, said = run("union", world.folder, world.lake / name, "--tables", "csv/ragged.csv", "-o", out)
        assert code == 1
        assert "Error: " in said
        assert not out.exists()


def test_what_is_outside_never_comes_in(world: World, index: Index) -> None:
    for name in index.tables():
        if name.startswith("excel/"):
            table = read(Source(name, world.lake / "/".join(name.split("/")[:2]), "one", 0, 0))
            assert not [cell for column in table.columns for cell in column.cells if "root:" in cell]


def test_files_that_change_while_they_are_read(tmp_path: Path) -> None:
    """Cut, grown, replaced and gone again and again: read or refused, never more."""
    for number in range(30):
        (tmp_path / f"{number:02}.csv").write_text("a,b\n" + f"{number},x\n" * 2000)
        (tmp_path / f"{number:02}.arrow").write_bytes(arrow_of(plain_table(200)))
    sources = [found for found in scan(tmp_path) if isinstance(found, Source)]
    ended = threading.Event()

    def disturb() -> None:
        step = 0
        while not ended.is_set():
            path = sources[step * 7 % len(sources)].file
            step += 1
            match step % 4:
                case 0:
                    path.unlink(missing_ok=True)
                case 1:
                    path.write_bytes(b"a,b\n1,2\n")
                case 2:
                    with path.open("ab") as file:
                        file.truncate(step % 97)
                case 3:
                    path.write_bytes(arrow_of(plain_table(50)))

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        for _ in range(5):
            for source in sources:
                with suppress(Unreadable):
                    assert read(source).rows
    finally:
        ended.set()
        disturbing.join()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits memory so")
def test_a_file_that_needs_too_much_memory_is_named(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(b'[{"a": [' + b"[]," * 1_000_000 + b"[]]}]")
    (tmp_path / "small.csv").write_text("a,b\n1,2\n")
    sources = [found for found in scan(tmp_path) if isinstance(found, Source)]
    (_, large), (_, small) = each(sources, names_of, 1, Limits(memory_mb=32))
    assert isinstance(large, Skipped)
    assert "more memory" in large.reason
    assert small == "small.csv"


def names_of(found: Sequence[tuple[Source, gentus.table.Table]]) -> list[str]:
    return [source.name for source, _ in found]
