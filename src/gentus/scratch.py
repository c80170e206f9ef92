"""Rows that are too many for memory: a private table on the disk that is gone with whoever made it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gentus.errors import GentusError, system_reason

_CACHE_KB = 4096  # what stays in memory; SQLite writes the rest where TMPDIR says, else to /var/tmp


class NoRoomError(GentusError):
    """There is no room on the disk for what does not fit in memory."""


class Scratch:
    """A table `rows` of any length. With a `key` it is in that order, and the first row of a key stays."""

    def __init__(self, *columns: str, key: str | None = None) -> None:
        self._insert = f"INSERT OR IGNORE INTO rows VALUES ({', '.join('?' * len(columns))})"
        made = ", ".join(columns) + (f", PRIMARY KEY ({key})) WITHOUT ROWID" if key else ")")
        with _told():
            self._db = sqlite3.connect("", isolation_level=None)  # an empty name: private and temporary
            self._db.execute(f"PRAGMA cache_size = {-_CACHE_KB}")
            self._db.execute("PRAGMA journal_mode = OFF")
            self._db.execute(f"CREATE TABLE rows ({made}")

    def close(self) -> None:
        """Give the disk its room back."""
        self._db.close()

    def extend(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows."""
        with _told():
            self._db.execute("BEGIN")
            self._db.executemany(self._insert, rows)
            self._db.execute("COMMIT")

    def run(self, statement: str, *values: Any) -> Iterator[Any]:
        """The rows that a statement gives, one after the other."""
        with _told():
            # Not `yield from`: left early, that closes the cursor, which fails if this was closed before.
            for row in self._db.execute(statement, values):  # noqa: UP028
                yield row


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise NoRoomError(
            f"A list that is too long for memory could not be kept on the disk: {system_reason(error)}. "
            "Make room in the folder for temporary files, or name another in SQLITE_TMPDIR."
        ) from error
