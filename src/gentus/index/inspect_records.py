"""The training records that an index and its labels give, described for JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp

from gentus.arrays import Integers
from gentus.features.extract import Features
from gentus.generator.records import (
    Record,
    RecordKind,
    View,
    count_records,
    jaccard,
    label_pairs,
    mine_negatives,
    records,
    word_profiles,
)
from gentus.identifiers.semantic_ids import format_sid
from gentus.index.catalogue import Identified
from gentus.index.feature_cache import stream_features
from gentus.index.folder import IndexFolderError
from gentus.index.index import Index
from gentus.lake import Unreadable
from gentus.metrics import load_groundtruth
from gentus.settings import RecordSettings
from gentus.shell import command


def inspect(
    index: Index,
    labels: str | os.PathLike[str] | None = None,
    show: int = 5,
    kind: str | None = None,
    seed: int = 0,
    settings: RecordSettings | None = None,
) -> dict[str, Any]:
    """Say how many records an index and its labels give, and describe the first of them, for JSON."""
    if kind not in (None, *get_args(RecordKind)):
        raise ValueError(f"there are no {kind} records; there are {', '.join(get_args(RecordKind))}")
    truth = _training_labels(index, labels)
    generation = index.config.settings.generation
    settings = settings or (generation.records if generation else RecordSettings())
    found = index.catalogue.identifiers.select(index.config.levels)
    row_of = {table: row for row, table in enumerate(found.tables.tolist())}
    # A build that was interrupted may have read tables that have no identifier yet.
    tables = [table for table in index.catalogue.chunks.slots().tolist() if table[0] in row_of]
    known = index.catalogue.tables.names(table for table, _, _ in tables)
    names = [known[table].name for table, _, _ in tables]
    pairs, outside = label_pairs(truth, {name: at for at, name in enumerate(names)})
    if not len(pairs):
        raise ValueError(f"{labels or 'labels'}: none of its {outside:,} pairs names two tables of the index")
    parts: list[Integers] = []
    profiles = word_profiles(_features(index, tables, parts), settings.tokens)
    negatives = mine_negatives(profiles, pairs, settings.negatives)
    widths = np.concatenate(parts)
    made = records(pairs, widths, negatives, settings, seed)
    shown = islice((record for record in made if kind in (None, record.kind)), show)
    rows = [row_of[table] for table, _, _ in tables]
    described = _Described(index, names, rows, found, profiles)
    return {
        "pairs": len(pairs),
        "pairs_outside_the_lake": outside,
        "records": count_records(pairs, widths, negatives, settings),
        "settings": asdict(settings),
        "seed": seed,
        "shown": [described(record) for record in shown],
    }


def _training_labels(index: Index, labels: str | os.PathLike[str] | None) -> dict[str, list[str]]:
    """Labels from a file, or those of the build but for the queries that were left out of training."""
    truth = load_groundtruth(labels) if labels else index.catalogue.labels()
    if not truth:
        raise ValueError(
            f"No labels are known to {index.layout.root}. Give a CSV of query_table,candidate_table: --labels"
        )
    used = index.config.report.labels
    validation = set() if labels or used is None else set(used.validation_queries)
    return {query: right for query, right in truth.items() if query not in validation}


@dataclass(frozen=True, slots=True)
class _Described:
    """Describes records for JSON."""

    index: Index
    names: list[str]  # (T,)
    rows: list[int]  # (T,) among the identifiers
    found: Identified
    profiles: sp.csr_matrix  # (T, words)

    def __call__(self, record: Record) -> dict[str, Any]:
        query = record.view.table
        document = {
            "kind": record.kind,
            "input": self._table(query) | _seen(self.index, record.view, self.names[query]),
            "target": self._table(record.target),
        }
        if record.negative is not None:
            similarity = jaccard(self.profiles, query, record.negative)
            document["negative"] = self._table(record.negative) | {"jaccard": round(similarity, 4)}
        return document

    def _table(self, at: int) -> dict[str, Any]:
        row = self.rows[at]
        sid = format_sid(self.found.codes[row], int(self.found.suffixes[row]))
        return {"table": self.names[at], "sid": sid}


def _features(
    index: Index, tables: Sequence[tuple[int, int, int]], widths: list[Integers]
) -> Iterator[Features]:
    """Cached features of all tables; notes their widths in passing, so that the cache is read once."""
    layout = index.layout
    if not all(layout.chunk(chunk).is_file() for chunk in {chunk for _, chunk, _ in tables}):
        raise IndexFolderError(
            f"Cached features are missing from {layout.cache}. "
            f"Make them again: {command('index', index.config.lake, '-o', layout.root)}"
        )
    for features in stream_features(tables, layout):
        widths.append(np.diff(features.tables))
        yield features


def _seen(index: Index, view: View, name: str, columns: int = 6, values: int = 4) -> dict[str, Any]:
    """What a view keeps of its table, and the first values of its first columns."""
    source = index.source(name)
    if source is None:
        return {"error": "it was removed from the index just now"}
    try:
        table = index.read(source)
        seen = view.apply(table)
    except (Unreadable, ValueError) as error:
        return {"error": str(error)}
    return {
        "view": {"share": view.share, "seed": view.seed, "columns": view.columns},
        "rows": [seen.rows, table.rows],
        "columns": [len(seen.columns), len(table.columns)],
        "values": {column.name: column.cells[:values] for column in seen.columns[:columns]},
    }
