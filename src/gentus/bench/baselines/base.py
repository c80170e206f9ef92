"""The interface of a retriever, and what every baseline shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from gentus.table import Column, Table

VALUES = 24  # distinct values a column, as many as GenTUS' own encoders see


class Retriever(Protocol):
    """Anything that ranks the tables of a lake for a query table."""

    @property
    def name(self) -> str:
        """What it is called in results."""

    def fit(self, tables: Iterable[Table]) -> None:
        """Take in the lake; `tables` can be gone through once."""

    def search(self, table: Table, k: int) -> list[str]:
        """Return the names of at most `k` tables, best first; the query itself may be among them."""


@runtime_checkable
class Reports(Protocol):
    """A retriever that knows more about itself than its rankings show."""

    def facts(self) -> dict[str, Any]:
        """Return what to put beside its scores, such as `bytes_per_table`; asked after all searches."""


def distinct(column: Column, limit: int = VALUES) -> list[str]:
    """Return the first distinct cells of a column."""
    return list(dict.fromkeys(column.cells))[:limit]


def best(scores: npt.NDArray[np.floating[Any]], k: int) -> npt.NDArray[np.intp]:
    """Return the places of the `k` highest positive scores, best first; of equals, the earlier one."""
    if k < len(scores):
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero((scores >= threshold) & (scores > 0))
    else:
        places = np.flatnonzero(scores > 0)
    return places[np.argsort(-scores[places], kind="stable")[:k]]
