"""`gentus bench`: every figure that the project claims, measured by a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gentus.cli_common import AsJson, Beam, Count, IndexPath, emit, open_index, say

bench_app = typer.Typer(
    help="Measure GenTUS beside other methods on lakes with ground truth.", no_args_is_help=True
)


@bench_app.command()
def quality(
    data: Annotated[
        Path,
        typer.Option(
            help="Folder of lakes: NAME/datalake, NAME/groundtruth_dev.csv, NAME/query. Or the folder of one"
            " benchmark (TUS, SANTOS, wiki_union, LakeBench) as it was unpacked."
        ),
    ],
    lake: Annotated[
        list[str] | None, typer.Option(help="Which of them. Default: all the standard ones there.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Which methods. Default: all.")] = None,
    out: Annotated[Path, typer.Option(help="Where quality.json and quality.md go.")] = Path("results"),
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="Answers that count, of one benchmark. Default: its usual k."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank the lakes' queries by GenTUS and by baselines, side by side, and write a table."""
    from gentus.bench.quality import LAKES, main_table, markdown

    if lake or any((data / name).is_dir() for name in LAKES):
        if k is not None:
            raise typer.BadParameter("the standard lakes have their own k", param_hint="-k")
        document = main_table(data, lake, method, out)
    else:
        from gentus.bench.benchmarks import recognise
        from gentus.bench.single import measure_benchmark

        benchmark = recognise(data, k)
        say(f"{benchmark.name}, k = {benchmark.k}: recognised by {benchmark.evidence}.")
        for note in benchmark.notes:
            say(f"Note: {note}.")
        document = measure_benchmark(benchmark, method, out)
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def parts(
    index: IndexPath,
    groundtruth: Annotated[
        Path, typer.Option(help="CSV of query_table,candidate_table, queries in the lake.")
    ],
    k: Count = 10,
    beam: Beam = None,
    as_json: AsJson = False,
) -> None:
    """Rank by dense latents, prior, generator with and without the prefix tree, and by their sum."""
    from gentus.bench.parts import markdown, measure_parts

    document = measure_parts(open_index(index), groundtruth, k, beam)
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def cold(
    index: IndexPath,
    query: Annotated[Path, typer.Argument(help="A table to search for.")],
    runs: Annotated[int, typer.Option(min=1, help="How many times.")] = 9,
    as_json: AsJson = False,
) -> None:
    """Time `gentus search` from the shell, imports and opening included."""
    from gentus.bench.cold import cold_search

    facts = cold_search(index, query, runs)
    if as_json:
        emit(facts)
    else:
        median, worst = facts["seconds_median"], facts["seconds_worst"]
        print(f"median {median:.2f} s, worst {worst:.2f} s of {runs} cold searches")


@bench_app.command()
def incremental(
    data: Annotated[Path, typer.Option(help="Folder of lakes: NAME/datalake, NAME/groundtruth_dev.csv.")],
    lake: Annotated[list[str], typer.Option(help="Which of them.")],
    labels: Annotated[
        bool, typer.Option("--labels", help="Train on NAME/groundtruth_train.csv, at first on D0's pairs.")
    ] = False,
    time_budget: Annotated[
        float | None, typer.Option(min=0, help="Minutes that training a generator may take at most.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which tables come first, and the seed of all learning.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the results go.")] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Learn from half a lake, add the rest in five steps, and compare with learning from everything."""
    from gentus.bench.incremental import incremental, markdown
    from gentus.bench.quality import LAKES
    from gentus.progress import terminal_progress

    documents = []
    for name in lake:
        folder = data / name
        documents.append(
            incremental(
                folder / "datalake",
                folder / "groundtruth_dev.csv",
                LAKES.get(name, 10),
                out,
                queries=folder / "query" if (folder / "query").is_dir() else None,
                labels=folder / "groundtruth_train.csv" if labels else None,
                name=name,
                seed=seed,
                progress=terminal_progress(),
                **({} if time_budget is None else {"time_budget": 60 * time_budget}),
            )
        )
        if not as_json:
            print(markdown(documents[-1]), end="\n\n")
    if as_json:
        emit(documents)


@bench_app.command()
def updates(
    index: Annotated[list[Path], typer.Argument(metavar="INDEX", help="Index folders, smallest first.")],
    tables: Annotated[Path, typer.Option(help="A folder of tables that are in none of them.")],
    count: Annotated[int, typer.Option("-n", min=100, help="How many of them to add.")] = 1000,
    seconds: Annotated[
        float, typer.Option(min=0, help="How long two readers watch a writer at the end; 0: not at all.")
    ] = 60,
    as_json: AsJson = False,
) -> None:
    """Time additions to copies of indexes: one table until it is found, and many, side by side."""
    from gentus.bench.updates import markdown, measure_updates

    document = measure_updates(index, tables, count, seconds=seconds)
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command("make-lake")
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
    from gentus.bench.make_lake import make_lake
    from gentus.bench.noise import Headers, Noise
    from gentus.bench.slicing import LakeOptions
    from gentus.progress import terminal_progress

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
