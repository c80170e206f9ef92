"""What is done on Windows and macOS, as far as it can be seen on another system."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gentus import files, scratch_folder
from gentus.app.serve import run
from gentus.app.serve.uploads import clean_name
from gentus.files import write_file
from gentus.lake.folder import unicode_name


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some modules think so; all others, such as pathlib, had better not."""
    other = SimpleNamespace(**{**vars(os), "name": "nt"})
    for module in (files, run, scratch_folder):
        monkeypatch.setattr(module, "os", other)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("CON.csv", "_CON.csv"),
        ("nul", "_nul"),
        ("com1.tar.csv", "_com1.tar.csv"),
        ("Lpt¹ .csv", "_Lpt¹ .csv"),
        ("console.csv", "console.csv"),
        ("a:b.csv", "a_b.csv"),  # a stream of the file `a`
        ('what? "x" <1|2>*.csv', "what_ _x_ _1_2__.csv"),
        ("C:\\Users\\me\\x.csv", "x.csv"),
        ("x.csv. .", "x.csv"),  # Windows would drop them, and two names be one
    ],
)
def test_names_of_uploads_that_windows_cannot_keep(name: str, kept: str) -> None:
    assert clean_name(name, windows=True) == kept


def test_other_systems_keep_them() -> None:
    assert clean_name("con: a?.csv", windows=False) == "con: a?.csv"


def test_a_name_with_half_a_character_is_written_out() -> None:
    assert unicode_name("a\ud800é.csv") == "a\\ud800é.csv"  # which only Windows allows
    assert unicode_name("a\udcff.csv") == "a\\xff.csv"


def refuses(times: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let replacing a file fail some times, as if somebody had it open; what was waited."""
    real, left = Path.replace, [times]
    waits: list[float] = []

    def replace(self: Path, target: Path) -> Path:
        if left[0]:
            left[0] -= 1
            raise PermissionError(13, "it is used by another process", str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(files, "time", SimpleNamespace(sleep=waits.append))
    return waits


@pytest.mark.usefixtures("windows")
def test_a_file_that_is_being_read_is_replaced_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    waits = refuses(2, monkeypatch)
    write_file(path, b"new")
    assert (path.read_bytes(), waits) == (b"new", [0.01, 0.05])


@pytest.mark.usefixtures("windows")
def test_one_that_stays_open_is_said_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    refuses(99, monkeypatch)
    with pytest.raises(PermissionError, match="used by another process"):
        write_file(path, b"new")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("config.json", b"old")]


def test_elsewhere_a_refusal_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = refuses(1, monkeypatch)
    with pytest.raises(PermissionError):
        write_file(tmp_path / "x", b"new")
    assert waits == []


@pytest.mark.usefixtures("windows")
def test_what_a_killed_union_left_is_cleared_away_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    with scratch_folder.scratch_folder(out) as running:
        (held,) = running.iterdir()
        left = tmp_path / ".out.csv.part-killed"
        left.mkdir()
        (left / held.name).touch()
        real = Path.unlink

        def unlink(self: Path, missing_ok: bool = False) -> None:
            if self == held:
                raise PermissionError(13, "it is used by another process", str(self))
            real(self, missing_ok)

        monkeypatch.setattr(Path, "unlink", unlink)
        with scratch_folder.scratch_folder(out):
            assert running.exists()
            assert not left.exists()


@pytest.mark.usefixtures("windows")
def test_no_two_servers_share_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(socket.socket, "setsockopt", lambda self, *option: asked.append(option))
    run.listen("127.0.0.1", 0).close()
    assert asked == []
