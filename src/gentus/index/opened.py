"""An index folder, opened: its catalogue, and the snapshot that searches see. Nothing here imports torch."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from gentus.index.answer import NameCache
from gentus.index.catalogue import Catalogue, explain_errors
from gentus.index.compactor import Compactor
from gentus.index.config import IndexConfig
from gentus.index.folder import Layout, damaged, read_config
from gentus.index.lookup import Lookup
from gentus.index.snapshot import Snapshot
from gentus.lake import Limits, as_location
from gentus.retrieval.beam import Decoder
from gentus.table import TextOptions


class OpenedIndex:
    """The folder, the catalogue and the current snapshot."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.layout = Layout(Path(path).absolute())  # the working folder may change
        path_of_catalogue = self.layout.catalogue
        written = read_config(Layout(Path(path)))  # it says what is wrong, with the path as it was given
        self._lock = threading.RLock()
        self._compactor = Compactor(self.layout)
        self._changed = False  # whether it was changed through this object
        self.closed = False
        with explain_errors(self.layout):
            self.catalogue = Catalogue(path_of_catalogue)
            self._version = self.catalogue.version()
            self._names = NameCache(self.catalogue)
            self._snapshot = Snapshot.load(self.layout, self.catalogue)
        if written.config_version > self._snapshot.config.config_version:  # the catalogue is written first
            raise damaged(self.layout, path_of_catalogue, f"{self.layout.config.name} is newer")

    def refresh(self) -> None:
        """See what was changed by others, or through this object; every search does.

        Example:
            >>> index.refresh()
        """
        with self._lock, explain_errors(self.layout):
            version = self.catalogue.version()
            if version != self._version:
                self._snapshot = Snapshot.load(self.layout, self.catalogue, self._snapshot)
                self._version = version
                self._names.clear()

    def _current(self) -> Snapshot:
        """The snapshot of now."""
        self.refresh()
        with self._lock:
            return self._snapshot

    @property
    def config(self) -> IndexConfig:
        """How the index was made, and which files are current."""
        return self._snapshot.config

    @property
    def decoder(self) -> Decoder:
        """Latents in, identifiers out."""
        return self._snapshot.decoder

    @property
    def limits(self) -> Limits:
        """How much of a table is read."""
        return self.config.settings.limits

    @property
    def _lookup(self) -> Lookup:
        settings, lake = self.config.settings, as_location(self.config.lake)
        text: TextOptions = {"header": settings.header, "encoding": settings.encoding}
        return Lookup(self.layout, self.catalogue, lake, settings.limits, settings.names, text)

    def close(self) -> None:
        """Close the catalogue; the index cannot be searched any more. `with` does it, too.

        Example:
            >>> opened = gentus.open("my.index")
            >>> opened.close()
        """
        self._compactor.wait()
        self.catalogue.close()
        self.closed = True
        if self._changed:  # we were readers beside the writer that made the changes, so SQLite kept its log
            with suppress(sqlite3.Error), closing(Catalogue(self.layout.catalogue, writable=True)) as last:
                last.empty_log()
            self._changed = False

    def __enter__(self) -> Self:
        """For `with`: closes at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the catalogue."""
        self.close()
