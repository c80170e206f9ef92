"""Readers make a generator's inputs from views of tables: column states, or the table as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gentus.arrays import F32, I64
from gentus.embed.encoder import Encoder
from gentus.features.serialize import Serializer
from gentus.generator.decoding import sample_columns
from gentus.generator.model import Generator, Inputs
from gentus.generator.records import View
from gentus.table import Table

OpenTable = Callable[[int], Table]  # a table of the lake, by position


@dataclass(slots=True)
class ColumnReader:
    """Column states of the encoder. Views without some rows or columns are encoded when first needed."""

    encoder: Encoder
    hidden: F32  # (C, width)
    starts: I64  # (T + 1,)
    latents: F32  # (T, d)
    open: OpenTable
    _seen: dict[View, tuple[F32, F32]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Width of a column state."""
        return int(self.hidden.shape[1])

    def prepare(self, generator: Generator) -> None:
        """Nothing depends on the generator."""

    def inputs(self, views: Sequence[View]) -> Inputs:
        """Views of tables as a batch."""
        read = [self._read(view) for view in views]
        return Inputs.of_columns(
            [sample_columns(states) for states, _ in read], np.stack([z for _, z in read])
        )

    def _read(self, view: View) -> tuple[F32, F32]:
        if view.share == 1 and view.columns is None:
            begin, end = self.starts[view.table : view.table + 2]
            return self.hidden[begin:end], self.latents[view.table]
        if view not in self._seen:
            self._seen[view] = self.encoder.read(view.apply(self.open(view.table)))
        return self._seen[view]


@dataclass(slots=True)
class TextReader:
    """Tables as text, for a generator from a checkpoint."""

    latents: F32  # (T, d)
    open: OpenTable
    _serializer: Serializer | None = None

    def prepare(self, generator: Generator) -> None:
        """Use the tokenizer of this generator."""
        self._serializer = generator.serializer()

    def inputs(self, views: Sequence[View]) -> Inputs:
        """Views of tables as a batch."""
        if self._serializer is None:
            raise RuntimeError("prepare for a generator first")
        serials = [self._serializer.one(view.apply(self.open(view.table))) for view in views]
        return Inputs.of_text(serials, np.stack([self.latents[view.table] for view in views]))
