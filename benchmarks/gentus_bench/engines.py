"""What engines cost: one lake built by each, with as many workers, and whether identifiers are the same."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gentus
from gentus.index.engine import EngineName
from gentus.progress import Progress, Step
from gentus_bench.machine import describe, sentence

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


def measure_engines(
    lake: Path, engines: Sequence[EngineName], workers: int, address: str | None = None
) -> dict[str, Any]:
    """Build an index of the lake with each engine, one after the other; what was learnt is thrown away."""
    machine, rows = describe(), []
    told: list[list[tuple[Any, ...]]] = []
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
                told.append([tuple(row) for row in index.catalogue.db.execute(identifiers)])
                tables = len(index)
            stages = {title: round(clock.seconds[title], 2) for title in STAGES}
            rows.append({"engine": engine, "tables": tables, "seconds": round(seconds, 2), "stages": stages})
    return {
        "machine": machine,
        "lake": str(lake),
        "workers": workers,
        "rows": rows,
        "same_identifiers": all(one == told[0] for one in told),
    }


def markdown(document: Mapping[str, Any]) -> str:
    """The document as a table."""
    lines = [
        sentence(document["machine"]),
        "",
        f"| engine, {document['workers']} workers | tables | reading, s | tables/s | encoding, s | tables/s "
        "| whole build, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in document["rows"]:
        cells = [f"{s:.1f} | {row['tables'] / max(s, 1e-9):,.0f}" for s in row["stages"].values()]
        lines.append(f"| {row['engine']} | {row['tables']:,} | {' | '.join(cells)} | {row['seconds']:.1f} |")
    same = "the same" if document["same_identifiers"] else "NOT the same"
    return "\n".join([*lines, "", f"Identifiers and their errors are {same}, bit for bit."])
