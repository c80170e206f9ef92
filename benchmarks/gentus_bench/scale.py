"""Tree and decoding at ten thousand to ten million identifiers, beside the usual way to constrain it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gentus.arrays import U8
from gentus.generator.supervision import SPARE_SUFFIXES
from gentus.identifiers.codebooks import Codebooks
from gentus.index.index import Index
from gentus.progress import Progress
from gentus.search.trie import Trie
from gentus.settings import QuantizerSettings
from gentus_bench.results import Results
from gentus_bench.scale_decoding import measure_decoding
from gentus_bench.scale_identifiers import fit_model, real_codes, skew
from gentus_bench.scale_telling import claims, draw, markdown
from gentus_bench.scale_trees import Workshop, measure_tree
from gentus_bench.scale_usual import MAKERS, Task, measure_usual

SIZES = (10**4, 10**5, 10**6, 10**7)


@dataclass(frozen=True, slots=True)
class ScaleSettings:
    """What is measured, and how far the usual way is followed."""

    sizes: Sequence[int] = SIZES
    queries: int = 200
    beam: int = 100
    threads: Sequence[int] = (1, 2)  # of torch
    seed: int = 0
    levels: int | None = None  # the first codes of identifiers; None: as many as an index of the largest has
    usual_queries: int = 20  # it takes long
    usual_most: int = 10**6  # identifiers
    usual_gigabytes: float = 4.0  # of memory
    usual_seconds: float = 1200.0  # for each kind of trie and each size


def measure_scale(
    index: Path, results: Results, settings: ScaleSettings, progress: Progress | None = None
) -> dict[str, Any]:
    """Make lakes up after a real one, and measure trees of them; writes `scale-INDEX` and its parts.

    Every part that is there already is not measured again.
    """
    name = f"scale-{index.resolve().name}"
    settings = replace(settings, sizes=sorted(set(settings.sizes)))
    workshop = Workshop(results.folder / name)
    levels = settings.levels or QuantizerSettings().for_lake(settings.sizes[-1]).levels
    about = {"index": index.resolve().name, "seed": settings.seed, "levels": levels}
    lake = _identifiers(index, results, settings, name, about, workshop, progress or Progress())
    trees = {size: _tree(results, name, {**about, "size": size}, workshop) for size in settings.sizes}

    def decoding() -> dict[str, Any]:
        return measure_decoding(
            {size: Trie.load(workshop.tree(size)) for size in settings.sizes},
            workshop.codebooks(),
            workshop.queries(),
            settings.beam,
            lake["suffixes"],
            settings.threads,
        )

    asked = {key: getattr(settings, key) for key in ("sizes", "queries", "beam", "threads")}
    decoded = results.measured(f"{name}-decoding", {**about, **asked}, decoding)
    usual = {
        size: {trie: _usual(results, name, about, settings, workshop, lake, size, trie) for trie in MAKERS}
        for size in settings.sizes
        if size <= settings.usual_most
    }
    parts: dict[str, Any] = {
        "identifiers": lake,
        "trees": {str(size): document for size, document in trees.items()},
        "decoding": decoded,
        "usual": {str(size): document for size, document in usual.items()},
    }
    parts["claims"] = claims(parts)
    # Put together anew each time: some of the parts may be.
    document = replace(results, fresh=True).measured(name, {**about, **asdict(settings)}, lambda: parts)
    results.write_table(name, markdown(document))
    draw(results.folder / name, document)
    return document


def _identifiers(
    index: Path,
    results: Results,
    settings: ScaleSettings,
    name: str,
    about: dict[str, Any],
    workshop: Workshop,
    progress: Progress,
) -> dict[str, Any]:
    def measure() -> dict[str, Any]:
        with Index(index) as opened:
            tree, books = opened.decoder.trie, opened.decoder.codebooks
            codebooks = Codebooks(books.codewords[: about["levels"]])
            model = replace(fit_model(tree, books, settings.seed), codebooks=codebooks)
            real = real_codes(tree)[:, : codebooks.levels]
            suffixes = tree.highest_suffix + SPARE_SUFFIXES  # symbols that a generator of this lake has
        workshop.furnish(model, settings.sizes[-1], settings.queries, progress)
        return {
            "move": model.move,
            "suffixes": suffixes,
            "levels": codebooks.levels,
            "codes": codebooks.size,
            "real": skew(real, codebooks.size),
            "real_parts": [skew(part, codebooks.size) for part in _parts(real, settings)],
            "made_up": skew(model.trial(), codebooks.size),
        }

    what = {**about, "largest": settings.sizes[-1], "queries": settings.queries}
    fresh = results.fresh or not workshop.codes.is_file()
    return replace(results, fresh=fresh).measured(f"{name}-identifiers", what, measure)


def _parts(real: U8, settings: ScaleSettings) -> Iterator[U8]:
    """As many of the real tables as there are in the smaller lakes that are made up."""
    mixed = np.random.default_rng(settings.seed).permutation(real)
    yield from (mixed[:size] for size in settings.sizes if size < len(real))


def _tree(results: Results, name: str, what: dict[str, Any], workshop: Workshop) -> dict[str, Any]:
    size = what["size"]
    fresh = results.fresh or not workshop.tree(size).is_dir()
    again = replace(results, fresh=fresh)
    return again.measured(f"{name}-tree-{size}", what, lambda: measure_tree(workshop, size))


def _usual(
    results: Results,
    name: str,
    about: dict[str, Any],
    settings: ScaleSettings,
    workshop: Workshop,
    lake: dict[str, Any],
    size: int,
    trie: str,
) -> dict[str, Any]:
    task = Task(
        str(workshop.folder),
        size,
        trie,
        lake["suffixes"],
        settings.beam,
        min(settings.usual_queries, settings.queries),
        tuple(settings.threads),
        settings.usual_gigabytes * 1e9,
    )
    what = {**about, **asdict(task), "folder": None, "seconds": settings.usual_seconds}
    return results.measured(
        f"{name}-usual-{trie}-{size}", what, lambda: measure_usual(task, settings.usual_seconds)
    )
