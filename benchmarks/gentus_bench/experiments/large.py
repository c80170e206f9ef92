"""Lakes of up to a million tables from end to end: made from a real one, indexed, and searched.

Every size is made, built and searched in turn, and each of the three is a document of its own: a run that was
stopped goes on with the next. The build is the whole command `gentus index` with its defaults, names hidden.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import gentus
from gentus.index.index import Index
from gentus.lake import Unreadable
from gentus.progress import Progress
from gentus_bench.experiment import Request
from gentus_bench.experiments.cold import cold_search
from gentus_bench.experiments.large_build import measure_build
from gentus_bench.lakes.large_lake import IN_A_FOLDER, MOST_ROWS, LakePlan, make_large_lake
from gentus_bench.results import Document, Results
from gentus_bench.table import Table
from gentus_bench.timer import in_turn

KS = (10, 40)
_COLD_RUNS = 5


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured."""

    tables: tuple[int, ...] = (10**6,)  # sizes of lakes
    queries: int = 500
    seed: int = 0
    folder: Path | None = None  # of lakes and indexes, which stay until they are deleted; None: the results


@dataclass(frozen=True, slots=True)
class _Size:
    """One lake: its name in the results, and where it and its index are."""

    name: str
    plan: LakePlan
    index: Path
    about: Document


def run(request: Request, options: Options) -> Iterator[Document]:
    """Make lakes of all sizes from the CSV files in a folder (`--data`), index and search them."""
    lake, results = request.folder, request.results
    name = lake_name(lake)
    sizes = sorted(set(options.tables))
    parts = {}
    for size in sizes:
        about = {"lake": name, "tables": size, "seed": options.seed}
        root = (options.folder or results.folder / "large" / name) / f"{size}-{options.seed}"
        plan = LakePlan(lake.resolve(), root / "lake", size, options.seed)
        one = _Size(f"large/{name}/{size}", plan, root / "index", about)
        parts[str(size)] = _measured(one, results, options.queries, request.progress)
    what = {"lake": name, "tables": sizes, "queries": options.queries, "seed": options.seed}
    yield results.combined(f"large-{name}", what, {"sizes": parts})


def lake_name(lake: Path) -> str:
    """What a lake is called in results: `NAME/datalake` has the name of its benchmark."""
    path = lake.resolve()
    return path.parent.name if path.name == "datalake" else path.name


def _measured(one: _Size, results: Results, queries: int, progress: Progress) -> Document:
    """Lake, build and searches of one size; a lost lake or index is made again only if it is needed."""
    search_what = {**one.about, "queries": queries, "k": list(KS)}
    done = _known(results, f"{one.name}-build", one.about) and _known(
        results, f"{one.name}-search", search_what
    )

    def step(part: str, what: Document, lost: bool, do: Callable[[], Document]) -> Document:
        again = replace(results, fresh=results.fresh or (lost and not done))
        return again.measured(f"{one.name}-{part}", what, do)

    no_lake, no_index = not one.plan.lake.is_dir(), not (one.index / "config.json").is_file()
    return {
        "lake": step("lake", one.about, no_lake, lambda: make_large_lake(one.plan, progress)),
        "build": step("build", one.about, no_index, lambda: _build(one)),
        "search": step("search", search_what, False, lambda: _search(one, queries)),
    }


def _known(results: Results, name: str, what: Mapping[str, Any]) -> bool:
    document = results.read(name)
    return document is not None and document["what"] == what


def _build(one: _Size) -> dict[str, Any]:
    """Build from the beginning: what an earlier run has read would not be in the time of this one."""
    shutil.rmtree(one.index, ignore_errors=True)
    return measure_build(one.plan.lake, one.index)


def _search(one: _Size, queries: int) -> Document:
    """Times of searches with tables of the lake, in this process and from the shell."""
    numbers = Random(one.plan.seed).sample(range(one.plan.tables), min(queries, one.plan.tables))
    started = time.perf_counter()
    with gentus.open(one.index) as index:
        opened = time.perf_counter() - started
        paths = [path for path in map(one.plan.table, numbers) if _readable(index, path)]
        times = in_turn({k: partial(index.search, k=k) for k in KS}, paths)
    cold = cold_search(one.index, paths[0], _COLD_RUNS)
    return {
        "queries": len(paths),
        "open_seconds": round(opened, 3),
        "ms": {str(k): of.facts() for k, of in times.items()},
        "cold_seconds": cold["seconds_median"],
        "cold_seconds_worst": cold["seconds_worst"],
    }


def _readable(index: Index, path: Path) -> bool:
    """Whether a table has values: some that are cut from nearly empty ones have none."""
    try:
        index.read(path)
    except Unreadable:
        return False
    return True


def tables(document: Document) -> list[Table]:
    """Every size, then the stages of its build."""
    what, sizes = document["what"], document["sizes"]
    columns = ["tables", "lake, MB", "made, s", "built, s", "tables/s", "peak, MB", "tree, bytes/table"]
    columns += ["index folder, bytes/table", *(f"search k = {k}, ms p50 / p95" for k in KS), "cold, s"]
    rows = []
    for size, of in sizes.items():
        lake, build, search = of["lake"], of["build"], of["search"]
        rows.append(
            [
                *(f"{int(size):,}", f"{lake['bytes'] / 1e6:,.0f}", f"{lake['seconds']:,.1f}"),
                *(
                    f"{build['seconds']:,.1f}",
                    f"{build['tables_per_second']:,.0f}",
                    f"{build['peak_mb']:,.0f}",
                ),
                *(f"{build['bytes_per_table']:.1f}", f"{build['folder_bytes_per_table']:,.0f}"),
                *(" / ".join(f"{search['ms'][str(k)][at]:.1f}" for at in ("ms_p50", "ms_p95")) for k in KS),
                f"{search['cold_seconds']:.2f}",
            ]
        )
    note = (
        f"Tables cut from {what['lake']}, at most {MOST_ROWS} rows each, in folders of {IN_A_FOLDER:,}."
        " The build is a whole `gentus index --no-names`; memory is that of all its processes, shared"
        f" pages counted once. Searches: {what['queries']:,} tables of the lake, reading included; cold: a"
        " whole `gentus search`."
    )
    builds = [of["build"]["stages"] for of in sizes.values()]
    longest = max(builds, key=len)
    names = [*longest, *{name: None for build in builds for name in build if name not in longest}]
    stages = [[name, *(_stage(build.get(name)) for build in builds)] for name in names]
    header = ["stage, seconds / peak MB", *(f"{int(size):,} tables" for size in sizes)]
    return [Table(columns, rows, note=note), Table(header, stages)]


def _stage(facts: Mapping[str, float | None] | None) -> str:
    if facts is None:
        return "-"
    peak = "-" if facts["peak_mb"] is None else f"{facts['peak_mb']:,.0f}"
    return f"{facts['seconds']:,.1f} / {peak}"
