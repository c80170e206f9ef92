"""Roofline of a search: FLOPs, bytes and time of every part, against the machine's best rates.

A part can be no faster than its arithmetic at the machine's best rate, nor than its bytes at the best rate of
memory. Both rates are measured here, on one thread, before and after the searches; the best counts. Where a
part is faster, the machine was busy while its rates were measured, and they are measured again. Bytes are
counted once, whatever a cache saves or costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gentus.embed.closed_form import ClosedForm
from gentus.features.evidence import WIDTHS
from gentus.features.extract import KINDS, Features, featurize
from gentus.index.index import Index
from gentus.lake import Source
from gentus.retrieval.beam import Decoder
from gentus.retrieval.retriever import LEAST_BEAM, ClosedFormRetriever
from gentus.table import Table
from gentus_bench import table
from gentus_bench.experiment import Request
from gentus_bench.results import Document

R = TypeVar("R")
TIMES = 10  # that the machine's rates are measured at most
ROUNDS = 4  # every query is timed so often, and the least counts: others' work on the machine is not ours
PARTS = ("read", "featurize", "sum rows", "encode", "decode", "name")


@dataclass(frozen=True, slots=True)
class Options:
    """How many queries."""

    count: int = 150


def run(request: Request, options: Options) -> Iterator[Document]:
    """Time the parts of label-free searches one by one, beside the least that they could take."""
    index, k, chosen = request.index(), request.k or 10, request.query_files(options.count)
    what = {"index": index.resolve().name, "queries": len(chosen), "k": k}

    def measure() -> Document:
        before = Peaks.measured()
        with Index(index) as opened:
            looks = [_look(opened, source, k) for source in chosen]
        parts, peaks = _parts(looks, before)
        total = sum(part["ms"] for part in parts.values())
        least = sum(part["least_ms"] for part in parts.values())
        return {
            "peak_gflops": round(peaks.flops / 1e9, 1),
            "peak_gb_per_second": round(peaks.bytes / 1e9, 1),
            "parts": parts,
            "ms": round(total, 3),
            "least_ms": round(least, 3),
            "share": round(least / total, 4),
        }

    yield request.results.measured(f"roofline-{index.resolve().name}", what, measure)


class Peaks(NamedTuple):
    """The machine's best rates, per second."""

    flops: float
    bytes: float

    @classmethod
    def measured(cls) -> Peaks:
        """As they are now."""
        return cls(peak_flops(), peak_bytes())

    def again(self) -> Peaks:
        """The better of what they were and what they are now."""
        return Peaks(*map(max, self, Peaks.measured()))


def peak_flops(size: int = 768) -> float:
    """FLOPs a second of the best there is: a product of matrices that fit the cache, on one thread."""
    from threadpoolctl import threadpool_limits

    one = np.random.default_rng(0).random((size, size), np.float32)
    with threadpool_limits(1):
        return 2 * size**3 / min(_seconds(lambda: one @ one)[0] for _ in range(20))


def peak_bytes(size: int = 1 << 27) -> float:
    """Bytes a second read from memory by one thread, far more than a cache holds."""
    one = np.ones(size // 8, np.int64)
    return size / min(_seconds(one.sum)[0] for _ in range(10))


def _seconds(work: Callable[..., R], *given: Any) -> tuple[float, R]:
    begun = time.perf_counter()
    done = work(*given)
    return time.perf_counter() - begun, done


def _look(index: Index, source: Source, k: int) -> dict[str, tuple[float, float, float]]:
    """(seconds, FLOPs, bytes) of every part of one search."""
    retriever = index._snapshot.retriever
    if not isinstance(retriever, ClosedFormRetriever) or index.config.ordered_by_labels:
        raise ValueError(f"{index.layout.root}: give an index that was made without labels")
    encoder, decoder, weight = retriever.encoder, retriever.decoder, retriever.feedback
    taken = {part: float("inf") for part in PARTS}

    def timed(part: str, work: Callable[..., R], *given: Any) -> R:
        seconds, done = _seconds(work, *given)
        taken[part] = min(taken[part], seconds)
        return done

    for _ in range(ROUNDS):
        table = timed("read", index.read, source)
        features = timed("featurize", featurize, table)
        raw = timed("sum rows", encoder.evidence.raw, features)
        (latent,) = timed("encode", encoder.encode_raw, raw, features)
        rows, _ = timed("decode", decoder.search_with_feedback, latent, LEAST_BEAM, weight)
        timed("name", index.catalogue.tables.names, set(decoder.trie.table(rows[:k]).tolist()))
    costs = _costs(source, table, features, encoder, decoder, k)
    return {part: (taken[part], *costs[part]) for part in PARTS}


def _costs(
    source: Source, table: Table, features: Features, encoder: ClosedForm, decoder: Decoder, k: int
) -> dict[str, tuple[float, float]]:
    """(FLOPs, bytes) that every part cannot do without."""
    columns = len(features.profile)
    cells = sum(len(cell) for column in table.columns for cell in column.cells)
    a_column, a_table = encoder.blocks.basis.size, encoder.projection.size
    summed = sum(
        WIDTHS[kind] * int(((features.ids >= first) & (features.ids < last)).sum())
        for kind, (first, last) in KINDS.items()
    )
    books, beam = decoder.codebooks, LEAST_BEAM
    levels, size, width = books.codewords.shape
    pairs = min(size * size, len(decoder.trie))
    return {
        "read": (0, min(source.size, 1 << 20)),
        "featurize": (0, cells + 8 * len(features.ids)),
        "sum rows": (2 * summed, 5 * len(features.ids) + summed),  # a byte a number
        "encode": (2 * (columns * a_column + a_table), 4 * (a_column + a_table)),
        # Products with the first two books, a sum a pair, then the codewords of all that is in the beam.
        "decode": (
            4 * size * width + 2 * pairs + 3 * beam * levels * width,
            4 * (2 * size * width + pairs + levels * size * width) + beam * levels,
        ),
        "name": (0, 200 * k),
    }


def _parts(
    looks: list[dict[str, tuple[float, float, float]]], peaks: Peaks
) -> tuple[dict[str, dict[str, float]], Peaks]:
    """Facts of every part, and the machine's best rates, measured again until no part exceeds them."""
    for _ in range(TIMES):
        peaks = peaks.again()
        parts = {part: _facts([look[part] for look in looks], peaks) for part in PARTS}
        if all(part["share"] <= 1 for part in parts.values()):
            break
    return parts, peaks


def _facts(looks: list[tuple[float, float, float]], peaks: Peaks) -> dict[str, float]:
    seconds, flops, bytes_ = np.median(np.array(looks), axis=0)
    least = max(flops / peaks.flops, bytes_ / peaks.bytes)
    return {
        "ms": round(1000 * seconds, 4),
        "mflops": round(flops / 1e6, 3),
        "kb": round(bytes_ / 1e3, 1),
        "least_ms": round(1000 * least, 5),
        "share": round(least / seconds, 4),
    }


def tables(document: Document) -> list[table.Table]:
    """A row per part, and one of all of them."""
    parts = dict(document["parts"])
    flops, bytes_ = (sum(part[key] for part in parts.values()) for key in ("mflops", "kb"))
    parts["all"] = {**document, "mflops": flops, "kb": bytes_}
    rows = [
        [
            *(name, f"{part['ms']:.3f}", f"{part['ms'] / document['ms']:.0%}", f"{part['mflops']:.2f}"),
            *(f"{part['kb']:,.0f}", f"{part['least_ms']:.4f}", f"{part['share']:.1%}"),
        ]
        for name, part in parts.items()
    ]
    note = (
        f"Medians, one thread. The machine's best: {document['peak_gflops']} GFLOP/s (matrix product),"
        f" {document['peak_gb_per_second']} GB/s (sum over memory)."
    )
    title = f"{document['what']['index']}, {document['what']['queries']} queries"
    return [table.Table(["", "ms", "of all", "MFLOP", "KB", "least ms", "reached"], rows, title, note)]
