"""GenTUS itself as a retriever: built in a process of its own, so that its memory can be measured."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gentus
from gentus.index.second_look import Order
from gentus.table import Table
from gentus_bench.processes import peak_bytes, watched


class GenTUS:
    """An index over a lake folder. `order` is that of its answers; `options` go to `gentus.build`."""

    def __init__(
        self,
        lake: Path,
        index: Path,
        labels: Path | None = None,
        name: str = "GenTUS",
        reuse: bool = False,
        order: Order | None = None,
        **options: Any,
    ) -> None:
        self.name, self.order = name, order
        self.lake, self.index, self.reuse = lake, index, reuse
        self.options = options if labels is None else {**options, "labels": str(labels)}
        self._facts: dict[str, Any] = {}

    def fit(self, tables: Iterable[Table]) -> None:
        """Build the index, or open the one that is there; it reads the lake itself, not `tables`."""
        if self.reuse and (self.index / "config.json").is_file():
            self._facts = {"reused": True}
        else:
            seconds, peak = build(self.lake, self.index, self.options)
            self._facts = {"build_seconds": seconds, "peak_mb": peak / 2**20}
        self._index = gentus.open(self.index)
        self._sources = self._index.sources()

    def search(self, table: Table, k: int) -> list[str]:
        """Search for a table that was read; one of the lake is known as itself."""
        query = self._sources.get(table.name, table)
        (hits,) = self._index.search_as([query], [table], k, order=self.order)
        return [hit.table for hit in hits]

    def facts(self) -> dict[str, Any]:
        """Return what building took and how large the index is."""
        info = self._index.info()
        size: float | None = info.get("bytes_per_table")
        if size is None and info.get("tables"):
            size = (
                sum(file.stat().st_size for file in self.index.rglob("*") if file.is_file()) / info["tables"]
            )
        return {
            **self._facts,
            "bytes_per_table": size,
            "signature_bytes_per_column": info.get("signature_bytes_per_column"),
            "serving_mb": self._serving_mb(),
        }

    def _serving_mb(self) -> float:
        """Return the memory that answering takes; of the catalogue, on disk, all of its file."""
        # Imported here: what a build imports belongs to the time and memory that are measured of it.
        from gentus.features.weights import load_tokenizer, load_vectors
        from gentus_bench.baselines import serving_mb

        catalogue = self._index.layout.catalogue.stat().st_size / 2**20
        return serving_mb(self._index, load_tokenizer(), load_vectors()) + catalogue


def build(lake: Path, index: Path, options: dict[str, Any]) -> tuple[float, int]:
    """Build an index in a new process; return its seconds, start of Python left out, and its peak of memory.

    The peak is of the process and those it starts, in bytes; memory that they share counts once.
    """
    task = json.dumps({"lake": str(lake), "index": str(index), "options": options})
    output, samples = watched([sys.executable, "-m", "gentus_bench.ours", task])
    report = json.loads(output.splitlines()[-1])
    return report["seconds"], max(report["peak"], *(one.all for one in samples))


def main() -> None:
    """Build what the first argument says, as JSON, and print what it took."""
    task = json.loads(sys.argv[1])
    started = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):  # ours is for the answer
        gentus.build(task["lake"], task["index"], **task["options"])
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
