"""Figures that the paper prints ("Generative Retrieval for Table Union Search"), to stand beside ours.

Only what its text and tables give as numbers is here. What is drawn and not printed is left out: precision
and recall over k, most build and query times and storage sizes, MAP at D1 to D4, the beam-width curves. What
the text rounds has `about` set. All are of the authors' runs on eight A100 GPUs; none is
measured by this project.

How the paper's MAP was computed is open: by its definition, precision averaged over all answers, MAP cannot
exceed recall, yet on TUS_small it prints MAP 0.997 with recall 0.342. So its `map` is best read beside `map`
(over min(k, answers)) and `map_prefix` (the Starmie code's) of `gentus.metrics`, never beside `map_full`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

SOURCE = "Generative Retrieval for Table Union Search (Zhang et al.)"
BENCHMARKS = (
    "TUS_small",
    "TUS_large",
    "SANTOS_small",
    "SANTOS_large",
    "wiki_union",
    "LakeBench_1k",
    "LakeBench_30k",
)
K = dict(zip(BENCHMARKS, (60, 60, 10, 20, 40, 60, 60), strict=True))
AVERAGE_RANK = {
    "Sherlock": 5.00,
    "LIFTus": 4.38,
    "SATO": 4.12,
    "Starmie": 3.88,
    "TACTUS": 2.57,
    "GenTUS": 1.05,
}  # over all benchmarks and the three metrics (tab:main)


@dataclass(frozen=True, slots=True)
class Item:
    """A figure or table of the paper."""

    label: str  # as its source has it
    name: str  # as readers see it
    caption: str  # in our words


ITEMS = (
    Item("fig:intro", "Figure 1", "an example of table union search"),
    Item("fig:compare", "Figure 2", "earlier methods and GenTUS"),
    Item("fig:overview", "Figure 3", "overview of the method"),
    Item("fig:sid", "Figure 4", "how identifiers are made"),
    Item("tab:datasets", "Table 1", "sizes of the lakes"),
    Item("tab:main", "Table 2", "MAP, P and R at the usual k, and average ranks"),
    Item("fig:e2", "Figure 5", "precision and recall as k grows"),
    Item("fig:e3", "Figure 6", "time to build"),
    Item("fig:e4", "Figure 7", "time to answer"),
    Item("fig:e5", "Figure 8", "storage of what a search needs"),
    Item("tab:model-weights", "Table 3", "storage when serving, weights of models included"),
    Item("fig:dyn", "Figure 9", "tables that come later: MAP from D1 to D5, update to first query"),
    Item("tab:robustness", "Table 4", "MAP by the size of the candidate pool"),
    Item("tab:abl-sid", "Table 5", "what semantic identifiers gain over other kinds"),
    Item("tab:prefix-decoding", "Table 6", "what prefix constraints are worth"),
    Item("fig:e12", "Figure 10", "beam width: MAP and time"),
)


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


_METRICS = ("map", "precision", "recall")
_MAIN = {  # tab:main: MAP, P and R at the standard k of each benchmark, in the order of BENCHMARKS
    "Sherlock": ".970 .974 .333  .736 .741 .167  .874 .884 .713  .301 .304 .414  .105 .187 .157"
    "  .368 .164 .595  .364 .161 .588",
    "LIFTus": ".972 .977 .334  .989 .992 .237  .962 .941 .702  .453 .357 .467  .347 .254 .209"
    "  .107 .054 .193  .109 .053 .191",
    "SATO": ".976 .979 .335  .929 .942 .224  .850 .870 .701  .331 .339 .449  .160 .224 .192"
    "  .364 .165 .596  .373 .163 .591",
    "Starmie": ".977 .983 .335  .913 .923 .215  .967 .968 .784  .393 .396 .510  .284 .429 .348"
    "  .304 .090 .337  .296 .083 .323",
    "TACTUS": ".994 .988 .330  .984 .973 .252  .986 .972 .729  .468 .439 .575  .654 .624 .507"
    "  .434 .160 .559  .437 .164 .570",
    "GenTUS": ".997 .997 .342  .997 .998 .238  .988 .989 .804  .532 .558 .666  .704 .773 .638"
    "  .602 .238 .766  .613 .240 .765",
}
_STD = (  # of GenTUS in tab:main
    ".0032 .0027 .0008  .0007 .0004 .0001  .0087 .0077 .0073  .0268 .0115 .0129  .0427 .0387 .0243"
    "  .0228 .0031 .0222  .0229 .0050 .0044"
)
_DATASETS = {  # tab:datasets
    "tables": "1530 5043 550 11090 40752 7970 7970",
    "columns": "14810 54923 6322 123477 106744 151572 151572",
    "columns_mean": "9.7 10.9 11.5 11.1 2.6 19.0 19.0",
    "rows_mean": "4466 1915 6921 7675 51 936 19138",
}
_ABLATION = {  # tab:abl-sid: MAP of unionability-aware identifiers minus MAP of the variant
    "ordinary RQ": ".266 .031 -.002 .225 .177 .108 .110",
    "random": ".518 .911 .424 .486 .073 .237 .243",
    "atomic": ".394 .814 .213 .745 .688 .288 .247",
    "no suffix": ".118 .167 .058 .238 .246 .299 .342",
}
_PREFIX = {  # tab:prefix-decoding
    "invalid_rate": ".005 .004 .128 .604 .242 .379 .395",
    "added_relevant_per_query": ".000 .033 .580 6.257 7.480 .533 .588",
    "map_gain": ".000 .001 .057 .403 .198 .021 .022",
    "recall_gain": ".000 .000 .049 .406 .154 .039 .034",
}
_ROBUST_METHODS = ("GenTUS", "TACTUS", "Starmie", "Sherlock", "SATO")
_ROBUST = {  # tab:robustness: MAP by size of the candidate pool; TACTUS on full lakes differs from tab:main
    ("LakeBench_1k", 1000): ".627 .426 .270 .394 .405",
    ("LakeBench_1k", 2500): ".634 .432 .291 .411 .412",
    ("LakeBench_1k", 5000): ".627 .432 .303 .391 .385",
    ("LakeBench_1k", 7970): ".602 .429 .304 .368 .364",
    ("LakeBench_30k", 1000): ".651 .417 .272 .415 .422",
    ("LakeBench_30k", 2500): ".637 .429 .282 .398 .415",
    ("LakeBench_30k", 5000): ".632 .427 .299 .388 .399",
    ("LakeBench_30k", 7970): ".613 .430 .296 .364 .373",
}
_STORAGE = {"GenTUS": 866, "TACTUS": 642, "Starmie": 1076, "Sherlock": 1405, "SATO": 1793, "LIFTus": 60000}
_EFFICIENCY, _DYNAMIC = "sec:exp:efficiency", "sec:exp:dynamic"
_TEXT = [  # what the running text says; where it does not name a baseline, neither do we
    Figure("TUS_small", "GenTUS", "build_seconds", 71, _EFFICIENCY),
    Figure("TUS_small", "next fastest", "build_seconds", 463, _EFFICIENCY),
    Figure("SANTOS_large", "GenTUS", "build_seconds", 1410, _EFFICIENCY),
    Figure("SANTOS_large", "next fastest", "build_seconds", 1534, _EFFICIENCY),
    Figure("LakeBench_1k", "TACTUS", "build_seconds", 66204, _EFFICIENCY),
    Figure("LakeBench_30k", "TACTUS", "build_seconds", 36741, _EFFICIENCY),
    Figure("LakeBench_1k", "GenTUS", "build_seconds", 1060, _EFFICIENCY, setting="1060 to 1085", about=True),
    Figure("LakeBench_30k", "GenTUS", "build_seconds", 1060, _EFFICIENCY, setting="1060 to 1085", about=True),
    Figure("SANTOS_large", "GenTUS", "queries_seconds", 72.6, _EFFICIENCY),
    Figure("SANTOS_large", "TACTUS", "queries_seconds", 4434, _EFFICIENCY),
    Figure("LakeBench_1k", "GenTUS", "queries_seconds", 1849, _EFFICIENCY),
    Figure("LakeBench_1k", "unnamed baseline", "queries_seconds", 66692, _EFFICIENCY),
    Figure("SANTOS_large", "GenTUS", "artifacts_mb", 12.6, _EFFICIENCY),
    Figure("SANTOS_large", "Starmie", "artifacts_mb", 746.6, _EFFICIENCY),
    Figure("TUS_large", "GenTUS", "map", 0.965, _DYNAMIC, setting="D5"),
    Figure("TUS_large", "next best", "map", 0.741, _DYNAMIC, setting="D5"),
    Figure("wiki_union", "GenTUS", "map", 0.511, _DYNAMIC, setting="D5"),
    Figure("wiki_union", "next best", "map", 0.318, _DYNAMIC, setting="D5"),
    *(
        Figure(lake, method, "map", value, _DYNAMIC, setting="D5", about=True)
        for lake in ("LakeBench_1k", "LakeBench_30k")
        for method, value in (("GenTUS", 0.48), ("next best", 0.42))
    ),
    Figure("LakeBench_30k", "GenTUS", "update_to_first_query_seconds", 49, _DYNAMIC, setting="D5"),
    Figure("LakeBench_30k", "TACTUS", "update_to_first_query_seconds", 191, _DYNAMIC, setting="D5"),
    Figure("LakeBench_30k", "Starmie", "update_to_first_query_seconds", 4 * 3600, _DYNAMIC, None, "D5", True),
]


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]


def _main() -> Iterator[Figure]:
    deviations = _numbers(_STD)
    for method, text in _MAIN.items():
        for at, value in enumerate(_numbers(text)):
            std = deviations[at] if method == "GenTUS" else None
            yield Figure(BENCHMARKS[at // 3], method, _METRICS[at % 3], value, "tab:main", std)


def _by_benchmark() -> Iterator[Figure]:
    for metric, text in _DATASETS.items():
        for benchmark, value in zip(BENCHMARKS, _numbers(text), strict=True):
            yield Figure(benchmark, "", metric, value, "tab:datasets")
    for variant, text in _ABLATION.items():
        for benchmark, value in zip(BENCHMARKS, _numbers(text), strict=True):
            yield Figure(benchmark, "GenTUS", "map_gain", value, "tab:abl-sid", setting=f"over {variant}")
    for metric, text in _PREFIX.items():
        for benchmark, value in zip(BENCHMARKS, _numbers(text), strict=True):
            yield Figure(benchmark, "GenTUS", metric, value, "tab:prefix-decoding")


def _rest() -> Iterator[Figure]:
    for (benchmark, pool), text in _ROBUST.items():
        for method, value in zip(_ROBUST_METHODS, _numbers(text), strict=True):
            yield Figure(benchmark, method, "map", value, "tab:robustness", setting=f"{pool:,} tables")
    for method, size in _STORAGE.items():
        table = "tab:model-weights"  # with the weights of the models; of LIFTus "more than"
        yield Figure("wiki_union", method, "serving_mb", size, table, about=method == "LIFTus")


FIGURES = (*_main(), *_by_benchmark(), *_rest(), *_TEXT)


# MAP@k that others' own result files of a benchmark reach, scored as `map` is here.
_ELSEWHERE = {"ugen_v1": {"Starmie": (10, 0.382), "SANTOS": (10, 0.357), "D3L": (10, 0.135)}}


def rows_for(benchmark: str) -> list[dict[str, Any]]:
    """Give what others published of a benchmark, a row a method: the paper's main table, or elsewhere."""
    rows: dict[str, dict[str, Any]] = {
        method: {
            "method": method,
            "source": "published",
            "table": "their own result files",
            "k": k,
            "map": value,
        }
        for method, (k, value) in _ELSEWHERE.get(benchmark, {}).items()
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
