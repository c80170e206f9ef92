"""A folder of JSON files with one object each and the same keys is one table."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import QUICK, make_lake
from test_cli import Run, run

import gentus
from gentus.lake import Limits, Source, Unreadable, each, folder, only_table, read, scan
from gentus.lake.exclude import Exclude
from gentus.lake.formats import json_folder
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally
from gentus.lake.listing_tasks import ListingTask, run_listing

__all__ = ["run"]  # a fixture


def record(number: int) -> dict[str, Any]:
    made = {"id": number, "user": f"user {number % 7}", "amount": number / 4, "tags": ["a", "b"]}
    return made | ({"note": "late"} if number % 5 == 0 else {})


def write_records(where: Path, count: int, first: int = 0) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        (where / f"e{number:04}.json").write_text(json.dumps(record(number)))
    return where


def names(lake: Path, exclude: Exclude | None = None) -> list[str]:
    found = [item.name for item in scan(lake, exclude or Exclude())]
    assert found == sorted(found)
    listed = run_listing(lake, exclude or Exclude(), ListingTask(lake))
    assert [item.name for item in listed if not isinstance(item, ListingTask)] == found
    return found


def table_of(where: Path) -> Source:
    return next(item for item in scan(where) if isinstance(item, Source) and item.part == "*.json")


def rows_in(source: Source) -> list[dict[str, Any]]:
    """All rows, as a union reads them."""
    with closing(duckdb.connect(config={"threads": 1})) as duck:
        full = open_full(source, duck)
        with full.scan(duck, range(len(full.names)), Tally()) as relation:
            found = duck.execute(f"SELECT * FROM {relation} ORDER BY row").fetchall()
    return [dict(zip(full.names, row, strict=False)) for row in found]


def test_many_files_are_one_table(tmp_path: Path) -> None:
    write_records(tmp_path / "events", 30)
    assert names(tmp_path) == ["events/*.json"]
    source = table_of(tmp_path)
    table = read(source)
    assert [column.name for column in table.columns] == ["id", "user", "amount", "tags", "note"]
    assert table.columns[0].cells == [str(number) for number in range(30)]
    assert table.columns[3].cells[0] == '["a", "b"]'
    assert len(table.columns[4].cells) == 6
    assert table.reading.startswith("a row per JSON file of the folder")
    assert "30 files" in table.reading
    found = rows_in(source)
    assert [row["id"] for row in found] == table.columns[0].cells
    assert found[1] == {"id": "1", "user": "user 1", "amount": "0.25", "tags": '["a", "b"]', "note": None}


def test_the_lake_itself_can_be_one(tmp_path: Path) -> None:
    assert names(write_records(tmp_path, 20)) == ["*.json"]


def test_few_files_are_tables_of_their_own(tmp_path: Path) -> None:
    write_records(tmp_path / "events", 19)
    assert len(names(tmp_path)) == 19


def test_files_that_are_tables_stay_such(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"array{number}.json").write_text(json.dumps([record(1), record(2)]))
        (tmp_path / f"lines{number}.jsonl").write_text(json.dumps(record(1)))
    assert len(names(tmp_path)) == 60
    pages = tmp_path / "pages"
    pages.mkdir()
    for number in range(30):
        (pages / f"{number}.json").write_text(json.dumps({"page": number, "rows": [record(1), record(2)]}))
    assert len(names(pages)) == 30


def test_other_keys_are_no_table(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.json").write_text(json.dumps({f"key{number}": 1, f"other{number}": 2}))
    assert len(names(tmp_path)) == 40


def test_what_does_not_fit_is_not_swallowed(tmp_path: Path) -> None:
    events = write_records(tmp_path / "events", 40)
    (events / "package.json").write_text('{"name": "x", "version": "1", "scripts": {"a": "b"}, "user": "z"}')
    (events / "array.json").write_text(json.dumps([record(1), record(2)]))
    (events / "broken.json").write_text('{"id": 1, ')
    (events / "other.csv").write_text("a,b\n1,2\n3,4\n")
    (events / "large.json").write_text(json.dumps(record(1) | {"note": "x" * 100_000}))
    (events / "linked.json").symlink_to("e0001.json")
    (events / "folder.json").mkdir()
    os.mkfifo(events / "pipe.json")
    others = ["array", "broken", "large", "linked", "package", "pipe"]
    expected = {*(f"events/{name}.json" for name in others), "events/*.json", "events/other.csv"}
    assert set(names(tmp_path)) == expected
    source = table_of(tmp_path)
    assert read(source).rows == 40
    assert len(rows_in(source)) == 40
    reasons = {
        one.name: result
        for one, result in each([item for item in scan(tmp_path) if isinstance(item, Source)], len_of)
    }
    assert "configuration" in str(reasons["events/package.json"])
    assert "not JSON" in str(reasons["events/broken.json"])
    assert reasons["events/array.json"] == 2


def len_of(found: Any) -> list[int]:
    return [table.rows for _, table in found]


def test_thousands_are_sampled_and_all_of_them_are_united(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_records(tmp_path, 700)
    source = table_of(tmp_path)
    opened: list[Path] = []
    before = json_folder._one_object

    def one_object(path: Path) -> dict[str, Any] | None:
        opened.append(path)
        return before(path)

    monkeypatch.setattr(json_folder, "_one_object", one_object)
    limits = Limits(rows=50)
    table = read(source, limits)
    assert table.rows == 50
    assert len(opened) <= 64 + 50 + limits.head
    assert len(set(table.columns[1].cells)) == 7  # spread over all files
    assert table.row_sketch is not None
    assert not table.row_sketch.complete
    monkeypatch.setattr(folder, "MANY", 10)  # sorted on the disk
    assert [row["id"] for row in rows_in(source)] == [str(number) for number in range(700)]
    assert names(tmp_path) == ["*.json"]


def test_what_is_excluded_is_not_read(tmp_path: Path) -> None:
    events = write_records(tmp_path / "events", 30)
    (events / "package.json").write_text('{"name": "x", "version": "1", "scripts": {"a": "b"}}')
    assert names(tmp_path, Exclude.of(["events/"])) == ["events"]
    assert names(tmp_path, Exclude.of(["package.json"])) == ["events/*.json", "events/package.json"]
    assert names(tmp_path, Exclude.of(["events/*.json"]))[0] != "events/*.json"
    some = names(tmp_path, Exclude.of(["e0003.json"]))
    assert len(some) == 31  # files of their own, one of them excluded
    assert "events/*.json" not in some


def test_a_folder_that_has_changed_is_no_longer_a_table(tmp_path: Path) -> None:
    write_records(tmp_path, 20)
    source = table_of(tmp_path)
    (tmp_path / "e0001.json").unlink()
    with pytest.raises(Unreadable, match="index the lake again"):
        read(source)


def test_a_person_names_it(tmp_path: Path) -> None:
    events = write_records(tmp_path / "events", 25)
    for given in (events, events / "*.json", str(events)):
        source = only_table(given)
        assert (source.name, source.path, source.part) == ("events/*.json", events, "*.json")
        assert read(source).rows == 25
    assert read(only_table(events / "e0003.json")).rows == 1
    with pytest.raises(Unreadable, match="it is a folder"):
        only_table(tmp_path)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    lake = make_lake(made / "lake", ["cities", "fish"], 3)
    write_records(lake / "events", 30)
    lines = "".join(f"{number},user {number % 7},{number / 4}\n" for number in range(40, 60))
    (lake / "more.csv").write_text(f"id,user,amount\n{lines}")
    gentus.build(lake, made / "my.index", settings=QUICK, workers=1).close()
    return made


def test_in_an_index(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    index, lake = here / "my.index", here / "lake"
    found = run("info", index, "--reading", "--json").json()["reading"]
    assert [one["name"] for one in found] == ["events/*.json"]
    assert "30 files" in run("describe", index, "events/*.json").out
    for query in (lake / "events" / "e0003.json", lake / "more.csv"):
        results = run("search", index, query, "--json").json()["queries"][0]["results"]
        assert "events/*.json" in [one["table"] for one in results]
    for named in ("events/*.json", lake / "events"):
        results = run("search", index, named, "--json").json()["queries"][0]["results"]
        assert "more.csv" in [one["table"] for one in results]
        assert "events/*.json" not in [one["table"] for one in results]  # never its own hit
    monkeypatch.chdir(lake)
    assert run("search", index, "events/*.json", "--json").json()["queries"][0]["results"] == results
    out = here / "out.csv"
    ran = run("union", index, lake / "more.csv", "--tables", "events/*.json", "-o", out)
    assert ran.code == 0, ran.err
    assert "a row per JSON file" in ran.err + ran.out
    assert len(out.read_text().splitlines()) == 1 + 20 + 30
    ran = run("union", index, lake / "more.csv", "--tables", "events/*.json", "--sql", here / "all.sql")
    assert ran.code == 0, ran.err
    united = duckdb.execute((here / "all.sql").read_text()).fetchall()
    assert len(united) == 50


def test_sync_follows_the_files(tmp_path: Path, run: Run) -> None:
    lake = make_lake(tmp_path / "lake", ["cities"], 3)
    events, index = write_records(lake / "events", 25), tmp_path / "my.index"
    gentus.build(lake, index, settings=QUICK, workers=1).close()

    def synced(*more: str) -> dict[str, Any]:
        return dict(run("sync", index, *more, "--json").json())

    def kinds() -> dict[str, list[str]]:
        found = synced("--force")
        return {kind: found[kind] for kind in ("added", "replaced", "removed")}

    assert kinds() == {"added": [], "replaced": [], "removed": []}
    write_records(events, 2, first=25)
    assert kinds() == {"added": [], "replaced": ["events/*.json"], "removed": []}
    (events / "e0000.json").unlink()
    assert kinds() == {"added": [], "replaced": ["events/*.json"], "removed": []}
    assert run("check", index).code == 0
    for path in sorted(events.iterdir())[:10]:
        path.unlink()
    changed = kinds()
    assert changed["removed"] == ["events/*.json"]
    assert len(changed["added"]) == 16
    write_records(events, 10)
    changed = kinds()
    assert changed["added"] == ["events/*.json"]
    assert len(changed["removed"]) == 16
    assert run("remove", index, "events/*.json").code == 0
    assert kinds()["added"] == ["events/*.json"]
