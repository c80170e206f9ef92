"""Ranking by each part of an index (latents, prior, generator, both), and without the prefix tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gentus
from gentus.arrays import F32
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.generator.decoding import decode
from gentus.index.index import Index
from gentus.index.ranker import LEAST_BEAM, LEAST_PRIOR_BEAM
from gentus.index.stages import chunks
from gentus.metrics import load_groundtruth, score
from gentus.retrieval.generate import Decoding
from gentus.table import Table
from gentus_bench import table
from gentus_bench.experiment import Request
from gentus_bench.experiments.identifiers import index_folder
from gentus_bench.experiments.unconstrained import generate_unconstrained
from gentus_bench.results import Document

Answer = tuple[list[int], int, int]  # tables by catalogue id, identifiers that do not exist, all of them


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the comparison of parts."""

    groundtruth: Path | None = None  # a CSV of query_table,candidate_table, for an index given by --index
    beam: int | None = None


def run(request: Request, options: Options) -> Iterator[Document]:
    """An index with its ground truth, or the indexes that `identifiers` has trained."""
    found: list[tuple[str, Path, Path, int]] = []
    if request.indexes:
        if options.groundtruth is None:
            raise ValueError("an index needs --set groundtruth=FILE")
        found = [(request.index().resolve().name, request.index(), options.groundtruth, request.k or 10)]
    else:
        for benchmark in request.benchmarks():
            folder = index_folder(request.results, benchmark.name)
            if (folder / "config.json").is_file():
                truth, _ = benchmark.write(request.results.folder / "truth")
                found.append((benchmark.name, folder, truth, benchmark.k))
    for name, path, truth, k in found:
        with gentus.open(path) as index:
            measure = partial(measure_parts, index, truth, k, options.beam)
            what = {"index": name, "tables": len(index), "k": k, "beam": options.beam}
            yield request.results.measured(f"parts-{name}", what, measure)


def measure_parts(index: Index, groundtruth: Path, k: int, beam: int | None = None) -> Document:
    """Rank the ground truth's queries, tables of the lake, by every part of an index in turn."""
    beam = beam or max(2 * k, LEAST_BEAM if index.generator else LEAST_PRIOR_BEAM)
    ids = index.catalogue.tables.ids(index.tables())
    truth = {
        ids[query]: [ids[table] for table in tables if table in ids]
        for query, tables in load_groundtruth(groundtruth).items()
        if query in ids
    }
    names = {table: name for name, table in ids.items()}
    ways = _Ways(index, [(query, index.read(index.sources()[names[query]])) for query in truth], beam)
    rows: dict[str, dict[str, Any]] = {}
    found_by: dict[str, dict[int, list[int]]] = {}
    for name, way in ways.all().items():
        rankings: dict[int, list[int]] = {}
        milliseconds, invalid, written = [], 0, 0
        for at, query in enumerate(truth):
            started = time.perf_counter()
            rankings[query], wrong, count = way(at)
            milliseconds.append(1000 * (time.perf_counter() - started))
            invalid, written = invalid + wrong, written + count
        metrics = score(rankings, truth, k, milliseconds).to_dict()
        rows[name] = {**metrics, "invalid_share": invalid / max(written, 1)}
        found_by[name] = rankings
    if "generator" in rows:
        added = _added(found_by["generator"], found_by["generator, no prefix tree"], truth, k)
        rows["generator"]["relevant_added_per_query"] = added
    return {"tables": len(index), "k": k, "beam": beam, "rows": rows}


class _Ways:
    """The ways to rank, each given a query by its position."""

    def __init__(self, index: Index, queries: Sequence[tuple[int, Table]], beam: int) -> None:
        self.index, self.beam = index, beam
        self.ids = [table for table, _ in queries]
        encoder = index._current().encoder
        self.queries = [(table, *encoder.read(table)) for _, table in queries]
        self.tables, self.latents = _lake_latents(index, encoder)
        self.trie, self.codebooks = index.decoder.trie, index.decoder.codebooks

    def all(self) -> dict[str, Callable[[int], Answer]]:
        """By name; those of a generator where the index has one."""
        ways: dict[str, Callable[[int], Answer]] = {"dense latents": self.dense, "prior": self.prior}
        if self.index.config.feedback:
            ways["prior, with feedback"] = self.with_feedback
        if (shipped := self.index.config.generator) is not None:
            ways["generator"] = self.generated(None)
            ways["generator, no prefix tree"] = self.unconstrained
            ways["prior + generator"] = self.generated(shipped.weight)
        return ways

    def dense(self, at: int) -> Answer:
        similarity = self.latents @ self.queries[at][2]
        best = np.argpartition(-similarity, min(self.beam, len(self.tables) - 1))[: self.beam + 1]
        return self.tables[best[np.argsort(-similarity[best], kind="stable")]].tolist(), 0, self.beam

    def prior(self, at: int) -> Answer:
        found, _ = self.index.decoder.search(self.queries[at][2], self.beam)
        return self.trie.table(found).tolist(), 0, len(found)

    def with_feedback(self, at: int) -> Answer:
        weight, itself = self.index.config.feedback, {self.ids[at]}
        found, _ = self.index.decoder.search_with_feedback(self.queries[at][2], self.beam, weight, itself)
        return self.trie.table(found).tolist(), 0, len(found)

    def generated(self, weight: float | None) -> Callable[[int], Answer]:
        generator, shipped = self.index.generator, self.index.config.generator
        assert generator is not None
        assert shipped is not None
        how = Decoding(self.beam, weight, shipped.softmax)

        def way(at: int) -> Answer:
            query = self.queries[at]
            (found,) = decode(generator.session(*query), query[2][None], self.trie, self.codebooks, how)
            return self.trie.table(found.rows).tolist(), 0, len(found.rows)

        return way

    def unconstrained(self, at: int) -> Answer:
        generator = self.index.generator
        assert generator is not None
        session = generator.session(*self.queries[at])
        (found,) = generate_unconstrained(session, self.trie, 1, self.beam, codes=self.codebooks.size)
        return self.trie.table(found.rows).tolist(), found.invalid, found.invalid + len(found.rows)


def _added(
    tree: dict[int, list[int]], free: dict[int, list[int]], truth: dict[int, list[int]], k: int
) -> float:
    """Right tables among the first k that only the prefix tree brings, a query."""

    def right(rankings: dict[int, list[int]], query: int) -> set[int]:
        return set([t for t in rankings[query] if t != query][:k]) & set(truth[query])

    return float(np.mean([len(right(tree, query) - right(free, query)) for query in truth]))


def _lake_latents(index: Index, encoder: ClosedForm | Encoder) -> tuple[np.ndarray[Any, Any], F32]:
    """Catalogue ids and latents of all tables, from the cache of features and of BERT's states."""
    tables, settings = index.catalogue.chunks.slots(), index.config.settings
    states = None
    if settings.bert is not None:
        from gentus.index.column_states import LakeStates  # needs torch

        states = LakeStates(settings.bert, index.layout, index.catalogue, settings.limits, download=False)
    latents = []
    for chunk in chunks(tables, index.layout, states):
        if chunk.columns is None:
            latents.append(encoder.encode(chunk.features))
        else:
            assert isinstance(encoder, Encoder)
            seen = encoder.inputs(chunk.columns, chunk.features)
            latents.append(encoder.latents(seen, np.diff(chunk.features.tables)))
    return tables[:, 0], np.concatenate(latents)


def tables(document: Document) -> list[table.Table]:
    """A row per way to rank."""
    k, found = document["k"], document["rows"]
    rows = [
        [
            *(name, f"{row['map']:.4f}", f"{row['precision']:.3f}", f"{row['recall']:.3f}"),
            *(f"{row['invalid_share']:.1%}", f"{row['ms_p50']:.1f}", f"{row['ms_p95']:.1f}"),
        ]
        for name, row in found.items()
    ]
    columns = ["ranked by", f"MAP@{k}", f"P@{k}", f"R@{k}", "invalid", "ms p50", "ms p95"]
    title = f"{document['what']['index']}: {document['tables']:,} tables, {found['prior']['queries']} queries"
    note = f"Beam {document['beam']}. Times without reading the query."
    added = found.get("generator", {}).get("relevant_added_per_query")
    if added is not None:
        note += f" The prefix tree adds {added:.2f} relevant tables per query to the generator's first {k}."
    return [table.Table(columns, rows, title, note)]
