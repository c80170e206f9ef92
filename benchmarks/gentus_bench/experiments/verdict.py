"""Verdicts: whether a search says what fits, and that nothing does.

Every lake is asked its own queries and queries of the other lakes, which have no answer there; what a ground
truth does not list counts as no answer, though web tables of two lakes can be about the same things. The
weights that judge a lake are learnt without it and without its queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.align.second_look import LookWeights, table_features
from gentus.align.verdict import MATCH, VerdictWeights
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


@dataclass(frozen=True, slots=True)
class Options:
    """How many queries."""

    queries: int = 100  # of each lake
    foreign: int = 40  # of them that every other lake is asked
    ship: str = ""  # a file for the weights that all lakes together give


def run(request: Request, options: Options) -> Iterator[Document]:
    """Judge every lake by weights learnt on the others."""
    chosen = judged(list(request.benchmarks()))
    folder = request.results.folder / "indexes" / "verdict"
    lakes = list(collect(chosen, folder, options.queries, options.foreign, request.progress))
    found: dict[str, Document] = {}
    every: list[tuple[Look, LookWeights]] = []
    for lake in lakes:
        name = lake.benchmark.name
        others = [look for one in lakes for look in one.looks if name not in (look.lake, look.asked)]
        weights = learn(others, {"left_out": name})
        found[name] = _lake(lake, weights) | {"signature_bytes": lake.signature_bytes}
        every += [(look, weights.look_weights()) for look in lake.looks]
    what = {"lakes": list(found), "queries": options.queries, "foreign": options.foreign}
    yield request.results.combined("verdict", what, {"by_lake": found, "all": _together(every, found)})
    if options.ship:
        import json

        looks = [look for lake in lakes for look in lake.looks]
        facts = {"lakes": what["lakes"], "queries": options.queries, "foreign": options.foreign}
        text = json.dumps(learn(looks, facts).to_dict(), indent=1)
        Path(options.ship).write_text(text + "\n", encoding="utf-8")


def judged(benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
    """Every lake once: where people have validated its ground truth, by that."""
    names = {one.name for one in benchmarks}
    return [one for one in benchmarks if f"{one.name}_validated" not in names]


def _lake(lake: LakeLooks, learnt: VerdictWeights) -> Document:
    """What verdicts are worth on one lake."""
    weights, threshold, k = learnt.look_weights(), learnt.fits, lake.benchmark.k
    kept, first, nothing, named = [], [], [], []
    orders: dict[str, dict[str, list[str]]] = {"generated": {}, "aligned": {}}
    for look in lake.looks:
        said = probabilities(look, weights)
        found = np.flatnonzero(look.ranks < NOT_FOUND)
        matches = table_features(matches_of(look, weights))[found, MATCH]
        order = found[aligned_order(look.generated[found].tolist(), matches.tolist())]
        if not look.own:
            nothing.append(not bool((said[order[:SHOWN]] >= threshold).any()))
            by_names = probabilities(look, weights, names=True)[order[:SHOWN]]
            named.append(not bool((by_names >= threshold).any()))
            continue
        orders["generated"][look.query] = [look.tables[at] for at in found.tolist()]
        orders["aligned"][look.query] = [look.tables[at] for at in order.tolist()]
        first.append(bool(look.answers[order[0]]))
        if first[-1]:
            kept.append(bool(said[order[0]] >= threshold))
    truth = {query: lake.benchmark.truth[query] for query in orders["aligned"]}
    return {
        "threshold": threshold,
        "queries": len(first),
        "foreign": len(nothing),
        "nothing_fits": float(np.mean(nothing)),
        "nothing_fits_named": float(np.mean(named)),
        "first_is_answer": float(np.mean(first)),
        "kept": float(np.mean(kept)),
        **{f"map_{name}": score(found, truth, k).map for name, found in orders.items()},
        **_separation([(look, weights) for look in lake.looks]),
    }


def _together(every: Sequence[tuple[Look, LookWeights]], lakes: dict[str, Document]) -> Document:
    """All lakes: of queries every one counts alike, of calibration every lake."""
    counts = list(lakes.values())
    return {
        "nothing_fits": _mean(counts, "nothing_fits", [one["foreign"] for one in counts]),
        "nothing_fits_named": _mean(counts, "nothing_fits_named", [one["foreign"] for one in counts]),
        "kept": _mean(counts, "kept", [one["queries"] * one["first_is_answer"] for one in counts]),
        "map_gain": float(np.mean([one["map_aligned"] - one["map_generated"] for one in counts])),
        **_separation(every),
        "reliability": _reliability(*_shown(every)),
    }


def _mean(rows: Sequence[Document], key: str, weights: Sequence[float]) -> float:
    return float(np.average([row[key] for row in rows], weights=weights))


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
        rows.append([name, *_figures(one), f"{one['threshold']:.2f}"])
        gain = one["map_aligned"] - one["map_generated"]
        figures = [f"{one['map_generated']:.4f}", f"{one['map_aligned']:.4f}", f"{gain:+.4f}"]
        orders.append([name, *figures, f"{one['signature_bytes']:.0f}"])
    rows.append(["all", *_figures(document["all"]), ""])
    orders.append(["mean", "", "", f"{document['all']['map_gain']:+.4f}", ""])
    what = document["what"]
    columns = ["lake, left out of learning", "queries of other lakes: nothing fits", "with names"]
    columns += ["true first hits kept"]
    columns += ["AUC, found answers / unrelated", "AUC, all answers / unrelated", "AUC among own hits"]
    columns += ["Brier", "ECE", "ECE, all hits", "threshold"]
    unlisted = ", ".join(name for name in what["lakes"] if name in UNLISTED_MAY_FIT)
    note = (
        f"Up to {what['queries']} own queries of every lake, and {what['foreign']} of every other lake, names"
        " hidden. Unrelated: what queries of other lakes find, and tables by chance. Brier score and expected"
        f" calibration error (ECE) are of the first {SHOWN} hits; queries with and without answer weigh the"
        f" same. Hits that the ground truths of {unlisted} may have missed count in the last column only."
    )
    title = "Verdicts of weights that were learnt without the lake and its queries"
    ordered = ["lake", "MAP, generated", "MAP, aligned", "gain", "bytes a column"]
    return [Table(columns, rows, title, note), Table(ordered, orders, "The order, by the same weights")]


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
