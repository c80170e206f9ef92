"""What an index contains: its tables, those that were skipped, doubtful headers and duplicates."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Unpack

from gentus.display import counted, dim, html_block, html_table, near
from gentus.index.catalogue import Catalogue, explain_errors
from gentus.index.info import index_facts
from gentus.index.listing import TableEntry, TableList
from gentus.index.opened import OpenedIndex
from gentus.index.queries import NamedQuery
from gentus.lake import Source
from gentus.progress import Progress
from gentus.settings import refuse_unknown
from gentus.table import TextOptions

if TYPE_CHECKING:
    from gentus.index.description import TableDescription
    from gentus.index.duplicates import Duplicates
    from gentus.index.groups import Groups


class IndexContents(OpenedIndex):
    """The tables of an opened index; of the lake, only `describe` opens a file."""

    def __len__(self) -> int:
        """How many tables can be found."""
        self.refresh()
        return len(self.decoder.trie)

    def __repr__(self) -> str:
        """The folder, and how many tables."""
        return f"<gentus.Index {self.layout.root}: {self._size()}>"

    def _size(self) -> str:
        return "closed" if self.closed else f"{len(self):,} tables"

    def _repr_html_(self) -> str:
        facts = [("index", near(self.layout.root)), ("lake", near(self.config.lake))]
        facts.append(("learnt from", "labels" if self.config.report.labels else "its tables alone"))
        if not self.closed and (skipped := self.skipped()):
            facts.append(("not readable", counted(len(skipped), "file")))
        rows = [(dim(name), fact) for name, fact in facts]
        return html_block(f"gentus.Index: {self._size()}", html_table((), rows))

    def tables(self) -> list[str]:
        """Names of all tables that can be found.

        Example:
            >>> index.tables()[:2]
            ['films-1.csv', 'films-2.csv']
        """
        with explain_errors(self.layout):
            return [name for name, _, _ in self.catalogue.tables.names_and_shapes()]

    def entries(self, words: str = "") -> list[TableEntry]:
        """All tables that can be found, sorted by name, or those whose names contain all words.

        Example:
            >>> [(entry.name, entry.columns) for entry in index.entries("orders 02.csv")]
            [('orders-2024-02.csv', 4)]
        """
        with explain_errors(self.layout):
            found = TableList.load(self.catalogue, self.limits.rows)
        return found.entries(found.matching(words))

    def describe(self, name: str) -> TableDescription:
        """A table of the index: where it is, its shape, its identifier, and what its columns contain.

        Example:
            >>> [(column.name, column.type) for column in index.describe("orders-2024-01.csv").columns]
            [('order', 'number'), ('day', 'date'), ('city', 'text'), ('amount', 'number')]
        """
        return self._lookup.describe(name)

    def sources(self) -> dict[str, Source]:
        """All tables that can be found, by name; each of them can be a query.

        Example:
            >>> index.sources()["orders-2024-01.csv"].path.name
            'orders-2024-01.csv'
        """
        with explain_errors(self.layout):
            return self.catalogue.tables.sources()

    def source(self, name: str) -> Source | None:
        """Where a table of the index is, by its name; None if there is none of that name.

        Example:
            >>> index.source("no-such.csv") is None
            True
        """
        return self._lookup.source(name)

    def find(self, query: NamedQuery, **text: Unpack[TextOptions]) -> Source:
        """The table that a query names: a file or a URL, or else a table of the index.

        Example:
            >>> index.find("orders.csv").name
            'orders.csv'
        """
        refuse_unknown(text, TextOptions)
        return self._lookup.find(query, text=text)

    def sid(self, name: str) -> str | None:
        """The identifier of a table of the index; None if there is none of that name.

        Example:
            >>> index.sid("orders-2024-01.csv")  # codes, from coarse to fine
            '...-...'
        """
        return self._lookup.sid(name)

    def skipped(self) -> list[tuple[str, str]]:
        """(name, reason) of what could not be read.

        Example:
            >>> index.skipped()
            [('empty.csv', 'it is empty')]
        """
        with explain_errors(self.layout):
            return self.catalogue.tables.skipped()

    def doubtful(self) -> list[tuple[str, str]]:
        """(name, why) of tables whose header looks like data.

        Example:
            >>> index.doubtful()
            []
        """
        with explain_errors(self.layout):
            return self.catalogue.tables.doubtful()

    def unusual(self) -> list[tuple[str, str]]:
        """(name, how) of tables that are not read in the usual way.

        Lines above or below a table or comments are left out, a header of several rows is joined, an encoding
        is guessed.

        Example:
            >>> index.unusual()
            []
        """
        with explain_errors(self.layout):
            return self.catalogue.tables.unusual()

    def duplicates(self, min_share: float = 0.8) -> Duplicates:
        """Tables with the same rows as another, or with at least this share of their rows in another.

        Nothing of the lake is opened: the index has a sketch of the rows of every table.

        Example:
            >>> len(index.duplicates().groups)
            0
        """
        from gentus.index.duplicates import find_duplicates

        with explain_errors(self.layout), closing(Catalogue(self.layout.catalogue)) as catalogue:
            return find_duplicates(catalogue, min_share)  # nobody waits for its long transaction

    def groups(self, min_size: int = 2, *, progress: Progress | None = None) -> Groups:
        """Families of tables that can be appended to each other, the largest first.

        Found for the whole lake at once by identifiers and column signatures; no file is opened.

        Example:
            >>> index.groups()[0].tables
            ['weather-0.csv', 'weather-1.csv', 'weather-2.csv', 'weather-3.csv']
        """
        from gentus.index.groups import find_groups

        self.refresh()
        with explain_errors(self.layout):
            return find_groups(self._snapshot, self.catalogue, min_size, progress)

    def info(self) -> dict[str, Any]:
        """What the index is made of, how large it is, its codebook statistics and its drift.

        Example:
            >>> index.info()["tables"], index.info()["drift"]["refit_advised"]
            (10, False)
        """
        with explain_errors(self.layout), self.catalogue.transaction(read=True):
            return index_facts(self.layout, self.catalogue.config() or self.config, self.catalogue)
