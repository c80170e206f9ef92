"""`gentus info` and `gentus eval`: the facts of an index, and its quality against ground truth."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from gentus.app.cli.common import (
    TABLES,
    AsJson,
    Beam,
    Count,
    IndexPath,
    Quiet,
    ResultOrder,
    emit,
    index_parts,
    open_index,
    other_kinds,
    say,
    size_words,
)
from gentus.shell import command, quoted
from gentus.terminal import write_line


def info(
    index: IndexPath,
    skipped: Annotated[
        bool, typer.Option("--skipped", rich_help_panel=TABLES, help="List unreadable files, and why.")
    ] = False,
    headers: Annotated[
        bool,
        typer.Option(
            "--headers",
            rich_help_panel=TABLES,
            help="List tables whose first row looks like data, and why.",
        ),
    ] = False,
    reading: Annotated[
        bool,
        typer.Option(
            "--reading",
            rich_help_panel=TABLES,
            help="List tables of which lines were left out, headers joined, encodings guessed or files taken"
            " together.",
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the contents and size of an index, its codebook statistics and its drift since the fit.

    Examples:
        gentus info my.index
        gentus info my.index --skipped   # which files could not be read, and why
    """
    if skipped:
        _list_skipped(index, as_json)
        return
    if headers:
        _list_headers(index, as_json)
        return
    if reading:
        _list_reading(index, as_json)
        return
    facts = open_index(index).info()
    if as_json:
        emit(facts)
        return
    for name, value in _lines(facts, index).items():
        write_line(f"{name:<20}{value}")


def _list_skipped(index: Path, as_json: bool) -> None:
    from gentus.index.info import skipped

    _list_reasons("skipped", skipped(index), "skipped", as_json)


def _list_headers(index: Path, as_json: bool) -> None:
    with open_index(index) as opened:
        _list_reasons("headers", opened.doubtful(), "first rows that look like data", as_json)


def _list_reading(index: Path, as_json: bool) -> None:
    with open_index(index) as opened:
        _list_reasons("reading", opened.unusual(), "not read in the usual way", as_json)


def _list_reasons(key: str, found: Iterable[tuple[str, str]], what: str, as_json: bool) -> None:
    """Tables, each with a reason."""
    entries = [{"name": name, "reason": reason} for name, reason in found]
    if as_json:
        emit({key: entries})
        return
    for entry in entries:
        write_line(f"{entry['name']}: {entry['reason']}")
    say(f"{len(entries):,} {what}")


def _lines(facts: dict[str, Any], index: Path) -> dict[str, str]:
    statistics = facts["codebook_statistics"]
    see = ": see --skipped" if facts["skipped"] else ""
    names = facts["names"]
    return {
        "lake": facts["lake"],
        "tables": f"{facts['tables']:,} ({facts['skipped']:,} skipped{see})",
        **_size_lines(facts),
        **({"excluded": _excluded_line(facts)} if facts["excluded"] or facts["exclude"] else {}),
        **({"left out": other_kinds(facts["others"])} if facts["others"] else {}),
        "headers": f"{facts['doubtful_headers']:,} look like data"
        + (": see --headers" if facts["doubtful_headers"] else ""),
        **(
            {"reading": f"{facts['unusual']:,} not in the usual way: see --reading"}
            if facts["unusual"]
            else {}
        ),
        "identifiers": f"{facts['levels']} codes of {facts['codebook_size']}",
        "vocabulary": ", ".join(f"{count:,} {kind}" for kind, count in facts["vocabularies"].items()),
        "column names": "not used" if names is None else f"weight {names:.0%}, by agreement with the cells",
        "column order": _order_line(facts),
        "labels": f"{facts['labels']['pairs']:,} pairs" if facts["labels"] else "none (self-supervised)",
        "ranking": _ranking_line(facts),
        "encoder": facts["encoder"],
        "generator": _generator_line(facts),
        "codes in use": " ".join(f"{used:.0%}" for used in statistics["used"]),
        "perplexity": " ".join(f"{p:.0f}" for p in statistics["perplexity"]),
        "collisions": f"{statistics['collision_rate']:.2%} of tables; "
        f"largest bucket {statistics['largest_bucket']}",
        "quantization error": f"{statistics['error']:.4f} (squared; latents have length 1)",
        "since the fit": _drift_line(facts["drift"], statistics, index),
    }


def _size_lines(facts: dict[str, Any]) -> dict[str, str]:
    """The size of the index on disk, then of its parts."""
    signatures = (
        f"{size_words(facts['bytes']['signatures'])} of it column signatures, "
        f"{facts['signature_bytes_per_column']:.0f} bytes per column with its name"
    )
    notes = {
        "catalogue": signatures,
        "cache": "may be deleted",
        "model": "learnt from this lake; bounded, however large the lake is",
        "prefix tree": f"{facts['bytes_per_table']:.1f} bytes per table",
    }
    parts = {
        f"  {name}": size_words(count) + (f" ({notes[name]})" if name in notes else "")
        for name, count in index_parts(facts).items()
    }
    return {"size on disk": size_words(facts["bytes"]["total"]), **parts}


def _excluded_line(facts: dict[str, Any]) -> str:
    """How much of the lake is left out, and by which patterns."""
    by = " ".join(f"--exclude {quoted(pattern)}" for pattern in facts["exclude"])
    return f"{facts['excluded']:,} files or folders, by {f'{by} or ' if by else ''}.gentusignore"


def _ranking_line(facts: dict[str, Any]) -> str:
    ranking = facts["labels"] and facts["labels"]["ranking"]
    if not ranking:
        return "not learnt"
    if not facts["labels"]["validation_queries"]:
        return f"{ranking['chosen']} (too few labelled queries to learn and validate another)"
    figures = ", ".join(f"{name} {figure:.3f}" for name, figure in facts["labels"]["validation_map"].items())
    return f"{ranking['chosen']} (MAP on validation queries: {figures})"


def _order_line(facts: dict[str, Any]) -> str:
    if facts["encoder"] != "closed form":
        return "learnt from labels" if facts["order"] else "not used"
    return f"weight {facts['order']:.0%}, by agreement between similar tables"


def _drift_line(drift: dict[str, Any], statistics: dict[str, Any], index: Path) -> str:
    line = f"{drift['added']:,} tables added or changed, {drift['removed']:,} removed or changed"
    if drift["added"]:
        line += (
            f"; of the new ones, quantization error {drift['error']:.4f}{_expected(drift, statistics)}, "
            f"{drift['collision_rate']:.1%} share their codes (largest bucket {drift['largest_bucket']})"
        )
    if drift["refit_advised"]:
        return f"{line}. A refit is advised: {'; '.join(drift['reasons'])}. Run: {command('refit', index)}"
    return f"{line}. No refit is needed"


def _expected(drift: dict[str, Any], statistics: dict[str, Any]) -> str:
    if statistics.get("held_out_error") is None:
        return ""
    expected = f"{statistics['held_out_error']:.4f} expected"
    return f" ({expected}; {drift['beyond_usual']:.0%} above the usual range, expected 5%)"


def _generator_line(facts: dict[str, Any]) -> str:
    generator = facts["generator"]
    if generator is None:
        return "none: tables are ranked in the latent space"
    quality = ", ".join(f"{name} {figure:.3f}" for name, figure in generator["validation_map"].items())
    return f"{generator['parameters']:,} parameters; MAP on held-out queries: {quality}"


def evaluate(
    index: IndexPath,
    groundtruth: Annotated[
        Path, typer.Option(metavar="CSV", help="Pairs query_table,candidate_table that are unionable.")
    ],
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=TABLES,
            help="The folder of the query tables. Default: the lake.",
        ),
    ] = None,
    k: Count = 10,
    order: ResultOrder = None,
    beam: Beam = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--write-run", metavar="FILE", help="Write every ranking: a TREC run, or CSV if it ends in .csv."
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score an index against ground truth, after checking the ground truth against the lake.

    Examples:
        gentus eval my.index --groundtruth pairs.csv -k 10
        gentus eval my.index --groundtruth pairs.csv --queries queries/ --json
        gentus eval my.index --groundtruth pairs.csv --write-run my.run
    """
    from gentus.index.evaluate import evaluate_index
    from gentus.runs import write_run

    opened = open_index(index)
    report = evaluate_index(opened, groundtruth, k, queries, order=order, beam=beam)
    if not report.check.ok:
        say(report.check.summary())
    for query, reason in report.unreadable.items():
        say(f"{query}: {reason}; it counts as a query without results")
    if run is not None:
        write_run(run, report.rankings)
    if as_json:
        emit(report.to_dict())
        return
    for name, value in report.metrics.to_dict().items():
        write_line(f"{name:<12}{value:.4f}" if isinstance(value, float) else f"{name:<12}{value}")
