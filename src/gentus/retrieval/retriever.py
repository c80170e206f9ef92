"""What an index needs of a way to identify and rank tables: the seam between `index` and its retrievers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32, I64
from gentus.table import Table

Query = TypeVar("Query")


class Ranked(NamedTuple):
    """Rows of the prefix tree, best first."""

    rows: I64  # (n,)
    scores: F32  # (n,) higher is better


class Retriever(ABC, Generic[Query]):
    """Identifiers for tables, and a ranking of tables for a query, over one prefix tree."""

    @abstractmethod
    def encode(self, table: Table) -> Query:
        """What `rank` needs to know of a query table."""

    @abstractmethod
    def codes(self, tables: Sequence[Table]) -> tuple[NDArray[np.unsignedinteger[Any]], F32]:
        """(T, L) base identifiers of tables, and (T,) quantization errors, by which suffixes are assigned.

        Those of a table do not depend on the tables beside it.
        """

    @abstractmethod
    def rank(self, query: Query, k: int, beam: int | None = None) -> Ranked:
        """At least the `k` best identifiers for an encoded query, as far as there are so many."""
