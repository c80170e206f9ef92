"""What each part of an index is worth: dense latents, prior, generator, their sum, and the prefix tree."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gentus.arrays import F32
from gentus.generator.decoding import DecodingSession, decode, query_inputs
from gentus.generator.model import Inputs
from gentus.index.feature_cache import stream_features
from gentus.index.index import Index
from gentus.index.ranker import LEAST_BEAM, LEAST_PRIOR_BEAM
from gentus.metrics import Metrics, load_groundtruth, score
from gentus.search.generate import Decoding
from gentus_bench.machine import describe, sentence
from gentus_bench.unconstrained import generate_unconstrained

Answer = tuple[list[int], int, int]  # tables by catalogue id, identifiers that do not exist, all of them


def measure_parts(index: Index, groundtruth: Path, k: int, beam: int | None = None) -> dict[str, Any]:
    """Rank the ground truth's queries, tables of the lake, by every part of an index in turn."""
    beam = beam or max(2 * k, LEAST_BEAM if index.generator else LEAST_PRIOR_BEAM)
    ids = index.catalogue.tables.ids(index.tables())
    name_of = {table: name for name, table in ids.items()}
    truth = {
        ids[query]: [ids[table] for table in tables if table in ids]
        for query, tables in load_groundtruth(groundtruth).items()
        if query in ids
    }
    asked, sources = list(truth), index.sources()
    queries = []
    for query in truth:
        table = index.read(sources[name_of[query]])
        queries.append((table, *index.encoder.read(table)))
    rows: dict[str, dict[str, Any]] = {}
    tables, latents = _lake_latents(index)

    def dense(at: int) -> Answer:
        similarity = latents @ queries[at][2]
        best = np.argpartition(-similarity, min(beam, len(tables) - 1))[: beam + 1]
        return tables[best[np.argsort(-similarity[best], kind="stable")]].tolist(), 0, beam

    trie, codebooks = index.decoder.trie, index.decoder.codebooks

    def prior(at: int) -> Answer:
        found, _ = index.decoder.search(queries[at][2], beam)
        return trie.table(found).tolist(), 0, len(found)

    def with_feedback(at: int) -> Answer:
        feedback, itself = index.config.feedback, {asked[at]}
        found, _ = index.decoder.search_with_feedback(queries[at][2], beam, feedback, itself)
        return trie.table(found).tolist(), 0, len(found)

    ways: dict[str, Callable[[int], Answer]] = {"dense latents": dense, "prior": prior}
    if index.config.feedback:
        ways["prior, with feedback"] = with_feedback
    generator = index.generator
    if generator is not None:
        shipped = index.config.generator
        assert shipped is not None
        weight, softmax = shipped.weight, shipped.softmax

        def inputs(at: int) -> Inputs:
            return query_inputs(generator, *queries[at])

        def led(chosen: float | None) -> Callable[[int], Answer]:
            def by(at: int) -> Answer:
                (found,) = decode(generator, inputs(at), trie, codebooks, Decoding(beam, chosen, softmax))
                return trie.table(found.rows).tolist(), 0, len(found.rows)

            return by

        def free(at: int) -> Answer:
            session = DecodingSession(generator, generator.encode(inputs(at)))
            (found,) = generate_unconstrained(session, trie, 1, beam, codes=codebooks.size)
            return trie.table(found.rows).tolist(), found.invalid, found.invalid + len(found.rows)

        ways["generator"] = led(None)
        ways["generator, no prefix tree"] = free
        ways["prior + generator"] = led(weight)
    found_by: dict[str, dict[int, list[int]]] = {}
    for name, way in ways.items():
        rankings: dict[int, list[int]] = {}
        milliseconds, invalid, written = [], 0, 0
        for at, query in enumerate(truth):
            started = time.perf_counter()
            rankings[query], wrong, count = way(at)
            milliseconds.append(1000 * (time.perf_counter() - started))
            invalid, written = invalid + wrong, written + count
        metrics: Metrics = score(rankings, truth, k, milliseconds)
        rows[name] = {**metrics.to_dict(), "invalid_share": invalid / max(written, 1)}
        found_by[name] = rankings
    if generator is not None:
        rows["generator"]["relevant_added_a_query"] = _added(
            found_by["generator"], found_by["generator, no prefix tree"], truth, k
        )
    return {"machine": describe(), "index": index.info(), "k": k, "beam": beam, "rows": rows}


def _added(
    tree: dict[int, list[int]], free: dict[int, list[int]], truth: dict[int, list[int]], k: int
) -> float:
    """Right tables among the first k that only the prefix tree brings, a query."""

    def right(rankings: dict[int, list[int]], query: int) -> set[int]:
        return set([t for t in rankings[query] if t != query][:k]) & set(truth[query])

    return float(np.mean([len(right(tree, query) - right(free, query)) for query in truth]))


def _lake_latents(index: Index) -> tuple[np.ndarray[Any, Any], F32]:
    """Catalogue ids and latents of all tables, from the cache of features."""
    if index.config.settings.bert is not None:
        raise ValueError("parts are measured of indexes with the hybrid encoder only")
    tables = index.catalogue.chunks.slots()
    latents = [index.encoder.encode(features) for features in stream_features(tables, index.layout)]
    return tables[:, 0], np.concatenate(latents)


def markdown(document: dict[str, Any]) -> str:
    """The document as a table."""
    k = document["k"]
    lines = [
        sentence(document["machine"]),
        "",
        f"{document['index']['tables']:,} tables, {document['rows']['prior']['queries']} queries, "
        f"k = {k}, beam {document['beam']}. Times without reading the query.",
        "",
        f"| ranked by | MAP@{k} | P@{k} | R@{k} | invalid | ms p50 | ms p95 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in document["rows"].items():
        lines.append(
            f"| {name} | {row['map']:.4f} | {row['precision']:.3f} | {row['recall']:.3f} "
            f"| {row['invalid_share']:.1%} | {row['ms_p50']:.1f} | {row['ms_p95']:.1f} |"
        )
    added = document["rows"].get("generator", {}).get("relevant_added_a_query")
    if added is not None:
        lines += ["", f"The prefix tree adds {added:.2f} right tables a query to the generator's first {k}."]
    return "\n".join(lines)
