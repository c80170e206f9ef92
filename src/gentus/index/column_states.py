"""Contextual column states of a whole lake: read once, a chunk at a time, and kept beside the features."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.features.bert import BertColumns
from gentus.features.wide import searched_columns
from gentus.files import write_file
from gentus.index.catalogue import Catalogue, FeatureSlots
from gentus.index.folder import IndexFolderError, Layout
from gentus.lake import Limits, read_named
from gentus.progress import Progress
from gentus.table import Table

Entry = Sequence[int]  # catalogue id, chunk, slot


class LakeStates:
    """States of the filled columns of every table, aligned with the chunks of features."""

    def __init__(
        self, checkpoint: str, layout: Layout, catalogue: Catalogue, limits: Limits, download: bool
    ) -> None:
        self.checkpoint, self.download = checkpoint, download
        self.layout, self.catalogue, self.limits = layout, catalogue, limits
        self.key = hashlib.sha256(checkpoint.encode()).hexdigest()[:12]
        self._recent: dict[int, tuple[NDArray[np.float16], list[list[int]]]] = {}

    @cached_property
    def model(self) -> BertColumns:
        """The language model, loaded when it is first needed."""
        return BertColumns.load(self.checkpoint, download=self.download)

    def path(self, chunk: int) -> Path:
        """Where the states of a chunk are kept."""
        return self.layout.cache / f"features-{chunk:06d}.{self.key}.npz"

    def read(self, tables: Iterable[Entry] | FeatureSlots, progress: Progress) -> None:
        """Compute what is not there yet; stopped at any time, it goes on with the next chunk."""
        chunks: dict[int, list[Entry]] = {}
        for entry in tables:
            chunks.setdefault(entry[1], []).append(entry)
        missing = {chunk: found for chunk, found in chunks.items() if not self.path(chunk).is_file()}
        sources = self.catalogue.tables.sources_of(
            table for found in missing.values() for table, _, _ in found
        )
        with progress.stage("Reading with BERT", len(sources)) as tick:
            for chunk, found in missing.items():
                found.sort(key=lambda entry: entry[2])
                read_tables = [_filled(read_named(sources[table], self.limits)) for table, _, _ in found]
                states = self.model.states(read_tables, tick)
                counts = [len(table.columns) for table in read_tables]
                buffer = io.BytesIO()
                np.savez(
                    buffer,
                    states=np.concatenate(states).astype(np.float16),
                    slots=np.array([slot for _, _, slot in found], np.int64),
                    starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
                )
                write_file(self.path(chunk), buffer.getvalue())

    def read_columns(self, tables: Sequence[Entry]) -> F32:
        """(C, width) states of tables that were just added."""
        self.read(tables, Progress())
        return self.columns(tables)

    def columns(self, tables: Iterable[Entry] | FeatureSlots) -> F32:
        """(C, width) states of some tables, in their order."""
        parts = [np.zeros((0, self.model.width), np.float32)]
        for _, chunk, slot in tables:
            parts.append(self._table(chunk, slot))
        return np.concatenate(parts)

    def _table(self, chunk: int, slot: int) -> F32:
        if chunk not in self._recent:
            if len(self._recent) >= 8:
                self._recent.pop(next(iter(self._recent)))
            try:
                with np.load(self.path(chunk), allow_pickle=False) as arrays:
                    starts, slots = arrays["starts"], arrays["slots"]
                    where = np.full((int(slots.max(initial=-1)) + 1, 2), 0, np.int64)
                    where[slots] = np.stack([starts[:-1], starts[1:]], 1)
                    self._recent[chunk] = arrays["states"], where.tolist()
            except (OSError, ValueError, KeyError) as error:
                raise IndexFolderError(
                    f"{self.path(chunk)} is damaged ({error}). Delete it and run the same command again."
                ) from error
        states, where_of = self._recent[chunk]
        begin, end = where_of[slot]
        return states[begin:end].astype(np.float32)


def _filled(table: Table) -> Table:
    some = searched_columns(table).columns
    return Table(table.name, [column for column in some if column.cells], table.rows)
