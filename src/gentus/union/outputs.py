"""Where a union goes: CSV, TSV, Parquet or a table in a DuckDB file; whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gentus.lake.formats.typed import quoted
from gentus.lake.kinds import is_database
from gentus.lake.location import Location, as_location
from gentus.union.errors import OutputError
from gentus.union.macros import literal
from gentus.union.plan import UnionPlan
from gentus.union.running import provenance_names, result_sql

if TYPE_CHECKING:
    import duckdb

FORMATS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".duckdb": "duckdb", ".db": "duckdb"}
TABLE = "unioned"
_LOCK = "lock"
_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"[+-]?(?:\d[\d.,]*|\.\d+)(?:[eE][+-]?\d+)?\s?%?"


@dataclass(frozen=True, slots=True)
class Output:
    """Where to write, and how."""

    path: Path
    format: str
    table: str = TABLE  # in a DuckDB file
    guard_formulas: bool = False  # in CSV
    force: bool = False  # replace what is there

    @classmethod
    def by_name(
        cls, path: Path, table: str = TABLE, guard_formulas: bool = False, force: bool = False
    ) -> Output:
        """Tell the format from the end of the name."""
        kind = FORMATS.get(path.suffix.lower())
        if kind is None:
            raise OutputError(f"{path}: the name has to end in one of {', '.join(FORMATS)}")
        if guard_formulas and kind not in ("csv", "tsv"):
            raise OutputError(
                "formulas are only guarded in .csv and .tsv; other formats know text from formulas"
            )
        return cls(path, kind, table, guard_formulas, force)

    @property
    def adds_to_file(self) -> bool:
        """Whether a table is added to a database that is there."""
        return self.format == "duckdb" and self.path.exists()

    def check(self, plan: UnionPlan) -> None:
        """Refuse, before any work is done, what could not be written at its end."""
        for source in plan.sources:
            if source.path is not None and _same(self.path, as_location(source.path)):
                raise OutputError(f"{self.path} is read by this union; write to another file")
        self.check_place()

    def check_place(self) -> None:
        """The same for what can be told without a plan."""
        folder = self.path.parent
        if not folder.is_dir():
            raise OutputError(f"there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise OutputError(f"no permission to write in {folder}")
        if not (self.path.exists() or self.path.is_symlink()):
            return
        if not self.path.is_file():
            raise OutputError(f"{self.path} is not a file")
        if self.format == "duckdb":
            with self.path.open("rb") as file:
                start = file.read(16)
            if not is_database(start) or start.startswith(b"SQLite"):
                raise OutputError(f"{self.path} is not a DuckDB file; write to another one")
            if not self.force and self.table.casefold() in _tables(self.path):
                raise OutputError(
                    f"{self.path} has a table {self.table!r} already; --force replaces it,"
                    " --table-name gives yours another name"
                )
        elif not self.force:
            raise OutputError(f"{self.path} is there already; --force replaces it")


_ALONE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}


def _tables(path: Path) -> set[str]:
    """The tables and views of a DuckDB file."""
    import duckdb

    try:
        # A file of another kind, such as SQLite's, would have an extension fetched that reads it.
        with closing(duckdb.connect(str(path), read_only=True, config={**_ALONE})) as database:
            sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"
            return {str(name).casefold() for (name,) in database.execute(sql).fetchall()}
    except duckdb.Error as error:
        raise OutputError(f"{path} cannot be opened: {str(error).splitlines()[0]}") from error


def _same(one: Path, other: Location) -> bool:
    try:
        return isinstance(other, Path) and one.samefile(other)
    except OSError:
        return False


# --- a folder for what is unfinished -------------------------------------------------------------------


@contextmanager
def scratch_folder(output: Path | None) -> Iterator[Path]:
    """A hidden folder beside the output, gone in the end; and with it what a killed run left there."""
    if output is None:
        with tempfile.TemporaryDirectory(prefix="gentus-union-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    beginning = f".{output.name}.part-"
    for old in output.parent.glob(f"{_escaped(beginning)}*"):
        if _abandoned(old):
            shutil.rmtree(old, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=beginning, dir=output.parent))
    try:
        with _held(scratch / _LOCK):
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lock as long as this process lives, where the system has such locks; else have the file open."""
    with path.open("w") as file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _abandoned(folder: Path) -> bool:
    lock = folder / _LOCK
    try:
        if os.name == "nt":  # where an open file cannot be deleted, and closes with its process
            lock.unlink()
            return True
        import fcntl

        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


# --- writing -------------------------------------------------------------------------------------------


def write(
    output: Output, plan: UnionPlan, duck: duckdb.DuckDBPyConnection, scratch: Path
) -> Callable[[str, float], int]:
    """The work that writes a relation of all rows, of so many bytes, and returns how many were written."""

    def work(rows: str, row_bytes: float) -> int:
        if output.format == "duckdb":
            file = output.path if output.adds_to_file else scratch / "new.duckdb"
            return _into_table(duck, file, output, result_sql(plan, rows))
        text = _guarded if output.guard_formulas else str
        options = _OPTIONS[output.format]
        if output.format == "parquet":  # it is held in memory: fewer rows of long ones
            group = min(_ROW_GROUP, int(_ROW_GROUP_BYTES / max(1.0, row_bytes)) // _STEP * _STEP)
            options = f"{options}, ROW_GROUP_SIZE {max(_STEP, group)}"
        file = scratch / f"new.{output.format}"
        sql = result_sql(plan, rows, text, _guarded_name if output.guard_formulas else str)
        if output.format != "parquet" and len(columns_of(plan)) == 1:  # a blank line would be no row
            sql = f"SELECT coalesce(CAST(COLUMNS(*) AS VARCHAR), '') FROM ({sql})"
        ((count,),) = duck.execute(f"COPY ({sql}) TO {literal(str(file))} ({options})").fetchall()
        return int(count)

    return work


_OPTIONS = {
    "csv": "FORMAT csv, HEADER, DELIMITER ',', NULLSTR ''",
    "tsv": "FORMAT csv, HEADER, DELIMITER '\t', NULLSTR ''",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}
_ROW_GROUP, _ROW_GROUP_BYTES, _STEP = 122_880, 8 << 20, 2048


def _guarded(value: str) -> str:
    """Put a quote before text that a spreadsheet would run as a formula; plain numbers are none."""
    formula = (
        f"regexp_matches({value}, {literal(_FORMULA)}) AND NOT regexp_full_match({value}, {literal(_NUMBER)})"
    )
    return f"CASE WHEN {formula} THEN '''' || {value} ELSE {value} END"


def _guarded_name(name: str) -> str:
    return f"'{name}" if name[:1] in "=+-@\t\r" else name


def _into_table(duck: duckdb.DuckDBPyConnection, file: Path, output: Output, sql: str) -> int:
    """Create a table in one transaction: it is there whole or not at all, and the others are as they were."""
    import duckdb as api

    try:
        duck.execute(f"ATTACH {literal(str(file))} AS target (TYPE duckdb)")
    except api.Error as error:
        raise OutputError(f"{output.path} cannot be written: {str(error).splitlines()[0]}") from error
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
    """Give a finished file its name in one step; what has come to be there meanwhile stays, unless forced."""
    file = scratch / f"new.{output.format}"
    if not file.exists():  # a table that was added to a database
        return
    with file.open("rb+") as written:
        os.fsync(written.fileno())
    if output.force:
        file.replace(output.path)
    else:
        try:
            os.link(file, output.path)
        except FileExistsError as error:
            raise OutputError(f"{output.path} has come to be there meanwhile; --force replaces it") from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            file.replace(output.path)


def columns_of(plan: UnionPlan) -> list[str]:
    """The names of all columns of the result."""
    return [column.name for column in plan.columns] + (
        list(provenance_names(plan)) if plan.provenance else []
    )
