"""A labelled lake cut from given tables, as the TUS benchmark was: by projections and selections.

Every base table is cut into slices of some rows and some columns. Two slices of one table that share at least
two columns can be appended to one another, and which columns belong together is known too. Distractors
share at most one column with any base table. The same seed and the same tables give the same bytes.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice, permutations
from pathlib import Path
from typing import Any

from gentus.lake import Skipped, Source, Unreadable, scan
from gentus.metrics import HEADER
from gentus.progress import Progress
from gentus_bench.lakes.base_tables import BaseTable, read_whole
from gentus_bench.lakes.slicing import (
    SHARED,
    Cut,
    LakeOptions,
    check_size,
    distractor,
    random_of,
    slices_of,
    thinned,
)

FILES = ("groundtruth.csv", "groundtruth_train.csv", "groundtruth_dev.csv", "columns.csv", "lake.json")
_POOL = 64  # base tables whose columns distractors are assembled from, the latest ones


def make_lake(
    base: Path,
    out: Path,
    options: LakeOptions | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Cut the tables of a file or folder into a lake in `out`, and return what `lake.json` says.

    It holds `datalake/`, `groundtruth.csv`, the same pairs split by base table in `groundtruth_train.csv` and
    `groundtruth_dev.csv`, and `columns.csv` with the base column of each column, positions from 0.
    """
    options = options or LakeOptions()
    _check_place(base, out, force)
    found = list(scan(base))
    if not found:
        raise ValueError(f"there are no tables in {base}")
    skipped = {item.name: item.reason for item in found if isinstance(item, Skipped)}
    facts = {"base_tables": 0, "tables": 0, "distractors": 0, "queries": 0, "pairs": 0}
    out.mkdir(parents=True, exist_ok=True)
    # Made beside its place and moved there when it is complete: no half a lake is ever left behind.
    with tempfile.TemporaryDirectory(prefix=".make-lake-", dir=out) as scratch:
        work = Path(scratch)
        with (
            _Writer(work, facts) as writer,
            (progress or Progress()).stage("Cutting", len(found), "base tables") as tick,
        ):
            pool: list[BaseTable] = []
            alike: dict[tuple[str, ...], list[str]] = {}  # base tables by their columns
            for item in found:
                if isinstance(item, Source) and (table := _read(item, options, skipped)) is not None:
                    writer.group(table.name, list(slices_of(table, options)))
                    pool = [*pool, thinned(table, options)][-_POOL:]
                    for number in range(options.distractors):
                        writer.distractor(distractor(table, pool, number, options))
                    alike.setdefault(tuple(sorted(table.header)), []).append(table.name)
                    facts["base_tables"] += 1
                tick(1)
        _split(work, writer.base_of, options)
        if not facts["base_tables"]:
            some = "; ".join(f"{name}: {reason}" for name, reason in list(skipped.items())[:3])
            raise ValueError(f"no table of {base} can be cut ({some})")
        # Base tables that could be unioned themselves: the ground truth says no.
        same = [names for names in alike.values() if len(names) > 1]
        document = {**facts, "shared_columns": SHARED, "options": asdict(options)}
        document |= {"skipped": skipped, "same_columns": same}
        (work / "lake.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(out / "datalake", ignore_errors=True)
        for name in ("datalake", *FILES):
            os.replace(work / name, out / name)
    return document


def _read(source: Source, options: LakeOptions, skipped: dict[str, str]) -> BaseTable | None:
    """A table that can be cut; else why it cannot goes to `skipped`."""
    try:
        table = read_whole(source, options.most_rows)
        check_size(table, options)
    except Unreadable as error:
        skipped[source.name] = error.reason
        return None
    return table


def _check_place(base: Path, out: Path, force: bool) -> None:
    if not base.exists():
        raise FileNotFoundError(f"there is no {base}")
    if base.is_dir() and out.resolve().is_relative_to(base.resolve()):
        raise ValueError(
            f"{out} is inside of {base}, and would be cut itself next time; choose another place"
        )
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not force:
        raise FileExistsError(f"{out} is not empty; --force replaces a lake that was made before")
    there = [name for name in ("datalake", *FILES) if (out / name).exists()]
    if there and "lake.json" not in there:
        raise FileExistsError(f"{out / there[0]} was not made by make-lake, so it is not replaced")


def _split(folder: Path, base_of: Mapping[str, str], options: LakeOptions) -> None:
    """Share the pairs out by base table; with two base tables or more, both files get some."""
    bases = sorted(set(base_of.values()))
    count = round(options.dev * len(bases))
    if 0 < options.dev < 1 and len(bases) > 1:
        count = min(max(count, 1), len(bases) - 1)
    dev = set(random_of(options, "split").sample(bases, count))
    with ExitStack() as stack:
        pairs, train, held = (
            stack.enter_context((folder / name).open(mode, encoding="utf-8", newline=""))
            for name, mode in zip(FILES, ("r", "w", "w"), strict=False)
        )
        for file in (train, held):
            csv.writer(file, lineterminator="\n").writerow(HEADER)
        for line in islice(pairs, 1, None):
            (held if base_of[line.partition(",")[0]] in dev else train).write(line)


class _Writer:
    """Writes tables as they are cut, so that one base table at a time is in memory."""

    def __init__(self, folder: Path, facts: dict[str, int]) -> None:
        self.folder, self.facts, self.stack = folder, facts, ExitStack()
        self.base_of: dict[str, str] = {}  # of the slices

    def __enter__(self) -> _Writer:
        (self.folder / "datalake").mkdir()
        self.pairs = self._open("groundtruth.csv", HEADER)
        self.columns = self._open("columns.csv", ("table", "position", "base_table", "base_column"))
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def group(self, base: str, cuts: Sequence[Cut]) -> None:
        pairs = [
            (one.name, other.name)
            for one, other in permutations(cuts, 2)
            if len(set(one.origins) & set(other.origins)) >= SHARED
        ]
        for cut in cuts:
            self._table(cut)
            self.base_of[cut.name] = base
        self.pairs.writerows(pairs)
        self.facts["pairs"] += len(pairs)
        self.facts["queries"] += len({query for query, _ in pairs})

    def distractor(self, cut: Cut) -> None:
        self._table(cut)
        self.facts["distractors"] += 1

    def _table(self, cut: Cut) -> None:
        path = self.folder / "datalake" / cut.name
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(cut.header)
            writer.writerows(zip(*cut.columns, strict=True))
        self.columns.writerows((cut.name, at, *origin) for at, origin in enumerate(cut.origins))
        self.facts["tables"] += 1

    def _open(self, name: str, header: Iterable[str]) -> Any:
        file = self.stack.enter_context((self.folder / name).open("w", newline="", encoding="utf-8"))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        return writer
