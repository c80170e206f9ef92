"""A snapshot: what an index is at one change sequence, loaded from its files and verified."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gentus.arrays import I64
from gentus.extras import require_training
from gentus.index.candidates import FEATURES, rows_of
from gentus.index.catalogue import Catalogue, Identified
from gentus.index.config import IndexConfig
from gentus.index.folder import IndexFolderError, Layout, check_format, damaged, verify_files
from gentus.index.model_file import load_model, load_ranking
from gentus.neighbours.listwise import Listwise
from gentus.retrieval.beam import Decoder
from gentus.retrieval.overlay import apply_delta
from gentus.retrieval.retriever import Retriever
from gentus.retrieval.trie import Tree, Trie, build_trie
from gentus.retrieval.walk import AnnotatedGraph
from gentus.shell import command

ATTEMPTS = 6  # to load files that a writer may replace meanwhile


@dataclass(frozen=True, slots=True)
class Ranking:
    """A ranking learnt from labels."""

    graph: AnnotatedGraph
    listwise: Listwise
    rows: I64  # (N,) of the graph's tables in the prefix tree; -1: removed


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an index is at one change sequence: all of it fits together, and none of it changes."""

    config: IndexConfig
    retriever: Retriever  # over the prefix tree with the changes below applied
    base: Trie  # the prefix tree on the disk
    changes: int  # identifiers added and deleted since that was written
    change_sequence: int  # the last change that is in it
    ranking: Ranking | None = None  # learnt from labels

    @classmethod
    def load(cls, layout: Layout, catalogue: Catalogue, known: Snapshot | None = None) -> Snapshot:
        """What the catalogue says is current; files that `known` has loaded are not loaded again."""
        for attempt in range(1, ATTEMPTS + 1):
            current = _read_current(layout, catalogue)
            try:
                retriever, base = _load_files(layout, current.config, known)
                break
            except IndexFolderError:
                if attempt == ATTEMPTS or catalogue.config() == current.config:
                    raise  # else a writer switched to other files between the two reads
        added, deleted = (
            build_trie(some.codes, some.suffixes, some.tables) for some in (current.added, current.deleted)
        )
        changes = len(added) + len(deleted)
        tree = apply_delta(base, added, deleted)
        if len(tree) != current.count:
            reason = f"it leads to {len(tree):,} tables, and {current.count:,} were written"
            raise damaged(layout, layout.catalogue, reason)
        ranking = _load_ranking(layout, current.config, tree, known)
        retriever = retriever.over(tree)
        return cls(current.config, retriever, base, changes, current.change_sequence, ranking)

    @property
    def decoder(self) -> Decoder:
        """The prefix tree as it is now, and the codebooks."""
        return self.retriever.decoder


@dataclass(frozen=True, slots=True)
class _Current:
    """What the catalogue says, all as of one change."""

    config: IndexConfig
    change_sequence: int
    count: int  # of identifiers
    added: Identified  # since the prefix tree was written
    deleted: Identified


def _read_current(layout: Layout, catalogue: Catalogue) -> _Current:
    with catalogue.transaction(read=True):
        change_sequence, count = catalogue.change_sequence(), catalogue.identifier_count()
        config = catalogue.config()
        if config is None:
            raise IndexFolderError(
                f"{layout.catalogue} does not say which files are current. "
                f"Build the index again: {command('index', 'LAKE', '-o', layout.root)}"
            )
        check_format(layout, config.format, config.lake)
        identifiers = catalogue.identifiers
        return _Current(
            config,
            change_sequence,
            count,
            identifiers.select(config.levels, since=config.change_sequence),
            identifiers.deleted(config.levels, since=config.change_sequence),
        )


def _load_ranking(layout: Layout, config: IndexConfig, tree: Tree, known: Snapshot | None) -> Ranking | None:
    """The ranking learnt from labels, with its tables found in the prefix tree; the file is verified."""
    if config.ranking is None:
        return None
    path = layout.model(config.generation)
    if known is not None and known.ranking is not None and known.config.generation == config.generation:
        graph, listwise = known.ranking.graph, known.ranking.listwise
    else:
        try:
            graph, listwise = load_ranking(path, len(FEATURES))
        except Exception as error:
            raise damaged(layout, path, error) from error
    return Ranking(graph, listwise, rows_of(tree, graph.tables))


def _load_retriever(path: Path, tree: Tree, config: IndexConfig) -> Retriever:
    """What the index is searched by."""
    if config.paper is None:
        return load_model(path, tree, config.feedback)
    require_training("An index whose generator ranks")
    from gentus.paper.retriever import load_model as load_paper

    return load_paper(path, tree)


def _load_files(layout: Layout, config: IndexConfig, known: Snapshot | None) -> tuple[Retriever, Trie]:
    """Model and prefix tree, verified; those that `known` has are not loaded again."""
    model, tree = layout.model(config.generation), layout.trie(config.tree)
    same_model = known is not None and known.config.generation == config.generation
    same_tree = known is not None and known.config.tree == config.tree
    verify_files(layout, config, [*([] if same_model else [model]), *([] if same_tree else [tree])])
    path = tree
    try:
        base = known.base if known is not None and same_tree else Trie.load(tree)
        if base.levels != config.levels:
            raise ValueError(f"its identifiers have {base.levels} codes instead of {config.levels}")
        path = model
        if known is not None and same_model:
            return known.retriever, base
        retriever = _load_retriever(model, base, config)
        levels = retriever.decoder.codebooks.levels
        if levels != config.levels:
            raise ValueError(f"it has codebooks for {levels} codes instead of {config.levels}")
    except Exception as error:
        raise damaged(layout, path, error) from error
    return retriever, base
