"""Hits: the answers to a query, as a sequence, as Arrow, and as people see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, overload

from gentus.align.alignment import Alignment
from gentus.align.matched_columns import MatchedColumns
from gentus.align.verdict import FITS, Fit
from gentus.arrow_export import ArrowExport
from gentus.display import html_block, html_table, pill, text_table
from gentus.index.row_overlap import SameRows
from gentus.index.second_look import AtLeast

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class Hit:
    """One answer: a table of the lake, how far it fits, and why.

    Example:
        >>> hit = index.search("orders.csv", k=1)[0]
        >>> hit.rank, hit.fit, str(hit.columns)
        (1, 'full', '4 of 4')
        >>> hit.why
        'all 4 columns match'
    """

    rank: int
    table: str  # its name in the lake
    score: float  # the probability that a person would append its rows
    fit: Fit  # full, partial or none
    columns: MatchedColumns
    sid: str  # its identifier
    path: str
    generated: float  # what it was ranked by before the second look: 1 for the same content
    same_rows: SameRows | None = None  # as the query, or as a hit before it
    alignment: Alignment | None = None  # which columns belong together; with `explain` only

    @property
    def why(self) -> str:
        """Why it fits, fits partly, or does not, in words."""
        return self.columns.why(self.fit)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        document: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:
                document[one.name] = value.to_dict() if hasattr(value, "to_dict") else value
            if one.name == "columns":
                document["why"] = self.why
        return document

    def __repr__(self) -> str:
        """One line: rank, table, fit, columns and score."""
        return f"<Hit {self.rank}: {self.table}, {self.fit}, {self.columns} columns, {self.score:.3f}>"


class Hits(Sequence[Hit], ArrowExport):
    """The answers to one query, best first: a sequence of `Hit`, and as Arrow a row each.

    Example:
        >>> hits = index.search("orders.csv", k=3)
        >>> [hit.table for hit in hits[:2]]
        ['orders-2024-01.csv', 'orders-2024-02.csv']
        >>> hits.verdict
        '3 of 3 tables fit yours, 2 of them fully.'
        >>> hits.to_polars().columns[:4]
        ['rank', 'table', 'score', 'fit']
    """

    __slots__ = ("_hits", "doubt")

    def __init__(self, hits: Iterable[Hit] = (), doubt: str = "") -> None:
        self._hits = tuple(hits)
        self.doubt = doubt  # why the header of the query looks like data; empty: it does not

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> Hits: ...
    def __getitem__(self, at: int | slice) -> Hit | Hits:
        """One hit; for a slice, some of them."""
        return Hits(self._hits[at], self.doubt) if isinstance(at, slice) else self._hits[at]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._hits)

    def __iter__(self) -> Iterator[Hit]:
        """Best first."""
        return iter(self._hits)

    def __eq__(self, other: object) -> bool:
        """Whether the others are the same hits, in whatever sequence."""
        return self._hits == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        """Equal hits have equal names."""
        return hash(tuple(hit.table for hit in self._hits))

    @property
    def verdict(self) -> str:
        """How many of them fit, in words."""
        return verdict(self)

    def to_reader(self) -> pa.RecordBatchReader:
        """Without identifiers and alignments."""
        import pyarrow as pa

        text, number, count = pa.string(), pa.float64(), pa.int64()
        pair = pa.struct([("query", text), ("table", text)])
        types = {
            **{"rank": count, "table": text, "score": number, "fit": text, "why": text, "path": text},
            **{"matched": count, "query_columns": count, "table_columns": count, "pairs": pa.list_(pair)},
            **{"missing": pa.list_(text), "generated": number, "same_rows": text},
        }
        table = pa.Table.from_pylist([_flat(hit) for hit in self], pa.schema(types.items()))
        return table.to_reader()

    def __repr__(self) -> str:
        """The verdict, and a small table."""
        if not self:
            return f"<Hits: {self.verdict}>"
        rows = [(hit.rank, hit.table, hit.fit, str(hit.columns), hit.score) for hit in self]
        return f"{self.verdict}\n{text_table(('#', 'table', 'fit', 'columns', 'score'), rows)}"

    def _repr_html_(self) -> str:
        rows = [
            (hit.rank, hit.table, pill(hit.fit), str(hit.columns), hit.score, _remark(hit)) for hit in self
        ]
        table = html_table(("#", "table", "fit", "columns", "score", "why"), rows) if rows else ""
        return html_block(self.verdict, table)


def _remark(hit: Hit) -> str:
    return hit.why if hit.same_rows is None else f"{hit.why}; {hit.same_rows}"


def _flat(hit: Hit) -> dict[str, Any]:
    """A hit as a row of a table."""
    columns = hit.columns
    names = ("rank", "table", "score", "fit", "why", "path", "generated")
    return {name: getattr(hit, name) for name in names} | {
        "matched": columns.matched,
        "query_columns": columns.query,
        "table_columns": columns.table,
        "pairs": [{"query": own, "table": other} for own, other in columns.pairs],
        "missing": columns.missing,
        "same_rows": None if hit.same_rows is None else str(hit.same_rows),
    }


def best_fit(hits: Sequence[Hit]) -> Fit:
    """How far the best of some hits fits: `none` if no table does."""
    return min((hit.fit for hit in hits), key=FITS.index, default="none")


def verdict(hits: Sequence[Hit], fit: AtLeast = "any", min_score: float = 0.0) -> str:
    """What a search found, in words: how many tables fit, of those that were to fit so far."""
    fitting = sum(hit.fit != "none" for hit in hits)
    if not fitting:
        least = f" with a score of at least {min_score:g}" if min_score and not hits else ""
        return f"No table in this lake fits yours{' fully' if fit == 'full' else ''}{least}."
    full = sum(hit.fit == "full" for hit in hits)
    how = " fully" if full == fitting else f", {full} of them fully" if full else " partly"
    tables = "table" if len(hits) == 1 else "tables"
    return f"{fitting} of {len(hits)} {tables} {'fits' if fitting == 1 else 'fit'} yours{how}."
