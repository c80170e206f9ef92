"""Building an index: read the lake, let the teacher judge it, learn latents and codes, lay out the tree."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus import __version__
from gentus.catalogue import Catalogue
from gentus.codes import Codebooks, assign_suffixes, health
from gentus.encoder import Encoder, EncoderSettings
from gentus.evaluate import load_groundtruth
from gentus.evidence import BLOCKS, WIDTH, Evidence
from gentus.features import Features, concatenate
from gentus.fitting import FitSettings, Fitted, fit_lake
from gentus.index import Index, save_model
from gentus.labels import Labels
from gentus.lake import Limits
from gentus.lake.base import spread
from gentus.latent import LatentSettings
from gentus.progress import Progress
from gentus.quantizer import QuantizerSettings
from gentus.reading import CHUNK, read_lake
from gentus.store import (
    FORMAT,
    IndexFolderError,
    Layout,
    build_lock,
    next_generation,
    read_chunk,
    remove_other_chunks,
    remove_other_generations,
    write_config,
)
from gentus.teacher import Columns, TeacherSettings, weigh_evidence
from gentus.trie import build_trie


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """Everything that shapes an index."""

    seed: int = 0
    fit_columns: int = 250_000  # the fit sees all tables up to this many columns, a sample beyond
    fit_width: int = 96  # of a wider table it sees this many columns: matching costs the cube of the width
    limits: Limits = field(default_factory=Limits)
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    latent: LatentSettings = field(default_factory=LatentSettings)
    quantizer: QuantizerSettings = field(default_factory=QuantizerSettings)

    def fit(self) -> FitSettings:
        """What the fit needs of them."""
        return FitSettings(self.teacher, self.encoder, self.latent, self.quantizer, self.seed)


def build(
    lake: str | os.PathLike[str],
    index: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    settings: BuildSettings | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Index:
    """Index a lake; without labels its own evidence is the teacher.

    Interrupted, it goes on where it stopped when called again; files that did not change are not read again.
    """
    settings = settings or BuildSettings()
    if seed is not None:
        settings = replace(settings, seed=seed)
    root, layout = Path(lake), Layout(Path(index))
    progress = progress or Progress()
    if not root.exists():
        raise FileNotFoundError(f"There is no lake at {root}. Give a folder of tables, or a database file.")
    if layout.root.resolve() == root.resolve():
        raise IndexFolderError(f"{layout.root} is the lake itself. Give the index a folder of its own.")
    truth = load_groundtruth(labels) if labels is not None else None
    with ExitStack() as stack:
        catalogue = _opened(layout, stack)
        read_lake(root, layout, catalogue, settings.limits, workers or os.cpu_count() or 1, progress)
        fit(root, layout, catalogue, settings, truth, progress)
    return Index(layout.root)


def _opened(layout: Layout, stack: ExitStack) -> Catalogue:
    """The catalogue, for this process alone to write until the stack is closed."""
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        stack.enter_context(build_lock(layout))
        return stack.enter_context(closing(Catalogue(layout.catalogue, writable=True)))
    except (OSError, sqlite3.OperationalError) as error:
        reason = getattr(error, "strerror", None) or error
        raise IndexFolderError(f"Cannot write the index to {layout.root}: {reason}") from error
    except sqlite3.DatabaseError as error:
        raise IndexFolderError(
            f"{layout.catalogue} is damaged ({error}). Delete {layout.root} and run the same command again."
        ) from error


@dataclass(slots=True)
class _Sample:
    """The tables that the fit sees: all of them, unless the lake is large."""

    columns: Columns
    ids: list[int]  # (T,) their catalogue ids


def fit(
    root: Path,
    layout: Layout,
    catalogue: Catalogue,
    settings: BuildSettings,
    truth: dict[str, list[str]] | None,
    progress: Progress,
) -> None:
    """Learn encoder and codes from the cached features, give every table its identifier, and switch over."""
    import torch

    tables = catalogue.featurized()
    if not tables:
        skipped = catalogue.skipped()
        why = f" ({len(skipped)} skipped, such as {skipped[0][0]}: {skipped[0][1]})" if skipped else ""
        hint = f" See why: gentus info {layout.root} --skipped" if skipped else ""
        raise IndexFolderError(f"No table could be read in {root}{why}.{hint}")
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    with progress.stage("Weighing evidence", None):
        evidence = Evidence.fit(_stream(tables, layout))
        sample = _sample(tables, layout, evidence, settings, random)
        if len(sample.ids) > 2:
            evidence.weights = weigh_evidence(sample.columns, settings.teacher, random)
        evidence.weigh(sample.columns.evidence)
    labels = _labels(truth, catalogue, sample, random)
    fitted = fit_lake(sample.columns, sample.columns.evidence, labels, settings.fit(), progress)
    encoder, codebooks = Encoder(evidence, fitted.encoder, fitted.weights), fitted.codebooks

    count = len(tables)
    codes = np.zeros((count, codebooks.levels), np.uint8)
    distance = np.zeros(count, np.float32)
    with progress.stage("Writing identifiers", count) as tick:
        at = 0
        for features in _stream(tables, layout):
            latents = encoder.encode(features)
            part = slice(at, at + len(features))
            codes[part] = codebooks.encode(latents)
            distance[part] = ((latents - codebooks.decode(codes[part])) ** 2).sum(1)
            at += len(features)
            tick(len(features))
    ids = np.array([i for i, _, _ in tables], np.int32)
    suffixes = assign_suffixes(codes, distance)
    report = asdict(health(codes, codebooks.size, distance))
    config = {
        "format": FORMAT,
        "version": __version__,
        "lake": str(root.resolve()),
        "settings": asdict(replace(settings, encoder=encoder.settings)),
        "levels": codebooks.levels,
        "codes": codebooks.size,
        "tables": count,
        "evidence_weights": {k: round(float(w), 4) for k, w in zip(BLOCKS, evidence.weights, strict=True)},
        "labels": _label_report(labels, fitted),
        "health": report,
    }
    _switch(layout, catalogue, config, encoder, codebooks, ids, codes, suffixes)


def _stream(tables: Iterable[tuple[int, int, int]], layout: Layout) -> Iterator[Features]:
    """Features of tables in their order, some hundred at a time; few chunks are open at once."""
    recent: dict[int, Features] = {}
    iterator = iter(tables)
    while batch := list(islice(iterator, CHUNK)):
        parts = []
        for _, chunk, slot in batch:
            if chunk not in recent:
                if len(recent) >= 8:
                    recent.pop(next(iter(recent)))
                recent[chunk] = read_chunk(layout.chunk(chunk))
            parts.append(recent[chunk].take([slot]))
        yield concatenate(parts)


def _sample(
    tables: list[tuple[int, int, int]],
    layout: Layout,
    evidence: Evidence,
    settings: BuildSettings,
    random: np.random.Generator,
) -> _Sample:
    """Evidence of a sample of tables that fits in memory, in the order of the catalogue."""
    widths = np.concatenate([np.diff(features.tables) for features in _stream(tables, layout)])
    widths = np.minimum(widths, settings.fit_width)
    order = random.permutation(len(tables))
    order = order[widths[order] > 0]
    chosen = np.sort(order[np.cumsum(widths[order]) <= max(settings.fit_columns, widths.max(initial=0))])
    columns = np.empty((int(widths[chosen].sum()), WIDTH), np.float32)
    places = np.empty((len(columns), 2), np.uint16)
    at = 0
    for features in _stream([tables[i] for i in chosen], layout):
        pairs = pairwise(features.tables.tolist())
        seen = [first + i for first, last in pairs for i in spread(last - first, settings.fit_width)]
        columns[at : at + len(seen)] = evidence.blocks(features)[seen]
        places[at : at + len(seen)] = features.places[seen]
        at += len(seen)
    starts = np.concatenate([[0], np.cumsum(widths[chosen])]).astype(np.int64)
    return _Sample(Columns(columns, starts, places), [tables[i][0] for i in chosen])


def _label_report(labels: Labels | None, fitted: Fitted) -> dict[str, Any] | None:
    """What became of the labels."""
    if labels is None:
        return None
    return {
        "pairs": len(labels.pairs) + len(labels.held),
        "pairs_outside_the_lake": labels.unknown,
        "queries_held_out": len(labels.queries()),
        **fitted.report,
    }


def _labels(
    truth: dict[str, list[str]] | None, catalogue: Catalogue, sample: _Sample, random: np.random.Generator
) -> Labels | None:
    """Annotated pairs as positions in the sample."""
    if truth is None:
        return None
    position = {table: at for at, table in enumerate(sample.ids)}
    at = {name: position[table] for name, table in catalogue.ids().items() if table in position}
    return Labels.split(truth, at, random)


def _switch(
    layout: Layout,
    catalogue: Catalogue,
    config: dict[str, Any],
    encoder: Encoder,
    codebooks: Codebooks,
    ids: NDArray[np.int32],
    codes: NDArray[np.uint8],
    suffixes: NDArray[np.int32],
) -> None:
    """Write the next generation beside the current one, then switch."""
    generation = next_generation(layout)
    config = {**config, "generation": generation}
    save_model(layout.model(generation), encoder, codebooks)
    build_trie(codes, suffixes, ids).save(layout.trie(generation))
    with catalogue.transaction():
        catalogue.put_sids(ids.tolist(), codes, suffixes.tolist())
        catalogue.put_meta("config", json.dumps(config))
    write_config(layout, config)
    with catalogue.transaction():
        catalogue.purge()
    remove_other_generations(layout, generation)
    remove_other_chunks(layout, catalogue.chunks())
