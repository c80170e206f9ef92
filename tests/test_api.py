"""The Python API: names, types, docs that run, errors, and results as notebooks and terminals show them."""

from __future__ import annotations

import doctest
import inspect
import io
import json
import logging
import multiprocessing
import pickle
import pydoc
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, assert_type, cast

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from conftest import make_lake, rows_of, write_table

import gentus
from gentus.index.cached import cache_folder, index_folder
from gentus.lake import as_location

CLASSES = [gentus.Index, gentus.Hits, gentus.Union, gentus.UnionPlan, gentus.UnionReport, gentus.Alignment]
CITIES = ["Berlin", "Vienna", "Lisbon", "Madrid", "Rome", "Oslo", "Dublin", "Prague", "Athens", "Warsaw"]
FILMS = ["Vertigo", "Alien", "Casablanca", "Psycho", "Rocky", "Jaws", "Amadeus", "Fargo", "Heat", "Brazil"]
SKIES = ["clear", "cloudy", "rainy", "foggy", "stormy"]


def orders(number: int) -> list[list[str]]:
    """A month of orders."""
    chance = random.Random(number)
    return [
        [
            str(1000 * number + at),
            f"2024-0{number}-{at + 10}",
            chance.choice(CITIES),
            f"{chance.random():.2f}",
        ]
        for at in range(12)
    ]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples of the docs are about: a lake, its index, and a table."""
    root = tmp_path_factory.mktemp("shop")
    names = ["order", "day", "city", "amount"]
    write_table(root / "orders.csv", [names, *orders(4)])
    lake = root / "lake"
    for number in (1, 2):
        write_table(lake / f"orders-2024-0{number}.csv", [names, *orders(number)])
    clerks = [[*row[:3], f"clerk {row[0][-1]}"] for row in orders(3)]
    write_table(lake / "orders-2024-03.csv", [["id", "date", "town", "clerk"], *clerks])
    chance = random.Random(5)
    for number in (1, 2, 3):
        films = [
            [chance.choice(FILMS), str(chance.randint(1940, 1999)), f"{chance.randint(80, 190)} min"]
            for _ in range(12)
        ]
        write_table(lake / f"films-{number}.csv", [["title", "released", "length"], *films])
    for number in range(4):
        days = [
            [f"{chance.choice(SKIES)} {chance.choice(SKIES)}", f"{chance.gauss(9, 8):.1f} °C"]
            for _ in range(12)
        ]
        write_table(lake / f"weather-{number}.csv", [["sky", "temperature"], *days])
    (lake / "empty.csv").touch()
    gentus.build(lake, root / "my.index").close()
    return root


@pytest.fixture
def here(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the working folder; indexes are cached in a folder beside it."""
    copy = shutil.copytree(shop, tmp_path / "shop")
    monkeypatch.chdir(copy)
    monkeypatch.setenv("GENTUS_CACHE", str(tmp_path / "cache"))
    with gentus.open("my.index") as index:
        index.sync("lake")
    return copy


# --- names and docs ------------------------------------------------------------------------------------


def documented() -> Iterator[tuple[str, Any]]:
    """All public names, and the public methods of the classes that people call."""
    yield "gentus", gentus
    for name in gentus.__all__:
        yield name, getattr(gentus, name)
    for kind in CLASSES:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and method.__module__.startswith("gentus"):
                yield f"{kind.__name__}.{name}", method


def test_every_public_name_has_a_docstring_and_classes_and_functions_an_example() -> None:
    needs_none = ("gentus", "Alignment.", "Hits.", "Union.", "UnionPlan.", "UnionReport.")
    for name, value in documented():
        text = inspect.getdoc(value) or ""
        assert text, name
        assert name.startswith(needs_none) or ">>> " in text, f"{name} has no example"


@pytest.mark.parametrize(
    "name", [name for name, value in documented() if ">>> " in (inspect.getdoc(value) or "")]
)
def test_the_examples_run(here: Path, name: str) -> None:
    value: Any = gentus
    for part in name.split("."):
        value = getattr(value, part)
    with gentus.open("my.index") as index:
        names = {"gentus": gentus, "index": index, "Path": Path}
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        example = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", names, name, None, 0)
        said = io.StringIO()
        result = doctest.DocTestRunner(optionflags=flags).run(example, out=said.write)
        assert not result.failed, said.getvalue()
        assert result.attempted


def test_help_is_short_and_shows_what_people_call() -> None:
    text = pydoc.plain(pydoc.render_doc(gentus))
    assert len(text.splitlines()) < 160
    for name in ("search(", "open(", "open_lake(", "build(", "refit("):
        assert f"\n    {name}" in text
    assert "Quick start" in text
    assert not {"os", "Any", "overload", "Unpack"} & set(dir(gentus))


def test_what_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serach'"):
        gentus.serach  # type: ignore[attr-defined]  # noqa: B018


# --- types ---------------------------------------------------------------------------------------------


def check_types(index: gentus.Index, path: Path) -> None:
    """What a type checker infers; never run."""
    assert_type(index.search("a.csv"), gentus.Hits)
    assert_type(index.search(path, k=3, fit="full", beam=10), gentus.Hits)
    assert_type(index.search(pl.DataFrame()), gentus.Hits)
    assert_type(index.search(pl.LazyFrame(), explain=True), gentus.Hits)
    assert_type(index.search(["a.csv", "b.csv"]), list[gentus.Hits])
    assert_type(index.search([pl.DataFrame(), pl.DataFrame()]), list[gentus.Hits])
    assert_type(gentus.search("lake", pl.LazyFrame()), gentus.Hits)
    assert_type(gentus.search("lake", [path, path]), list[gentus.Hits])
    assert_type(index.search(path)[0], gentus.Hit)
    assert_type(index.search(path)[:2], gentus.Hits)
    assert_type(index.align("a.csv", index.search(path)[0]), gentus.Alignment)
    assert_type(index.union(pl.LazyFrame(), index.search(path)[:2], fit="full"), gentus.Union)
    assert_type(gentus.open("my.index"), gentus.Index)
    with gentus.open_lake("lake") as opened:
        assert_type(opened, gentus.Index)
    index.search(42)  # type: ignore[call-overload]
    index.search("a.csv", fit="fully")  # type: ignore[call-overload]
    index.search("a.csv", serach=1)  # type: ignore[call-overload]
    index.union("a.csv", "b.csv", distinkt=True)  # type: ignore[call-arg]
    gentus.build("lake", "my.index", worker=1)  # type: ignore[call-arg]


def test_settings_are_checked_when_they_are_used(here: Path) -> None:
    with gentus.open("my.index") as index:
        search, union = cast(Any, index.search), cast(Any, index.union)
        with pytest.raises(TypeError, match="unknown option serach"):
            search("orders.csv", serach=1)
        with pytest.raises(TypeError, match="unknown option distinkt"):
            union("orders.csv", "films-1.csv", distinkt=True)
        with pytest.raises(ValueError, match="fit is one of any, partial, full, not fully"):
            search("orders.csv", fit="fully")


# --- queries -------------------------------------------------------------------------------------------


class OnlyStream:
    """Somebody else's data frame."""

    def __init__(self, data: pa.Table) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "arrow": lambda frame: frame.to_arrow(),
    "batch": lambda frame: frame.to_arrow().to_batches()[0],
    "reader": lambda frame: frame.to_arrow().to_reader(),  # it can be read once
    "stream": lambda frame: OnlyStream(frame.to_arrow()),
    "duckdb": lambda frame: duckdb.connect().from_arrow(frame.to_arrow()),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_data_frame_is_a_query_everywhere(here: Path, kind: str) -> None:
    frame = pl.read_csv("orders.csv")
    make = FRAMES[kind]
    with gentus.open("my.index") as index:
        hits = index.search(make(frame), k=3)
        assert {hit.table for hit in hits} == {f"orders-2024-0{number}.csv" for number in (1, 2, 3)}
        assert [pair.table.name for pair in index.align(make(frame), hits[0]).pairs] == frame.columns
        assert index.align("orders.csv", make(frame)).fit == "full"
        union = index.union(make(frame), hits[:1], provenance=False)
        assert union.to_polars().head(12).rows() == frame.rows()
        assert union.write_csv("all.csv").rows == 24  # and once more


@pytest.mark.parametrize("kind", FRAMES)
def test_a_long_data_frame_is_sampled(here: Path, kind: str) -> None:
    long = pl.concat([pl.read_csv("orders.csv")] * 200)
    with gentus.open("my.index") as index:
        assert index.search(FRAMES[kind](long), k=1)[0].fit == "full"


# --- hits, and what people see -------------------------------------------------------------------------


def test_hits_are_a_sequence_and_a_table(here: Path) -> None:
    with gentus.open("my.index") as index:
        hits = index.search("orders.csv", k=4)
    assert isinstance(hits, Sequence)
    assert (len(hits), hits[-1], next(iter(reversed(hits)))) == (4, hits[3], hits[3])
    assert isinstance(hits[1:3], gentus.Hits)
    assert hits[1:3] == [hits[1], hits[2]]
    assert hits.index(hits[2]) == 2
    assert hits[0] in hits
    assert hits != hits[:2]
    assert len({hits, hits[:], hits[:2]}) == 2
    names = [hit.table for hit in hits]
    assert hits.to_polars()["table"].to_list() == names
    assert hits.to_pandas()["table"].to_list() == names
    assert hits.to_arrow()["table"].to_pylist() == names
    assert pl.DataFrame(hits[:2]).height == 2  # by its Arrow stream
    with pytest.raises(TypeError):
        hits[0] = hits[1]  # type: ignore[index]


def test_reprs_are_short(here: Path) -> None:
    with gentus.open("my.index") as index:
        hits = index.search("orders.csv", k=10)
        union = index.union("orders.csv", hits)
        assert repr(index) == f"<gentus.Index {here / 'my.index'}: 10 tables>"
        assert repr(hits[0]) == "<Hit 1: orders-2024-01.csv, full, 4 of 4 columns, 1.000>"
        assert len(repr(hits).splitlines()) == 12
        assert repr(hits[:0]) == "<Hits: No table in this lake fits yours.>"
        assert (
            repr(union.write_csv("all.csv")) == "<UnionReport: 48 rows and 6 columns from 4 tables, all.csv>"
        )
        assert repr(gentus.Hits([hits[0]] * 30)).endswith(".. and 10 more")
    assert repr(index) == f"<gentus.Index {here / 'my.index'}: closed>"
    assert "closed" in index._repr_html_()


class Checked(HTMLParser):
    """HTML whose tags are closed, and that has nothing but tables, text and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "strong", "span", "table", "thead", "tbody", "tr", "th", "td"}, tag
        assert {name for name, _ in attrs} <= {"style"}, attrs
        assert "url(" not in str(attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


def test_notebooks_show_tables_and_run_nothing_of_them(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number in (1, 2, 3):
        rows = [[EVIL, "day", "city", "<b>amount</b>"], *orders(number)]
        table = pa.table(dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True)))
        file = lake / f"<i>orders & {number}.arrow"
        file.parent.mkdir(exist_ok=True)
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    write_table(lake / "films.csv", [["title", "length"], *([film, "90 min"] for film in FILMS)])
    with gentus.build(lake, tmp_path / "<u>index", workers=1) as index:
        name = "<i>orders & 1.arrow"
        hits = index.search(name, k=3)
        plan = index.union_plan(name, hits)
        report = index.union(name, hits).write_csv(tmp_path / "<s>all.csv")
        shown = [
            index,
            hits,
            index.align(name, hits[0]),
            plan,
            index.union(name, hits),
            report,
            index.groups(),
        ]
        pages = [Checked(cast(Any, one)._repr_html_()).text for one in shown]
    assert "<u>index" in pages[0]
    assert "<i>orders & 2.arrow" in pages[1]
    assert EVIL in pages[2]
    assert EVIL in pages[3]
    assert "<s>all.csv" in pages[5]
    assert EVIL in pages[6]
    assert max(map(len, pages)) < 4000


NOTEBOOK = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
import duckdb
try:
    duckdb.connect().execute("SET enable_progress_bar = true")
except duckdb.Error:
    print("DuckDB sees a notebook")
import gentus
print(gentus.open("my.index").union("orders.csv", "orders-2024-01.csv").to_arrow().num_rows)
"""


def test_a_union_runs_in_a_notebook_without_widgets(here: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["DuckDB sees a notebook", "24"], ran.stderr


# --- the cached index of a lake ------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GENTUS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def listing(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def test_a_lake_is_searched_by_a_cached_index_that_follows_it(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "gentus.index.cached")
    lake = make_lake(tmp_path / "my lake", ["cities", "fish"], 3)
    query = write_table(tmp_path / "query.csv", rows_of("fish", 50))
    before = listing(lake)
    first = gentus.search(lake, query, k=2)
    assert "building its index" in caplog.text
    assert listing(lake) == before
    caplog.clear()
    assert gentus.search(f"{lake}/../my lake", query, k=2) == first  # the same folder, the same index
    assert "<Changes: 6 unchanged>" in caplog.text
    added = write_table(lake / "new fish.csv", rows_of("fish", 51))
    assert "new fish.csv" in {hit.table for hit in gentus.search(lake, query, k=9)}
    assert "<Changes: 1 added, 6 unchanged>" in caplog.text
    added.unlink()
    assert "new fish.csv" not in {hit.table for hit in gentus.search(lake, query, k=9)}
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [index_folder(lake).name]
    assert index_folder(lake).name.startswith("my-lake-")
    assert capfd.readouterr() == ("", "")
    several = gentus.search(lake, [query, lake / "fish_0.csv"], k=1, fit="partial", explain=True)
    assert [len(hits) for hits in several] == [1, 1]
    assert several[0][0].alignment is not None


def test_a_cached_index_that_cannot_be_used_is_built_again(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake(tmp_path / "lake", ["cities"], 3)
    gentus.open_lake(lake).close()
    config = index_folder(lake) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "format": 1}))
    with gentus.open_lake(lake) as index:
        assert len(index) == 3
    assert "has index format 1" in caplog.text


def test_a_cached_index_is_learnt_anew_when_its_lake_has_grown(tmp_path: Path, cache: Path) -> None:
    lake = make_lake(tmp_path / "lake", ["cities"], 3)
    gentus.open_lake(lake).close()
    for number in range(24):
        write_table(lake / f"more_{number}.csv", rows_of("fish", number))
    with gentus.open_lake(lake) as index:
        assert index.config.report.tables == len(index) == 27


def test_no_index_is_cached_in_a_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake(tmp_path / "lake", ["cities"], 1)
    monkeypatch.setenv("GENTUS_CACHE", str(lake / "cache"))
    before = listing(lake)
    with pytest.raises(ValueError, match=r"would lie in the lake .* GENTUS_CACHE"):
        gentus.search(lake, lake / "cities_0.csv")
    assert listing(lake) == before
    with pytest.raises(gentus.LakeNotFoundError, match="There is no lake"):
        gentus.search(tmp_path / "nowhere", lake / "cities_0.csv")


def test_where_indexes_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GENTUS_CACHE", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert cache_folder() == Path("/x/cache/gentus")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the specification says to ignore
    assert cache_folder() == Path.home() / ".cache" / "gentus"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "gentus"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/x/local")
    assert cache_folder() == Path("/x/local/gentus/cache")
    monkeypatch.setenv("GENTUS_CACHE", "/y")
    assert cache_folder() == Path("/y")
    assert index_folder(as_location("s3://bucket/a lake")).parent == Path("/y")


def _search(lake: str, query: str) -> list[str]:
    return [hit.table for hit in gentus.search(lake, query, k=3)]


def test_two_processes_share_a_cached_index(tmp_path: Path, cache: Path) -> None:
    lake = make_lake(tmp_path / "lake", ["cities", "fish"], 3)
    query = write_table(tmp_path / "query.csv", rows_of("fish", 50))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(_search, [(str(lake), str(query))] * 4)
    assert found == [found[0]] * 4
    assert len(found[0]) == 3
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 1


# --- errors --------------------------------------------------------------------------------------------


def test_errors_are_also_those_of_python(here: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no index"):
        gentus.open("nowhere")
    with gentus.open("my.index") as index:
        calls: list[Callable[[str], object]] = [index.search, index.read, index.find, index.describe]
        calls.append(lambda name: index.union(name, "films-1.csv"))
        for call in calls:
            with pytest.raises(gentus.TableNotFoundError, match=r"^nowhere\.csv: ") as missing:
                call("nowhere.csv")
            assert pickle.loads(pickle.dumps(missing.value)).table == missing.value.table == "nowhere.csv"
        with pytest.raises(FileNotFoundError, match="neither a table of the index nor a file"):
            index.search("nowhere.csv")
        with pytest.raises(FileNotFoundError, match="there is no file"):
            index.search(Path("nowhere.csv"))
        with pytest.raises(FileNotFoundError, match=r"^nowhere\.csv: it is neither"):
            index.align("nowhere.csv", "films-1.csv")
        with pytest.raises(FileNotFoundError, match=r"^nowhere\.csv: it is neither"):
            index.union("nowhere.csv", "films-1.csv")
        with pytest.raises(KeyError, match="there is no table of this name"):
            index.describe("nowhere.csv")
        with pytest.raises(KeyError, match="Not in the index: nowhere"):
            index.remove("nowhere.csv")
        with pytest.raises(ValueError, match="is no table"):
            index.search(cast(Any, 42))
        with pytest.raises(FileExistsError, match="already exists"):
            index.union("orders.csv", "orders-2024-01.csv").write_csv("my.index/config.json")
    for name in gentus.__all__:
        if name.endswith("Error") or name == "Unreadable":
            assert issubclass(getattr(gentus, name), gentus.GentusError)
