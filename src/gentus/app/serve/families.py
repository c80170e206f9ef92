"""Families: groups of tables that belong together, made in the background once per state of the index."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from gentus.index.groups import Group

FIRST = 5  # tables of a family that a list of families names
State: TypeAlias = Literal["ready", "computing", "failed"]
log = logging.getLogger("gentus.app.serve")


class Families:
    """All groups of a lake, the largest first, and the one of every table."""

    def __init__(self, groups: Sequence[Group] = ()) -> None:
        self.groups = groups
        self._of = {table: group for group in groups for table in group.tables}

    def __len__(self) -> int:
        """How many tables are in a family."""
        return len(self._of)

    def of(self, table: str) -> Group | None:
        """The family of a table."""
        return self._of.get(table)

    def id_of(self, table: str) -> int:
        """The id of the family of a table; 0 for none."""
        group = self._of.get(table)
        return group.id if group else 0

    def page(self, words: str, offset: int, limit: int) -> dict[str, Any]:
        """A page of the families whose names contain all words."""
        wanted = words.casefold().split()
        found = [one for one in self.groups if all(word in one.name.casefold() for word in wanted)]
        shown = found[offset : offset + limit]
        groups = [(reference(group) or {}) | {"tables": group.tables[:FIRST]} for group in shown]
        return {"total": len(found), "grouped": len(self), "offset": offset, "groups": groups}


def reference(group: Group | None) -> dict[str, Any] | None:
    """A family without its tables: a `GroupRef`."""
    if group is None:
        return None
    return {"id": group.id, "name": group.name, "size": group.size, "example": group.example}


class FamilyMaker:
    """Makes families in a thread, one state of the index at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._families = Families()
        self._made: object = None  # the state of the index that these are of
        self._failed: object = None  # the last state that gave none
        self._thread: threading.Thread | None = None

    def get(self, state: object, make: Callable[[], Sequence[Group]]) -> tuple[Families, State]:
        """The families of a state of the index; those of the one before, or none, while they are made."""
        with self._lock:
            if self._made is state:
                return self._families, "ready"
            if self._failed is state:
                return self._families, "failed"
            if self._thread is None:
                self._thread = threading.Thread(target=self._make, args=(state, make), daemon=True)
                self._thread.start()
            return self._families, "computing"

    def _make(self, state: object, make: Callable[[], Sequence[Group]]) -> None:
        families = None
        try:
            families = Families(make())
        except Exception:
            log.exception("The families of tables could not be made")
        with self._lock:
            self._thread = None
            if families is None:
                self._failed = state
            else:
                self._families, self._made = families, state
