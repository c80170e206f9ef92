"""Prefix trees of many identifiers: time to build and to open, bytes on disk and in memory.

Building and opening are measured in processes of their own, which hold nothing else.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gentus.arrays import F32
from gentus.identifiers.codebooks import Codebooks
from gentus.identifiers.semantic_ids import assign_suffixes
from gentus.index.folder import digest
from gentus.progress import Progress
from gentus.retrieval.beam import Decoder
from gentus.retrieval.trie import Trie, build_trie
from gentus_bench.experiments.scale_identifiers import LakeModel, skew
from gentus_bench.processes import in_process, mapped_bytes, peak_bytes

OPENED = 5  # times, each in a new process
SEARCHED = 1000  # queries before it is looked how much of the tree is in memory


@dataclass(frozen=True, slots=True)
class TreeFolder:
    """A folder of made-up identifiers, the trees made of them, and queries."""

    folder: Path

    @property
    def codes(self) -> Path:
        """(N, L) codes of the largest lake; smaller ones are its first rows."""
        return self.folder / "codes.npy"

    def tree(self, size: int) -> Path:
        """Where the tree of so many identifiers is."""
        return self.folder / f"tree-{size}"

    def fill(self, model: LakeModel, size: int, queries: int, progress: Progress) -> None:
        """Write codebooks, queries and identifiers, the last whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        np.save(self.folder / "words.npy", model.codebooks.codewords)
        np.save(self.folder / "queries.npy", model.queries(queries))
        partial = self.codes.with_suffix(".part")
        written = np.lib.format.open_memmap(
            partial, mode="w+", dtype=np.uint8, shape=(size, model.codebooks.levels)
        )
        begin = 0
        with progress.stage("Making identifiers", size) as tick:
            for some in model.tables(size):
                written[begin : begin + len(some)] = some
                begin += len(some)
                tick(len(some))
        written.flush()
        os.replace(partial, self.codes)

    def codebooks(self) -> Codebooks:
        """The index's own."""
        return Codebooks(np.load(self.folder / "words.npy"))

    def queries(self) -> F32:
        """(n, d) latents."""
        latents: F32 = np.load(self.folder / "queries.npy")
        return latents


def measure_tree(trees: TreeFolder, size: int) -> dict[str, Any]:
    """Build the tree of so many identifiers, save it, and open it again and again."""
    built = _apart("build", trees, size)
    files = [path for path in trees.tree(size).rglob("*") if path.is_file()]
    on_disk = sum(path.stat().st_size for path in files)
    warm = [_apart("open", trees, size) for _ in range(OPENED)]
    cold = []
    for _ in range(OPENED):
        for path in files:
            _forget(path)
        cold.append(_apart("open", trees, size))
    used = _apart("use", trees, size)
    return {
        **built,
        "bytes_on_disk": on_disk,
        "disk_bytes_per_table": on_disk / size,
        "memory_bytes_per_table": built["nbytes"] / size,
        "open_warm": _medians(warm),
        "open_cold": _medians(cold),
        "resident": used["resident"],
        "resident_bytes_per_table": used["resident"] / size,
    }


def _medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _apart(task: str, trees: TreeFolder, size: int) -> dict[str, Any]:
    return in_process("gentus_bench.experiments.scale_trees", task, str(trees.folder), str(size))


def _forget(path: Path) -> None:
    """Ask the system to drop a file from its cache, so that the next reader waits for the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())  # what is not written yet cannot be dropped
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# --- in a process of its own ---------------------------------------------------------------------------


def _build(trees: TreeFolder, size: int) -> dict[str, Any]:
    codes = np.array(np.load(trees.codes, mmap_mode="r")[:size])
    # Who comes first among equals makes no difference here.
    suffixes = assign_suffixes(codes, np.zeros(size, np.float32))
    tables = np.arange(size, dtype=np.int64)
    started = time.perf_counter()
    trie = build_trie(codes, suffixes, tables)
    built = time.perf_counter()
    trie.save(trees.tree(size))
    saved = time.perf_counter()
    peak = peak_bytes()
    return {
        "build_seconds": built - started,
        "save_seconds": saved - built,
        "nbytes": trie.nbytes,
        "highest_suffix": trie.highest_suffix,
        "build_peak_bytes": peak,
        "skew": skew(codes, len(trees.codebooks().codewords[0])),
    }


def _open(trees: TreeFolder, size: int) -> dict[str, Any]:
    codebooks, latents = trees.codebooks(), trees.queries()
    started = time.perf_counter()
    for path in trees.tree(size).iterdir():
        digest(path)  # as an index does, before it believes a file
    trie = Trie.load(trees.tree(size))
    opened = time.perf_counter()
    Decoder(trie, codebooks).search(latents[0], 100)
    return {"seconds": opened - started, "seconds_to_answer": time.perf_counter() - started}


def _use(trees: TreeFolder, size: int) -> dict[str, Any]:
    latents = trees.queries()
    decoder = Decoder(Trie.load(trees.tree(size)), trees.codebooks())
    for number in range(SEARCHED):
        decoder.search(latents[number % len(latents)], 100)
    return {"resident": mapped_bytes(trees.tree(size))}


_TASKS: dict[str, Callable[[TreeFolder, int], dict[str, Any]]] = {"build": _build, "open": _open, "use": _use}

if __name__ == "__main__":
    print(json.dumps(_TASKS[sys.argv[1]](TreeFolder(Path(sys.argv[2])), int(sys.argv[3]))))
