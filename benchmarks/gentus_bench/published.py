"""Figures that the paper prints ("Generative Retrieval for Table Union Search"), to compare ours with.

`published.json` has what its text and tables give as numbers, not what is only drawn (precision and recall
over k, most build and query times and storage sizes, MAP at D1 to D4, the beam-width curves). What the text
rounds has `about` set. All are of the authors' runs on eight A100 GPUs; none is measured by this project.

How the paper's MAP was computed is open: by its definition, precision averaged over all answers, MAP cannot
exceed recall, yet on TUS_small it prints MAP 0.997 with recall 0.342. So its `map` is best compared with
`map` (over min(k, answers)) and `map_prefix` (the Starmie code's) of `gentus.metrics`, never with
`map_full`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

K = {
    "TUS_small": 60,
    "TUS_large": 60,
    "SANTOS_small": 10,
    "SANTOS_large": 20,
    "wiki_union": 40,
    "LakeBench_1k": 60,
    "LakeBench_30k": 60,
}  # of the paper's benchmarks
BENCHMARKS = tuple(K)


@dataclass(frozen=True, slots=True)
class Figure:
    """One published number."""

    benchmark: str
    method: str
    metric: str
    value: float
    table: str  # the label that the paper's source gives the table, or the section whose text says it
    std: float | None = None  # over three runs, where given
    setting: str = ""  # a pool size, an update step, an ablated variant
    about: bool = False  # the text rounds it, or gives a bound


FIGURES = tuple(Figure(**row) for row in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")))

# MAP@10 that the authors' own result files of a benchmark reach, scored as `map` is here.
_AUTHORS = {
    "ugen_v1": {"Starmie": 0.382, "SANTOS": 0.357, "D3L": 0.135},
    "ugen_v1_validated": {"Starmie": 0.646},
    "ugen_v2": {"Starmie": 0.480, "SANTOS": 0.248, "D3L": 0.068},
    "SANTOS_small": {"SANTOS": 0.896, "D3L": 0.436},  # of the 525 tables that could be had
}
AUTHORS = "authors' own result files, MAP@10"
CONDITIONS = (
    "Published figures are of the paper's authors: BERT-base, T5-base, 30 epochs, eight A100, on the whole"
    " benchmarks with their own split of the labels."
)


def rows_for(benchmark: str) -> list[dict[str, Any]]:
    """Give what others published of a benchmark, a row per method: the paper's main table, or elsewhere."""
    rows: dict[str, dict[str, Any]] = {
        method: {
            "method": method,
            "source": "published",
            "table": AUTHORS,
            "k": 10,
            "map": value,
        }
        for method, value in _AUTHORS.get(benchmark, {}).items()
    }
    for figure in FIGURES:
        if figure.benchmark == benchmark and figure.table == "tab:main":
            row = rows.setdefault(
                figure.method,
                {"method": figure.method, "source": "published", "table": figure.table, "k": K[benchmark]},
            )
            row[figure.metric] = figure.value
    if "GenTUS" in rows:  # ours has the same name
        rows["GenTUS"]["method"] = "GenTUS (paper)"
    return list(rows.values())


def figures(benchmark: str | None = None, table: str | None = None) -> list[dict[str, Any]]:
    """Give the published figures of a benchmark, a table or both, each marked as published."""
    return [
        {"source": "published", **asdict(figure)}
        for figure in FIGURES
        if benchmark in (None, figure.benchmark) and table in (None, figure.table)
    ]
