"""Data frames of other libraries: pandas, polars, lazy ones, pyarrow, and all that has an Arrow stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gentus.lake.base import Unreadable, failure_reason
from gentus.table import Limits, Table, evenly_spaced

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowStream(Protocol):
    """A table of pyarrow, polars, pandas, DuckDB, ..: one with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The stream."""


class LazyFrame(Protocol):
    """A query that becomes a data frame, such as a polars `LazyFrame`."""

    def collect(self) -> ArrowStream:
        """The data frame."""


class Interchange(Protocol):
    """A data frame with the older interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """The data frame, for others."""


Frame: TypeAlias = ArrowStream | LazyFrame | Interchange


def from_frame(frame: Frame, name: str, limits: Limits | None = None) -> Table:
    """Sample a data frame; of a stream, whose length is unknown, the first rows."""
    limits = limits or Limits()
    try:
        return _sampled(_collected(frame), name, limits)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error


def arrow_of(frame: Frame) -> pa.Table:
    """All rows of a data frame. A stream can be read once, the result as often as needed."""
    try:
        return _arrow_of(_collected(frame))
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error


def _collected(frame: Any) -> Any:
    """The data frame that a lazy one becomes."""
    return frame.collect() if hasattr(frame, "collect") and not _is_stream(frame) else frame


def _is_stream(frame: Any) -> bool:
    return hasattr(frame, "__arrow_c_stream__")


def _sampled(frame: Any, name: str, limits: Limits) -> Table:
    import pyarrow as pa

    from gentus.lake.formats.arrow import arrow_table, from_batches

    if isinstance(frame, pa.Table):
        return arrow_table(frame, name, limits)
    if hasattr(frame, "iloc"):  # pandas: convert only the rows we take
        data = _from_pandas(frame.iloc[list(evenly_spaced(len(frame), limits.rows)), : limits.columns])
        if len(frame) <= limits.rows:
            return arrow_table(data, name, limits)
        top = _from_pandas(frame.iloc[: limits.head, : limits.columns])
        return arrow_table(data, name, limits, top, len(frame) <= limits.head)
    if hasattr(frame, "gather_every") and len(frame) > limits.rows:  # polars: the same
        few = _arrow_of(frame[list(evenly_spaced(len(frame), limits.rows))])
        return arrow_table(few, name, limits, _arrow_of(frame[: limits.head]), len(frame) <= limits.head)
    if _is_stream(frame):
        return from_batches(pa.RecordBatchReader.from_stream(frame), name, limits)
    return arrow_table(_arrow_of(frame), name, limits)


def _arrow_of(frame: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "iloc"):
        return _from_pandas(frame)
    if _is_stream(frame):
        return pa.RecordBatchReader.from_stream(frame).read_all()
    if hasattr(frame, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(frame)
    raise Unreadable(f"a {type(frame).__name__} is no table; give a polars, pandas or pyarrow one")


def _from_pandas(frame: Any) -> pa.Table:
    """By column position: names may be of any type, and repeat."""
    import pyarrow as pa

    names = [str(column) for column in frame.columns]
    try:
        plain = frame.set_axis(range(len(names)), axis=1)
        return pa.Table.from_pandas(plain, preserve_index=False).rename_columns(names)
    except (pa.ArrowException, ValueError, TypeError):  # columns of mixed types
        columns = (frame.iloc[:, at] for at in range(len(names)))
        texts = [[None if cell is None else str(cell) for cell in column] for column in columns]
        return pa.Table.from_arrays([pa.array(cells, pa.string()) for cells in texts], names)
