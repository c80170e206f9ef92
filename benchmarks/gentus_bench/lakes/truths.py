"""Ground truths in the shapes that benchmarks publish them: CSV, pickle, SQLite and labelled pairs."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from gentus.metrics import HEADER
from gentus_bench.lakes.safe_pickle import load_truth_pickle

Truth = dict[str, list[str]]

QUERY = ("query_table", "query", "query_name", "table1", "source_table")
CANDIDATE = ("candidate_table", "data_lake_table", "datalake_table", "lake_table", "candidate", "table2")
VERDICT = ("unionable", "manual_unionable", "label")  # pairs that were looked at and refused have 0 there
_NO = {"0", "0.0", "false", "no"}


def load_truth(path: Path) -> Truth:
    """Read a ground truth by what the file is: each pair once, and no query as its own answer."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        truth = _csv(path)
    elif suffix in (".sqlite", ".sqlite3", ".db"):
        truth = _sqlite(path)
    elif suffix == ".json":
        truth = load_labelled(path, ("test", "valid", "validation", "dev"))
    else:  # .pkl, .pickle, or no suffix at all, as Starmie's
        truth = _collected(
            (query, name) for query, found in load_truth_pickle(path).items() for name in found
        )
    if not truth:
        raise ValueError(f"{path} has no pair of two different tables in it")
    return truth


def load_labelled(path: Path, parts: Iterable[str]) -> Truth:
    """Read the positive pairs of `{part: [{"table1": {"filename"}, "table2": {"filename"}, "label"}]}`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return _collected(
            (_base(pair["table1"]), _base(pair["table2"]))
            for part in parts
            for pair in document.get(part, [])
            if float(pair["label"]) > 0
        )
    except (
        json.JSONDecodeError,
        UnicodeDecodeError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
    ) as error:
        raise ValueError(
            f"{path} is not labelled pairs: expected lists under train, valid and test of objects with"
            f" table1, table2 and a label that is a number ({type(error).__name__}: {error})"
        ) from error


def write_truth(truth: Mapping[str, Iterable[str]], path: Path) -> Path:
    """Write pairs as the rest of the project reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows((query, name) for query, found in truth.items() for name in found)
    return path


def resolved(truth: Mapping[str, Iterable[str]], tables: Iterable[str], queries: Iterable[str]) -> Truth:
    """Name tables as the lake does: ground truths leave `.csv` and folders out, or add them.

    A name that fits nothing is kept as it is, so that a check says it is missing.
    """
    in_lake, in_queries = _Names(tables), _Names(queries)
    return _collected(
        (in_queries.find(query), in_lake.find(name)) for query, found in truth.items() for name in found
    )


class _Names:
    def __init__(self, names: Iterable[str]) -> None:
        self.known = set(names)
        self.by_stem: dict[str, str | None] = {}
        for name in self.known:  # None: several have it, so it names none of them
            stem = _stem(name)
            self.by_stem[stem] = None if stem in self.by_stem else name

    def find(self, name: str) -> str:
        return name if name in self.known else self.by_stem.get(_stem(name)) or name


def _stem(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".csv")


def _base(table: Any) -> str:
    return str(table["filename"] if isinstance(table, dict) else table).rsplit("/", 1)[-1]


def _collected(pairs: Iterable[tuple[str, str]]) -> Truth:
    truth: dict[str, dict[str, None]] = {}
    for query, name in pairs:
        if query != name:
            truth.setdefault(query, {})[name] = None
    return {query: list(found) for query, found in truth.items()}


def _csv(path: Path) -> Truth:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        try:
            return _collected(_pairs(rows, path))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}, line {rows.line_num}: not a CSV file in UTF-8 ({error})") from error


def _pairs(rows: Any, path: Path) -> Iterable[tuple[str, str]]:
    query, candidate, verdict, first = 0, 1, -1, True
    header: list[str] | None = None
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        names = [cell.lower() for cell in cells]
        if first:
            first = False
            query, candidate, verdict = (_position(names, known) for known in (QUERY, CANDIDATE, VERDICT))
            if query >= 0 and candidate >= 0:
                header = names
                continue
            if query >= 0 or candidate >= 0 or len(cells) != 2:
                raise ValueError(
                    f"{path} has the columns {', '.join(cells)}: one of {', '.join(QUERY)} and one of"
                    f" {', '.join(CANDIDATE)} are needed, or two columns without a header"
                )
            query, candidate = 0, 1
        if names == header:  # LakeBench's files were put together with their headers
            continue
        if max(query, candidate) >= len(cells) or not cells[query] or not cells[candidate]:
            raise ValueError(f"{path}, line {rows.line_num}: no pair of tables in {','.join(row)!r}")
        if not 0 <= verdict < len(cells) or cells[verdict].lower() not in _NO:
            yield cells[query], cells[candidate]


def _position(names: list[str], known: Iterable[str]) -> int:
    return next((names.index(name) for name in known if name in names), -1)


def _sqlite(path: Path) -> Truth:
    """Read the ground truth of the TUS benchmark: which attributes of two tables are the same."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        try:
            for table in ("att_groundtruth", "alignment_groundtruth"):
                columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
                if set(HEADER) <= columns:
                    found = database.execute(f"SELECT DISTINCT {', '.join(HEADER)} FROM {table}")
                    return _collected((str(query), str(name)) for query, name in found)
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} is no SQLite database ({error})") from error
    raise ValueError(
        f"{path} has neither att_groundtruth nor alignment_groundtruth with {' and '.join(HEADER)}"
    )
