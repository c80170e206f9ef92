"""What strangers, pages of other sites and greedy clients get from the server."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, make_lake, rows_of
from served import Served, served
from test_serve import as_csv

import gentus
from gentus.app.serve.errors import ApiError
from gentus.app.serve.fair_queue import Cancellation, FairQueue
from gentus.app.serve.middleware import AllowedHosts, client_address
from gentus.app.serve.uploads import clean_name, ending
from gentus.index.index import Index

LIMITS = {
    "upload_bytes": 100_000,
    "unpacked_bytes": 1_000_000,
    "json_bytes": 20_000,
    "rows": 1000,
    "json_rows": 50,
    "columns": 20,
    "uploads_of_one": 3,
    "uploads": 5,
    "body_seconds": 0.5,
    "union_rows": 100,
    "slow_seconds": 5.0,
}


@pytest.fixture(scope="module")
def api(index_path: Path) -> Iterator[Served]:
    with served(index_path, **LIMITS) as client:
        yield client


# --- what is sent --------------------------------------------------------------------------------------


def bring_down(*given: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_file_that_brings_its_parser_down_costs_its_request(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the server: what a native parser reads is first looked at in another process."""
    file = io.BytesIO()
    pq.write_table(pa.table({"name": ["trout", "pike"], "size": [1, 2]}), file)
    with monkeypatch.context() as patch:
        patch.setattr("gentus.app.serve.uploads.read_upload", bring_down)
        answer = api.send_file("/api/upload", "bad.parquet", file.getvalue())
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("bad.parquet: the process opening it died (exit code -11)")
    assert api.send_file("/api/upload", "good.parquet", file.getvalue()).json()["columns"] == ["name", "size"]


def test_what_is_too_large_is_refused_there_too(api: Served) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"name": [str(number) for number in range(2000)]}), file)
    answer = api.send_file("/api/upload", "long.parquet", file.getvalue())
    assert answer.status_code == 413
    assert "more than 1,000 rows" in answer.json()["error"]


# --- who asks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "localhost.evil.example", "", "a b", "[::1"]
)
def test_other_hosts_are_refused(api: Served, host: str) -> None:
    """A name that a stranger has pointed to this machine."""
    for path in ("/", "/api/index", "/healthz"):
        status = api.send_raw(path, host=host).split(b" ", 2)[1]
        assert status in (b"421", b"400")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8420"])
def test_own_names_are_not(api: Served, host: str) -> None:
    assert api.send_raw("/healthz", host=host).startswith(b"HTTP/1.1 200")


def test_hosts_by_where_the_server_listens() -> None:
    everywhere = AllowedHosts("0.0.0.0", ["lake.example"])
    assert everywhere.allows("192.0.2.7:8420")  # numbers cannot be rebound
    assert everywhere.allows("lake.example")
    assert everywhere.allows(f"{socket.gethostname()}:8420")
    assert not everywhere.allows("evil.example")
    assert not AllowedHosts("127.0.0.1").allows("192.0.2.7")
    assert AllowedHosts("10.0.0.5").allows("10.0.0.5:1")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},  # another port is another site
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_pages_of_other_sites_are_refused(api: Served, headers: dict[str, str]) -> None:
    body = {"query": {"table": "fish_0.csv"}}
    assert api.post("/api/search", json=body, headers=headers).status_code == 403
    assert api.get("/api/search", params={"table": "fish_0.csv"}, headers=headers).status_code == 403
    assert api.delete("/api/tables", params={"name": "x"}, headers=headers).status_code == 403
    assert api.get("/", headers={**headers, "sec-fetch-mode": "navigate"}).status_code == 200  # a link


def test_our_own_page_is_not(api: Served) -> None:
    own = {"origin": str(api.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    answer = api.post("/api/search", json={"query": {"table": "fish_0.csv"}}, headers=own)
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/api/index", "/docs", "/nothing", "/api/table", "/metrics"])
def test_headers(api: Served, path: str) -> None:
    headers = api.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_headers_of_faults(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is our own fault is said without details."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(api.server.handle, "source", broken)
    answer = api.get("/api/search", params={"table": "fish_0.csv"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "log" in answer.json()["error"]


# --- no file but those of the lake ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of this lake, one file has become a link, another is broken, and a third is gone."""
    folder = tmp_path_factory.mktemp("damaged")
    lake = make_lake(folder / "lake", ["cities", "fish"], 4)
    gentus.build(lake, folder / "index", settings=QUICK, workers=1).close()
    (folder / "secret.csv").write_text("a,b\nvery,secret\n")
    (lake / "fish_0.csv").unlink()
    (lake / "fish_0.csv").symlink_to(folder / "secret.csv")
    (lake / "typed" / "fish_3.parquet").write_bytes(b"PAR1 broken")
    (lake / "deep" / "er" / "fish_1.csv").unlink()
    with served(folder / "index") as client:
        yield client


def test_a_link_that_leads_out_is_not_followed(damaged: Served) -> None:
    cities = {"table": "cities_0.csv"}
    for answer in (
        damaged.get("/api/table", params={"name": "fish_0.csv"}),
        damaged.get("/api/search", params={"table": "fish_0.csv"}),
        damaged.post_json("/api/align", {"query": cities, "table": "fish_0.csv"}),
        damaged.post_json("/api/union/plan", {"query": cities, "tables": ["fish_0.csv"]}),
    ):
        assert answer.status_code == 422
        assert "leads out of the lake" in answer.json()["error"]
        assert "very" not in answer.text
    asked = {"table": "semi/fish_2.semicolon.csv", "explain": "true"}
    hits = {hit["table"]: hit for hit in damaged.get("/api/search", params=asked).json()["results"]}
    assert "leads out of the lake" in hits["fish_0.csv"]["alignment"]["missing"]
    assert hits["fish_0.csv"]["alignment"]["table_only"] == []
    assert hits["cities_0.csv"]["alignment"]["pairs"]


def test_nor_is_one_of_a_table_from_elsewhere(index_path: Path, tmp_path: Path) -> None:
    index = shutil.copytree(index_path, tmp_path / "my.index")
    own, real = tmp_path / "own.csv", tmp_path / "real.csv"
    real.write_bytes(as_csv("fish"))
    own.symlink_to(real)
    with gentus.open(index) as opened:
        opened.add([own])
    with served(index) as api:
        assert len(api.table(str(own))["sample"]) == 12  # it was a link when it was added, too
        own.unlink()
        own.symlink_to(index_path / "config.json")
        answer = api.get("/api/table", params={"name": str(own)})
        assert (answer.status_code, "leads elsewhere" in answer.text) == (422, True)
        own.unlink()
        assert api.get("/api/table", params={"name": str(own)}).status_code == 422


def test_one_person_has_many_addresses() -> None:
    assert client_address({"client": ("2001:db8:1:2:3::4", 1)}) == client_address(
        {"client": ("2001:db8:1:2:9::9", 1)}
    )
    assert client_address({"client": ("2001:db8:1:3::4", 1)}) != client_address(
        {"client": ("2001:db8:1:2::4", 1)}
    )
    assert client_address({"client": ("fe80::1%eth0", 1)}) == "fe80::/64"
    assert client_address({"client": ("192.0.2.1", 1)}) == "192.0.2.1"
    assert client_address({"client": None}) == "?"


def test_errors_do_not_say_where_files_lie(damaged: Served) -> None:
    folder = str(damaged.server.handle.path.parent)
    for name in ("typed/fish_3.parquet", "deep/er/fish_1.csv"):
        for answer in (
            damaged.get("/api/table", params={"name": name}),
            damaged.post_json("/api/union/plan", {"query": {"table": "cities_0.csv"}, "tables": [name]}),
        ):
            assert answer.status_code == 422
            assert name in answer.json()["error"]
            assert folder not in answer.text


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("../../etc/passwd.csv", "passwd.csv"),
        ("C:\\data\\a.csv", "a.csv"),
        ("a\r\nb\x00.csv", "ab.csv"),
        (".hidden.csv", "hidden.csv"),
        ("", "table"),
        ("/", "table"),
        ("ü" * 300 + ".csv", "ü" * 98 + ".csv"),
    ],
)
def test_names_of_files(given: str, clean: str) -> None:
    assert clean_name(given) == clean


def test_endings_of_files() -> None:
    assert ending("My.Data.CSV.gz") == ".csv.gz"
    assert ending("a.parquet") == ".parquet"
    with pytest.raises(ApiError):
        ending("a.db")


# --- not too much --------------------------------------------------------------------------------------


def test_what_is_too_large(api: Served) -> None:
    def refused(answer: Any, status: int, words: str) -> None:
        assert answer.status_code == status, answer.text
        assert words in answer.json()["error"]

    rows = b"a,b\n" + b"1,2\n" * 2000
    refused(api.send_file("/api/upload", "a.csv", b"x" * 200_000), 413, "at most 100,000 bytes")
    refused(api.send_file("/api/search", "a.csv", rows), 413, "1,000 rows")
    packed = gzip.compress(b"a,b\n" + b"1" * 2_000_000)
    assert len(packed) < 10_000
    refused(api.send_file("/api/upload", "a.csv.gz", packed), 413, "decompresses to more than")
    wide = ",".join(f"c{at}" for at in range(30)) + "\n" + ",".join(["1"] * 30) + "\n"
    refused(api.send_file("/api/upload", "a.csv", wide.encode()), 422, "30 columns; the limit here is 20")
    many = pa.table({"a": pa.array([1] * 5000)})
    buffer = io.BytesIO()
    pq.write_table(many, buffer)
    refused(api.send_file("/api/upload", "a.parquet", buffer.getvalue()), 413, "1,000 rows")
    some = [{"a": number} for number in range(60)]
    refused(api.post_json("/api/search", {"query": {"rows": some}}), 413, "50 rows")
    long = [{"a": "x" * 30_000}]
    refused(api.post_json("/api/search", {"query": {"rows": long}}), 413, "send a large table as a file")
    assert api.get("/healthz").status_code == 200
    assert len(list(api.server.uploads.folder.iterdir())) <= 2 * LIMITS["uploads"]


def test_bodies_without_a_length(api: Served) -> None:
    """One that does not say how long it is ends where it becomes too long, or too slow."""
    head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    chunk = "8000\r\n" + "x" * 0x8000 + "\r\n"
    answer = api.send_raw("/api/search", head + "\r\n" + chunk[:-2], "POST")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()
    started = time.monotonic()
    answer = api.send_raw("/api/search", "Content-Type: application/json\r\nContent-Length: 50\r\n", "POST")
    assert answer.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - started < 5


def test_a_union_has_its_limits(api: Served) -> None:
    query = {"upload": api.send_file("/api/upload", "q.csv", as_csv("fish")).json()["upload"]}
    tables = [f"{place}{name}" for place, name in (("", "fish_0.csv"), ("deep/er/", "fish_1.csv"))]
    plan = api.post_json("/api/union/plan", {"query": query, "tables": tables}).json()
    assert api.post_json("/api/union/download", {"plan": plan, "query": query}).status_code == 200
    rows = rows_of("fish", 1)
    more = "".join(",".join(row) + "\n" for row in [rows[0], *rows[1:] * 20])
    query = {"upload": api.send_file("/api/upload", "q.csv", more.encode()).json()["upload"]}
    answer = api.post_json("/api/union/download", {"plan": plan, "query": query})
    assert answer.status_code == 413
    assert "100 rows" in answer.json()["error"]
    assert not list(api.server.uploads.folder.glob("*union-*"))


def test_few_uploads_are_kept(api: Served) -> None:
    keys = [api.send_file("/api/upload", "a.csv", as_csv("fish", seed)).json()["upload"] for seed in range(5)]
    there = [api.get("/api/table", params={"upload": key}).status_code for key in keys]
    assert there == [404, 404, 200, 200, 200]
    assert len(api.server.uploads) == 3
    files = [path for path in api.server.uploads.folder.iterdir() if path.suffix == ".csv"]
    assert len(files) == 3
    assert api.server.uploads.folder.stat().st_mode & 0o077 == 0  # nobody else can look


def test_uploads_are_forgotten(index_path: Path) -> None:
    with served(index_path, upload_seconds=0.2) as api:
        old = api.send_file("/api/upload", "a.csv", as_csv("fish")).json()["upload"]
        time.sleep(0.3)
        api.send_file("/api/upload", "b.csv", as_csv("fish"))
        assert api.get("/api/table", params={"upload": old}).status_code == 404
        folder = api.server.uploads.folder
    assert not folder.exists()


# --- nobody waits for others without need --------------------------------------------------------------


def test_long_work_does_not_block_others(index_path: Path) -> None:
    """While a union and searches hang, other routes answer, and so does another client's search."""
    gate = threading.Event()
    with served(index_path, slow_seconds=20) as api:
        handle = api.server.handle
        usual = type(handle).source

        def slow(name: str) -> Any:
            if name == "fish_0.csv":
                assert gate.wait(20)
            return usual(handle, name)

        handle.source = slow  # type: ignore[method-assign]
        waiting = [
            threading.Thread(
                target=api.get, args=("/api/search",), kwargs={"params": {"table": "fish_0.csv"}}
            )
            for _ in range(8)
        ]
        for thread in waiting:
            thread.start()
        while api.server.queues["quick"].busy() < 2:
            time.sleep(0.01)
        assert api.get("/healthz", timeout=3).status_code == 200
        assert api.get("/metrics", timeout=3).status_code == 200
        assert api.get("/api/map", timeout=3).status_code == 200  # in the other queue
        gate.set()
        for thread in waiting:
            thread.join()


def test_searches_that_wait_are_done_together(index_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the answers that each would have had alone; one that fails is no other's fault."""
    names = ["fish_0.csv", "films_0.csv", "nothing.csv", "birds_0.csv", "tools_0.csv", "cities_0.csv"]
    sizes: list[int] = []
    gate = threading.Event()
    with served(index_path) as api:

        def ask(name: str, least: float = 0.0) -> Any:
            told = api.get("/api/search", params={"table": name, "k": 30, "min_score": least}).json()
            told.pop("ms", None)
            return told

        alone = [ask(name) for name in names]
        certain = ask(names[0], 1.0)
        assert len(certain["results"]) < len(alone[0]["results"])
        with gentus.open(index_path) as index:  # not only alike: to the last digit
            hits = index.search(index.sources()[names[0]].path, k=30)
        told = [(hit["table"], hit["score"]) for hit in alone[0]["results"]]
        assert told == [(hit.table, hit.score) for hit in hits]
        usual, find = Index.search_as, api.server.handle.source

        def counted(self: Index, queries: Any, tables: Any, k: int, **options: Any) -> Any:
            sizes.append(len(queries))
            return usual(self, queries, tables, k, **options)

        monkeypatch.setattr(Index, "search_as", counted)
        monkeypatch.setattr(
            api.server.handle, "source", lambda name: (name != "metals_0.csv" or gate.wait(20)) and find(name)
        )
        with ThreadPoolExecutor(10) as pool:
            blocking = [pool.submit(ask, "metals_0.csv")]
            while not api.server.queues["quick"].busy():
                time.sleep(0.01)
            blocking.append(pool.submit(api.get, "/api/table", params={"name": "metals_0.csv"}))
            while api.server.queues["quick"].busy() < 2:  # as many as one client can have
                time.sleep(0.01)
            waiting = [pool.submit(ask, name) for name in names]
            while api.server.queues["quick"].depth() < len(names):
                time.sleep(0.01)
            other = pool.submit(ask, names[0], 1.0)  # its options are its own; it must not come between
            while api.server.queues["quick"].depth() < len(names) + 1:
                time.sleep(0.01)
            gate.set()
            assert [one.result() for one in waiting] == alone
            assert other.result() == certain
            assert [one.result() for one in blocking]
    assert max(sizes) >= len(names) - 2
    assert "no table" in alone[2]["error"]


def test_nobody_works_for_those_who_are_gone(index_path: Path) -> None:
    begun, told = threading.Event(), threading.Event()
    with served(index_path, slow_seconds=20) as api:

        def work(cancel: Cancellation) -> None:
            begun.set()
            while not cancel.requested():
                time.sleep(0.01)
            told.set()

        usual = api.server.slow

        async def slow(request: Any, _: Any) -> Any:
            return await usual(request, work)

        api.server.slow = slow  # type: ignore[assignment, method-assign]
        address = api.base_url.host, api.base_url.port or 80
        with socket.create_connection(address) as connection:
            connection.sendall(b"GET /api/map HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert begun.wait(5)
        assert told.wait(5)


def test_one_client_cannot_fill_the_disk(index_path: Path) -> None:
    with served(index_path, bodies_bytes=8 << 20, body_seconds=5) as api:
        address = api.base_url.host, api.base_url.port or 80
        head = (
            b"POST /api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        with socket.create_connection(address, timeout=5) as first:
            first.sendall(head)
            time.sleep(0.2)
            with socket.create_connection(address, timeout=5) as second:
                second.sendall(head)
                assert second.recv(100).startswith(b"HTTP/1.1 503")
            assert api.send_file("/api/search", "a.csv", as_csv("fish")).status_code == 200  # small ones pass
        time.sleep(0.2)
        rows = b"a,b\n" + b"some words,and others\n" * 130_000
        assert api.send_file("/api/upload", "a.csv", rows).status_code == 200


def test_who_asks_behind_a_proxy(index_path: Path) -> None:
    """Only if it was said that there is one: else everybody could take another name for every request."""
    for proxy, expected in ((False, "127.0.0.1"), (True, "192.0.2.9")):
        with served(index_path, behind_proxy=proxy) as api:
            api.post(
                "/api/upload",
                files={"file": ("a.csv", as_csv("fish"))},
                headers={"x-forwarded-for": "192.0.2.9"},
            )
            (kept,) = api.server.uploads._kept.values()
            assert kept.client == expected


def run_queue(queue: FairQueue, jobs: list[tuple[str, Any]], seconds: float = 10) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(
            *(queue.run(client, seconds, work) for client, work in jobs), return_exceptions=True
        )

    return asyncio.run(all_of_them())


def test_clients_take_turns() -> None:
    order: list[str] = []
    gate = threading.Event()

    def job(name: str) -> Any:
        def work(cancel: Cancellation) -> str:
            gate.wait(5)
            order.append(name)
            return name

        return work

    queue = FairQueue("test", 1, 100, 100)
    greedy = [("greedy", job(f"greedy {at}")) for at in range(10)]
    threading.Timer(0.1, gate.set).start()
    answers = run_queue(queue, [*greedy, ("modest", job("modest 0")), ("modest", job("modest 1"))])
    assert len(answers) == 12
    assert order.index("modest 0") <= 2
    assert order.index("modest 1") <= 4
    assert queue.close()


def test_no_client_has_all_threads() -> None:
    gate = threading.Event()
    queue = FairQueue("test", 3, 100, 100)

    def hang(cancel: Cancellation) -> None:
        gate.wait(5)

    async def both() -> float:
        hanging = [asyncio.create_task(queue.run("greedy", 10, hang)) for _ in range(6)]
        await asyncio.sleep(0.1)
        assert queue.busy() == 2
        started = time.monotonic()
        assert await queue.run("modest", 5, lambda cancel: 7) == 7
        taken = time.monotonic() - started
        gate.set()
        await asyncio.gather(*hanging)
        return taken

    assert asyncio.run(both()) < 1
    assert queue.close()


def test_what_takes_too_long_is_stopped() -> None:
    ended = threading.Event()
    queue = FairQueue("test", 1, 100, 100)

    def long(cancel: Cancellation) -> None:
        try:
            while True:
                cancel.check()
                time.sleep(0.01)
        finally:
            ended.set()

    async def both() -> Any:
        begun = asyncio.create_task(queue.run("a", 0.4, long))
        await asyncio.sleep(0.05)
        waits = queue.run("b", 0.1, lambda cancel: None)
        return await asyncio.gather(begun, waits, return_exceptions=True)

    first, second = asyncio.run(both())
    assert isinstance(first, ApiError)
    assert (first.status, "0.4 s" in first.reason) == (422, True)
    assert isinstance(second, ApiError)  # it waited in vain
    assert (second.status, second.headers["Retry-After"]) == (503, "5")
    assert ended.wait(2)
    assert queue.close()


def test_too_many_are_sent_away() -> None:
    gate = threading.Event()
    queue = FairQueue("test", 1, 5, 3)
    threading.Timer(0.2, gate.set).start()

    def work(cancel: Cancellation) -> str:
        gate.wait(5)
        return "done"

    answers = run_queue(queue, [("a", work)] * 8 + [("b", work)])
    refused = [answer for answer in answers if isinstance(answer, ApiError)]
    assert all(answer.status == 503 for answer in refused)
    assert 4 <= len(refused) <= 5
    assert answers[-1] == "done"
    assert queue.close()


def test_nobody_waits_any_more() -> None:
    """Work that was not begun is left out; work that has begun is told."""
    queue = FairQueue("test", 1, 100, 100)
    begun: list[str] = []
    stopped = threading.Event()

    def first(cancel: Cancellation) -> None:
        begun.append("first")
        while not stopped.is_set():
            try:
                cancel.check()
            except BaseException:
                stopped.set()
            time.sleep(0.005)

    async def leave() -> None:
        tasks = [
            asyncio.create_task(queue.run("a", 10, first)),
            asyncio.create_task(queue.run("a", 10, lambda cancel: begun.append("second"))),
        ]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(leave())
    assert stopped.wait(2)
    assert queue.close()
    assert begun == ["first"]


def test_a_long_query_of_duckdb_is_interrupted() -> None:
    from gentus.union.session import DuckDBSession

    queue = FairQueue("test", 1, 10, 10)
    ended = threading.Event()

    def work(cancel: Cancellation) -> None:
        try:
            with DuckDBSession(Path("unused")).connect("test") as duck:
                duck.execute("SELECT sum(hash(a.range + b.range)) FROM range(100000) a, range(1000000) b")
        finally:
            ended.set()

    (answer,) = run_queue(queue, [("a", work)], 0.3)
    assert isinstance(answer, ApiError)
    assert ended.wait(5)
    assert queue.close()


def test_errors_are_json(api: Served) -> None:
    as_json = {"content-type": "application/json"}
    half = b'{"query": {"table": "\\ud800"}, "table": "x"}'  # half a character
    for answer in (
        api.get("/api/tables", params={"limit": "many"}),
        api.get("/api/search"),
        api.post("/api/align", json={"query": 3}),
        api.post("/api/align", content=half, headers=as_json),
    ):
        assert answer.status_code == 422, answer.text
        assert list(json.loads(answer.content)) == ["error"]
    deep = b'{"query": ' + b"[" * 9000
    for content in (b"\xff", deep, b"{" * 9000):
        for path in ("/api/align", "/api/search", "/api/union/preview"):
            assert api.post(path, content=content, headers=as_json).status_code in (400, 422)
