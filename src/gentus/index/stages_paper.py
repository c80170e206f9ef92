"""The stage of a build that learns the paper's identifiers and generator from labels. It needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from gentus.arrays import F32, I64
from gentus.embed.closed_form import ClosedForm
from gentus.identifiers.codebooks import Codebooks
from gentus.index.config import GeneratorReport, LabelReport
from gentus.index.feature_cache import stream_features
from gentus.index.stages import Assigned, LabelFile, Model, Run, Sample, Supervised
from gentus.lake import Skipped, Source
from gentus.metrics import score
from gentus.paper.offline import K_HELD_OUT, Offline, hold_out, offline
from gentus.paper.retriever import save_model
from gentus.paper.settings import PaperSettings
from gentus.paper.train import Progress as Trained
from gentus.retrieval.beam import Decoder
from gentus.retrieval.retriever import ClosedFormRetriever
from gentus.table import Column, Table, evenly_spaced

CELLS = 64  # of a column that are kept for training: a view never has more rows


@dataclass(frozen=True, slots=True)
class PaperModel:
    """What was learnt, and by which settings."""

    made: Offline
    settings: PaperSettings
    encoder: ClosedForm | None  # where it gave the table vectors

    @property
    def codebooks(self) -> Codebooks:
        """Those of the quantizer."""
        return Codebooks(self.made.q_omega.codebooks.detach().numpy())

    def save(self, path: Path) -> None:
        """Write the model file of an index."""
        save_model(path, self.made, self.settings, self.encoder)


def learn_generator(
    given: LabelFile, closed: Model, coded: Assigned, sample: Sample, run: Run, settings: PaperSettings
) -> tuple[PaperModel, Assigned, Supervised]:
    """Identifiers, and a generator that writes them, from all tables of the lake."""
    settings = replace(settings, seed=run.settings.seed)
    tables = _read_cells(sample, run)
    ids = sample.tables[:, 0]
    pairs, unknown = _pairs(given, ids, run)
    latents = _latents(closed.encoder, sample, run)
    encoder = closed.encoder if settings.vectors == "closed-form" else None
    vectors = latents if encoder else None
    epochs: list[Trained] = []
    with run.progress.stage("Training the generator", 1000, "") as tick:
        done = 0

        def report(trained: Trained) -> None:
            nonlocal done
            tick(round(1000 * trained.share) - done)
            done = round(1000 * trained.share)
            epochs.append(trained)

        run.progress.beside = lambda: _words(epochs[-1]) if epochs else "table vectors and identifiers"
        try:
            made = offline(tables, pairs, settings, run.layout.cache, e=vectors, report=report)
        finally:
            run.progress.beside = None
    _, held_out = hold_out(pairs, settings, np.random.default_rng(settings.seed))
    last, found = epochs[-1], made.identifiers
    figures = {
        "generator alone": made.map,
        "closed form": _closed_map(closed, coded, latents, ids, held_out, run.settings.feedback),
    }
    generator = GeneratorReport(
        vectors=settings.vectors,
        bert=settings.bert if encoder is None else None,
        t5=settings.t5,
        parameters=sum(part.numel() for part in made.g_theta.parameters() if part.requires_grad),
        steps=last.step,
        seconds=round(last.seconds, 1),
        losses={"cross-entropy": last.ce, "pairwise": last.pairwise},
        validation_map={name: round(figure, 4) for name, figure in figures.items()},
    )
    names = run.catalogue.tables.names(ids[list(held_out)].tolist())
    held_names = sorted(one.name for one in names.values())
    labels = LabelReport(given.file, len(pairs), unknown, held_names, generator.validation_map)
    model = PaperModel(made, settings, encoder)
    trie = replace(made.trie, tables=ids[made.trie.tables].astype(np.int32))
    assigned = Assigned(found.codes, found.suffixes, made.errors, trie)
    return model, assigned, Supervised(given.truth, labels, None, generator)


def _words(trained: Trained) -> str:
    """How a training is doing."""
    return (
        f"step {trained.step:,}, loss {trained.ce:.2f} + {trained.pairwise:.2f}, "
        f"MAP of the generator alone {trained.map:.3f} (best {trained.best:.3f})"
    )


def _read_cells(sample: Sample, run: Run) -> list[Table]:
    """Some cells of every table, in the order of the catalogue; a file that is gone by now has none."""
    ids = sample.tables[:, 0].tolist()
    sources, tables = run.catalogue.tables.sources_of(ids), list[Table]()
    with run.progress.stage("Reading cells", len(ids)) as tick:
        found = run.engine.each((sources[one] for one in ids), some_cells, run.settings.limits)
        for source, table in found:
            tables.append(Table(source.name, [], 0) if isinstance(table, Skipped) else table)
            tick(1)
    return tables


def some_cells(found: Sequence[tuple[Source, Table]]) -> list[Table]:
    """Tables with at most so many cells a column as views of them need."""
    return [
        Table(
            source.name,
            [
                Column(one.name, [one.cells[at] for at in evenly_spaced(len(one.cells), CELLS)], one.typed)
                for one in table.columns
                if one.cells
            ],
            table.rows,
        )
        for source, table in found
    ]


def _pairs(given: LabelFile, ids: I64, run: Run) -> tuple[I64, int]:
    """(n, 2) annotated pairs as positions among the tables, and how many name others."""
    position = {int(table): at for at, table in enumerate(ids)}
    known = run.catalogue.tables.ids(dict.fromkeys(chain(given.truth, *given.truth.values())))
    at = {name: position[table] for name, table in known.items() if table in position}
    pairs = [
        (at[query], at[table])
        for query, tables in given.truth.items()
        for table in tables
        if query in at and table in at and query != table
    ]
    total = sum(map(len, given.truth.values()))
    return np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0), total - len(pairs)


def _latents(encoder: ClosedForm, sample: Sample, run: Run) -> F32:
    """(N, d) latents of all tables in closed form."""
    return np.concatenate([encoder.encode(some) for some in stream_features(sample.tables, run.layout)])


def _closed_map(
    closed: Model, coded: Assigned, latents: F32, ids: I64, held_out: dict[int, list[int]], feedback: float
) -> float:
    """MAP of the closed form on the queries by which the generator was chosen."""
    position = {int(table): at for at, table in enumerate(ids)}
    retriever = ClosedFormRetriever(closed.encoder, Decoder(coded.trie, closed.codebooks), feedback)
    ranked = {}
    for query in held_out:
        rows = [row for row, _ in retriever.rank(latents[query], K_HELD_OUT, None, {int(ids[query])})]
        ranked[query] = [position[table] for table in coded.trie.table(np.array(rows)).tolist()]
    return score(ranked, held_out, K_HELD_OUT).map if held_out else 0.0
