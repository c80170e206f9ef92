"""`gentus index` and `gentus refit`: build an index, and learn it again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gentus.app.cli.common import AsJson, HeaderOption, IndexPath, TimeBudget, emit, one_of, say
from gentus.app.cli.headers import header_hints
from gentus.shell import command

if TYPE_CHECKING:
    from gentus.index.index import Index


def index(
    lake: Annotated[
        str,
        typer.Argument(
            help="A folder of tables (nested is fine), here or at a URL such as s3://bucket/folder; or a "
            "DuckDB or SQLite file."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The index folder to write.")],
    labels: Annotated[
        Path | None,
        typer.Option(help="CSV of query_table,candidate_table pairs known to be unionable. Optional."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="fast: no labels, no generator. trained: a small generator. paper: BERT and T5 from the "
            "hub. The last two need labels. Default: trained with labels, else fast."
        ),
    ] = None,
    names: Annotated[
        bool,
        typer.Option(
            "--names/--no-names",
            help="Use column names, weighted by how well they agree with the cells; or cells alone.",
        ),
    ] = True,
    header: HeaderOption = None,
    time_budget: TimeBudget = None,
    bert: Annotated[
        str | None,
        typer.Option(help="Encode columns with this BERT: a hub id, a folder, or minilm. Needs labels."),
    ] = None,
    t5: Annotated[
        str | None,
        typer.Option(help="Use this T5 as generator: a hub id or a folder. Needs labels."),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download models that are not on this machine from the hub.")
    ] = False,
    softmax: Annotated[
        str | None,
        typer.Option(
            help="For ablations: softmax over the siblings of a code (children), or over the vocabulary."
        ),
    ] = None,
    ship_generator: Annotated[
        bool,
        typer.Option(
            "--ship-generator", help="For ablations: keep the generator even if the prior is better."
        ),
    ] = False,
    identifiers: Annotated[
        str, typer.Option(help="For ablations: semantic, ordinary, random, atomic or no-suffix.")
    ] = "semantic",
    codes: Annotated[
        int | None, typer.Option(min=2, max=256, help="Codewords per level (K). Default: by lake size.")
    ] = None,
    levels: Annotated[
        int | None, typer.Option(min=1, max=32, help="Codes per identifier (L). Default: by lake size.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Two builds with the same seed give the same identifiers.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that read tables. Default: one per core.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where tables are read and coded: local, or ray for a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster: HOST:PORT, or auto. Default: one on this machine.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an index of another lake.")] = False,
    as_json: AsJson = False,
) -> None:
    """Index a lake. Needs no labels; after an interruption the same command resumes."""
    from gentus.index.build import assisted, build, require_training
    from gentus.index.engine import EngineName
    from gentus.progress import terminal_progress
    from gentus.settings import Preset, Softmax, Variant, preset_settings

    started = time.perf_counter()
    if labels is not None:
        require_training()
    if assisted():  # of several processes, only the first builds and prints
        return
    usual = preset_settings(
        one_of(preset or ("fast" if labels is None else "trained"), Preset, "preset"), seed, t5
    )
    settings = replace(
        usual,
        quantizer=replace(
            usual.quantizer,
            levels=levels or usual.quantizer.levels,
            codes=codes or usual.quantizer.codes,
        ),
        names=names,
        header=header or usual.header,
        bert=bert or usual.bert,
        download=download,
        identifiers=one_of(identifiers, Variant, "identifiers"),
    )
    if softmax is not None or ship_generator:
        if settings.generation is None:
            raise typer.BadParameter("there is no generator without --labels")
        chosen = one_of(softmax or settings.generation.softmax, Softmax, "softmax")
        generation = replace(settings.generation, softmax=chosen, always=ship_generator)
        settings = replace(settings, generation=generation)
    try:
        built = build(
            lake,
            out,
            labels,
            settings=settings,
            workers=workers,
            force=force,
            engine=one_of(engine, EngineName, "engine"),
            address=address,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=terminal_progress(),
        )
    except KeyboardInterrupt:
        say(
            "\nStopped. The tables read so far are kept; run the same command to resume: "
            + command("index", lake, "-o", out)
        )
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - started
    info = built.info()
    for line in _summary(built, info, seconds, out):
        say(line)
    if as_json:
        emit({**info, "seconds": round(seconds, 2)})


def _summary(built: Index, info: dict[str, Any], seconds: float, out: Path) -> Iterator[str]:
    """What was built, in lines for people."""
    yield (
        f"{info['tables']:,} tables indexed in {seconds:.1f} s: "
        f"{info['levels']} codes of {info['codebook_size']}, {info['bytes_per_table']:.0f} bytes per table."
    )
    labels = info["labels"]
    if labels:
        held_out = len(labels["validation_queries"])
        yield f"{labels['pairs']:,} labelled pairs; {held_out:,} validation queries."
    generator = info["generator"]
    if generator:
        figures = generator["validation_map"]
        best = generator["chosen"]
        chosen = f"kept: {best}" if generator["shipped"] else "the prior alone is best and ranks"
        yield (
            f"Generator: {generator['epochs']} epochs in {generator['seconds'] / 60:.1f} min. MAP on "
            f"validation queries: prior alone {figures['prior alone']:.3f}, generator alone "
            f"{figures['generator alone']:.3f}, best {max(figures.values()):.3f}; {chosen}."
        )
    if labels and labels["pairs_outside_the_lake"]:
        outside = labels["pairs_outside_the_lake"]
        yield f"{outside:,} labelled pairs name tables that are not in the lake; they were left out."
    if info["skipped"]:
        yield f"{info['skipped']:,} skipped: see {command('info', out, '--skipped')}"
    yield from header_hints(built.doubtful(), built.config.lake, out)
    yield f"Search it: {command('search', out, 'YOUR_TABLE')}"


def refit(
    index: IndexPath,
    labels: Annotated[
        Path | None,
        typer.Option(help="CSV of query_table,candidate_table. Default: those of the build, if any."),
    ] = None,
    time_budget: TimeBudget = None,
    as_json: AsJson = False,
) -> None:
    """Learn codes and generator again from the current tables, and switch over when done."""
    from gentus.index.build import assisted
    from gentus.index.build import refit as fit_again
    from gentus.progress import terminal_progress

    started = time.perf_counter()
    if assisted():  # of several processes, only the first learns and prints
        return
    try:
        fitted = fit_again(
            index,
            labels,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=terminal_progress(),
        )
    except KeyboardInterrupt:
        say("\nStopped. The index is unchanged; run the same command to resume.")
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - started
    with fitted:
        facts = fitted.info()
    say(f"{facts['tables']:,} tables fitted again in {seconds:.1f} s; all have new identifiers.")
    if as_json:
        emit({**facts, "seconds": round(seconds, 2)})
