"""The command line. Data goes to stdout, everything said to people goes to stderr."""

from __future__ import annotations

import io
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from gentus import __version__
from gentus.app.cli.align import add_align
from gentus.app.cli.changes import add_changes
from gentus.app.cli.common import AsJson, Beam, Count, IndexPath, emit, open_index, say, titled_grid
from gentus.app.cli.serve import add_serve
from gentus.app.cli.union import add_union

if TYPE_CHECKING:
    from gentus.index.index import Hit, Index
    from gentus.lake import Location

app = typer.Typer(
    name="gentus",
    help="Table union search: find the tables of a data lake whose rows can be appended to yours.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
add_changes(app)
add_align(app)
add_union(app)
add_serve(app)


@app.command()
def index(
    lake: Annotated[
        str,
        typer.Argument(
            help="A folder of tables (nested is fine), here or at a URL such as s3://bucket/folder; or a "
            "DuckDB or SQLite file."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the index folder goes.")],
    labels: Annotated[
        Path | None,
        typer.Option(help="CSV of query_table,candidate_table pairs known to be unionable. Not needed."),
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
            "--names/--no-names", help="Whether column names count: as far as they agree with the cells."
        ),
    ] = True,
    time_budget: Annotated[
        float | None, typer.Option(min=0, help="Minutes that training the generator may take at most.")
    ] = None,
    bert: Annotated[
        str | None,
        typer.Option(help="Read columns with this BERT: a hub id, a folder, or minilm. With labels."),
    ] = None,
    t5: Annotated[
        str | None, typer.Option(help="Let this T5 read tables as text: a hub id or a folder. With labels.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch models that are not on this machine from the hub.")
    ] = False,
    softmax: Annotated[
        str | None,
        typer.Option(help="For ablations: what a code competes with, its siblings (children) or vocabulary."),
    ] = None,
    ship_generator: Annotated[
        bool, typer.Option("--ship-generator", help="For ablations: even if the prior alone wins.")
    ] = False,
    identifiers: Annotated[
        str, typer.Option(help="For ablations: semantic, ordinary, random, atomic or no-suffix.")
    ] = "semantic",
    codes: Annotated[
        int | None, typer.Option(min=2, max=256, help="Codewords a level (K). Default: by lake size.")
    ] = None,
    levels: Annotated[
        int | None, typer.Option(min=1, max=32, help="Codes an identifier (L). Default: by lake size.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Two builds with the same seed give the same identifiers.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that read tables. Default: one a core.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where tables are read and coded: local, or ray for a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster: HOST:PORT, or auto. Default: one on this machine.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Index a lake. Needs no labels; can be interrupted and run again."""
    from gentus.index.build import assisted, build, require_training
    from gentus.index.engine import EngineName
    from gentus.progress import terminal_progress
    from gentus.settings import Preset, Softmax, Variant, preset_settings

    started = time.perf_counter()
    if labels is not None:
        require_training()
    if assisted():  # the first of several processes builds, and speaks
        return
    usual = preset_settings(
        _one_of(preset or ("fast" if labels is None else "trained"), Preset, "preset"), seed, t5
    )
    settings = replace(
        usual,
        quantizer=replace(
            usual.quantizer,
            levels=levels or usual.quantizer.levels,
            codes=codes or usual.quantizer.codes,
        ),
        names=names,
        bert=bert or usual.bert,
        download=download,
        identifiers=_one_of(identifiers, Variant, "identifiers"),
    )
    if softmax is not None or ship_generator:
        if settings.generation is None:
            raise typer.BadParameter("there is no generator: give labels")
        chosen = _one_of(softmax or settings.generation.softmax, Softmax, "softmax")
        generation = replace(settings.generation, softmax=chosen, always=ship_generator)
        settings = replace(settings, generation=generation)
    try:
        built = build(
            lake,
            out,
            labels,
            settings=settings,
            workers=workers,
            engine=_one_of(engine, EngineName, "engine"),
            address=address,
            time_budget=None if time_budget is None else 60 * time_budget,
            progress=terminal_progress(),
        )
    except KeyboardInterrupt:
        say(
            "\nStopped. The tables read so far are kept; run the same command to go on: "
            f"gentus index {lake} -o {out}"
        )
        raise typer.Exit(130) from None
    seconds = time.perf_counter() - started
    info = built.info()
    say(
        f"{info['tables']:,} tables indexed in {seconds:.1f} s: "
        f"{info['levels']} codes of {info['codebook_size']}, {info['bytes_per_table']:.0f} bytes a table."
    )
    for line in _learnt(info):
        say(line)
    outside = info["labels"]["pairs_outside_the_lake"] if info["labels"] else 0
    if outside:
        say(f"{outside:,} labelled pairs name tables that are not in the lake; they were left out.")
    if info["skipped"]:
        say(f"{info['skipped']:,} skipped: see gentus info {out} --skipped")
    say(f"Search it: gentus search {out} YOUR_TABLE")
    if as_json:
        emit({**info, "seconds": round(seconds, 2)})


def _one_of(value: str, choices: Any, name: str) -> Any:
    """A value among those of a `Literal`, or a message that lists them."""
    if value not in get_args(choices):
        raise typer.BadParameter(f"{name} is one of {', '.join(get_args(choices))}, not {value}")
    return value


def _learnt(info: dict[str, Any]) -> Iterator[str]:
    """What labels and generator came to, for people."""
    if info["labels"]:
        held = len(info["labels"]["validation_queries"])
        yield f"{info['labels']['pairs']:,} labelled pairs; {held:,} queries held out to choose by."
    generator = info["generator"]
    if generator:
        figures = generator["held_out_map"]
        best = generator["chosen"]
        chosen = f"shipped: {best}" if generator["shipped"] else "the prior alone won and is what ranks"
        yield (
            f"Generator: {generator['epochs']} epochs in {generator['seconds'] / 60:.1f} min. MAP on "
            f"queries held out: prior alone {figures['prior alone']:.3f}, generator alone "
            f"{figures['generator alone']:.3f}, best {max(figures.values()):.3f}; {chosen}."
        )


@app.command()
def search(
    index: IndexPath,
    queries: Annotated[list[str], typer.Argument(metavar="QUERY", help="Tables to find unionable ones for.")],
    k: Count = 10,
    beam: Beam = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show which columns belong together, and the parts of each score."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the tables whose rows can be appended to yours, best first."""
    from gentus.lake import as_location

    places = [as_location(query) for query in queries]  # refuses URLs that must not be shown
    opened = open_index(index)
    answers: list[dict[str, Any]] = []
    failed = False
    for query, hits, milliseconds in _answered(opened, places, k, beam, explain):
        if isinstance(hits, str):
            failed = True
            say(f"{query}: {hits}")
            answers.append({"query": query, "error": hits, "results": []})
            continue
        answers.append(
            {"query": query, "ms": round(milliseconds, 2), "results": [hit.to_dict() for hit in hits]}
        )
        if not as_json:
            _show_hits(query, hits, milliseconds, explain)
    if as_json:
        emit(answers[0] if len(queries) == 1 else {"queries": answers})
    if failed:
        raise typer.Exit(1)


def _answered(
    opened: Index, places: list[Location], k: int, beam: int | None, explain: bool
) -> Iterator[tuple[str, list[Hit] | str, float]]:
    """Every query with its hits, or why it cannot be read, and how many milliseconds it took.

    Many are read in several processes; then it is the time since the answer before.
    """
    from gentus.index.engine import FEW
    from gentus.lake import Skipped, Unreadable

    started = time.perf_counter()
    if len(places) >= FEW and not explain:
        for query, found in opened.search_many(map(str, places), k, beam):
            now = time.perf_counter()
            yield query, found.reason if isinstance(found, Skipped) else found, (now - started) * 1000
            started = now
        return
    for place in places:
        started = time.perf_counter()
        try:
            hits: list[Hit] | str = opened.search(place, k=k, beam=beam, explain=explain)
        except Unreadable as error:
            hits = error.reason
        yield str(place), hits, (time.perf_counter() - started) * 1000


def _show_hits(query: str, hits: list[Hit], milliseconds: float, explain: bool = False) -> None:
    from rich.markup import escape

    from gentus.app.cli.align import console, show
    from gentus.identifiers.codebooks import short_sid

    grid = titled_grid(f"{escape(query)}  [dim]{len(hits)} tables in {milliseconds:.0f} ms[/dim]")
    grid.add_column("#", justify="right")
    grid.add_column("table", style="bold", overflow="fold")
    grid.add_column("score", justify="right")
    if explain:
        grid.add_column("prior", justify="right")
        grid.add_column("generator", justify="right")
    grid.add_column("identifier", style="dim", overflow="ellipsis", no_wrap=True)
    for hit in hits:
        prior = hit.score if hit.generator is None else hit.prior  # without a generator it is all there is
        parts = [_part(prior), _part(hit.generator)] if explain else []
        grid.add_row(str(hit.rank), escape(hit.table), f"{hit.score:.3f}", *parts, short_sid(hit.sid))
    page = console()
    page.print(grid)
    for hit in hits:
        if hit.alignment is not None:
            show(hit.alignment, page, hit.rank)


def _names_line(trust: float | None) -> str:
    return "not looked at" if trust is None else f"count {trust:.0%}: as far as they agree with the cells"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


@app.command()
def info(
    index: IndexPath,
    skipped: Annotated[bool, typer.Option("--skipped", help="List what could not be read, and why.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what an index is made of, how large it is and how healthy its identifiers are."""
    if skipped:
        from gentus.index.index import skipped as skipped_of

        left_out = [{"name": name, "reason": reason} for name, reason in skipped_of(index)]
        if as_json:
            emit({"skipped": left_out})
            return
        for entry in left_out:
            print(f"{entry['name']}: {entry['reason']}")
        say(f"{len(left_out):,} skipped")
        return
    facts = open_index(index).info()
    if as_json:
        emit(facts)
        return
    health = facts["codebook_statistics"]
    known = ", ".join(f"{count:,} {kind}" for kind, count in facts["vocabularies"].items())
    size = facts["bytes"]
    see = ": see --skipped" if facts["skipped"] else ""
    lines = {
        "lake": facts["lake"],
        "tables": f"{facts['tables']:,} ({facts['skipped']:,} skipped{see})",
        "identifiers": f"{facts['levels']} codes of {facts['codebook_size']}",
        "vocabulary": known,
        "column names": _names_line(facts["names"]),
        "column order": f"counts {facts['order']:.0%}: as far as like tables have it in common",
        "labels": f"{facts['labels']['pairs']:,} pairs" if facts["labels"] else "none (self-supervised)",
        "encoder": facts["encoder"],
        "generator": _generator_line(facts),
        "codes in use": " ".join(f"{used:.0%}" for used in health["used"]),
        "perplexity": " ".join(f"{p:.0f}" for p in health["perplexity"]),
        "collisions": f"{health['collision_rate']:.2%} of tables; largest bucket {health['largest_bucket']}",
        "quantization error": f"{health['error']:.4f} (squared, latents have length 1)",
        "since the fit": _drift_line(facts["drift"], health, str(index)),
        "search artifacts": f"{size['trie']:,} bytes, {facts['bytes_per_table']:.1f} a table",
        "model": f"{size['model']:,} bytes (learnt for this lake; it does not grow with it beyond a bound)",
        "catalogue, cache": f"{size['catalogue']:,} and {size['cache']:,} bytes (the cache may be deleted)",
    }
    for name, value in lines.items():
        print(f"{name:<20}{value}")


def _drift_line(drift: dict[str, Any], health: dict[str, Any], index: str) -> str:
    line = f"{drift['added']:,} tables came or changed, {drift['removed']:,} went or changed"
    if drift["added"]:
        line += (
            f"; of the new ones, quantization error {drift['error']:.4f}{_expected(drift, health)}, "
            f"{drift['collision_rate']:.1%} share their codes (largest bucket {drift['largest_bucket']})"
        )
    if drift["refit_advised"]:
        return f"{line}. A refit is advised: {'; '.join(drift['reasons'])}. Run: gentus refit {index}"
    return f"{line}. No refit is needed"


def _expected(drift: dict[str, Any], health: dict[str, Any]) -> str:
    if health.get("held_out_error") is None:
        return ""
    expected = f"{health['held_out_error']:.4f} expected"
    return f" ({expected}; {drift['beyond_usual']:.0%} beyond the usual, expected 5%)"


def _generator_line(facts: dict[str, Any]) -> str:
    generator = facts["generator"]
    if generator is None:
        return "none: the latent space ranks"
    figures = generator["held_out_map"]
    best = generator["chosen"]
    said = "MAP on the queries held out: " + ", ".join(
        f"{name} {figures[name]:.3f}" for name in dict.fromkeys(("prior alone", "generator alone", best))
    )
    if not generator["shipped"]:
        return f"trained, but the prior alone won and is what ranks ({said})"
    return f"{generator['parameters']:,} parameters, {facts['bytes']['generator']:,} bytes; {said}"


@app.command(name="eval")
def evaluate(
    index: IndexPath,
    groundtruth: Annotated[Path, typer.Option(help="CSV of query_table,candidate_table.")],
    queries: Annotated[
        Path | None, typer.Option(help="Folder of the query tables. Default: they are in the lake.")
    ] = None,
    k: Count = 10,
    beam: Beam = None,
    as_json: AsJson = False,
) -> None:
    """Score an index against ground truth, after checking the ground truth against the lake."""
    from gentus.index.evaluate import evaluate_index

    opened = open_index(index)
    report = evaluate_index(opened, groundtruth, k, queries, beam)
    if not report.check.ok:
        say(report.check.summary())
    for query, reason in report.unreadable.items():
        say(f"{query}: {reason}; it counts as not answered")
    if as_json:
        emit(report.to_dict())
        return
    for name, value in report.metrics.to_dict().items():
        print(f"{name:<12}{value:.4f}" if isinstance(value, float) else f"{name:<12}{value}")


@app.command()
def records(
    index: IndexPath,
    labels: Annotated[
        Path | None,
        typer.Option(help="CSV of query_table,candidate_table. Default: what the index was built with."),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="How many records to show.")] = 5,
    kind: Annotated[
        str | None, typer.Option(help="Show only these: positive, indexing or ranking. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same records.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Look at the training records that an index and its labels give."""
    from gentus.index.inspect_records import inspect

    document = inspect(open_index(index), labels, show, kind, seed)
    outside = document["pairs_outside_the_lake"]
    if outside:
        say(f"{outside:,} labelled pairs name tables that are not in the index; they were left out.")
    if as_json:
        emit(document)
        return
    print(", ".join(f"{count:,} {name}" for name, count in document["records"].items()), "records")
    for record in document["shown"]:
        _show_record(record)


def _show_record(record: dict[str, Any]) -> None:
    seen, target, negative = record["input"], record["target"], record.get("negative")
    print(f"\n{record['kind']}\n  input     {seen['table']}", end="")
    if "error" in seen:
        print(f": {seen['error']}")
    else:
        (rows, all_rows), (columns, all_columns) = seen["rows"], seen["columns"]
        print(f"  ({rows} of {all_rows} rows, {columns} of {all_columns} columns)")
        for name, values in seen["values"].items():
            print(f"            {name}: {' | '.join(values)}")
    print(f"  target    {target['table']}  {target['sid']}")
    if negative:
        print(f"  negative  {negative['table']}  {negative['sid']}  (Jaccard {negative['jaccard']:.2f})")


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--dir", help="Where the demo's lake and index go.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Make a small lake of real tables, index it and search it, in a minute."""
    from rich.console import Console

    from gentus.app.demo import run

    facts = run(folder, console=None if as_json else Console())
    if as_json:
        emit(facts)


def version_text() -> str:
    """The version as `gentus --version` prints it."""
    return f"gentus {__version__}"


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(version_text())
        raise typer.Exit


def main() -> None:
    """Run the command line; every expected failure is one clear sentence and exit code 1."""
    # Our own threads do what is worth several; BLAS's would only wait for each other. Before NumPy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    guarded(lambda: app(prog_name="gentus"))


def guarded(command: Callable[[], Any]) -> None:
    """Run a command, turning failures a user can mend into a message instead of a traceback."""
    from gentus.index.folder import IndexFolderError
    from gentus.lake import Unreadable
    from gentus.scratch import NoRoomError
    from gentus.weights import WeightsMissingError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that it cannot write must not end the program
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            command()
        finally:
            _say_the_rest()
    except KeyboardInterrupt:
        say("Stopped.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except OSError as error:
        known = error.strerror and error.filename
        say(f"Error: {error.filename}: {error.strerror}" if known else f"Error: {error}")
        raise SystemExit(1) from None
    except (
        IndexFolderError,
        NoRoomError,
        WeightsMissingError,
        Unreadable,
        ValueError,
        ModuleNotFoundError,
    ) as error:
        say(f"Error: {error}")
        raise SystemExit(1) from None
    except sqlite3.Error as error:
        say(f"Error: the catalogue of the index could not be read or written: {error}")
        raise SystemExit(1) from None


def _say_the_rest() -> None:
    """Flush; if nobody listens any more, no later flush tries again and complains as the program ends."""
    try:
        if sys.__stdout__ is not None:  # itself: Typer wraps it once it has met a closed pipe
            sys.__stdout__.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
