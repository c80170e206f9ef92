"""The index that is served: one that follows changes, and that is opened anew if it was built anew."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from gentus.app.serve.errors import Refused
from gentus.app.serve.view import View
from gentus.index.index import Index
from gentus.lake import Remote, Source, is_outside_lake
from gentus.table import Column, Table

_TRIAL = Table("trial", [Column("city", ["Berlin", "Rome"]), Column("year", ["1990", "2005"])], 2)
log = logging.getLogger("gentus.app.serve")


class Holder:
    """Gives the index as it is now to whoever asks, in any thread."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self.changing = threading.Lock()  # held by whoever changes the index
        self._index, self._file = self._open()
        self._tell_of_others(self._index)
        self._tried = False
        self._view: tuple[Index, object, View] | None = None

    def _open(self) -> tuple[Index, tuple[int, int]]:
        index = Index(self.path)
        return index, _identity(index.layout.catalogue)

    def _tell_of_others(self, index: Index) -> None:
        """Say which tables are shown that do not lie in the lake: an index may have been made by others."""
        others = [name for name in index.tables() if is_outside_lake(name)]
        if others:
            log.warning(
                "%s: %d tables lie outside of the lake %s, such as %s; whoever asks this server can see them",
                self.path,
                len(others),
                index.config.lake,
                others[0],
            )

    @property
    def index(self) -> Index:
        """The index. What others change in it, it sees with the next search."""
        try:
            now = _identity(self._index.layout.catalogue)
        except FileNotFoundError:
            return self._index  # it is being built anew: until that is done there is the old one
        if now != self._file:
            with self._lock:
                if now != self._file:
                    try:
                        self._index, self._file = self._open()  # the old one is closed by its last user
                        log.info("%s was built anew and is open again", self.path)
                    except Exception as error:
                        log.info("%s is not ready yet: %s", self.path, error)
        return self._index

    def view(self) -> View:
        """All tables at a glance, made anew when the index has changed."""
        index = self.index
        index.refresh()
        version = index.catalogue.version()
        known = self._view
        if known is not None and known[0] is index and known[1] == version:
            return known[2]
        with self._lock:
            known = self._view
            if known is None or known[0] is not index or known[1] != version:
                known = self._view = index, version, View.of(index)
            return known[2]

    def source(self, name: str) -> Source:
        """Where a table of the index lies; refused if it now leads out of the lake."""
        index = self.index
        source = index.source(name)
        if source is None:
            raise Refused(404, f"there is no table {name!r} in the index")
        if isinstance(source.path, Remote):
            return source  # URLs have no links
        lake = os.path.realpath(index.config.lake)
        inside = source.path.is_relative_to(index.config.lake) or source.path.is_relative_to(lake)
        real = os.path.realpath(source.path)
        if inside and real != lake and not real.startswith(os.path.join(lake, "")):
            raise Refused(422, f"{name}: its file is now a link that leads out of the lake")
        if not inside and not index.catalogue.ids_at(index.catalogue.real(real)):
            raise Refused(422, f"{name}: its file is now a link that leads elsewhere than when it was added")
        return source

    def check(self) -> None:
        """See that searches can be answered: everything that the first one loads is there."""
        index = self.index
        index.refresh()
        if not self._tried:
            index.search_as([_TRIAL], [_TRIAL], 1)
            self._tried = True


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
