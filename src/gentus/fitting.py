"""Learning latents and codes from what the teacher and, if there are any, the labels say.

Where there are several ways, the one that ranks the annotated queries held out best is taken, and the
report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gentus.codes import Codebooks
from gentus.encoder import EncoderSettings, with_places
from gentus.evidence import F32
from gentus.judge import Judge, learn_judge
from gentus.labels import Labels
from gentus.latent import Batches, LatentSettings, Network, Objective, learn_latent, principal_basis
from gentus.progress import Progress
from gentus.quantizer import QuantizerSettings, all_latents, learn_codes
from gentus.teacher import (
    I64,
    Columns,
    Graph,
    Judging,
    TeacherSettings,
    Unlabelled,
    find_neighbours,
    judged_neighbours,
    mutual_pairs,
)

PLACES = 12  # with labels the network is told where columns stand; whether that means anything it learns


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How latents and codes are learnt."""

    teacher: TeacherSettings
    encoder: EncoderSettings
    latent: LatentSettings
    quantizer: QuantizerSettings
    seed: int = 0


@dataclass(slots=True)
class Fitted:
    """What was learnt of a lake."""

    weights: dict[str, F32]  # of the encoder
    encoder: EncoderSettings
    codebooks: Codebooks
    graph: Graph | None  # the teacher's, for a generator to learn from
    report: dict[str, Any]  # what was chosen, and by which figures


def fit_lake(
    columns: Columns, inputs: F32, labels: Labels | None, settings: FitSettings, progress: Progress
) -> Fitted:
    """Learn from columns: `columns` is what the teacher judges by, `inputs` (C, W) what the network sees."""
    total = len(columns)
    random = np.random.default_rng(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    encoder = replace(settings.encoder, inputs=inputs.shape[1], places=PLACES if labels else 0)
    basis = principal_basis(inputs, settings.latent.basis, random)
    shape = settings.quantizer.shape(total)
    if total <= 2:  # nothing to learn from one or two tables; any codes tell them apart
        words = torch.randn(*shape, encoder.latent, generator=generator).numpy() * 0.1
        books = Codebooks(words.astype(np.float16).astype(np.float32))
        return Fitted(Network(encoder, basis.shape[1]).export(basis), encoder, books, None, {})
    judge, report = choose_judge(columns, labels, settings, random, progress)
    with progress.stage("Judging neighbours", total) as tick:
        graph = find_neighbours(columns, settings.teacher, judge, tick)
    seen = with_places(inputs @ basis, columns.places, encoder.places)
    best: tuple[float, Network, Batches] | None = None
    figures = {}
    for name, pairs, objective in _ways(labels, graph, total, settings.quantizer):
        batches = Batches(seen, columns.starts, graph, pairs, settings.latent, random, objective)
        network = Network(encoder, basis.shape[1])
        steps = settings.latent.steps(total, labelled=objective.labelled)
        with progress.stage(f"Learning latents{name}", steps, "steps") as tick:
            learn_latent(network, batches, steps, tick)
        figure = _dense_precision(network, batches, labels) if labels else 0.0
        figures[name.strip(" ,") or "teacher"] = round(figure, 4)
        if best is None or figure >= best[0]:
            best = figure, network, batches
    assert best is not None
    _, network, batches = best
    with progress.stage("Learning codes", settings.quantizer.rounds(total), "steps") as tick:
        codebooks = learn_codes(network, batches, settings.quantizer, shape, generator, tick)
    if labels:
        report["latents_by"] = "labels" if batches.objective.labelled else "teacher"
        report["held_out_map"] = {
            **report["held_out_map"],
            **{f"latents by {k}": v for k, v in figures.items()},
        }
    return Fitted(network.export(basis), encoder, codebooks, graph, report)


def choose_judge(
    columns: Columns,
    labels: Labels | None,
    settings: FitSettings,
    random: np.random.Generator,
    progress: Progress,
) -> tuple[Judging, dict[str, Any]]:
    """The judge that ranks the held-out queries better: one taught by labels, or the one without."""
    if not labels:
        return Unlabelled(), {}

    def ranker(judge: Judging) -> Any:
        return lambda queries: (
            ids.tolist()
            for _, ids, _ in judged_neighbours(columns, queries.astype(np.int32), settings.teacher, judge)
        )

    with progress.stage("Learning what counts", None):
        learnt: Judge = learn_judge(columns, labels.pairs, settings.teacher, random)
        plain: Judging = Unlabelled()
        figures = {
            "judge with labels": labels.precision(ranker(learnt)),
            "judge without": labels.precision(ranker(plain)),
        }
    won = figures["judge with labels"] >= figures["judge without"]
    report = {
        "judge": {"found": learnt.finder, **learnt.report()} if won else None,
        "held_out_map": {name: round(figure, 4) for name, figure in figures.items()},
    }
    return (learnt if won else plain), report


def _ways(
    labels: Labels | None, graph: Graph, total: int, settings: QuantizerSettings
) -> Iterable[tuple[str, sp.csr_matrix, Objective]]:
    """What can be learnt: the teacher's ranking alone, or led by the labels."""
    near = mutual_pairs(graph)
    ones = np.ones(len(near), np.float32)
    mutual = sp.csr_matrix((ones, (near[:, 0], near[:, 1])), (total, total))
    if not labels:
        yield "", mutual, Objective(union=settings.union_weight)
        return
    if len(labels.held):  # else nothing could choose between the two
        yield ", teacher", mutual, Objective(union=settings.union_weight)
    yield ", labels", labels.soft(total), Objective(teacher=0.3, union=1.0, union_coded=1.0, labelled=True)


def _dense_precision(network: Network, batches: Batches, labels: Labels) -> float:
    """MAP of the latents themselves on the queries held out."""
    latents = all_latents(network, batches)

    def rank(queries: I64) -> Iterable[Sequence[int]]:
        similarity = latents[torch.from_numpy(queries)] @ latents.T
        best: list[list[int]] = similarity.topk(min(labels.k + 1, len(latents)), dim=1).indices.tolist()
        return best

    return labels.precision(rank)
