"""Neighbours, latents and codes with labels, and the checkpoint of what was learnt.

Where there are alternatives, the one with the best MAP on the validation queries is taken, and the report
has the figures.
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

from gentus.arrays import F32, I64, half
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
POSITIONS = 12  # of columns that the network can tell apart; what they mean it learns


@dataclass(frozen=True, slots=True)
class LabelledFit:
    """What was learnt of a lake with labels."""

    weights: dict[str, F32]  # of the encoder
    encoder: EncoderSettings
    block_weights: F32 | None  # how much each kind of evidence counts, if labels say otherwise
    codebooks: Codebooks
    affinity: sp.csr_matrix | None  # (T, T) who is unionable with whom, by labels or else by the graph
    report: dict[str, Any]  # what was chosen, and by which figures
    held_out_error: tuple[float, float] | None = None  # to expect of new tables: mean, and 95th percentile


def fit_columns(
    columns: Columns, inputs: F32, labels: Labels, settings: BuildSettings, tables: int, progress: Progress
) -> LabelledFit:
    """Learn from columns: the scorer compares `columns`, the network sees `inputs` (C, W).

    They may be a sample of a lake of so many `tables`. The evidence in `columns` is weighted in place: it is
    the largest array of a build.
    """
    total = len(columns)
    random = np.random.default_rng(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    encoder = replace(settings.encoder, inputs=inputs.shape[1], positions=POSITIONS)
    quantizer = settings.quantizer.for_lake(tables)
    shape = quantizer.shape(total)
    if total <= 2:  # nothing to learn from one or two tables; any codes tell them apart
        basis = principal_basis(inputs, settings.latent.basis, random)
        codewords = torch.randn(*shape, encoder.latent, generator=generator).numpy() * 0.1
        network = Network(encoder, basis.shape[1])
        codebooks = Codebooks(half(codewords))
        return LabelledFit(network.export(basis), encoder, None, codebooks, None, {"validation_map": {}})
    scorer, report = choose_scorer(columns, labels, settings, random, progress)
    with progress.stage("Scoring neighbours", total) as tick:
        graph = score_neighbours(columns, settings.teacher, scorer, tick)
    block_weights = None
    if isinstance(scorer, LearnedScorer) and inputs is columns.evidence:
        block_weights = scorer.reweigh(columns)  # else what counts little would dominate the basis
    basis = principal_basis(inputs, settings.latent.basis, random)
    seen = with_positions(inputs @ basis, columns.positions, encoder.positions)
    best: tuple[float, Network, BatchSampler] | None = None
    figures = {}
    for name, objective in _objectives(labels, graph, total, settings):
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
    labelled, affinity = batches.objective.labelled, _affinity(batches, labels)
    with progress.stage("Learning codes", quantizer.training_steps(total), "steps") as tick:
        if settings.identifiers == "ordinary":
            batches.objective = Objective(batches.objective.pairs, teacher=0.0, union=0.0)
        codebooks = learn_codes(network, batches, quantizer, shape, generator, tick)
        latents = all_latents(network, batches).numpy()
        error = held_out_error(latents, latents, shape, settings.seed)
    report["latents_by"] = "labels" if labelled else "neighbours"
    report["validation_map"] |= {f"latents by {name}": figure for name, figure in figures.items()}
    return LabelledFit(network.export(basis), encoder, block_weights, codebooks, affinity, report, error)


def save_checkpoint(path: Path, fitted: LabelledFit, key: str) -> None:
    """Save a fit, so that a build stopped while it trains its generator does not repeat it."""
    arrays = {f"weights {name}": array for name, array in fitted.weights.items()}
    arrays["codebooks"] = fitted.codebooks.codewords
    if fitted.block_weights is not None:
        arrays["block weights"] = fitted.block_weights
    if fitted.affinity is not None:
        arrays |= {f"affinity {part}": getattr(fitted.affinity, part) for part in _CSR}
    about = {"key": key, "encoder": json.dumps(asdict(fitted.encoder)), "report": json.dumps(fitted.report)}
    about["held_out_error"] = json.dumps(fitted.held_out_error)
    write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about))


def load_checkpoint(path: Path, key: str) -> LabelledFit | None:
    """The fit that was saved under this key, if it is still there."""
    try:
        with safe_open(path, "np") as file:
            about = file.metadata() or {}
            if about.get("key") != key:
                return None
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    weights = {name.split(" ", 1)[1]: a for name, a in arrays.items() if name.startswith("weights ")}
    affinity = None
    if "affinity data" in arrays:
        parts = tuple(arrays[f"affinity {part}"] for part in _CSR)
        total = len(parts[2]) - 1
        affinity = sp.csr_matrix(parts, (total, total))
    encoder = EncoderSettings(**json.loads(about["encoder"]))
    codebooks = Codebooks(arrays["codebooks"])
    report, error = json.loads(about["report"]), json.loads(about.get("held_out_error", "null"))
    return LabelledFit(
        weights,
        encoder,
        arrays.get("block weights"),
        codebooks,
        affinity,
        report,
        tuple(error) if error else None,
    )


def choose_scorer(
    columns: Columns,
    labels: Labels,
    settings: BuildSettings,
    random: np.random.Generator,
    progress: Progress,
) -> tuple[PairScorer, dict[str, Any]]:
    """The pair scorer with the better MAP: one learned from labels, or the one without."""
    if not labels or not settings.teacher_weight:
        return MatchingScorer(), {"validation_map": {}}

    def ranker(scorer: PairScorer) -> Any:
        return lambda queries: (
            ids.tolist()
            for _, ids, _ in scored_candidates(columns, queries.astype(np.int32), settings.teacher, scorer)
        )

    with progress.stage("Learning the pair scorer", None):
        learned: LearnedScorer = learn_scorer(columns, labels.pairs, settings.teacher, random)
        plain: PairScorer = MatchingScorer()
        figures = {
            "scorer with labels": labels.precision(ranker(learned)),
            "scorer without": labels.precision(ranker(plain)),
        }
    won = figures["scorer with labels"] >= figures["scorer without"]
    report = {
        "scorer": {"found": learned.candidate_generator, **learned.report()} if won else None,
        "validation_map": {name: round(figure, 4) for name, figure in figures.items()},
    }
    return (learned if won else plain), report


def _objectives(
    labels: Labels, graph: Graph, total: int, settings: BuildSettings
) -> Iterable[tuple[str, Objective]]:
    """What latents can be learnt from: the ranking of the graph alone, or supervised by labels."""
    near = mutual_pairs(graph)
    ones = np.ones(len(near), np.float32)
    mutual = sp.csr_matrix((ones, (near[:, 0], near[:, 1])), (total, total))
    union = 0.0 if settings.identifiers == "ordinary" else settings.quantizer.union_weight
    if not settings.teacher_weight:
        yield "labels", Objective(labels.affinity(total, hop=0), teacher=0.0, union=union, labelled=True)
        return
    if len(labels.validation) or not labels:  # else nothing could choose between the two
        yield "neighbours", Objective(mutual, union=union)
    if labels:
        pairs = labels.affinity(total)
        yield "labels", Objective(pairs, teacher=0.3, union=1.0, union_coded=1.0, labelled=True)


def _affinity(batches: BatchSampler, labels: Labels) -> sp.csr_matrix:
    """(T, T) how likely tables are unionable: by labels where a table has any, else by the graph."""
    graph = batches.scores.astype(np.float32)
    graph.data[graph.data < 1e-3] = 0  # the best of a row is 1
    if labels:
        annotated = labels.affinity(graph.shape[0])
        without = (np.diff(annotated.indptr) == 0).astype(np.float32)
        graph = (sp.diags(without) @ graph + annotated).tocsr()
    graph.eliminate_zeros()
    return graph.astype(np.float32)


def _dense_precision(network: Network, batches: BatchSampler, labels: Labels) -> float:
    """MAP of the latents themselves on the validation queries."""
    latents = all_latents(network, batches)

    def rank(queries: I64) -> Iterable[Sequence[int]]:
        similarity = latents[torch.from_numpy(queries)] @ latents.T
        best: list[list[int]] = similarity.topk(min(labels.k + 1, len(latents)), dim=1).indices.tolist()
        return best

    return labels.precision(rank)
