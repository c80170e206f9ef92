"""A baseline of the D3L type: several kinds of evidence that two columns are related, in one distance.

As in Bogatu et al. (ICDE 2020): overlap of informative words of values (MinHash), word embeddings (cosine),
formats as patterns of character classes (MinHash), distribution of numbers (Kolmogorov-Smirnov), combined by
weighted Euclidean distance; columns are looked up by locality-sensitive hashing of their words and by their
embeddings. Left out unless `headers=True`: names of columns, the fifth evidence, since no other method here
sees them. Replaced: static token vectors for fastText, an HNSW graph for random hyperplanes, equal weights
for those that the original learns from labelled pairs; formats and numbers verify candidates but find none,
as half of all columns share them; distances are combined for each pair of columns, not for whole tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gentus.arrays import F32, I64
from gentus.features.extract import Features
from gentus.neighbours.graph import column_ids
from gentus.table import Table
from gentus_bench.baselines.ann import Neighbours
from gentus_bench.baselines.base import serving_mb
from gentus_bench.baselines.columns import gather
from gentus_bench.baselines.formats import grams, informative_words, pattern
from gentus_bench.baselines.hashed_evidence import BLOCKS, Evidence, projection
from gentus_bench.baselines.matching import CANDIDATES, FEWEST, top_tables
from gentus_bench.baselines.minhash import U32, MinHash, Postings, bands, hashes, jaccard
from gentus_bench.baselines.numbers import QUANTILES, kolmogorov_smirnov, quantiles
from gentus_bench.baselines.word_pieces import load_tokenizer, load_vectors

ROWS = 4  # places of a signature a band: sets that share two fifths are likely found


class D3L:
    """Words, embeddings, formats and numbers of columns as one distance."""

    name = "D3L-type"

    def __init__(
        self, seed: int = 0, candidates: int = CANDIDATES, size: int = 128, headers: bool = False
    ) -> None:
        self.seed = seed
        self.candidates = candidates
        self.headers = headers
        self._minhash = MinHash(size, seed)

    def fit(self, tables: Iterable[Table]) -> None:
        """Sign, embed and index every column of the lake."""
        kept: list[Evidences] = []

        def signed() -> Iterable[Table]:
            for table in tables:
                kept.append(self._sign(table))
                yield table

        lake = gather(signed())
        self.names, self._starts, self._owner = lake.names, lake.starts, lake.owner
        self._columns = Evidences.joined(kept, self._minhash.size)
        if lake.values:
            self._evidence = Evidence.fit(lake.some(rows) for rows in lake.chunks())
            count = len(lake.values)
            self._index = Neighbours(np.concatenate([self._embed(lake.some(rows)) for rows in lake.chunks()]))
            keys = bands(self._columns.words, ROWS)
            full = self._columns.words[:, 0] != 0xFFFFFFFF
            owners = np.repeat(np.arange(count)[full], keys.shape[1])
            self._lists = Postings(keys[full].ravel(), owners)

    def search(self, table: Table, k: int) -> list[str]:
        """Look columns up by words and by embedding, then compare all evidence of their tables."""
        query = gather([table])
        if not query.values or not len(self._owner):
            return []
        own = self._sign(table)
        vectors = self._embed(query.features)
        each = max(FEWEST, -(-self.candidates // len(vectors)))
        by_words = [self._by_words(signature, each) for signature in own.words]
        found = np.concatenate([self._index.nearest(vectors, each), *by_words])
        tables = np.unique(self._owner[found])
        at, counts = column_ids(self._starts, tables)
        similarity = self._similarity(own, vectors, at)
        places, scores = top_tables(similarity, counts, k)
        return [self.names[tables[place]] for place in places[scores > 0]]

    def facts(self) -> dict[str, Any]:
        """Return how large the index is, and what is not as in the paper."""
        size = self._columns.nbytes + 4 * len(self._starts)
        if len(self._owner):
            size += self._index.nbytes + self._lists.nbytes
        left = "column names are" if self.headers else "no column names;"
        note = f"{left}{' evidence;' if self.headers else ''} equal weights of evidence"
        return {
            "bytes_per_table": size / max(1, len(self.names)),
            "serving_mb": serving_mb(self, load_tokenizer(), load_vectors(), projection()),
            "note": note,
        }

    def _by_words(self, signature: U32, count: int) -> I64:
        """Return the columns that share most bands with a signature, as an LSH forest answers."""
        if signature[0] == 0xFFFFFFFF:  # no words
            return np.zeros(0, np.int64)
        columns, shared = np.unique(
            self._lists.lookup(bands(signature[None], ROWS)[0])[1], return_counts=True
        )
        return np.asarray(columns[np.argsort(-shared, kind="stable")[:count]], np.int64)

    def _embed(self, features: Features) -> F32:
        return np.ascontiguousarray(self._evidence.blocks(features)[:, BLOCKS["pieces"]])

    def _similarity(self, own: Evidences, vectors: F32, at: I64) -> F32:
        """(q, n) one less the Euclidean mean of the distances that are defined for a pair of columns."""
        theirs = self._columns.take(at)
        text = ~own.numeric[:, None] & ~theirs.numeric
        numbers = own.numeric[:, None] & theirs.numeric
        formats = (1 - jaccard(own.formats, theirs.formats)) ** 2
        total, weight = formats, np.ones_like(formats)
        words = (1 - jaccard(own.words, theirs.words)) ** 2
        meaning = (1 - np.clip(vectors @ self._index.rows[at].T, 0, 1)) ** 2
        total = total + np.where(numbers, 0, np.where(text, words + meaning, 2))
        weight = weight + np.where(numbers, 0, 2)
        spread = np.ones_like(formats)
        for row in np.flatnonzero(own.numeric):
            columns = np.flatnonzero(theirs.numeric)
            spread[row, columns] = kolmogorov_smirnov(own.numbers[row], theirs.numbers[columns])
        total = total + np.where(numbers, spread**2, 0)
        weight = weight + numbers
        if self.headers:
            total = total + (1 - jaccard(own.headers, theirs.headers)) ** 2
            weight = weight + 1
        return np.asarray(1 - np.sqrt(total / weight), np.float32)

    def _sign(self, table: Table) -> Evidences:
        columns = [column for column in table.columns if column.cells]
        numbers = [quantiles(column.cells) for column in columns]
        empty = hashes([])
        numeric = [found is not None for found in numbers]
        words = [
            empty if is_number else hashes(informative_words(column))
            for column, is_number in zip(columns, numeric, strict=True)
        ]
        formats = [hashes({pattern(cell) for cell in dict.fromkeys(column.cells)}) for column in columns]
        names = [hashes(grams(column.name)) if self.headers else empty for column in columns]
        none = np.zeros(QUANTILES, np.float32)
        return Evidences(
            self._minhash.signatures(words),
            self._minhash.signatures(formats),
            self._minhash.signatures(names)[:, : self._minhash.size * self.headers],
            np.array([none if found is None else found for found in numbers]).reshape(-1, QUANTILES),
            np.array(numeric, bool),
        )


class Evidences:
    """What is known of C columns beside their embeddings."""

    def __init__(self, words: U32, formats: U32, headers: U32, numbers: F32, numeric: Any) -> None:
        self.words, self.formats, self.headers = words, formats, headers  # (C, size) signatures, if used
        self.numbers = numbers  # (C, QUANTILES)
        self.numeric: np.ndarray[tuple[int], np.dtype[np.bool_]] = numeric  # (C,)

    def _arrays(self) -> list[Any]:
        return [self.words, self.formats, self.headers, self.numbers, self.numeric]

    def take(self, at: I64) -> Evidences:
        """Some of the columns."""
        return Evidences(*(array[at] for array in self._arrays()))

    @classmethod
    def joined(cls, parts: list[Evidences], size: int) -> Evidences:
        """Many tables' columns as one."""
        if not parts:
            none = np.zeros((0, size), np.uint32)
            return cls(none, none, none, np.zeros((0, QUANTILES), np.float32), np.zeros(0, bool))
        return cls(*(np.concatenate(arrays) for arrays in zip(*(p._arrays() for p in parts), strict=True)))

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(int(array.nbytes) for array in self._arrays())
