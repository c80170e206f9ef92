"""Prefix trees and searches at ten thousand to ten million identifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gentus.arrays import U8
from gentus.identifiers.codebooks import Codebooks
from gentus.index.index import Index
from gentus.retrieval.beam import Decoder
from gentus.retrieval.trie import Trie
from gentus.settings import QuantizerSettings
from gentus_bench.experiment import Request
from gentus_bench.experiments.scale_identifiers import fit_model, real_codes, skew
from gentus_bench.experiments.scale_tables import plot, tables
from gentus_bench.experiments.scale_trees import TreeFolder, measure_tree
from gentus_bench.results import Document, Results
from gentus_bench.timer import conditions, in_turn

__all__ = ["Options", "plot", "run", "tables"]


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured."""

    sizes: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)  # identifiers
    queries: int = 200
    beam: int = 100
    seed: int = 0
    levels: int | None = None  # the first codes of identifiers; None: as many as an index of the largest has


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
        content = {
            "identifiers": self._identifiers(),
            "trees": {str(size): self._tree(size) for size in options.sizes},
            "search": self._search(),
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
            self.trees.fill(model, options.sizes[-1], options.queries, self.request.progress)
            return {
                "move": model.move,
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

    def _search(self) -> Document:
        """Times of a search in the trees of all sizes, query by query in turn."""
        options = self.options

        def measure() -> Document:
            books, latents = self.trees.codebooks(), self.trees.queries()

            def searching(size: int) -> Callable[[int], object]:
                decoder = Decoder(Trie.load(self.trees.tree(size)), books)
                return lambda query: decoder.search(latents[query], options.beam)

            times = in_turn({size: searching(size) for size in options.sizes}, range(len(latents)))
            return {"timing": conditions(), "times": {str(size): of.facts() for size, of in times.items()}}

        used: dict[str, Any] = {key: getattr(options, key) for key in ("sizes", "queries", "beam")}
        return self.results.measured(self._part("search"), {**self.about, **used}, measure)
