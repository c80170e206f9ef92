"""The columns of many tables side by side, as the column-centric baselines see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gentus.arrays import F32, I64
from gentus.features.extract import Features, concatenate
from gentus.table import Table, evenly_spaced
from gentus_bench.baselines.base import VALUES
from gentus_bench.baselines.hashed import featurize

CHUNK = 2048  # columns whose dense features are in memory at once


@dataclass(frozen=True, slots=True)
class Columns:
    """The C non-empty columns of T tables; no name of a column is in here."""

    names: list[str]
    starts: I64  # (T + 1,) where each table's columns begin
    values: list[list[str]]  # (C,) distinct values, spread evenly over the column
    features: Features  # of the same columns; empty if they were not asked for

    @property
    def owner(self) -> I64:
        """(C,) the table of every column."""
        return np.repeat(np.arange(len(self.names)), np.diff(self.starts))

    def of(self, table: int) -> I64:
        """The numbers of a table's columns."""
        return np.arange(self.starts[table], self.starts[table + 1])

    def chunks(self) -> list[slice]:
        """Ranges of columns, each small enough that dense features of it fit into memory."""
        total = len(self.values)
        return [slice(begin, min(begin + CHUNK, total)) for begin in range(0, total, CHUNK)]

    def some(self, rows: slice) -> Features:
        """Features of a range of columns, as if each were a table."""
        features = self.features
        starts = features.starts[rows.start : rows.stop + 1]
        return Features(
            np.arange(len(starts), dtype=np.int32),
            starts - starts[0],
            features.ids[starts[0] : starts[-1]],
            features.counts[starts[0] : starts[-1]],
            features.profile[rows],
            features.positions[rows],
        )


def gather(tables: Iterable[Table], *, values: int = VALUES, features: bool = True) -> Columns:
    """Go through tables once and keep of every column what baselines learn from."""
    names: list[str] = []
    starts = [0]
    kept: list[list[str]] = []
    parts: list[Features] = []
    for table in tables:
        names.append(table.name)
        for column in table.columns:
            if column.cells:
                every = list(dict.fromkeys(column.cells))
                kept.append([every[place] for place in evenly_spaced(len(every), values)])
        starts.append(len(kept))
        if features:
            parts.append(featurize(table))
    return Columns(names, np.array(starts, np.int64), kept, concatenate(parts))


def unit(vectors: F32) -> F32:
    """Rows scaled to length one; rows of zeros stay."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 1e-9, length, 1), np.float32)
