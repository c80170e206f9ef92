"""`gentus info` and `gentus eval`: the facts of an index, and its quality against ground truth."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from gentus.app.cli.common import AsJson, Beam, Count, IndexPath, ResultOrder, emit, open_index, say
from gentus.shell import command


def info(
    index: IndexPath,
    skipped: Annotated[bool, typer.Option("--skipped", help="List unreadable files, and why.")] = False,
    headers: Annotated[
        bool, typer.Option("--headers", help="List tables whose first row looks like data, and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the contents and size of an index, its codebook statistics and its drift since the fit."""
    if skipped:
        _list_skipped(index, as_json)
        return
    if headers:
        _list_headers(index, as_json)
        return
    facts = open_index(index).info()
    if as_json:
        emit(facts)
        return
    for name, value in _lines(facts, index).items():
        print(f"{name:<20}{value}")


def _list_skipped(index: Path, as_json: bool) -> None:
    from gentus.index.info import skipped

    _list_reasons("skipped", skipped(index), "skipped", as_json)


def _list_headers(index: Path, as_json: bool) -> None:
    with open_index(index) as opened:
        _list_reasons("headers", opened.doubtful(), "headers that look like data", as_json)


def _list_reasons(key: str, found: Iterable[tuple[str, str]], what: str, as_json: bool) -> None:
    """Tables, each with a reason."""
    entries = [{"name": name, "reason": reason} for name, reason in found]
    if as_json:
        emit({key: entries})
        return
    for entry in entries:
        print(f"{entry['name']}: {entry['reason']}")
    say(f"{len(entries):,} {what}")


def _lines(facts: dict[str, Any], index: Path) -> dict[str, str]:
    statistics, size = facts["codebook_statistics"], facts["bytes"]
    see = ": see --skipped" if facts["skipped"] else ""
    names = facts["names"]
    return {
        "lake": facts["lake"],
        "tables": f"{facts['tables']:,} ({facts['skipped']:,} skipped{see})",
        "headers": f"{facts['doubtful_headers']:,} look like data"
        + (": see --headers" if facts["doubtful_headers"] else ""),
        "identifiers": f"{facts['levels']} codes of {facts['codebook_size']}",
        "vocabulary": ", ".join(f"{count:,} {kind}" for kind, count in facts["vocabularies"].items()),
        "column names": "not used" if names is None else f"weight {names:.0%}, by agreement with the cells",
        "column order": _order_line(facts),
        "labels": f"{facts['labels']['pairs']:,} pairs" if facts["labels"] else "none (self-supervised)",
        "encoder": facts["encoder"],
        "generator": _generator_line(facts),
        "codes in use": " ".join(f"{used:.0%}" for used in statistics["used"]),
        "perplexity": " ".join(f"{p:.0f}" for p in statistics["perplexity"]),
        "collisions": f"{statistics['collision_rate']:.2%} of tables; "
        f"largest bucket {statistics['largest_bucket']}",
        "quantization error": f"{statistics['error']:.4f} (squared; latents have length 1)",
        "since the fit": _drift_line(facts["drift"], statistics, index),
        "search artifacts": f"{size['trie']:,} bytes, {facts['bytes_per_table']:.1f} per table",
        "column signatures": f"{size['signatures']:,} bytes, {facts['signature_bytes_per_column']:.1f} per "
        f"column with its name ({facts['columns']:,} columns; in the catalogue)",
        "model": f"{size['model']:,} bytes (learnt from this lake; bounded, however large the lake is)",
        "catalogue, cache": f"{size['catalogue']:,} and {size['cache']:,} bytes (the cache may be deleted)",
    }


def _order_line(facts: dict[str, Any]) -> str:
    if facts["labels"]:
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
    figures, best = generator["validation_map"], generator["chosen"]
    quality = "MAP on validation queries: " + ", ".join(
        f"{name} {figures[name]:.3f}" for name in dict.fromkeys(("prior alone", "generator alone", best))
    )
    if not generator["shipped"]:
        return f"trained, but the prior alone is better and ranks ({quality})"
    return f"{generator['parameters']:,} parameters, {facts['bytes']['generator']:,} bytes; {quality}"


def evaluate(
    index: IndexPath,
    groundtruth: Annotated[Path, typer.Option(help="CSV of query_table,candidate_table.")],
    queries: Annotated[
        Path | None, typer.Option(help="Folder of the query tables. Default: the lake.")
    ] = None,
    k: Count = 10,
    order: ResultOrder = None,
    beam: Beam = None,
    as_json: AsJson = False,
) -> None:
    """Score an index against ground truth, after checking the ground truth against the lake."""
    from gentus.index.evaluate import evaluate_index

    opened = open_index(index)
    report = evaluate_index(opened, groundtruth, k, queries, order=order, beam=beam)
    if not report.check.ok:
        say(report.check.summary())
    for query, reason in report.unreadable.items():
        say(f"{query}: {reason}; it counts as a query without results")
    if as_json:
        emit(report.to_dict())
        return
    for name, value in report.metrics.to_dict().items():
        print(f"{name:<12}{value:.4f}" if isinstance(value, float) else f"{name:<12}{value}")
