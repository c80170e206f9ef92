"""Table union search: find the tables of a data lake whose rows can be appended to yours.

Quick start::

    import gentus

    hits = gentus.search("lake/", "orders.csv", k=5)  # builds an index of the lake, or updates it
    hits.to_polars()

    index = gentus.build("lake/", "my.index")  # an index of your own; later: gentus.open("my.index")
    hits = index.search("orders.csv", fit="partial")
    index.align("orders.csv", hits[0])
    index.union("orders.csv", hits).write_parquet("all.parquet")

A query is a path, a URL, the name of a table of the index, or a data frame: pandas, polars, pyarrow, or
anything with `__arrow_c_stream__`. A lake is a folder, a database or a URL.

Classes, each with a `help` of its own: `Index`; `Hits` and `Hit`, what a search returns; `Alignment`, which
columns belong together; `UnionPlan`, `Union` and `UnionReport`, the rows of several tables in one; `Groups`
and `Group`, families of tables. All errors are `GentusError`, and each is also one of Python's own. The
modules are private: only `__all__` is public.
"""

from __future__ import annotations

import os as _os
import typing as _typing

# Torch's threads spin while they wait for each other. Beside any other busy program that makes a build ten
# times slower; asleep they cost a few percent. It has to be said before torch is first loaded.
_os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Some virtual machines advertise AMX, and end a process that uses it by an illegal instruction. So torch's
# matrix library is held to the instructions before it, unless the environment says otherwise.
_os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

__version__ = "0.1.0"
__all__ = [
    "Alignment",
    "GentusError",
    "Group",
    "Groups",
    "Hit",
    "Hits",
    "Index",
    "IndexFolderError",
    "IndexLockedError",
    "IndexNotFoundError",
    "LakeNotFoundError",
    "OutputError",
    "OutputExistsError",
    "PlanError",
    "TableNotFoundError",
    "Union",
    "UnionPlan",
    "UnionReport",
    "Unreadable",
    "build",
    "open",
    "open_lake",
    "refit",
    "search",
]

# Loaded when they are first used, so that `import gentus` takes milliseconds and `help(gentus)` is short.
_HOMES = {
    "Alignment": "gentus.align.alignment",
    "GentusError": "gentus.errors",
    "Group": "gentus.index.groups",
    "Groups": "gentus.index.groups",
    "Hit": "gentus.index.hits",
    "Hits": "gentus.index.hits",
    "Index": "gentus.index.index",
    "IndexFolderError": "gentus.index.folder",
    "IndexLockedError": "gentus.index.folder",
    "IndexNotFoundError": "gentus.index.folder",
    "LakeNotFoundError": "gentus.lake.base",
    "OutputError": "gentus.union.errors",
    "OutputExistsError": "gentus.union.errors",
    "PlanError": "gentus.union.errors",
    "TableNotFoundError": "gentus.lake.base",
    "Union": "gentus.union.union",
    "UnionPlan": "gentus.union.plan",
    "UnionReport": "gentus.union.report",
    "Unreadable": "gentus.lake.base",
}

if _typing.TYPE_CHECKING:
    from collections.abc import Sequence as _Sequence

    from gentus.align.alignment import Alignment
    from gentus.errors import GentusError
    from gentus.index.build import BuildOptions, RefitOptions
    from gentus.index.folder import IndexFolderError, IndexLockedError, IndexNotFoundError
    from gentus.index.groups import Group, Groups
    from gentus.index.hits import Hit, Hits
    from gentus.index.index import Index
    from gentus.index.queries import QueryInput
    from gentus.index.second_look import AtLeast, LakeSearchOptions
    from gentus.lake.base import LakeNotFoundError, TableNotFoundError, Unreadable
    from gentus.progress import Progress
    from gentus.union.errors import OutputError, OutputExistsError, PlanError
    from gentus.union.plan import UnionPlan
    from gentus.union.report import UnionReport
    from gentus.union.union import Union


@_typing.overload  # text is a sequence of texts, too; it comes first
def search(  # type: ignore[overload-overlap]
    lake: str | _os.PathLike[str],
    query: QueryInput,
    k: int = 10,
    *,
    fit: AtLeast = "any",
    min_score: float = 0.0,
    progress: Progress | None = None,
    **options: _typing.Unpack[LakeSearchOptions],
) -> Hits: ...
@_typing.overload
def search(
    lake: str | _os.PathLike[str],
    query: _Sequence[QueryInput],
    k: int = 10,
    *,
    fit: AtLeast = "any",
    min_score: float = 0.0,
    progress: Progress | None = None,
    **options: _typing.Unpack[LakeSearchOptions],
) -> list[Hits]: ...
def search(
    lake: str | _os.PathLike[str],
    query: QueryInput | _Sequence[QueryInput],
    k: int = 10,
    *,
    fit: AtLeast = "any",
    min_score: float = 0.0,
    progress: Progress | None = None,
    **options: _typing.Unpack[LakeSearchOptions],
) -> Hits | list[Hits]:
    """Search a lake by its cached index, which is built by the first call and updated by later ones.

    An update lists the files of the lake and reads those that are new or have changed. For many searches,
    `open_lake` does that once.

    Args:
        lake: A folder, a database or a URL.
        query: A path, a URL, the name of a table of the lake, or a data frame; or a list of them.
        k: How many tables.
        fit: Only tables that fit at least so far: `"any"`, `"partial"` or `"full"`.
        min_score: Only tables with this score at least, from 0 to 1.
        progress: Where to show the progress of a build.
        **options: `explain`, `header`, `beam` and `order`, as in `Index.search`.

    Example:
        >>> gentus.search("lake/", "orders.csv", k=3, fit="full")
        2 of 2 tables fit yours fully.
        #  table               fit   columns  score
        1  orders-2024-01.csv  full  4 of 4   1.0...
        2  orders-2024-02.csv  full  4 of 4   1.0...
    """
    with open_lake(lake, progress) as index:
        return index.search(query, k, fit=fit, min_score=min_score, **options)


def open_lake(lake: str | _os.PathLike[str], progress: Progress | None = None) -> Index:
    """Open the cached index of a lake: built by the first call, updated by later ones.

    It lies in the folder that the environment variable `GENTUS_CACHE` names, or else in the cache folder of
    the system, never in the lake. What was built or updated is logged by the logger `gentus.index.cached`.

    Example:
        >>> index = gentus.open_lake("lake/")
        >>> len(index)
        10
    """
    from gentus.index.cached import open_lake

    return open_lake(lake, progress)


def build(
    lake: str | _os.PathLike[str],
    index: str | _os.PathLike[str],
    labels: str | _os.PathLike[str] | None = None,
    **options: _typing.Unpack[BuildOptions],
) -> Index:
    """Index a lake and return the opened index.

    Interrupted, it goes on where it stopped when called again; files that did not change are not read again.

    Args:
        lake: A folder, a database or a URL.
        index: The folder of the index.
        labels: A CSV file of `query_table,candidate_table` pairs to learn from; needs `gentus[train]`.
        **options: `names=True` lets column names count; `header="auto"` says whether delimited text has one;
            `force=True` replaces an index of another lake; `preset`, `settings` and `seed` choose how it is
            learnt, `workers`, `engine`, `address` and `time_budget` where and how long; `progress` shows it.

    Example:
        >>> index = gentus.build("lake/", "new.index")
        >>> len(index)
        10
    """
    from gentus.index.build import build

    return build(lake, index, labels, **options)


def open(path: str | _os.PathLike[str]) -> Index:
    """Open an index folder.

    Example:
        >>> with gentus.open("my.index") as index:
        ...     index.search("orders.csv", k=1)[0].table
        'orders-2024-01.csv'
    """
    from gentus.index.index import Index

    return Index(path)


def refit(
    index: str | _os.PathLike[str],
    labels: str | _os.PathLike[str] | None = None,
    **options: _typing.Unpack[RefitOptions],
) -> Index:
    """Learn an index anew from the tables that it has now, with the settings of its build.

    Args:
        index: The folder of the index.
        labels: As for `build`; by default those that it was learnt from before.
        **options: `workers`, `time_budget` and `progress`, as for `build`.

    Example:
        >>> len(gentus.refit("my.index"))
        10
    """
    from gentus.index.build import refit

    return refit(index, labels, **options)


if not _typing.TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> _typing.Any:
        if name in _HOMES:
            from importlib import import_module

            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'gentus' has no attribute {name!r}")
