"""The catalogue of an index: tables, identifiers, chunks of features, labels, current configuration."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.index.catalogue.chunks import ChunkStore
from gentus.index.catalogue.database import Database
from gentus.index.catalogue.identifiers import IdentifierStore
from gentus.index.catalogue.row_checksums import LABEL_ROW, AlteredError, verified
from gentus.index.catalogue.row_sketches import RowSketchStore
from gentus.index.catalogue.signatures import SignatureStore
from gentus.index.catalogue.tables import TableStore
from gentus.index.config import IndexConfig, from_document, to_document
from gentus.index.folder import IndexFolderError, Layout, damaged


@contextmanager
def explain_errors(layout: Layout) -> Iterator[None]:
    """Turn errors of reading the catalogue into an `IndexFolderError` that says what is wrong."""
    try:
        yield
    except sqlite3.OperationalError as error:
        path = layout.catalogue
        if not path.exists() or "UTF-8" in str(error):
            raise damaged(layout, path, error) from error
        raise IndexFolderError(
            f"{path} cannot be read: {error}. Is the disk full, or a permission missing?"
        ) from error
    except sqlite3.Error as error:
        raise damaged(layout, layout.catalogue, error) from error


@dataclass(frozen=True, slots=True)
class Listed:
    """All tables that can be found, in the order of their names."""

    names: list[str]
    rows: list[int]  # as sampled
    columns: list[int]
    codes: NDArray[np.unsignedinteger[Any]]  # (n, L)
    suffixes: NDArray[np.int64]  # (n,)


class Catalogue:
    """The truth about an index; every change is a transaction. Raises `sqlite3.Error` if it is damaged."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        self._database = database = Database(path, writable)
        self.close, self.empty_log = database.close, database.empty_log
        self.transaction, self.version = database.transaction, database.version
        self.change_sequence, self.identifier_count = database.change_sequence, database.identifier_count
        self.tables = TableStore(database)
        self.identifiers = IdentifierStore(database)
        self.chunks = ChunkStore(database)
        self.row_sketches = RowSketchStore(database)
        self.signatures = SignatureStore(database)

    @property
    def db(self) -> sqlite3.Connection:
        """The connection to SQLite."""
        return self._database.db

    def levels(self) -> int:
        """How many codes an identifier has now."""
        config = self.config()
        if config is None:
            raise AlteredError("it does not say which files are current")
        return config.levels

    def listed(self) -> Listed:
        """All tables that can be found, with their identifiers."""
        with self.transaction(read=True):
            identified = self.identifiers.by_name(self.levels())
            found = self.tables.names_and_shapes()
        return Listed(
            [name for name, _, _ in found],
            [rows for _, rows, _ in found],
            [columns for _, _, columns in found],
            identified.codes,
            identified.suffixes,
        )

    # --- labels, configuration and other meta values -----------------------------------------------------

    def labels(self) -> dict[str, list[str]]:
        """The annotated pairs that were given."""
        truth: dict[str, list[str]] = {}
        found = self._database.db.execute(f"SELECT {LABEL_ROW} FROM labels ORDER BY rowid")
        for query, candidate, _ in verified(found):
            truth.setdefault(query, []).append(candidate)
        return truth

    def put_labels(self, truth: dict[str, list[str]]) -> None:
        """Keep the annotated pairs for a refit."""
        self._database.db.execute("DELETE FROM labels")
        self._database.db.executemany(
            "INSERT INTO labels (query, candidate) VALUES (?, ?)",
            ((query, candidate) for query, found in truth.items() for candidate in found),
        )

    def features_key(self) -> str | None:
        """What the cached features were made with."""
        value = self._database.meta("features")
        return None if value is None else str(value)

    def put_features_key(self, key: str) -> None:
        """Note what the cached features are made with."""
        self._database.put_meta("features", key)

    def excluded(self) -> int:
        """How many files and folders of the lake were excluded when it was last listed."""
        return int(self._database.meta("excluded") or 0)

    def others(self) -> dict[str, int]:
        """How many files of other kinds the lake had when it was last listed, by their endings."""
        found = json.loads(str(self._database.meta("others") or "{}"))
        return {str(ending): int(count) for ending, count in found.items()}

    def put_left_out(self, excluded: int, others: Counter[str]) -> None:
        """Note how many files and folders are excluded, and how many are of other kinds."""
        if excluded != self.excluded():
            self._database.put_meta("excluded", str(excluded))
        if others != self.others():
            self._database.put_meta("others", json.dumps(dict(others.most_common())))

    def config(self) -> IndexConfig | None:
        """Which files are current and how they were made; None while the first build is not finished."""
        text = self._database.meta("config")
        if text is None:
            return None
        try:
            return from_document(json.loads(str(text)))
        except ValueError as error:
            raise AlteredError(f"its configuration cannot be used: {error}") from error

    def put_config(self, config: IndexConfig) -> None:
        """Switch over to other files."""
        self._database.put_meta("config", json.dumps(to_document(config)))
