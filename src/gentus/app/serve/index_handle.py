"""The index handle: the open index of a server, which follows changes and is reopened after a rebuild."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from gentus.app.serve.errors import ApiError
from gentus.app.serve.families import Families, FamilyMaker, State
from gentus.app.serve.overview import Overview
from gentus.index.index import Index
from gentus.lake import Source, is_outside_lake, name_in_errors
from gentus.table import Column, Table

_PROBE = Table("probe", [Column("city", ["Berlin", "Rome"]), Column("year", ["1990", "2005"])], 2)
log = logging.getLogger("gentus.app.serve")


class IndexHandle:
    """The current index, for any thread."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self.changing = threading.Lock()  # held while the index is changed
        self._index, self._file = self._open()
        self._warn_of_outsiders(self._index)
        self._probed = False
        self._overview: tuple[Index, object, Overview] | None = None
        self._family_maker = FamilyMaker()

    def _open(self) -> tuple[Index, tuple[int, int]]:
        index = Index(self.path)
        return index, _identity(index.layout.catalogue)

    def _warn_of_outsiders(self, index: Index) -> None:
        """Log which tables lie outside of the lake; the index may come from someone else."""
        others = [name for name in index.tables() if is_outside_lake(name)]
        if others:
            log.warning(
                "%s: %d tables lie outside of the lake %s, such as %s; every client can see them",
                self.path,
                len(others),
                index.config.lake,
                others[0],
            )

    @property
    def index(self) -> Index:
        """The index. Changes by other processes show with the next search."""
        try:
            now = _identity(self._index.layout.catalogue)
        except FileNotFoundError:
            return self._index  # it is being rebuilt; the old one serves until then
        if now != self._file:
            with self._lock:
                if now != self._file:
                    try:
                        self._index, self._file = self._open()  # the last user of the old one closes it
                        log.info("%s was rebuilt and reopened", self.path)
                    except Exception as error:
                        log.info("%s is not ready yet: %s", self.path, error)
        return self._index

    def overview(self) -> Overview:
        """List, map and tree of all tables, made again when the index has changed."""
        index = self.index
        index.refresh()
        version = index.catalogue.version()
        known = self._overview
        if known is not None and known[0] is index and known[1] == version:
            return known[2]
        with self._lock:
            known = self._overview
            if known is None or known[0] is not index or known[1] != version:
                known = self._overview = index, version, Overview.of(index)
            return known[2]

    def families(self, overview: Overview) -> tuple[Families, State]:
        """The families of all tables, as far as they have been made; this starts it."""
        return self._family_maker.get(overview, self.index.groups)

    def source(self, name: str) -> Source:
        """The file of a table; an error if it is now a link that leads out of the lake."""
        index = self.index
        source = index.source(name)
        if source is None:
            raise ApiError(404, f"there is no table {name!r} in the index")
        with name_in_errors(name):
            return index.find(source)

    def check(self) -> None:
        """Run one search, which loads everything that searches need."""
        index = self.index
        index.refresh()
        if not self._probed:
            index.search_as([_PROBE], [_PROBE], 1)
            self._probed = True


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
