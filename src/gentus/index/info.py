"""What an index is made of, how far its lake has drifted from the fit, and what could not be read."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gentus.index.catalogue import Catalogue
from gentus.index.config import IndexConfig
from gentus.index.folder import IndexFolderError, Layout, read_config
from gentus.shell import command

# When a refit is advised:
FEW = 20  # of so few new tables nothing can be said
ERROR = 1.5  # new tables are this many times as far from their codewords as expected,
CROWDED = 0.1  # or this share of them have codes that others have, and twice as many as at the fit,
GROWN = 1.0  # or this many were added for each that was there,
SHRUNK = 0.5  # or this share of them was removed


def index_facts(layout: Layout, config: IndexConfig, catalogue: Catalogue) -> dict[str, Any]:
    """Settings, sizes, codebook statistics and drift of an index, for JSON."""
    report, skipped, drifted = config.report, catalogue.tables.skipped(), drift(config, catalogue)
    tables = catalogue.identifier_count()
    sizes = Counter[str]()  # as they were written: a writer may replace the files meanwhile
    for name, file in config.files.items():
        sizes[name.partition("-")[0]] += file.bytes
    trie, model = sizes["trie"], sizes["model"]
    columns, signatures = catalogue.signatures.bytes()
    return {
        "index": str(layout.root),
        "lake": config.lake,
        "tables": tables,
        "columns": columns,
        "skipped": len(skipped),
        "excluded": catalogue.excluded(),
        "others": catalogue.others(),
        "exclude": list(config.settings.exclude),
        "doubtful_headers": len(catalogue.tables.doubtful()),
        "unusual": len(catalogue.tables.unusual()),
        "levels": config.levels,
        "codebook_size": config.codebook_size,
        "labels": None if report.labels is None else asdict(report.labels),
        "generator": None if report.generator is None else asdict(report.generator),
        "encoder": _encoder(config),
        "names": report.names,
        "order": report.order,
        "vocabularies": report.vocabularies,
        "codebook_statistics": {
            **asdict(report.codebook_statistics),
            "held_out_error": report.held_out_error,
            "held_out_error_p95": report.held_out_error_p95,
        },
        "drift": drifted,
        "bytes": {
            "total": _size(layout.root),
            "trie": trie,
            "model": model,
            "signatures": signatures,
            "catalogue": layout.catalogue.stat().st_size,
            "cache": _size(layout.cache),
        },
        "bytes_per_table": round(trie / max(tables, 1), 1),
        "signature_bytes_per_column": round(signatures / max(columns, 1), 1),
        "bytes_per_table_with_model": round((trie + model) / max(tables, 1), 1),
        "format": config.format,
        "version": config.version,
    }


def _encoder(config: IndexConfig) -> str:
    """What table vectors come from."""
    paper = config.paper
    return "closed form" if paper is None or paper.vectors == "closed-form" else paper.bert


def _size(folder: Path) -> int:
    """The bytes of all files below a folder; others may be deleting some of them."""
    total = 0
    for inner, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(inner, file)).st_size
    return total


def drift(config: IndexConfig, catalogue: Catalogue) -> dict[str, Any]:
    """What was added and removed since the fit, beside what was there then, and whether to refit."""
    report, fitted = config.report, config.report.tables
    facts = catalogue.identifiers.drift(config.fit_sequence, report.held_out_error_p95)
    reasons = []
    if facts["added"] >= FEW:
        ratio = facts["error"] / report.held_out_error if report.held_out_error else 0.0
        if ratio > ERROR:
            reasons.append(
                f"tables added since are {ratio:.1f} times as far from their codewords as expected"
            )
        if facts["collision_rate"] > max(CROWDED, 2 * report.codebook_statistics.collision_rate):
            reasons.append(f"{facts['collision_rate']:.0%} of the tables added since share their codes")
    if facts["added"] >= max(FEW, GROWN * fitted):
        reasons.append(f"{facts['added']:,} tables were added to the {fitted:,} it was learnt from")
    if facts["removed"] >= max(FEW, SHRUNK * fitted):
        reasons.append(f"{facts['removed']:,} of the {fitted:,} tables it was learnt from were removed")
    return {**facts, "refit_advised": bool(reasons), "reasons": reasons}


def skipped(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(name, reason) of what could not be read, of an index that need not be finished."""
    layout = Layout(Path(path))
    if not layout.catalogue.is_file():
        read_config(layout)  # which says what is wrong
    try:
        with closing(Catalogue(layout.catalogue)) as catalogue:
            return catalogue.tables.skipped()
    except sqlite3.Error as error:
        raise IndexFolderError(
            f"{layout.catalogue} is missing or damaged: {error}. "
            f"Build the index again: {command('index', 'LAKE', '-o', layout.root)}"
        ) from error
