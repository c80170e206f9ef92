"""The lake of the demo: slices of real tables.

Tables that Python packages ship as examples are sliced like open data in the TUS benchmark: every table of
the lake is some rows and some columns of a source. So the ground truth is known without labels. Only the data
files of the packages are read; none of them is imported.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gentus.extras import install_extra

SLICES = 10  # tables per source
QUERY_ROWS = 20
QUERY_COLUMNS = ["Title", "Year", "Director", "Genre", "Country", "Runtime"]
FOLDERS = ["archive", "finance", "intake", "labs", "partners", "web"]
STEMS = ["batch", "dump", "export", "extract", "sheet", "table"]
FORMATS = {
    "csv": 11,
    "csv, semicolons": 3,
    "tsv": 2,
    "csv.gz": 2,
    "jsonl": 2,
    "parquet": 2,
}  # with their weights


@dataclass(frozen=True, slots=True)
class Origin:
    """A table of a package, and the columns that every slice of it keeps."""

    subject: str
    package: str
    file: str
    keep: tuple[str, ...]
    header: tuple[str, ...] = ()  # where the file's first line is data
    skip: int = 0  # lines before the data or its header


FILMS = Origin("films", "bokeh_sampledata", "_data/movies.db", ("Title",))
_COUNTY = (
    "series",
    "state",
    "county code",
    "county",
    "year",
    "labor force",
    "employed",
    "unemployed",
    "rate",
)
_WINE = (
    *("alcohol", "malic acid", "ash", "alkalinity", "magnesium", "phenols", "flavanoids", "other phenols"),
    *("proanthocyanins", "color", "hue", "od280", "proline", "cultivar"),
)
ORIGINS = [
    FILMS,
    Origin("airports", "vega_datasets", "_data/airports.csv", ("name",)),
    Origin("barley harvests", "vega_datasets", "_data/barley.json", ("variety", "site")),
    Origin("bicycle rides", "bokeh_sampledata", "_data/cycling.csv.gz", ("time",)),
    Origin("cars", "vega_datasets", "_data/cars.json", ("Name",)),
    Origin("chemical elements", "bokeh_sampledata", "_data/elements.csv", ("name",)),
    Origin("cities", "bokeh_sampledata", "_data/world_cities.csv.gz", ("name",)),
    Origin("CO2 emissions", "bokeh_sampledata", "_data/emissions.csv.gz", ("country",)),
    Origin("dairy cows", "bokeh_sampledata", "_data/cows.csv", ("breed",)),
    Origin("electricity", "vega_datasets", "_data/iowa-electricity.csv", ("source",)),
    Origin("employment", "vega_datasets", "_data/us-employment.csv", ("month",)),
    Origin("flight routes", "bokeh_sampledata", "_data/routes.csv.gz", ("Source", "Destination")),
    Origin("glass splinters", "bokeh_sampledata", "_data/forensic_glass.csv", ("type",)),
    Origin("iris flowers", "bokeh_sampledata", "_data/iris.csv", ("species",)),
    Origin("life expectancy", "bokeh_sampledata", "_data/gapminder.csv.gz", ("country", "life_expectancy")),
    Origin("marriages", "bokeh_sampledata", "_data/us_marriages_divorces.csv", ("Year",)),
    Origin("Les Misérables", "bokeh_sampledata", "_data/les_mis.json", ("who", "meets")),
    Origin("Olympic medals", "bokeh_sampledata", "_data/olympics2014.json", ("name",)),
    Origin("penguins", "bokeh_sampledata", "_data/penguins.csv", ("species", "island")),
    Origin("share prices", "bokeh_sampledata", "_data/stocks.csv.gz", ("Ticker", "Date")),
    Origin("shop orders", "bokeh_sampledata", "_data/SampleSuperstore.csv.gz", ("City", "Sub-Category")),
    Origin("sprinters", "bokeh_sampledata", "_data/sprint.csv", ("Name",)),
    Origin("Titanic passengers", "bokeh_sampledata", "_data/titanic_all.csv", ("name",)),
    Origin("unemployment", "bokeh_sampledata", "_data/unemployment09.csv.gz", ("county",), _COUNTY),
    Origin("weather", "vega_datasets", "_data/seattle-weather.csv", ("date", "weather")),
    Origin("wines", "sklearn", "datasets/data/wine_data.csv", (), _WINE, skip=1),
]


@dataclass(frozen=True, slots=True)
class Demo:
    """The files of the demo, and the ground truth about them."""

    lake: Path
    query: Path
    unrelated: Path  # a query that no table fits
    truth: set[str]  # the tables that are slices of the same source as the query
    subjects: dict[str, str]  # table name -> subject


@dataclass(frozen=True, slots=True)
class _Rows:
    header: list[str]
    rows: list[list[str]]

    def cut(self, columns: Sequence[int], rows: Iterable[int]) -> _Rows:
        return _Rows([self.header[c] for c in columns], [[self.rows[r][c] for c in columns] for r in rows])


RECIPES = _Rows(
    ["Gericht", "Zutaten", "Zubereitung", "Portionen"],
    [
        ["Linsensuppe", "Linsen, Möhren, Lauch", "40 Minuten köcheln", "4 Teller"],
        ["Käsespätzle", "Mehl, Eier, Bergkäse", "Teig hobeln, schichten", "3 Teller"],
        ["Rote Grütze", "Johannisbeeren, Sago", "kalt stellen", "6 Schälchen"],
        ["Kartoffelpuffer", "Kartoffeln, Zwiebeln", "knusprig braten", "12 Stück"],
        ["Apfelstrudel", "Äpfel, Zimt, Filoteig", "45 Minuten backen", "8 Stück"],
        ["Gulasch", "Rind, Paprika, Zwiebeln", "2 Stunden schmoren", "5 Teller"],
        ["Bienenstich", "Mandeln, Hefe, Pudding", "30 Minuten backen", "16 Stück"],
        ["Grüne Soße", "sieben Kräuter, Schmand", "hacken und rühren", "4 Teller"],
    ],
)
_FILES = ("films.csv", "recipes.csv", "truth.csv", "subjects.csv")


def make_lake(folder: Path, seed: int = 7) -> Demo:
    """Write `lake/`, the queries `films.csv` and `recipes.csv`, `truth.csv` and `subjects.csv`.

    The same seed and the same versions of the packages give the same bytes. Files of an earlier call are
    replaced, and an index of them is removed; other files of the same names are an error.
    """
    targets = [folder / name for name in (*_FILES, "lake")]
    in_the_way = [path for path in [*targets, folder / "index"] if path.exists()]
    if in_the_way and not (folder / "subjects.csv").exists():
        raise FileExistsError(f"{in_the_way[0]} was not made by the demo; give it a folder of its own")

    query, films = _hold_out(_read(FILMS), random.Random(f"{seed} query"))
    slices = []
    for origin in ORIGINS:
        table = films if origin is FILMS else _read(origin)
        rng = random.Random(f"{seed} {origin.subject}")
        slices += [(origin.subject, _slice(table, origin.keep, rng)) for _ in range(SLICES)]
    rng = random.Random(seed)
    rng.shuffle(slices)

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".demo-", dir=folder) as name:
        work = Path(name)
        for sub in FOLDERS:
            (work / "lake" / sub).mkdir(parents=True)
        subjects: dict[str, str] = {}
        for number, (subject, table) in enumerate(slices):
            form = rng.choices(list(FORMATS), list(FORMATS.values()))[0]
            path = f"{rng.choice(FOLDERS)}/{rng.choice(STEMS)}-{number:03d}.{form.partition(',')[0]}"
            (work / "lake" / path).write_bytes(_encode(table, form))
            subjects[path] = subject
        truth = sorted(path for path, subject in subjects.items() if subject == FILMS.subject)
        listing = sorted(map(list, subjects.items()))
        pairs = [["films.csv", path] for path in truth]
        (work / "films.csv").write_bytes(_encode(query, "csv"))
        (work / "recipes.csv").write_bytes(_encode(RECIPES, "csv"))
        (work / "truth.csv").write_bytes(_encode(_Rows(["query_table", "candidate_table"], pairs), "csv"))
        (work / "subjects.csv").write_bytes(_encode(_Rows(["table", "subject"], listing), "csv"))
        for old in ("lake", "index"):  # an index of the old lake goes with it
            shutil.rmtree(folder / old, ignore_errors=True)
        for target in targets:
            os.replace(work / target.name, target)
    queries = folder / "films.csv", folder / "recipes.csv"
    return Demo(folder / "lake", *queries, set(truth), dict(sorted(subjects.items())))


def _hold_out(table: _Rows, rng: random.Random) -> tuple[_Rows, _Rows]:
    """The query, and the rows for the lake, which share no title with it."""
    chosen = sorted(rng.sample(range(len(table.rows)), QUERY_ROWS))
    names = {table.rows[r][0] for r in chosen}
    left = [r for r in range(len(table.rows)) if table.rows[r][0] not in names]
    columns = [table.header.index(c) for c in QUERY_COLUMNS]
    return table.cut(columns, chosen), table.cut(range(len(table.header)), left)


def _slice(table: _Rows, keep: Sequence[str], rng: random.Random) -> _Rows:
    """Some rows (a run or a sample) and columns (the kept ones and some others), maybe under other names."""
    kept = [table.header.index(c) for c in keep]
    others = [c for c in range(len(table.header)) if c not in kept]
    fewest = min(max(3 - len(kept), 1), len(others))
    columns = sorted(kept + rng.sample(others, rng.randint(fewest, len(others))))
    if rng.random() < 0.3:
        rng.shuffle(columns)
    count = min(rng.randint(15, 60), len(table.rows) * 2 // 3)
    start = rng.randrange(len(table.rows) - count)
    run = rng.random() < 0.5
    rows = range(start, start + count) if run else sorted(rng.sample(range(len(table.rows)), count))
    cut = table.cut(columns, rows)
    style = rng.choice(["as it was", "as it was", "numbered", "coded"])
    if style == "numbered":
        return _Rows([f"column_{i}" for i in range(1, len(columns) + 1)], cut.rows)
    if style == "coded":
        codes = rng.sample([a + b for a in "FKQVXZ" for b in "0123456789"], len(columns))
        return _Rows(codes, cut.rows)
    return cut


def _read(origin: Origin) -> _Rows:
    """Up to some thousand rows of a source as text, without columns that are mostly empty."""
    spec = find_spec(origin.package)  # finds without importing
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the demo needs the tables of the package {origin.package}: {install_extra('demo')}"
        )
    path = Path(spec.submodule_search_locations[0]) / origin.file
    if path.suffix == ".db":
        header, rows = _read_films(path)
    elif path.suffix == ".json":
        records = _records(json.loads(path.read_text(encoding="utf-8")))
        header = list(records[0])
        rows = [["" if r[c] is None else str(r[c]) for c in header] for r in records]
    else:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            lines = csv.reader(file, skipinitialspace=True)
            for _ in range(origin.skip):
                next(lines)
            header = list(origin.header) or next(lines)
            rows = [line for line in lines if len(line) == len(header)]
    rows = [[cell.strip() for cell in row] for row in rows[:: len(rows) // 5000 + 1]]
    filled = [sum(row[c] != "" for row in rows) for c in range(len(header))]
    columns = [
        c for c, name in enumerate(header) if name and filled[c] * 2 > len(rows)
    ]  # row numbers: no name
    return _Rows(header, rows).cut(columns, range(len(rows)))


def _read_films(path: Path) -> tuple[list[str], list[list[str]]]:
    sql = """
        select Title, Year, cast(Runtime as integer) as Runtime, Genre, Released,
            Director, Writer, Metacritic, Language, Country
        from omdb where Metacritic is not null and Writer is not null and Runtime is not null order by ID
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        cursor = db.execute(sql)
        header = [column[0] for column in cursor.description]
        return header, [["" if v is None else str(v) for v in row] for row in cursor]


def _records(document: Any) -> list[dict[str, Any]]:
    """The rows of a JSON file; two of the files are nested."""
    if isinstance(document, list):
        return document
    if "nodes" in document:  # a graph
        names = [node["name"] for node in document["nodes"]]
        return [
            {"who": names[e["source"]], "meets": names[e["target"]], "scenes": e["value"]}
            for e in document["links"]
        ]
    return [{"name": r["name"], "abbr": r["abbr"], **r["medals"]} for r in document["data"]]


def _encode(table: _Rows, form: str) -> bytes:
    if form == "parquet":
        sink = io.BytesIO()
        columns = [_typed([row[c] for row in table.rows]) for c in range(len(table.header))]
        pq.write_table(pa.table([pa.array(c) for c in columns], names=table.header), sink)
        return sink.getvalue()
    if form == "jsonl":
        columns = [_typed([row[c] for row in table.rows]) for c in range(len(table.header))]
        records = (dict(zip(table.header, row, strict=True)) for row in zip(*columns, strict=True))
        return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()
    text = io.StringIO()
    delimiter = {"tsv": "\t", "csv, semicolons": ";"}.get(form, ",")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([table.header, *table.rows])
    data = text.getvalue().encode()
    return gzip.compress(data, mtime=0) if form == "csv.gz" else data


def _typed(cells: list[str]) -> list[int | None] | list[float | None] | list[str | None]:
    for kind in (int, float):
        try:
            return [None if cell == "" else kind(cell) for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]
