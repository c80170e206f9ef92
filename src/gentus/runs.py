"""Rankings as files: a TREC run, or CSV where the name ends in `.csv`.

A line of a TREC run is `query Q0 table rank score system`, with `%` and white space in names as in URLs. The
score is 1 / rank: trec_eval orders by it, and scores of a search are no order.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from gentus.files import write_file

HEADER = ("query_table", "candidate_table", "rank")


def write_run(
    path: str | os.PathLike[str], rankings: Mapping[str, Sequence[str]], system: str = "gentus"
) -> None:
    """Write the tables of every query, best first."""
    ranked = [(query, table, at) for query, found in rankings.items() for at, table in enumerate(found, 1)]
    text = io.StringIO()
    if Path(path).suffix.lower() == ".csv":
        csv.writer(text, lineterminator="\n").writerows([HEADER, *ranked])
    else:
        for query, table, at in ranked:
            text.write(f"{_word(query)} Q0 {_word(table)} {at} {1 / at:.6f} {_word(system)}\n")
    write_file(Path(path), text.getvalue().encode())


def read_run(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """The tables of every query, by rank."""
    found: dict[str, list[tuple[float, str]]] = {}
    as_csv = Path(path).suffix.lower() == ".csv"
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines: Iterable[list[str]] = csv.reader(file) if as_csv else map(str.split, file)
        for number, line in enumerate(lines, 1):
            if as_csv and tuple(line[:3]) == HEADER:
                continue
            try:
                query, table, rank = line[:3] if as_csv else (unquote(line[0]), unquote(line[2]), line[3])
                found.setdefault(query, []).append((float(rank), table))
            except (ValueError, IndexError) as error:
                raise ValueError(f"{path}, line {number}: it is no line of a run ({error})") from error
    by_rank = {query: sorted(ranked, key=lambda one: one[0]) for query, ranked in found.items()}
    return {query: [table for _, table in ranked] for query, ranked in by_rank.items()}


def _word(name: str) -> str:
    return re.sub(r"[%\s]", lambda found: quote(found[0]), name)
