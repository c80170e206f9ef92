"""What a ranking is compared with: the interface of a retriever, and the lexical baselines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


class _Tfidf:
    """Cosine of TF-IDF vectors over the cells of a whole table, column names unseen."""

    name = "TF-IDF"
    options: dict[str, Any]

    def __init__(self, values: int = VALUES) -> None:
        self.values = values
        self.names: list[str] = []

    def fit(self, tables: Iterable[Table]) -> None:
        """Weigh the terms of the lake and turn its tables into an inverted index."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.names = []

        def texts() -> Iterator[str]:
            for table in tables:
                self.names.append(table.name)
                yield self._text(table)

        self._vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **self.options)
        # Stored by term: a query then touches the terms it has, not every table of the lake.
        self._postings = self._vectorizer.fit_transform(texts()).T.tocsr()  # (terms, tables)

    def search(self, table: Table, k: int) -> list[str]:
        """Rank by cosine; tables that share no term with the query are no answer."""
        query = self._vectorizer.transform([self._text(table)])  # (1, terms)
        scores = (query @ self._postings).toarray()[0]  # (tables,)
        return [self.names[place] for place in best(scores, k)]

    def facts(self) -> dict[str, Any]:
        """Return how large the index is."""
        arrays = (self._postings.data, self._postings.indices, self._postings.indptr)
        size = sum(array.nbytes for array in arrays)
        return {"bytes_per_table": size / len(self.names), "terms": self._postings.shape[0]}

    def _text(self, table: Table) -> str:
        return "\n".join(value for column in table.columns for value in distinct(column, self.values))


class TfidfWords(_Tfidf):
    """TF-IDF over the words of the cells, those of one character too: in a table they may be all there is."""

    name = "TF-IDF words"
    options: dict[str, Any] = {"token_pattern": r"\b\w+\b"}  # noqa: RUF012


class TfidfChars(_Tfidf):
    """TF-IDF over character 3- and 4-grams inside words."""

    name = "TF-IDF chars 3-4"
    options: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (3, 4)}  # noqa: RUF012
