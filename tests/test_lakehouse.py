"""Delta and Iceberg tables: a folder that is one table, on this disk or at a URL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import QUICK, make_lake, rows_of, subject_of

import gentus
from gentus.lake import Limits, Skipped, Source, Unreadable, read, read_path, scan
from gentus.lake.formats.lakehouse import inside
from gentus.lake.location import Remote
from gentus.lake.sandbox.process import sandbox_process


def arrow(subject: str, seed: int, count: int = 12) -> pa.Table:
    header, *body = rows_of(subject, seed, count)
    table = pa.table(dict(zip(header, map(list, zip(*body, strict=True)), strict=True)))
    return table.set_column(3, "year", table["year"].cast(pa.int64()))


def make_delta(folder: Path) -> Path:
    """Three commits: written, appended to, and rows of one kind deleted."""
    deltalake = pytest.importorskip("deltalake", reason="needs gentus[delta]")
    for seed in (1, 2):
        deltalake.write_deltalake(folder, arrow("fish", seed), mode="append", partition_by=["kind"])
    deltalake.DeltaTable(folder).delete("kind = 'brook'")
    return folder


def kept_fish() -> list[list[str]]:
    return sorted(row for seed in (1, 2) for row in rows_of("fish", seed)[1:] if row[1] != "brook")


def make_iceberg(folder: Path) -> Path:
    """A table of two snapshots, one of its columns renamed in between."""
    pytest.importorskip("pyiceberg", reason="needs gentus[iceberg]")
    pytest.importorskip("sqlalchemy", reason="the catalogue that makes a table keeps it in SQLite")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{folder.parent}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", arrow("metals", 1).schema, location=f"file://{folder}")
    table.append(arrow("metals", 1))
    with table.update_schema() as change:
        change.rename_column("kind", "sort")
    table.append(arrow("metals", 2).rename_columns(["name", "sort", "size", "year"]))
    return folder


def cells(table: Any) -> list[list[str]]:
    return sorted(list(row) for row in zip(*(column.cells for column in table.columns), strict=True))


MAKERS = {"delta": make_delta, "iceberg": make_iceberg}


@pytest.fixture(params=MAKERS)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "lake" / "deep").mkdir(parents=True)
    folder: Path = MAKERS[request.param](tmp_path / "lake" / "deep" / "table")
    return folder


@pytest.fixture
def memory() -> Iterator[Any]:
    import fsspec

    store = fsspec.filesystem("memory")
    yield store
    if store.exists("/house"):
        store.rm("/house", recursive=True)


def copy(store: Any, folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            store.pipe_file(f"/house/{file.relative_to(folder).as_posix()}", file.read_bytes())


def expected(house: Path) -> list[list[str]]:
    if (house / "_delta_log").exists():
        return kept_fish()
    return sorted(row for seed in (1, 2) for row in rows_of("metals", seed)[1:])


def test_a_folder_is_one_table(house: Path, memory: Any) -> None:
    lake = house.parent.parent
    (lake / "deep" / "table-b.csv").write_text("a,b\n1,2\n")
    (lake / "deep" / "tablets.csv").write_text("a,b\n1,2\n")
    found = list(scan(lake))
    assert [item.name for item in found] == ["deep/table", "deep/table-b.csv", "deep/tablets.csv"]
    first = found[0]
    assert isinstance(first, Source)
    assert cells(read(first)) == expected(house)
    assert [column.name for column in read(first).columns][2:] == ["size", "year"]
    assert cells(read_path(house)) == expected(house)
    copy(memory, lake)
    remote = next(item for item in scan("memory://house") if item.name == "deep/table")
    assert isinstance(remote, Source)
    assert read(remote) == read(first)
    assert [item.name for item in scan("memory://house/deep/table")] == ["table"]


def test_it_is_found_followed_and_unioned(house: Path, memory: Any, tmp_path: Path) -> None:
    lake = make_lake(house.parent.parent, ("fish", "metals", "birds"), 3)
    copy(memory, lake)
    subject = "fish" if (house / "_delta_log").exists() else "metals"
    with gentus.build("memory://house", tmp_path / "index", settings=QUICK, workers=1) as index:
        assert len(index) == 10
        hits = index.search(f"memory://house/{subject}_0.csv", k=3)
        assert "deep/table" in [hit.table for hit in hits]
        assert {subject_of(hit.table) for hit in hits} <= {subject, "table"}
        for where in ("memory://house", str(lake)):
            rows = index.union(f"{where}/deep/table", f"{where}/{subject}_0.csv").to_arrow()
            assert rows.num_rows == len(expected(house)) + 12
        changes = index.sync()
        assert (len(changes), changes.unchanged) == (0, 10)


def test_a_commit_is_a_change(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    lake = make_lake(tmp_path / "lake", ("fish", "birds"), 3)
    make_delta(lake / "table")
    with gentus.build(lake, tmp_path / "index", settings=QUICK, workers=1) as index:
        deltalake.write_deltalake(lake / "table", arrow("fish", 3), mode="append")
        changes = index.sync()
        assert (changes.replaced, changes.unchanged) == (["table"], 6)


def test_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of S3 come in one long list, of which a folder that is a table takes many."""
    from gentus.lake.remote_folder import scan_remote

    made: dict[str, dict[str, Any]] = {
        name: {"Key": name, "Size": 1, "ETag": "x"}
        for name in (
            "x/a.csv",
            "x/sales/Country=DE/part-0.parquet",
            "x/sales/_delta_log/00000000000000000000.json",
            "x/sales/part-1.parquet",
            "x/wide/one.parquet",
            "x/z/data/00000.parquet",
            "x/z/metadata/00000-aa.metadata.json",
            "x/z/metadata/snap.avro",
        )
    }

    class Store:
        def call_s3(self, _: str, Bucket: str, Prefix: str) -> dict[str, Any]:  # noqa: N803
            return {"Contents": [made[name] for name in sorted(made) if name.startswith(Prefix)]}

        def info(self, path: str) -> dict[str, Any]:
            return {"type": "directory"}

    monkeypatch.setattr("gentus.lake.remote.storage.filesystem", lambda place: (Store(), place.url))
    found = list(scan_remote(Remote("s3://b/x")))
    assert [item.name for item in found] == ["a.csv", "sales", "wide/one.parquet", "z"]
    assert not any(isinstance(item, Skipped) for item in found)


# --- what logs must not do -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "named",
    ["../other.parquet", "/etc/passwd", "s3://other/x.parquet", "https://host/x", "file:///etc/passwd"],
)
def test_logs_lead_nowhere_else(named: str, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for folder in (tmp_path / "t", Remote("s3://bucket/t")):
        with pytest.raises(Unreadable, match="outside of its folder"):
            inside(folder, named, location=None)
    link = tmp_path / "t" / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(Unreadable, match="by a link"):
        inside(tmp_path / "t", "link/x.parquet")


def test_a_delta_log_that_names_another_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    import pyarrow.parquet as pq

    folder = make_delta(tmp_path / "t")
    pq.write_table(arrow("birds", 1), tmp_path / "secret.parquet")
    log = folder / "_delta_log"
    [added, *_] = [
        line
        for text in min(log.glob("*.json")).read_text().splitlines()
        if "add" in (line := json.loads(text))
    ]
    added["add"]["path"] = f"file://{tmp_path}/secret.parquet"
    (log / "00000000000000000003.json").write_text(json.dumps(added))
    with pytest.raises(Unreadable, match=r"outside of its folder|no longer there"):  # as deltalake puts it
        read_path(folder, Limits(rows=10_000))


def test_iceberg_settings_of_the_current_folder_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_iceberg(tmp_path / "table")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".pyiceberg.yaml").write_text("not: [yaml\n")
    with sandbox_process() as fresh:  # pyiceberg reads it when it is loaded
        assert len(fresh(read_path, table).columns) == 4


def test_iceberg_metadata_does_not_choose_what_reads_it(tmp_path: Path) -> None:
    folder = make_iceberg(tmp_path / "t")
    newest = max((folder / "metadata").glob("*.metadata.json"))
    document = json.loads(newest.read_text())
    document["properties"] = {"py-io-impl": "no.such.Module", "s3.endpoint": "https://elsewhere"}
    newest.write_text(json.dumps(document))
    assert read_path(folder).rows == 24
    moved = folder.rename(tmp_path / "moved")  # and it may be copied elsewhere
    assert read_path(moved).rows == 24


@pytest.mark.parametrize(("package", "maker"), [("deltalake", make_delta), ("pyiceberg", make_iceberg)])
def test_a_missing_package_is_named(
    package: str, maker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    folder = maker(tmp_path / "t")
    for name in [one for one in sys.modules if one.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unreadable, match=r"pip install .*\[(delta|iceberg)\]"):
        read_path(folder)
