"""Readers of delimited text beside each other: dialect, header and cells, over corpora with annotations.

Every reader has a process of its own, with a time limit; one that crashes is started again.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gentus.lake import Limits, Unreadable
from gentus.lake.sandbox.process import SandboxProcess
from gentus.progress import Progress
from gentus_bench.baselines.text_readers import READERS, Reading, read_by
from gentus_bench.experiment import Request
from gentus_bench.lakes.annotated import Annotated, annotated_files
from gentus_bench.lakes.messy_text import make_messy
from gentus_bench.results import Document
from gentus_bench.table import Table

MADE = "made"  # the corpus that is made where none is given
TUNED_ON = range(10)  # seeds of made files that the rules of our reader were tuned on
_MEASURES = ("dialect", "header", "cells")
_SHOWN = 10  # files of a reader that were read wrong, in a document


@dataclass(frozen=True, slots=True)
class Options:
    """Which files."""

    per_shape: int = 30  # of the made corpus
    seed: int = 0
    seconds: float = 60.0  # for one file
    most_kb: int = 1024  # of a file; larger ones are left out


@dataclass(slots=True)
class _Score:
    """Counts of one reader on one corpus, or on one shape of its files."""

    files: int = 0
    right: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)  # files of which the truth is known
    refused: int = 0
    crashed: int = 0
    lost: int = 0  # files with fewer rows than there are, and nothing said
    seconds: float = 0.0

    def add(self, one: Annotated, found: Reading) -> list[str]:
        """Count a file; returns what was wrong."""
        self.files += 1
        self.seconds += found.seconds
        self.crashed += found.crashed
        self.refused += bool(found.refused) and not found.crashed
        verdicts = judged(one, found)
        for measure, right in verdicts.items():
            self.known[measure] += 1
            self.right[measure] += right
        lost = not found.refused and one.rows is not None and len(found.rows) < len(_body(one.rows))
        self.lost += lost and not found.told
        return [measure for measure, right in verdicts.items() if not right]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        shares = {
            name: round(100 * self.right[name] / self.known[name], 2) if self.known[name] else None
            for name in _MEASURES
        }
        counts = {"refused": self.refused, "crashed": self.crashed, "lost": self.lost}
        return {
            "files": self.files,
            **shares,
            **counts,
            "ms": round(1000 * self.seconds / max(1, self.files), 2),
        }


def judged(one: Annotated, found: Reading) -> dict[str, bool]:
    """Of all that is known of a file, whether a reader has it right."""
    verdicts: dict[str, bool] = {}
    if one.delimiter is not None:
        verdicts["dialect"] = not found.refused and _same_dialect(one, found)
    if one.names is not None:
        verdicts["header"] = not found.refused and _names(one.names) == _names(found.names)
    if one.rows is not None:
        verdicts["cells"] = not found.refused and _body(one.rows) == _body(found.rows)
    return verdicts


def _same_dialect(one: Annotated, found: Reading) -> bool:
    if one.delimiter != found.delimiter:
        return False
    content = one.path.read_bytes()
    quotes = [
        quote if quote and quote.encode() in content else "" for quote in (one.quote or "", found.quote)
    ]
    return one.quote is None or quotes[0] == quotes[1]


def _names(names: Sequence[str]) -> list[str]:
    """Names as words, without empty ones at the end."""
    return _trimmed([" ".join(name.split()) for name in names])


def _body(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Rows without blanks around cells and without empty cells at the end; empty rows are none."""
    stripped = [_trimmed([cell.strip().replace("\r\n", "\n") for cell in row]) for row in rows]
    return [row for row in stripped if row]


def _trimmed(cells: list[str]) -> list[str]:
    while cells and not cells[-1]:
        cells.pop()
    return cells


def run(request: Request, options: Options) -> Iterator[Document]:
    """Every reader on every corpus; without folders, on files that are made."""
    readers = list(request.methods) or list(READERS)
    if unknown := sorted(set(readers) - set(READERS)):
        raise ValueError(f"there is no reader {', '.join(unknown)}; there are {', '.join(READERS)}")
    folders = [] if request.data is None else [request.data / name for name in request.lakes or ("",)]
    with tempfile.TemporaryDirectory(prefix="gentus-readers-") as scratch:
        if not folders:
            make_messy(Path(scratch) / MADE, options.per_shape, options.seed)
            folders = [Path(scratch) / MADE]
        for folder in folders:
            what = {"corpus": folder.name, "readers": readers, "seed": options.seed}
            name = "readers" if folder.name == MADE else f"readers-{folder.name}"
            if folder.name == MADE and options.seed:
                name += f"-seed-{options.seed}"
            measure = partial(_measure, folder, readers, options, request.progress)
            yield request.results.measured(name, what, measure)


def _measure(folder: Path, readers: list[str], options: Options, progress: Progress) -> Document:
    files = [one for one in annotated_files(folder) if one.path.stat().st_size <= options.most_kb << 10]
    if not files:
        raise ValueError(f"there is no delimited text in {folder}")
    scores: dict[str, dict[str, Any]] = {}
    shapes: dict[str, dict[str, Any]] = {}
    wrong: dict[str, dict[str, str]] = {}
    for reader in readers:
        total, by_shape, examples = _Score(), dict[str, _Score](), dict[str, str]()
        sandbox = SandboxProcess(Limits(seconds=options.seconds))
        with progress.stage(reader, len(files)) as tick:
            for one in files:
                found = _read(sandbox, reader, one.path)
                by_shape.setdefault(one.shape, _Score()).add(one, found)
                if faults := total.add(one, found):
                    examples[one.path.name] = f"{', '.join(faults)}{found.refused and f': {found.refused}'}"
                tick(1)
        sandbox.close()
        scores[reader] = total.to_dict()
        shapes[reader] = {shape: score.to_dict() for shape, score in sorted(by_shape.items())}
        wrong[reader] = dict(list(examples.items())[:_SHOWN])
    return {"files": len(files), "scores": scores, "shapes": shapes, "wrong": wrong}


def _read(sandbox: SandboxProcess, reader: str, path: Path) -> Reading:
    try:
        return sandbox(read_by, reader, path)
    except Unreadable as error:  # the process died, or took too long
        return Reading(refused=error.reason, crashed=True)


def tables(document: Document) -> list[Table]:
    """All readers, and each of them by the shape of the files."""
    columns = [
        *("reader", "dialect %", "header %", "cells %"),
        *("refused", "crashed", "rows lost in silence", "CPU ms per file"),
    ]
    rows = [
        [
            reader,
            *("" if score[name] is None else f"{score[name]:.1f}" for name in _MEASURES),
            *(f"{score[name]:,}" for name in ("refused", "crashed", "lost")),
            f"{score['ms']:.1f}",
        ]
        for reader, score in document["scores"].items()
    ]
    note = (
        f"{document['files']:,} files of the corpus {document['what']['corpus']}. A file counts as right if"
        " all names, or all cells of all rows, are right. *Refused* and *rows lost* are files."
    )
    if document["what"]["corpus"] == MADE:
        seed = document["what"]["seed"]
        known = f"the rules were tuned on seeds {TUNED_ON[0]} to {TUNED_ON[-1]}"
        note += f" They are made with the seed {seed}; {known}."
    best = dict.fromkeys((1, 2, 3), True)
    readers = list(document["scores"])
    shapes = list(dict.fromkeys(shape for reader in readers for shape in document["shapes"][reader]))
    by_shape = [[shape, *(_both(document["shapes"][one][shape]) for one in readers)] for shape in shapes]
    found = [Table(columns, rows, note=note, best=best)]
    if len(shapes) > 1:
        title = "Header and cells right, % of the files of each shape"
        found.append(Table(["shape", *readers], by_shape, title))
    return found


def _both(score: dict[str, Any]) -> str:
    return " / ".join("-" if score[name] is None else f"{score[name]:.0f}" for name in ("header", "cells"))
