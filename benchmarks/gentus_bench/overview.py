"""What the documents of the main comparison say together: a table a lake, and one of all lakes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gentus.metrics import score
from gentus_bench.benchmarks import Benchmark
from gentus_bench.plots import is_ours
from gentus_bench.published import rows_for
from gentus_bench.results import markdown_table

Row = Mapping[str, Any]
Lakes = Mapping[str, Sequence[Row]]  # the rows of `summary` by lake

QUALITY = ("map", "map_full", "map_prefix", "precision", "recall")
RANKED = ("map", "precision", "recall")  # what the paper's average rank is over
_MEANS = (*QUALITY, "ms_p50", "ms_p95", "read_ms_p50")
_FACTS = ("fit_seconds", "offline_seconds", "build_seconds", "bytes_per_table", "peak_mb", "serving_mb")
PLAIN, TRAINED = "GenTUS", "GenTUS, labels"


def summary(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One row a method: means over seeds, and the standard deviation of MAP."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["what"]["method"], []).append(row)
    return [_over_seeds(method, group) for method, group in grouped.items()]


def _over_seeds(method: str, rows: Sequence[Row]) -> dict[str, Any]:
    good = [row for row in rows if "error" not in row]
    told: dict[str, Any] = {"method": method, "title": rows[0]["title"], "seeds": len(good)}
    if not good:
        return {**told, "error": rows[0]["error"]}
    for key in (*_MEANS, *_FACTS):
        values = [row[key] for row in good if row.get(key) is not None]
        told[key] = float(np.mean(values)) if values else None
    told["map_std"] = float(np.std([row["map"] for row in good], ddof=1)) if len(good) > 1 else None
    return told


def average_ranks(lakes: Lakes, metrics: Sequence[str] = ("map",)) -> dict[str, float]:
    """The mean place of each method over lakes that all of them were measured on; equals share a place."""
    if not lakes:
        return {}
    everywhere = set.intersection(
        *({row["title"] for row in rows if row.get(metrics[0]) is not None} for rows in lakes.values())
    )
    places: dict[str, list[float]] = {title: [] for title in everywhere}
    for rows in lakes.values():
        for metric in metrics:
            values = {row["title"]: row[metric] for row in rows if row["title"] in everywhere}
            for title, value in values.items():
                better = sum(other > value for other in values.values())
                equal = sum(other == value for other in values.values())
                places[title].append(better + (equal + 1) / 2)
    return dict(sorted(((t, float(np.mean(p))) for t, p in places.items()), key=lambda item: item[1]))


def curves(row: Row, truth: Mapping[str, Sequence[str]], ks: Sequence[int]) -> dict[str, list[float]]:
    """Precision and recall of a document at several k."""
    scored = [score(row["rankings"], truth, k) for k in ks]
    return {"precision": [one.precision for one in scored], "recall": [one.recall for one in scored]}


# --- all lakes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overview:
    """Every system on every lake, with one kind of GenTUS among them."""

    title: str
    ours: str  # the title of GenTUS in it
    lakes: dict[str, list[dict[str, Any]]]  # rows by lake, the other kind of GenTUS left out
    unlabelled: frozenset[str] = frozenset()  # lakes without labels, where GenTUS is the label-free one

    @property
    def ranked(self) -> dict[str, list[dict[str, Any]]]:
        """The lakes that count for average ranks: those that GenTUS was measured on."""
        return {
            name: rows
            for name, rows in self.lakes.items()
            if any(row["title"] == self.ours and row.get("map") is not None for row in rows)
        }

    def ranks(self, metrics: Sequence[str] = ("map",)) -> dict[str, float]:
        """Average ranks over these lakes."""
        return average_ranks(self.ranked, metrics)

    def not_ranked(self) -> list[str]:
        """Systems that were measured on some of these lakes only, and so have no average rank."""
        ranks = self.ranks()
        seen = dict.fromkeys(row["title"] for rows in self.ranked.values() for row in rows)
        return [title for title in seen if title not in ranks]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, the best average rank first; of systems without one, the best MAP."""
        by_map, by_all = self.ranks(), self.ranks(RANKED)
        values = {
            name: {row["title"]: row["map"] for row in rows if row.get("map") is not None}
            for name, rows in self.lakes.items()
        }
        titles = dict.fromkeys(title for found in values.values() for title in found)

        def place(title: str) -> tuple[float, float]:
            mine = [found[title] for found in values.values() if title in found]
            return by_map.get(title, np.inf), -float(np.mean(mine))

        header = ["system", *self.lakes, "average rank by MAP", "by MAP, P and R"]
        lines = []
        for title in sorted(titles, key=place):
            cells = [title]
            for name, found in values.items():
                cell = f"{found[title]:.3f}" if title in found else ""
                bare = title == self.ours and name in self.unlabelled and cell
                cells.append(f"{cell} (no labels)" if bare else cell)
            cells += [f"{ranks[title]:.2f}" if title in ranks else "" for ranks in (by_map, by_all)]
            lines.append(cells)
        return header, lines

    @property
    def best(self) -> dict[int, bool]:
        """Columns whose best is marked, and whether that is the highest."""
        count = len(self.lakes)
        return dict.fromkeys(range(1, count + 1), True) | {count + 1: False, count + 2: False}


def overviews(lakes: Lakes, labelled: Iterable[str] = ()) -> list[Overview]:
    """The table without labels, and the same with GenTUS trained on labels, where it was.

    On a lake that has no labels, the second one takes GenTUS without them. Where there are labels and
    nothing was trained on them, the place stays empty.
    """
    plain = {name: [dict(row) for row in rows if row["title"] != TRAINED] for name, rows in lakes.items()}
    found = [Overview("No system uses labels", PLAIN, plain)]
    if not any(row["title"] == TRAINED for rows in lakes.values() for row in rows):
        return found
    known = set(labelled)
    bare = frozenset(name for name in lakes if name not in known and not _has(lakes[name], TRAINED))
    trained = {
        name: [
            {**row, "title": TRAINED if name in bare and row["title"] == PLAIN else row["title"]}
            for row in rows
            if row["title"] != PLAIN or name in bare
        ]
        for name, rows in lakes.items()
    }
    title = "GenTUS is trained on labels of other queries, the other systems use none"
    return [*found, Overview(title, TRAINED, trained, bare)]


def _has(rows: Sequence[Row], title: str) -> bool:
    return any(row["title"] == title for row in rows)


def markdown(found: Sequence[Overview], ks: Mapping[str, int]) -> str:
    """The tables of all lakes, best of a column in bold."""
    lines = [f"MAP@k on each lake ({', '.join(f'{name}: k = {k}' for name, k in ks.items())})."]
    for one in found:
        header, rows = one.table()
        marks = {
            (at, column) for column, highest in one.best.items() for at in best_rows(rows, column, highest)
        }
        marked = [
            [f"**{cell}**" if (at, column) in marks else cell for column, cell in enumerate(row)]
            for at, row in enumerate(rows)
        ]
        lines += ["", f"{one.title}:", "", markdown_table(header, marked), "", counted(one)]
    return "\n".join(lines)


def counted(one: Overview) -> str:
    """Over what the average ranks of a table are."""
    if not one.ranked:
        return f"No average rank: {one.ours} was measured on none of these lakes."
    text = f"Average ranks are over {', '.join(one.ranked)}"
    if left := one.not_ranked():
        text += f", among the systems measured on all of these (not so: {', '.join(left)})"
    return text + "."


def filled(header: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """A table without the columns that nothing is known for."""
    kept = [at for at in range(len(header)) if at == 0 or any(row[at] for row in rows)]
    return [header[at] for at in kept], [[row[at] for at in kept] for row in rows]


def best_rows(rows: Sequence[Sequence[str]], column: int, highest: bool) -> list[int]:
    """The measured rows with the best value of a column, as it is shown."""
    values: dict[int, float] = {}
    for at, row in enumerate(rows):
        shown = row[column].split(" ")[0].replace(",", "") if "published" not in row[0] else ""
        try:
            values[at] = float(shown)
        except ValueError:
            continue
    wanted = (max if highest else min)(values.values(), default=0.0)
    return [at for at, value in values.items() if value == wanted]


# --- one lake ------------------------------------------------------------------------------------------


def lake_table(k: int, name: str, rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a lake: quality and costs, best MAP first, and published figures for the same k."""
    header = ["system", f"MAP@{k}", "MAP full", "MAP prefix", f"P@{k}", f"R@{k}"]
    header += [head for head, *_ in _COSTS]
    lines = [list(_cells(row)) for row in sorted(summary(rows), key=lambda row: -(row.get("map") or 0))]
    for row in rows_for(name):
        if row["k"] == k:
            figures = ["" if row.get(key) is None else f"{row[key]:.3f}" for key in QUALITY]
            lines.append([f"{row['method']} (published)", *figures, *[""] * len(_COSTS)])
    return filled(header, lines)


_COSTS = (
    ("ms p50", "ms_p50", 1),
    ("ms p95", "ms_p95", 1),
    ("fit s", "fit_seconds", 1),
    ("bytes a table", "bytes_per_table", 0),
    ("serving MB", "serving_mb", 1),
)


def lake_markdown(benchmark: Benchmark, tables: int, groundtruth: str, rows: Iterable[Row]) -> str:
    """The table of one lake."""
    header, lines = lake_table(benchmark.k, benchmark.name, rows)
    return "\n".join(
        [
            f"{benchmark.name}: {tables:,} tables, {len(benchmark.truth):,} queries, k = {benchmark.k}. "
            + groundtruth,
            "",
            markdown_table(header, [[cell.replace("|", "/") for cell in line] for line in lines]),
        ]
    )


def _cells(row: Row) -> Iterator[str]:
    if "error" in row:
        yield f"{row['title']} (failed: {row['error'].splitlines()[0][:80]})"
        yield from [""] * (len(QUALITY) + len(_COSTS))
        return
    yield row["title"]
    spread = f" ± {row['map_std']:.3f}" if row["map_std"] is not None else ""
    yield f"{row['map']:.3f}{spread}"
    for key in QUALITY[1:]:
        yield f"{row[key]:.3f}"
    for _, key, digits in _COSTS:
        yield "" if row[key] is None else f"{row[key]:,.{digits}f}"


def ours_of(rows: Sequence[Row]) -> list[Row]:
    """The rows of GenTUS that have figures, without labels first."""
    found = [row for row in rows if is_ours(row["title"]) and row.get("map") is not None]
    return sorted(found, key=lambda row: len(row["title"]))
