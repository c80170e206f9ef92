"""Lakes of up to a million tables from end to end: made from a real one, indexed, and searched.

Every size is made, built and searched in turn, and each of the three is a document of its own: a run that was
stopped goes on with the next. The build is the whole command `gentus index` with its defaults, names hidden.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import gentus
from gentus.index.index import Index
from gentus.lake import Unreadable
from gentus.progress import Progress
from gentus_bench.cold import cold_search
from gentus_bench.large_build import measure_build
from gentus_bench.large_lake import IN_A_FOLDER, MOST_ROWS, LakePlan, make_large_lake
from gentus_bench.machine import sentence
from gentus_bench.results import Results, markdown_table

SIZES = (10**6,)
KS = (10, 40)
_WARM = 5  # searches before the clock counts
_PASSES = 2  # over all queries; of each query the faster counts
_COLD_RUNS = 5


@dataclass(frozen=True, slots=True)
class LargeSettings:
    """What is measured."""

    sizes: Sequence[int] = SIZES
    queries: int = 500
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Size:
    """One lake: its name in the results, and where it and its index are."""

    name: str
    plan: LakePlan
    index: Path
    about: dict[str, Any]


def measure_large(
    lake: Path,
    results: Results,
    settings: LargeSettings,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make lakes of all sizes from a real one, index and search them; writes `large-LAKE` and its parts.

    Lakes and indexes stay in the folder, by default `large-LAKE` in the results, until they are deleted.
    """
    name = f"large-{lake_name(lake)}"
    place = folder or results.folder / name
    sizes = sorted(set(settings.sizes))
    parts = {}
    for size in sizes:
        about = {"lake": lake_name(lake), "tables": size, "seed": settings.seed}
        root = place / f"{size}-{settings.seed}"
        plan = LakePlan(lake.resolve(), root / "lake", size, settings.seed)
        one = _Size(f"{name}-{size}", plan, root / "index", about)
        parts[str(size)] = _measured(one, results, settings.queries, progress or Progress())
    what = {"lake": lake_name(lake), **asdict(replace(settings, sizes=sizes))}
    # Put together anew each time: some of the parts may be.
    document = replace(results, fresh=True).measured(name, what, lambda: {"sizes": parts})
    results.write_table(name, markdown(document))
    return document


def lake_name(lake: Path) -> str:
    """What a lake is called in results: `NAME/datalake` has the name of its benchmark."""
    path = lake.resolve()
    return path.parent.name if path.name == "datalake" else path.name


def _measured(one: _Size, results: Results, queries: int, progress: Progress) -> dict[str, Any]:
    """Lake, build and searches of one size; a lost lake or index is made again only if it is needed."""
    asked = {**one.about, "queries": queries, "k": list(KS)}
    done = _known(results, f"{one.name}-build", one.about) and _known(results, f"{one.name}-search", asked)

    def step(part: str, what: dict[str, Any], lost: bool, do: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        again = replace(results, fresh=results.fresh or (lost and not done))
        return again.measured(f"{one.name}-{part}", what, do)

    no_lake, no_index = not one.plan.lake.is_dir(), not (one.index / "config.json").is_file()
    return {
        "lake": step("lake", one.about, no_lake, lambda: make_large_lake(one.plan, progress)),
        "build": step("build", one.about, no_index, lambda: _build(one)),
        "search": step("search", asked, False, lambda: _search(one, queries, progress)),
    }


def _known(results: Results, name: str, what: Mapping[str, Any]) -> bool:
    document = results.read(name)
    return document is not None and document["what"] == what


def _build(one: _Size) -> dict[str, Any]:
    """Build from the beginning: what an earlier run has read would not be in the time of this one."""
    shutil.rmtree(one.index, ignore_errors=True)
    return measure_build(one.plan.lake, one.index)


def _search(one: _Size, queries: int, progress: Progress) -> dict[str, Any]:
    """Times of searches with tables of the lake, in this process and from the shell."""
    numbers = Random(one.plan.seed).sample(range(one.plan.tables), min(queries, one.plan.tables))
    started = time.perf_counter()
    with gentus.open(one.index) as index:
        opened = time.perf_counter() - started
        paths = [path for path in map(one.plan.table, numbers) if _readable(index, path)]
        for path in paths[:_WARM]:
            index.search(path, k=max(KS))
        with progress.stage("Searching", _PASSES * len(KS) * len(paths), "queries") as tick:
            best: dict[int, list[float]] = {k: [np.inf] * len(paths) for k in KS}
            for _ in range(_PASSES):
                for k, times in best.items():
                    for at, path in enumerate(paths):
                        started = time.perf_counter()
                        index.search(path, k=k)
                        times[at] = min(times[at], 1000 * (time.perf_counter() - started))
                        tick(1)
    cold = cold_search(one.index, paths[0], _COLD_RUNS)
    return {
        "queries": len(paths),
        "open_seconds": round(opened, 3),
        "ms": {str(k): _percentiles(times) for k, times in best.items()},
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


def _percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    return {f"p{at}": round(float(np.percentile(milliseconds, at)), 2) for at in (50, 95)}


def markdown(document: Mapping[str, Any]) -> str:
    """The document as tables: every size, then the stages of its build."""
    what, sizes = document["what"], document["sizes"]
    on = {f"{of['build']['made'][:10]}; {sentence(of['build']['machine'])}." for of in sizes.values()}
    return "\n\n".join(
        [
            *sorted(on),
            f"Tables cut from {what['lake']}, at most {MOST_ROWS} rows each, in folders of {IN_A_FOLDER:,}."
            " The build is a whole `gentus index --no-names`. Memory is that of all its processes, shared"
            f" pages counted once. Searches: {what['queries']:,} tables of the lake, reading included, the"
            f" faster of {_PASSES} passes; cold: a whole `gentus search`.",
            markdown_table(_HEADER, [_row(int(size), of) for size, of in sizes.items()]),
            "Stages of the build, seconds / peak memory in MB:",
            _stages(sizes),
        ]
    )


_HEADER = [
    "tables",
    "lake, MB",
    "made, s",
    "built, s",
    "tables/s",
    "peak, MB",
    "tree, bytes/table",
    "index folder, bytes/table",
    *(f"search k={k}, ms {at}" for k in KS for at in ("p50", "p95")),
    "cold, s",
]


def _row(size: int, of: Mapping[str, Any]) -> list[str]:
    lake, build, search = of["lake"], of["build"], of["search"]
    return [
        f"{size:,}",
        f"{lake['bytes'] / 1e6:,.0f}",
        f"{lake['seconds']:,.1f}",
        f"{build['seconds']:,.1f}",
        f"{build['tables_a_second']:,.0f}",
        f"{build['peak_mb']:,.0f}",
        f"{build['bytes_per_table']:.1f}",
        f"{build['folder_bytes_per_table']:,.0f}",
        *(f"{search['ms'][str(k)][at]:.1f}" for k in KS for at in ("p50", "p95")),
        f"{search['cold_seconds']:.2f}",
    ]


def _stages(sizes: Mapping[str, Any]) -> str:
    """A row for every stage that some build had, a column for every size."""
    builds = [of["build"]["stages"] for of in sizes.values()]
    longest = max(builds, key=len)
    names = [*longest, *{name: None for build in builds for name in build if name not in longest}]
    rows = [[name, *(_stage(build.get(name)) for build in builds)] for name in names]
    return markdown_table(["stage", *(f"{int(size):,} tables" for size in sizes)], rows)


def _stage(facts: Mapping[str, float | None] | None) -> str:
    if facts is None:
        return "-"
    peak = "-" if facts["peak_mb"] is None else f"{facts['peak_mb']:,.0f}"
    return f"{facts['seconds']:,.1f} / {peak}"
