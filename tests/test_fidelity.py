"""The benchmark of self-unions: zero silent differences on real files, and it sees those that there are."""

from __future__ import annotations

import gzip
import hashlib
import io
import sqlite3
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_cli import Run, run  # noqa: F401

from gentus.lake import Source, Unreadable, scan
from gentus.table import evenly_spaced
from gentus.union.plan import Reading
from gentus.union.report import ColumnReport
from gentus_bench.experiments.fidelity import compare_self_union
from gentus_bench.experiments.fidelity_cells import Verdicts, compare_column
from gentus_bench.experiments.fidelity_reference import NoReferenceError
from gentus_bench.lakes.corpora import fetch

MADE = {
    "plain.csv": "name,height,born\nAnn,1.50,2024-06-25\nBob,1.8,2023-01-31\n",
    "german.csv": "Name;Preis;Tag\nAnn;1.234,50;25.06.2024\nBob;2,5;31.12.2023\n",
    "american.csv": 'item,price,day\n"a, b","$1,200.50",12/31/2020\n"c ""d""",$3.00,01/15/2021\n',
    "nulls.csv": "name,score\nNone,1.5\nN/A,NA\nnull,\n-,2.5\n",
    "spaces.csv": "code,text\n007, kept \n010,  \n011,x\n",
    "ragged.csv": "a,b\n1,2\n3\n" + "4," * 19 + "5\n7,8\n",  # eight columns are kept
    "zones.csv": "at,n\n2020-01-02T03:04:05Z,1\n2020-01-02T03:04:05+02:00,2\n",
    "latin.csv": "name,town\nJosé,Málaga\nZoë,Köln\n",
    "lines.jsonl": '{"a": 1, "b": "x"}\n{"a": 2.5, "b": null}\n{"a": null, "b": "y"}\n',
    "large.csv": "id,n\n12345678901234567890,1\n12345678901234567891,2\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in many notations and formats."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in MADE.items():
        (folder / name).write_text(text, "latin-1" if name == "latin.csv" else "utf-8")
    (folder / "packed.csv").write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))  # not by its name
    typed = {"n": [1, None, 3], "x": [0.1, 2.5, None], "s": ["a", "None", None], "l": [[1, 2], None, []]}
    pq.write_table(pa.table(typed), folder / "typed.parquet")
    with closing(sqlite3.connect(folder / "base.sqlite")) as base:
        base.execute("CREATE TABLE people (name TEXT, age INTEGER)")
        base.executemany("INSERT INTO people VALUES (?, ?)", [("Ann", 31), ("Bob", None)])
        base.commit()
    return folder


def test_it_measures_a_folder(made: Path, tmp_path: Path, run: Run) -> None:  # noqa: F811
    (document,) = run("bench", "run", "fidelity", "--data", made, "--out", tmp_path / "out", "--json").json()
    assert (document["silent"], document["examples"]) == (0, {})
    assert document["tables"] == len(MADE) + 3
    assert document["cells"] == document["equal"] + sum(document["changed"].values())
    assert document["changed"]["beyond the last column"] == 24  # of ragged.csv, in both halves
    assert document["changed"]["null word"] >= 2
    told = (tmp_path / "out" / "fidelity.md").read_text()
    assert "| **silent differences** | **0** |" in told


def test_real_files_that_packages_ship() -> None:
    """Some of each package that is installed for other tests."""
    total, tables = Verdicts(), 0
    for package in ("vega_datasets", "bokeh_sampledata", "sklearn"):
        found = find_spec(package)
        if found is None or not found.submodule_search_locations:
            continue
        items = scan(Path(next(iter(found.submodule_search_locations))))
        small = [one for one in items if isinstance(one, Source) and one.size < 30_000]
        for at in evenly_spaced(len(small), 5):
            try:
                verdicts, _, _ = compare_self_union(small[at])
            except (Unreadable, NoReferenceError):
                continue
            total.add(verdicts)
            tables += 1
    assert (total.silent, total.examples) == (0, [])
    assert tables > 7
    assert total.equal > 3_000


@pytest.mark.parametrize(
    ("cells", "found", "kind", "silent"),
    [
        (["1.50", "2"], [1.5, 2.0], "DOUBLE", 0),
        (["1.50", "2"], [1.5, 2.1], "DOUBLE", 1),
        (["1234567890123456789"], [1234567890123456800.0], "DOUBLE", 1),
        ([" a"], ["a"], "VARCHAR", 1),
        (["", "x"], ["0", "x"], "VARCHAR", 1),
        (["a", "b"], [None, "b"], "VARCHAR", 1),
        (["yes", "no"], [True, True], "BOOLEAN", 1),
        (["3/4/2020"], [pa.scalar("2020-03-04").cast(pa.date32()).as_py()], "DATE", 0),
        (["3/4/2020"], [pa.scalar("2020-04-03").cast(pa.date32()).as_py()], "DATE", 1),
        (["2020-03-04 10:00"], [pa.scalar("2020-03-04").cast(pa.date32()).as_py()], "DATE", 1),
    ],
)
def test_a_silent_difference_is_seen(cells: list[str], found: list[Any], kind: str, silent: int) -> None:
    source, result = (pa.chunked_array([pa.array(values)]) for values in (cells, found))
    assert compare_column(source, result, Reading(), ColumnReport("a", "a", kind)).silent == silent


def test_what_the_report_counts_is_not_silent() -> None:
    report = ColumnReport("a", "a", "BIGINT", nulls=3, unconverted=1)
    report.taken_as_null["NA"] = 1
    source = pa.chunked_array([pa.array(["1", "NA", "x", " "])])
    verdicts = compare_column(source, pa.chunked_array([pa.array([1, None, None, None])]), Reading(), report)
    assert (verdicts.silent, verdicts.equal) == (0, 1)
    assert verdicts.changed == {"null word": 1, "not converted": 1, "blank": 1}
    twice = pa.chunked_array([pa.array(["1", "NA", "x", "y"])])
    assert (
        compare_column(twice, pa.chunked_array([pa.array([1, None, None, None])]), None, report).silent == 1
    )


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index with one package, whose archive has an archive in it, and a file that leads out."""
    inner, outer = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as packed:
        _pack(packed, "data/one.csv", b"a,b\n1,2\n")
    with tarfile.open(fileobj=outer, mode="w:gz") as packed:
        _pack(packed, "pkg-1.0/inner.tar.gz", inner.getvalue())
        _pack(packed, "pkg-1.0/two.json", b"[]")
        _pack(packed, "pkg-1.0/setup.py", b"raise SystemExit")
        _pack(packed, "pkg-1.0/../../out.csv", b"a\n1\n")
    served = tmp_path / "served"
    (served / "pkg").mkdir(parents=True)
    (served / "pkg-1.0.tar.gz").write_bytes(outer.getvalue())
    digest = hashlib.sha256(outer.getvalue()).hexdigest()
    links = [f"../pkg-1.0.tar.gz#sha256={digest}", "../pkg-1.0.tar.gz#sha256=" + 64 * "0"]
    names = ["pkg-1.0.tar.gz", "pkg-2.0.tar.gz"]
    page = "".join(f'<a href="{link}">{name}</a>' for link, name in zip(links, names, strict=True))
    (served / "pkg" / "index.html").write_text(page)
    handler = partial(SimpleHTTPRequestHandler, directory=str(served))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _pack(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def test_corpora_are_fetched_without_running_them(index: str, tmp_path: Path) -> None:
    assert fetch(tmp_path / "out", ["pkg==1.0"], index) == {"pkg==1.0": 2}
    files = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert files == ["one.csv", "two.json"]
    assert not list(tmp_path.glob("out.csv"))
    with pytest.raises(ValueError, match="SHA-256"):
        fetch(tmp_path / "out", ["pkg==2.0"], index)
    with pytest.raises(ValueError, match="no archive of pkg"):
        fetch(tmp_path / "out", ["pkg==3.0"], index)
    with pytest.raises(ValueError, match="name a version"):
        fetch(tmp_path / "out", ["pkg"], index)
