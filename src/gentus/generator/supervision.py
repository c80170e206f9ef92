"""Supervision of the generator: batches of inputs and target identifiers, and validation of what it learnt.

Targets come from annotated pairs, as the paper's records; and, for every table of the lake, from an affinity:
that of the labels where a table has any, that of the teacher elsewhere. Sampling targets by affinity trains
the generator on its mass summed over the children of every node of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gentus.arrays import F32, I32, I64
from gentus.generator.decoding import decode
from gentus.generator.model import Generator, Inputs
from gentus.generator.records import Record, View, count_records, mine_negatives, records
from gentus.generator.session import DecodingSession
from gentus.generator.training import Batch, Epochs, RunOptions, TrainingReport, train
from gentus.identifiers.codebooks import Codebooks
from gentus.neighbours.labels import Labels
from gentus.progress import Progress
from gentus.retrieval.generate import Decoding, paths
from gentus.retrieval.trie import Trie
from gentus.settings import GenerationSettings

WEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # of the generator's log-probability against the prior
SPARE_SUFFIXES = 32
SHARPNESS = 10.0  # training starts from the prior, at the temperature that latents are learnt with


class Reader(Protocol):
    """Makes the generator's inputs from views of tables."""

    latents: F32  # (T, d)

    def prepare(self, generator: Generator) -> None:
        """Prepare for the inputs of this generator."""

    def inputs(self, views: Sequence[View]) -> Inputs:
        """Views of tables as a batch."""


@dataclass(slots=True)
class Supervision:
    """The data of a training; tables are positions in the sample."""

    reader: Reader
    trie: Trie
    rows: I64  # (T,) the row of each table in the tree
    codebooks: Codebooks
    labels: Labels
    widths: I64  # (T,)
    profiles: sp.csr_matrix | None  # (T, words) of tables, to mine hard negatives
    affinity: sp.csr_matrix | None  # (T, T)
    settings: GenerationSettings
    seed: int = 0

    def suffixes(self) -> int:
        """Number of suffix symbols: those in use, and some for new tables."""
        return self.trie.highest_suffix + SPARE_SUFFIXES

    # --- batches ---------------------------------------------------------------------------------------

    def epochs(self) -> Epochs:
        """Batches of records of annotated pairs and of records by affinity, mixed."""
        settings = self.settings
        count = 0
        mined: I32 | None = None
        if len(self.labels.pairs) and self.profiles is not None:
            mined = mine_negatives(self.profiles, self.labels.pairs, settings.records.negatives)
            made = count_records(self.labels.pairs, self.widths, mined, settings.records)
            count += min(sum(made.values()), settings.most_records or sum(made.values()))
        wanted = settings.affinity_targets
        drawn = max(1, min(8, wanted // max(len(self.rows), 1))) if wanted else 0
        near = self._prior_neighbours() if self.affinity is not None and drawn else None
        count += drawn * len(self.rows) if near is not None else 0

        def annotated(epoch: int) -> Iterator[Record]:
            if mined is not None:
                every = records(self.labels.pairs, self.widths, mined, settings.records, self.seed, epoch)
                yield from islice(every, settings.most_records)

        def by_affinity(epoch: int) -> Iterator[tuple[Record, bool]]:
            if near is not None:
                yield from self._affinity_records(near, drawn, epoch)

        def epoch_batches(number: int) -> Iterator[Batch]:
            mixed = _interleave(annotated(number), by_affinity(number), self.seed + number)
            while some := list(islice(mixed, settings.batch)):
                yield self.batch(some)

        return Epochs(epoch_batches, -(-count // settings.batch))

    def batch(self, some: Sequence[tuple[Record, bool]]) -> Batch:
        """Records as one batch; a ranking record with the flag counts as a positive one, too."""
        views = list(dict.fromkeys(record.view for record, _ in some))
        number = {view: at for at, view in enumerate(views)}
        targets = np.array([record.target for record, _ in some])
        ranked = [(at, r.negative) for at, (r, _) in enumerate(some) if r.negative is not None]
        weight = [float(both or record.kind != "ranking") for record, both in some]
        symbols, valid = self._targets(targets)
        negative_symbols, negative_valid = self._targets(np.array([n for _, n in ranked], np.int64))
        return Batch(
            self.reader.inputs(views),
            torch.tensor([number[record.view] for record, _ in some]),
            symbols,
            valid,
            torch.tensor(weight),
            negative_symbols if ranked else None,
            negative_valid if ranked else None,
            torch.tensor([at for at, _ in ranked]) if ranked else None,
        )

    def _targets(self, tables: I64) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(n, D) identifiers as symbols; (n, D, V) valid symbols, where the softmax is over children."""
        children = self.settings.softmax == "children"
        path = paths(self.trie, self.rows[tables], self.codebooks.size, self.suffixes(), trim=children)
        shown = slice(self.settings.depth if children else None)
        symbols, valid = path.symbols[:, shown], path.valid[:, shown]
        return torch.from_numpy(symbols), torch.from_numpy(valid) if children else None

    def _affinity_records(self, near: I32, drawn: int, epoch: int) -> Iterator[tuple[Record, bool]]:
        """For every table `drawn` targets by affinity, with hard negatives that the prior ranks high."""
        assert self.affinity is not None
        random = np.random.default_rng((self.seed, epoch, 1))
        begins, ends = self.affinity.indptr[:-1], self.affinity.indptr[1:]
        some = np.flatnonzero(ends > begins)
        mass = np.concatenate([[0.0], np.cumsum(self.affinity.data, dtype=np.float64)])
        tables = np.repeat(
            random.permutation(some), drawn
        )  # adjacent: a query is encoded once for its targets
        low, high = mass[begins[tables]], mass[ends[tables]]
        at = np.searchsorted(mass, low + random.random(len(tables)) * (high - low), side="right") - 1
        at = np.clip(at, begins[tables], ends[tables] - 1)
        targets = self.affinity.indices[at]
        negatives = near[tables, random.integers(0, near.shape[1], len(tables))]
        likely = np.asarray(self.affinity[tables, negatives]).ravel() > 0.1 * self.affinity.data[at]
        for table, target, negative, wrong in zip(
            tables.tolist(), targets.tolist(), negatives.tolist(), likely.tolist(), strict=True
        ):
            yield Record("ranking", View(table), target, None if wrong else negative), True

    def _prior_neighbours(self, count: int = 40, block: int = 512) -> I32:
        """(T, n) the tables that the prior ranks first: latents against quantized ones, unlike `nearest`."""
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

    # --- validation ------------------------------------------------------------------------------------

    def precision(self, generator: Generator, weight: float | None) -> float:
        """MAP on the validation queries."""
        each = self.precisions(generator, weight)
        return float(each.mean()) if len(each) else 0.0

    def precisions(self, generator: Generator, weight: float | None) -> NDArray[np.float64]:
        """(Q,) average precision per validation query; weight 0: prior alone, None: generator alone."""
        position = -1 - np.arange(len(self.trie))  # tables outside the sample never count as relevant
        position[self.rows] = np.arange(len(self.rows))
        decoding = Decoding(self.settings.beam, weight, self.settings.softmax)

        def rank(queries: I64) -> Iterable[list[int]]:
            for begin in range(0, len(queries), 16):
                some = queries[begin : begin + 16]
                inputs = self.reader.inputs([View(int(q)) for q in some])
                with torch.inference_mode():
                    session = DecodingSession(generator, generator.encode(inputs))
                latents = inputs.latents.numpy()
                found = decode(session, latents, self.trie, self.codebooks, decoding)
                yield from (position[f.rows].tolist() for f in found)

        return self.labels.precisions(rank)


def _interleave(
    first: Iterator[Record], second: Iterator[tuple[Record, bool]], seed: int
) -> Iterator[tuple[Record, bool]]:
    """Records of both sources, mixed, until both have ended."""
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
    """A generator, and how well it ranks beside its prior."""

    generator: Generator
    report: dict[str, Any]  # its `weight` is 0 if the prior alone won, None if the generator alone did


def train_generator(
    supervision: Supervision, options: RunOptions, progress: Progress, download: bool = False
) -> TrainedGenerator:
    """Train a generator, and choose by the validation queries how much of it counts."""
    settings = supervision.settings
    generator = Generator.create(
        settings.model,
        supervision.codebooks.codewords,
        supervision.suffixes(),
        getattr(supervision.reader, "width", 0),
        seed=supervision.seed,
        download=download,
    ).start_as_prior(SHARPNESS)
    supervision.reader.prepare(generator)

    def validate() -> float:
        """MAP with the prior, and a tenth of that without, which still differs where the first is 1."""
        alone = supervision.precision(generator, None)
        if settings.model.output == "tokens":
            return alone
        return supervision.precision(generator, WEIGHTS[3]) + 0.1 * alone

    if prior_is_perfect(supervision, generator):
        report = TrainingReport(stopped="prior")
        choice = _choice({0.0: 1.0}, 0.0)
    else:
        report = train(generator, supervision.epochs(), validate, settings.training, options, progress)
        with progress.stage("Weighing the generator", None):
            choice = _choose_weight(supervision, generator)
    return TrainedGenerator(
        generator,
        {
            **choice,
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


def prior_is_perfect(supervision: Supervision, generator: Generator) -> bool:
    """Whether the prior ranks every validation query without a mistake: no generator would be chosen over it.

    The paper's generator, and one that is to be looked at, are trained all the same.
    """
    if supervision.settings.always or supervision.settings.model.output == "tokens":
        return False
    return supervision.precision(generator, 0.0) > 1 - 1e-9


def _choose_weight(supervision: Supervision, generator: Generator) -> dict[str, Any]:
    """The weight with the best MAP, if its gain over the prior alone exceeds one standard error."""
    weights: tuple[float | None, ...] = (0.0, *WEIGHTS, None)
    each = {weight: supervision.precisions(generator, weight) for weight in weights}
    means = {weight: float(found.mean()) if len(found) else 0.0 for weight, found in each.items()}
    best = max(weights[1:], key=lambda weight: means[weight])
    gain = each[best] - each[0.0]
    error = float(gain.std(ddof=1) / len(gain) ** 0.5) if len(gain) > 1 else 0.0
    if means[best] - means[0.0] <= error and not supervision.settings.always:
        best = 0.0
    return _choice(means, best, error)


def _choice(means: Mapping[float | None, float], best: float | None, error: float = 0.0) -> dict[str, Any]:
    """The weight that was chosen, by the MAP of every weight."""
    names = {weight: f"prior + {weight} x generator" for weight in means}
    names |= {0.0: "prior alone", None: "generator alone"}
    return {
        "weight": best,
        "shipped": best != 0.0,
        "chosen": names[best],
        "standard_error": round(error, 4),
        "validation_map": {names[weight]: round(mean, 4) for weight, mean in means.items()},
    }
