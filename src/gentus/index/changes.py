"""Changing an opened index: add, remove, sync, compact."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from gentus.index.compactor import compact
from gentus.index.opened import OpenedIndex
from gentus.lake import Remote, Skipped, Source, as_location
from gentus.progress import Progress
from gentus.settings import refuse_unknown
from gentus.table import TextOptions

if TYPE_CHECKING:
    from gentus.index.updater import Changes, Updater

T = TypeVar("T")


class IndexChanges(OpenedIndex):
    """Changes of an opened index; each can be found at once, also by others that have it open."""

    def add(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        progress: Progress | None = None,
        **text: Unpack[TextOptions],
    ) -> Changes:
        """Add files or whole folders; they can be found at once. Changed files are replaced.

        Example:
            >>> index.add("orders.csv").added
            ['.../orders.csv']
        """
        refuse_unknown(text, TextOptions)
        some = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        return self._change(lambda: self._updater(progress).add(some, text))

    def add_tables(self, found: Iterable[Source | Skipped]) -> Changes:
        """The same for tables that were found already, by the names they have.

        Example:
            >>> index.add_tables([index.find("orders.csv")]).added
            ['orders.csv']
        """
        return self._change(lambda: self._updater().add_tables(found))

    def remove(self, names: str | Iterable[str]) -> Changes:
        """Remove tables by name; their identifiers are never assigned to others.

        Example:
            >>> index.remove("films-1.csv")
            <Changes: 1 removed>
        """
        some = [names] if isinstance(names, str) else list(names)
        return self._change(lambda: self._updater().remove(some))

    def sync(
        self,
        lake: str | os.PathLike[str] | Remote | None = None,
        *,
        exclude: Iterable[str] = (),
        dry_run: bool = False,
        force: bool = False,
        progress: Progress | None = None,
        **text: Unpack[TextOptions],
    ) -> Changes:
        """Follow the lake: add new files, replace changed ones, remove deleted ones.

        Args:
            lake: Where it is now, if it has moved.
            exclude: Patterns of files to leave out, from now on.
            dry_run: Only say what would happen.
            force: Remove even most of the index.
            progress: Where to show progress.
            **text: `header` and `encoding` of delimited text that no rule of the lake names, from now on.

        Example:
            >>> Path("lake/films-1.csv").unlink()
            >>> index.sync()
            <Changes: 1 removed, 1 unreadable, 9 unchanged>
        """
        refuse_unknown(text, TextOptions)
        root, updater = as_location(lake or self.config.lake), partial(self._updater, progress)
        if dry_run:
            return updater().foresee(root, text, exclude)
        return self._change(lambda: updater().sync(root, text, exclude, force))

    def compact(self) -> bool:
        """Write all identifiers as one prefix tree. It happens by itself when much has changed.

        Example:
            >>> index.compact()
            False
        """
        return self._change(lambda: compact(self.layout))

    def _updater(self, progress: Progress | None = None) -> Updater:
        from gentus.index.updater import Updater

        return Updater(self.layout, self._snapshot, progress or Progress())

    def _change(self, work: Callable[[], T]) -> T:
        """Do it on the index as it is now, see the result, and compact the index if that is due."""
        self._compactor.wait()
        self.refresh()
        self._changed = True
        done = work()
        self.refresh()
        self._compactor.start_if_due(self._snapshot.changes, len(self._snapshot.base))
        return done
