"""Every cell of a self-union beside its source: each table of a folder of files is unioned with itself.

The union is written as Parquet and read back. A cell has the value of the source, or the report of the union
counts it as changed and says why; anything else is a silent difference.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gentus.lake import Limits, Skipped, Source, Unreadable, scan
from gentus.progress import Progress
from gentus.table import evenly_spaced
from gentus.union import PlannedTable, Union, UnionPlan
from gentus.union.draft import draft_plan
from gentus.union.errors import PlanError
from gentus.union.report import TableReport
from gentus.union.session import MEMORY, open_session
from gentus.union.sources import open_table
from gentus_bench.experiment import Request
from gentus_bench.experiments.fidelity_cells import Verdicts, compare_column, compare_typed
from gentus_bench.experiments.fidelity_reference import NoReferenceError, Reference, read_reference
from gentus_bench.results import Document
from gentus_bench.table import Table

log = logging.getLogger("gentus_bench")
_SHOWN = 20  # files with silent differences in a document, and reasons of refusals
_FIGURES = (
    *("files", "tables", "cells", "equal", "changed", "silent", "silent_tables", "examples", "refused"),
    *("refused_tables", "without_reference", "failed", "readers", "formats", "seconds"),
)


@dataclass(frozen=True, slots=True)
class Options:
    """Which tables."""

    most: int = 1_000_000  # tables, spread over the folder
    most_kb: int = 4096  # of a file; larger ones are left out


@dataclass(slots=True)
class _Tally:
    """Sums over all tables."""

    files: set[str] = field(default_factory=set)
    tables: int = 0
    verdicts: Verdicts = field(default_factory=Verdicts)
    readers: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    without_reference: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)  # by table
    silent: dict[str, list[str]] = field(default_factory=dict)  # examples by table
    seconds: float = 0.0  # of unions


def run(request: Request, options: Options) -> Iterator[Document]:
    """Union every table of the folder with itself, and compare; each folder in it is measured once."""
    folders = [request.folder / name for name in request.lakes] or _corpora(request.folder)
    parts = []
    for folder in folders:
        what = {"corpus": folder.name, "most": options.most, "most_kb": options.most_kb}
        measure = partial(_measure, folder, options, request.progress)
        parts.append(request.results.measured(f"fidelity/{folder.name}", what, measure))
    what = {"corpora": [folder.name for folder in folders], "most": options.most, "most_kb": options.most_kb}
    yield request.results.combined("fidelity", what, _total(parts))


def _corpora(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) or [folder]


def _measure(folder: Path, options: Options, progress: Progress) -> Document:
    found = [one for one in scan(folder) if isinstance(one, Skipped) or one.size <= options.most_kb << 10]
    chosen = [found[at] for at in evenly_spaced(len(found), options.most)]
    tally = _Tally()
    with progress.stage(folder.name, len(chosen)) as tick:
        for item in chosen:
            _add(item, tally)
            tick(1)
    return _document(tally)


def _total(parts: list[Document]) -> Document:
    """The sums of all parts."""
    total: Document = {}
    for part in parts:
        for key, value in part.items():
            if key in _FIGURES:
                if isinstance(value, dict) and key not in ("examples", "failed"):
                    total[key] = dict((Counter(total.get(key, {})) + Counter(value)).most_common())
                elif isinstance(value, dict):
                    total[key] = total.get(key, {}) | value
                else:
                    total[key] = total.get(key, 0) + value
    return total


def _add(item: Source | Skipped, tally: _Tally) -> None:
    if isinstance(item, Skipped):
        tally.refused[_general(item.reason, item.name)] += 1
        return
    try:
        verdicts, reader, seconds = compare_self_union(item)
    except (Unreadable, PlanError) as error:
        tally.refused[_general(str(getattr(error, "reason", error)), item.name)] += 1
        return
    except NoReferenceError as error:
        tally.without_reference[str(error)] += 1
        return
    except Exception as error:  # a union that neither works nor says why it cannot
        tally.failed[item.name] = f"{type(error).__name__}: {error}"[:200]
        log.warning("%s: %s", item.name, tally.failed[item.name])
        return
    tally.files.add(str(item.path))
    tally.tables += 1
    tally.readers[reader] += 1
    tally.formats[Path(str(item.path)).suffix.lstrip(".")] += 1
    tally.verdicts.add(verdicts)
    tally.seconds += seconds
    if verdicts.silent:
        tally.silent[item.name] = verdicts.examples
        log.warning("%s: %d silent differences: %s", item.name, verdicts.silent, verdicts.examples)


def compare_self_union(source: Source, limits: Limits | None = None) -> tuple[Verdicts, str, float]:
    """Union a table with itself; returns the verdicts on all cells, who read the source, and seconds."""
    limits = limits or Limits()
    plan, names = _plan(source, limits)
    union = Union(plan, limits=limits)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="gentus-fidelity-") as scratch:
        report = union.write_parquet(Path(scratch) / "out.parquet")
        seconds = time.perf_counter() - started
        result = pq.ParquetFile(Path(scratch) / "out.parquet").read()
    assert union.ran is not None
    reference = read_reference(source, len(names), limits)
    verdicts = Verdicts()
    for planned, told in zip(union.ran.sources, report.tables, strict=True):
        half = result.filter(pc.equal(result["_source_table"], planned.name))
        if any("with errors read as empty" in note for note in report.notes):
            reference = replace(reference, errors=True)
        verdicts.add(_compare(reference, half, planned, told, names))
    return verdicts, reference.reader, seconds


def _plan(source: Source, limits: Limits) -> tuple[UnionPlan, list[str]]:
    """The table as the query, and as a table under another name; and all columns of the file."""
    table = PlannedTable(source.name, str(source.path), source.part, ())
    with open_session(MEMORY) as session, session.connect("reading", thirds=3, macros=True) as duck:
        opened = open_table(table, duck, None, limits)
        plan = draft_plan(opened, [], duck)
    copy = replace(plan.query, name=f"copy of {source.name}")
    return replace(plan, tables=(copy,)), opened.full.names


def _compare(
    reference: Reference, half: pa.Table, planned: PlannedTable, told: TableReport, names: list[str]
) -> Verdicts:
    """One half of a self-union beside the source."""
    verdicts = Verdicts()
    half = half.sort_by("_source_row")
    missing = reference.rows - half.num_rows
    if missing:
        verdicts.cells += abs(missing) * len(planned.columns)
        explained = min(abs(missing), told.tally.rejected + told.tally.stray_quotes)
        verdicts.changed["rows left out"] += explained * len(planned.columns)
        verdicts.fail(
            (abs(missing) - explained) * len(planned.columns),
            f"{reference.rows:,} rows became {half.num_rows:,} ({reference.reader})",
        )
        return verdicts
    for placement in planned.columns:
        column = _column(reference, names.index(placement.source), placement.source)
        if column is None:
            verdicts.fail(half.num_rows, f"{placement.source}: {reference.reader} finds no such column")
            continue
        one = next(one for one in told.columns if one.into == placement.into)
        if reference.reader == "pyarrow":
            found = compare_typed(column, half[placement.into], one)
        else:
            found = compare_column(column, half[placement.into], placement.read, one, reference.errors)
        if found.silent and told.tally.stray_quotes:
            found = Verdicts(found.cells, found.changed + Counter({"stray quotes": found.silent}))
        verdicts.add(found)
    beyond = reference.beyond - told.tally.beyond
    verdicts.cells += reference.beyond
    verdicts.changed["beyond the last column"] += min(reference.beyond, told.tally.beyond)
    if beyond > 0:
        verdicts.fail(beyond, f"{beyond:,} cells beyond the last column are not told")
    verdicts.changed = +verdicts.changed
    return verdicts


def _column(reference: Reference, at: int, name: str) -> pa.ChunkedArray | None:
    if reference.names is not None:
        stripped = [" ".join(one.split()) for one in reference.names]
        at = stripped.index(name) if name in stripped else at
    if at >= len(reference.columns):
        return None
    column = reference.columns[at]
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _general(reason: str, name: str) -> str:
    """A reason without the names and numbers of one file."""
    cut = reason.replace(name, "it").removeprefix("it: ")
    return cut.split(" (")[0].split(":")[0][:100]


def _document(tally: _Tally) -> dict[str, Any]:
    verdicts = tally.verdicts
    return {
        "files": len(tally.files),
        "tables": tally.tables,
        "cells": verdicts.cells,
        "equal": verdicts.equal,
        "changed": dict(verdicts.changed.most_common()),
        "silent": verdicts.silent,
        "silent_tables": len(tally.silent),
        "examples": dict(list(tally.silent.items())[:_SHOWN]),
        "refused": dict(tally.refused.most_common(_SHOWN)),
        "refused_tables": tally.refused.total(),
        "without_reference": dict(tally.without_reference),
        "failed": tally.failed,
        "readers": dict(tally.readers.most_common()),
        "formats": dict(tally.formats.most_common()),
        "seconds": round(tally.seconds, 2),
    }


def tables(document: Document) -> list[Table]:
    """Cells by what became of them, and tables that were not compared."""
    rows = [["the value of the source", f"{document['equal']:,}"]]
    rows += [[f"changed, and told: {reason}", f"{count:,}"] for reason, count in document["changed"].items()]
    rows += [["**silent differences**", f"**{document['silent']:,}**"], ["all", f"{document['cells']:,}"]]
    readers = ", ".join(f"{name} {count:,}" for name, count in document["readers"].items())
    formats = ", ".join(f"{name} {count:,}" for name, count in document["formats"].items())
    milliseconds = 1000 * document["seconds"] / max(1, document["tables"])
    note = (
        f"{document['tables']:,} tables of {document['files']:,} files ({formats}), each unioned with itself"
        f" and written as Parquet, {milliseconds:,.0f} ms per table."
        f" The source as read by: {readers}. Of {', '.join(document['what']['corpora'])}."
    )
    left = [[reason, f"{count:,}"] for reason, count in document["refused"].items()]
    left += [[f"no reference: {reason}", f"{n:,}"] for reason, n in document["without_reference"].items()]
    left += [[f"failed: {name}: {reason}", "1"] for name, reason in document["failed"].items()]
    found = [Table(["cells", "count"], rows, note=note)]
    return [*found, Table(["refused, or not compared", "tables"], left)] if left else found
