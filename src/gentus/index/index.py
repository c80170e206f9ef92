"""An opened index: search it, align and unite what was found. Nothing here imports torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, Unpack, overload

from gentus.align.alignment import Alignment
from gentus.index.answer import answer
from gentus.index.catalogue import explain_errors
from gentus.index.changes import IndexChanges
from gentus.index.contents import IndexContents
from gentus.index.hits import Hit, Hits
from gentus.index.queries import (
    Content,
    NamedQuery,
    QueryInput,
    encoded,
    is_named,
    is_one_query,
    locate_query,
    read_many,
)
from gentus.index.second_look import AtLeast, ChosenOptions, RankingOptions, SearchOptions
from gentus.index.snapshot import Snapshot
from gentus.lake import Skipped, Source, arrow_of
from gentus.settings import refuse_unknown
from gentus.table import Header, Table, TextOptions, tell_doubts

if TYPE_CHECKING:
    from gentus.index.union_plan import UnionOptions
    from gentus.union import Union, UnionPlan

QUERY_BATCH = 64  # queries of a list that are searched together; memory stays bounded however long it is
OneTable: TypeAlias = str | os.PathLike[str] | Hit | Source


class Index(IndexContents, IndexChanges):
    """A finished index folder. Open as many as you like, in as many processes as you like.

    An open index sees what others add and remove with its next search.

    Example:
        >>> with gentus.open("my.index") as index:
        ...     hits = index.search("orders.csv", k=3)
        ...     report = index.union("orders.csv", hits).write_parquet("all.parquet")
        >>> report.rows
        48
    """

    @overload  # text is a sequence of texts, too; it comes first
    def search(  # type: ignore[overload-overlap]
        self,
        query: QueryInput,
        k: int = 10,
        *,
        fit: AtLeast = "any",
        min_score: float = 0.0,
        explain: bool = False,
        header: Header | None = None,
        **ranking: Unpack[RankingOptions],
    ) -> Hits: ...
    @overload
    def search(
        self,
        query: Sequence[QueryInput],
        k: int = 10,
        *,
        fit: AtLeast = "any",
        min_score: float = 0.0,
        explain: bool = False,
        header: Header | None = None,
        **ranking: Unpack[RankingOptions],
    ) -> list[Hits]: ...
    def search(
        self,
        query: QueryInput | Sequence[QueryInput],
        k: int = 10,
        *,
        fit: AtLeast = "any",
        min_score: float = 0.0,
        explain: bool = False,
        header: Header | None = None,
        **ranking: Unpack[RankingOptions],
    ) -> Hits | list[Hits]:
        """Tables whose rows could be appended to the query's, best first.

        A table of the index is never its own hit. A list of queries gives a list of answers.

        Args:
            query: A path or URL, the name of a table of the index, or a data frame: pandas, polars (a
                `LazyFrame` is collected), pyarrow, or anything with `__arrow_c_stream__`.
            k: How many tables.
            fit: Only tables that fit at least so far: `"any"`, `"partial"` or `"full"`.
            min_score: Only tables with this score at least, from 0 to 1.
            explain: Add to every hit which of its columns belong to which of the query's, and why.
            header: Whether the first row of a query that is delimited text is a header: `"yes"`, `"no"` or
                `"auto"`; by default as in the index.
            **ranking: `beam`, its width, `order`, by `"aligned"` or `"generated"` scores, and the `encoding`
                of a query that is delimited text; rarely needed.

        Example:
            >>> index.search("orders.csv", k=3)
            3 of 3 tables fit yours, 2 of them fully.
            #  table               fit      columns  score
            1  orders-2024-01.csv  full     4 of 4   1.0...
            2  orders-2024-02.csv  full     4 of 4   1.0...
            3  orders-2024-03.csv  partial  3 of 4   0.9...
            >>> import polars
            >>> frame = polars.scan_csv("orders.csv")
            >>> len(index.search([frame, "films-1.csv"], fit="partial"))
            2
        """
        options: SearchOptions = {"fit": fit, "min_score": min_score, "header": header, **ranking}
        queries = [query] if is_one_query(query) else list(query)
        answers: list[Hits] = []
        for begin in range(0, len(queries), QUERY_BATCH):
            resolve = partial(self._lookup.resolve, text=options)
            some = list(map(resolve, queries[begin : begin + QUERY_BATCH]))
            tables = [self.read(one) for one in some]
            hits = self.search_as(some, tables, k, **options)
            told = partial(self._lookup.explain, least=fit)
            answers += map(told, tables, hits) if explain else hits
            tell_doubts((table.name, table.doubt) for table in tables)
        return answers[0] if is_one_query(query) else answers

    def search_as(
        self,
        queries: Sequence[QueryInput],
        tables: Sequence[Table],
        k: int = 10,
        **options: Unpack[SearchOptions],
    ) -> list[Hits]:
        """The same for queries that were read before, all at once.

        Example:
            >>> [len(hits) for hits in index.search_as(["orders.csv"], [index.read("orders.csv")], k=2)]
            [2]
        """
        snapshot = self._current()
        contents = encoded(tables, snapshot.retriever.encode)
        return self._search(snapshot, queries, contents, k, options)

    def search_many(
        self,
        queries: Iterable[NamedQuery],
        k: int = 10,
        workers: int | None = None,
        **options: Unpack[SearchOptions],
    ) -> Iterator[tuple[str, Hits | Skipped]]:
        """Search with very many tables: read in several processes, some at a time; answers in order.

        One that cannot be read gives a `Skipped` that says why, and the others go on.

        Example:
            >>> for name, hits in index.search_many(["orders.csv", "films-1.csv"], k=2, workers=1):
            ...     print(name, hits.verdict)
            orders.csv 2 of 2 tables fit yours fully.
            films-1.csv 2 of 2 tables fit yours fully.
        """
        snapshot = self._current()
        find = partial(self._lookup.find, suggest=False, text=options)
        encode = snapshot.retriever.portable()
        found = read_many(queries, find, encode, workers or os.cpu_count() or 1, self.limits)
        while some := list(islice(found, QUERY_BATCH)):
            read = [result for _, result in some if not isinstance(result, Skipped)]
            sources, contents = zip(*read, strict=True) if read else ((), ())
            hits = iter(self._search(snapshot, sources, contents, k, options))
            tell_doubts((source.name, one.doubt) for source, one in zip(sources, contents, strict=True))
            for name, result in some:
                yield name, result if isinstance(result, Skipped) else next(hits)

    def _search(
        self,
        snapshot: Snapshot,
        inputs: Sequence[QueryInput],
        contents: Sequence[Content],
        k: int,
        options: SearchOptions,
    ) -> list[Hits]:
        chosen = ChosenOptions.of(k, options, labelled=snapshot.config.ordered_by_labels)
        with explain_errors(self.layout):
            queries = list(
                map(
                    partial(locate_query, catalogue=self.catalogue, lake=snapshot.config.lake),
                    inputs,
                    contents,
                )
            )
            found = answer(snapshot, queries, chosen, self._names)
        return [Hits(hits, content.doubt) for hits, content in zip(found, contents, strict=True)]

    def read(self, query: QueryInput) -> Table:
        """The sample of a query.

        Example:
            >>> [column.name for column in index.read("orders.csv").columns]
            ['order', 'day', 'city', 'amount']
        """
        return self._lookup.read(query)

    def align(
        self,
        query: QueryInput,
        table: Hit | QueryInput,
        names: bool = True,
        **text: Unpack[TextOptions],
    ) -> Alignment:
        """Which columns of a query and of a table belong together, and why.

        Args:
            query: What can be searched with.
            table: A table of the index, by its name or as a hit, or anything that can be a query.
            names: Whether column names count.
            **text: `header` and `encoding` of delimited text: of the query, and a file not in the index.

        Example:
            >>> found = index.align("orders.csv", "orders-2024-03.csv")
            >>> [(pair.query.name, pair.table.name) for pair in found.pairs]
            [('order', 'id'), ('day', 'date'), ('city', 'town')]
            >>> [column.name for column in found.query_only]
            ['amount']
        """
        refuse_unknown(text, TextOptions)
        return self._lookup.align(query, table, names, text)

    def union_plan(
        self,
        query: QueryInput,
        tables: OneTable | Sequence[OneTable] | Callable[[Table], Sequence[OneTable]],
        **options: Unpack[UnionOptions],
    ) -> UnionPlan:
        """Plan to put rows of tables under the query's: which column goes where, of which type.

        Tables are hits, names, or files that are not in the index; or a function that chooses them by the
        sample of the query, which is then read once. Options are those of `union`.

        Example:
            >>> plan = index.union_plan("orders.csv", index.search("orders.csv"))
            >>> plan
            <UnionPlan: orders.csv and 3 tables, 4 columns>
            >>> plan.save("plan.json")
        """
        from gentus.index.union_plan import plan_union

        some = [tables] if isinstance(tables, str | os.PathLike | Hit | Source) else tables
        return plan_union(self._lookup, query, some, **options)

    def union(
        self, query: QueryInput, tables: OneTable | Sequence[OneTable], **options: Unpack[UnionOptions]
    ) -> Union:
        """Put rows of tables under the query's, to be written, or to be read as Arrow, pandas or polars.

        Args:
            query: What can be searched with; all of its rows are taken.
            tables: Hits, names, or files that are not in the index.
            **options: `fit="partial"` and `min_score=0` leave out hits that fit less; `keep_extra=False`
                adds columns that the query lacks; `provenance=True` adds the file of each row;
                `distinct=False` leaves out equal rows; `strict=False` makes what only a default decides an
                error; `decimal`, `dates` and `null_values` say how cells are read; `names=True` lets column
                names count; `header` and `encoding` say how delimited text is read; `progress` shows it.

        Example:
            >>> union = index.union("orders.csv", index.search("orders.csv", fit="full"), provenance=False)
            >>> union.to_polars().shape
            (36, 4)
        """
        from gentus.union import Union

        frame = None if is_named(query) or isinstance(query, Table) else arrow_of(query)
        plan = self.union_plan(query if frame is None else frame, tables, **options)
        return Union(plan, frame, self.limits)
