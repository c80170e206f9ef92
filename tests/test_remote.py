"""Lakes by URL: a real S3 server on loopback, fsspec's memory, and a web server."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, make_lake, partly_fish, rows_of, subject_of, write_table
from served import served
from typer.testing import CliRunner

import gentus
from gentus.app.cli.main import app
from gentus.app.serve.table_preview import first_rows
from gentus.lake import Limits, Remote, Skipped, Source, Unreadable, as_location, read, read_path, scan
from gentus.lake.files import stream
from gentus.lake.remote.storage import scrubbed

pytest.importorskip("s3fs", reason="lakes by URL need gentus[remote]")
moto_server = pytest.importorskip("moto.server", reason="the S3 server of these tests is moto's")

SECRET = "do-not-show-me-1234"
RUN = CliRunner()


class Requests(list[tuple[str, str, int]]):
    """What was asked of a server: method, path, bytes of the answer."""

    def bytes_of(self, name: str) -> int:
        return sum(size for method, path, size in self if method == "GET" and name in path)


class Counting:
    """A WSGI application in front of another that counts, and refuses where it is told to."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.seen = inner, Requests()
        self.refuse: Callable[[str, str], str | None] = lambda method, path: None

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if environ.get("QUERY_STRING"):
            path += "?" + environ["QUERY_STRING"]
        status = self.refuse(method, path)
        if status is not None:
            self.seen.append((method, path, 0))
            start(status, [("Content-Length", "0")])
            return [b""]
        body = b"".join(self.inner(environ, start))
        self.seen.append((method, path, len(body)))
        return [body]


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Counting(DomainDispatcherApplication(create_backend_app))
    served = make_server("127.0.0.1", 0, app, threaded=True)
    app.url = f"http://127.0.0.1:{served.server_port}"  # type: ignore[attr-defined]
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield app
    served.shutdown()
    thread.join()


@pytest.fixture
def s3(server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """The server, empty, and an environment as users have it."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIAUSER",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
    }.items():
        monkeypatch.setenv(name, value)
    _anew()
    client = _client(server.url)
    client.create_bucket(Bucket="lake")
    server.client = client
    server.seen.clear()
    yield server
    server.refuse = lambda method, path: None
    _reset(server.url)
    _anew()


def _anew() -> None:
    """Forget file systems that were made for another server."""
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()


def _client(url: str) -> Any:
    import boto3

    return boto3.client("s3", endpoint_url=url)


def _reset(url: str) -> None:
    with urlopen(Request(f"{url}/moto-api/reset", method="POST")):
        pass


def put_many(keys: Iterable[str], body: bytes) -> None:
    """Objects without a request for each, which would take half a minute."""
    from moto.s3.models import s3_backends

    for key in keys:
        s3_backends["123456789012"]["aws"].put_object("lake", key, body)


def upload(client: Any, folder: Path, prefix: str = "") -> None:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            client.upload_file(str(file), "lake", prefix + file.relative_to(folder).as_posix())


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test waits: how long it would have is noted."""
    waits: list[float] = []
    monkeypatch.setattr("gentus.lake.remote.retry.time.sleep", waits.append)
    return waits


def names(found: Iterator[Source | Skipped]) -> list[str]:
    return [item.name for item in found]


# --- the whole way -------------------------------------------------------------------------------------


def test_a_bucket_is_indexed_searched_followed_and_unioned(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = make_lake(tmp_path / "local", ("cities", "fish", "films"))
    upload(s3.client, local, "my data/")
    index = tmp_path / "my.index"

    done = RUN.invoke(app, ["index", "s3://lake/my data", "-o", str(index), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["tables"] == 18
    with gentus.open(index) as opened:
        assert opened.tables() == names(scan(local))  # as in a folder
        assert opened.config.lake == "s3://lake/my data"

    s3.client.put_object(Bucket="lake", Key="my data/.gentusignore", Body=b"typed/\n")
    out = tmp_path / "some.index"
    done = RUN.invoke(app, ["index", "s3://lake/my data", "-o", str(out), "--exclude", "fish_*", "--json"])
    facts = json.loads(done.stdout)
    assert (facts["tables"], facts["excluded"]) == (8, 10)  # a listing of S3 has no folders
    s3.client.delete_object(Bucket="lake", Key="my data/.gentusignore")

    query = "s3://lake/my data/fish_0.csv"
    done = RUN.invoke(app, ["search", str(index), query, "-k", "5", "--explain", "--json"])
    assert done.exit_code == 0, done.output
    hits = json.loads(done.stdout)["queries"][0]["results"]
    assert [subject_of(hit["table"]) for hit in hits] == ["fish"] * 5  # and never the query itself
    assert all(len(hit["alignment"]["pairs"]) == 4 for hit in hits)
    assert hits[0]["path"].startswith("s3://lake/my data/")
    s3.seen.clear()
    partial = write_table(tmp_path / "partly.csv", partly_fish())
    done = RUN.invoke(app, ["search", str(index), str(partial), "-k", "5", "--json"])
    partly = json.loads(done.stdout)["queries"][0]
    assert (partly["fit"], partly["results"][0]["columns"]["matched"]) == ("partial", 3)
    assert not s3.seen  # verdicts need no object of the lake
    done = RUN.invoke(app, ["align", str(index), query, hits[0]["table"], "--json"])
    assert done.exit_code == 0, done.output

    done = RUN.invoke(app, ["union", str(index), query, "-o", str(tmp_path / "all.parquet"), "-k", "5"])
    assert done.exit_code == 0, done.output
    rows = pq.read_table(tmp_path / "all.parquet")
    assert rows.num_rows == 6 * 12
    assert set(rows["name"].to_pylist()) <= {row[0] for seed in range(6) for row in rows_of("fish", seed)}

    with served(index) as api:
        told = api.get("/api/table", params={"name": "typed/fish_3.parquet", "rows": 3})
        assert len(told.json()["sample"]) == 3
        assert "s3://" not in told.text  # where a table lies is the server's business
        asked = {"query": {"table": "fish_0.csv"}, "tables": ["typed/fish_3.parquet"]}
        plan = api.post_json("/api/union/plan", asked).json()
        assert plan["tables"][0]["rows"] == 12

    s3.client.delete_object(Bucket="lake", Key="my data/cities_0.csv")
    write_table(tmp_path / "changed.csv", rows_of("films", 77))
    s3.client.upload_file(str(tmp_path / "changed.csv"), "lake", "my data/films_0.csv")
    write_table(tmp_path / "new.parquet", rows_of("cities", 78))
    s3.client.upload_file(str(tmp_path / "new.parquet"), "lake", "my data/zz/cities_new.parquet")
    s3.seen.clear()
    done = RUN.invoke(app, ["sync", str(index), "--json"])
    assert done.exit_code == 0, done.output
    changes = json.loads(done.stdout)
    assert changes["added"] == ["zz/cities_new.parquet"]
    assert changes["replaced"] == ["films_0.csv"]
    assert changes["removed"] == ["cities_0.csv"]
    assert changes["unchanged"] == 16
    assert not s3.seen.bytes_of("fish")  # the listing says that they have not changed

    s3.client.upload_file(str(tmp_path / "new.parquet"), "lake", "elsewhere/cities_9.parquet")
    done = RUN.invoke(app, ["add", str(index), "s3://lake/elsewhere/cities_9.parquet", "--json"])
    assert json.loads(done.stdout)["added"] == ["s3://lake/elsewhere/cities_9.parquet"]
    done = RUN.invoke(app, ["sync", str(index), "--json"])
    assert json.loads(done.stdout)["removed"] == []  # a table from elsewhere is nobody's to miss
    assert RUN.invoke(app, ["check", str(index)]).exit_code == 0
    stored = b"".join(file.read_bytes() for file in index.rglob("*") if file.is_file())
    assert SECRET.encode() not in stored


def test_formats_read_at_a_url_are_those_read_from_the_disk(s3: Any, tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "local", ("cities",))
    rows = rows_of("birds", 1)
    with sqlite3.connect(lake / "data.sqlite") as database:
        database.execute("CREATE TABLE birds (name, kind, size, year)")
        database.executemany("INSERT INTO birds VALUES (?, ?, ?, ?)", rows[1:])
    database.close()
    table = pa.table(dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True)))
    with pa.OSFile(str(lake / "some.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(lake / "book.xlsx")
    upload(s3.client, lake)
    here = {item.name: item for item in scan(lake) if isinstance(item, Source)}
    there = {item.name: item for item in scan("s3://lake") if isinstance(item, Source)}
    assert list(there) == list(here)
    assert len(there) == 9
    for name, source in there.items():
        assert read(source) == read(here[name]), name


def test_memory_is_a_lake(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    local = make_lake(tmp_path / "local", ("tools", "metals"))
    for file in local.rglob("*"):
        if file.is_file():
            memory.pipe_file(f"/lakes/one/{file.relative_to(local).as_posix()}", file.read_bytes())
    try:
        with gentus.build("memory://lakes/one", tmp_path / "index", settings=QUICK, workers=1) as index:
            assert index.tables() == names(scan(local))
            hits = index.search("memory://lakes/one/tools_0.csv", k=3)
            assert [subject_of(hit.table) for hit in hits] == ["tools"] * 3
            memory.pipe_file("/lakes/one/tools_0.csv", b"name,kind\nsaw,bench\n")
            changes = index.sync()
            assert (changes.replaced, changes.unchanged) == (["tools_0.csv"], 11)
            union = index.union("memory://lakes/one/tools_0.csv", hits)
            assert union.to_arrow().num_rows == 1 + 3 * 12
            memory.pipe_file("/lakes/one/.gentusignore", b"typed/\n!typed/*.parquet\n/deep\n")
            changes = index.sync(exclude=["metals_0.csv"])
            assert changes.removed == [
                *("deep/er/metals_1.csv", "deep/er/tools_1.csv", "metals_0.csv"),
                *("typed/lines/metals_4.jsonl", "typed/lines/tools_4.jsonl"),
            ]
            assert (changes.excluded, changes.unchanged) == (3, 7)  # two folders and a file
    finally:
        memory.rm("/lakes", recursive=True)


class Quiet(SimpleHTTPRequestHandler):
    """A web server without ranges, and without a log."""

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    handler = partial(Quiet, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def test_a_page_with_links_is_a_lake(web: str, tmp_path: Path) -> None:
    local = make_lake(tmp_path / "web" / "data", ("tools",))
    (tmp_path / "web" / "outside.csv").write_text("a,b\n1,2\n")
    found = list(scan(f"{web}/data"))
    assert sorted(item.path.name for item in found) == sorted(
        item.path.name.replace("ü", "%C3%BC") for item in scan(local)
    )
    assert all(read(item).rows == 12 for item in found if isinstance(item, Source))
    assert read_path(f"{web}/data/tools_0.csv") == read_path(local / "tools_0.csv")
    large = "name,size\n" + "".join(f"tool {number},{number}\n" for number in range(200_000))
    (tmp_path / "web" / "large.csv").write_text(large)
    assert read_path(f"{web}/large.csv").rows == 512  # sent whole, since this server knows no ranges
    with pytest.raises(Unreadable, match="no such object"):
        read_path(f"{web}/missing.csv")


def test_links_that_lead_out_of_a_lake_are_left_alone(web: str, tmp_path: Path) -> None:
    page = tmp_path / "web" / "data"
    page.mkdir(parents=True)
    for file in (page / "in.csv", page.parent / "out.csv"):
        file.write_text("a,b\n1,2\n")
    links = (
        "in.csv",
        "in.csv?C=N",
        "../out.csv",
        "/out.csv",
        "http://127.0.0.2:1/out.csv",
        "sub/../../out.csv",
    )
    (page / "index.html").write_text("".join(f'<a href="{link}">x</a>' for link in links))
    assert names(scan(f"{web}/data")) == ["in.csv"]


# --- what it costs -------------------------------------------------------------------------------------


def test_a_bucket_is_searched_by_a_cached_index(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENTUS_CACHE", str(tmp_path / "cache"))
    local = make_lake(tmp_path / "local", ("tools", "metals"), 3)
    upload(s3.client, local)
    query = write_table(tmp_path / "query.csv", rows_of("tools", 50))
    for slices in (3, 4):  # built, then updated
        found = gentus.search("s3://lake", query, k=slices)
        assert [subject_of(hit.table) for hit in found] == ["tools"] * slices
        s3.client.upload_file(
            str(write_table(tmp_path / "new.csv", rows_of("tools", 60))), "lake", "tools_new.csv"
        )
    assert [path.name[:5] for path in (tmp_path / "cache").iterdir() if path.is_dir()] == ["lake-"]


def test_large_objects_cost_little(s3: Any, tmp_path: Path) -> None:
    count = 1_000_000
    numbers = np.random.default_rng(0).integers(0, 1 << 60, count)
    table = pa.table({"a": numbers, "b": numbers[::-1], "c": np.sqrt(numbers), "d": numbers.astype(str)})
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=2_000)
    pq.write_table(table.slice(0, count // 2), tmp_path / "one.parquet", row_group_size=count)
    line = b"some name,1234567890,another cell with words in it\n"
    (tmp_path / "large.csv").write_bytes(b"name,number,words\n" + line * 1_000_000)
    for name in ("many.parquet", "one.parquet", "large.csv"):
        put_many([name], (tmp_path / name).read_bytes())
        assert (tmp_path / name).stat().st_size > (20e6 if name == "one.parquet" else 45e6)
    costs = {"large.csv": (1 << 20, 12), "many.parquet": (1 << 20, 12), "one.parquet": (5 << 20, 16)}
    for name, (most_bytes, most_requests) in costs.items():
        source = next(item for item in scan(f"s3://lake/{name}") if isinstance(item, Source))
        s3.seen.clear()
        assert read(source).rows == 512
        gets = [one for one in s3.seen if one[0] == "GET"]
        assert s3.seen.bytes_of(name) < most_bytes, (name, gets)
        assert len(gets) <= most_requests, (name, gets)
        assert {method for method, *_ in s3.seen} == {"GET"}  # what was listed is not asked for again
        s3.seen.clear()
        assert len(first_rows(source, [column.name for column in read(source).columns], 20, Limits())) == 20
        assert s3.seen.bytes_of(name) < 12 << 20, (name, s3.seen)


def test_a_small_object_is_one_request(s3: Any) -> None:
    s3.client.put_object(Bucket="lake", Key="a.csv", Body=b"name,size\n" + b"x,1\n" * 100)
    [source] = [item for item in scan("s3://lake") if isinstance(item, Source)]
    s3.seen.clear()
    assert read(source).rows == 100
    assert len(s3.seen) == 1


def test_objects_of_a_batch_are_fetched_together(s3: Any) -> None:
    from gentus.lake import each

    for number in range(8):
        s3.client.put_object(Bucket="lake", Key=f"{number}.csv", Body=f"name,size\nx,{number}\n".encode())
    sources = [item for item in scan("s3://lake") if isinstance(item, Source)]
    together = threading.Barrier(4)

    def refuse(method: str, path: str) -> None:
        together.wait(20)  # nobody is answered until four have asked

    s3.refuse = refuse
    s3.seen.clear()
    found = list(each(sources, lambda some: [table.columns[1].cells for _, table in some]))
    assert [cells for _, cells in found] == [[str(number)] for number in range(8)]
    assert len(s3.seen) == 8


def test_listings_are_paged_and_never_held(s3: Any) -> None:
    put_many((f"many/{number}.csv" for number in range(1_050)), b"a,b\n1,2\n")
    s3.seen.clear()
    found = scan("s3://lake/many")
    first = next(found)
    pages = [path for _, path, _ in s3.seen if "list-type=2" in path]
    assert first.name == "0.csv"
    assert sum("continuation-token" in path for path in pages) == 0  # the second page is not asked for yet
    rest = names(found)
    assert [first.name, *rest] == sorted(f"{number}.csv" for number in range(1_050))
    assert sum("continuation-token" in path for _, path, _ in s3.seen) == 1


def test_odd_keys(s3: Any) -> None:
    body = b"a,b\n1,2\n"
    odd = (
        "a//b.csv",
        "new\nline.csv",
        "folder.csv/",
        ".hidden.csv",
        "a?b#c%20d.csv",
        "é.csv",
        "s.db-old.csv",
    )
    put_many((f"x/{key}" for key in odd), body)
    found = list(scan("s3://lake/x"))
    assert [item.name for item in found] == sorted(
        ["a//b.csv", "new\nline.csv", "a?b#c%20d.csv", "é.csv", "s.db-old.csv"]
    )
    for item in found:
        assert isinstance(item, Source)
        if "\n" not in item.name:  # which moto lists and does not give
            assert read(item).rows == 1


def test_a_key_with_dots_is_refused() -> None:
    from gentus.lake.remote_folder import _object

    [refused] = _object(Remote("s3://lake/a/../b.csv"), "a/../b.csv", {"size": 1})
    assert isinstance(refused, Skipped)
    assert "out of the lake" in refused.reason


# --- when something is in the way ----------------------------------------------------------------------


def failing(times: int, name: str, status: str) -> Callable[[str, str], str | None]:
    left = [times]

    def refuse(method: str, path: str) -> str | None:
        if method == "GET" and name in path and left[0]:
            left[0] -= 1
            return status
        return None

    return refuse


@pytest.mark.parametrize("status", ["503 Service Unavailable", "500 Internal Server Error"])
def test_what_passes_is_waited_for(s3: Any, quickly: list[float], status: str) -> None:
    s3.client.put_object(Bucket="lake", Key="a.csv", Body=f"a,b\n1,{status}\n".encode())
    [source] = scan("s3://lake")
    assert isinstance(source, Source)
    s3.refuse = failing(3, "a.csv", status)
    assert read(source).rows == 1
    assert len(quickly) == 3
    assert max(quickly) <= 0.2 * 2**3


def test_one_bad_object_stops_nothing(s3: Any, quickly: list[float], tmp_path: Path) -> None:
    upload(s3.client, make_lake(tmp_path / "local", ("tools",)))
    s3.refuse = failing(10_000, "tools_0.csv", "503 Slow Down")
    with gentus.build("s3://lake", tmp_path / "index", settings=QUICK, workers=1) as index:
        assert len(index) == 5
        [(name, reason)] = index.skipped()
        assert name == "tools_0.csv"
        assert "tried 5 times" in reason
        s3.refuse = lambda method, path: None
        assert index.sync().added == ["tools_0.csv"]
        assert len(index) == 6
        # A listing that breaks off changes nothing.
        s3.refuse = lambda method, path: "503 Slow Down" if "list-type" in path else None
        with pytest.raises(Unreadable, match=r"s3://lake(/.gentusignore)?: .*tried 5 times"):
            index.sync()
        assert len(index) == 6


def test_an_object_that_changes_while_all_of_it_is_read_is_refused(s3: Any) -> None:
    def put(cell: bytes) -> None:
        s3.client.put_object(Bucket="lake", Key="a.csv", Body=b"name,size\n" + cell * 2_000_000)

    put(b"a,1\n")
    pieces = stream(Remote("s3://lake/a.csv"))
    assert next(pieces).startswith(b"name")
    put(b"b,2\n")
    with pytest.raises(Unreadable, match="changed while it was read"):
        list(pieces)
    put(b"c,3\n")
    assert sum(map(len, stream(Remote("s3://lake/a.csv")))) == 8_000_010


def test_what_is_wrong_with_a_bucket_is_said(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = ["-o", str(tmp_path / "index")]

    def error(url: str) -> str:
        done = RUN.invoke(app, ["index", url, *index])
        assert done.exit_code != 0
        assert SECRET not in done.output
        return str(done.exception)

    assert "There is no lake at s3://no-such-bucket" in error("s3://no-such-bucket")
    assert "There is no lake at s3://lake/nothing" in error("s3://lake/nothing")
    s3.refuse = lambda method, path: "403 Forbidden"
    assert "access was denied" in error("s3://lake")
    s3.refuse = lambda method, path: None
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    _anew()
    assert "no credentials were found" in error("s3://lake")
    assert "Protocol not known: nonsense" in error("nonsense://x")


def test_large_databases_are_refused_and_small_ones_leave_nothing(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(tmp_path / "data.db") as database:
        database.execute("CREATE TABLE t (a, b)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(number, "x" * 100) for number in range(2_000)])
    database.close()
    s3.client.upload_file(str(tmp_path / "data.db"), "lake", "data.db")
    [source] = scan("s3://lake")
    assert isinstance(source, Source)
    assert source.name == "data.db/t"
    assert read(source).rows == 512
    with pytest.raises(Unreadable, match="copied whole"):
        read(source, Limits(typed_bytes=50_000))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(Unreadable, match="pip install gcsfs"):
        read_path("gs://bucket/a.csv")


# --- secrets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{SECRET}@host/a.csv",
        f"https://{SECRET}@host/a.csv",
        f"s3://key:{SECRET}@bucket/a.csv",
        f"https://host/a.csv?X-Amz-Signature={SECRET}",
        f"https://host/a.csv#{SECRET}",
    ],
)
def test_urls_with_secrets_are_refused(url: str, index_path: Path) -> None:
    for command in (
        ["search", str(index_path), url],
        ["add", str(index_path), url],
        ["sync", str(index_path), url],
    ):
        done = RUN.invoke(app, command)
        assert done.exit_code != 0
        assert SECRET not in done.output + str(done.exception)
        assert "gentus stores the URLs of tables" in done.output + str(done.exception)


def test_messages_are_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    told = scrubbed(f"GET https://me:word@host/x?sig=abc failed with {SECRET}")
    assert told == "GET https://***host/x*** failed with ***"


def test_places() -> None:
    assert as_location("file:///tmp/a%20b") == Path("/tmp/a b")
    assert as_location("S3://bucket/x/") == Remote("s3://bucket/x")
    assert as_location("some/path") == Path("some/path")
    assert Remote("s3://b/x/y.csv").is_relative_to(Remote("s3://b/x"))
    assert not Remote("s3://b/xy.csv").is_relative_to(Remote("s3://b/x"))
    with pytest.raises(ValueError, match="stands for another"):
        as_location("simplecache::s3://b/x")
