"""An index, opened: search a table, ask what it is made of. Nothing here imports torch."""

from __future__ import annotations

import difflib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from safetensors.numpy import save

from gentus.align.alignment import Alignment
from gentus.arrays import I64
from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.features.weights import map_tensors
from gentus.files import write_file
from gentus.identifiers.codebooks import Codebooks
from gentus.identifiers.semantic_ids import format_sid, format_sids
from gentus.index.catalogue import Catalogue, Named
from gentus.index.config import IndexConfig
from gentus.index.drift import drift
from gentus.index.folder import IndexFolderError, Layout, check_format, read_config, verify
from gentus.index.ingest import name_at
from gentus.index.ranker import Found, Moment, Seen, rank, read_many, restore_encoder
from gentus.index.row_checksums import AlteredError
from gentus.lake import (
    Limits,
    Remote,
    Skipped,
    Source,
    Unreadable,
    as_location,
    exists,
    from_frame,
    name_in_errors,
    read,
    read_path,
)
from gentus.search.beam import Decoder
from gentus.search.overlay import apply_delta
from gentus.search.trie import Tree, Trie, build_trie
from gentus.settings import EncoderSettings
from gentus.table import Table

if TYPE_CHECKING:
    from gentus.generator.model import Generator
    from gentus.index.updater import Changes, Updater
    from gentus.progress import Progress
    from gentus.union import Union, UnionPlan

log = logging.getLogger("gentus")
T = TypeVar("T")
_Place: TypeAlias = tuple[str | bytes, str | None]  # a file, and which of its tables if it has several
Query: TypeAlias = Any  # a path or a URL, a Table or Source, or a polars, pandas or Arrow table
MOST_NAMES = 50_000  # that are kept in memory: a few hundred bytes each
AT_ONCE = 64  # queries of a list; memory stays bounded however long it is


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer."""

    rank: int
    table: str  # its name in the lake
    score: float  # 1 for the same content, 0 for unrelated
    sid: str  # its identifier
    path: str
    prior: float | None = None  # the part of the score that the latent space gives; with a generator only
    generator: float | None = None  # and the part that the generator gives
    alignment: Alignment | None = None  # which columns belong together, where an explanation was asked for

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = {name: value for name, value in asdict(self).items() if value is not None}
        if self.alignment is not None:
            told["alignment"] = self.alignment.to_dict()
        return told


class Index:
    """A finished index folder. Open as many as you like, in as many processes as you like.

    An open index sees what others add and remove with its next search.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.layout = Layout(Path(path))
        told = read_config(self.layout)  # which says what is wrong
        self.layout = Layout(self.layout.root.absolute())  # the working folder may change
        self._lock = threading.RLock()
        self._generator: tuple[int, Generator] | None = None  # with the generation it is of
        self._tidying: threading.Thread | None = None
        self._changes = False  # whether we made any
        with self._reading():
            self.catalogue = Catalogue(self.layout.catalogue)
            self._seen = self.catalogue.version()
            self._named: dict[int, Named] = {}  # names that were read since then
            self._now = self._load(None)
        if told.config_version > self.config.config_version:  # the catalogue is always the first to know
            raise _damaged(self.layout, self.layout.catalogue, f"{self.layout.config.name} is newer")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say what is wrong with the catalogue, where something is."""
        path = self.layout.catalogue
        try:
            yield
        except sqlite3.OperationalError as error:
            if not path.exists() or "UTF-8" in str(error):
                raise _damaged(self.layout, path, error) from error
            raise IndexFolderError(
                f"{path} cannot be read: {error}. Is the disk full, or a permission missing?"
            ) from error
        except sqlite3.Error as error:
            raise _damaged(self.layout, path, error) from error

    # --- the state of things ---------------------------------------------------------------------------

    def _load(self, known: Moment | None) -> Moment:
        """What the catalogue says is current, keeping of what is known all that still holds."""
        config, tried = None, 0
        while True:
            before, config = config, self.catalogue.config()
            if config is None:
                raise IndexFolderError(
                    f"{self.layout.catalogue} does not say which files are current. "
                    f"Build the index again: gentus index LAKE -o {self.layout.root}"
                )
            check_format(self.layout, config.format, config.lake)
            try:
                return self._loaded(config, known)
            except IndexFolderError:
                tried += 1
                if config == before or tried > 5:
                    raise  # else a writer switched over between the two reads

    def _loaded(self, config: IndexConfig, known: Moment | None) -> Moment:
        generation, snapshot = config.generation, config.snapshot
        if known is not None and known.config.generation == generation:
            encoder, codebooks = known.encoder, known.decoder.codebooks
        else:
            self._verify(config, self.layout.model(generation))
            try:
                encoder, codebooks = load_model(self.layout.model(generation), config.settings.encoder)
            except Exception as error:
                raise _damaged(self.layout, self.layout.model(generation), error) from error
        folder = self.layout.trie(snapshot)
        if known is not None and known.config.snapshot == snapshot:
            base = known.base
        else:
            self._verify(config, folder)
            try:
                base = Trie.load(folder)
                if base.levels != codebooks.levels:
                    raise ValueError(f"its identifiers do not have {codebooks.levels} codes")
            except Exception as error:
                raise _damaged(self.layout, folder, error) from error
        with self.catalogue.transaction(read=True):  # what came and went, as of one moment
            added, gone = (
                build_trie(found.codes, found.suffixes, found.tables)
                for found in (
                    self.catalogue.identifiers(base.levels, since=config.change_sequence),
                    self.catalogue.gone(base.levels, since=config.change_sequence),
                )
            )
            if self.catalogue.config() != config:
                raise IndexFolderError(f"{self.layout.root} is being changed without end; try again.")
            serial, known_tables = self.catalogue.serial(), self.catalogue.identified()
        tree = apply_delta(base, added, gone)
        whole = config.settings.identifiers != "no-suffix"  # which leads to one table a code
        if whole and len(tree) != known_tables:
            reason = f"it leads to {len(tree):,} tables, and {known_tables:,} were written"
            raise _damaged(self.layout, self.layout.catalogue, reason)
        return Moment(config, encoder, base, len(added) + len(gone), serial, Decoder(tree, codebooks))

    def _verify(self, config: IndexConfig, path: Path) -> None:
        """Compare a file, or the files of a folder, with their checksums."""
        name = path.relative_to(self.layout.root).as_posix()
        files = {file: told for file, told in config.files.items() if file.split("/")[0] == name}
        if not files:
            raise _damaged(self.layout, self.layout.config, f"it lists no checksum of {name}")
        for file, told in files.items():
            wrong = verify(self.layout, file, told)
            if wrong:
                raise _damaged(self.layout, self.layout.root / file, wrong)

    def refresh(self) -> None:
        """See what was changed by others, or by this index itself; every search does."""
        with self._lock, self._reading():
            version = self.catalogue.version()
            if version != self._seen:
                self._now = self._load(self._now)
                self._seen, self._named = version, {}

    @property
    def config(self) -> IndexConfig:
        """How the index was made, and which files are current."""
        return self._now.config

    @property
    def encoder(self) -> ClosedForm | Encoder:
        """Tables in, latents out."""
        return self._now.encoder

    @property
    def decoder(self) -> Decoder:
        """Latents in, identifiers out."""
        return self._now.decoder

    @property
    def limits(self) -> Limits:
        """How much of a table is read."""
        return self.config.settings.limits

    def close(self) -> None:
        """Close the catalogue; the index cannot be searched any more."""
        self._tidied()
        self.catalogue.close()
        if self._changes:  # we were readers beside the writer that made them, so SQLite kept its log
            with suppress(sqlite3.Error), closing(Catalogue(self.layout.catalogue, writable=True)) as last:
                last.empty_log()
            self._changes = False

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
        progress: Progress | None = None,
    ) -> Changes:
        """Add files or whole folders; they can be found at once. What has changed is replaced."""
        some = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        return self._changed(lambda updater: updater.add(some), progress)

    def add_tables(self, found: Iterable[Source | Skipped]) -> Changes:
        """The same for tables that were found already, by the names they have."""
        return self._changed(lambda updater: updater.add_tables(found))

    def remove(self, names: str | Iterable[str]) -> Changes:
        """Remove tables by name; their identifiers are never given to others."""
        some = [names] if isinstance(names, str) else list(names)
        return self._changed(lambda updater: updater.remove(some))

    def sync(
        self,
        lake: str | os.PathLike[str] | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Changes:
        """Follow the lake: add new files, replace changed ones, remove those that have vanished.

        `dry_run` only says what would happen; `force` removes even most of the index.
        """
        root = as_location(self.config.lake if lake is None else lake)
        return self._changed(lambda updater: updater.sync(root, dry_run, force), progress)

    def compact(self) -> bool:
        """Make one snapshot of everything. It happens by itself when much has changed."""
        return self._changed(lambda updater: updater.compact())

    def _changed(self, work: Callable[[Updater], T], progress: Progress | None = None) -> T:
        from gentus.index.updater import Updater
        from gentus.progress import Progress

        self._tidied()
        self.refresh()
        self._changes = True
        now = self._now
        done = work(
            Updater(self.layout, now.config, now.encoder, now.decoder.codebooks, progress or Progress())
        )
        self.refresh()
        if self._now.changes > _most_changes(len(self._now.base)):
            self._tidying = threading.Thread(target=self._tidy, name="gentus compact")
            self._tidying.start()
        return done

    def _tidy(self) -> None:
        from gentus.index.updater import Updater

        now = self._now
        try:
            Updater(self.layout, now.config, now.encoder, now.decoder.codebooks).compact()
        except IndexFolderError as error:  # another writer is at work, or the disk is full: it can wait
            log.info("not compacted: %s", error)

    def _tidied(self) -> None:
        """Wait for a compaction in the background."""
        if self._tidying is not None:
            self._tidying.join()
            self._tidying = None

    def __len__(self) -> int:
        """How many tables can be found."""
        self.refresh()
        return len(self.decoder.trie)

    def __repr__(self) -> str:
        """What this is, at a glance."""
        return f"<gentus.Index {self.layout.root}: {len(self):,} tables>"

    def search(
        self, query: Query | Sequence[Query], k: int = 10, beam: int | None = None, explain: bool = False
    ) -> Any:
        """Tables whose rows could be appended to the query's, best first.

        A query is a path, or a polars, pandas or Arrow table; a list of queries gives a list of answers.
        With `explain`, every hit says which of its columns belong to which of the query's.
        """
        several = isinstance(query, list | tuple)
        queries = list(query) if several else [query]
        answers: list[list[Hit]] = []
        for begin in range(0, len(queries), AT_ONCE):
            some = queries[begin : begin + AT_ONCE]
            tables = [self.read(one) for one in some]
            found = self.search_as(some, tables, k, beam)
            answers += map(self._explained, tables, found) if explain else found
        return answers if several else answers[0]

    def search_many(
        self,
        queries: Iterable[str | os.PathLike[str]],
        k: int = 10,
        beam: int | None = None,
        workers: int | None = None,
    ) -> Iterator[tuple[str, list[Hit] | Skipped]]:
        """Search with very many files or URLs: read in several processes, some at a time; answers in order.

        One that cannot be read gives why, and the others go on.
        """
        now = self._moment()
        whole = now.encoder.states is not None or self._generator_of(now) is not None
        encoder = None if whole else now.encoder
        found = read_many(map(as_location, queries), encoder, workers or os.cpu_count() or 1, self.limits)
        while some := list(islice(found, AT_ONCE)):
            good = [seen for _, seen in some if not isinstance(seen, Skipped)]
            sources, tables = zip(*good, strict=True) if good else ((), ())
            hits = iter(self._search(now, sources, tables, k, beam))
            for place, seen in some:
                yield str(place), seen if isinstance(seen, Skipped) else next(hits)

    def search_as(
        self, queries: Sequence[Query], tables: Sequence[Table], k: int = 10, beam: int | None = None
    ) -> list[list[Hit]]:
        """The same for queries that were read before, all at once."""
        return self._search(self._moment(), queries, tables, k, beam)

    def _search(
        self, now: Moment, queries: Sequence[Query], tables: Sequence[Seen], k: int, beam: int | None
    ) -> list[list[Hit]]:
        if k < 1:
            raise ValueError(f"k is {k}; ask for at least one table")
        places = [self._place(query) for query in queries]
        with self._reading():
            itself = [self.catalogue.ids_at(*place) if place else set() for place in places]
        ranked = rank(now, self._generator_of(now), tables, itself, k, beam)
        trie = now.decoder.trie
        owners = iter(trie.table(np.array([one.row for found in ranked for one in found], np.int64)).tolist())
        chosen = [
            [
                (one, own)
                for one, own in zip(found, islice(owners, len(found)), strict=True)
                if own not in hidden
            ][:k]
            for found, hidden in zip(ranked, itself, strict=True)
        ]
        answers = [(place, own) for place, found in zip(places, chosen, strict=True) for _, own in found]
        names = self._names(now, answers)
        sids = iter(sids_of(trie, np.array([one.row for found in chosen for one, _ in found], np.int64)))
        return [_hits([(one, names.get(own), next(sids)) for one, own in found]) for found in chosen]

    def _names(self, now: Moment, answers: Sequence[tuple[_Place | None, int]]) -> dict[int, Named]:
        """Names of tables that answer queries, by id; of one that was removed a moment ago there is none."""
        tables = {table for _, table in answers}
        kept = self._named
        with self._reading():
            # Not `tables - kept.keys()`, which walks through all that is kept.
            names = self.catalogue.names(table for table in tables if table not in kept)
            if len(kept) < MOST_NAMES:
                kept.update(names)
            names |= {table: kept[table] for table in tables if table in kept}
            lacking = {table for table in tables if table not in names}
            if lacking and self.catalogue.serial() == now.serial:
                raise AlteredError(f"it lacks the table {min(lacking)}, and nobody has removed it")
            for place, own in answers:
                if place is None or own in lacking or not _is_at(names[own], *place):
                    continue
                if own not in self.catalogue.ids_at(*place):  # else it has come there a moment ago
                    raise AlteredError(f"its list of files does not lead to {names[own].name}")
        return names

    def align(self, query: Query, table: str | Hit | Query, names: bool = True) -> Alignment:
        """Which columns of a query and of a table belong together, and why.

        The table is one of the index, by its name or as a hit, or anything that can be a query. Column names
        count unless `names` is false.
        """
        from gentus.align.matcher import align

        other = table.table if isinstance(table, Hit) else table
        source = self.source(other) if isinstance(other, str) else None
        if source is None and isinstance(other, str) and not exists(as_location(other)):
            raise ValueError(self.unknown(other))
        with name_in_errors(query):
            own = self.read(query)
        with name_in_errors(other):
            found = self.read(other if source is None else source)
        return align(own, found, names)

    def source(self, name: str) -> Source | None:
        """Where a table of the index lies, by its name; None if there is none of that name."""
        with self._reading():
            source = self.catalogue.source(name)
            if source is not None:
                self._refuse_hidden(source)
            return source

    def _refuse_hidden(self, source: Source) -> None:
        """Whoever opens a table sees by its name that it lies elsewhere; one that hides it was made up."""
        own = name_at(source.path, source.part, as_location(self.config.lake), self.layout)
        if source.name != own or os.pardir in str(source.path).split(os.sep):
            raise AlteredError(f"the table {source.name} has the path {source.path}, which is that of {own}")

    def sid(self, name: str) -> str | None:
        """The identifier of a table of the index; None if there is none of that name."""
        with self._reading():
            found = self.catalogue.identifier(name, self.decoder.codebooks.levels)
        return None if found is None else format_sid(*found)

    def union_plan(
        self,
        query: Query,
        tables: str | Hit | Source | Sequence[str | os.PathLike[str] | Hit | Source],
        *,
        names: bool = True,
        keep_extra: bool = False,
        provenance: bool = True,
        distinct: bool = False,
        progress: Progress | None = None,
    ) -> UnionPlan:
        """Plan to put rows of tables under the query's: which column goes where, of which type.

        Tables are hits, names, or files that are not in the index. `keep_extra` adds the columns that the
        query does not have, `provenance` where each row is from; `distinct` leaves out equal rows.
        """
        from gentus.index.union_plan import plan_union

        some = tables if isinstance(tables, Sequence) and not isinstance(tables, str) else [tables]
        return plan_union(
            self,
            query,
            some,
            names=names,
            keep_extra=keep_extra,
            provenance=provenance,
            distinct=distinct,
            progress=progress,
        )

    def union(
        self,
        query: Query,
        tables: str | Hit | Source | Sequence[str | os.PathLike[str] | Hit | Source],
        **options: Any,
    ) -> Union:
        """Put rows of tables under the query's, to be written. Options are those of `union_plan`."""
        from gentus.union import Union

        frame = None if isinstance(query, str | os.PathLike | Remote | Source) else query
        return Union(self.union_plan(query, tables, **options), frame, self.limits)

    def _explained(self, query: Table, hits: list[Hit]) -> list[Hit]:
        """Hits with alignments; a table that cannot be read any more does not stop the answer."""
        from gentus.align.matcher import align_each

        def read(name: str) -> Table:
            source = self.source(name)
            if source is None:
                raise Unreadable("it was removed from the index a moment ago")
            return self.read(source)

        alignments = align_each(query, [hit.table for hit in hits], read)
        return [replace(hit, alignment=one) for hit, one in zip(hits, alignments, strict=True)]

    def unknown(self, name: str) -> str:
        """Say that there is no such table, and which may have been meant."""
        close = difflib.get_close_matches(name, self.tables(), n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        return f"{name} is neither a table of the index nor a file.{hint}"

    @property
    def generator(self) -> Generator | None:
        """The generator, loaded when it is first needed; None where the prior alone ranks."""
        return self._generator_of(self._now)

    def _generator_of(self, now: Moment) -> Generator | None:
        if now.config.generator is None:
            return None
        generation = now.config.generation
        with self._lock:
            if self._generator is None or self._generator[0] != generation:
                from gentus.generator.model import Generator

                folder = self.layout.generator(generation)
                self._verify(now.config, folder)
                self._generator = generation, Generator.load(folder)
            return self._generator[1]

    def _moment(self) -> Moment:
        """The index as it is; what others change from here on is for the next search.

        If it was made with a language model that reads columns, that is loaded by now.
        """
        self.refresh()
        now = self._now
        checkpoint = now.config.settings.bert
        if checkpoint is not None and isinstance(now.encoder, Encoder) and now.encoder.states is None:
            from gentus.features.bert import BertColumns

            now.encoder.states = BertColumns.load(checkpoint).states
        return now

    def read(self, query: Query) -> Table:
        """A query as the pipeline sees it."""
        if isinstance(query, Table):
            return query
        if isinstance(query, Source):
            return read(query, self.limits)
        if isinstance(query, str | os.PathLike | Remote):
            return read_path(query, self.limits)
        return from_frame(query, "query", self.limits)

    def _place(self, query: Query) -> _Place | None:
        """Where a query was read, if anywhere: a table from there is the query, and never its own answer."""
        if isinstance(query, Source):
            return self.catalogue.real(query.path), query.part
        if isinstance(query, str | os.PathLike | Remote):
            return self.catalogue.real(as_location(query)), None  # a file that could be read is one table
        return None

    def sources(self) -> dict[str, Source]:
        """All tables that can be found, by name; each of them can be a query."""
        with self._reading():
            return self.catalogue.sources()

    def tables(self) -> list[str]:
        """Names of all tables that can be found."""
        with self._reading():
            return self.catalogue.table_names()

    def skipped(self) -> list[tuple[str, str]]:
        """(name, reason) of what could not be read."""
        with self._reading():
            return self.catalogue.skipped()

    def info(self) -> dict[str, Any]:
        """What the index is made of, how large it is, and how healthy its identifiers are."""
        tables = len(self)
        config, report = self.config, self.config.report
        generation, snapshot = config.generation, config.snapshot
        trie = sum(path.stat().st_size for path in self.layout.trie(snapshot).iterdir())
        model = self.layout.model(generation).stat().st_size
        folder = self.layout.generator(generation)
        shipped = sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
        cache = sum(path.stat().st_size for path in self.layout.cache.glob("*.npz"))
        return {
            "index": str(self.layout.root),
            "lake": config.lake,
            "tables": tables,
            "skipped": len(self.skipped()),
            "levels": config.levels,
            "codebook_size": config.codebook_size,
            "labels": None if report.labels is None else asdict(report.labels),
            "generator": None if report.generator is None else asdict(report.generator),
            "encoder": config.settings.bert or ("hybrid" if report.labels else "closed form"),
            "names": report.names,
            "order": report.order,
            "identifiers": config.settings.identifiers,
            "vocabularies": report.vocabularies,
            "codebook_statistics": {
                **asdict(report.codebook_statistics),
                "held_out_error": report.held_out_error,
                "held_out_error_p95": report.held_out_error_p95,
            },
            "drift": drift(config, self.catalogue),
            "bytes": {
                "trie": trie,
                "model": model,
                "generator": shipped,
                "catalogue": self.layout.catalogue.stat().st_size,
                "cache": cache,
            },
            "bytes_per_table": round(trie / max(tables, 1), 1),
            "bytes_per_table_with_model": round((trie + model + shipped) / max(tables, 1), 1),
            "format": config.format,
            "version": config.version,
        }


def _is_at(named: Named, real: str | bytes, part: str | None) -> bool:
    return named.real == real and part in (None, named.part)


def _hits(found: Iterable[tuple[Found, Named | None, str]]) -> list[Hit]:
    """What was found under its name and path; what has none was removed a moment ago."""
    there = [(one, named, sid) for one, named, sid in found if named is not None]
    return [
        Hit(number, name, round(one.score, 6), sid, path, _rounded(one.prior), _rounded(one.generator))
        for number, (one, (name, path, *_), sid) in enumerate(there, 1)
    ]


def _rounded(part: float | None) -> float | None:
    return None if part is None else round(part, 6)


def sids_of(trie: Tree, rows: I64) -> list[str]:
    """The identifiers of some rows, as people see them."""
    return format_sids(trie.codes_of(rows), trie.suffix(rows))


def _damaged(layout: Layout, path: Path, reason: object) -> IndexFolderError:
    missing = "" if path.exists() else "missing or "
    return IndexFolderError(
        f"{path} is {missing}damaged: {reason}. See what can be mended: gentus check {layout.root}"
    )


def _most_changes(snapshot: int) -> int:
    """How many tables may come and go before a new snapshot is made of so many."""
    return max(1000, min(snapshot // 8, 20_000))


def skipped(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(name, reason) of what could not be read, of an index that need not be finished."""
    layout = Layout(Path(path))
    if not layout.catalogue.is_file():
        read_config(layout)  # which says what is wrong
    try:
        catalogue = Catalogue(layout.catalogue)
        try:
            return catalogue.skipped()
        finally:
            catalogue.close()
    except sqlite3.Error as error:
        raise IndexFolderError(
            f"{layout.catalogue} is missing or damaged: {error}. "
            f"Build the index again: gentus index LAKE -o {layout.root}"
        ) from error


def save_model(path: Path, encoder: ClosedForm | Encoder, codebooks: Codebooks) -> None:
    """Write everything learnt; the fit has rounded it already."""
    arrays = {**encoder.arrays(), "codebooks": codebooks.codewords.astype(np.float16)}
    write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def load_model(path: Path, settings: EncoderSettings) -> tuple[ClosedForm | Encoder, Codebooks]:
    """Read what `save_model` wrote, checking every shape. Rows of words and the like stay on disk."""
    arrays = map_tensors(path)
    encoder = restore_encoder(arrays, settings)
    return encoder, Codebooks(arrays["codebooks"].astype(np.float32))
