"""What shaping identifiers is worth: the same generator on identifiers of five kinds, trained with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from gentus.index.build import build
from gentus.index.evaluate import evaluate_index
from gentus.progress import Progress
from gentus.settings import BuildSettings, Variant, preset_settings
from gentus_bench.plots import bars, figure
from gentus_bench.results import Results


def measure_identifiers(
    lake: Path,
    labels: Path,
    groundtruth: Path,
    k: int,
    results: Results,
    name: str,
    *,
    variants: Sequence[Variant] = get_args(Variant),
    time_budget: float | None = None,
    seeds: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """MAP by kind of identifier. The generator ranks, with the prior where codes mean something."""
    rows: dict[str, list[dict[str, Any]]] = {variant: [] for variant in variants}
    for variant in variants:
        for seed in range(seeds):
            usual = preset_settings("trained", seed)
            assert usual.generation is not None
            generation = replace(usual.generation, always=True)
            settings = replace(usual, identifiers=variant, names=False, generation=generation)
            folder = index_folder(results, name, variant, seed)

            def measure(settings: BuildSettings = settings, folder: Path = folder) -> dict[str, Any]:
                with build(
                    lake, folder, labels, settings=settings, time_budget=time_budget, progress=progress
                ) as index:
                    report = evaluate_index(index, groundtruth, k).metrics.to_dict()
                    generator = index.info()["generator"]
                return {**report, "held_out_map": generator["held_out_map"], "chosen": generator["chosen"]}

            what = {"variant": variant, "k": k, "seed": seed, "time_budget": time_budget}
            rows[variant].append(results.measured(f"identifiers-{name}-{variant}-{seed}", what, measure))
    document = {"k": k, "lake": name, "rows": rows}
    results.write_table(f"identifiers-{name}", markdown(document))
    plot(document, results.folder / f"identifiers-{name}")
    return document


def index_folder(results: Results, name: str, variant: Variant, seed: int = 0) -> Path:
    """Where the index of a variant is kept, for other experiments to look at."""
    return results.folder / "indexes" / f"identifiers-{name}-{variant}-{seed}"


def _mean(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(sum(row[key] for row in rows) / len(rows))


def markdown(document: Mapping[str, Any]) -> str:
    """The document as a table, with what semantic identifiers gain over each kind, as the paper tells it."""
    k = document["k"]
    gained = gains(document)
    lines = [
        f"| identifiers | MAP@{k} | R@{k} | semantic gains | ranked by |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for variant, rows in document["rows"].items():
        mean = _mean(rows, "map")
        gain = f"{gained[variant]:+.3f}" if variant in gained else ""
        lines.append(
            f"| {variant} | {mean:.4f} | {_mean(rows, 'recall'):.3f} | {gain} | {rows[0]['chosen']} |"
        )
    return "\n".join(lines)


def gains(document: Mapping[str, Any]) -> dict[str, float]:
    """MAP that semantic identifiers have more than each other kind; nothing while they are not measured."""
    rows = document["rows"]
    if not rows.get("semantic"):
        return {}
    ours = _mean(rows["semantic"], "map")
    return {variant: ours - _mean(found, "map") for variant, found in rows.items() if variant != "semantic"}


def draw(axes: Any, document: Mapping[str, Any]) -> None:
    """MAP of each kind, best first."""
    values = {
        ("GenTUS: " if variant == "semantic" else "") + variant: _mean(rows, "map")
        for variant, rows in document["rows"].items()
    }
    ordered = dict(sorted(values.items(), key=lambda item: -item[1]))
    bars(axes, ordered, xlabel=f"MAP@{document['k']}", title=f"{document['lake']}: kinds of identifiers")


def plot(document: Mapping[str, Any], path: Path) -> None:
    """MAP of each kind."""
    with figure(path, height=2.6) as (axes,):
        draw(axes, document)
