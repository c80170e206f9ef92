"""A lake listed in tasks is the lake as `scan` lists it."""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from pathlib import Path

import pytest

from gentus.lake import Skipped, Source, listing_tasks, scan
from gentus.lake.exclude import NOTHING
from gentus.lake.listing_tasks import ListingResult, ListingTask, run_listing


def merged(root: Path) -> tuple[list[Source | Skipped], int]:
    """The tables of all tasks, in order, and how many tasks there were."""
    line: deque[ListingResult] = deque([ListingTask(root)])
    items: list[Source | Skipped] = []
    count = 0
    while line:
        item = line.popleft()
        if isinstance(item, ListingTask):
            count += 1
            line.extendleft(reversed(run_listing(root, NOTHING, item)))
        else:
            items.append(item)
    return items, count


def fill(root: Path) -> Path:
    for folder in ("", "a", "a b", "a-b", "b/c/d", "wide", "z/empty"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for number in range(40 if folder == "wide" else 3):
            (root / folder / f"{number:02}.csv").write_text("x\n1\n")
    (root / "a.csv").write_text("x\n1\n")
    (root / "b.txt.other").write_text("no table")
    with sqlite3.connect(root / "b" / "base.sqlite") as base:
        for name in "two", "one":
            base.execute(f"CREATE TABLE {name} (x)")
    base.close()
    (root / "broken.sqlite").write_bytes(b"SQLite format 3\0 and nothing more")
    (root / "nowhere.csv").symlink_to(root / "gone.csv")
    (root / "here.csv").symlink_to(root / "a.csv")
    os.mkfifo(root / "pipe.csv")
    return root


@pytest.mark.parametrize(
    ("deep", "wide"), [(2_000, 20_000), (0, 20_000), (0, 1), (7, 5), (100, 3), (2_000, 39)]
)
def test_parts_make_up_the_lake(
    tmp_path: Path, deep: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fill(tmp_path)
    monkeypatch.setattr(listing_tasks, "WIDE", wide)
    monkeypatch.setattr(run_listing, "__defaults__", (deep,))
    items, count = merged(root)
    assert items == list(scan(root))
    assert (count == 1) == (deep == 2_000 and wide == 20_000)


def test_folders_of_any_depth(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath(*["d"] * 300)
    deepest.mkdir(parents=True)
    (deepest / "t.csv").write_text("x\n1\n")
    items, count = merged(tmp_path)
    assert [item.path for item in items] == [deepest / "t.csv"]
    assert count > 1  # one part would go deeper than Python does


def test_a_folder_that_went_away_is_named(tmp_path: Path) -> None:
    (item,) = run_listing(tmp_path, NOTHING, ListingTask(tmp_path / "gone", "gone/"))
    assert isinstance(item, Skipped)
    assert item.name == "gone"
    assert "no longer there" in item.reason
