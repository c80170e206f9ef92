"""Teaching the generator: what it reads, which identifiers it is to write, and what its word is worth.

Supervision comes from annotated pairs, as records of the paper; and, on every table of the lake, from soft
annotations: the labels' where a table has any, the teacher's elsewhere. Sampling targets from them trains
the generator on their probability mass summed over the children of every node of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gentus.arrays import F32, I32, I64
from gentus.generator.answer import decode
from gentus.generator.model import Generator, Inputs
from gentus.generator.records import Record, View, count_records, mine_negatives, records
from gentus.generator.training import Batch, Helping, train
from gentus.identifiers.codebooks import Codebooks
from gentus.neighbours.labels import Labels
from gentus.progress import Progress
from gentus.search.generate import Decoding, paths
from gentus.search.trie import Trie
from gentus.settings import GenerationSettings

WEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # of the generator's log-probability against the prior
SPARE_SUFFIXES = 32
SHARPNESS = 10.0  # a generator begins as its prior, at the temperature that latents are learnt with


class Reader(Protocol):
    """What the generator sees of the tables it learns from."""

    latents: F32  # (T, d)

    def prepare(self, generator: Generator) -> None:
        """Get to know the generator that will read."""

    def inputs(self, views: Sequence[View]) -> Inputs:
        """Views of tables as a batch."""


@dataclass(slots=True)
class Supervision:
    """Everything that generator training is made of, tables being positions."""

    reader: Reader
    trie: Trie
    rows: I64  # (T,) the row of each table in the tree
    codebooks: Codebooks
    labels: Labels
    widths: I64  # (T,)
    profiles: sp.csr_matrix | None  # words of tables, to mine hard negatives
    soft: sp.csr_matrix | None  # (T, T) soft annotations
    settings: GenerationSettings
    seed: int = 0

    def suffixes(self) -> int:
        """Suffix symbols: those in use, and some for tables to come."""
        return self.trie.highest_suffix + SPARE_SUFFIXES

    # --- batches ---------------------------------------------------------------------------------------

    def batches(self) -> tuple[Callable[[int], Iterator[Batch]], int]:
        """The batches of an epoch, and how many there are."""
        settings = self.settings
        count = 0
        mined: I32 | None = None
        if len(self.labels.pairs) and self.profiles is not None:
            mined = mine_negatives(self.profiles, self.labels.pairs, settings.records.negatives)
            made = count_records(self.labels.pairs, self.widths, mined, settings.records)
            count += min(sum(made.values()), settings.most_records or sum(made.values()))
        drawn = max(1, min(8, settings.soft // max(len(self.rows), 1))) if settings.soft else 0
        near = self._prior_neighbours() if self.soft is not None and drawn else None
        count += drawn * len(self.rows) if near is not None else 0

        def annotated(epoch: int) -> Iterator[Record]:
            if mined is not None:
                every = records(self.labels.pairs, self.widths, mined, settings.records, self.seed, epoch)
                yield from islice(every, settings.most_records)

        def softly(epoch: int) -> Iterator[tuple[Record, bool]]:
            if near is not None:
                yield from self._soft_records(near, drawn, epoch)

        def epoch_batches(number: int) -> Iterator[Batch]:
            mixed = _interleave(annotated(number), softly(number), self.seed + number)
            while some := list(islice(mixed, settings.batch)):
                yield self.batch(some)

        return epoch_batches, -(-count // settings.batch)

    def batch(self, some: Sequence[tuple[Record, bool]]) -> Batch:
        """Records as one batch; a ranking record counts as a positive one, too, if so marked."""
        views = list(dict.fromkeys(record.view for record, _ in some))
        place = {view: at for at, view in enumerate(views)}
        targets = np.array([record.target for record, _ in some])
        ranked = [(at, r.negative) for at, (r, _) in enumerate(some) if r.negative is not None]
        weight = [float(both or record.kind != "ranking") for record, both in some]
        symbols, valid = self._targets(targets)
        negative_symbols, negative_valid = self._targets(np.array([n for _, n in ranked], np.int64))
        return Batch(
            self.reader.inputs(views),
            torch.tensor([place[record.view] for record, _ in some]),
            symbols,
            valid,
            torch.tensor(weight),
            negative_symbols if ranked else None,
            negative_valid if ranked else None,
            torch.tensor([at for at, _ in ranked]) if ranked else None,
        )

    def _targets(self, tables: I64) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Identifiers as symbols, with what the tree allows where the softmax is over children."""
        children = self.settings.softmax == "children"
        path = paths(self.trie, self.rows[tables], self.codebooks.size, self.suffixes(), trim=children)
        shown = slice(self.settings.depth if children else None)
        symbols, valid = path.symbols[:, shown], path.valid[:, shown]
        return torch.from_numpy(symbols), torch.from_numpy(valid) if children else None

    def _soft_records(self, near: I32, drawn: int, epoch: int) -> Iterator[tuple[Record, bool]]:
        """For every table some targets by their soft annotation, and look-alikes by the prior's own beam."""
        assert self.soft is not None
        random = np.random.default_rng((self.seed, epoch, 1))
        begins, ends = self.soft.indptr[:-1], self.soft.indptr[1:]
        some = np.flatnonzero(ends > begins)
        mass = np.concatenate([[0.0], np.cumsum(self.soft.data, dtype=np.float64)])
        tables = np.repeat(random.permutation(some), drawn)  # together: a query is read once for its targets
        low, high = mass[begins[tables]], mass[ends[tables]]
        at = np.searchsorted(mass, low + random.random(len(tables)) * (high - low), side="right") - 1
        at = np.clip(at, begins[tables], ends[tables] - 1)
        targets = self.soft.indices[at]
        negatives = near[tables, random.integers(0, near.shape[1], len(tables))]
        likely = np.asarray(self.soft[tables, negatives]).ravel() > 0.1 * self.soft.data[at]
        for table, target, negative, wrong in zip(
            tables.tolist(), targets.tolist(), negatives.tolist(), likely.tolist(), strict=True
        ):
            yield Record("ranking", View(table), target, None if wrong else negative), True

    def _prior_neighbours(self, count: int = 40, block: int = 512) -> I32:
        """(T, n) the tables that the prior ranks first."""
        coded = torch.from_numpy(self.codebooks.decode(self.trie.codes[self.rows]))
        half = (coded**2).sum(1) / 2
        latents = torch.from_numpy(self.reader.latents)
        best = []
        for begin in range(0, len(latents), block):
            scores = latents[begin : begin + block] @ coded.T - half
            own = torch.arange(begin, min(begin + block, len(latents)))
            scores[own - begin, own] = -torch.inf
            best.append(scores.topk(min(count, len(latents) - 1), dim=1).indices)
        return torch.cat(best).numpy().astype(np.int32)

    # --- what it is worth ------------------------------------------------------------------------------

    def precision(self, generator: Generator, weight: float | None) -> float:
        """MAP on the queries held out."""
        each = self.precisions(generator, weight)
        return float(each.mean()) if len(each) else 0.0

    def precisions(self, generator: Generator, weight: float | None) -> NDArray[np.float64]:
        """(Q,) average precision a query held out; weight 0 is the prior alone, None the generator alone."""
        position = -1 - np.arange(len(self.trie))  # what the fit did not see answers no query
        position[self.rows] = np.arange(len(self.rows))
        decoding = Decoding(self.settings.beam, weight, self.settings.softmax)

        def rank(queries: I64) -> Iterable[list[int]]:
            for begin in range(0, len(queries), 16):
                some = queries[begin : begin + 16]
                inputs = self.reader.inputs([View(int(q)) for q in some])
                found = decode(generator, inputs, self.trie, self.codebooks, decoding)
                yield from (position[f.rows].tolist() for f in found)

        return self.labels.precisions(rank)


def _interleave(
    first: Iterator[Record], second: Iterator[tuple[Record, bool]], seed: int
) -> Iterator[tuple[Record, bool]]:
    """Records of both kinds, mixed, until both have ended."""
    random = np.random.default_rng(seed)
    sources: list[Iterator[tuple[Record, bool]]] = [((record, False) for record in first), second]
    while sources:
        chosen = sources[int(random.integers(len(sources)))]
        some = list(islice(chosen, 64))
        yield from some
        if not some:
            sources.remove(chosen)


@dataclass(slots=True)
class TrainedGenerator:
    """A generator, and what it is worth beside its prior."""

    generator: Generator
    report: dict[str, Any]  # its `weight` is 0 if the prior alone won, None if the generator alone did


def train_generator(
    supervision: Supervision,
    folder: Path | None,
    time_budget: float | None,
    fingerprint: str,
    progress: Progress,
    download: bool = False,
    team: Helping | None = None,
) -> TrainedGenerator:
    """Train a generator and choose, on queries held out, how much of it counts."""
    settings = supervision.settings
    states = getattr(supervision.reader, "width", 0)
    generator = Generator.create(
        settings.model,
        supervision.codebooks.codewords,
        supervision.suffixes(),
        states,
        seed=supervision.seed,
        sharpness=SHARPNESS,
        download=download,
    )
    supervision.reader.prepare(generator)
    batches, count = supervision.batches()

    def worth() -> float:
        """With its prior, and a little for what it can do alone, which is what tells perfect ones apart."""
        alone = supervision.precision(generator, None)
        return (
            alone
            if settings.model.output == "tokens"
            else (supervision.precision(generator, WEIGHTS[3]) + 0.1 * alone)
        )

    report = train(
        generator,
        batches,
        count,
        worth,
        settings.training,
        folder,
        time_budget,
        progress,
        fingerprint,
        team,
    )
    with progress.stage("Weighing the generator", None):
        ways: tuple[float | None, ...] = (0.0, *WEIGHTS, None)
        each = {way: supervision.precisions(generator, way) for way in ways}
    figures = {way: float(found.mean()) if len(found) else 0.0 for way, found in each.items()}
    best = max(ways[1:], key=lambda way: figures[way])
    gain = each[best] - each[0.0]
    error = float(gain.std(ddof=1) / len(gain) ** 0.5) if len(gain) > 1 else 0.0
    if figures[best] - figures[0.0] <= error and not settings.always:
        best = 0.0  # what a few queries like better by chance may rank others worse than the prior does
    names = {way: f"prior + {way} x generator" for way in ways} | {
        0.0: "prior alone",
        None: "generator alone",
    }
    return TrainedGenerator(
        generator,
        {
            "weight": best,
            "shipped": best != 0.0,
            "chosen": names[best],
            "standard_error": round(error, 4),
            "held_out_map": {names[way]: round(figure, 4) for way, figure in figures.items()},
            "parameters": sum(p.numel() for p in generator.parameters()),
            "epochs": len(report.losses),
            "best_epoch": report.best_epoch,
            "losses": [round(loss, 4) for loss in report.losses],
            "scores": [round(score, 4) for score in report.scores],
            "seconds": round(report.seconds, 1),
            "stopped_by": report.stopped,
            "device": report.device,
            "precision": report.precision,
        },
    )
