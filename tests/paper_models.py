"""Small models and a small lake for the tests of `gentus.paper`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from test_serialize import sentence_pieces
from tokenizers import Tokenizer

from gentus.arrays import F32, I64
from gentus.paper.generator import Generator, extend_tokenizer
from gentus.paper.serialize import Sentence, Serializer
from gentus.paper.settings import PaperSettings, RecordSettings, SerialSettings, SidSettings, TrainSettings
from gentus.paper.t5 import T5, Shape
from gentus.table import Column, Table

WIDTH, TEXT = 16, 29  # of the small T5, and its text tokens
SMALL = PaperSettings(
    text=SerialSettings(tokens=24),
    sid=SidSettings(L=3, K=4, d_z=8, hidden=16, steps=60, start=20, batch=16, anchors=4, reset_every=10),
    records=RecordSettings(n_neg=2, least_rows=2),
    train=TrainSettings(epochs=3, views=2, positives=2, indexing=2, warmup=2, held_out=0.0, save_seconds=0.0),
)


def small_generator(
    codes: int = 4, suffixes: int = 3, *, frozen: bool = False, seed: int = 0, dropout: float = 0.0
) -> Generator:
    """A T5 of two layers over letters, in float32."""
    torch.manual_seed(seed)
    shape = Shape(WIDTH, 8, 2, 24, 2, 2, dropout)
    vocabulary = extend_tokenizer(TEXT, 1, 0, codes, suffixes)
    return Generator(T5(shape), torch.randn(TEXT, WIDTH), vocabulary, frozen=frozen)


def pieces() -> Tokenizer:
    """Unigrams of letters, as T5's are."""
    made: Tokenizer = sentence_pieces().backend_tokenizer
    made.no_padding()
    made.no_truncation()
    return made


def serializer(model: Generator, settings: SerialSettings = SMALL.text) -> Serializer:
    """`ser` for a small generator."""
    vocabulary = model.vocabulary
    return Serializer(pieces(), vocabulary.col, vocabulary.val, (), (vocabulary.eos,), settings)


def sentences(count: int, seed: int = 0) -> list[Sentence]:
    """Inputs of several lengths."""
    random = np.random.default_rng(seed)
    return [Sentence(random.integers(3, TEXT, 3 + 2 * at).tolist(), [0]) for at in range(count)]


def lake(groups: int = 4, each: int = 3) -> list[Table]:
    """Tables of some groups: those of a group share their letters."""
    random = np.random.default_rng(0)

    def cell(group: int) -> str:
        return "".join(random.choice(list("abcdefghijklmnop")[4 * group : 4 * group + 4], 3))

    return [
        Table(f"{group}-{at}.csv", [Column("", [cell(group) for _ in range(9)]) for _ in range(2 + at)], 9)
        for group in range(groups)
        for at in range(each)
    ]


def annotated(groups: int = 4, each: int = 3) -> I64:
    """All pairs of a group with its first table as the query."""
    return np.array([(each * g, each * g + at) for g in range(groups) for at in range(1, each)], np.int64)


def vectors(tables: int = 12, width: int = 10, seed: int = 1) -> F32:
    """Table vectors of length one."""
    made = np.random.default_rng(seed).standard_normal((tables, width), dtype=np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def changed(part: str, **values: object) -> PaperSettings:
    """The small settings with some of one part changed."""
    return replace(SMALL, **{part: replace(getattr(SMALL, part), **values)})
