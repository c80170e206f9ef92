"""An opened index: search it, change it, ask what it is made of. Nothing here imports torch."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from gentus.align.alignment import Alignment
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.identifiers.semantic_ids import format_sid
from gentus.index.catalogue import Catalogue, explain_errors
from gentus.index.compactor import Compactor, compact
from gentus.index.config import IndexConfig
from gentus.index.contents import IndexContents
from gentus.index.folder import Layout, damaged, read_config, verify_files
from gentus.index.hits import Hit, Hits, NameCache, answer
from gentus.index.info import index_facts
from gentus.index.listing import TableEntry, TableList
from gentus.index.lookup import Lookup
from gentus.index.queries import Content, NamedQuery, QueryInput, encoded, locate_query, read_many, sampled
from gentus.index.second_look import ChosenOptions, SearchOptions
from gentus.index.snapshot import Snapshot
from gentus.lake import Limits, Remote, Skipped, Source, as_location
from gentus.progress import Progress
from gentus.search.beam import Decoder
from gentus.table import Header, Table, tell_doubts

if TYPE_CHECKING:
    from gentus.generator.model import Generator
    from gentus.index.description import TableDescription
    from gentus.index.union_plan import UnionOptions
    from gentus.index.updater import Changes, Updater
    from gentus.union import Union, UnionPlan

T = TypeVar("T")
QUERY_BATCH = 64  # queries of a list that are searched together; memory stays bounded however long it is


class Index(IndexContents):
    """A finished index folder. Open as many as you like, in as many processes as you like.

    An open index sees what others add and remove with its next search.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.layout = Layout(Path(path).absolute())  # the working folder may change
        path_of_catalogue = self.layout.catalogue
        written = read_config(Layout(Path(path)))  # it says what is wrong, with the path as it was given
        self._lock = threading.RLock()
        self._generator: tuple[int, Generator] | None = None  # with its generation
        self._compactor = Compactor(self.layout)
        self._changed = False  # whether it was changed through this object
        with explain_errors(self.layout):
            self.catalogue = Catalogue(path_of_catalogue)
            self._version = self.catalogue.version()
            self._names = NameCache(self.catalogue)
            self._snapshot = Snapshot.load(self.layout, self.catalogue)
        if written.config_version > self._snapshot.config.config_version:  # the catalogue is written first
            raise damaged(self.layout, path_of_catalogue, f"{self.layout.config.name} is newer")

    # --- searching -------------------------------------------------------------------------------------

    def search(
        self,
        query: QueryInput | Sequence[QueryInput],
        k: int = 10,
        explain: bool = False,
        **options: Unpack[SearchOptions],
    ) -> Any:
        """Tables whose rows could be appended to the query's, best first.

        A query is a path or URL, the name of a table of the index, or a polars, pandas or Arrow table. The
        answer is a list that is also an Arrow table (`Hits`); a list of queries gives a list of answers. A
        table of the index is never its own hit. Every hit says how far it fits; with `explain`, also which of
        its columns belong to which of the query's, and why. Other options are those of `SearchOptions`.
        """
        several = isinstance(query, list | tuple)
        queries = list(query) if several else [query]
        answers: list[Hits] = []
        for begin in range(0, len(queries), QUERY_BATCH):
            resolve = partial(self._lookup.resolve, header=options.get("header"))
            some = list(map(resolve, queries[begin : begin + QUERY_BATCH]))
            tables = [self.read(one) for one in some]
            hits = self.search_as(some, tables, k, **options)
            told = partial(self._lookup.explain, least=options.get("fit", "any"))
            answers += map(told, tables, hits) if explain else hits
            tell_doubts((table.name, table.doubt) for table in tables)
        return answers if several else answers[0]

    def search_as(
        self,
        queries: Sequence[QueryInput],
        tables: Sequence[Table],
        k: int = 10,
        **options: Unpack[SearchOptions],
    ) -> list[Hits]:
        """The same for queries that were read before, all at once."""
        snapshot = self._current()
        contents = sampled(tables) if self._reads_cells(snapshot) else encoded(tables, snapshot.encoder)
        return self._search(snapshot, queries, contents, k, options)

    def search_many(
        self,
        queries: Iterable[NamedQuery],
        k: int = 10,
        workers: int | None = None,
        **options: Unpack[SearchOptions],
    ) -> Iterator[tuple[str, Hits | Skipped]]:
        """Search with very many tables: read in several processes, some at a time; answers in order.

        One that cannot be read gives why, and the others go on.
        """
        snapshot = self._current()
        encoder = None if self._reads_cells(snapshot) else snapshot.encoder
        find = partial(self._lookup.find, suggest=False, header=options.get("header"))
        found = read_many(queries, find, encoder, workers or os.cpu_count() or 1, self.limits)
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
        chosen = ChosenOptions.of(k, options, labelled=snapshot.config.report.labels is not None)
        generator = self._generator_of(snapshot)
        with explain_errors(self.layout):
            queries = list(map(partial(locate_query, catalogue=self.catalogue), inputs, contents))
            found = answer(snapshot, generator, queries, chosen, self._names)
        return [Hits(hits, content.doubt) for hits, content in zip(found, contents, strict=True)]

    def _reads_cells(self, snapshot: Snapshot) -> bool:
        """Whether a language model or a generator reads the cells of queries."""
        return snapshot.encoder.states is not None or self._generator_of(snapshot) is not None

    def read(self, query: QueryInput) -> Table:
        """The sample of a query."""
        return self._lookup.read(query)

    # --- the current snapshot --------------------------------------------------------------------------

    def refresh(self) -> None:
        """See what was changed by others, or through this object; every search does."""
        with self._lock, explain_errors(self.layout):
            version = self.catalogue.version()
            if version != self._version:
                self._snapshot = Snapshot.load(self.layout, self.catalogue, self._snapshot)
                self._version = version
                self._names.clear()

    def _current(self) -> Snapshot:
        """The snapshot of now, with the language model loaded if one reads the columns."""
        self.refresh()
        with self._lock:
            snapshot = self._snapshot
            checkpoint, encoder = snapshot.config.settings.bert, snapshot.encoder
            if checkpoint is not None and isinstance(encoder, Encoder) and encoder.states is None:
                from gentus.features.bert import BertColumns

                reading = replace(encoder, states=BertColumns.load(checkpoint).states)
                self._snapshot = snapshot = replace(snapshot, encoder=reading)
        return snapshot

    @property
    def config(self) -> IndexConfig:
        """How the index was made, and which files are current."""
        return self._snapshot.config

    @property
    def encoder(self) -> ClosedForm | Encoder:
        """Tables in, latents out."""
        return self._snapshot.encoder

    @property
    def decoder(self) -> Decoder:
        """Latents in, identifiers out."""
        return self._snapshot.decoder

    @property
    def generator(self) -> Generator | None:
        """The generator, loaded when it is first needed; None where the prior alone ranks."""
        return self._generator_of(self._snapshot)

    def _generator_of(self, snapshot: Snapshot) -> Generator | None:
        if snapshot.config.generator is None:
            return None
        generation = snapshot.config.generation
        with self._lock:
            if self._generator is None or self._generator[0] != generation:
                from gentus.generator.model import Generator

                folder = self.layout.generator(generation)
                verify_files(self.layout, snapshot.config, [folder])
                self._generator = generation, Generator.load(folder)
            return self._generator[1]

    @property
    def limits(self) -> Limits:
        """How much of a table is read."""
        return self.config.settings.limits

    def close(self) -> None:
        """Close the catalogue; the index cannot be searched any more."""
        self._compactor.wait()
        self.catalogue.close()
        if self._changed:  # we were readers beside the writer that made the changes, so SQLite kept its log
            with suppress(sqlite3.Error), closing(Catalogue(self.layout.catalogue, writable=True)) as last:
                last.empty_log()
            self._changed = False

    def __enter__(self) -> Index:
        """For `with`: closes at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the catalogue."""
        self.close()

    # --- changing it -----------------------------------------------------------------------------------

    def add(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        header: Header | None = None,
        progress: Progress | None = None,
    ) -> Changes:
        """Add files or whole folders; they can be found at once. Changed files are replaced."""
        some = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        return self._change(lambda: self._updater(progress).add(some, header))

    def add_tables(self, found: Iterable[Source | Skipped]) -> Changes:
        """The same for tables that were found already, by the names they have."""
        return self._change(lambda: self._updater().add_tables(found))

    def remove(self, names: str | Iterable[str]) -> Changes:
        """Remove tables by name; their identifiers are never assigned to others."""
        some = [names] if isinstance(names, str) else list(names)
        return self._change(lambda: self._updater().remove(some))

    def sync(
        self,
        lake: str | os.PathLike[str] | None = None,
        *,
        header: Header | None = None,
        dry_run: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Changes:
        """Follow the lake: add new files, replace changed ones, remove deleted ones.

        `header` is that of all delimited text that no rule of the lake names, from now on. `dry_run` only
        says what would happen; `force` removes even most of the index.
        """
        root, updater = as_location(lake or self.config.lake), partial(self._updater, progress)
        if dry_run:
            return updater().foresee(root, header)
        return self._change(lambda: updater().sync(root, header, force))

    def compact(self) -> bool:
        """Write all identifiers as one prefix tree. It happens by itself when much has changed."""
        return self._change(lambda: compact(self.layout))

    def _updater(self, progress: Progress | None = None) -> Updater:
        from gentus.index.updater import Updater

        return Updater(self.layout, self._snapshot, progress or Progress())

    def _change(self, work: Callable[[], T]) -> T:
        """Do it on the index as it is now, see the result, and compact the index if that is due."""
        self._compactor.wait()
        self.refresh()
        self._changed = True
        done = work()
        self.refresh()
        self._compactor.start_if_due(self._snapshot.changes, len(self._snapshot.base))
        return done

    # --- its tables ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many tables can be found."""
        self.refresh()
        return len(self.decoder.trie)

    def __repr__(self) -> str:
        """The folder, and how many tables."""
        return f"<gentus.Index {self.layout.root}: {len(self):,} tables>"

    def sid(self, name: str) -> str | None:
        """The identifier of a table of the index; None if there is none of that name."""
        with explain_errors(self.layout):
            found = self.catalogue.identifiers.of_table(name, self.config.levels)
        return None if found is None else format_sid(*found)

    def entries(self, words: str = "") -> list[TableEntry]:
        """All tables that can be found, sorted by name, or those whose names contain all words."""
        self.refresh()
        with self._lock, explain_errors(self.layout):
            found = TableList.load(self.catalogue, self.config.levels, self.limits.rows)
        return found.entries(found.matching(words))

    def describe(self, name: str) -> TableDescription:
        """A table of the index: where it is, its shape, its identifier, and what its columns contain."""
        return self._lookup.describe(name, self.sid(name))

    def info(self) -> dict[str, Any]:
        """What the index is made of, how large it is, its codebook statistics and its drift."""
        tables = len(self)
        with explain_errors(self.layout):
            return index_facts(self.layout, self.config, self.catalogue, tables)

    @property
    def _lookup(self) -> Lookup:
        settings, lake = self.config.settings, as_location(self.config.lake)
        return Lookup(self.layout, self.catalogue, lake, settings.limits, settings.names, settings.header)

    def source(self, name: str) -> Source | None:
        """Where a table of the index is, by its name; None if there is none of that name."""
        return self._lookup.source(name)

    def find(self, query: NamedQuery, header: Header | None = None) -> Source:
        """The table that a query names: a file or a URL, or else a table of the index."""
        return self._lookup.find(query, header=header)

    def align(
        self,
        query: QueryInput,
        table: str | Hit | QueryInput,
        names: bool = True,
        header: Header | None = None,
    ) -> Alignment:
        """Which columns of a query and of a table belong together, and why.

        The table is one of the index, by its name or as a hit, or anything that can be a query. Column names
        count unless `names` is false. `header` is for the query, and for a table that is not in the index.
        """
        return self._lookup.align(query, table, names, header)

    def union_plan(
        self,
        query: QueryInput,
        tables: str | Hit | Source | Sequence[str | os.PathLike[str] | Hit | Source],
        **options: Unpack[UnionOptions],
    ) -> UnionPlan:
        """Plan to put rows of tables under the query's: which column goes where, of which type.

        Tables are hits, names, or files that are not in the index. Options are those of `UnionOptions`.
        """
        from gentus.index.union_plan import plan_union

        some = tables if isinstance(tables, Sequence) and not isinstance(tables, str) else [tables]
        return plan_union(self._lookup, query, some, **options)

    def union(
        self,
        query: QueryInput,
        tables: str | Hit | Source | Sequence[str | os.PathLike[str] | Hit | Source],
        **options: Unpack[UnionOptions],
    ) -> Union:
        """Put rows of tables under the query's, to be written. Options are those of `union_plan`."""
        from gentus.union import Union

        frame = None if isinstance(query, str | os.PathLike | Remote | Source) else query
        return Union(self.union_plan(query, tables, **options), frame, self.limits)
