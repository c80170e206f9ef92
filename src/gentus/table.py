"""What the pipeline knows of a table: a bounded sample of its cells, as text, column by column."""

from __future__ import annotations

import codecs
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from gentus.sent import Sent

Header: TypeAlias = Literal["auto", "yes", "no"]  # whether the first row of delimited text is a header
HEADERS: tuple[Header, ...] = get_args(Header)
Rows: TypeAlias = Sequence[Sequence[str | None]]  # cells of rows, as they were read
log = logging.getLogger("gentus")
EMPTY = frozenset({"", "null", "nan", "none", "n/a"})  # what a cell without a value says, in any case
# What else people write for a missing value. All of these may be values of a text column (a name, a country),
# so a union takes them as null only in a column of numbers, dates or booleans.
NULL_WORDS = (EMPTY - {""}) | {"na", "#n/a", "n.a.", "-", "--", "---", ".", "..", "?", "\\n"}


@dataclass(frozen=True, slots=True)
class Column(Sent):
    """Sampled cells of one column, and its name."""

    name: str
    cells: list[str]  # the non-empty cells of the sampled rows, in row order, trimmed and clipped
    typed: bool = field(default=False, compare=False)  # numbers, dates or the like in its file; else text


@dataclass(frozen=True, slots=True)
class Head:
    """The first rows of a table as they were read, in the order of the table."""

    rows: Rows
    complete: bool  # there are no others


@dataclass(frozen=True, slots=True)
class RowSketch:
    """Hashes of the rows of a table, whatever the order of its rows and columns (`lake/row_sketch.py`)."""

    rows: int  # distinct rows that were hashed
    complete: bool  # those are all rows of the table; else its first ones
    digest: bytes  # of all rows that were read: equal for the same rows
    smallest: bytes  # the smallest hashes, ascending, 4 bytes each


@dataclass(frozen=True, slots=True)
class Table:
    """A sampled table. `name` is its path relative to the lake, with `/` on every system."""

    name: str
    columns: list[Column]
    rows: int  # how many rows were sampled, empty ones included
    row_sketch: RowSketch | None = field(default=None, compare=False)  # None: too little content
    doubt: str = field(default="", compare=False)  # why its header looks like data; empty: it does not
    delimiter: str | None = field(default=None, compare=False)  # of delimited text
    reading: str = field(default="", compare=False)  # what is not usual in how it is read; empty: nothing
    complete: bool = field(default=True, compare=False)  # all rows of the table were sampled

    def may_have_more(self, limits: Limits) -> bool:
        """Whether the table may have more rows than were sampled: large files are read in parts."""
        return not self.complete or self.rows >= limits.rows


@dataclass(frozen=True, slots=True)
class Limits:
    """What a table may cost, however large it is."""

    rows: int = 512  # rows sampled
    columns: int = 4096  # columns beyond are dropped, and the log says how many
    cell_chars: int = 256  # a cell is clipped to this
    text_bytes: int = 8 << 20  # bytes of text (after decompression) looked at
    typed_bytes: int = 64 << 20  # uncompressed bytes of Parquet, Arrow or Excel data looked at
    memory: str = "512MB"  # what DuckDB may use in each process
    seconds: float = 60.0  # for one file, where processes of their own read
    memory_mb: int = 2048  # what such a process may use for files, beyond what it needs itself (Linux)

    @property
    def head(self) -> int:
        """Rows from the top of a table that are hashed for its row sketch."""
        return 2 * self.rows

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could be read."""
        if self.seconds <= 0 or self.memory_mb < 1:
            raise ValueError("a file needs some time and some memory")
        if min(self.rows, self.columns, self.cell_chars, self.text_bytes, self.typed_bytes) < 1:
            raise ValueError("every limit has to be at least 1")


def doubt_note(name: str, doubt: str) -> str:
    """What is said of a table whose header looks like data."""
    told = "It was read as a row; if it is the header, say so with --header yes or a rule in gentus.toml"
    return f"{name}: {doubt}. {told}."


def tell_doubts(doubts: Iterable[tuple[str, str]]) -> None:
    """Log which tables have a header that looks like data; an empty doubt is none."""
    for name, doubt in doubts:
        if doubt:
            log.warning(doubt_note(name, doubt))


class TextOptions(TypedDict, total=False):
    """How delimited text is read, where a person says it."""

    header: Header | None
    encoding: str | None  # auto: it is found out


def text_choices(options: Mapping[str, Any]) -> dict[str, Any]:
    """What options say of delimited text, as fields of a source; raises `ValueError` if that is no choice."""
    chosen: dict[str, Any] = {}
    if (header := options.get("header")) is not None:
        if header not in HEADERS:
            raise ValueError(f"header is one of {', '.join(HEADERS)}, not {header!r}")
        chosen["header"] = header
    if (encoding := options.get("encoding")) is not None:
        try:
            chosen["encoding"] = (
                "" if encoding in ("", "auto") else codecs.lookup(encoding).name.removesuffix("-sig")
            )
            b"".decode(encoding if chosen["encoding"] else "utf-8")
        except (LookupError, ValueError) as error:
            raise ValueError(
                f"{encoding!r} is no encoding of text; there are utf-8, cp1252, cp1251, shift_jis and others"
            ) from error
    return chosen


def evenly_spaced(total: int, wanted: int) -> Sequence[int]:
    """Return at most `wanted` of the indices below `total`, evenly spread; the same ones every time."""
    if total <= wanted:
        return range(total)
    return [i * total // wanted for i in range(wanted)]
