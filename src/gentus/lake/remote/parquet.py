"""Parquet at a URL: DuckDB reads it through us, so that a few ranges of bytes are fetched and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from gentus.lake.formats.typed import ROW_NUMBER, WINDOWS, runs_at, windows
from gentus.lake.location import Remote
from gentus.lake.remote.file import Ranges, RemoteFile, ranges_of, whole_of
from gentus.table import evenly_spaced

if TYPE_CHECKING:
    import duckdb

_ROOM = 512 << 10  # compressed bytes of row groups that a sample takes, unless the first one is larger
_NUMBERS = count()


@contextmanager
def shown_to(duck: duckdb.DuckDBPyConnection, place: Remote, whole: bool = False) -> Iterator[str]:
    """Let DuckDB open one object, by a name that stands for it and for nothing else."""
    scheme = f"gentus-{next(_NUMBERS)}"
    with whole_of(place) if whole else nullcontext(ranges_of(place)) as ranges:
        duck.register_filesystem(_one_object(scheme, ranges))
        try:
            yield f"{scheme}://object.parquet"
        except Exception as error:
            if ranges.failure is not None:  # DuckDB has put it into many more words
                raise ranges.failure from error
            raise
        finally:
            with suppress(Exception):  # a connection that has failed, or was stopped, may refuse
                duck.unregister_filesystem(scheme)


def _one_object(scheme: str, ranges: Ranges) -> Any:
    from fsspec import AbstractFileSystem

    class OneObject(AbstractFileSystem):  # type: ignore[misc]
        """A file system as DuckDB asks for one, with one file."""

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


def affordable_windows(
    place: Remote, file: str, total: int, wanted: int, duck: duckdb.DuckDBPyConnection
) -> str:
    """Say in SQL which rows to take: those at the beginning of row groups, of as many as are cheap to fetch.

    Where all of them are, the same rows as of a file on the disk. Of one large group the first rows are read,
    page by page.
    """
    first_page = "least(data_page_offset, coalesce(nullif(dictionary_page_offset, 0), data_page_offset))"
    groups = duck.execute(
        f"SELECT row_group_id, any_value(row_group_num_rows)::BIGINT, min({first_page})::BIGINT,"
        f" sum(total_compressed_size)::BIGINT FROM parquet_metadata({file}) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    ranges = ranges_of(place)
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


def _hold(ranges: Ranges, groups: list[tuple[int, int, int, int]]) -> None:
    start = min(group[2] for group in groups)
    ranges.hold(start, min(ranges.size, max(group[2] + group[3] for group in groups)))
