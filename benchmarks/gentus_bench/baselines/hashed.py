"""Sparse counts of columns as the baselines see them: hashed words, grams and shapes, and word pieces.

They have a vocabulary of their own, smaller than that of `gentus.features.extract`: hashes of 16 bits, and
the word pieces of MiniLM. So the figures of baselines do not change with what GenTUS itself reads.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import I64
from gentus.features import extract as features
from gentus.features.extract import Features, counted, hashed_text
from gentus.table import Table
from gentus_bench.baselines.word_pieces import PIECES, load_tokenizer

HASH_BITS = 16
BUCKETS = 1 << HASH_BITS  # ids of a hashed kind
WORD, GRAM, SHAPE, PIECE = 0, BUCKETS, 2 * BUCKETS, 3 * BUCKETS  # where each kind's ids begin
VOCABULARY = PIECE + PIECES
KINDS: dict[str, tuple[int, int]] = {
    "words": (WORD, GRAM),
    "grams": (GRAM, SHAPE),
    "shapes": (SHAPE, PIECE),
    "pieces": (PIECE, VOCABULARY),
}


def featurize(table: Table) -> Features:
    """Counts over this module's vocabulary, and the profile, of every non-empty column of a table."""
    filled = [place for place, column in enumerate(table.columns) if column.cells]
    columns = [table.columns[place].cells for place in filled]
    values = [features.distinct_values(cells) for cells in columns]
    found = [*_hashed(values), _pieces(values)] if columns else []
    starts, ids, counts = counted([owner for owner, _ in found], [of for _, of in found], len(columns))
    width = np.array([0, len(filled)], np.int32)
    places = _places(filled, len(table.columns))
    return Features(width, starts, ids, counts, features.profile_of(columns), places)


def _hashed(values: list[list[str]]) -> list[tuple[I64, I64]]:
    """(column, id) of every word, gram and shape."""
    # Dropping the low bits keeps the kind: in both vocabularies words, grams and shapes are the first three.
    dropped = features.HASH_BITS - HASH_BITS
    return [(owner, ids >> dropped) for owner, ids in hashed_text(values)]


def _pieces(values: list[list[str]]) -> tuple[I64, I64]:
    """(column, id) of every word piece."""
    encodings = load_tokenizer().encode_batch_fast([" ".join(v) for v in values], add_special_tokens=False)
    ids = [encoding.ids for encoding in encodings]
    lengths = np.array([len(i) for i in ids])
    flat = np.fromiter(chain.from_iterable(ids), np.int64, int(lengths.sum()))
    return np.repeat(np.arange(len(values)), lengths), PIECE + flat


def _places(filled: list[int], width: int) -> NDArray[np.uint16]:
    """(C, 2) how many columns lie before and behind each filled one, empty ones too."""
    before = np.array(filled, np.int64)
    return np.minimum(np.stack([before, width - 1 - before], 1), 0xFFFF).astype(np.uint16)
