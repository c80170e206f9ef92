"""Tree and decoding at ten thousand to ten million identifiers, beside transformers' way to constrain it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gentus.arrays import U8
from gentus.generator.supervision import SPARE_SUFFIXES
from gentus.identifiers.codebooks import Codebooks
from gentus.index.index import Index
from gentus.retrieval.trie import Trie
from gentus.settings import QuantizerSettings
from gentus_bench.experiment import Request
from gentus_bench.experiments.scale_decoding import measure_decoding
from gentus_bench.experiments.scale_identifiers import fit_model, real_codes, skew
from gentus_bench.experiments.scale_tables import plot, tables
from gentus_bench.experiments.scale_transformers import MAKERS, Task, measure_transformers
from gentus_bench.experiments.scale_trees import TreeFolder, measure_tree
from gentus_bench.results import Document, Results

__all__ = ["Options", "plot", "run", "tables"]


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, and how far transformers' way is followed."""

    sizes: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)  # identifiers
    queries: int = 200
    beam: int = 100
    threads: tuple[int, ...] = (1, 2)  # of torch
    seed: int = 0
    levels: int | None = None  # the first codes of identifiers; None: as many as an index of the largest has
    transformers_queries: int = 20  # it takes long
    transformers_most: int = 10**6  # identifiers; 0: it is left out
    transformers_gigabytes: float = 4.0  # of memory
    transformers_minutes: float = 20.0  # for each kind of trie and each size


def run(request: Request, options: Options) -> Iterator[Document]:
    """Make lakes up after the real one of an index, and measure trees of them.

    The trees stay in the results, so that a run that was stopped goes on; afterwards they may be deleted.
    """
    name = request.index().resolve().name
    options = replace(options, sizes=tuple(sorted(set(options.sizes))))
    levels = options.levels or QuantizerSettings().for_lake(options.sizes[-1]).levels
    yield _Scale(request, options, request.results.folder / "scale" / name, levels).measure()


@dataclass(frozen=True, slots=True)
class _Scale:
    request: Request
    options: Options
    folder: Path
    levels: int | None  # None: all

    @property
    def results(self) -> Results:
        return self.request.results

    @property
    def trees(self) -> TreeFolder:
        return TreeFolder(self.folder)

    @property
    def about(self) -> Document:
        return {"index": self.folder.name, "seed": self.options.seed, "levels": self.levels}

    def measure(self) -> Document:
        """All parts together; those that are there already are not measured again."""
        options = self.options
        lake = self._identifiers()
        trees = {size: self._tree(size) for size in options.sizes}
        few = [size for size in options.sizes if size <= options.transformers_most]
        content = {
            "identifiers": lake,
            "trees": {str(size): document for size, document in trees.items()},
            "decoding": self._decoding(lake["suffixes"]),
            "transformers": {
                str(size): {trie: self._transformers(lake["suffixes"], size, trie) for trie in MAKERS}
                for size in few
            },
        }
        what = {**self.about, **asdict(options), "levels": self.levels}
        return self.results.combined(f"scale-{self.folder.name}", what, content)

    def _part(self, name: str) -> str:
        return f"scale/{self.folder.name}/{name}"

    def _identifiers(self) -> Document:
        options = self.options

        def measure() -> Document:
            with Index(self.request.index()) as opened:
                tree, books = opened.decoder.trie, opened.decoder.codebooks
                codebooks = Codebooks(books.codewords[: self.levels])
                model = replace(fit_model(tree, books, options.seed), codebooks=codebooks)
                real = real_codes(tree)[:, : codebooks.levels]
                suffixes = tree.highest_suffix + SPARE_SUFFIXES  # symbols that a generator of this lake has
            self.trees.fill(model, options.sizes[-1], options.queries, self.request.progress)
            return {
                "move": model.move,
                "suffixes": suffixes,
                "levels": codebooks.levels,
                "codes": codebooks.size,
                "real": skew(real, codebooks.size),
                "real_parts": [skew(part, codebooks.size) for part in self._parts(real)],
                "made_up": skew(model.trial(), codebooks.size),
            }

        what = {**self.about, "largest": options.sizes[-1], "queries": options.queries}
        fresh = self.results.fresh or not self.trees.codes.is_file()
        return replace(self.results, fresh=fresh).measured(self._part("identifiers"), what, measure)

    def _parts(self, real: U8) -> Iterator[U8]:
        """As many of the real tables as there are in the smaller lakes that are made up."""
        mixed = np.random.default_rng(self.options.seed).permutation(real)
        yield from (mixed[:size] for size in self.options.sizes if size < len(real))

    def _tree(self, size: int) -> Document:
        fresh = self.results.fresh or not self.trees.tree(size).is_dir()
        what = {**self.about, "size": size}
        again = replace(self.results, fresh=fresh)
        return again.measured(self._part(f"tree-{size}"), what, lambda: measure_tree(self.trees, size))

    def _decoding(self, suffixes: int) -> Document:
        options = self.options

        def measure() -> Document:
            trees = {size: Trie.load(self.trees.tree(size)) for size in options.sizes}
            books, queries = self.trees.codebooks(), self.trees.queries()
            return measure_decoding(trees, books, queries, options.beam, suffixes, options.threads)

        used: dict[str, Any] = {key: getattr(options, key) for key in ("sizes", "queries", "beam", "threads")}
        return self.results.measured(self._part("decoding"), {**self.about, **used}, measure)

    def _transformers(self, suffixes: int, size: int, trie: str) -> Document:
        options = self.options
        queries = min(options.transformers_queries, options.queries)
        most = options.transformers_gigabytes * 1e9
        folder = str(self.folder)
        task = Task(folder, size, trie, suffixes, options.beam, queries, options.threads, most)
        seconds = 60 * options.transformers_minutes
        what = {**self.about, **asdict(task), "folder": None, "seconds": seconds}
        name = self._part(f"transformers-{trie}-{size}")
        return self.results.measured(name, what, lambda: measure_transformers(task, seconds))
