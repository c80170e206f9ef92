"""`gentus-bench`: every figure that the project claims, measured by a command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gentus.app.cli.common import AsJson, Beam, Count, IndexPath, emit, open_index, say

if TYPE_CHECKING:
    from gentus_bench.benchmarks import Benchmark

bench_app = typer.Typer(
    help="Measure GenTUS beside other methods on lakes with ground truth.",
    no_args_is_help=True,
    add_completion=False,
)


Data = Annotated[
    Path,
    typer.Option(
        help="A folder of lakes (NAME/datalake, NAME/groundtruth_dev.csv, ..), or of one benchmark (TUS,"
        " SANTOS, wiki_union, LakeBench) as it was unpacked."
    ),
]
Lakes = Annotated[list[str] | None, typer.Option("--lake", help="Which of them. Default: all.")]
Out = Annotated[Path, typer.Option(help="Where results go; what is there is not measured again.")]
Methods = Annotated[list[str] | None, typer.Option("--method", help="Which systems. Default: all.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many times to learn, with other seeds.")]


@bench_app.command()
def quality(
    data: Data,
    lake: Lakes = None,
    method: Methods = None,
    out: Out = Path("results"),
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Answers that count. Default: the usual k of each.")
    ] = None,
    seeds: Seeds = 1,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Open indexes of GenTUS that lie in the results, as they are.")
    ] = False,
    names: Annotated[
        bool,
        typer.Option("--names", help="Also systems that see column names, where these are not the labels."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rank the lakes' queries by GenTUS and by baselines, side by side."""
    from gentus_bench.main import compare
    from gentus_bench.methods import wanted
    from gentus_bench.overview import lake_markdown, summary
    from gentus_bench.results import Results

    documents = {}
    for benchmark in _benchmarks(data, lake, k):
        comparison = compare(benchmark, wanted(method, names), Results(out), seeds, reuse=reuse)
        documents[benchmark.name] = summary(comparison.rows)
        if not as_json:
            told = lake_markdown(benchmark, comparison.tables, comparison.groundtruth, comparison.rows)
            print(told, end="\n\n")
    if as_json:
        emit(documents)


def _benchmarks(data: Path, lakes: list[str] | None, k: int | None = None) -> Iterator[Benchmark]:
    from gentus_bench.benchmarks import find

    for benchmark in find(data, lakes, k):
        say(f"{benchmark.name}, k = {benchmark.k}: recognised by {benchmark.evidence}.")
        for note in benchmark.notes:
            say(f"Note: {note}.")
        yield benchmark


@bench_app.command()
def choose(
    data: Data,
    lake: Lakes = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option("--candidate", help="Which settings, as 'ridge 10'. Default: all."),
    ] = None,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Compare settings over lakes, each lake left out once; a stopped run goes on where it was."""
    from gentus_bench.choose import choose, markdown
    from gentus_bench.results import Results

    document = choose(list(_benchmarks(data, lake)), Results(out), candidate)
    if as_json:
        emit(document)
    else:
        print(markdown(document))


Budget = Annotated[
    float | None, typer.Option(min=0, help="Minutes that training a generator may take at most.")
]


@bench_app.command(name="all")
def everything(
    data: Data,
    lake: Lakes = None,
    method: Methods = None,
    seeds: Seeds = 1,
    time_budget: Budget = None,
    out: Out = Path("results"),
) -> None:
    """Run every experiment that is missing, and write one HTML report of all of them."""
    from gentus_bench.everything import EXPERIMENTS

    _run(data, lake, method, EXPERIMENTS, seeds, time_budget, out)


@bench_app.command()
def report(
    data: Annotated[
        Path | None,
        typer.Option(help="The folder of lakes; with it the report says how ground truths and lakes fit."),
    ] = None,
    out: Out = Path("results"),
) -> None:
    """Make the HTML report from what lies in the results, without measuring anything."""
    from gentus_bench.benchmarks import find
    from gentus_bench.results import Results
    from gentus_bench.telling import write_report

    if not out.is_dir():
        raise typer.BadParameter(f"there is no folder {out}", param_hint="--out")
    say(f"The report: {write_report(Results(out), find(data) if data else ())}")


@bench_app.command()
def timing(
    data: Data,
    lake: Lakes = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Which systems. Default: Starmie, TACTUS and GenTUS, of every kind."),
    ] = None,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Time searches side by side: all systems in one process, each query by all of them in turn.

    What is missing of their main comparison is measured on the way.
    """
    from gentus_bench.main import AtHand, compare
    from gentus_bench.methods import wanted
    from gentus_bench.results import Results
    from gentus_bench.timing import compared, markdown, measure_timing

    results = Results(out)
    documents = {}
    for benchmark in _benchmarks(data, lake):
        methods = wanted(method) if method else compared(wanted(None), benchmark, results)
        at_hand = AtHand(benchmark)
        at_hand.keep = frozenset(methods)
        compare(benchmark, methods, results, lake=at_hand, reuse=True)
        document = measure_timing(benchmark, methods, results, at_hand)
        documents[benchmark.name] = document
        if not as_json:
            print(markdown(document), end="\n\n")
    if as_json:
        emit(documents)


@bench_app.command()
def pool(data: Data, lake: Lakes = None, method: Methods = None, out: Out = Path("results")) -> None:
    """Rank over random parts of each lake: how quality changes with the number of candidates."""
    _run(data, lake, method, ["pool"], 1, None, out)


@bench_app.command()
def beam(data: Data, lake: Lakes = None, out: Out = Path("results")) -> None:
    """Search with beams of several widths: quality against time."""
    _run(data, lake, ["gentus", "gentus-labels"], ["beam"], 1, None, out)


@bench_app.command()
def identifiers(
    data: Data, lake: Lakes = None, time_budget: Budget = None, out: Out = Path("results")
) -> None:
    """Train the same generator on five kinds of identifiers, and see what the prefix tree is worth."""
    _run(data, lake, [], ["identifiers", "constraints"], 1, time_budget, out)


def _run(
    data: Path,
    lakes: list[str] | None,
    methods: list[str] | None,
    experiments: Sequence[str],
    seeds: int,
    time_budget: float | None,
    out: Path,
) -> None:
    from gentus.progress import terminal_progress
    from gentus_bench.everything import Plan, run_all
    from gentus_bench.methods import wanted
    from gentus_bench.results import Results

    chosen = [] if methods == [] else wanted(methods)
    budget = None if time_budget is None else 60 * time_budget
    plan = Plan(list(_benchmarks(data, lakes)), chosen, experiments, seeds, budget)
    say(f"Tables and plots are in {out}; the report: {run_all(plan, Results(out), terminal_progress())}")


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
    from gentus_bench.parts import markdown, measure_parts

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
    from gentus_bench.cold import cold_search

    facts = cold_search(index, query, runs)
    if as_json:
        emit(facts)
    else:
        median, worst = facts["seconds_median"], facts["seconds_worst"]
        print(f"median {median:.2f} s, worst {worst:.2f} s of {runs} cold searches")


@bench_app.command()
def serve(
    index: IndexPath,
    queries: Annotated[Path, typer.Option(help="A folder of tables to search for.")],
    clients: Annotated[int, typer.Option(min=1, help="How many of them at once.")] = 50,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 60.0,
    k: Count = 10,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Let many clients search at once over HTTP, beside searches of the same queries in one process."""
    from gentus_bench.results import Results
    from gentus_bench.serving import markdown, measure_serving

    results = Results(out)
    document = measure_serving(results, index, queries, clients, seconds, k)
    results.write_table(document["name"], markdown(document))
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def batch(
    index: IndexPath,
    queries: Annotated[Path, typer.Option(help="A folder of tables to search for.")],
    count: Annotated[int, typer.Option(min=1, help="How many of them, at most.")] = 5000,
    k: Count = 10,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Search for very many tables at once: queries a second of one process, and of all cores."""
    from gentus_bench.batch import markdown, measure_batch
    from gentus_bench.results import Results

    results = Results(out)
    document = measure_batch(results, index, queries, count, k)
    results.write_table(document["name"], markdown(document))
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def roofline(
    index: IndexPath,
    queries: Annotated[Path, typer.Option(help="A folder of tables to search for.")],
    count: Annotated[int, typer.Option(min=1, help="How many of them, at most.")] = 150,
    k: Count = 10,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """FLOPs and bytes of every part of a search, and how near it is to what the machine could do."""
    from gentus_bench.results import Results
    from gentus_bench.roofline import markdown, measure_roofline

    results = Results(out)
    document = measure_roofline(results, index, queries, count, k)
    results.write_table(document["name"], markdown(document))
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def incremental(
    data: Data,
    lake: Lakes = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Train on the labels there are, at first on D0's own pairs.")
    ] = False,
    time_budget: Annotated[
        float | None, typer.Option(min=0, help="Minutes that training a generator may take at most.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which tables come first, and the seed of all learning.")] = 0,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Learn from half a lake, add the rest in five steps, and compare with learning from everything."""
    from gentus.progress import terminal_progress
    from gentus_bench.incremental import incremental, markdown
    from gentus_bench.results import Results

    documents = []
    for benchmark in _benchmarks(data, lake):
        if labels and not benchmark.labels:
            raise typer.BadParameter(f"{benchmark.name} has no labels")
        truth, train = benchmark.write(out / "truth")
        document = incremental(
            benchmark.lake,
            truth,
            benchmark.k,
            Results(out),
            benchmark.name,
            queries=benchmark.queries,
            labels=train if labels else None,
            seed=seed,
            progress=terminal_progress(),
            names=False,
            **({} if time_budget is None else {"time_budget": 60 * time_budget}),
        )
        documents.append(document)
        if not as_json:
            print(markdown(document, benchmark.name), end="\n\n")
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
    from gentus_bench.updates import markdown, measure_updates

    document = measure_updates(index, tables, count, seconds=seconds)
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def union(
    rows: Annotated[int, typer.Option(min=1000, help="Rows of the query, and of each of five tables.")] = 10
    ** 6,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Union a query and five large tables in a process of its own: memory, time, rows a second."""
    from gentus_bench.results import Results
    from gentus_bench.union_memory import markdown, measure_union

    results = Results(out)
    document = measure_union(results, rows)
    results.write_table("union", markdown(document))
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def scale(
    index: Annotated[Path, typer.Option(help="An index folder; lakes are made up after its own.")],
    size: Annotated[
        list[int] | None,
        typer.Option(min=10, help="How many identifiers. Default: 10,000, 100,000, a million, ten million."),
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="How many, of tables that are in no tree.")] = 200,
    beam: Annotated[int, typer.Option(min=1, help="Width of the search.")] = 100,
    threads: Annotated[list[int] | None, typer.Option(min=1, help="Of torch. Default: 1 and 2.")] = None,
    levels: Annotated[
        int | None,
        typer.Option(min=2, help="Codes of an identifier. Default: those of an index of the largest size."),
    ] = None,
    usual_most: Annotated[
        int, typer.Option(min=0, help="Identifiers up to which transformers' own way is tried; 0: never.")
    ] = 10**6,
    usual_memory: Annotated[float, typer.Option(min=0.5, help="GB of memory that it may take.")] = 4.0,
    usual_time: Annotated[float, typer.Option(min=0, help="Minutes that each trie and size may take.")] = 20,
    seed: Annotated[int, typer.Option(help="Of what is made up.")] = 0,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Measure prefix trees of up to ten million identifiers: size, opening, decoding; beside the usual way.

    The trees stay in the results, so that a run that was stopped goes on; afterwards they may be deleted.
    """
    from gentus.progress import terminal_progress
    from gentus_bench.results import Results
    from gentus_bench.scale import SIZES, ScaleSettings, measure_scale
    from gentus_bench.scale_telling import markdown

    settings = ScaleSettings(
        sizes=size or SIZES,
        queries=queries,
        beam=beam,
        threads=threads or (1, 2),
        seed=seed,
        levels=levels,
        usual_most=usual_most,
        usual_gigabytes=usual_memory,
        usual_seconds=60 * usual_time,
    )
    document = measure_scale(index, Results(out), settings, terminal_progress())
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def large(
    lake: Annotated[Path, typer.Option(help="A folder of CSV files; lakes are cut from their rows.")],
    tables: Annotated[
        list[int] | None,
        typer.Option(min=10, help="How many tables; several sizes show the growth. Default: a million."),
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="How many, of tables of the made lake.")] = 500,
    seed: Annotated[int, typer.Option(help="Which rows and columns, and which queries.")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Where lakes and indexes go. Default: beside the results.")
    ] = None,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Make a lake of a million tables, index and search it: time and memory of every stage, and size.

    Lakes and indexes stay, so that a run that was stopped goes on; afterwards they may be deleted.
    """
    from gentus.progress import terminal_progress
    from gentus_bench.large import SIZES, LargeSettings, markdown, measure_large
    from gentus_bench.results import Results

    settings = LargeSettings(tables or SIZES, queries, seed)
    document = measure_large(lake, Results(out), settings, folder, terminal_progress())
    if as_json:
        emit(document)
    else:
        print(markdown(document))


@bench_app.command()
def engines(
    lake: Annotated[Path, typer.Argument(help="A folder of tables.")],
    workers: Annotated[int, typer.Option(min=1, help="Processes that each engine may use.")] = 2,
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster, HOST:PORT. Default: one on this machine.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build one lake with every engine: seconds, tables a second, and whether identifiers are the same."""
    from gentus_bench.engines import markdown, measure_engines

    document = measure_engines(lake, ("local", "ray"), workers, address)
    if as_json:
        emit(document)
    else:
        print(markdown(document))
    if not document["same_identifiers"]:
        raise typer.Exit(1)


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
    from gentus.progress import terminal_progress
    from gentus_bench.make_lake import make_lake
    from gentus_bench.noise import Headers, Noise
    from gentus_bench.slicing import LakeOptions

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


@bench_app.command("base-tables")
def base_tables(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder that the tables go to.")],
    package: Annotated[
        list[str] | None, typer.Option("--package", help="Which packages. Default: all that are known.")
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Least rows of a table.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Collect real tables that installed packages ship, to cut lakes from."""
    from gentus_bench.shipped_tables import collect

    found = collect(out, package, rows=rows)
    if as_json:
        emit(found)
        return
    for name, tables in found.items():
        print(f"{out / name}: {len(tables):,} tables")


@bench_app.command()
def align(
    lake: Annotated[
        list[Path],
        typer.Argument(
            metavar="LAKE", help="Lakes that make-lake cut, or others of slices with ground truth."
        ),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="gentus, jaccard, coma, distribution. Default: all that are installed."
        ),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of slices for each base table.")] = 6,
    seed: Annotated[int, typer.Option(help="Which pairs.")] = 0,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Align columns of slices, beside valentine's matchers: precision, recall, F1 and time."""
    from gentus_bench.aligners import aligners
    from gentus_bench.alignment import markdown, measure_alignment
    from gentus_bench.results import Results

    documents = [measure_alignment(one, aligners(method), Results(out), pairs, seed) for one in lake]
    if as_json:
        emit(documents)
        return
    for document in documents:
        print(markdown(document), end="\n\n")


@bench_app.command("learn-align")
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
    from gentus_bench.column_pairs import alike, base_tables, training_examples
    from gentus_bench.learn_alignment import learn

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
    guarded(lambda: bench_app(prog_name="gentus-bench"))
