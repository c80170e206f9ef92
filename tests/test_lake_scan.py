import gzip
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from gentus.lake import OtherKinds, Skipped, Source, Unlisted, Unreadable, fingerprint, read, read_path, scan

CSV = "a,b\n1,2\n"


def names(lake: Path) -> list[str]:
    return [found.name for found in scan(lake) if isinstance(found, Source)]


def reasons(lake: Path) -> dict[str, str]:
    return {
        found.name: found.reason
        for found in scan(lake)
        if isinstance(found, Skipped) and not isinstance(found, OtherKinds)
    }


def others(lake: Path) -> Counter[str]:
    """Files of other kinds, by their endings."""
    counted = Counter[str]()
    for found in scan(lake):
        counted.update(found.endings if isinstance(found, OtherKinds) else ())
    return counted


def put(path: Path, data: bytes | str = CSV) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_nested_sorted_and_only_tables(tmp_path: Path) -> None:
    for name in [
        "b.csv",
        "a/z.csv",
        "a.csv",
        "a/b/c.TSV.gz",
        "a0.csv",
        "A.csv",
        "notes.md",
        "x.png",
        "csv",
        ".csv",
    ]:
        put(tmp_path / name)
    for name in [".hidden.csv", ".git/a.csv", "a/.b/c.csv", "Thumbs.db", "x.parquet.gz"]:
        put(tmp_path / name)
    found = names(tmp_path)
    assert found == ["A.csv", "a.csv", "a/b/c.TSV.gz", "a/z.csv", "a0.csv", "b.csv"]
    assert found == sorted(found)
    assert reasons(tmp_path) == {}
    assert others(tmp_path) == {".md": 1, ".png": 1, ".db": 1, ".gz": 1, "no ending": 1}  # no hidden ones
    first = next(found for found in scan(tmp_path) if isinstance(found, Source))
    assert isinstance(first, Source)
    assert (first.path, first.part, first.size) == (tmp_path / "A.csv", None, len(CSV))
    assert first.mtime_ns == os.stat(first.file).st_mtime_ns


def test_a_lake_of_one_file(tmp_path: Path) -> None:
    assert names(put(tmp_path / "a.csv")) == ["a.csv"]
    assert list(reasons(put(tmp_path / "a.exe"))) == ["a.exe"]
    assert "no longer there" in reasons(tmp_path / "missing")["missing"]


def test_links(tmp_path: Path) -> None:
    lake, outside = tmp_path / "lake", tmp_path / "outside"
    put(lake / "real.csv")
    put(lake / ".store/blob", CSV)
    put(outside / "secret.csv")
    links: dict[str, str | Path] = {
        "in.csv": "real.csv",
        "stored.csv": ".store/blob",
        "out.csv": outside / "secret.csv",
        "outdir": outside,
        "loop": ".",
        "broken.csv": "nothing.csv",
        "self.csv": "self.csv",
        "notes.md": outside / "secret.csv",
    }
    for name, target in links.items():
        (lake / name).symlink_to(target)
    assert names(lake) == ["in.csv", "real.csv", "stored.csv"]
    why = reasons(lake)
    assert sorted(why) == ["broken.csv", "loop", "out.csv", "outdir", "self.csv"]
    assert others(lake) == {".md": 1}
    assert "out of the lake" in why["out.csv"]
    assert "out of the lake" in why["outdir"]
    assert "nowhere or to itself" in why["broken.csv"]
    assert names(_linked(tmp_path / "alias", lake)) == names(lake)


def _linked(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def test_pipes_and_folders_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    put(tmp_path / "folder.csv/a.csv")
    assert names(tmp_path) == ["folder.csv/a.csv"]
    assert "pipe" in reasons(tmp_path)["pipe.csv"]
    for path in (tmp_path / "pipe.csv", tmp_path / "folder.csv", Path("/dev/zero")):
        with pytest.raises(Unreadable, match=r"pipe, a device|it is a folder"):
            read(Source("x", path, None, 0, 0))


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    try:
        with open(raw, "wb") as file:
            file.write(CSV.encode())
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    (found,) = scan(tmp_path)
    assert isinstance(found, Source)
    assert found.name == "caf\\xe9.csv"
    assert read(found).rows == 1


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "closed/a.csv")
    put(tmp_path / "b.csv")
    real_scandir, real_open = os.scandir, os.open

    def scandir(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    def closed(path: Any, *rest: Any) -> int:
        if str(path).endswith("b.csv"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "open", closed)
    found = list(scan(tmp_path))
    assert [(type(one), one.name) for one in found] == [(Source, "b.csv"), (Unlisted, "closed")]
    assert isinstance(found[0], Source)
    assert isinstance(found[1], Unlisted)
    assert "no permission" in found[1].reason
    with pytest.raises(Unreadable, match="no permission"):
        read(found[0])


PARQUET = pa.BufferOutputStream()
pq.write_table(pa.table({"a": list(range(1000))}), PARQUET)
NOISE = random.Random(0).randbytes(5000)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"\xef\xbb\xbf\r\n \n", "it is empty"),
        ("a.csv", b"a,b,c\n", "no rows under it"),
        ("a.csv", b"a,b,c\n,,\n , ,null\n", "cells are empty"),
        ("a.csv", NOISE, "not text"),
        ("a.csv", bytes(5000), "not text"),
        ("a.csv", b"\x89PNG\r\n\x1a\n" + NOISE, "PNG picture"),
        ("a.csv.gz", gzip.compress(CSV.encode() * 100, mtime=0)[:-12], "cut off"),
        ("a.csv.gz", gzip.compress(NOISE, mtime=0)[:2000], "cut off"),
        ("a.csv.gz", b"\x1f\x8b" + NOISE, "gzip data is damaged"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), "it is empty"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfd" + NOISE, "zstd data is damaged"),
        ("a.parquet", PARQUET.getvalue().to_pybytes()[:-20], "could not be read"),
        ("a.parquet", NOISE, "does not begin like one"),
        ("a.arrow", NOISE, "could not be read"),
        ("a.feather", b"ARROW1\0\0" + NOISE, "could not be read"),
        ("a.xlsx", NOISE, "named like an Excel workbook"),
        ("a.xlsx", b"PK\x03\x04" + NOISE, "not an Excel workbook"),
        ("a.duckdb", NOISE, "named like a database"),
        ("a.sqlite", b"SQLite format 3\0" + NOISE, "could not be read"),
        ("a.duckdb", bytes(8) + b"DUCK" + bytes(4) + NOISE, "could not be read"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    put(tmp_path / name, data)
    put(tmp_path / "good.csv")
    with pytest.raises(Unreadable, match=reason) as caught:
        read_path(tmp_path / name)
    assert caught.value.reason == str(caught.value)
    good = [one for one in scan(tmp_path) if one.name == "good.csv"]
    assert isinstance(good[0], Source)
    assert read(good[0]).rows == 1


def test_vanished(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv")
    (found,) = scan(tmp_path)
    path.unlink()
    assert isinstance(found, Source)
    with pytest.raises(Unreadable, match="no longer there"):
        read(found)
    with pytest.raises(Unreadable, match="no longer there"):
        fingerprint(found)
    with pytest.raises(Unreadable, match="there is no file"):
        read_path(path)


def test_a_name_that_lies(tmp_path: Path) -> None:
    assert read_path(put(tmp_path / "a.csv", PARQUET.getvalue().to_pybytes())).rows == 512
    assert read_path(put(tmp_path / "b.csv", gzip.compress(CSV.encode()))).rows == 1
    assert read_path(put(tmp_path / "c.csv.gz", CSV)).rows == 1


def test_a_bomb_costs_no_more_than_others(tmp_path: Path) -> None:
    bomb = gzip.compress(b"a,b\n" + b"1,2\n" * 20_000_000, 1)
    assert read_path(put(tmp_path / "a.csv.gz", bomb)).rows == 512


def test_fingerprint(tmp_path: Path) -> None:
    def of(path: Path) -> str:
        state = path.stat()
        return fingerprint(Source(path.name, path, None, state.st_size, state.st_mtime_ns))

    path = put(tmp_path / "a.csv")
    first = of(path)
    assert first == of(put(tmp_path / "copy.csv"))
    assert first != of(put(tmp_path / "other.csv", CSV.replace("1", "7")))
    os.utime(path, ns=(1, 1))
    assert first == of(path)  # the same content under another date
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(100 << 20)
    os.utime(large, ns=(1, 1))
    before = of(large)
    assert before == of(large)
    os.utime(large, ns=(2, 2))
    assert before != of(large)
    state = path.stat()
    parts = {fingerprint(Source("x", path, part, state.st_size, 0)) for part in (None, "t", "u")}
    assert len(parts) == 3


def test_very_deep_folders(tmp_path: Path) -> None:
    depth = 1100  # more than Python calls may nest
    folders = ["/".join([str(tmp_path), *["d"] * level]) for level in range(1, depth + 1)]
    for folder in folders:
        os.mkdir(folder)
    put(Path(folders[-1]) / "a.csv")
    try:
        (found,) = scan(tmp_path)
    finally:
        os.unlink(folders[-1] + "/a.csv")
        for folder in reversed(folders):
            os.rmdir(folder)
    assert found.name == "d/" * depth + "a.csv"


@pytest.mark.parametrize("suffix", ["parquet", "feather", "duckdb"])
def test_damage_never_reaches_the_next_file(tmp_path: Path, suffix: str) -> None:
    good, bad = tmp_path / f"good.{suffix}", tmp_path / f"bad.{suffix}"
    table = pa.table({"n": list(range(50)), "t": [f"text {i}" for i in range(50)]})
    if suffix == "parquet":
        pq.write_table(table, good)
    elif suffix == "feather":
        feather.write_feather(table, good, compression="uncompressed")
    else:
        with duckdb.connect(str(good)) as connection:
            connection.register("frame", table)
            connection.execute("CREATE TABLE t AS FROM frame")
    data = good.read_bytes()
    refused = 0
    chance = random.Random(0)
    for _ in range(25):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 4])):
            damaged[chance.randrange(16, len(data))] = chance.randrange(256)
        del damaged[chance.randrange(len(data) // 2, len(data) * 4) :]
        try:
            read_path(put(bad, bytes(damaged)))
        except Unreadable:
            refused += 1
    assert refused
    assert read_path(good).rows == 50
