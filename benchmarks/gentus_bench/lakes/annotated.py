"""Folders of delimited text with annotations: Pollock's, CSV_Wrangling's and CSVW's, as published."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gentus.lake.formats.detect import Format, format_of

_SUFFIX = "_parameters.json"


@dataclass(frozen=True, slots=True)
class Annotated:
    """A file and what is known of it; None: not known."""

    path: Path
    shape: str
    delimiter: str | None = None  # empty: one column
    quote: str | None = None  # empty: none
    names: list[str] | None = None  # of its columns; none at all: it has no header
    rows: list[list[str]] | None = None


def annotated_files(folder: Path) -> Iterator[Annotated]:
    """The files of a corpus; those that nothing is known of, too: whether they are read is known."""
    known: dict[Path, Annotated] = {}
    for one in (*_pollock(folder), *_wrangling(folder), *_csvw(folder)):
        known.setdefault(one.path.resolve(), one)
    clean = {path.parent / "clean" for path in folder.rglob("parameters") if path.is_dir()}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or format_of(path.name) is not Format.TEXT or clean & set(path.parents):
            continue
        yield known.get(path.resolve()) or Annotated(path, "not annotated")


def _pollock(folder: Path) -> Iterator[Annotated]:
    for path in sorted(folder.rglob(f"*{_SUFFIX}")):
        facts, name = _json(path), path.name.removesuffix(_SUFFIX)
        file, clean = path.parent.parent / "csv" / name, path.parent.parent / "clean" / name
        if not isinstance(facts, dict) or "header_lines" not in facts or not file.is_file():
            continue
        rows = _rows(clean) if clean.is_file() else None
        headed = bool(facts["header_lines"])
        shape = facts.get("shape") or "_".join(name.removesuffix(".csv").rstrip("0123456789").split("_")[:3])
        yield Annotated(
            file,
            shape,
            (facts.get("delimiter") or "")[:1],
            facts.get("quotechar") or "",
            [str(one) for one in facts.get("column_names", [])] if headed else [],
            # The first row of a clean file is its header, also where the file has none.
            None if rows is None else rows[1:] if rows and (headed or not any(rows[0])) else rows,
        )


def _wrangling(folder: Path) -> Iterator[Annotated]:
    """One JSON object per line, with the name of a file somewhere in the folder."""
    listed = [path for name in ("out_reference_*.json", "out_human_*.json") for path in folder.rglob(name)]
    files = {path.name: path for path in folder.rglob("*.csv")} if listed else {}
    for path in listed:
        for line in path.read_text("utf-8").splitlines():
            facts = json.loads(line) if line.strip() else {}
            file = files.get(str(facts.get("filename", "")).rsplit("/", 1)[-1])
            if file is not None and facts.get("status") == "OK":
                dialect = facts["dialect"]
                yield Annotated(file, path.stem, dialect["delimiter"], dialect["quotechar"])


def _csvw(folder: Path) -> Iterator[Annotated]:
    for path in sorted(folder.rglob("*metadata.json")):
        facts = _json(path)
        tables = facts.get("tables", [facts]) if isinstance(facts, dict) else []
        for table in tables if isinstance(tables, list) else []:
            url = table.get("url") if isinstance(table, dict) else None
            if isinstance(url, str) and "/" not in url and (path.parent / url).is_file():
                dialect = {**_object(facts.get("dialect")), **_object(table.get("dialect"))}
                headed = dialect.get("header", True) is not False and dialect.get("headerRowCount", 1) != 0
                yield Annotated(
                    path.parent / url,
                    "csvw",
                    dialect.get("delimiter", ","),
                    dialect.get("quoteChar", '"') or "",
                    _titles(table) if headed else [],
                )


def _titles(table: dict[str, Any]) -> list[str] | None:
    columns = _object(table.get("tableSchema")).get("columns")
    shown = [one for one in columns or [] if isinstance(one, dict) and not one.get("virtual")]
    titles = [one.get("titles", one.get("name")) for one in shown]
    return [str(one) for one in titles] if titles and all(isinstance(one, str) for one in titles) else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, OSError):
        return None


def _rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))
