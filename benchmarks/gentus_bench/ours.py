"""GenTUS itself as a retriever: built in a process of its own, so that its memory can be measured."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import gentus
from gentus.index.second_look import Order
from gentus.paper.settings import PaperSettings
from gentus.progress import terminal_progress
from gentus.table import Table
from gentus_bench.processes import peak_bytes, watched


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """Where an index is kept, beside it the key of the data and the code that it was built by."""

    path: Path
    key: str = ""
    reuse: bool = False  # open one that lies there and has the key
    any: bool = False  # also one that has another
    built: bool = False  # one that has the key is as if it were built now: a stopped run does not train twice

    @property
    def there(self) -> bool:
        """Whether there is an index that may be opened."""
        if not (self.path / "config.json").is_file():
            return False
        return self.any or (self._note.is_file() and self._noted()["key"] == self.key)

    @property
    def _note(self) -> Path:
        return self.path.with_name(self.path.name + ".key")

    def note(self, facts: Mapping[str, Any]) -> None:
        """What lies there was built by this key, and what it took."""
        self._note.write_text(json.dumps({"key": self.key, "facts": facts}), "utf-8")

    def facts(self) -> dict[str, Any]:
        """What building took."""
        return dict(self._noted()["facts"])

    def _noted(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._note.read_text("utf-8"))
        return found


class GenTUS:
    """An index over a lake folder. `order` is that of its answers; `options` go to `gentus.build`."""

    def __init__(
        self,
        lake: Path,
        folder: IndexFolder,
        labels: Path | None = None,
        name: str = "GenTUS",
        order: Order | None = None,
        **options: Any,
    ) -> None:
        self.name, self.order = name, order
        self.lake, self.folder, self.index = lake, folder, folder.path
        self.options = options if labels is None else {**options, "labels": str(labels)}
        self._facts: dict[str, Any] = {}

    def fit(self, tables: Iterable[Table]) -> None:
        """Build the index, or open the one that is there; it reads the lake itself, not `tables`."""
        if self.folder.reuse and self.folder.there:
            self._facts = {"reused": True}
        elif self.folder.built and self.folder.there:
            self._facts = self.folder.facts()
        else:
            seconds, peak = build(self.lake, self.index, self.options)
            self._facts = {"build_seconds": seconds, "peak_mb": peak / 2**20}
            self.folder.note(self._facts)
        self._index = gentus.open(self.index)
        self._sources = self._index.sources()

    def search(self, table: Table, k: int) -> list[str]:
        """Search for a table that was read; one of the lake is known as itself."""
        query = self._sources.get(table.name, table)
        (hits,) = self._index.search_as([query], [table], k, order=self.order)
        return [hit.table for hit in hits]

    def facts(self) -> dict[str, Any]:
        """Return what building took, and the bytes of a table that its order needs: tree, and signatures."""
        info = self._index.info()
        size = info["bytes"]["trie"]
        if self.order != "generated":  # the second look and a learnt ranking read signatures, too
            size += info["bytes"]["signatures"]
        return {
            **self._facts,
            "bytes_per_table": size / max(info["tables"], 1),
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
    task = json.dumps({"lake": str(lake), "index": str(index), "options": msgspec.to_builtins(options)})
    output, samples = watched([sys.executable, "-m", "gentus_bench.ours", task])
    report = json.loads(output.splitlines()[-1])
    return report["seconds"], max(report["peak"], *(one.all for one in samples))


def main() -> None:
    """Build what the first argument says, as JSON, and print what it took."""
    task = json.loads(sys.argv[1])
    options = task["options"]
    if "paper" in options:
        options["paper"] = msgspec.convert(options["paper"], PaperSettings)
        options["progress"] = terminal_progress()  # it takes long
    started = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):  # ours is for the answer
        gentus.build(task["lake"], task["index"], **options)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
