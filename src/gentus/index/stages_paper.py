"""The stage of a build that learns the paper's identifiers and generator from labels. It needs torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from gentus.arrays import F32, I64
from gentus.embed.closed_form import ClosedForm
from gentus.features.extract import featurize_all
from gentus.identifiers.codebooks import Codebooks
from gentus.index.config import GeneratorReport, LabelReport
from gentus.index.feature_cache import stream_features
from gentus.index.stages import Assigned, LabelFile, Model, Run, Sample, Searchable, Supervised
from gentus.lake import Skipped, Source
from gentus.metrics import score
from gentus.paper.offline import K_HELD_OUT, Lake, Offline, offline
from gentus.paper.retriever import save_model
from gentus.paper.settings import PaperSettings
from gentus.paper.train import BEST, CHECKPOINT
from gentus.paper.train import Progress as Trained
from gentus.retrieval.beam import Decoder
from gentus.retrieval.retriever import ClosedFormRetriever
from gentus.table import Column, Table, evenly_spaced

CELLS = 64  # of a column that are kept for training: a view never has more rows


def learn_generator(
    given: LabelFile, closed: Model, coded: Assigned, sample: Sample, run: Run, settings: PaperSettings
) -> tuple[Searchable, Assigned, Supervised]:
    """Identifiers, and a generator that writes them, from all tables of the lake."""
    settings = replace(settings, seed=run.settings.seed)
    ids, outside = sample.tables[:, 0], sorted(given.queries.items())
    position = {name: len(ids) + at for at, (name, _) in enumerate(outside)} | _positions(given, ids, run)
    pairs = _pairs(given.truth, position)
    sources = run.catalogue.tables.sources_of(ids.tolist())
    wanted = [*(sources[one] for one in ids.tolist()), *(source for _, source in outside)]
    lake = Lake(_read_cells(wanted, run), len(ids), pairs)
    latents = _latents(closed.encoder, sample, lake.tables[len(ids) :], run)
    encoder = closed.encoder if settings.vectors == "closed-form" else None
    made, last = _train(lake, None if encoder is None else latents[: len(ids)], settings, run)
    figures = {
        "generator alone": made.map,
        "closed form": _closed_form_map(closed, coded, latents, ids, made.held_out, run.settings.feedback),
    }
    figures = {name: round(figure, 4) for name, figure in figures.items()}
    named = {at: name for name, at in position.items()}
    labels = LabelReport(
        given.file,
        len(pairs),
        sum(map(len, given.truth.values())) - len(pairs),
        sorted(named[query] for query in made.held_out),
        figures,
        queries=given.folder,
    )
    generator = _report(made, last, settings, figures)
    codebooks = Codebooks(made.q_omega.codebooks.detach().numpy())
    save = partial(save_model, made=made, settings=settings, encoder=encoder)
    trie = replace(made.trie, tables=ids[made.trie.tables].astype(np.int32))
    assigned = Assigned(made.identifiers.codes, made.identifiers.suffixes, made.errors, trie)
    return Searchable(codebooks, save, settings), assigned, Supervised(given.truth, labels, None, generator)


def delete_checkpoints(folder: Path) -> None:
    """Delete what a training is continued by, once its generator is published."""
    for name in (CHECKPOINT, BEST):
        (folder / name).unlink(missing_ok=True)


def _positions(given: LabelFile, ids: I64, run: Run) -> dict[str, int]:
    """Where the tables that labels name are among those of the lake."""
    at = {int(table): position for position, table in enumerate(ids)}
    known = run.catalogue.tables.ids(given.names)
    return {name: at[table] for name, table in known.items() if table in at}


def _pairs(truth: Mapping[str, Sequence[str]], position: Mapping[str, int]) -> I64:
    """(n, 2) annotated pairs by position, of tables that are there."""
    pairs = [
        (position[query], position[table])
        for query, tables in truth.items()
        for table in tables
        if query in position and table in position and query != table
    ]
    return np.unique(np.array(pairs, np.int64).reshape(-1, 2), axis=0)


def _read_cells(sources: Sequence[Source], run: Run) -> list[Table]:
    """Some cells of every table; a file that is gone by now has none."""
    tables = list[Table]()
    with run.progress.stage("Reading cells", len(sources)) as tick:
        for source, table in run.engine.each(sources, some_cells, run.settings.limits):
            tables.append(Table(source.name, [], 0) if isinstance(table, Skipped) else table)
            tick(1)
    return tables


def some_cells(found: Iterable[tuple[Source, Table]]) -> list[Table]:
    """Tables with as many cells a column as views of them need, at most."""
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


def _latents(encoder: ClosedForm, sample: Sample, others: Sequence[Table], run: Run) -> F32:
    """(N + Q, d) latents in closed form, of the tables of the lake and of others."""
    parts = [encoder.encode(some) for some in stream_features(sample.tables, run.layout)]
    return np.concatenate([*parts, *([encoder.encode(featurize_all(others))] if others else [])])


def _train(lake: Lake, vectors: F32 | None, settings: PaperSettings, run: Run) -> tuple[Offline, Trained]:
    """Algorithm 1, with what is shown of it; and how the training ended."""
    shown: list[Trained] = []
    with run.progress.stage("Training the generator", 1000, "") as tick:
        done = 0

        def report(trained: Trained) -> None:
            nonlocal done
            now = round(1000 * trained.share)
            tick(now - done)
            done = now
            shown.append(trained)

        run.progress.beside = lambda: _words(shown[-1]) if shown else "table vectors and identifiers first"
        try:
            return offline(lake, settings, run.layout.cache, vectors, report), shown[-1]
        finally:
            run.progress.beside = None


def _words(trained: Trained) -> str:
    """How a training is doing."""
    return (
        f"step {trained.step:,}, loss {trained.ce:.2f} + {trained.pairwise:.2f}, "
        f"MAP of the generator alone {trained.map:.3f} (best {trained.best:.3f})"
    )


def _report(
    made: Offline, last: Trained, settings: PaperSettings, figures: dict[str, float]
) -> GeneratorReport:
    return GeneratorReport(
        vectors=settings.vectors,
        bert=None if made.f_eta is None else settings.bert,
        t5=settings.t5,
        parameters=sum(part.numel() for part in made.g_theta.parameters() if part.requires_grad),
        steps=last.step,
        seconds=round(last.seconds, 1),
        losses={"cross-entropy": round(last.ce, 4), "pairwise": round(last.pairwise, 4)},
        validation_map=figures,
    )


def _closed_form_map(
    closed: Model, coded: Assigned, latents: F32, ids: I64, held_out: Mapping[int, list[int]], feedback: float
) -> float:
    """MAP of the closed form on the queries by which the generator was chosen."""
    position = {int(table): at for at, table in enumerate(ids)}
    retriever = ClosedFormRetriever(closed.encoder, Decoder(coded.trie, closed.codebooks), feedback)
    ranked = {}
    for query in held_out:
        itself = {int(ids[query])} if query < len(ids) else set()
        rows = [row for row, _ in retriever.rank(latents[query], K_HELD_OUT, None, itself)]
        ranked[query] = [position[table] for table in coded.trie.table(np.array(rows)).tolist()]
    return score(ranked, held_out, K_HELD_OUT).map if held_out else 0.0
