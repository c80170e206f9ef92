"""Engines compared: one lake built by each with as many workers, and whether identifiers are equal."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gentus
from gentus.index.engine import EngineName
from gentus.progress import Progress, Step
from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table

STAGES = ("Reading tables", "Encoding tables")  # what engines do; the rest one process learns


class _Clock(Progress):
    """Notes how long each stage takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        began = time.perf_counter()
        yield lambda done, effort=None: None
        self.seconds[title] = self.seconds.get(title, 0.0) + time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Options:
    """Engines and their processes."""

    engines: tuple[EngineName, ...] = ("local", "ray")
    workers: int = 2  # processes that each engine may use
    address: str | None = None  # of a Ray cluster, HOST:PORT; None: one on this machine


def run(request: Request, options: Options) -> Iterator[Document]:
    """Build the lake in a folder with every engine."""
    lake = request.folder
    measure = partial(measure_engines, lake, *astuple(options))
    yield request.results.measured("engines", {"lake": lake.name, **asdict(options)}, measure)


def measure_engines(
    lake: Path, engines: Sequence[EngineName], workers: int, address: str | None = None
) -> Document:
    """Build an index of the lake with each engine, one after the other; what was learnt is thrown away."""
    rows = []
    found: list[list[tuple[Any, ...]]] = []
    with tempfile.TemporaryDirectory(prefix="gentus-engines-") as scratch:
        for engine in engines:
            clock, began = _Clock(), time.perf_counter()
            index = gentus.build(
                lake,
                Path(scratch, engine),
                workers=workers,
                engine=engine,
                address=address if engine == "ray" else None,
                progress=clock,
            )
            seconds = time.perf_counter() - began
            with index:
                identifiers = "SELECT name, codes, suffix, error FROM tables ORDER BY name"
                found.append([tuple(row) for row in index.catalogue.db.execute(identifiers)])
                tables = len(index)
            stages = {title: round(clock.seconds[title], 2) for title in STAGES}
            rows.append({"engine": engine, "tables": tables, "seconds": round(seconds, 2), "stages": stages})
    return {"workers": workers, "rows": rows, "same_identifiers": all(one == found[0] for one in found)}


def tables(document: Document) -> list[Table]:
    """A row per engine."""
    rows = []
    for row in document["rows"]:
        stages = (
            f for s in row["stages"].values() for f in (f"{s:.1f}", f"{row['tables'] / max(s, 1e-9):,.0f}")
        )
        rows.append([row["engine"], f"{row['tables']:,}", *stages, f"{row['seconds']:.1f}"])
    columns = [f"engine, {document['workers']} workers", "tables", "reading, s", "tables/s"]
    columns += ["encoding, s", "tables/s", "whole build, s"]
    same = "the same" if document["same_identifiers"] else "NOT the same"
    return [Table(columns, rows, note=f"Identifiers and their errors are {same}, bit for bit.")]
