"""Files that are nearly right, by the hundred thousand: each is read, or refused with a reason, in time.

`make fuzz` makes them from good files by flipping, cutting, splicing and lying about lengths, and reads
them in processes that are watched. What one died of, hung on or raised is kept. An input follows from the
seed and its number: `--first 4711 --inputs 1` makes that one again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import random
import resource
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from gentus.features.extract import featurize_all
from gentus.lake import Limits, Source, Unreadable, fingerprint
from gentus.lake import read as read_table
from gentus.lake.formats.detect import format_at
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally
from gentus.lake.reader import parts_of
from gentus.lake.sandbox.process import bounded_memory
from gentus_bench.machine import describe, sentence

WEIGHTS = {  # of a hundred inputs; what DuckDB or Python's XML reads takes longer
    "csv": 24,
    "json": 18,
    "jsonl": 8,
    "csv.gz": 8,
    "csv.zst": 5,
    "parquet": 12,
    "arrow": 12,
    "sqlite": 9,
    "duckdb": 1,
    "xlsx": 3,
}
SECONDS = 20.0  # an input may take; they are small
_WHOLE = 8  # of so many inputs one is also read whole, as a union does
_LENGTHS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 31, 1 << 40, (1 << 63) - 1, -1)
_TOKENS = [
    *(
        b'"',
        b"'",
        b"\\",
        b"\0",
        b"\n",
        b"\r",
        b",",
        b";",
        b"\t",
        b"|",
        b"[",
        b"{",
        b"}",
        b"]",
        b'":',
        b"PK\x03\x04",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\x1f\x8b\x08",
        b"\x28\xb5\x2f\xfd",
        b"PAR1",
        b"ARROW1\0\0",
    ),
    *(b"SQLite format 3\0", b"\\ud800", b"1e999", b"NaN", b"\xff\xff\xff\xff", b"-" * 40, b"9" * 5000),
]


# --- good files ----------------------------------------------------------------------------------------


@cache
def good_files() -> dict[str, list[bytes]]:
    """Small good files of every kind."""
    header = ["id", "name", "größe", "when", "note"]
    rows = [[i, f"name {i}", i * 1.5, f"2024-0{i % 9 + 1}-11", f'a "b", {i};|\tc'] for i in range(24)]
    text = "\n".join([",".join(header), *(",".join(_cell(value) for value in row) for row in rows)]) + "\n"
    objects = [dict(zip(header, row, strict=True)) for row in rows]
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects).encode()
    arrays = json.dumps({"meta": {"n": 1}, "data": objects}).encode()
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(header)})
    table = table.append_column("list", pa.array([[i, None] for i in range(24)]))
    table = table.append_column("pair", pa.array([{"x": i, "y": str(i)} for i in range(24)]))
    encoded = table.set_column(1, "name", table["name"].dictionary_encode())
    return {
        "csv": [
            text.encode(),
            text.replace(",", ";").encode("utf-16"),
            text.replace("\n", "\r\n").encode("latin-1"),
        ],
        "json": [json.dumps(objects).encode(), arrays, json.dumps([header, *rows]).encode()],
        "jsonl": [lines],
        "csv.gz": [
            gzip.compress(text.encode(), mtime=0),
            gzip.compress(b"a,b\n") + gzip.compress(b"1,2\n" * 9),
        ],
        "csv.zst": [pa.Codec("zstd").compress(text.encode(), asbytes=True)],
        "parquet": [_parquet(table, compression=kind) for kind in ("none", "snappy", "zstd", "gzip")]
        + [_parquet(table, data_page_version="2.0", use_dictionary=False, row_group_size=7)],
        "arrow": [_arrow(one, kind) for one in (table, encoded) for kind in (None, "lz4", "zstd")]
        + [_arrow(table, None, stream=True)],
        "sqlite": [_made("s.sqlite", _sqlite)],
        "duckdb": [_made("d.duckdb", _duckdb)],
        "xlsx": [_made("x.xlsx", _xlsx)],
    }


def _cell(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",;|\t') else text


def _parquet(table: pa.Table, **options: Any) -> bytes:
    written = pa.BufferOutputStream()
    pq.write_table(table, written, **options)
    data: bytes = written.getvalue().to_pybytes()
    return data


def _arrow(table: pa.Table, compression: str | None, stream: bool = False) -> bytes:
    written = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(written, table.schema, options=options) as writer:
        writer.write_table(table)
    data: bytes = written.getvalue().to_pybytes()
    return data


def _made(name: str, make: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder, name))
        return Path(folder, name).read_bytes()


def _sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        "PRAGMA page_size = 512; CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c REAL);"
    )
    connection.execute("CREATE INDEX i ON t (b)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, f"x{i}" * 9, i / 3) for i in range(40)])
    connection.execute("CREATE TABLE u (a PRIMARY KEY, b) WITHOUT ROWID")
    connection.execute("INSERT INTO u VALUES ('k', x'00ff')")
    connection.commit()
    connection.close()


def _duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT i, 'name ' || i AS n FROM range(40) r(i)")


def _xlsx(path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for number in range(12):
        book.active.append([number, f"name {number}", number / 3])
    book.save(path)


# --- bad ones ------------------------------------------------------------------------------------------


def generate(seed: int, number: int) -> tuple[str, bytes]:
    """The kind and the bytes of an input."""
    chance = random.Random(f"{seed} {number}")
    (kind,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
    good = good_files()
    data = bytearray(chance.choice(good[kind]))
    packed = kind == "csv.gz" and chance.random() < 0.5
    if packed:  # what is inside, too
        data = bytearray(chance.choice(good["csv"] + good["json"]))
    for _ in range(chance.choice((1, 1, 2, 3, 5, 9))):
        mutate(data, chance, good[chance.choice(list(good))])
    return kind, gzip.compress(bytes(data), 1) if packed else bytes(data)


def mutate(data: bytearray, chance: random.Random, others: Sequence[bytes]) -> None:
    """Damage data a little."""
    if not data:
        data += chance.randbytes(chance.randrange(1, 64))
    # The end of a Parquet, an Arrow and a zip file says where all else is: it is hit more often.
    at = (
        chance.randrange(len(data))
        if chance.random() < 0.7
        else max(0, len(data) - 1 - chance.randrange(256))
    )
    size = chance.choice((1, 2, 4, 8, 16, 64, 512))
    match chance.randrange(10):
        case 0 | 1:
            data[at] ^= 1 << chance.randrange(8)
        case 2:
            data[at : at + size] = chance.randbytes(size)
        case 3:
            del data[at:]
        case 4:
            del data[at : at + size]
        case 5:
            data[at:at] = data[at : at + size] * chance.choice((1, 2, 50))
        case 6:
            data[at:at] = chance.choice(_TOKENS)
        case 7:
            other = chance.choice(others)
            begin = chance.randrange(len(other))
            data[at : at + size] = other[begin : begin + chance.choice((size, len(other)))]
        case 8 | 9:
            width = chance.choice((1, 2, 4, 8))
            value = chance.choice(_LENGTHS) & ((1 << 8 * width) - 1)
            at -= at % width
            data[at : at + width] = value.to_bytes(width, chance.choice(("little", "big")))


# --- reading them --------------------------------------------------------------------------------------


def try_input(folder: Path, kind: str, data: bytes, whole: bool) -> str:
    """Read what is in a file, as an index does and perhaps as a union does; says what came of it."""
    path = folder / f"input.{kind}"
    path.write_bytes(data)
    try:
        parts = parts_of(path, format_at(path), LIMITS)
    except Exception:  # here all who ask take whatever comes for a refusal
        return "refused"
    outcome = "refused"
    for part in parts:
        found = Source("input", path, part, len(data), 0)
        try:
            table = read_table(found, LIMITS)
        except Unreadable as error:
            if not error.reason:
                raise
            continue
        assert table.rows
        assert table.columns
        featurize_all([table])  # what an index makes of it
        fingerprint(found)
        outcome = "read"
        if whole:
            read_whole(found)
    return outcome


def read_whole(source: Source) -> None:
    """Read three columns of all rows."""
    with duckdb.connect(config={"threads": 1, "memory_limit": "512MB"}) as duck:
        try:
            table = open_full(source, duck, LIMITS)
            with table.scan(duck, range(min(3, len(table.names))), Tally()) as relation:
                duck.execute(f"SELECT count(*) FROM {relation}").fetchall()
        except Exception:
            pass  # a union tells of whatever comes that this table could not be read


LIMITS = Limits(seconds=SECONDS)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@dataclass(slots=True)
class Cost:
    """What a process holds at some moment."""

    inputs: int
    rss: int
    descriptors: int
    threads: int

    def __str__(self) -> str:
        held = f"{self.rss / 1e6:,.0f} MB, {self.descriptors} open files and {self.threads} threads"
        return f"{held} after {self.inputs:,} inputs"


def cost(inputs: int) -> Cost:
    return Cost(inputs, resident(), open_descriptors(), threading.active_count())


Try = Callable[[Path, str, bytes, bool], str]


def work(connection: Connection, progress: Any, seed: int, folder: Path, kept: Path, attempt: Try) -> None:
    """Run in a process: try the inputs whose numbers come in, and tell what came of them."""
    tried = 0
    with bounded_memory(LIMITS):
        while (numbers := connection.recv()) is not None:
            outcomes: Counter[str] = Counter()
            for number in numbers:
                progress[1] = number
                progress[0] += 1
                kind, data = generate(seed, number)
                try:
                    outcomes[f"{kind} {attempt(folder, kind, data, number % _WHOLE == 0)}"] += 1
                except BaseException as error:
                    outcomes[f"{kind} unhandled"] += 1
                    keep(kept, number, kind, data, f"{type(error).__name__}: {error}")
                tried += 1
            connection.send((outcomes, cost(tried)))


def keep(kept: Path, number: int, kind: str, data: bytes, why: str) -> None:
    """Save an input that should not have done what it did."""
    kept.mkdir(parents=True, exist_ok=True)
    (kept / f"{number}.{kind}").write_bytes(data)
    (kept / f"{number}.why.txt").write_text(why + "\n")


# --- the run -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Runner:
    process: BaseProcess
    connection: Connection
    progress: Any
    numbers: range
    seen: int = -1
    since: float = 0.0


@dataclass(slots=True)
class Result:
    """What came of a run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    costs: list[Cost] = field(default_factory=list)  # of the process that tried most
    seconds: float = 0.0

    def count(self, outcome: str) -> int:
        return sum(count for name, count in self.outcomes.items() if name.endswith(f" {outcome}"))

    @property
    def bad(self) -> int:
        return sum(self.count(outcome) for outcome in ("unhandled", "died", "hung"))


def run(
    inputs: int,
    seed: int,
    kept: Path,
    processes: int = 1,
    first: int = 0,
    *,
    step: int = 500,
    seconds: float = SECONDS,
    attempt: Try = try_input,
) -> Result:
    """Try so many inputs in watched processes."""
    result, begun = Result(), time.monotonic()
    left = [range(at, min(at + step, first + inputs)) for at in range(first, first + inputs, step)][::-1]
    runners: list[Runner] = []
    context = multiprocessing.get_context("spawn")
    told = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gentus-fuzz-") as scratch:

        def start() -> None:
            ours, theirs = context.Pipe()
            progress = context.RawArray("q", [0, -1])
            folder = Path(tempfile.mkdtemp(dir=scratch))
            arguments = theirs, progress, seed, folder, kept, attempt
            process = context.Process(target=work, args=arguments, daemon=True)
            process.start()
            theirs.close()
            runners.append(Runner(process, ours, progress, left.pop()))
            ours.send(list(runners[-1].numbers))

        def lose(runner: Runner, outcome: str, why: str) -> None:
            number = runner.progress[1]
            kind, data = generate(seed, number)
            keep(kept, number, kind, data, why)
            result.outcomes[f"{kind} {outcome}"] += 1
            # What was tried before it in the same step is not told: it is tried again, as is the rest.
            again = [range(runner.numbers.start, number), range(number + 1, runner.numbers.stop)]
            left.extend(part for part in again if part)
            runner.process.kill()
            runner.process.join()
            runners.remove(runner)

        while left or runners:
            while left and len(runners) < processes:
                start()
            for runner in list(runners):
                try:
                    if runner.connection.poll(0.2):
                        outcomes, costs = runner.connection.recv()
                        result.outcomes += outcomes
                        result.costs.append(costs)
                        if left:
                            runner.numbers = left.pop()
                            runner.connection.send(list(runner.numbers))
                        else:
                            runner.connection.send(None)
                            runner.process.join()
                            runners.remove(runner)
                        continue
                except (EOFError, ConnectionResetError, BrokenPipeError):
                    runner.process.join()
                    lose(runner, "died", f"exit code {runner.process.exitcode}")
                    continue
                if runner.progress[0] != runner.seen:
                    runner.seen, runner.since = runner.progress[0], time.monotonic()
                elif runner.seen and time.monotonic() - runner.since > seconds:
                    lose(runner, "hung", f"longer than {seconds:g} s")
            if time.monotonic() - told > 30:
                told = time.monotonic()
                done = sum(result.outcomes.values())
                print(
                    f"{done:,} of {inputs:,}, {result.bad} bad, {told - begun:,.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    result.seconds = time.monotonic() - begun
    return result


def tell(result: Result, seed: int, kept: Path, machine: str) -> str:
    """The result as a table."""
    shown = ("read", "refused", "unhandled", "died", "hung")
    lines = [f"| kind | {' | '.join(shown)} |", f"|---|{'--:|' * len(shown)}"]
    for kind in WEIGHTS:
        counts = [f"{result.outcomes[f'{kind} {outcome}']:,}" for outcome in shown]
        lines.append(f"| {kind} | {' | '.join(counts)} |")
    lines.append(f"| all | {' | '.join(f'{result.count(outcome):,}' for outcome in shown)} |")
    total = sum(result.outcomes.values())
    lines.append(f"\n{total:,} inputs in {result.seconds:,.0f} s, seed {seed}, {date.today()}, {machine}.")
    if result.costs:
        early, late = result.costs[min(len(result.costs) - 1, len(result.costs) // 10)], result.costs[-1]
        lines.append(f"The reading process had {early}; {late}.")
    if result.bad:
        lines.append(f"{result.bad:,} inputs did what they should not; they are in {kept}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kept", type=Path, default=Path("fuzz-kept"), help="folder for culprits")
    asked = parser.parse_args()
    shutil.rmtree(asked.kept, ignore_errors=True)
    machine = sentence(describe())
    result = run(asked.inputs, asked.seed, asked.kept, asked.processes, asked.first)
    print(tell(result, asked.seed, asked.kept, machine))
    sys.exit(1 if result.bad else 0)


if __name__ == "__main__":
    main()
