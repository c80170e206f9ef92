"""Compaction: all identifiers as one new prefix tree, and small chunks of cached features joined."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace

from gentus.index.catalogue import Catalogue
from gentus.index.config import IndexConfig
from gentus.index.feature_cache import CHUNK, delete_other_chunks, stream_features, write_chunk
from gentus.index.folder import IndexFolderError, Layout, next_generation
from gentus.index.writer import finalise, publish, writer
from gentus.retrieval.trie import build_trie

log = logging.getLogger("gentus")


def compact(layout: Layout) -> bool:
    """Write all identifiers as a new prefix tree, and compact the cache. False: there was nothing to do."""
    with writer(layout) as catalogue:
        config = catalogue.config()
        assert config is not None
        joined = compact_cache(layout, catalogue)
        if catalogue.change_sequence() == config.change_sequence:
            return joined
        write_tree(layout, catalogue, config)
        return True


def write_tree(layout: Layout, catalogue: Catalogue, config: IndexConfig) -> IndexConfig:
    """Write all identifiers as a new prefix tree and switch to it; returns the new configuration."""
    change_sequence = catalogue.change_sequence()
    found = catalogue.identifiers.select(config.levels)
    number = next_generation(layout)
    build_trie(found.codes, found.suffixes, found.tables).save(layout.trie(number))
    with catalogue.transaction():
        config = publish(layout, catalogue, replace(config, tree=number, change_sequence=change_sequence))
    finalise(layout, config)
    return config


def compact_cache(layout: Layout, catalogue: Catalogue) -> bool:
    """Join small chunks of features into larger ones, and delete those of deleted tables."""
    small = catalogue.chunks.small(CHUNK // 4).tolist()
    moved = [slot for slot in small if layout.chunk(slot[1]).is_file()]
    several = len({chunk for _, chunk, _ in moved}) > 1
    if several:
        number = catalogue.chunks.next_number()
        checksums = [
            write_chunk(layout.chunk(number + at), features)
            for at, features in enumerate(stream_features(moved, layout))
        ]
        with catalogue.transaction():
            for at, crc in enumerate(checksums):
                catalogue.chunks.put(number + at, crc)
            catalogue.chunks.move(
                (table, number + at // CHUNK, at % CHUNK) for at, (table, _, _) in enumerate(moved)
            )
            catalogue.chunks.delete_unused()
    delete_other_chunks(layout, catalogue.chunks.numbers())
    return several


@dataclass(slots=True)
class Compactor:
    """Compaction in a background thread, once enough has changed."""

    layout: Layout
    _thread: threading.Thread | None = None

    def start_if_due(self, changes: int, tables: int) -> None:
        """Start it if so many identifiers were added and deleted since a tree of so many tables."""
        if changes > most_changes(tables):
            self._thread = threading.Thread(target=self._run, name="gentus compact")
            self._thread.start()

    def wait(self) -> None:
        """Wait for a compaction that is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        try:
            compact(self.layout)
        except IndexFolderError as error:  # another writer is at work, or the disk is full: it can wait
            log.info("not compacted: %s", error)


def most_changes(tables: int) -> int:
    """How many identifiers may be added and deleted before a tree of so many tables is written anew."""
    return max(1000, min(tables // 8, 20_000))
