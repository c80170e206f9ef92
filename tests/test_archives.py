"""Zip archives: their files are tables, nothing leads out of them, and they cost no more than other files."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zipfile
from pathlib import Path

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, make_lake, rows_of
from data.workbooks import xlsx
from test_cli import Run, run
from test_lake_scan import names, others, reasons

import gentus
from gentus.lake import Limits, OtherKinds, Source, Unreadable, read, read_path, scan
from gentus.lake.formats import archive as archives
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally

__all__ = ["run"]  # a fixture
CSV = "town,people\nOslo,709\nBergen,291\nTromsø,77\n"
ROWS = [("Oslo", "709"), ("Bergen", "291"), ("Tromsø", "77")]


def write_zip(path: Path, members: dict[str, bytes | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def all_rows(source: Source) -> list[tuple[str, ...]]:
    with duckdb.connect() as duck:
        full = open_full(source, duck)
        with full.scan(duck, range(len(full.names)), Tally()) as relation:
            cells = ", ".join(f"c{at}::VARCHAR" for at in range(len(full.names)))
            return duck.sql(f"SELECT {cells} FROM {relation} ORDER BY row").fetchall()


def every_format() -> dict[str, bytes | str]:
    table = pa.table({"town": [town for town, _ in ROWS], "people": [int(count) for _, count in ROWS]})
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    feather.write_feather(table, arrow, compression="uncompressed")
    return {
        "a.csv": CSV,
        "deep/er/b.tsv": CSV.replace(",", "\t"),
        "c.csv.gz": gzip.compress(CSV.encode()),
        "d.jsonl": '{"town": "Oslo", "people": 709}\n{"town": "Bergen", "people": 291}\n'
        '{"town": "Tromsø", "people": 77}\n',
        "e.parquet": parquet.getvalue(),
        "f.arrow": arrow.getvalue(),
        "g.xlsx": xlsx([("town", "people"), *((town, float(count)) for town, count in ROWS)]),
    }


def test_files_in_an_archive_are_tables_in_all_formats(tmp_path: Path) -> None:
    write_zip(tmp_path / "x/data.zip", {**every_format(), "readme.md": "read me", ".hidden.csv": CSV})
    found = [one for one in scan(tmp_path) if isinstance(one, Source)]
    inside = ["a.csv", "c.csv.gz", "d.jsonl", "deep/er/b.tsv", "e.parquet", "f.arrow", "g.xlsx/Sheet1"]
    assert [one.name for one in found] == [f"x/data.zip/{name}" for name in inside]
    assert reasons(tmp_path) == {}
    assert others(tmp_path) == {".md": 1}
    for source in found:
        table = read(source)
        assert table.name == source.name
        assert [column.name for column in table.columns] == ["town", "people"], source.name
        assert table.columns[0].cells == ["Oslo", "Bergen", "Tromsø"], source.name
        assert all_rows(source) == ROWS, source.name
    assert read_path(tmp_path / "x/data.zip/deep/er/b.tsv").rows == 3  # as a person names it
    assert list(tmp_path.rglob("*")) == [tmp_path / "x", tmp_path / "x/data.zip"]


def hostile() -> tuple[bytes, dict[str, str]]:
    """An archive of files that are not read but for one, and by name what is said of the others."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fine.csv", CSV)
        for name in ("../up.csv", "a/../../up.csv", "/etc/passwd.csv", "C:/x.csv", "c:x.csv", "a//b.csv"):
            archive.writestr(name, CSV)
        archive.writestr(r"..\up.csv", CSV)
        link = zipfile.ZipInfo("link.csv")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("odd.csv", CSV, zipfile.ZIP_LZMA)
        archive.writestr("nested.zip", made.getvalue())
        archive.writestr("data.sqlite", b"SQLite format 3\0")
        archive.writestr("null.csvX.csv", CSV)
        archive.writestr("locked.csv", CSV)
    data = made.getvalue().replace(b"null.csvX", b"null.csv\0")
    at = data.rindex(b"locked.csv") - 46  # its entry in the list of files
    data = data[: at + 8] + b"\x01" + data[at + 9 :]
    away = "its name would lead out of the archive"
    return data, {
        **dict.fromkeys(
            ("../up.csv", "a/../../up.csv", "/etc/passwd.csv", "C:/x.csv", "c:x.csv", "a//b.csv"), away
        ),
        **{r"..\up.csv": away, "null.csv": away, "link.csv": "it is a link", "odd.csv": "compressed in an"},
        "nested.zip": "it is a zip archive in an archive; unpack it",
        "data.sqlite": "it is a database in an archive; unpack it",
        "locked.csv": "encrypted with a password",
    }


@pytest.mark.skipif(os.name == "nt", reason="zipfile changes some names there")
def test_nothing_leads_out_of_an_archive(tmp_path: Path) -> None:
    data, expected = hostile()
    lake = tmp_path / "lake"
    lake.mkdir()
    (tmp_path / "up.csv").write_text("secret,x\n1,2\n")
    (lake / "h.zip").write_bytes(data)
    assert names(lake) == ["h.zip/fine.csv"]
    found = reasons(lake)
    assert set(found) == {f"h.zip/{name}" for name in expected}
    for name, reason in expected.items():
        assert reason in found[f"h.zip/{name}"], name
        for part in (name, f"{name}/x"):  # also where a plan or a catalogue names it
            with pytest.raises(Unreadable):
                read(Source(name, lake / "h.zip", part, 0, 0))
    assert sorted(tmp_path.rglob("*")) == [lake, lake / "h.zip", tmp_path / "up.csv"]


def test_archives_that_are_none_or_damaged(tmp_path: Path) -> None:
    good = write_zip(tmp_path / "good.zip", {"a.csv": CSV * 100}).read_bytes()
    (tmp_path / "none.zip").write_text(CSV)
    (tmp_path / "cut.zip").write_bytes(good[:-30])
    broken = bytearray(good)
    broken[60:70] = b"\xff" * 10
    (tmp_path / "broken.zip").write_bytes(broken)
    write_zip(tmp_path / "empty.zip", {})
    found = reasons(tmp_path)
    assert set(found) == {"none.zip", "cut.zip", "empty.zip"}
    assert "is none; copy it again" in found["none.zip"]
    assert "no tables in it" in found["empty.zip"]
    (source,) = (one for one in scan(tmp_path) if "broken" in one.name)
    assert isinstance(source, Source)
    with pytest.raises(Unreadable, match="the archive is damaged"):
        read(source)


def test_bombs_cost_what_other_files_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"1,2,3\n"
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("large.csv", "w") as file:
            file.write(b"a,b,c\n")
            for _ in range(64):
                file.write(line * 50_000)
        with archive.open("large.parquet", "w") as file:
            for _ in range(5):
                file.write(bytes(1 << 20))
    read_bytes = 0
    inflate = zipfile.ZipExtFile.read

    def counted(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        nonlocal read_bytes
        data = inflate(self, n)
        read_bytes += len(data)
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    source = Source("large.csv", tmp_path / "bomb.zip", "large.csv", 0, 0)
    table = read(source)
    assert table.rows == 512
    assert not table.complete
    assert read_bytes < 2 << 20  # of 19 MB
    source = Source("large.parquet", tmp_path / "bomb.zip", "large.parquet", 0, 0)
    with pytest.raises(Unreadable, match="it unpacks to more than 4 MB"):
        read(source, Limits(typed_bytes=4 << 20))
    monkeypatch.setattr(archives, "MOST", 1)
    with pytest.raises(Unreadable, match="it holds 2 files, and at most 1 are read; unpack it"):
        archives.members_of(tmp_path / "bomb.zip", Limits())


def test_an_index_follows_an_archive(tmp_path: Path, run: Run) -> None:
    lake = make_lake(tmp_path / "lake", ["fish", "cities"], 4)
    parts = ["\n".join(map(",".join, rows_of("fish", number))) for number in (7, 8, 9)]
    write_zip(lake / "fish.zip", {"seven.csv": parts[0], "eight.csv": parts[1]})
    for name in ("notes.xml", "old.xml", "paper.pdf", ".hidden.pdf", "left.out", "gentus.toml"):
        (lake / name).write_text("")
    (lake / ".gentusignore").write_text("*.out\n")
    index = tmp_path / "my.index"
    assert "3 files of other kinds left out: .xml 2, .pdf 1." in run("index", lake, "-o", index).err
    assert "3 files of other kinds left out: .xml 2, .pdf 1" in run("info", index).out
    with gentus.Index(index) as opened:
        assert opened.info()["others"] == {".xml": 2, ".pdf": 1}
        hits = opened.search(lake / "fish_0.csv", k=5)
        assert {"fish.zip/seven.csv", "fish.zip/eight.csv"} <= {hit.table for hit in hits}
        union = opened.union("fish.zip/seven.csv", ["fish.zip/eight.csv"])
        assert len(union.to_arrow()) == len(rows_of("fish", 7)) + len(rows_of("fish", 8)) - 2
    write_zip(lake / "fish.zip", {"seven.csv": parts[0], "nine.csv": parts[2]})
    (lake / "paper.pdf").unlink()
    changes = run("sync", index, "--json").json()
    assert changes["added"] == ["fish.zip/nine.csv"]
    assert changes["removed"] == ["fish.zip/eight.csv"]
    assert changes["others"] == {".xml": 2}
    assert "2 files of other kinds left out: .xml 2" in run("sync", index).err
    (tmp_path / "more").mkdir()
    write_zip(tmp_path / "more/m.zip", {"ten.csv": parts[1], "readme": ""})
    added = run("add", index, tmp_path / "more")
    assert added.code == 0
    assert "1 file of other kinds left out: no ending 1" in added.err


def test_rules_and_patterns_reach_into_an_archive(tmp_path: Path) -> None:
    write_zip(tmp_path / "lake/x.zip", {"a.csv": CSV, "b.csv": CSV, "c.csv": CSV})
    (tmp_path / "lake/.gentusignore").write_text("c.csv\n")
    (tmp_path / "lake/gentus.toml").write_text('[[files]]\npath = "x.zip/b.csv"\nheader = "no"\n')
    with gentus.build(tmp_path / "lake", tmp_path / "my.index", settings=QUICK, workers=1) as index:
        assert list(index.tables()) == ["x.zip/a.csv", "x.zip/b.csv"]
        assert index.describe("x.zip/a.csv").rows == 3
        assert index.describe("x.zip/b.csv").rows == 4


def test_an_archive_at_a_url(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    made = write_zip(tmp_path / "x.zip", {**every_format(), "notes.xml": ""})
    store.pipe("/archives/lake/x.zip", made.read_bytes())
    store.pipe("/archives/lake/more/paper.pdf", b"")
    try:
        found = list(scan("memory://archives/lake"))
        assert [one.endings for one in found if isinstance(one, OtherKinds)] == [{".pdf": 1}, {".xml": 1}]
        tables = [one for one in found if isinstance(one, Source)]
        assert len(tables) == len(every_format())
        for source in tables:
            assert read(source).columns[0].cells == ["Oslo", "Bergen", "Tromsø"], source.name
            assert all_rows(source) == ROWS, source.name
    finally:
        store.rm("/archives", recursive=True)
