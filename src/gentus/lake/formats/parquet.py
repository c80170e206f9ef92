"""Parquet files, here or at a URL: rows from runs spread over the file.

DuckDB reads objects at URLs through us, so that a few ranges of bytes are fetched and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO

from gentus.extras import install_extra
from gentus.lake.base import Unreadable
from gentus.lake.files import opened
from gentus.lake.formats.arrow_mend import validated
from gentus.lake.formats.typed import (
    VARIANT,
    WINDOWS,
    Chosen,
    file_literal,
    quoted,
    relation_table,
    runs_at,
    session,
    text_of,
    windows,
)
from gentus.lake.location import Location, Remote
from gentus.lake.remote.file import ByteRanges, RemoteFile, full_ranges, ranges_of
from gentus.table import Limits, Table, evenly_spaced

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_NUMBER = "file_row_number"
_ROOM = 512 << 10  # compressed bytes of row groups that a sample takes, unless the first one is larger
_NUMBERS = count()


def read_parquet(path: Location, name: str, limits: Limits) -> Table:
    """Read runs of rows spread over a Parquet file; where a byte is invalid UTF-8, its first rows."""
    import duckdb as api

    try:
        return _read_runs(path, name, limits)
    except api.Error as error:
        if isinstance(error, api.InvalidInputException) and "UTF8" in str(error):
            return _read_mended(path, name, limits)
        left_out = unreadable_variants(path, limits)
        if not left_out:
            raise
    return replace(_read_runs(path, name, limits, left_out), reading=left_out_note(left_out))


def _read_mended(path: Location, name: str, limits: Limits) -> Table:
    """By pyarrow: DuckDB refuses all columns for one byte."""
    import pyarrow as pa

    from gentus.lake.formats.arrow import arrow_table

    pieces, left = [], limits.head
    with opened(path) as file:
        parquet = parquet_file(file)
        for batch in parquet.iter_batches(left, use_threads=False):
            pieces.append(validated(batch.slice(0, left)))
            left -= batch.num_rows
            if left <= 0:
                break
        complete = parquet.metadata.num_rows <= limits.head
    with session(limits) as duck, parquet_literal(path, duck) as literal:
        variants = _variants(duck, parquet_relation(literal))  # which pyarrow reads as bytes
    data = pa.Table.from_batches(pieces).drop_columns(variants)
    table = arrow_table(data.slice(0, limits.rows), name, limits, data, complete)
    return replace(table, reading=left_out_note(variants)) if variants else table


def parquet_relation(file: str, left_out: Sequence[str] = ()) -> str:
    """An SQL relation of a file, with numbers of rows; its columns are those that are not left out."""
    relation = f"read_parquet({file}, {ROW_NUMBER} = true, hive_partitioning = false)"
    if not left_out:
        return relation
    return f"(SELECT * EXCLUDE ({', '.join(map(quoted, left_out))}) FROM {relation})"


def left_out_note(columns: Sequence[str]) -> str:
    """What is said of Variant columns that cannot be read."""
    return f"left out, as DuckDB cannot read their Variant values: {', '.join(columns)}"


def unreadable_variants(path: Location, limits: Limits) -> list[str]:
    """The Variant columns with values in the sampled rows that DuckDB cannot read."""
    import duckdb as api

    with session(limits) as duck, parquet_literal(path, duck) as file:
        variants = _variants(duck, parquet_relation(file))
    found = []
    for column in variants:
        try:
            with session(limits) as duck, parquet_literal(path, duck) as file:
                where = _sampled(path, file, duck, limits)[0]
                cells = f"count({text_of(quoted(column), VARIANT)})"
                duck.execute(f"SELECT {cells} FROM {parquet_relation(file)} WHERE {where}").fetchall()
        except api.Error:
            found.append(column)
    return found


def parquet_file(file: BinaryIO, int96: str = "us") -> pq.ParquetFile:
    """A file as pyarrow reads it; its INT96 times become counts of a unit."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.PythonFile(file, mode="r"), coerce_int96_timestamp_unit=int96)


def int96_times(file: BinaryIO) -> tuple[list[str], list[str]]:
    """The columns of INT96 with nanoseconds, and those with years that 64 bits of nanoseconds lack.

    DuckDB keeps microseconds; the type itself tells neither.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = parquet_file(file).schema
    leaves = (schema.column(at) for at in range(len(schema)))
    columns = dict.fromkeys(leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96")
    fine, far = dict[str, None](), dict[str, None]()
    for column in columns:
        ways = (parquet_file(file, unit).iter_batches(columns=[column]) for unit in ("ns", "us"))
        for batches in zip(*ways, strict=True):
            for one, other in zip(*(_times(batch.column(0)) for batch in batches), strict=True):
                exact, cut = one.cast(pa.int64()), other.cast(pa.int64())
                fits = pc.less_equal(pc.abs(cut), (1 << 63) // 1000)
                if pc.any(pc.invert(fits)).as_py():
                    far[column] = None
                if pc.any(pc.and_(fits, pc.not_equal(exact, pc.multiply(cut, 1000)))).as_py():
                    fine[column] = None
    return list(fine), list(far)


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """The times in a column, of nested ones too."""
    import pyarrow as pa

    if pa.types.is_nested(array.type):
        found = array.flatten()
        for one in found if isinstance(found, list) else [found]:
            yield from _times(one)
    elif pa.types.is_timestamp(array.type):
        yield array


def _variants(duck: duckdb.DuckDBPyConnection, relation: str) -> list[str]:
    described = duck.execute(f"DESCRIBE FROM {relation}").fetchall()
    return [str(row[0]) for row in described if row[1] == VARIANT]


def _read_runs(path: Location, name: str, limits: Limits, left_out: Sequence[str] = ()) -> Table:
    with session(limits) as duck, parquet_literal(path, duck) as file:
        where, total, wanted = _sampled(path, file, duck, limits)
        relation = parquet_relation(file, left_out)
        # At a URL, or of large cells, the first rows may be more to read than the sample.
        sampled = isinstance(path, Remote) or wanted < limits.rows or total <= wanted
        top = None if sampled else f"{relation} WHERE {ROW_NUMBER} < {limits.head}"
        complete = total <= (wanted if top is None else limits.head)
        return relation_table(relation, name, limits, Chosen(where, ROW_NUMBER, top, complete))


def _sampled(
    path: Location, file: str, duck: duckdb.DuckDBPyConnection, limits: Limits
) -> tuple[str, int, int]:
    """An SQL condition for the sampled rows, how many rows there are, and how many are wanted."""
    found = duck.execute(f"SELECT num_rows FROM parquet_file_metadata({file})").fetchall()
    size = duck.execute(f"SELECT sum(total_uncompressed_size) FROM parquet_metadata({file})").fetchall()
    total = int(found[0][0]) if found else 0
    if not total:
        raise Unreadable("it has columns and no rows")
    wanted = _affordable(int(size[0][0] or 0) if size else 0, total, limits)
    if isinstance(path, Remote):
        return _cheap_windows(path, file, total, wanted, duck), total, wanted
    return windows(ROW_NUMBER, total, wanted), total, wanted


@contextmanager
def parquet_literal(path: Location, duck: duckdb.DuckDBPyConnection, full: bool = False) -> Iterator[str]:
    """The file as an SQL literal; inside the context, DuckDB can open an object at a URL by it."""
    if isinstance(path, Remote):
        with _registered(duck, path, full) as name:
            yield f"'{name}'"
        return
    with opened(path):
        pass  # refuses what is no regular file
    yield file_literal(str(path.resolve()))


def _affordable(size: int, total: int, limits: Limits) -> int:
    """How many rows to read so that cells of megabytes stay within the limits."""
    return max(1, min(limits.rows, limits.typed_bytes * total // max(1, size)))


# --- at a URL ---------------------------------------------------------------------------------------------


@contextmanager
def _registered(duck: duckdb.DuckDBPyConnection, location: Remote, full: bool = False) -> Iterator[str]:
    """Register a name with DuckDB by which it can open this object, and nothing else."""
    scheme = f"gentus-{next(_NUMBERS)}"
    with full_ranges(location) if full else nullcontext(ranges_of(location)) as ranges:
        duck.register_filesystem(_one_object(scheme, ranges))
        try:
            yield f"{scheme}://object.parquet"
        except Exception as error:
            if ranges.failure is not None:  # not the long message that DuckDB makes of it
                raise ranges.failure from error
            raise
        finally:
            with suppress(Exception):  # a connection that has failed, or was stopped, may refuse
                duck.unregister_filesystem(scheme)


def _one_object(scheme: str, ranges: ByteRanges) -> Any:
    try:
        from fsspec import AbstractFileSystem
    except ImportError as error:
        raise Unreadable(f"reading Parquet in an archive needs fsspec: {install_extra('remote')}") from error

    class OneObject(AbstractFileSystem):  # type: ignore[misc]
        """A file system with one file, as DuckDB expects one."""

        protocol = scheme
        cachable = False

        def _open(self, path: str, mode: str = "rb", **_: Any) -> RemoteFile:
            return RemoteFile(ranges)

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": ranges.size, "type": "file"}

        def modified(self, path: str) -> datetime:
            return datetime.fromtimestamp(0, UTC)

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

    return OneObject()


def _cheap_windows(
    location: Remote, file: str, total: int, wanted: int, duck: duckdb.DuckDBPyConnection
) -> str:
    """An SQL condition for rows at the beginning of row groups, of as many groups as are cheap to fetch.

    If all groups are cheap, it takes the same rows as of a local file. Of one large group it takes the first
    rows, which are read page by page.
    """
    first_page = "least(data_page_offset, coalesce(nullif(dictionary_page_offset, 0), data_page_offset))"
    groups = duck.execute(
        f"SELECT row_group_id, any_value(row_group_num_rows)::BIGINT, min({first_page})::BIGINT,"
        f" sum(total_compressed_size)::BIGINT FROM parquet_metadata({file}) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    ranges = ranges_of(location)
    if sum(size for *_, size in groups) <= _ROOM:
        _hold(ranges, groups)
        return windows(ROW_NUMBER, total, wanted)
    mean = sum(size for *_, size in groups) // len(groups)
    runs = max(1, min(WINDOWS, wanted, _ROOM // max(1, mean)))
    chosen = [groups[i] for i in evenly_spaced(len(groups), runs)]
    firsts = [0]
    for _, rows, _, _ in groups:
        firsts.append(firsts[-1] + rows)
    for group in chosen:
        if group[3] <= _ROOM:
            _hold(ranges, [group])
    return runs_at(ROW_NUMBER, [firsts[group[0]] for group in chosen], -(-wanted // len(chosen)))


def _hold(ranges: ByteRanges, groups: list[tuple[int, int, int, int]]) -> None:
    start = min(group[2] for group in groups)
    ranges.hold(start, min(ranges.size, max(group[2] + group[3] for group in groups)))
