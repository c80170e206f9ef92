"""All rows of Parquet, Arrow, lakehouse tables, databases, workbooks and data frames, with their types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from gentus.lake.base import Unreadable, clean_names, failure_reason
from gentus.lake.files import SQLITE, magic
from gentus.lake.files import opened as opened_file
from gentus.lake.formats.arrow import arrow_reader
from gentus.lake.formats.arrow_mend import known_table, replaced, replaced_types, text_type, validated
from gentus.lake.formats.database import (
    duckdb_tables,
    open_sqlite,
    sqlite_columns,
    sqlite_rows,
    sqlite_tables,
)
from gentus.lake.formats.detect import Format
from gentus.lake.formats.excel import sheet_rows
from gentus.lake.formats.excel_errors import error_note
from gentus.lake.formats.parquet import (
    ROW_NUMBER,
    int96_times,
    left_out_note,
    parquet_file,
    parquet_literal,
    parquet_relation,
    unreadable_variants,
)
from gentus.lake.formats.postgres import connect, relation_of, split_url, text_of_column
from gentus.lake.formats.typed import VARIANT, check_depth, quoted
from gentus.lake.frames import Frame, arrow_of
from gentus.lake.full.rows import AT_ONCE, FullTable, Piece, Tally, full_from_text, streamed, text_array
from gentus.lake.location import Location, Remote
from gentus.lake.reader import open_lakehouse
from gentus.lake.remote.download import local_copy
from gentus.table import Limits

if TYPE_CHECKING:
    import duckdb

_NUMBERS = count()
_SHEET = 1 << 30  # bytes of the XML of a sheet in which errors are counted


def full_parquet(path: Location, duck: duckdb.DuckDBPyConnection, limits: Limits) -> FullTable:
    """A Parquet file; DuckDB reads it, and pyarrow the columns that DuckDB would change."""
    left_out: list[str] = []

    @contextmanager
    def opened(duck: duckdb.DuckDBPyConnection) -> Iterator[str]:
        with parquet_literal(path, duck, full=True) as file:
            yield parquet_relation(file, left_out)

    with opened(duck) as relation:
        described = [one for one in _described(duck, relation) if one[0] != ROW_NUMBER]
    arrow = _ParquetByArrow.of(path, duck, described)
    variant = any(sql_type == VARIANT for _, sql_type in described)
    notes = []
    if variant and (found := unreadable_variants(path, limits)):
        left_out += found
        notes.append(left_out_note(found))
    if arrow.beyond:
        left_out += arrow.beyond
        notes.append(f"left out, as nanoseconds beside years beyond 2262: {', '.join(arrow.beyond)}")
    fields = [at for at, one in enumerate(described) if one[0] not in left_out]
    columns = [(described[at][0], arrow.types.get(at, described[at][1])) for at in fields]
    check_depth(columns)

    @contextmanager
    def scan(duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally) -> Iterator[str]:
        if any(fields[at] in arrow.types for at in positions):
            with mending(duck, positions, tally) as relation:
                yield relation
            return
        with opened(duck) as relation:
            yield _selected(relation, [name for name, _ in columns], positions, f"{ROW_NUMBER} + 1")

    @contextmanager
    def mending(duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally) -> Iterator[str]:
        """The same by pyarrow, also where a byte is invalid UTF-8: DuckDB refuses the file."""
        with opened_file(path, full=True) as file:
            pieces = arrow.pieces(file, [fields[at] for at in positions], tally)
            kinds = [(f"c{at}", arrow.kinds[fields[at]]) for at in positions]
            with streamed(duck, pa.schema([*kinds, ("row", pa.int64())]), pieces, tally) as relation:
                # As DuckDB itself reads the other columns.
                casts = [
                    f"c{at}" if fields[at] in arrow.types else f"CAST(c{at} AS {columns[at][1]}) AS c{at}"
                    for at in positions
                ]
                yield f"(SELECT {', '.join([*casts, 'row'])} FROM {relation})"

    strict = _typed(columns, [name for name, _ in columns], scan, limits)
    if variant:  # which pyarrow reads as bytes
        return replace(strict, reading="; ".join(notes), left_out=bool(notes))
    return replace(strict, scan=mending, strict=strict, reading="; ".join(notes), left_out=bool(notes))


@dataclass(frozen=True, slots=True)
class _ParquetByArrow:
    """How pyarrow reads a Parquet file, and which columns it has to read, by their position."""

    schema: pa.Schema
    kinds: list[pa.DataType]  # of columns on their way to DuckDB
    types: dict[int, str]  # of columns that DuckDB would change: it lacks units and digits
    int96: str = "us"  # the unit of INT96 times, ...
    beyond: Sequence[str] = ()  # ... and columns with years that nanoseconds lack

    @classmethod
    def of(
        cls, path: Location, duck: duckdb.DuckDBPyConnection, described: Sequence[tuple[str, str]]
    ) -> _ParquetByArrow:
        """Look at its schema, and at all INT96 times."""
        with opened_file(path, full=True) as file:
            schema = parquet_file(file).schema_arrow
            fine, far = int96_times(file)
            if fine:
                schema = parquet_file(file, "ns").schema_arrow
        other = replaced_types(duck, schema)
        types = {schema.names.index(name): "TIMESTAMP_NS" for name in fine}
        for at, (_, sql_type) in enumerate(described):
            if at in types:
                types[at] = sql_type.replace("TIMESTAMP", "TIMESTAMP_NS")
            elif other.get(at) == pa.string() and not sql_type.startswith("DECIMAL"):
                types[at] = text_type(schema.field(at).type)
        kinds = [other.get(at, field.type) for at, field in enumerate(schema)]
        return cls(schema, kinds, types, "ns" if fine else "us", far if fine else ())

    def pieces(self, file: BinaryIO, fields: Sequence[int], tally: Tally) -> Iterator[Piece]:
        """The cells of some columns."""
        names = [self.schema.names[at] for at in fields]
        for batch in parquet_file(file, self.int96).iter_batches(AT_ONCE, columns=names, use_threads=False):
            found = validated(batch.select(names), tally.add_undecoded)
            cells = zip(found.columns, fields, names, strict=True)
            yield found.num_rows, [replaced(one, self.kinds[at], name) for one, at, name in cells]


def full_database(path: Location, part: str, duck: duckdb.DuckDBPyConnection, limits: Limits) -> FullTable:
    """One table of a DuckDB or SQLite file, opened read-only."""
    with local_copy(path, limits) as file:
        if magic(file) == SQLITE:
            return _full_sqlite(path, part, limits)
    with _attached(path, duck, limits) as database:
        relation = _inside(duck, database, part)
        columns = _described(duck, relation)

    @contextmanager
    def scan(duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally) -> Iterator[str]:
        with _attached(path, duck, limits) as database:
            relation = _inside(duck, database, part)
            yield _selected(relation, [name for name, _ in columns], positions, "row_number() OVER ()")

    return _typed(columns, [name for name, _ in columns], scan, limits)


@contextmanager
def _attached(path: Location, duck: duckdb.DuckDBPyConnection, limits: Limits) -> Iterator[str]:
    database = f"source_{next(_NUMBERS)}"
    with local_copy(path, limits) as local:
        file = str(local.resolve()).replace("'", "''")
        duck.execute(f"ATTACH '{file}' AS {database} (TYPE duckdb, READ_ONLY)")
        try:
            yield database
        finally:
            with suppress(Exception):  # a connection that has failed, or was stopped, may refuse
                duck.execute(f"DETACH {database}")


def _inside(duck: duckdb.DuckDBPyConnection, database: str, part: str) -> str:
    known = duckdb_tables(duck, database)
    if part not in known:
        raise Unreadable(f"the database has no table {part!r} any more")
    return known[part][0]


def _full_sqlite(path: Location, part: str, limits: Limits) -> FullTable:
    with local_copy(path, limits) as file, closing(open_sqlite(file)) as connection:
        if part not in sqlite_tables(connection):
            raise Unreadable(f"the database has no table {part!r} any more")
        header = sqlite_columns(connection, part)

    def rows(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        def text(value: Any) -> str | None:
            if isinstance(value, bytes):
                try:
                    return value.decode()
                except UnicodeDecodeError:
                    tally.binary += 1
                    return None
            return None if value is None else str(value)

        with local_copy(path, limits) as file, closing(open_sqlite(file, any_thread=True)) as connection:
            found = sqlite_rows(connection, part, [header[at] for at in positions])
            while some := found.fetchmany(AT_ONCE):
                columns = zip(*some, strict=True) if positions else iter(())
                yield len(some), [text_array([text(value) for value in column]) for column in columns]

    return full_from_text(header, rows, limits)


def full_sheet(path: Location, part: str, limits: Limits) -> FullTable:
    """A sheet of a workbook: its non-empty rows; the first of them is the header."""
    with sheet_rows(path, part, limits) as found:
        some = list(islice(found, limits.rows))
    if not some:
        raise Unreadable("the sheet is empty")
    width = max(map(len, some))
    header = [value or "" for value in some[0]] + [""] * (width - len(some[0]))

    def rows(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        with sheet_rows(path, part, limits) as found:
            next(found)
            while some := list(islice(found, AT_ONCE)):
                tally.beyond += sum(value is not None for row in some for value in row[width:])
                yield (
                    len(some),
                    [text_array([row[at] if at < len(row) else None for row in some]) for at in positions],
                )

    return replace(full_from_text(header, rows, limits), reading=error_note(path, part, _SHEET, full=True))


def full_postgres(location: Remote, limits: Limits) -> FullTable:
    """A table of a Postgres server, as text."""
    database, table = split_url(location)
    with connect(database) as cursor:
        relation = relation_of(cursor, database, table)

    def rows(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        with connect(database, seconds=0) as cursor:
            texts = [text_of_column(*relation.columns[at]) for at in positions]
            cursor.execute(f"SELECT {', '.join([*texts, '1'])} FROM {relation.sql}")
            for batch in cursor.fetch_record_batch():
                yield batch.num_rows, batch.columns[:-1]

    return full_from_text([column for column, _ in relation.columns], rows, limits)


def full_arrow(path: Location, duck: duckdb.DuckDBPyConnection, limits: Limits) -> FullTable:
    """An Arrow IPC (Feather) file or stream."""
    with _mapped(path) as mapped:
        reader, note = arrow_reader(mapped)
        schema = reader.schema
    full = _full_batches(schema, lambda *given: _arrow_pieces(path, *given), duck, limits)
    return replace(full, reading=note, left_out=bool(note))


def full_lakehouse(
    path: Location, known: Format, duck: duckdb.DuckDBPyConnection, limits: Limits
) -> FullTable:
    """A Delta or Iceberg table."""
    table = open_lakehouse(path, known, limits)

    def pieces(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        for batch in table.all_rows([table.schema.names[at] for at in positions]):
            yield batch.num_rows, batch.columns

    return _full_batches(table.schema, pieces, duck, limits)


def _full_batches(
    schema: pa.Schema,
    pieces: Callable[[Sequence[int], Tally], Iterator[Piece]],
    duck: duckdb.DuckDBPyConnection,
    limits: Limits,
) -> FullTable:
    other = replaced_types(duck, schema)
    numbered = pa.schema([(f"c{at}", other.get(at, field.type)) for at, field in enumerate(schema)])
    columns = _described_arrow(duck, numbered, schema)

    def known(positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
        for rows, arrays in pieces(positions, tally):
            found = zip(positions, arrays, strict=True)
            yield rows, [replaced(one, numbered.field(at).type, schema.names[at]) for at, one in found]

    def scan(
        duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally
    ) -> AbstractContextManager[str]:
        wanted = pa.schema([*(numbered.field(at) for at in positions), ("row", pa.int64())])
        return streamed(duck, wanted, known(positions, tally), tally)

    return _typed(columns, schema.names, scan, limits)


@contextmanager
def _mapped(path: Location) -> Iterator[pa.NativeFile]:
    with opened_file(path, full=True) as file:  # refuses what is no regular file
        remote = isinstance(path, Remote)
        with pa.PythonFile(file, mode="r") if remote else pa.memory_map(str(path)) as mapped:
            yield mapped


def _arrow_pieces(path: Location, positions: Sequence[int], tally: Tally) -> Iterator[Piece]:
    with _mapped(path) as mapped:
        reader, _ = arrow_reader(mapped)
        is_stream = isinstance(reader, pa.RecordBatchReader)
        for read in reader if is_stream else map(reader.get_batch, range(reader.num_record_batches)):
            batch = validated(read, tally.add_undecoded)
            for begin in range(0, batch.num_rows, 8 * AT_ONCE):
                some = batch.slice(begin, 8 * AT_ONCE)
                yield some.num_rows, [some.column(at) for at in positions]


def full_frame(frame: Frame, duck: duckdb.DuckDBPyConnection, limits: Limits) -> FullTable:
    """A data frame."""
    data = arrow_of(frame)
    try:
        plain = known_table(duck, data.rename_columns([f"c{at}" for at in range(data.num_columns)]))
        columns = _described_arrow(duck, plain.schema, data.schema)
    except Exception as error:
        raise Unreadable(failure_reason(error)) from error

    @contextmanager
    def scan(duck: duckdb.DuckDBPyConnection, positions: Sequence[int], tally: Tally) -> Iterator[str]:
        name = f"frame_{next(_NUMBERS)}"
        duck.register(name, plain)
        try:
            yield _selected(name, plain.column_names, positions, "row_number() OVER ()")
        finally:
            with suppress(Exception):
                duck.unregister(name)

    return _typed(columns, data.column_names, scan, limits)


# --- what they share -----------------------------------------------------------------------------------


def _typed(columns: list[tuple[str, str]], names: Sequence[str], scan: Any, limits: Limits) -> FullTable:
    if not columns:
        raise Unreadable("it has no columns")
    named = [bool(name.strip()) for name in names]
    return FullTable(clean_names(names, limits), named, [sql_type for _, sql_type in columns], False, scan)


def _selected(relation: str, names: Sequence[str], positions: Sequence[int], row: str) -> str:
    columns = [f"{quoted(names[at])} AS c{at}" for at in positions]
    return f"(SELECT {', '.join([*columns, f'{row} AS row'])} FROM {relation})"


def _described(duck: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]]:
    found = duck.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return [(str(row[0]), str(row[1])) for row in found]


def _described_arrow(
    duck: duckdb.DuckDBPyConnection, schema: pa.Schema, before: pa.Schema
) -> list[tuple[str, str]]:
    """Names and types of columns, given what they were before some were replaced."""
    name = f"schema_{next(_NUMBERS)}"
    duck.register(name, schema.empty_table())
    try:
        found = zip(_described(duck, name), schema, before, strict=True)
        return [
            (one[0], one[1] if new.type == old.type or one[1] != "VARCHAR" else text_type(old.type))
            for one, new, old in found
        ]
    finally:
        duck.unregister(name)
