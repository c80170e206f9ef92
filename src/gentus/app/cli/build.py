"""`gentus index` and `gentus refit`: build an index, and learn it again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gentus.app.cli.common import (
    LEARNING,
    READING,
    RUNNING,
    UNTRAINED,
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
    preset: Annotated[
        Literal["fast", "trained", "paper"] | None,
        typer.Option(
            metavar="fast|trained|paper",
            rich_help_panel=LEARNING,
            help="fast: closed form, and with labels a learnt ranking. trained: a network and a small "
            "generator. paper: BERT and T5 from the hub. The last two need labels. Default: fast; trained "
            "with --bert or --t5.",
        ),
    ] = None,
    time_budget: TimeBudget = None,
    bert: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            rich_help_panel=LEARNING,
            help="Encode columns with this BERT: a hub id, a folder, or minilm. Needs labels.",
        ),
    ] = None,
    t5: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            rich_help_panel=LEARNING,
            help="Use this T5 as generator: a hub id, a folder, or scratch (a small untrained one). Needs "
            "labels.",
        ),
    ] = None,
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
        gentus index my_lake/ -o my.index --labels pairs.csv --preset trained --time-budget 20
    """
    from gentus.index.build import assisted, build, require_packages
    from gentus.settings import preset_settings
    from gentus.table import text_choices

    started = time.perf_counter()
    usual = preset_settings(preset or ("trained" if labels and (bert or t5) else "fast"), seed, t5)
    settings = replace(
        usual,
        quantizer=replace(
            usual.quantizer,
            levels=levels or usual.quantizer.levels,
            codes=codes or usual.quantizer.codes,
        ),
        names=names,
        **text_choices({"header": header, "encoding": encoding}),
        exclude=tuple(exclude or ()),
        bert=bert or usual.bert,
        download=download,
    )
    if labels is not None:
        require_packages(settings)
    if assisted():  # of several processes, only the first builds and prints
        return
    try:
        built = build(
            lake,
            out,
            labels,
            settings=settings,
            workers=workers,
            force=force,
            engine=engine,
            address=address,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=progress(),
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
    generator = info["generator"]
    if generator and generator["stopped_by"] == "prior":
        yield f"Generator: {UNTRAINED}."
    elif generator:
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
    """Learn codes and generator again from the current tables, and switch over when done.

    Examples:
        gentus refit my.index                     # when gentus info or sync advises it
        gentus refit my.index --labels pairs.csv
    """
    from gentus.index.build import assisted
    from gentus.index.build import refit as fit_again

    started = time.perf_counter()
    if assisted():  # of several processes, only the first learns and prints
        return
    try:
        fitted = fit_again(
            index,
            labels,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=progress(),
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
