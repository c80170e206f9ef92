"""A trained generator as a search uses it: what `Generator.save` wrote, decoded with NumPy. No torch here."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.errors import CheckpointError
from gentus.features.serialize import Serializer
from gentus.features.weights import map_tensors, open_tokenizer
from gentus.generator.decoding import sample_columns
from gentus.generator.t5_numpy import T5, T5Shape, unit_rows
from gentus.settings import GeneratorSettings
from gentus.table import Table

FORMAT = 2
# A scalar parameter moves by the learning rate per step; a product with a matrix, by that times its width.
GAIN_SCALE = 16.0
UNIT = 1e-6  # added to the mean squares of inputs


class SavedGenerator:
    """Queries in, sessions of decoding out, as `gentus.generator.model` computes them. `load` reads one."""

    def __init__(self, folder: Path, about: dict[str, Any], weights: dict[str, NDArray[Any]]) -> None:
        self.settings = GeneratorSettings(**about["settings"])
        self.first, self.start = int(about["first"]), int(about["start"])
        self.folder, self._ends = folder, about.get("ends")
        self._weights = weights
        shape = T5Shape.of(json.loads((folder / "config.json").read_text("utf-8")))
        parts = {name.removeprefix("t5."): array for name, array in weights.items() if name[:3] == "t5."}
        self.t5, self._embedding = T5(parts, shape), parts["shared.weight"]  # (rows, w)
        codewords = weights["codewords"]
        self.levels, self.codes, _ = codewords.shape
        self.codewords = np.pad(
            codewords, ((0, 1), (0, 1), (0, 0))
        )  # zero for other symbols and after the last
        rows = slice(self.first, self.first + self.codes + int(about["suffixes"]) + 1)
        self._symbols = np.ascontiguousarray(self._embedding[rows].T)  # (w, V)
        if self.settings.output == "codebooks":
            self._prepare_books()

    @classmethod
    def load(cls, folder: Path) -> SavedGenerator:
        """The one that was saved into a folder; weights stay on the disk until they are needed."""
        try:
            about = json.loads((folder / "generator.json").read_text("utf-8"))
            if about["format"] != FORMAT:
                raise ValueError(f"its format is {about['format']}, not {FORMAT}")
            return cls(folder, about, map_tensors(folder / "model.safetensors"))
        except KeyError as error:
            raise _broken(folder, f"it lacks {error}") from error
        except (OSError, ValueError, TypeError) as error:
            raise _broken(folder, error) from error

    def _prepare_books(self) -> None:
        """The codebooks as its output needs them; each level has codewords of mean square length one."""
        books = self.codewords[:, :-1]
        lengths = np.sqrt(np.square(books).sum(2).mean(1)).clip(1e-12)  # (L + 1,)
        self._gain = np.asarray(GAIN_SCALE * self._weights["gain"].clip(0), np.float32)  # (L + 1,)
        self._lengths = lengths
        self._books = books / lengths[:, None, None]  # (L + 1, K, d)
        squares = np.square(self._books).sum(2)
        self._shift = self._weights["bias"] - self._gain[:, None] * squares / 2  # (L + 1, K)

    @cached_property
    def serializer(self) -> Serializer:
        """Turns tables into the tokens that it reads."""
        if self._ends is None:
            raise ValueError("this generator reads column states, not text")
        return Serializer(open_tokenizer(self.folder / "tokenizer.json"), tuple(self._ends))

    def session(self, table: Table, hidden: F32, latent: F32) -> Session:
        """Decoding for a query: its table, (C, hidden) column states and latent (d,)."""
        if self.settings.input == "text":
            inputs: F32 = self._embedding[self.serializer.one(table).ids]
        else:
            columns = unit_rows(sample_columns(hidden), UNIT) @ self._weights["read_column.weight"].T
            own = unit_rows(latent[None], UNIT) @ self._weights["read_latent.weight"].T
            inputs = np.concatenate([own, columns])  # (S, w)
        return Session(self, inputs, latent)

    def embed(self, rows: I64, prefix: F32) -> F32:
        """(n, w) decoder inputs, from rows of the embedding (n,) and sums of codewords (n, d)."""
        embedded: F32 = self._embedding[rows]
        if self.settings.output == "codebooks":
            embedded = embedded + (prefix * prefix.shape[1] ** 0.5) @ self._weights["read_prefix.weight"].T
        return embedded

    def logits(self, states: F32, residual: F32, position: int) -> F32:
        """(n, V) logits from states of the decoder (n, w), for the symbol at a position."""
        if self.settings.output == "tokens":
            return np.asarray(states @ self._symbols * states.shape[1] ** -0.5, np.float32)
        level = min(position, self.levels)
        wanted = states @ self._weights["to_latent.weight"].T
        wanted += residual * (self._gain[level] / self._lengths[level])
        codes = wanted @ self._books[level].T + self._shift[level]
        return np.concatenate([codes, states @ self._weights["to_suffix.weight"].T], axis=1)


class Session:
    """Extends the beams of one query by one symbol per step; a `Scorer` of constrained generation."""

    def __init__(self, generator: SavedGenerator, inputs: F32, latent: F32) -> None:
        self._generator, self._latent = generator, latent
        self._cross = generator.t5.encode(inputs)
        self._past = generator.t5.nothing_past()
        self._prefix = np.zeros((1, len(latent)), np.float32)  # (n, d) sums of codewords
        self._position = 0

    def begin(self) -> F32:
        """(1, V) logits of the first symbol."""
        if self._position:
            raise RuntimeError("a session begins once")
        return self._advance(np.array([self._generator.start]))

    def step(self, parent: I64, symbols: I64) -> F32:
        """(n, V) logits after `symbols` (n,), which extend the beams `parent` (n,) of the step before."""
        generator = self._generator
        if not 0 < self._position < generator.levels + 2:
            raise RuntimeError(
                "begin first; and an identifier has no more than its codes, a suffix and the end"
            )
        self._past = [both[:, parent] for both in self._past]
        level = min(self._position - 1, generator.levels)
        codewords = generator.codewords[level, np.minimum(symbols, generator.codes)]
        self._prefix = self._prefix[parent] + codewords
        return self._advance(symbols + generator.first)

    def _advance(self, rows: I64) -> F32:
        generator = self._generator
        inputs = generator.embed(rows, self._prefix)
        states, self._past = generator.t5.step(inputs, self._cross, self._past)
        logits = generator.logits(states, self._latent - self._prefix, self._position)
        self._position += 1
        return logits


def _broken(folder: Path, reason: object) -> CheckpointError:
    return CheckpointError(f"The generator in {folder} could not be loaded ({reason}). Train it again.")
