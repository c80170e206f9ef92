"""Lexical baselines: TF-IDF over words or character n-grams of whole tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gentus.features.names import name_words
from gentus.table import Table
from gentus_bench.baselines.base import VALUES, best, distinct, serving_mb


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
        return [self.names[place] for place in best(self.scores(table), k)]

    def scores(self, table: Table) -> NDArray[np.float32]:
        """(tables,) cosines."""
        query = self._vectorizer.transform([self._text(table)])  # (1, terms)
        scores: NDArray[np.float32] = (query @ self._postings).toarray()[0]
        return scores

    def vectors(self) -> sp.csr_matrix:
        """(tables, terms) of length one."""
        return self._postings.T.tocsr()

    def facts(self) -> dict[str, Any]:
        """Return how large the index is."""
        arrays = (self._postings.data, self._postings.indices, self._postings.indptr)
        size = sum(array.nbytes for array in arrays)
        return {
            "bytes_per_table": size / len(self.names),
            "serving_mb": serving_mb(self),
            "terms": self._postings.shape[0],
        }

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


class TfidfNameWords(TfidfWords):
    """The same over the words of column names, not of cells."""

    def _text(self, table: Table) -> str:
        return "\n".join(" ".join(name_words(column.name)) for column in table.columns)


class TfidfNameChars(TfidfChars):
    """The same over the characters of column names, not of cells."""

    def _text(self, table: Table) -> str:
        return "\n".join(" ".join(name_words(column.name)) for column in table.columns)


class TfidfNames:
    """Words and characters of cells and of names: four cosines, each in its standard deviations, summed."""

    name = "TF-IDF, names"

    def __init__(self) -> None:
        self._views = (TfidfWords(), TfidfChars(), TfidfNameWords(), TfidfNameChars())

    def fit(self, tables: Iterable[Table]) -> None:
        """Weigh the terms of every view."""
        every = list(tables)
        for view in self._views:
            view.fit(every)

    def search(self, table: Table, k: int) -> list[str]:
        """Rank by the sum of standardised cosines."""
        each = [view.scores(table) for view in self._views]
        total = sum((scores - scores.mean()) / max(float(scores.std()), 1e-9) for scores in each)
        order = np.argsort(-np.asarray(total), kind="stable")[:k]
        return [self._views[0].names[place] for place in order]

    def facts(self) -> dict[str, Any]:
        """Return how large the index is."""
        each = [view.facts() for view in self._views]
        return {key: sum(facts[key] for facts in each) for key in ("bytes_per_table", "serving_mb")}
