"""Folders of any size are listed in order and in bounded memory."""

from __future__ import annotations

import os
import random
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from gentus.lake import OtherKinds, Skipped, Source, folder, scan
from gentus.scratch import NoRoomError, Scratch

ODD = [
    "ä.csv",
    "\U0001f41f.csv",
    "￿.csv",
    "a.csv",
    "a/z.csv",
    "a0.csv",
    "a-.csv",
    "A.csv",
    "b.xlsx.csv",
    "b/a b.csv",
]


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x,y\n1,2\n")
    return folder


def peak(folder: Path) -> int:
    """The most memory that a scan takes."""
    tracemalloc.start()
    try:
        for _ in scan(folder):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("many", [3, 1000])  # sorted on the disk, and in memory
def test_the_order_is_that_of_names_wherever_they_are_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(folder, "MANY", many)
    chance = random.Random(0)
    plain = [f"{chance.choice('abc')}{n}{chance.choice(['.csv', '/t.csv', '-x.csv'])}" for n in range(40)]
    fill(tmp_path, [*ODD, *plain])
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to("a.csv")
    (tmp_path / "linked").symlink_to("a")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    with suppress(OSError):  # some file systems take only Unicode names
        fill(tmp_path, [os.fsdecode(b"caf\xe9.csv")])
    found = list(scan(tmp_path))
    names = [one.name for one in found]
    assert names == sorted(names)
    tables = {one.name for one in found if isinstance(one, Source)}
    assert tables - {"caf\\xe9.csv"} == {*ODD, *plain, "link.csv"}
    assert {one.name for one in found if isinstance(one, Skipped)} == {"pipe.csv", "linked", ""}
    assert [one.endings for one in found if isinstance(one, OtherKinds)] == [{".png": 1}]
    assert all(one.file.is_file() for one in found if isinstance(one, Source))


def test_memory_does_not_grow_with_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MANY", 500)
    few, many = (
        fill(tmp_path / str(count), [f"table-{n:06d}.csv" for n in range(count)]) for count in (1000, 10_000)
    )
    peak(few)  # what is loaded by the first scan is not what a scan takes
    # Threads that earlier tests have left may allocate meanwhile: the least of three counts.
    most, least = (min(peak(folder) for _ in range(3)) for folder in (many, few))
    assert most < 1.2 * least


def test_an_error_of_a_large_folder_is_told_as_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MANY", 2)
    fill(tmp_path, [f"deep/{n}.csv" for n in range(5)])
    really = folder.unicode_name

    def failing(name: str) -> str:
        if name == "4.csv":
            raise OSError(5, "Input/output error")
        return really(name)

    monkeypatch.setattr(folder, "unicode_name", failing)
    (found,) = scan(tmp_path)
    assert isinstance(found, Skipped)
    assert (found.name, found.reason) == ("deep", "the system could not read it: Input/output error")


def test_no_room_for_the_list_is_no_empty_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MANY", 2)
    fill(tmp_path, [f"deep/{n}.csv" for n in range(5)])

    class Small(Scratch):
        def __init__(self, *columns: str) -> None:
            super().__init__(*columns)
            self._db.execute("PRAGMA max_page_count = 2")

    monkeypatch.setattr("gentus.scratch.Scratch", Small)
    fill(tmp_path, [f"deep/{'x' * 200}{n}.csv" for n in range(100)])
    with pytest.raises(NoRoomError, match=r"there is no room on the disk.*SQLITE_TMPDIR"):
        list(scan(tmp_path))
