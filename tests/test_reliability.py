"""What docs/RELIABILITY.md promises and no other test shows."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import rows_of, subject_of, write_table
from test_crash import humbly
from victim import TINY

import gentus
from gentus.files import write_file
from gentus.index import folder as store
from gentus.index.catalogue import Catalogue, database
from gentus.index.check import check
from gentus.index.folder import IndexFolderError, Layout
from gentus.index.writer import writer

HERE = Path(__file__).parent


def test_every_test_that_the_document_names_is_there() -> None:
    text = (HERE.parent / "docs" / "RELIABILITY.md").read_text("utf-8")
    named = re.findall(r"`(test_\w+)\.py::(test_\w+)`", text)
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}(" in (HERE / f"{file}.py").read_text("utf-8"), (file, test)


# --- power loss ----------------------------------------------------------------------------------------


def test_bytes_are_on_the_disk_before_their_name_and_the_name_before_anybody_counts_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted(descriptor: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        done.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "replace", renamed)
    write_file(tmp_path / "a", b"content")
    assert done == ["file", "name", "folder"]


def test_a_transaction_is_on_the_disk_when_it_is_acknowledged(home: Path) -> None:
    with closing(Catalogue(home / "index" / "catalogue.sqlite", writable=True)) as catalogue:
        assert catalogue.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert catalogue.db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


# --- clocks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", [1, 10**9, 4 * 10**9, 2**33])
def test_a_clock_that_jumps(home: Path, then: int) -> None:
    """Another date is all that counts, earlier or later; one far in the future too."""
    path = home / "lake" / "fish_0.csv"
    with gentus.open(home / "index") as index:
        for turn, seconds in enumerate((4 * 10**9, then + 7, 5, then)):
            write_table(path, rows_of(("cities", "fish")[turn % 2], 70 + turn))
            os.utime(path, (seconds, seconds))
            assert index.sync().replaced == ["fish_0.csv"]
            assert index.sync().unchanged == 6
            near = index.search(index.read(path), k=1)[0]
            assert subject_of(near.table) == ("cities", "fish")[turn % 2] or near.table == "fish_0.csv"
    assert check(home / "index") == []


# --- permissions ---------------------------------------------------------------------------------------


def test_a_file_that_may_not_be_read_for_a_while(home: Path) -> None:
    path, index = home / "lake" / "fish_0.csv", home / "index"
    command = ("-c", "from gentus.app.cli.main import main; main()")
    write_table(path, rows_of("fish", 8))
    path.chmod(0)
    try:
        if humbly("-c", "import sys; open(sys.argv[1])", path).returncode == 0:
            pytest.skip("nothing keeps us from reading here")
        write_table(home / "lake" / "fish_9.csv", rows_of("fish", 9))
        ran = humbly(*command, "sync", index)
        assert "fish_0.csv" in ran.stderr
        assert "1 added" in ran.stderr
        with gentus.open(index) as opened:
            assert "fish_9.csv" in opened.tables()
            assert "fish_0.csv" not in opened.tables()  # nobody knows what it holds now
    finally:
        path.chmod(0o644)
    with gentus.open(index) as opened:
        opened.sync()
        assert "fish_0.csv" in opened.tables()
    assert check(index) == []


# --- file systems without locks or shared memory --------------------------------------------------------


def through(monkeypatch: pytest.MonkeyPatch, vfs: str) -> None:
    """Let SQLite use files as on a system that lacks something."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    class Lacking:
        def __getattr__(self, name: str) -> Any:
            return getattr(sqlite3, name)

        def connect(self, name: str, **options: Any) -> sqlite3.Connection:
            return connect(f"{name}&vfs={vfs}" if name.startswith("file:") else name, **options)

    monkeypatch.setattr(database, "sqlite3", Lacking())


def test_a_file_system_without_shared_memory_is_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those over a network are: SQLite's log needs memory that all processes share."""
    through(monkeypatch, "unix-none")
    with pytest.raises(IndexFolderError, match="keep the index on a disk of this machine"):
        gentus.build(home / "lake", tmp_path / "new", settings=TINY)
    with pytest.raises(IndexFolderError, match="keep the index on a disk of this machine"):
        gentus.open(home / "index").remove("fish_0.csv")
    monkeypatch.undo()
    with gentus.open(home / "index") as index:
        assert len(index) == 6
    assert check(home / "index") == []


def test_a_file_system_without_locks_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unlockable(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement.startswith("BEGIN"):
                raise sqlite3.OperationalError("locking protocol")  # what SQLite makes of ENOLCK
            return super().execute(statement, *values)

    class Lacking:
        def __getattr__(self, name: str) -> Any:
            return getattr(sqlite3, name)

        def connect(self, path: Path, **options: Any) -> sqlite3.Connection:
            return sqlite3.connect(path, factory=Unlockable, **options)

    monkeypatch.setattr(store, "sqlite3", Lacking())
    with (
        pytest.raises(IndexFolderError, match=r"Cannot write to .*: locking protocol"),
        writer(Layout(home / "index")),
    ):
        raise AssertionError("it was opened")
