"""Files per second of sampled reading, in this checkout and in another one, in turns.

Each has a process of its own, which has imported its readers and has read some files before it is timed.
"""

from __future__ import annotations

import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import gentus
from gentus.lake import Source, scan
from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table

_WARM = 20  # files that are read before
_BATCHES = 40
_WORDS = ("Berlin", "Paris", "Lisbon", "Oslo", "Madrid", "Dublin", "Vienna", "Warsaw", "Prague", "Athens")
_READER = """
import json, sys, time
from pathlib import Path
from gentus.lake import Source, Unreadable, read
sources = []
for text in json.loads(sys.stdin.readline()):
    path = Path(text)
    state = path.stat()
    sources.append(Source(path.name, path, None, state.st_size, state.st_mtime_ns))
for line in sys.stdin:
    begin, end = map(int, line.split())
    wall, busy, refused = time.perf_counter(), time.process_time(), 0
    for source in sources[begin:end]:
        try:
            read(source)
        except Unreadable:
            refused += 1
    print(time.perf_counter() - wall, time.process_time() - busy, refused, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What is read, and by whom."""

    other: str = ""  # the folder of another checkout; empty: this one alone
    files: int = 4000  # the first ones of a lake
    large: int = 40  # files that are made ...
    megabytes: float = 5.0  # ... of this size
    rounds: int = 5


def run(request: Request, options: Options) -> Iterator[Document]:
    """The first files of a lake, and larger ones that are made."""
    here = Path(gentus.__file__).parents[1]
    sources = {"this": here, **({"other": Path(options.other).resolve() / "src"} if options.other else {})}
    if missing := [str(folder) for folder in sources.values() if not (folder / "gentus").is_dir()]:
        raise ValueError(f"there is no gentus in {', '.join(missing)}")
    what = {"rounds": options.rounds, "commits": {name: _commit(src) for name, src in sources.items()}}
    for folder in request.folders() if request.data is not None else ():
        found = (item for item in scan(folder) if isinstance(item, Source) and item.part is None)
        paths = [str(item.path) for item, _ in zip(found, range(options.files), strict=False)]
        measure = partial(_measure, sources, paths, options.rounds)
        lake = folder.parent.name if folder.name == "datalake" else folder.name
        yield request.results.measured(
            f"reading-{lake}", {**what, "lake": lake, "files": len(paths)}, measure
        )
    if options.large:
        with tempfile.TemporaryDirectory(prefix="gentus-reading-") as scratch:
            paths = make_large(Path(scratch), options.large, int(options.megabytes * 1e6))
            what |= {"lake": f"made, {options.megabytes:g} MB each", "files": len(paths)}
            measure = partial(_measure, sources, paths, options.rounds)
            yield request.results.measured("reading-large", what, measure)


def _commit(source: Path) -> str:
    """The commit of a checkout; empty if Git does not know."""
    command = ["git", "-C", str(source), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def make_large(folder: Path, count: int, size: int) -> list[str]:
    """Write CSV files of about this size, with quotes, a title or another delimiter; the same each time."""
    paths = []
    for number in range(count):
        rng = random.Random(number)
        path = folder / f"large{number:03}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            if number % 8 == 7:
                file.write("Report of all places\n\n")
            delimiter = ";" if number % 4 == 2 else ","
            quoting: Literal[0, 1] = csv.QUOTE_ALL if number % 4 == 1 else csv.QUOTE_MINIMAL
            writer = csv.writer(file, delimiter=delimiter, quoting=quoting)
            writer.writerow(["id", "place", "amount", "day", "remark", "share"])
            some = [_row(rng) for _ in range(2000)]
            at = 0
            while file.tell() < size:
                writer.writerow([at, *some[at % len(some)]])
                at += 1
        paths.append(str(path))
    return paths


def _row(rng: random.Random) -> Sequence[object]:
    words = " ".join(rng.choices(_WORDS, k=rng.randint(1, 5)))
    day = f"2024-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return rng.choice(_WORDS), rng.randint(1, 90_000), day, words, f"{rng.uniform(-5, 80):.1f}"


class _Reader:
    """A process that reads files by the code of one checkout, some at a time."""

    def __init__(self, folder: Path, paths: Sequence[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _READER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._send(json.dumps(list(paths)))
        self.read(0, _WARM)

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self, begin: int, end: int) -> tuple[float, float, int]:
        """Wall seconds, CPU seconds, and how many files were refused."""
        self._send(f"{begin} {end}")
        assert self.process.stdout is not None
        found = self.process.stdout.readline().split()
        if not found:
            raise RuntimeError("a process that reads files has ended; its error is above")
        return float(found[0]), float(found[1]), int(found[2])

    def close(self) -> None:
        """End it."""
        self.process.communicate()


def _measure(sources: dict[str, Path], paths: Sequence[str], rounds: int) -> Document:
    """In turns by batches, so that whatever else the machine does hits all checkouts alike."""
    size = max(1, len(paths) // _BATCHES)
    begins = range(0, len(paths), size)
    found: dict[str, NDArray[np.float64]] = {name: np.zeros((rounds, len(begins), 3)) for name in sources}
    with ExitStack() as stack:
        readers = {name: _Reader(folder, paths) for name, folder in sources.items()}
        for reader in readers.values():
            stack.callback(reader.close)
        for turn in range(rounds):
            for at, begin in enumerate(begins):
                for name in list(readers)[:: 1 if (turn + at) % 2 else -1]:
                    found[name][turn, at] = readers[name].read(begin, begin + size)
    return {
        "bytes": sum(Path(path).stat().st_size for path in paths),
        "turns": {
            name: {
                "wall_seconds": one[:, :, 0].sum(1).round(3).tolist(),
                "cpu_seconds": one[:, :, 1].sum(1).round(3).tolist(),
                "least_cpu_seconds": round(float(one[:, :, 1].min(0).sum()), 4),
                "refused": int(one[0, :, 2].sum()),
            }
            for name, one in found.items()
        },
    }


def tables(document: Document) -> list[Table]:
    """Medians over the rounds, the best of each batch, and this checkout in relation to the other."""
    files, turns = document["what"]["files"], document["turns"]
    rows = []
    for name, found in turns.items():
        wall, busy = (statistics.median(found[key]) for key in ("wall_seconds", "cpu_seconds"))
        speeds = [f"{files / one:,.0f}" for one in (wall, busy, found["least_cpu_seconds"])]
        rows.append([f"{name} ({document['what']['commits'][name]})", *speeds, f"{found['refused']:,}"])
    note = f"{files:,} files of {document['what']['lake']}, {document['bytes'] / 1e6:,.0f} MB; medians of "
    note += f"{document['what']['rounds']} rounds, in which checkouts alternate batch by batch."
    if "other" in turns:
        ratios = [
            statistics.median(turns["other"][key]) / statistics.median(turns["this"][key])
            for key in ("wall_seconds", "cpu_seconds")
        ]
        ratios.append(turns["other"]["least_cpu_seconds"] / turns["this"]["least_cpu_seconds"])
        note += (
            " Speed of this checkout over that of the other: wall {:.2f}, CPU {:.2f}, best {:.2f}.".format(
                *ratios
            )
        )
    columns = ["checkout", "files per s", "files per CPU s", "best of each batch", "refused"]
    return [Table(columns, rows, note=note)]
