"""What an index contains, by its catalogue alone: nothing of the lake is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gentus.index.catalogue import Catalogue, explain_errors
from gentus.index.folder import Layout
from gentus.lake import Source

if TYPE_CHECKING:
    from gentus.index.duplicates import Duplicates


class IndexContents:
    """The tables of an index, those that were skipped, doubtful headers and duplicates."""

    layout: Layout
    catalogue: Catalogue

    def tables(self) -> list[str]:
        """Names of all tables that can be found."""
        with explain_errors(self.layout):
            return [name for name, _, _ in self.catalogue.tables.names_and_shapes()]

    def sources(self) -> dict[str, Source]:
        """All tables that can be found, by name; each of them can be a query."""
        with explain_errors(self.layout):
            return self.catalogue.tables.sources()

    def skipped(self) -> list[tuple[str, str]]:
        """(name, reason) of what could not be read."""
        with explain_errors(self.layout):
            return self.catalogue.tables.skipped()

    def doubtful(self) -> list[tuple[str, str]]:
        """(name, why) of tables whose header looks like data."""
        with explain_errors(self.layout):
            return self.catalogue.tables.doubtful()

    def duplicates(self, min_share: float = 0.8) -> Duplicates:
        """Tables with the same rows as another, or with at least this share of their rows in another.

        Nothing of the lake is opened: the index has a sketch of the rows of every table.
        """
        from gentus.index.duplicates import find_duplicates

        with explain_errors(self.layout):
            return find_duplicates(self.catalogue, min_share)
