"""`gentus index` and `gentus refit`: build an index, and learn it again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gentus.app.cli.common import (
    LEARNING,
    READING,
    RUNNING,
    AsJson,
    EncodingOption,
    ExcludeOption,
    HeaderOption,
    IndexPath,
    Quiet,
    TimeBudget,
    emit,
    index_parts,
    other_kinds,
    progress,
    say,
    say_stopped,
    size_words,
)
from gentus.app.cli.headers import header_hints
from gentus.shell import command, typed_command

if TYPE_CHECKING:
    from gentus.index.index import Index


def index(
    lake: Annotated[
        str,
        typer.Argument(
            metavar="LAKE",
            help="A folder of tables (nested is fine), here or at a URL such as s3://bucket/folder; or a "
            "DuckDB or SQLite file, or a Postgres database.",
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="INDEX", help="The index folder to write.")],
    names: Annotated[
        bool,
        typer.Option(
            "--names/--no-names",
            rich_help_panel=READING,
            help="Use column names, weighted by how well they agree with the cells; or cells alone.",
        ),
    ] = True,
    header: HeaderOption = None,
    encoding: EncodingOption = None,
    exclude: ExcludeOption = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            rich_help_panel=LEARNING,
            help="Pairs query_table,candidate_table known to be unionable. Optional.",
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=LEARNING,
            help="The folder of labelled queries that are not in the lake.",
        ),
    ] = None,
    preset: Annotated[
        Literal["fast", "paper"],
        typer.Option(
            metavar="fast|paper",
            rich_help_panel=LEARNING,
            help="fast: closed form, and with labels a learnt ranking. paper: the paper's generator, which "
            "needs labels and gentus[train].",
        ),
    ] = "fast",
    time_budget: TimeBudget = None,
    encoder: Annotated[
        Literal["bert", "closed-form"],
        typer.Option(
            metavar="bert|closed-form",
            rich_help_panel=LEARNING,
            help="What the table vectors of the preset paper come from.",
        ),
    ] = "bert",
    bert: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            rich_help_panel=LEARNING,
            help="The BERT of the preset paper: a hub id, a folder, or minilm.",
        ),
    ] = "minilm",
    t5: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            rich_help_panel=LEARNING,
            help="The T5 of the preset paper: a hub id, a folder, or scratch, a small one that begins from "
            "nothing. With a model the sizes and constants are those of the paper.",
        ),
    ] = "scratch",
    download: Annotated[
        bool,
        typer.Option(
            "--download",
            rich_help_panel=LEARNING,
            help="Download models that are not on this machine from the hub.",
        ),
    ] = False,
    codes: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=256,
            metavar="K",
            rich_help_panel=LEARNING,
            help="Codewords per level, 2 to 256. Default: by lake size.",
        ),
    ] = None,
    levels: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=32,
            metavar="L",
            rich_help_panel=LEARNING,
            help="Codes per identifier, 1 to 32. Default: by lake size.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            rich_help_panel=LEARNING,
            help="Two builds with the same seed give the same identifiers.",
        ),
    ] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            rich_help_panel=RUNNING,
            help="Processes that read tables. Default: one per core.",
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            metavar="local|ray",
            rich_help_panel=RUNNING,
            help="Where tables are read and coded: on this machine, or on a Ray cluster.",
        ),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            rich_help_panel=RUNNING,
            help="The Ray cluster; auto finds one. Default: one on this machine.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", rich_help_panel=RUNNING, help="Replace an index of another lake."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Index a lake. It needs no labels. After an interruption the same command resumes.

    Examples:
        gentus index my_lake/ -o my.index
        gentus index s3://bucket/tables -o my.index     # needs gentus[remote]
        gentus index sales.duckdb -o sales.index        # every table of a database
        gentus index my_lake/ -o my.index --header no   # files without a header row
        gentus index my_lake/ -o my.index --exclude "*.bak.csv" --exclude archive/
        gentus index my_lake/ -o my.index --labels pairs.csv
        gentus index my_lake/ -o my.index --labels pairs.csv --preset paper --time-budget 40
    """
    from gentus.index.build import build
    from gentus.paper.settings import paper_settings
    from gentus.settings import BuildSettings, QuantizerSettings
    from gentus.table import text_choices

    started = time.perf_counter()
    settings = BuildSettings(
        seed=seed,
        names=names,
        **text_choices({"header": header, "encoding": encoding}),
        exclude=tuple(exclude or ()),
        quantizer=QuantizerSettings(levels, codes),
    )
    paper = None
    if preset == "paper":
        paper = paper_settings(encoder, bert, t5, levels, codes, download=download)
    elif encoder != "bert" or bert != "minilm" or t5 != "scratch" or time_budget is not None:
        raise typer.BadParameter("--encoder, --bert, --t5 and --time-budget are for --preset paper.")
    try:
        built = build(
            lake,
            out,
            labels,
            queries=queries,
            settings=settings,
            paper=paper,
            workers=workers,
            force=force,
            engine=engine,
            address=address,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=progress(lines=True),
        )
    except KeyboardInterrupt:
        say_stopped(f" The tables read so far are kept; run the same command to resume: {typed_command()}")
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - started
    info = built.info()
    for line in _summary(built, info, seconds, out):
        say(line)
    if as_json:
        emit({**info, "seconds": round(seconds, 2)})


def _summary(built: Index, info: dict[str, Any], seconds: float, out: Path) -> Iterator[str]:
    """What was built, in lines for people."""
    parts = ", ".join(f"{name} {size_words(count)}" for name, count in index_parts(info).items())
    yield f"{info['tables']:,} tables indexed in {seconds:.1f} s."
    yield f"The index takes {size_words(info['bytes']['total'])} on disk: {parts}."
    labels = info["labels"]
    if labels:
        held_out = len(labels["validation_queries"])
        yield f"{labels['pairs']:,} labelled pairs; {held_out:,} validation queries."
        if labels["ranking"]:
            yield from _ranking_lines(labels)
    if info["generator"]:
        yield from _generator_lines(info["generator"])
    if labels and labels["pairs_outside_the_lake"]:
        outside = labels["pairs_outside_the_lake"]
        yield f"{outside:,} labelled pairs name tables that are not in the lake; they were left out."
    if info["excluded"]:
        yield f"{info['excluded']:,} files or folders excluded."
    if info["others"]:
        yield f"{other_kinds(info['others'])}."
    if info["skipped"]:
        yield f"{info['skipped']:,} skipped: see {command('info', out, '--skipped')}"
    if info["unusual"]:
        yield (
            f"{info['unusual']:,} not read in the usual way (lines left out, headers joined, encodings"
            f" guessed, files taken together, headers unsure): see {command('info', out, '--reading')}"
        )
    yield from header_hints(built.doubtful(), built.config.lake, out)
    yield f"Search it: {command('search', out, 'YOUR_TABLE')}"


def _generator_lines(generator: dict[str, Any]) -> Iterator[str]:
    """How the paper's generator ranks, and whether the closed form would be better."""
    figures = generator["validation_map"]
    yield f"Generator: {generator['steps']:,} steps in {generator['seconds'] / 60:.1f} min."
    quality = ", ".join(f"{name} {figure:.3f}" for name, figure in figures.items())
    yield f"MAP on held-out queries: {quality}."
    if figures["generator alone"] < figures["closed form"]:
        yield "The closed form ranks better here: without --preset paper you have it."


def _ranking_lines(labels: dict[str, Any]) -> Iterator[str]:
    """Which ranking was learnt from labels, and what could not be learnt from."""
    if labels["validation_queries"]:
        figures = ", ".join(f"{name} {figure:.3f}" for name, figure in labels["validation_map"].items())
        yield f"MAP on validation queries: {figures}; kept: {labels['ranking']['chosen']}."
    unreadable = labels["ranking"]["unreadable"]
    if unreadable:
        yield f"{len(unreadable):,} labelled queries could not be read, such as {unreadable[0]}."


def refit(
    index: IndexPath,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            rich_help_panel=LEARNING,
            help="Pairs query_table,candidate_table. Default: those of the build, if any.",
        ),
    ] = None,
    time_budget: TimeBudget = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn codes again from the current tables, and the paper's generator; switch over when done.

    Examples:
        gentus refit my.index                     # when gentus info or sync advises it
        gentus refit my.index --labels pairs.csv
    """
    from gentus.index.build import refit as fit_again

    started = time.perf_counter()
    try:
        fitted = fit_again(
            index,
            labels,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=progress(lines=True),
        )
    except KeyboardInterrupt:
        say_stopped(" The index is unchanged; run the same command to resume.")
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - started
    with fitted:
        facts = fitted.info()
    say(f"{facts['tables']:,} tables fitted again in {seconds:.1f} s; all have new identifiers.")
    if as_json:
        emit({**facts, "seconds": round(seconds, 2)})
