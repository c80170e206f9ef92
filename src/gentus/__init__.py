"""GenTUS: generative table union search.

>>> import gentus                                    # doctest: +SKIP
>>> index = gentus.build("lake/", "lake.index/")     # doctest: +SKIP
>>> index.search("query.csv", k=10)                  # doctest: +SKIP

The packages in the order of the data; each imports only itself and those before it:
lake, features, neighbours, embed, identifiers, search, generator, align, union, index, app.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Unpack

# Torch's threads spin while they wait for each other. Beside any other busy program that makes a build ten
# times slower; asleep they cost a few percent. It has to be said before torch is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
__all__ = ["Hit", "Index", "build", "open", "refit"]

if TYPE_CHECKING:
    from gentus.index.build import BuildOptions, RefitOptions
    from gentus.index.hits import Hit
    from gentus.index.index import Index


def build(
    lake: str | os.PathLike[str],
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    **options: Unpack[BuildOptions],
) -> Index:
    """Index a lake and return the opened index. Options are those of `gentus.index.build.build`."""
    from gentus.index.build import build

    return build(lake, index, labels, **options)


def open(path: str | os.PathLike[str]) -> Index:
    """Open an index folder."""
    from gentus.index.index import Index

    return Index(path)


def refit(
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    **options: Unpack[RefitOptions],
) -> Index:
    """Learn an index anew from the tables it has now. Options are those of `gentus.index.build.refit`."""
    from gentus.index.build import refit

    return refit(index, labels, **options)


def __getattr__(name: str) -> Any:
    if name in {"Hit", "Index"}:
        from gentus.index import hits, index

        return hits.Hit if name == "Hit" else index.Index
    raise AttributeError(f"module 'gentus' has no attribute {name!r}")
