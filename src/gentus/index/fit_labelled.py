"""Learning latents and codes with labels: from what they say, and from what the teacher says beside them.

Where there are several ways, the one that ranks the annotated queries held out best is taken, and the
report says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from gentus.arrays import F32, I64
from gentus.embed.encoder import with_positions
from gentus.embed.training import BatchSampler, Network, Objective, learn_latent, principal_basis
from gentus.files import write_file
from gentus.identifiers.codebooks import Codebooks, held_out_error
from gentus.identifiers.quantizer import all_latents, learn_codes
from gentus.neighbours.graph import Graph
from gentus.neighbours.labels import Labels
from gentus.neighbours.matching import (
    Columns,
    MatchingScorer,
    PairScorer,
    mutual_pairs,
    score_neighbours,
    scored_candidates,
)
from gentus.neighbours.pair_scorer import LearnedScorer, learn_scorer
from gentus.progress import Progress
from gentus.settings import BuildSettings, EncoderSettings

_CSR = ("data", "indices", "indptr")
PLACES = 12  # the network is told where columns stand; whether that means anything it learns


@dataclass(slots=True)
class Fitted:
    """What was learnt of a lake."""

    weights: dict[str, F32]  # of the encoder
    encoder: EncoderSettings
    evidence: F32 | None  # how much each kind of evidence counts for the network, if labels say otherwise
    codebooks: Codebooks
    soft: sp.csr_matrix | None  # (T, T) who is unionable with whom, by labels or else by the teacher
    report: dict[str, Any]  # what was chosen, and by which figures
    unseen: tuple[float, float] | None = None  # error to expect of new tables: mean, and of 95 in 100


def fit_lake(
    columns: Columns, inputs: F32, labels: Labels, settings: BuildSettings, tables: int, progress: Progress
) -> Fitted:
    """Learn from columns: `columns` is what the teacher judges by, `inputs` (C, W) what the network sees.

    They may be a sample of a lake of so many `tables`.
    """
    total = len(columns)
    random = np.random.default_rng(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    encoder = replace(settings.encoder, inputs=inputs.shape[1], places=PLACES)
    quantizer = settings.quantizer.for_lake(tables)
    shape = quantizer.shape(total)
    if total <= 2:  # nothing to learn from one or two tables; any codes tell them apart
        basis = principal_basis(inputs, settings.latent.basis, random)
        words = torch.randn(*shape, encoder.latent, generator=generator).numpy() * 0.1
        books = Codebooks(words.astype(np.float16).astype(np.float32))
        network = Network(encoder, basis.shape[1])
        return Fitted(network.export(basis), encoder, None, books, None, {"validation_map": {}})
    judge, report = choose_scorer(columns, labels, settings, random, progress)
    with progress.stage("Scoring neighbours", total) as tick:
        graph = score_neighbours(columns, settings.teacher, judge, tick)
    evidence = None
    if isinstance(judge, LearnedScorer) and inputs is columns.evidence:
        evidence = judge.reweigh(columns)  # what counts little would drown what counts in the basis
    basis = principal_basis(inputs, settings.latent.basis, random)
    seen = with_positions(inputs @ basis, columns.positions, encoder.places)
    best: tuple[float, Network, BatchSampler] | None = None
    figures = {}
    for name, objective in _ways(labels, graph, total, settings):
        batches = BatchSampler(seen, columns.starts, graph, objective, settings.latent, random)
        network = Network(encoder, basis.shape[1])
        steps = settings.latent.steps(total, objective.labelled)
        with progress.stage(f"Learning latents, {name}", steps, "steps") as tick:
            learn_latent(network, batches, steps, tick)
        figures[name] = round(_dense_precision(network, batches, labels), 4)
        if best is None or figures[name] >= best[0]:
            best = figures[name], network, batches
    assert best is not None
    _, network, batches = best
    led, soft = batches.objective.labelled, _soft(batches, labels)
    with progress.stage("Learning codes", quantizer.training_steps(total), "steps") as tick:
        if settings.identifiers == "ordinary":
            batches.objective = Objective(batches.objective.pairs, teacher=0.0, union=0.0)
        codebooks = learn_codes(network, batches, quantizer, shape, generator, tick)
        latents = all_latents(network, batches).numpy()
        unseen = held_out_error(latents, latents, shape, settings.seed)
    report["latents_by"] = "labels" if led else "neighbours"
    report["validation_map"] |= {f"latents by {name}": figure for name, figure in figures.items()}
    return Fitted(network.export(basis), encoder, evidence, codebooks, soft, report, unseen)


def remember_fit(path: Path, fitted: Fitted, key: str) -> None:
    """Keep what was learnt: a build stopped while it trains its generator need not learn it again."""
    arrays = {f"weights {name}": array for name, array in fitted.weights.items()}
    arrays["codebooks"] = fitted.codebooks.codewords
    if fitted.evidence is not None:
        arrays["evidence"] = fitted.evidence
    if fitted.soft is not None:
        arrays |= {f"soft {part}": getattr(fitted.soft, part) for part in _CSR}
    about = {"key": key, "encoder": json.dumps(asdict(fitted.encoder)), "report": json.dumps(fitted.report)}
    about["unseen"] = json.dumps(fitted.unseen)
    write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about))


def recall_fit(path: Path, key: str) -> Fitted | None:
    """What was learnt under this key, if it is still there."""
    try:
        with safe_open(path, "np") as file:
            about = file.metadata() or {}
            if about.get("key") != key:
                return None
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    weights = {name.split(" ", 1)[1]: a for name, a in arrays.items() if name.startswith("weights ")}
    soft = None
    if "soft data" in arrays:
        parts = tuple(arrays[f"soft {part}"] for part in _CSR)
        total = len(parts[2]) - 1
        soft = sp.csr_matrix(parts, (total, total))
    encoder = EncoderSettings(**json.loads(about["encoder"]))
    codebooks = Codebooks(arrays["codebooks"])
    report, unseen = json.loads(about["report"]), json.loads(about.get("unseen", "null"))
    return Fitted(
        weights,
        encoder,
        arrays.get("evidence"),
        codebooks,
        soft,
        report,
        tuple(unseen) if unseen else None,
    )


def choose_scorer(
    columns: Columns,
    labels: Labels,
    settings: BuildSettings,
    random: np.random.Generator,
    progress: Progress,
) -> tuple[PairScorer, dict[str, Any]]:
    """The judge that ranks the held-out queries better: one taught by labels, or the one without."""
    if not labels or not settings.teacher_weight:
        return MatchingScorer(), {"validation_map": {}}

    def ranker(judge: PairScorer) -> Any:
        return lambda queries: (
            ids.tolist()
            for _, ids, _ in scored_candidates(columns, queries.astype(np.int32), settings.teacher, judge)
        )

    with progress.stage("Learning what counts", None):
        learnt: LearnedScorer = learn_scorer(columns, labels.pairs, settings.teacher, random)
        plain: PairScorer = MatchingScorer()
        figures = {
            "judge with labels": labels.precision(ranker(learnt)),
            "judge without": labels.precision(ranker(plain)),
        }
    won = figures["judge with labels"] >= figures["judge without"]
    report = {
        "scorer": {"found": learnt.candidate_generator, **learnt.report()} if won else None,
        "validation_map": {name: round(figure, 4) for name, figure in figures.items()},
    }
    return (learnt if won else plain), report


def _ways(
    labels: Labels, graph: Graph, total: int, settings: BuildSettings
) -> Iterable[tuple[str, Objective]]:
    """What can be learnt: the teacher's ranking alone, or led by the labels."""
    near = mutual_pairs(graph)
    ones = np.ones(len(near), np.float32)
    mutual = sp.csr_matrix((ones, (near[:, 0], near[:, 1])), (total, total))
    union = 0.0 if settings.identifiers == "ordinary" else settings.quantizer.union_weight
    if not settings.teacher_weight:
        yield "labels", Objective(labels.affinity(total, hop=0), teacher=0.0, union=union, labelled=True)
        return
    if len(labels.validation) or not labels:  # else nothing could choose between the two
        yield "teacher", Objective(mutual, union=union)
    if labels:
        pairs = labels.affinity(total)
        yield "labels", Objective(pairs, teacher=0.3, union=1.0, union_coded=1.0, labelled=True)


def _soft(batches: BatchSampler, labels: Labels) -> sp.csr_matrix:
    """(T, T) soft annotations: the labels' where a table has any, else the teacher's."""
    teacher = batches.scores.astype(np.float32)
    teacher.data[teacher.data < 1e-3] = 0  # the best of a row is 1
    if labels:
        annotated = labels.affinity(teacher.shape[0])
        without = (np.diff(annotated.indptr) == 0).astype(np.float32)
        teacher = (sp.diags(without) @ teacher + annotated).tocsr()
    teacher.eliminate_zeros()
    return teacher.astype(np.float32)


def _dense_precision(network: Network, batches: BatchSampler, labels: Labels) -> float:
    """MAP of the latents themselves on the queries held out."""
    latents = all_latents(network, batches)

    def rank(queries: I64) -> Iterable[Sequence[int]]:
        similarity = latents[torch.from_numpy(queries)] @ latents.T
        best: list[list[int]] = similarity.topk(min(labels.k + 1, len(latents)), dim=1).indices.tolist()
        return best

    return labels.precision(rank)
