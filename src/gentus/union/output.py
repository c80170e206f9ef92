"""The output of a union: a file by its format, complete or not at all, or a stream on standard output."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.lake.base import Unreadable
from gentus.lake.files import SQLITE, magic
from gentus.lake.formats.detect import is_database
from gentus.lake.formats.typed import literal, quoted
from gentus.lake.location import Location, as_location
from gentus.lake.sandbox.named import in_sandbox
from gentus.table import Limits
from gentus.terminal import copy_to_stdout
from gentus.union.errors import OutputError, OutputExistsError, as_output_error
from gentus.union.excel import check_sheet, write_excel
from gentus.union.not_finite import not_finite_notes, null_not_finite
from gentus.union.plan import UnionPlan
from gentus.union.session import NO_EXTENSIONS
from gentus.union.sqlite import MOST_COLUMNS as SQLITE_COLUMNS
from gentus.union.sqlite import as_sqlite_error, sqlite_tables, write_sqlite

if TYPE_CHECKING:
    import duckdb

FORMATS = {  # by the end of the name
    **{".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".parquet": "parquet", ".xlsx": "xlsx"},
    **{".duckdb": "duckdb", ".db": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite"},
}
STREAMS = ("csv", "tsv", "jsonl", "parquet")  # formats that can be written to standard output
STDOUT = Path("-")
TABLE = "unioned"
_DESCRIPTORS = Path("/dev/fd")  # where a descriptor of this process can be opened by its number
_PROVENANCE = ("_source_table", "_source_row")
# Spreadsheets skip blanks, control and invisible characters before a sign, and read signs of full width.
_SKIPPED = "\\x00-\\x20\\x7f-\xa0\xad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
_FORMULA = f"^(?:[\t\r\n]|[{_SKIPPED}]*[=+\\-@\uff1d\uff0b\uff0d\uff20])"
_NUMBER = r" *[+-]?(?:\d[\d.,]*|\.\d+)(?:[eE][+-]?\d+)?\s?%?"


@dataclass(frozen=True, slots=True)
class Output:
    """The file to write, and its format."""

    path: Path  # - for standard output
    format: str
    table: str = TABLE  # in a database; in Excel, the sheet
    guard_formulas: bool = False  # in CSV
    force: bool = False  # replace a file or table that exists

    @classmethod
    def by_name(
        cls,
        path: Path,
        table: str = TABLE,
        guard_formulas: bool = False,
        force: bool = False,
        format: str | None = None,
    ) -> Output:
        """The format, unless it is given, follows from the suffix of the path; on stdout it is CSV."""
        format = format or ("csv" if path == STDOUT else FORMATS.get(path.suffix.lower()))
        if format is None:
            raise OutputError(f"{path}: the name has to end in one of {', '.join(FORMATS)}")
        if path == STDOUT and format not in STREAMS:
            raise OutputError(f"{format} cannot be written to standard output; name a file")
        if path.suffix.lower() == ".db" and path.is_file() and magic(path) == SQLITE:
            format = "sqlite"
        if guard_formulas and format not in ("csv", "tsv"):
            raise OutputError(
                "formulas are only guarded in .csv and .tsv; the other formats store text as text"
            )
        return cls(path, format, table, guard_formulas, force)

    @property
    def adds_to_file(self) -> bool:
        """Whether a table is added to a database that exists."""
        return self.format in _DATABASES and self.path.exists()

    def check(self, plan: UnionPlan) -> None:
        """Raise `OutputError` before any work is done if the result could not be written."""
        for source in plan.sources:
            if source.path is not None and _same(self.path, as_location(source.path)):
                raise OutputError(f"{self.path} is read by this union; write to another file")
        columns = len(result_columns(plan))
        if self.format == "xlsx":
            check_sheet(self.table, columns)
        elif self.format == "sqlite" and columns > SQLITE_COLUMNS:
            raise OutputError(
                f"the result has {columns:,} columns, a table of SQLite at most {SQLITE_COLUMNS:,};"
                " write .duckdb or .parquet instead"
            )
        self.check_path()

    def check_path(self) -> None:
        """The same checks as far as they need no plan."""
        if self.path == STDOUT:
            if sys.__stdout__ is None or not _DESCRIPTORS.is_dir():
                raise OutputError("there is no standard output that can be written to here; name a file")
            return
        folder = self.path.parent
        if not folder.is_dir():
            raise OutputError(f"there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise OutputError(f"no permission to write in {folder}")
        if not (self.path.exists() or self.path.is_symlink()):
            return
        if not self.path.is_file():
            raise OutputError(f"{self.path} is not a file")
        if self.format in _DATABASES:
            self._check_database()
        elif not self.force:
            raise OutputExistsError(f"{self.path} already exists; --force replaces it")

    def _check_database(self) -> None:
        """It is one of the format, and the table is new or may be replaced."""
        with self.path.open("rb") as file:
            start = file.read(16)
        if not is_database(start) or (start == SQLITE) != (self.format == "sqlite"):
            raise OutputError(f"{self.path} is not {_DATABASES[self.format]} file; write to another one")
        list_tables = sqlite_tables if self.format == "sqlite" else _tables
        try:
            tables = in_sandbox(self.path, Limits(), list_tables, self.path)
        except Unreadable as error:  # it crashed or blocked its parser
            raise OutputError(f"{self.path} cannot be opened: {error.reason}") from error
        if not self.force and self.table.casefold() in tables:
            raise OutputExistsError(
                f"{self.path} already has a table {self.table!r}; --force replaces it,"
                " --table-name chooses another name"
            )


_DATABASES = {"duckdb": "a DuckDB", "sqlite": "an SQLite"}


def _tables(path: Path) -> set[str]:
    """The tables and views of a DuckDB file."""
    import duckdb

    with (  # for a file of another format, such as SQLite's, DuckDB would download an extension
        as_output_error(path, "cannot be opened"),
        closing(duckdb.connect(str(path), read_only=True, config={**NO_EXTENSIONS})) as database,
    ):
        sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"
        return {str(name).casefold() for (name,) in database.execute(sql).fetchall()}


def _same(one: Path, other: Location) -> bool:
    try:
        return isinstance(other, Path) and one.samefile(other)
    except OSError:
        return False


# --- the result ----------------------------------------------------------------------------------------


def result_sql(
    plan: UnionPlan, rows: str, text: Callable[[str], str] = str, name: Callable[[str], str] = str
) -> str:
    """The query for the result over a relation of all rows; `text` and `name` alter text cells and names."""
    columns = []
    for at, column in enumerate(plan.columns):
        kind = column.type or "VARCHAR"
        value = f"CAST(d{at} AS {kind})"
        columns.append(f"{text(value) if kind == 'VARCHAR' else value} AS {quoted(name(column.name))}")
    if plan.provenance:
        tables = " ".join(f"WHEN {at} THEN {literal(one.name)}" for at, one in enumerate(plan.sources))
        source_table, source_row = _provenance_names(plan)
        columns.append(f"{text(f'CASE s {tables} END')} AS {quoted(source_table)}")
        columns.append(f"r AS {quoted(source_row)}")
    return f"SELECT {', '.join(columns)} FROM {rows}"


def result_columns(plan: UnionPlan) -> list[str]:
    """The names of all columns of the result."""
    return [column.name for column in plan.columns] + (
        list(_provenance_names(plan)) if plan.provenance else []
    )


def result_types(plan: UnionPlan) -> list[tuple[str, str]]:
    """The names and types of all columns of the result."""
    types = [*(column.type or "VARCHAR" for column in plan.columns), "VARCHAR", "BIGINT"]
    return list(zip(result_columns(plan), types, strict=False))


def _provenance_names(plan: UnionPlan) -> tuple[str, ...]:
    """The names of the provenance columns; numbered if the query is a union and has such columns itself."""
    taken = {column.name.casefold() for column in plan.columns}
    number, names = 1, _PROVENANCE
    while any(name in taken for name in names):
        number += 1
        names = (f"{_PROVENANCE[0]}_{number}", f"{_PROVENANCE[1]}_{number}")
    return names


# --- writing -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the number of rows, and what the format could not hold as it was."""

    rows: int
    notes: list[str] = field(default_factory=list)


def write_rows(
    output: Output,
    plan: UnionPlan,
    duck: duckdb.DuckDBPyConnection,
    scratch: Path,
    rows: str,
    row_bytes: float,
) -> Written:
    """Write a relation of all rows, given the bytes per row.

    It is written to a file in the scratch folder, to stdout, or to a table of a database that exists.
    """
    file = output.path if output.adds_to_file else scratch / f"new.{output.format}"
    if output.format == "duckdb":
        return Written(_create_table(duck, file, output, result_sql(plan, rows)))
    if output.format == "sqlite":
        with as_sqlite_error(output.path):
            return Written(
                *write_sqlite(
                    duck, result_sql(plan, rows), result_types(plan), file, output.table, plan.strict
                )
            )
    if output.format == "xlsx":
        return Written(*write_excel(duck, result_sql(plan, rows), result_types(plan), file, output.table))
    text = _guarded if output.guard_formulas else str
    options = _OPTIONS[output.format]
    if output.format == "parquet":  # row groups are held in memory: fewer rows if they are long
        group = min(_ROW_GROUP, int(_ROW_GROUP_BYTES / max(1.0, row_bytes)) // _STEP * _STEP)
        options = f"{options}, ROW_GROUP_SIZE {max(_STEP, group)}"
        if (os.cpu_count() or 1) <= 2:  # two threads that keep the order of rows take longer than one
            duck.execute("SET threads = 1")
    sql = result_sql(plan, rows, text, _guarded_name if output.guard_formulas else str)
    types = result_types(plan)
    sql = null_not_finite(duck, sql, types, output.format)
    if output.format in ("csv", "tsv") and len(types) == 1:  # a blank line would be no row
        sql = f"SELECT coalesce(CAST(COLUMNS(*) AS VARCHAR), '') FROM ({sql})"
    with _into_stdout() if output.path == STDOUT else nullcontext(file) as target:
        ((count,),) = duck.execute(f"COPY ({sql}) TO {literal(str(target))} ({options})").fetchall()
    return Written(int(count), not_finite_notes(duck, types, output.format, plan.strict))


@contextmanager
def _into_stdout() -> Iterator[Path]:
    """A path to write to, whose bytes go to standard output as it was inherited.

    Opening `/dev/stdout` opens the file behind it anew: it would be emptied, and written from its start.
    """
    reader, writer = os.pipe()
    failures: list[OSError] = []

    def copy() -> None:
        try:
            copy_to_stdout(reader)
        except BrokenPipeError:  # the pipe is closed by now, too, which ends the writing ...
            failures.append(BrokenPipeError())  # ... in order: Click takes one with a number for a failure
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=copy, name="gentus stdout", daemon=True)
    thread.start()
    failed: Exception | None = None
    try:
        yield _DESCRIPTORS / str(writer)
    except Exception as error:  # of a pipe that is closed, whose cause the thread knows
        failed = error
    finally:
        os.close(writer)
        thread.join()
    for one in (*failures, failed):
        if one is not None:
            raise one


_OPTIONS = {
    "csv": "FORMAT csv, HEADER, DELIMITER ',', NULLSTR ''",
    "tsv": "FORMAT csv, HEADER, DELIMITER '\t', NULLSTR ''",
    "jsonl": "FORMAT json",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
_ROW_GROUP, _ROW_GROUP_BYTES, _STEP = 122_880, 8 << 20, 2048


def _guarded(value: str) -> str:
    """Put a quote before text that a spreadsheet would run as a formula; numbers stay."""
    formula = (
        f"regexp_matches({value}, {literal(_FORMULA)}) AND NOT regexp_full_match({value}, {literal(_NUMBER)})"
    )
    return f"CASE WHEN {formula} THEN '''' || {value} ELSE {value} END"


def _guarded_name(name: str) -> str:
    return f"'{name}" if re.match(_FORMULA, name) else name


def _create_table(duck: duckdb.DuckDBPyConnection, file: Path, output: Output, sql: str) -> int:
    """Create a table in one transaction; the other tables stay as they were."""
    import duckdb as api

    with as_output_error(output.path, "cannot be written"):
        duck.execute(f"ATTACH {literal(str(file))} AS target (TYPE duckdb)")
    table = f"target.main.{quoted(output.table)}"
    try:
        duck.execute("BEGIN")
        try:
            replace = "OR REPLACE " if output.force else ""
            duck.execute(f"CREATE {replace}TABLE {table} AS {sql}")
            duck.execute("COMMIT")
        except BaseException:
            with suppress(api.Error):
                duck.execute("ROLLBACK")
            raise
        ((count,),) = duck.execute(f"SELECT count(*) FROM {table}").fetchall()
        duck.execute("CHECKPOINT target")
        return int(count)
    finally:
        with suppress(api.Error):
            duck.execute("DETACH target")


# What file systems without links say, such as exFAT; the last one on Windows.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EINVAL)


def put_in_place(output: Output, scratch: Path) -> None:
    """Give a finished file its name in one step; a file created in the meantime stays, unless forced."""
    file = scratch / f"new.{output.format}"
    if not file.exists():  # standard output, or a table that was added to a database
        return
    with file.open("rb+") as written:
        os.fsync(written.fileno())
    if output.force:
        file.replace(output.path)
    else:
        try:
            os.link(file, output.path)
        except FileExistsError as error:
            raise OutputExistsError(
                f"{output.path} was created in the meantime; --force replaces it"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            file.replace(output.path)
