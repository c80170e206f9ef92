"""Pairs of a query and a table to learn verdicts from and to measure them on.

Every lake is searched with its own queries, and with queries of the other lakes, which have no answer there.
Teacher of the column matches is the aligner, which reads the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

import gentus
from gentus.align.matcher import one_to_one, pair_scores, shipped_weights
from gentus.align.pair_features import pair_features
from gentus.align.second_look import MOST_COLUMNS, PairLook, QueryColumns
from gentus.align.signatures import places_of
from gentus.align.table_profile import TableProfile, profile_table
from gentus.arrays import F32, F64, I64
from gentus.index.index import Index
from gentus.index.queries import encoded
from gentus.lake import Source, Unreadable, read
from gentus.progress import Progress
from gentus.settings import BuildSettings
from gentus_bench.experiments.quality import BenchmarkData
from gentus_bench.lakes.benchmarks import Benchmark

HITS = 60  # of a query that are looked at
TAUGHT, FOREIGN_TAUGHT = 20, 10  # hits that the teacher aligns, of own queries and of others
RANDOM = 10  # tables by chance, that no query found
NOT_FOUND, BY_CHANCE = 10_000, 20_000  # ranks of answers that were not found, and of tables by chance
NAMED = 4  # hits that the teacher aligns by names, too
_UNSURE = 0.05  # matches below are none


@dataclass(frozen=True, slots=True)
class Look:
    """A query and T tables of a lake."""

    lake: str
    query_lake: str  # the lake that the query is from
    query: str
    tables: list[str]
    ranks: I64  # (T,) as generated, from 1
    generated: F64  # (T,) scores; 0 for those that were not found
    answers: NDArray[np.bool_]  # (T,)
    pairs: PairLook
    teacher: F32  # (T, q, W) matches; NaN where the teacher has not aligned
    named_teacher: F32  # (T, q, W) the same by cells and names

    @property
    def own(self) -> bool:
        """Whether the query is one of the lake's own."""
        return self.lake == self.query_lake

    @property
    def taught(self) -> NDArray[np.bool_]:
        """(T,) which tables the teacher has aligned."""
        return np.asarray(~np.isnan(self.teacher[:, 0, 0]))


@dataclass(frozen=True, slots=True)
class LakeLooks:
    """A lake, all looks at its tables, and what was measured on the way."""

    benchmark: Benchmark
    looks: list[Look]
    signature_bytes: float  # a column


def collect(
    benchmarks: Sequence[Benchmark], folder: Path, queries: int, foreign: int, progress: Progress
) -> Iterator[LakeLooks]:
    """Index every lake with names hidden, and look at what its own queries and those of others find."""
    chosen = {one.name: _some_queries(one, queries) for one in benchmarks}
    for benchmark in benchmarks:
        with _index(benchmark, folder / benchmark.name) as index:
            queries_here = [
                (name, source)
                for name, found in chosen.items()
                for source in (found if name == benchmark.name else found[:foreign])
            ]
            looker = _Looker(index, benchmark)
            with progress.stage(f"Looking at {benchmark.name}", len(queries_here)) as tick:
                looks = []
                for name, source in queries_here:
                    looks += looker.look(name, source)
                    tick(1)
            columns, size = index.catalogue.signatures.bytes()
            yield LakeLooks(benchmark, looks, size / max(columns, 1))


def _index(benchmark: Benchmark, folder: Path) -> Index:
    """The index of a lake with names hidden, made unless it is there."""
    if (folder / "config.json").is_file():
        return gentus.open(folder)
    return gentus.build(benchmark.lake, folder, settings=BuildSettings(names=False))


def _some_queries(benchmark: Benchmark, most: int) -> list[Source]:
    found = sorted(BenchmarkData(benchmark).queries.items())
    Random(benchmark.name).shuffle(found)
    return [source for _, source in found[:most]]


class _Looker:
    """Looks at tables of one lake."""

    def __init__(self, index: Index, benchmark: Benchmark) -> None:
        self.index, self.benchmark = index, benchmark
        self.sources = index.sources()
        self.ids = index.catalogue.tables.ids()
        self.profile = lru_cache(maxsize=4000)(self._profile)

    def look(self, query_lake: str, source: Source) -> list[Look]:
        """What one query finds; nothing if it has no columns."""
        own = query_lake == self.benchmark.name
        table = read(source, self.index.limits)
        (content,) = encoded([table], self.index._snapshot.retriever.encode)
        query = self.sources.get(source.name, table) if own and self.benchmark.queries is None else table
        (hits,) = self.index.search_as([query], [table], HITS, order="generated")
        answers = set(self.benchmark.truth.get(source.name, ())) if own else set()
        tables = [hit.table for hit in hits]
        ranks = list(range(1, len(tables) + 1))
        if own:
            missed = sorted(answers - set(tables))[:TAUGHT]
            chance = Random(source.name).sample(sorted(self.sources), min(RANDOM, len(self.sources)))
            chance = [name for name in chance if name not in {*tables, *answers, source.name}]
            tables += missed + chance
            ranks += [NOT_FOUND] * len(missed) + [BY_CHANCE] * len(chance)
        known = [name in self.ids for name in tables]
        tables = [name for name, there in zip(tables, known, strict=True) if there]
        if not tables or not content.columns.names:
            return []
        signed = self.index.catalogue.signatures.of(self.ids[name] for name in tables)
        signatures = [signed[self.ids[name]].signatures[:MOST_COLUMNS] for name in tables]
        pairs = PairLook.of(content.columns, signatures, names=True)
        rank = np.array([one for one, there in zip(ranks, known, strict=True) if there], np.int64)
        scores = np.zeros(len(tables))
        scores[: len(hits)] = [hit.generated for hit in hits]
        teacher = np.full((len(tables), len(content.columns.names), pairs.columns.shape[1]), np.nan)
        named = teacher.copy()
        profile = profile_table(table)
        for at, name in enumerate(tables):
            if rank[at] <= (TAUGHT if own else FOREIGN_TAUGHT) or rank[at] == NOT_FOUND:
                teacher[at] = self._taught(profile, content.columns, name, teacher.shape[2], False)
            if own and rank[at] <= NAMED:
                named[at] = self._taught(profile, content.columns, name, teacher.shape[2], True)
        truth = np.array([name in answers for name in tables])
        lake = self.benchmark.name
        taught = (teacher.astype(np.float32), named.astype(np.float32))
        return [Look(lake, query_lake, source.name, tables, rank, scores, truth, pairs, *taught)]

    def _taught(self, query: TableProfile, columns: QueryColumns, name: str, width: int, names: bool) -> F64:
        """(q, W) matches by the aligner, of columns that have cells."""
        matches = np.zeros((len(columns.names), width))
        other = self.profile(name)
        if other is None:
            return matches
        scores = pair_scores(query, other, pair_features(query, other, names), shipped_weights())
        left, right = (places_of(side.table) for side in (query, other))
        for i, j in one_to_one(scores, _UNSURE):
            if i in left and j in right and left[i] < len(matches) and right[j] < width:
                matches[left[i], right[j]] = scores[i, j]
        return matches

    def _profile(self, name: str) -> TableProfile | None:
        try:
            return profile_table(read(self.sources[name], self.index.limits))
        except Unreadable:
            return None
