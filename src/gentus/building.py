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
from gentus.evidence import BLOCKS, F32, WIDTH, Evidence
from gentus.features import Features, concatenate
from gentus.index import Index, save_model
from gentus.lake import Limits
from gentus.lake.base import spread
from gentus.latent import Batches, LatentSettings, Network, learn_latent, principal_basis
from gentus.progress import Progress
from gentus.quantizer import QuantizerSettings, learn_codes
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
from gentus.teacher import TeacherSettings, add_labels, find_neighbours, mutual_pairs, weigh_evidence
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

    columns: F32  # (C, WIDTH) evidence
    starts: NDArray[np.int64]  # (T + 1,)
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
            evidence.weights = weigh_evidence(sample.columns, sample.starts, settings.teacher, random)
        evidence.weigh(sample.columns)
    pairs, unknown = _label_pairs(truth, catalogue, sample)
    encoder, codebooks = _learn(sample, evidence, pairs, settings, progress)

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
        "settings": asdict(settings),
        "levels": codebooks.levels,
        "codes": codebooks.size,
        "tables": count,
        "evidence_weights": {k: round(float(w), 4) for k, w in zip(BLOCKS, evidence.weights, strict=True)},
        "labels": None if truth is None else {"pairs": len(pairs), "pairs_outside_the_lake": unknown},
        "health": report,
    }
    _switch(layout, catalogue, config, encoder, codebooks, ids, codes, suffixes)


def _learn(
    sample: _Sample, evidence: Evidence, pairs: NDArray[np.int64], settings: BuildSettings, progress: Progress
) -> tuple[Encoder, Codebooks]:
    import scipy.sparse as sp
    import torch

    total = len(sample.ids)
    random = np.random.default_rng(settings.seed)
    generator = torch.Generator().manual_seed(settings.seed)
    basis = principal_basis(sample.columns, settings.latent.basis, random)
    network = Network(settings.encoder, basis.shape[1])
    shape = settings.quantizer.shape(total)
    if total > 2:
        with progress.stage("Judging neighbours", total) as tick:
            graph = find_neighbours(sample.columns, sample.starts, settings.teacher, tick)
        if len(pairs):
            graph = add_labels(graph, pairs)
            positives = np.concatenate([pairs, pairs[:, ::-1]])
        else:
            positives = mutual_pairs(graph)
        ones = np.ones(len(positives), np.float32)
        positive = sp.csr_matrix((ones, (positives[:, 0], positives[:, 1])), (total, total))
        batches = Batches(sample.columns @ basis, sample.starts, graph, positive, settings.latent, random)
        steps = settings.latent.steps(total)
        with progress.stage("Learning latents", steps, "steps") as tick:
            learn_latent(network, batches, settings.quantizer.union_weight, steps, tick)
        with progress.stage("Learning codes", settings.quantizer.rounds(total), "steps") as tick:
            codebooks = learn_codes(network, batches, settings.quantizer, shape, generator, tick)
    else:  # nothing to learn from one or two tables; any codes tell them apart
        books = torch.randn(*shape, settings.encoder.latent, generator=generator) * 0.1
        codebooks = Codebooks(books.numpy().astype(np.float16).astype(np.float32))
    return Encoder(evidence, settings.encoder, network.export(basis)), codebooks


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
    at = 0
    for features in _stream([tables[i] for i in chosen], layout):
        pairs = pairwise(features.tables.tolist())
        seen = [first + i for first, last in pairs for i in spread(last - first, settings.fit_width)]
        columns[at : at + len(seen)] = evidence.blocks(features)[seen]
        at += len(seen)
    starts = np.concatenate([[0], np.cumsum(widths[chosen])]).astype(np.int64)
    return _Sample(columns, starts, [tables[i][0] for i in chosen])


def _label_pairs(
    truth: dict[str, list[str]] | None, catalogue: Catalogue, sample: _Sample
) -> tuple[NDArray[np.int64], int]:
    """(P, 2) annotated pairs as positions in the sample, and how many name a table that is not there."""
    if truth is None:
        return np.zeros((0, 2), np.int64), 0
    ids = catalogue.ids()
    position = {table: at for at, table in enumerate(sample.ids)}
    pairs = []
    unknown = 0
    for query, candidates in truth.items():
        for candidate in candidates:
            a, b = position.get(ids.get(query, -1)), position.get(ids.get(candidate, -1))
            if a is None or b is None:
                unknown += 1
            else:
                pairs.append((a, b))
    return np.array(pairs, np.int64).reshape(-1, 2), unknown


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
