"""Verdicts: whether a search says what fits, and that nothing does.

Every lake is searched with its own queries and with queries of the other lakes, which have no answer there;
what a ground truth does not list counts as no answer, though web tables of two lakes can be about the same
things. The weights that judge a lake are learnt without it and without its queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.align.second_look import LookWeights, table_features
from gentus.align.verdict import MATCH
from gentus.arrays import F64
from gentus.index.second_look import aligned_order
from gentus.metrics import score
from gentus_bench.experiment import Request
from gentus_bench.experiments.learn_verdict import SHOWN, learn, matches_of, probabilities, shown_hits
from gentus_bench.experiments.verdict_pairs import BY_CHANCE, NOT_FOUND, LakeLooks, Look, collect
from gentus_bench.lakes.benchmarks import UNLISTED_MAY_FIT, Benchmark
from gentus_bench.plots import OURS, figure
from gentus_bench.results import Document
from gentus_bench.table import Table

BINS = 10
CUTS = [round(cut / 100, 2) for cut in range(30, 96)]


@dataclass(frozen=True, slots=True)
class Options:
    """How many queries."""

    queries: int = 100  # of each lake
    foreign: int = 40  # of them that every other lake is searched with
    ship: str = ""  # a file for the weights that all lakes together give


def run(request: Request, options: Options) -> Iterator[Document]:
    """Judge every lake by weights learnt on the others."""
    benchmarks = list(request.benchmarks())
    chosen = judged(benchmarks)
    folder = request.results.folder / "indexes" / "verdict"
    lakes = list(collect(chosen, folder, options.queries, options.foreign, request.progress))
    judgements: dict[str, Judgement] = {}
    for lake in lakes:
        name = lake.benchmark.name
        others = [look for one in lakes for look in one.looks if name not in (look.lake, look.query_lake)]
        judgements[name] = _judge(lake, learn(others, {"left_out": name}).look_weights())
    curve = [_shares(list(judgements.values()), cut) for cut in CUTS]
    best = max(curve, key=lambda one: min(one["nothing_fits"], one["kept"]))
    found = {
        lake.benchmark.name: _lake(lake, judgements[lake.benchmark.name], best["threshold"]) for lake in lakes
    }
    every = [(look, one.weights) for one in judgements.values() for look in one.looks]
    together = best | _separation(every) | {"reliability": _reliability(*_shown(every)), "curve": curve}
    orders = {
        one.name: _maps(one, judgements[one.name if one.name in judgements else f"{one.name}_validated"])
        for one in benchmarks
    }
    what = {"lakes": list(found), "queries": options.queries, "foreign": options.foreign}
    yield request.results.combined("verdict", what, {"by_lake": found, "all": together, "orders": orders})
    if options.ship:
        looks = [look for lake in lakes for look in lake.looks]
        learnt = learn(looks, what, best["threshold"])
        Path(options.ship).write_text(json.dumps(learnt.to_dict(), indent=1) + "\n", encoding="utf-8")


def judged(benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
    """Every lake once: where people have validated its ground truth, by that."""
    names = {one.name for one in benchmarks}
    return [one for one in benchmarks if f"{one.name}_validated" not in names]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What weights that know nothing of a lake say of it."""

    looks: list[Look]
    weights: LookWeights
    nothing: F64  # (n,) the best score that a query of another lake gets ...
    nothing_named: F64  # (n,) ... and with names
    kept: F64  # (m,) scores of first hits that are answers
    first_is_answer: float  # share of own queries
    orders: dict[str, dict[str, list[str]]]  # by order and query


def _judge(lake: LakeLooks, weights: LookWeights) -> Judgement:
    kept, first, nothing, named = [], [], [], []
    orders: dict[str, dict[str, list[str]]] = {"generated": {}, "aligned": {}}
    for look in lake.looks:
        said = probabilities(look, weights)
        found = np.flatnonzero(look.ranks < NOT_FOUND)
        matches = table_features(matches_of(look, weights))[found, MATCH]
        order = found[aligned_order(look.generated[found].tolist(), matches.tolist())]
        if not look.own:
            nothing.append(said[order[:SHOWN]].max())
            named.append(probabilities(look, weights, names=True)[order[:SHOWN]].max())
            continue
        orders["generated"][look.query] = [look.tables[at] for at in found.tolist()]
        orders["aligned"][look.query] = [look.tables[at] for at in order.tolist()]
        first.append(bool(look.answers[order[0]]))
        if first[-1]:
            kept.append(said[order[0]])
    rates = np.array(nothing), np.array(named), np.array(kept)
    return Judgement(lake.looks, weights, *rates, float(np.mean(first)), orders)


def _shares(some: Sequence[Judgement], threshold: float) -> Document:
    """Queries without an answer that are told so, and true first hits that are kept; queries count alike."""
    nothing, named, kept = (
        np.concatenate([getattr(one, name) for one in some]) for name in ("nothing", "nothing_named", "kept")
    )
    return {
        "threshold": threshold,
        "nothing_fits": float(np.mean(nothing < threshold)),
        "nothing_fits_named": float(np.mean(named < threshold)),
        "kept": float(np.mean(kept >= threshold)),
    }


def _maps(benchmark: Benchmark, one: Judgement) -> dict[str, float]:
    """MAP by order."""
    truth = {query: benchmark.truth[query] for query in one.orders["aligned"] if query in benchmark.truth}
    return {name: score(found, truth, benchmark.k).map for name, found in one.orders.items()}


def _lake(lake: LakeLooks, one: Judgement, threshold: float) -> Document:
    """What verdicts are worth on one lake."""
    return {
        **_shares([one], threshold),
        "queries": len(one.orders["aligned"]),
        "foreign": len(one.nothing),
        "first_is_answer": one.first_is_answer,
        **_separation([(look, one.weights) for look in lake.looks]),
        "signature_bytes": lake.signature_bytes,
    }


def _shown(
    every: Sequence[tuple[Look, LookWeights]], all_hits: bool = False
) -> tuple[F64, NDArray[Any], F64]:
    """Probabilities of the first hits, whether they are answers, and weights."""
    said, answers, shares = [], [], []
    by_weights: dict[int, tuple[LookWeights, list[Look]]] = {}
    for look, weights in every:
        by_weights.setdefault(id(weights), (weights, []))[1].append(look)
    for weights, looks in by_weights.values():
        features, truth, share = shown_hits(looks, weights, all_hits)
        log_odds = features @ weights.table + weights.table_bias
        said.append(1 / (1 + np.exp(-log_odds.astype(np.float64))))
        answers.append(truth)
        shares.append(share)
    return np.concatenate(said), np.concatenate(answers), np.concatenate(shares)


def _separation(every: Sequence[tuple[Look, LookWeights]]) -> Document:
    """AUC over pairs, and the calibration of the first hits, with and without hits that a truth may miss."""
    pairs = [(look, probabilities(look, weights)) for look, weights in every]
    scores = np.concatenate([said for _, said in pairs])
    answers = np.concatenate([look.answers for look, _ in pairs])
    ranks = np.concatenate([look.ranks for look, _ in pairs])
    own = np.concatenate([np.full(len(look.tables), look.own) for look, _ in pairs])
    unrelated = ~own | (ranks == BY_CHANCE)
    found = own & (ranks < NOT_FOUND)
    said, truth, share = _shown(every)
    every_said, every_truth, every_share = _shown(every, all_hits=True)
    return {
        "auc_unrelated": auc(scores[answers | unrelated], answers[answers | unrelated]),
        "auc_found": auc(
            scores[(answers & (ranks < NOT_FOUND)) | unrelated],
            answers[(answers & (ranks < NOT_FOUND)) | unrelated],
        ),
        "auc_hits": auc(scores[found], answers[found]),
        "brier": float(np.average((said - truth) ** 2, weights=share)),
        "ece": _ece(said, truth, share),
        "brier_all": float(np.average((every_said - every_truth) ** 2, weights=every_share)),
        "ece_all": _ece(every_said, every_truth, every_share),
    }


def auc(scores: F64, answers: NDArray[np.bool_]) -> float:
    """The chance that an answer has a higher score than another table; ties count half."""
    from scipy.stats import rankdata

    positive, negative = int(answers.sum()), int((~answers).sum())
    if not positive or not negative:
        return float("nan")
    ranks = rankdata(scores)[answers].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def _reliability(said: F64, answers: NDArray[Any], share: F64) -> list[dict[str, float]]:
    """By tenths of probability: the mean that was said, how many were answers, and how much they weigh."""
    at = np.minimum((said * BINS).astype(int), BINS - 1)
    return [
        {
            "said": float(np.average(said[at == one], weights=share[at == one])),
            "true": float(np.average(answers[at == one], weights=share[at == one])),
            "share": float(share[at == one].sum() / share.sum()),
        }
        for one in np.unique(at).tolist()
    ]


def _ece(said: F64, answers: NDArray[Any], share: F64) -> float:
    """The expected calibration error."""
    return sum(abs(one["said"] - one["true"]) * one["share"] for one in _reliability(said, answers, share))


def tables(document: Document) -> list[Table]:
    """Verdicts by lake, and what the second look does to the order."""
    rows, orders = [], []
    for name, one in document["by_lake"].items():
        rows.append([name, *_figures(one)])
    rows.append(["all", *_figures(document["all"])])
    gains = {name: one["aligned"] - one["generated"] for name, one in document["orders"].items()}
    for name, one in document["orders"].items():
        size = document["by_lake"].get(name, document["by_lake"].get(f"{name}_validated"))["signature_bytes"]
        figures = [f"{one['generated']:.4f}", f"{one['aligned']:.4f}", f"{gains[name]:+.4f}", f"{size:.0f}"]
        orders.append([name, *figures])
    for title, left_out in (
        ("mean", lambda name: name.endswith("_validated")),
        ("mean, validated", lambda name: f"{name}_validated" in gains),
    ):
        mean = np.mean([gain for name, gain in gains.items() if not left_out(name)])
        orders.append([title, "", "", f"{mean:+.4f}", ""])
    what = document["what"]
    columns = ["lake, left out of learning", "queries of other lakes: nothing fits", "with names"]
    columns += ["true first hits kept"]
    columns += ["AUC, found answers / unrelated", "AUC, all answers / unrelated", "AUC among own hits"]
    columns += ["Brier", "ECE", "ECE, all hits"]
    unlisted = ", ".join(name for name in what["lakes"] if name in UNLISTED_MAY_FIT)
    note = (
        f"Up to {what['queries']} own queries of every lake, and {what['foreign']} of every other lake, names"
        " hidden. Unrelated: what queries of other lakes find, and tables by chance. Brier score and expected"
        f" calibration error (ECE) are of the first {SHOWN} hits; queries with and without answer weigh the"
        f" same. A table fits from a score of {document['all']['threshold']:.2f} on, for all lakes alike."
        f" Hits that the ground truths of {unlisted} may have missed count in the last column only."
    )
    title = "Verdicts of weights that were learnt without the lake and its queries"
    cuts = [
        [
            f"{one['threshold']:.2f}",
            *(f"{one[key]:.1%}" for key in ("nothing_fits", "nothing_fits_named", "kept")),
        ]
        for one in document["all"]["curve"]
        if round(one["threshold"] * 100) % 10 == 0 or one["threshold"] == document["all"]["threshold"]
    ]
    cut_columns = ["a table fits from", "nothing fits", "with names", "true first hits kept"]
    ordered = ["lake", "MAP, generated", "MAP, aligned", "gain", "bytes a column"]
    curve = Table(cut_columns, cuts, "All queries of all lakes by the threshold")
    return [
        Table(columns, rows, title, note),
        curve,
        Table(ordered, orders, "The order, by the same weights"),
    ]


def _figures(one: Document) -> list[str]:
    shares = [f"{one[key]:.1%}" for key in ("nothing_fits", "nothing_fits_named", "kept")]
    keys = ("auc_found", "auc_unrelated", "auc_hits", "brier", "ece", "ece_all")
    return [*shares, *(f"{one[key]:.3f}" for key in keys)]


def plot(document: Document, path: Path) -> None:
    """The reliability of the score."""
    found = document["all"]["reliability"]
    with figure(path, width=4.2, height=3.6) as (axes,):
        axes.plot([0, 1], [0, 1], color="#8a959c", linewidth=1, linestyle="--", label="perfect")
        sizes = [30 + 900 * one["share"] for one in found]
        said, true = [one["said"] for one in found], [one["true"] for one in found]
        axes.plot(said, true, color=OURS, linewidth=1.5)
        axes.scatter(
            said, true, s=sizes, color=OURS, alpha=0.8, label="the first ten hits, in tenths", zorder=3
        )
        axes.set(xlabel="score", ylabel="share that can be appended", xlim=(0, 1), ylim=(0, 1.02))
        axes.set_title(f"Reliability: Brier {document['all']['brier']:.3f}, ECE {document['all']['ece']:.3f}")
        axes.legend(loc="upper left", markerscale=0.4)
