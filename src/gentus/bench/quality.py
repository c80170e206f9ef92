"""How well retrievers rank: one lake or the standard set, scored, timed, and written down."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gentus.bench.baselines import (
    D3L,
    LIFTus,
    MiniLMColumns,
    Reports,
    Retriever,
    Santos,
    Sato,
    Sherlock,
    Starmie,
    Tactus,
    TfidfChars,
    TfidfWords,
)
from gentus.bench.machine import describe, sentence
from gentus.bench.ours import GenTUS
from gentus.evaluate import check, load_groundtruth, score
from gentus.lake import Skipped, Source, each, scan
from gentus.table import Table

log = logging.getLogger("gentus.bench")

LAKES = {"tus_tidy": 20, "ugen_v1": 10, "webtable_union": 20, "wiki_like": 40}  # each with its k

# MAP@k that others' own result files reach, scored as `map` is here.
PUBLISHED: dict[tuple[str, int], dict[str, float]] = {
    ("ugen_v1", 10): {"Starmie": 0.382, "SANTOS": 0.357, "D3L": 0.135},
}


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake as it lies on disk, `index` being an empty folder for what a method builds."""

    tables: Path
    queries: Path | None
    labels: Path | None  # pairs to learn from, never of the queries that are scored
    index: Path


METHODS: dict[str, Callable[[Lake], Retriever | None]] = {  # None: it cannot be had on that lake
    "tfidf-words": lambda lake: TfidfWords(),
    "tfidf-chars": lambda lake: TfidfChars(),
    "minilm": lambda lake: MiniLMColumns(),
    "sherlock": lambda lake: Sherlock(),
    "sato": lambda lake: Sato(),
    "starmie": lambda lake: Starmie(),
    "liftus": lambda lake: LIFTus(),
    "tactus": lambda lake: Tactus(),
    "santos": lambda lake: Santos(),
    "d3l": lambda lake: D3L(),
    "gentus": lambda lake: GenTUS(lake.tables, lake.index, lake.queries),
    "gentus-labels": lambda lake: (
        GenTUS(lake.tables, lake.index, lake.queries, lake.labels, "GenTUS, labels") if lake.labels else None
    ),
}


@dataclass(frozen=True, slots=True)
class Result:
    """All methods on one lake."""

    lake: str
    k: int
    tables: int
    skipped: dict[str, str]  # what could not be read, and why
    queries: int
    groundtruth: str  # what `evaluate.check` says
    rows: list[dict[str, Any]] = field(
        default_factory=list
    )  # a method each: `method`, `source`, scores, facts


def run(
    lake_folder: Path,
    groundtruth: Path,
    k: int,
    retrievers: Iterable[Retriever],
    query_folder: Path | None = None,
    *,
    name: str | None = None,
    published: Mapping[str, float] | None = None,
) -> Result:
    """Fit, search and score each retriever on one lake. One that fails gets a row that says so.

    Queries are the ground truth's, from `query_folder`, or without one from the lake itself. `published`
    are MAP figures of others to stand beside the measured ones.
    """
    truth = load_groundtruth(groundtruth)
    tables, skipped = _read(lake_folder)
    queries = tables
    if query_folder is not None:
        queries, _ = _read(query_folder, only=truth)
    fits = check(truth, tables, queries)
    if not fits.ok:
        log.warning(fits.summary())
    result = Result(name or lake_folder.name, k, len(tables), skipped, len(truth), fits.summary())
    for retriever in retrievers:
        log.info("%s: %s", result.lake, retriever.name)
        row: dict[str, Any] = {"method": retriever.name, "source": "measured"}
        try:
            row |= _measure(retriever, tables, queries, truth, k)
        except Exception as error:  # hours of other methods' figures must not go with it
            log.exception("%s failed on %s", retriever.name, result.lake)
            row |= {"source": "failed", "error": f"{type(error).__name__}: {error}"}
        result.rows.append(row)
    result.rows.extend(
        {"method": method, "source": "published", "k": k, "map": value}
        for method, value in (published or {}).items()
    )
    return result


def main_table(
    data: Path,
    lakes: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    out: Path = Path("results"),
) -> dict[str, Any]:
    """Measure methods on the standard lakes in `data`; write `quality.json` and `quality.md` to `out`.

    `DATA/NAME/` holds `datalake/`, `groundtruth_dev.csv`, and where there are any `query/` and
    `groundtruth_train.csv`. Without `lakes`, all that are there. Both files are written after every lake.
    Returns what is in the JSON file.
    """
    names = list(lakes or [name for name in LAKES if (data / name).is_dir()])
    wanted = list(methods or METHODS)
    for kind, given, known in (("lake", names, LAKES), ("method", wanted, METHODS)):
        if unknown := [name for name in given if name not in known]:
            raise ValueError(f"unknown {kind} {', '.join(unknown)}; known are {', '.join(known)}")
    if missing := [name for name in names if not (data / name / "datalake").is_dir()]:
        raise FileNotFoundError(f"no {missing[0]}/datalake in {data}")
    if not names:
        raise FileNotFoundError(f"none of {', '.join(LAKES)} is in {data}")
    out.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "lakes": [],
    }
    for name in names:
        folder, k = data / name, LAKES[name]
        with tempfile.TemporaryDirectory(prefix="gentus-bench-") as scratch:
            result = run(
                folder / "datalake",
                folder / "groundtruth_dev.csv",
                k,
                _made(wanted, folder, Path(scratch)),
                _if_there(folder / "query"),
                name=name,
                published=PUBLISHED.get((name, k)),
            )
        document["lakes"].append(asdict(result))
        (out / "quality.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        (out / "quality.md").write_text(markdown(document), encoding="utf-8")
    return document


def markdown(document: Mapping[str, Any]) -> str:
    """Write a document of `main_table` as Markdown, one table a lake."""
    lines = ["# Quality of rankings", "", f"{document['made'][:10]}; {sentence(document['machine'])}.", ""]
    for lake in document["lakes"]:
        k, skipped = lake["k"], f" ({len(lake['skipped'])} unreadable)" if lake["skipped"] else ""
        lines += [
            f"## {lake['lake']}",
            "",
            f"{lake['tables']:,} tables{skipped}, {lake['queries']} queries, k = {k}.",
        ]
        lines += [lake["groundtruth"], ""]
        header = ["method", f"MAP@{k}", "MAP full", "MAP prefix", f"P@{k}", f"R@{k}"]
        header += ["ms p50", "ms p95", "fit s", "bytes a table", "peak MB"]
        lines += [_line(header), _line(["---"] + ["---:"] * (len(header) - 1))]
        lines += [_line(_cells(row)) for row in lake["rows"]]
        lines.append("")
    lines += [
        "MAP@k is average precision over min(k, answers), MAP full over all answers, MAP prefix the mean of"
        " P@1..P@k over queries with that many answers. The query is never its own answer. A search's time of"
        " GenTUS includes reading the query file; the others get it read.",
        "",
    ]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Mapping[str, Any]) -> list[str]:
    method = row["method"]
    if "error" in row:
        method += f" (failed: {row['error'].splitlines()[0].replace('|', '/')})"
    elif row["source"] != "measured":
        method += f" ({row['source']})"
    cells = [method]
    for keys, digits in (
        (("map", "map_full", "map_prefix", "precision", "recall"), 3),
        (("ms_p50", "ms_p95", "fit_seconds"), 1),  # of GenTUS in a process of its own, its start included
        (("bytes_per_table", "peak_mb"), 0),
    ):
        cells += ["" if row.get(key) is None else f"{row[key]:,.{digits}f}" for key in keys]
    return cells


def _measure(
    retriever: Retriever,
    tables: Mapping[str, Table],
    queries: Mapping[str, Table],
    truth: Mapping[str, Sequence[str]],
    k: int,
) -> dict[str, Any]:
    started = time.perf_counter()
    retriever.fit(tables.values())
    fitted = time.perf_counter() - started
    rankings: dict[str, list[str]] = {}
    milliseconds: list[float] = []
    for query in truth:
        if query in queries:
            started = time.perf_counter()
            rankings[query] = retriever.search(queries[query], k + 1)  # the query may be its own first answer
            milliseconds.append((time.perf_counter() - started) * 1000)
    facts = retriever.facts() if isinstance(retriever, Reports) else {}
    return {**facts, **score(rankings, truth, k, milliseconds).to_dict(), "fit_seconds": fitted}


def _read(folder: Path, only: Mapping[str, object] | None = None) -> tuple[dict[str, Table], dict[str, str]]:
    """Read the tables of a folder by name, and say why of those that could not be read."""
    found = [one for one in scan(folder) if only is None or one.name in only]
    skipped = {one.name: one.reason for one in found if isinstance(one, Skipped)}
    tables: dict[str, Table] = {}
    for source, table in each([one for one in found if isinstance(one, Source)], _same):
        if isinstance(table, Skipped):
            skipped[table.name] = table.reason
        else:
            tables[source.name] = table
    return tables, skipped


def _same(table: Table) -> Table:
    return table


def _made(methods: Iterable[str], folder: Path, scratch: Path) -> Iterator[Retriever]:
    """Make retrievers one at a time, so that only one lake's worth of index is in memory."""
    for method in methods:
        labels = _if_there(folder / "groundtruth_train.csv")
        lake = Lake(folder / "datalake", _if_there(folder / "query"), labels, scratch / method)
        if (retriever := METHODS[method](lake)) is not None:
            yield retriever
        else:
            log.info("%s: no labels, so no %s", folder.name, method)


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None
