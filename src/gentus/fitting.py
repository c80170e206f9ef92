"""Learning latents and codes from what the teacher and, if there are any, the labels say.

Where there are several ways, the one that ranks the annotated queries held out best is taken, and the
report says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from gentus.codes import Codebooks
from gentus.consensus import Consensus, ConsensusSettings, agree, towards
from gentus.encoder import EncoderSettings, lean, with_places
from gentus.evidence import F32
from gentus.identifiers import Variant
from gentus.judge import Judge, learn_judge
from gentus.labels import Labels
from gentus.latent import Batches, LatentSettings, Network, Objective, learn_latent, principal_basis
from gentus.progress import Progress
from gentus.quantizer import QuantizerSettings, all_latents, learn_codes, unseen_error
from gentus.store import write_file
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

_CSR = ("data", "indices", "indptr")
ENOUGH = 50  # tables, to say what to expect of new ones
PLACES = 12  # with labels the network is told where columns stand; whether that means anything it learns


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How latents and codes are learnt."""

    teacher: TeacherSettings
    encoder: EncoderSettings
    latent: LatentSettings
    quantizer: QuantizerSettings
    seed: int = 0
    variant: Variant = "shaped"
    teacher_weight: float = 1.0  # 0: labels alone shape latents and codes, as in the paper
    consensus: ConsensusSettings = field(default_factory=ConsensusSettings)


@dataclass(slots=True)
class Fitted:
    """What was learnt of a lake."""

    weights: dict[str, F32]  # of the encoder
    encoder: EncoderSettings
    evidence: F32 | None  # how much each kind of evidence counts for the network, if labels say otherwise
    codebooks: Codebooks
    soft: sp.csr_matrix | None  # (T, T) who is unionable with whom, by labels or else by the teacher
    report: dict[str, Any]  # what was chosen, and by which figures
    toward: F32 | None = None  # (T, d) what draws every table to those that the teacher puts beside it
    unseen: tuple[float, float] | None = None  # error to expect of new tables: mean, and of 95 in 100


def fit_lake(
    columns: Columns, inputs: F32, labels: Labels | None, settings: FitSettings, progress: Progress
) -> Fitted:
    """Learn from columns: `columns` is what the teacher judges by, `inputs` (C, W) what the network sees."""
    total = len(columns)
    random = np.random.default_rng(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    encoder = replace(settings.encoder, inputs=inputs.shape[1], places=PLACES if labels else 0)
    shape = settings.quantizer.shape(total)
    if total <= 2:  # nothing to learn from one or two tables; any codes tell them apart
        basis = principal_basis(inputs, settings.latent.basis, random)
        words = torch.randn(*shape, encoder.latent, generator=generator).numpy() * 0.1
        books = Codebooks(words.astype(np.float16).astype(np.float32))
        return Fitted(Network(encoder, basis.shape[1]).export(basis), encoder, None, books, None, {})
    judge, report = choose_judge(columns, labels, settings, random, progress)
    with progress.stage("Judging neighbours", total) as tick:
        graph = find_neighbours(columns, _looking(settings.teacher, judge), judge, tick)
        if isinstance(judge, Consensus):
            graph = agree(graph, settings.consensus)
    evidence = None
    if isinstance(judge, Judge) and inputs is columns.evidence:
        evidence = judge.reweigh(columns)  # what counts little would drown what counts in the basis
    basis = principal_basis(inputs, settings.latent.basis, random)
    seen = with_places(inputs @ basis, columns.places, encoder.places)
    best: tuple[float, Network, Batches] | None = None
    figures = {}
    learning = settings.latent.given(total, bool(labels))
    for name, pairs, objective in _ways(labels, graph, total, settings):
        batches = Batches(seen, columns.starts, graph, pairs, learning, random, objective)
        network = Network(encoder, basis.shape[1])
        steps = settings.latent.steps(total, bool(labels), objective.labelled)
        with progress.stage(f"Learning latents{name}", steps, "steps") as tick:
            learn_latent(network, batches, steps, tick)
        figure = _dense_precision(network, batches, labels) if labels else 0.0
        figures[name.strip(" ,") or "teacher"] = round(figure, 4)
        if best is None or figure >= best[0]:
            best = figure, network, batches
    assert best is not None
    _, network, batches = best
    led = batches.objective.labelled
    soft = _soft(batches, labels)
    leaning = 0.0 if labels else settings.consensus.lean
    with progress.stage("Learning codes", settings.quantizer.rounds(total), "steps") as tick:
        if settings.variant == "ordinary":
            batches.objective = Objective(teacher=0.0, union=0.0)

        def placed(latents: Tensor) -> Tensor:
            own = latents.numpy()
            return torch.from_numpy(lean(own, towards(own, soft, leaning))) if leaning else latents

        codebooks = learn_codes(network, batches, settings.quantizer, shape, generator, tick, placed)
        latents = all_latents(network, batches)
        enough = total >= ENOUGH
        unseen = unseen_error(latents, placed(latents), shape, generator) if enough else None
    if labels:
        report["latents_by"] = "labels" if led else "teacher"
        report["held_out_map"] = {
            **report["held_out_map"],
            **{f"latents by {k}": v for k, v in figures.items()},
        }
    toward = towards(latents.numpy(), soft, leaning) if leaning else None
    return Fitted(network.export(basis), encoder, evidence, codebooks, soft, report, toward, unseen)


def remember_fit(path: Path, fitted: Fitted, key: str) -> None:
    """Keep what was learnt: a build stopped while it trains its generator need not learn it again."""
    arrays = {f"weights {name}": array for name, array in fitted.weights.items()}
    arrays["codebooks"] = fitted.codebooks.words
    if fitted.evidence is not None:
        arrays["evidence"] = fitted.evidence
    if fitted.toward is not None:
        arrays["toward"] = fitted.toward
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
        arrays.get("toward"),
        tuple(unseen) if unseen else None,
    )


def choose_judge(
    columns: Columns,
    labels: Labels | None,
    settings: FitSettings,
    random: np.random.Generator,
    progress: Progress,
) -> tuple[Judging, dict[str, Any]]:
    """The judge that ranks the held-out queries better: one taught by labels, or the one without."""
    if not labels:
        return Consensus(columns, settings.consensus, random), {"held_out_map": {}}
    if not settings.teacher_weight:
        return Unlabelled(), {"held_out_map": {}}

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


def _looking(settings: TeacherSettings, judge: Judging) -> TeacherSettings:
    """Views of columns are narrow enough that a large lake can be looked at as hard as a small one."""
    if isinstance(judge, Consensus):
        return replace(settings, candidates_in_large_lakes=settings.candidates)
    return settings


def _ways(
    labels: Labels | None, graph: Graph, total: int, settings: FitSettings
) -> Iterable[tuple[str, sp.csr_matrix, Objective]]:
    """What can be learnt: the teacher's ranking alone, or led by the labels."""
    near = mutual_pairs(graph)
    ones = np.ones(len(near), np.float32)
    mutual = sp.csr_matrix((ones, (near[:, 0], near[:, 1])), (total, total))
    union = 0.0 if settings.variant == "ordinary" else settings.quantizer.union_weight
    if not labels:
        yield "", mutual, Objective(union=union)
    elif not settings.teacher_weight:
        yield ", labels", labels.soft(total, hop=0), Objective(teacher=0.0, union=union, labelled=True)
    else:
        if len(labels.held):  # else nothing could choose between the two
            yield ", teacher", mutual, Objective(union=union)
        led = Objective(teacher=0.3, union=1.0, union_coded=1.0, labelled=True)
        yield ", labels", labels.soft(total), led


def _soft(batches: Batches, labels: Labels | None) -> sp.csr_matrix:
    """(T, T) soft annotations: the labels' where a table has any, else the teacher's."""
    teacher = batches.scores.astype(np.float32)
    teacher.data[teacher.data < 1e-3] = 0  # the best of a row is 1
    if labels:
        annotated = labels.soft(teacher.shape[0])
        without = (np.diff(annotated.indptr) == 0).astype(np.float32)
        teacher = (sp.diags(without) @ teacher + annotated).tocsr()
    teacher.eliminate_zeros()
    return teacher.astype(np.float32)


def _dense_precision(network: Network, batches: Batches, labels: Labels) -> float:
    """MAP of the latents themselves on the queries held out."""
    latents = all_latents(network, batches)

    def rank(queries: I64) -> Iterable[Sequence[int]]:
        similarity = latents[torch.from_numpy(queries)] @ latents.T
        best: list[list[int]] = similarity.topk(min(labels.k + 1, len(latents)), dim=1).indices.tolist()
        return best

    return labels.precision(rank)
