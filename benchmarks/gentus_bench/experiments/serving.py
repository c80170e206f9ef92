"""The server under load: many clients at once, beside the same searches in one process."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table, figure

MOST_QUERIES = 500
_BOUNDARY = b"gentus-bench-6d1f"
AT_ONCE = 64  # queries of one search in one process
_SECONDS_ALONE = 10.0  # of searches in one process, at most


@dataclass(slots=True)
class Load:
    """What clients saw."""

    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        ordered = sorted(self.milliseconds)
        return {
            "requests": len(ordered) + len(self.errors),
            "errors": len(self.errors),
            "first_errors": self.errors[:3],
            "seconds": round(self.seconds, 2),
            "ms_p50": round(statistics.median(ordered), 1) if ordered else None,
            "ms_p95": round(ordered[int(0.95 * (len(ordered) - 1))], 1) if ordered else None,
            "ms_worst": round(ordered[-1], 1) if ordered else None,
            "per_second": round(len(ordered) / self.seconds, 1),
        }


@contextmanager
def served(index: Path, *options: str) -> Iterator[str]:
    """Serve an index in a process of its own, at a free port; gives the address."""
    with serving(index, *options) as (address, _):
        yield address


@contextmanager
def serving(index: Path, *options: str) -> Iterator[tuple[str, int]]:
    """The same, with the number of the process."""
    command = [sys.executable, "-m", "gentus.app.cli.main", "serve", str(index), "-p", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"the server did not start; try it: gentus serve {index}")
        yield address.rstrip("/"), process.pid
    finally:
        process.terminate()
        process.wait(20)


@dataclass(frozen=True, slots=True)
class Options:
    """The load."""

    clients: int = 50
    seconds: float = 60.0


def run(request: Request, options: Options) -> Iterator[Document]:
    """Search in one process, then start a server and let clients in this one send the same queries."""
    index, k, chosen = request.index(), request.k or 10, request.query_files(MOST_QUERIES)
    what = {"index": index.resolve().name, "queries": len(chosen), "k": k, **asdict(options)}
    clients, seconds = options.clients, options.seconds

    def measure() -> Document:
        alone = _alone(index, min(seconds, _SECONDS_ALONE), k, [item.file for item in chosen])
        begun = time.perf_counter()
        with served(index) as url:
            started = time.perf_counter() - begun
            requests = [_request(url, item.file, k) for item in chosen]
            asyncio.run(_drive(url, requests, min(clients, 4), 1.0))  # warm
            load = asyncio.run(_drive(url, requests, clients, seconds))
        served_facts = load.facts()
        return {
            "seconds_to_start": round(started, 2),
            "one_process": alone,
            "served": served_facts,
            "share": round(served_facts["per_second"] / alone["per_second"], 3),
        }

    yield request.results.measured(f"serving-{index.resolve().name}", what, measure)


def _alone(index: Path, seconds: float, k: int, queries: Sequence[Path]) -> dict[str, Any]:
    """Searches of lists of queries while this process does nothing else."""
    from gentus.index.index import Index

    with Index(index) as opened:
        opened.search(list(queries[:AT_ONCE]), k=k)  # warm
        done, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            some = [queries[(done + at) % len(queries)] for at in range(AT_ONCE)]
            opened.search(some, k=k)
            done += AT_ONCE
        taken = time.perf_counter() - begun
    return {"searches": done, "seconds": round(taken, 2), "per_second": round(done / taken, 1)}


# --- clients -------------------------------------------------------------------------------------------


def _request(url: str, path: Path, k: int) -> bytes:
    """A whole request that sends a file and asks for k tables: clients are to cost next to nothing."""
    parts = [
        b"--" + _BOUNDARY + b'\r\nContent-Disposition: form-data; name="k"\r\n\r\n' + str(k).encode(),
        b"--"
        + _BOUNDARY
        + f'\r\nContent-Disposition: form-data; name="file"; filename="{path.name}"'.encode()
        + b"\r\nContent-Type: application/octet-stream\r\n\r\n"
        + path.read_bytes(),
        b"--" + _BOUNDARY + b"--\r\n",
    ]
    body = b"\r\n".join(parts)
    head = (
        f"POST /api/search HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={_BOUNDARY.decode()}\r\n\r\n"
    )
    return head.encode() + body


async def _drive(url: str, requests: Sequence[bytes], clients: int, seconds: float) -> Load:
    load = Load()
    begun = time.perf_counter()
    await asyncio.gather(
        *(
            _client(url, requests, at * len(requests) // clients, begun + seconds, load)
            for at in range(clients)
        )
    )
    load.seconds = time.perf_counter() - begun
    return load


async def _client(url: str, requests: Sequence[bytes], at: int, until: float, load: Load) -> None:
    """Send one request after the other over one connection, the next as soon as the last is answered."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 22)
    try:
        while time.perf_counter() < until:
            begun = time.perf_counter()
            try:
                writer.write(requests[at % len(requests)])
                status, body = await _response(reader)
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                load.errors.append(f"{type(error).__name__}: {error}")
                return
            if status == 200 and b'"results":[{' in body:
                load.milliseconds.append(1000 * (time.perf_counter() - begun))
            else:
                load.errors.append(f"{status}: {body[:200].decode(errors='replace')}")
            at += 1
    finally:
        writer.close()


async def _response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]
    return int(head.split(b" ", 2)[1]), await reader.readexactly(int(length))


def tables(document: Document) -> list[Table]:
    """The server beside one process that only searches."""
    what, alone, load = document["what"], document["one_process"], document["served"]
    rows = [
        [
            f"one process, {AT_ONCE} queries at once",
            f"{alone['searches']:,}",
            "0",
            "",
            "",
            f"{alone['per_second']:.0f}",
        ],
        [
            *(f"server, {what['clients']} clients", f"{load['requests']:,}", f"{load['errors']:,}"),
            *(figure(load["ms_p50"], ".0f"), figure(load["ms_p95"], ".0f"), f"{load['per_second']:.0f}"),
        ],
    ]
    columns = ["", "requests", "errors", "p50, ms", "p95, ms", "per second"]
    note = (
        f"{what['queries']:,} queries, each sent as a file; clients on the same machine for"
        f" {what['seconds']:.0f} s. The server was ready after {document['seconds_to_start']:.1f} s, and had"
        f" {document['share']:.0%} of the throughput of one process that only searches."
    )
    return [Table(columns, rows, what["index"], note)]
