"""The public benchmarks as they are published or unpacked, recognised by their files.

Each row of `LAYOUTS` is one way in which a benchmark is published or unpacked: the original archives, the
layouts that the SANTOS and the Starmie code expect, and `benchmark.pkl` as later collections have it. Names
are compared without regard to case, since `dataLake` and `datalake` both exist.
"""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path

from gentus.lake import Source, scan
from gentus_bench.lakes.truths import Truth, load_labelled, load_truth, resolved, write_truth
from gentus_bench.published import K

PLAIN_K = 10
OURS_K = {
    "t2d": 10,
    "tus_tidy": 20,
    "ugen_v1": 10,
    "webtable_union": 20,
    "wiki_like": 40,
}  # lakes of this project's figures
NAMES_ARE_LABELS = ("tus_tidy", "webtable_union", "wiki_like")  # their ground truth was made with headers
UNLISTED_MAY_FIT = ("webtable_union", "wiki_like")  # tables that can be unioned may be missing in the truth
UNSEEN = "groundtruth_train_unseen.csv"  # labels of which none names a query of the truth
VALIDATED = "groundtruth_validated.csv"  # a second ground truth, as people have judged it
_BY_FOLDER = (  # what a folder in one of the layouts that any benchmark may have is called
    ("tus([-_]?(small|large))?", "TUS"),
    ("santos([-_]?small)?", "SANTOS_small"),
    ("santos[-_]?large", "SANTOS_large"),
    ("(lb|lakebench)([-_]?opendata)?([-_]?(1k|1000|30k|30000))?", "LakeBench"),
)
_LAKES = ("datalake", "data_lake", "tables", "csvs")
_QUERIES = ("query", "queries", "query_table", "query_tables")
_SANTOS_REPO = "../../groundtruth"  # seen from benchmark/NAME in a clone of the SANTOS repository


class UnknownBenchmarkError(ValueError):
    """A folder that has none of the known layouts."""


@dataclass(frozen=True)
class Benchmark:
    """A lake with its queries and its ground truth."""

    name: str  # as the paper calls it, or the folder's name
    lake: Path  # a folder of tables, or one database
    queries: Path | None  # None: they lie in the lake
    truth: Truth
    k: int
    labels: Truth | None = None  # pairs to learn from, none of which names a query of the truth
    annotated: Truth | None = None  # pairs of other queries, some of which name one as a candidate
    evidence: str = ""  # which files it was recognised by
    notes: tuple[str, ...] = ()  # what to know before comparing figures

    @property
    def named(self) -> bool:
        """Whether names of columns may be used."""
        return self.name not in NAMES_ARE_LABELS

    @cached_property
    def digest(self) -> str:
        """Of all data: names, sizes and times of the files, pairs of ground truth and labels."""
        found = sha256(json.dumps([self.truth, self.labels, self.annotated], sort_keys=True).encode())
        for folder in filter(None, (self.lake, self.queries)):
            for item in scan(folder):
                if isinstance(item, Source):
                    found.update(f"{item.name} {item.size} {item.mtime_ns}\n".encode())
        return found.hexdigest()[:16]

    def write(self, folder: Path) -> tuple[Path, Path | None]:
        """Write ground truth and labels, whatever they were read from, as the files that a build takes."""
        labels = write_truth(self.labels, folder / f"{self.name}-train.csv") if self.labels else None
        return write_truth(self.truth, folder / f"{self.name}.csv"), labels

    def write_annotated(self, folder: Path) -> Path | None:
        """Write the labels that name queries of the ground truth."""
        return write_truth(self.annotated, folder / f"{self.name}-annotated.csv") if self.annotated else None


@dataclass(frozen=True, slots=True)
class Layout:
    """How a benchmark folder_of_queries in its folder; of several patterns the first that fits counts."""

    name: str
    truth: tuple[str, ...]
    lake: tuple[str, ...] = _LAKES
    queries: tuple[str, ...] = _QUERIES
    folder: str = ""  # what the name of the folder or the one above has to look like


_TUS_TRUTH = (
    *("tus-groundtruth/tusLabeled*UnionBenchmark*", "sampled/tusLabeled*UnionBenchmark*"),
    *("tusLabeled*UnionBenchmark*", "tus*UnionBenchmark.pickle", "TUS_benchmark_relabeled_groundtruth.csv"),
    *("*groundtruth/att_groundtruth.csv", "att_groundtruth.csv", "*groundtruth/alignment_groundtruth.csv"),
)
_OPENDATA = ("opendata_union_ground_truth.csv", "*groundtruth/opendata_union_ground_truth.csv")
_WEBTABLE = tuple(name.replace("opendata", "webtable") for name in _OPENDATA)
_PICKLES = (
    "benchmark.pkl",
    "groundtruth.pickle",
    "groundtruth.pkl",
    "*UnionBenchmark.pickle",
    "*UnionBenchmark.pkl",
)
_PLAIN = (
    "groundtruth_dev.csv",
    "groundtruth.csv",
    "groundtruth_test.csv",
    "ground_truth.csv",
    "groundtruth*.csv",
)

LAYOUTS = (
    Layout(  # as its authors publish it: one database of tables, one of the ground truth
        "TUS",
        ("groundtruth/*.sqlite", "groundtruth.sqlite", "data/groundtruth.sqlite"),
        ("data/benchmark.sqlite", "benchmark.sqlite"),
        (),
    ),
    Layout(
        "TUS", _TUS_TRUTH, ("benchmark", "csv_benchmark", "csvfiles", *_LAKES), (*_QUERIES, "santos-query")
    ),
    Layout("TUS", (f"{_SANTOS_REPO}/tusUnionBenchmark.pickle",), folder="tus_benchmark"),
    Layout("SANTOS_small", ("santos_small_benchmark_groundtruth.csv", "santosUnionBenchmark.pickle")),
    Layout(
        "SANTOS_small", (f"{_SANTOS_REPO}/santosUnionBenchmark.pickle",), folder="(santos|labeled)_benchmark"
    ),
    Layout("SANTOS_large", ("real_tablesUnionBenchmark*.pickle",)),
    Layout(
        "SANTOS_large",
        (f"{_SANTOS_REPO}/real_tablesUnionBenchmark.pickle",),
        folder="real_(tables|data_lake)_benchmark",
    ),
    Layout("LakeBench", _OPENDATA, (*_LAKES, "datasets", "opendata*"), ("opendata_union_query", *_QUERIES)),
    Layout("LakeBench_webtable", _WEBTABLE, (*_LAKES, "webtable*"), ("webtable_union_query", *_QUERIES)),
    Layout("wiki_union", (*_PICKLES, *_PLAIN, "labels.json"), folder="wiki[-_]?union"),
    Layout("", _PICKLES),
    Layout("", _PLAIN),
)


def recognise(folder: Path, k: int | None = None) -> Benchmark:
    """Recognise a benchmark by its files and read its ground truth. Without `k`, its standard one is used."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for layout in LAYOUTS:
        names = (folder.resolve().name, folder.resolve().parent.name)
        if layout.folder and not any(re.fullmatch(layout.folder, name, re.IGNORECASE) for name in names):
            continue
        truth, lake = _file(folder, layout.truth), _lake(folder, layout.lake)
        if truth and lake:
            return _read(folder, layout, lake, _lake(folder, layout.queries), truth, k)
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    if len(inner) == 1:  # archives are often unpacked into a folder of the same name
        with contextlib.suppress(UnknownBenchmarkError):
            return recognise(inner[0], k)
    raise UnknownBenchmarkError(_missing(folder))


def find(data: Path, names: Sequence[str] | None = None, k: int | None = None) -> Iterator[Benchmark]:
    """The benchmarks in a folder, by name or all of them; or the one that the folder itself is."""
    if names:
        for name in names:
            yield from _both(recognise(data / name, k), data / name)
        return
    try:
        yield from _both(recognise(data, k), data)
        return
    except ValueError as error:
        missing = error
    found = False
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        with contextlib.suppress(ValueError):
            benchmark = recognise(folder, k)
            found = True
            yield from _both(benchmark, folder)
    if not found:
        raise missing


def _both(benchmark: Benchmark, folder: Path) -> Iterator[Benchmark]:
    """A benchmark, and the same lake with the ground truth that people have validated, where there is one."""
    yield benchmark
    if (file := folder / VALIDATED).is_file():
        tables = [item.name for item in scan(benchmark.lake) if isinstance(item, Source)]
        folder_of_queries = benchmark.queries or benchmark.lake
        query_names = [item.name for item in scan(folder_of_queries) if isinstance(item, Source)]
        truth = resolved(load_truth(file), tables, query_names)
        evidence = f"{benchmark.lake.name} and {VALIDATED}"
        yield replace(benchmark, name=f"{benchmark.name}_validated", truth=truth, evidence=evidence)


def _read(
    folder: Path, layout: Layout, lake: Path, queries: Path | None, file: Path, k: int | None
) -> Benchmark:
    tables = [item.name for item in scan(lake) if isinstance(item, Source)]
    query_names = (
        tables if queries is None else [item.name for item in scan(queries) if isinstance(item, Source)]
    )
    truth = resolved(load_truth(file), tables, query_names)
    labels: Truth | None = None
    annotated: Truth | None = None
    notes: list[str] = []
    if file.name.lower() == "labels.json":
        labels = resolved(load_labelled(file, ["train"]), tables, query_names)
        notes.append(
            "labels.json has pairs to classify, of which the positive ones of the test part are the ground"
            " truth here: far fewer answers than a search benchmark has, so published figures do not compare"
        )
    elif file.name.lower() == "groundtruth_dev.csv":
        for train in filter(None, (_file(folder, (name,)) for name in ("groundtruth_train.csv", UNSEEN))):
            labels = resolved(load_truth(train), tables, query_names)
            notes.append(_overlap(train.name, labels, truth))
            annotated = annotated or labels
    # Pairs that name a query that is scored, on either side, would give its answers away.
    labels = {
        query: left
        for query, found in (labels or {}).items()
        if query not in truth and (left := [table for table in found if table not in truth])
    }
    annotated = {query: found for query, found in (annotated or {}).items() if query not in truth}
    name = _name(layout.name, folder, file, lake, len(tables))
    if name == "LakeBench":
        notes.append("its tables have more than 30,000 rows: not cut as the paper's two LakeBench lakes are")
    evidence = f"{lake.relative_to(folder)} and {file.name}" + (
        f", queries in {queries.name}" if queries else ""
    )
    annotated = annotated if annotated != labels else None
    learnt_from = labels or None, annotated or None
    return Benchmark(name, lake, queries, truth, k or _k(name), *learnt_from, evidence, tuple(notes))


def _overlap(file: str, labels: Truth, truth: Truth) -> str:
    """How far labels name the queries of a ground truth, and its pairs, in both directions."""
    pairs = {(query, table) for query, found in labels.items() for table in found}
    asked = [(query, table) for query, found in truth.items() for table in found]
    naming = [pair for pair in pairs if pair[0] in truth or pair[1] in truth]
    same, turned = (sum(pair[::step] in pairs for pair in asked) for step in (1, -1))
    return (
        f"{file}: {len(naming):,} of its {len(pairs):,} pairs name a query of the ground truth and are left"
        f" out; of {len(asked):,} pairs of the ground truth, {same:,} stand in it,"
        f" {turned:,} the other way round"
    )


def _name(known: str, folder: Path, file: Path, lake: Path, tables: int) -> str:
    """Complete the name where one layout serves a small and a large lake, or any."""
    own = folder.resolve().name
    words = set(re.split(r"[^a-z0-9]+", f"{folder.resolve().parent.name} {own}".lower()))
    if not known:
        known = next((name for look, name in _BY_FOLDER if re.fullmatch(look, own, re.IGNORECASE)), own)
    if known == "TUS":
        size = file.name.lower() + own.lower()
        if "large" in size or words & {"large", "5000"}:
            return "TUS_large"
        small = "small" in size or words & {"small", "1300"} or tables < 3000
        return "TUS_small" if small else "TUS_large"
    if known == "LakeBench":
        if words & {"1k", "1000"} or words & {"30k", "30000"}:
            return "LakeBench_1k" if words & {"1k", "1000"} else "LakeBench_30k"
        longest = _longest(lake)
        return "LakeBench_1k" if longest <= 1000 else "LakeBench_30k" if longest <= 30_000 else "LakeBench"
    return known


def _k(name: str) -> int:
    return K.get(name) or OURS_K.get(name) or (60 if name.startswith("LakeBench") else PLAIN_K)


def _longest(lake: Path) -> int:
    """Return the rows of the longest of the largest files, as far as it matters here."""
    files = [item for item in scan(lake) if isinstance(item, Source)]
    most = 0
    for item in sorted(files, key=lambda one: -one.size)[:20]:
        with item.file.open(encoding="utf-8", errors="replace", newline="") as file:
            most = max(most, sum(1 for _ in islice(csv.reader(file), 30_002)) - 1)
    return most


def _file(folder: Path, patterns: Sequence[str]) -> Path | None:
    return next((path for path in _all(folder, patterns) if path.is_file()), None)


def _lake(folder: Path, patterns: Sequence[str]) -> Path | None:
    return next((path for path in _all(folder, patterns) if path.is_dir() or path.suffix == ".sqlite"), None)


def _all(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for pattern in patterns:
        yield from _matching(folder, pattern.split("/"))


def _matching(folder: Path, parts: list[str]) -> Iterator[Path]:
    if not parts:
        yield folder
    elif parts[0] == "..":
        yield from _matching(folder.resolve().parent, parts[1:])
    elif folder.is_dir():
        for path in sorted(folder.iterdir()):
            if fnmatch(path.name.lower(), parts[0].lower()) and (len(parts) == 1 or path.is_dir()):
                yield from _matching(path, parts[1:])


def _missing(folder: Path) -> str:
    """Say what was looked for, and what of it is there."""
    lakes = list(dict.fromkeys(name for layout in LAYOUTS for name in layout.lake))
    truths = list(dict.fromkeys(name for layout in LAYOUTS for name in layout.truth))
    lake, truth = _lake(folder, lakes), _file(folder, [name for name in truths if ".." not in name])
    found = f"there is {lake.relative_to(folder)}, but no ground truth" if lake else "there are no tables"
    if truth:
        found = f"there is {truth.relative_to(folder)}, but no folder of tables that goes with it"
    hint = ""
    if _file(folder, ("real_data_lake_benchmark_query_tables.csv",)):
        hint = (
            " SANTOS large is published without its ground truth: put real_tablesUnionBenchmark.pickle beside"
            " it, from the folder groundtruth of the SANTOS repository."
        )
    return (
        f"{folder} is no benchmark that is known: {found}.{hint} Tables are looked for in {', '.join(lakes)};"
        f" queries in {', '.join(_QUERIES)}, else in the lake; ground truth in {', '.join(truths)}."
    )
