"""Headers of delimited text: files without one lose no row, and rules of a lake say which have none."""

from __future__ import annotations

import csv
import json
import logging
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from conftest import rows_of
from served import served

import gentus
from gentus.app.cli.main import app, guarded
from gentus.lake import Remote, Source, read_path
from gentus.lake.rules import FileRule, load_rules
from gentus_bench.experiment import Request
from gentus_bench.registry import chosen
from gentus_bench.results import Results

Rows = list[list[str]]


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    """What a command prints; warnings of the library go to stderr, as in a process of its own."""
    out, err, ended = StringIO(), StringIO(), 0
    log, handler = logging.getLogger("gentus"), logging.StreamHandler(err)
    log.addHandler(handler)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            guarded(lambda: app([*map(str, arguments)], prog_name="gentus"))
    except SystemExit as end:
        ended = int(end.code or 0)
    finally:
        log.removeHandler(handler)
    assert ended == code, err.getvalue()
    return out.getvalue(), err.getvalue()


def write(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rule(lake: Path, path: str, header: str) -> None:
    with (lake / "gentus.toml").open("a") as file:
        file.write(f'[[files]]\npath = "{path}"\nheader = "{header}"\n')


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Films with a header and without, and fish with one."""
    for seed in range(3):
        write(tmp_path / "lake" / f"films_{seed}.csv", rows_of("films", seed, 30))
        write(tmp_path / "lake" / "raw" / f"films_{seed}.csv", rows_of("films", 10 + seed, 30)[1:])
        write(tmp_path / "lake" / f"fish_{seed}.csv", rows_of("fish", seed, 30))
    return tmp_path / "lake"


# --- from the lake to the union --------------------------------------------------------------------------


def test_files_without_a_header_from_the_lake_to_the_union(lake: Path, tmp_path: Path) -> None:
    rule(lake, "raw/**", "no")
    index, query = tmp_path / "index", write(tmp_path / "mine.csv", rows_of("films", 99, 30)[1:])
    run("index", lake, "-o", index)
    found = json.loads(run("search", index, query, "--header", "no", "-k", 6, "--json")[0])
    results = found["queries"][0]["results"]
    assert {one["table"] for one in results} == {
        f"{folder}films_{n}.csv" for folder in ("", "raw/") for n in range(3)
    }
    assert {one["fit"] for one in results} == {"full"}
    out = tmp_path / "all.csv"
    tables = ["films_0.csv", "raw/films_0.csv"]
    run("union", index, query, "--header", "no", "-o", out, "--tables", *tables)
    expected = [*rows_of("films", 99, 30)[1:], *rows_of("films", 0, 30)[1:], *rows_of("films", 10, 30)[1:]]
    rows = [[row[f"column_{n}"] for n in range(1, 5)] for row in read(out)]
    assert [[*row[:2], float(row[2]), row[3]] for row in rows] == [
        [*row[:2], float(row[2]), row[3]] for row in expected
    ]
    # A plan says which tables have no header, and it can be run and changed elsewhere.
    plan = json.loads(
        run("union", index, lake / "films_1.csv", "--dry-run", "--json", "--tables", *tables)[0]
    )
    assert [plan["query"].get("header"), *(one.get("header") for one in plan["tables"])] == [None, None, "no"]
    saved = tmp_path / "plan.json"
    saved.write_text(json.dumps(plan))
    run("union", "--plan", saved, "-o", tmp_path / "again.csv")
    assert len(read(tmp_path / "again.csv")) == 90
    plan["tables"][1]["header"] = "perhaps"
    saved.write_text(json.dumps(plan))
    assert (
        "'header' must be one of 'auto', 'yes', 'no'"
        in run("union", "--plan", saved, "-o", tmp_path / "b.csv", code=1)[1]
    )


def test_a_first_row_that_looks_like_data_is_told(lake: Path, tmp_path: Path) -> None:
    index, query = tmp_path / "index", write(tmp_path / "mine.csv", rows_of("films", 99, 30)[1:])
    raw = [f"raw/films_{n}.csv" for n in range(3)]
    _, err = run("index", lake, "-o", index)
    assert "3 tables have a first row that looks like data" in err
    assert all(f"  {name}: its first row looks like data: 4 cells, 2 numbers" in err for name in raw)
    rule = '  [[files]]\n  path = "raw/films_0.csv"\n  header = "yes"\n'
    assert rule in err
    (lake / "gentus.toml").write_text(rule)  # as it is printed
    assert json.loads(run("sync", index, "--dry-run", "--json")[0])["reread"] == ["raw/films_0.csv"]
    (lake / "gentus.toml").unlink()
    listed = json.loads(run("info", index, "--headers", "--json")[0])["headers"]
    assert [one["name"] for one in listed] == raw
    assert "3 look like data: see --headers" in run("info", index)[0]
    out, err = run("search", index, query, "--json")
    assert "mine.csv: its first row looks like data" in err
    assert json.loads(out)["queries"][0]["doubt"].startswith("its first row looks like data")
    assert "looks like data" in run("align", index, query, "films_0.csv")[1]
    out, err = run("union", index, "films_0.csv", "--tables", *raw, "-o", tmp_path / "all.csv", "--json")
    assert [name for name in raw if f"{name}: its first row looks like data" in err] == raw
    assert sum("looks like data" in note for note in json.loads(out)["notes"]) == 3
    # The query of a union is told of once, and also where nothing fits.
    _, err = run("union", index, query, "-o", tmp_path / "mine-all.csv", "-k", 2)
    assert err.count("mine.csv: its first row looks like data") == 1
    genes = write(tmp_path / "genes.csv", [[f"chr{n}:{n * 7919}", f"{n}.5"] for n in range(20)])
    assert "genes.csv: its first row looks like data" in run("union", index, genes, "-o", "x.csv", code=1)[1]
    assert "header      auto; its first row" in run("describe", index, raw[0])[0]
    # Who has said how it is read is told no more.
    for header in ("yes", "no"):
        assert "looks like data" not in "".join(run("search", index, query, "--header", header))
    _, err = run("sync", index, "--header", "no")
    assert "looks like data" not in err
    assert "0 look like data" in run("info", index)[0]
    assert "header      no" in run("describe", index, raw[0])[0]
    # A lake of one file has no folder for rules.
    _, err = run("index", query, "-o", tmp_path / "one.index")
    assert f"If it is the header: gentus sync {tmp_path / 'one.index'} --header yes" in err


TRUE_HEADERS = {
    "numbers": "id,size,year\n1,2.5,1990\n2,3.5,1991\n3,1.5,1992\n",
    "all text": "name,city\nAnna,Berlin\nBen,Paris\nCleo,Berlin\nDan,Paris\nEve,Berlin\n",
    "years above amounts": "country,2019,2020,2021\nA,5.1,6.2,7.3\nB,1.5,2.5,3.5\nC,2.2,3.1,4.4\n",
    "one year": "country,2020\nA,61000\nB,7200\nC,880\nD,51000\n",
    "a count": "0,1,2,3\n7,9,1,4\n5,5,2,9\n3,1,8,6\n4,4,4,1\n",
    "a header that is repeated": "name,age\nAnna,31\nname,age\nBen,45\nname,age\nCleo,28\nname,age\nDan,9\n",
    "two rows of names": "Year,Rank,Won,Won\nYear,Rank,W,L\n2015,2nd,31,10\n2016,3rd,20,21\n2017,1st,5,6\n",
    "an unnamed first column": ",a,b\n0,1.5,2\n1,2.5,3\n2,3.5,4\n3,4.5,5\n",
    "codes under words": "sku,colour\nA-100,red\nA-101,blue\nA-102,red\nA-103,blue\n",
    "names with digits": "q1,q2,q3\nyes,no,yes\nno,no,yes\nyes,yes,no\nno,yes,no\n",
    "one row below": "1,2\n3,4\n",
    "numbered names": "Place,Game 1,Game 2\n"
    + "".join(f"{'Wing' if n % 2 else 'Back'},Player Number {n} (c),Other Player {n}b\n" for n in range(9)),
}
NO_HEADERS = {
    "numbers": ["5.1,3.5,1.4", "4.9,3.0,1.4", "4.7,3.2,1.3", "4.6,3.1,1.5"],
    "steps in every row": ["1,2", "3,4", "5,6"],
    "names and numbers": ["Anna,31", "Ben,45", "Cleo,28", "Dan,9", "Eve,50", "Finn,7", "Gus,31"],
    "dates": [f"2024-01-{day:02},{'open' if day % 3 else 'closed'}" for day in range(1, 13)],
    "categories": [f"{'red' if n % 3 else 'blue'},{'small' if n % 5 else 'big'}" for n in range(1, 30)],
    "codes": ["A-100;DE12", "A-101;FR77", "A-102;DE13", "A-103;IT01", "A-104;FR09"],
    "years below years": ["Jaws,1975", "Alien,1979", "Heat,1995", "Fargo,1996", "Psycho,1960", "Rocky,1976"],
    "a gap": [
        "Turin,,1783",
        *(f"{('Turin', 'Bern', 'Oslo')[n % 3]},{n * 977},{n * 7001}" for n in range(1, 30)),
    ],
    "a number and words": [
        "28595|Vienna|Oslo",
        "46859|Athens|Rome",
        "42958|Vienna|Vienna",
        "49867|Paris|Berlin",
    ],
    "remarks with numbers": [
        "7200,two rooms 5",
        *(f"{n * 911},{'a b c d'[: n % 7 + 1]} {n * 3}" for n in range(1, 20)),
    ],
}


@pytest.mark.parametrize("name", TRUE_HEADERS)
def test_true_headers_raise_no_alarm(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text(TRUE_HEADERS[name])
    table = read_path(tmp_path / "a.csv")
    assert (table.doubt, table.reading) == ("", "a header of 2 rows, joined" * (name == "two rows of names"))


@pytest.mark.parametrize("name", NO_HEADERS)
def test_files_without_a_header_are_noticed(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text("\n".join(NO_HEADERS[name]))
    assert read_path(tmp_path / "a.csv").doubt


def test_a_header_that_may_be_data_is_told(tmp_path: Path) -> None:
    """Where neither can be said, the first row is the header; that is no secret."""
    names = ["Bern", "Oslo", "Rome", "Lyon", "Porto", "Bern", "Oslo", "Rome", "Lyon", "Paris", "Prague"]
    rows = [["Turin", "43911"], *([name, str(n * 977)] for n, name in enumerate(names))]
    table = read_path(write(tmp_path / "a.csv", rows))
    assert (table.columns[0].name, table.rows, table.doubt) == ("Turin", 11, "")
    assert table.reading == "its first row is read as the header, and may be data"
    (tmp_path / "gone.csv").write_text(TRUE_HEADERS["numbers"])
    assert read_path(tmp_path / "gone.csv").reading == ""


# --- rules of a lake -------------------------------------------------------------------------------------


def headers(index: gentus.Index) -> dict[str, str]:
    return {name: source.header for name, source in index.sources().items() if source.header != "auto"}


def test_a_changed_rule_makes_sync_read_again(lake: Path, tmp_path: Path) -> None:
    with gentus.build(lake, tmp_path / "index") as index:
        assert headers(index) == {}
        assert "films_0.csv" in index.tables()
        assert "gentus.toml" not in index.tables()
        rule(lake, "raw/*.csv", "no")
        rule(lake, "raw/films_2.csv", "yes")
        out, err = run("sync", tmp_path / "index")
        assert out.splitlines() == [f"~ raw/films_{n}.csv (read in another way)" for n in range(3)]
        assert "3 read again in another way" in err
        expected = {"raw/films_0.csv": "no", "raw/films_1.csv": "no", "raw/films_2.csv": "yes"}
        assert headers(index) == expected
        assert run("sync", tmp_path / "index")[0] == ""
        # A choice for one table is kept, whatever the rules say.
        changes = index.add(lake / "raw" / "films_2.csv", header="no")
        assert changes.reread == ["raw/films_2.csv"]
        assert len(index.sync()) == 0
        (lake / "gentus.toml").unlink()
        assert index.sync(dry_run=True).reread == ["raw/films_0.csv", "raw/films_1.csv"]
        assert index.sync().reread == ["raw/films_0.csv", "raw/films_1.csv"]
        assert headers(index) == {"raw/films_2.csv": "no"}
        # All others that no rule names, now and later.
        assert len(index.sync(header="no").reread) == 8
        assert len(index.sync()) == 0
    with gentus.open(tmp_path / "index") as index:
        assert index.config.settings.header == "no"
        # A file of the lake is read as the index has it, by whatever path; one that is new, by the rules.
        assert index.find(lake / "raw" / "films_1.csv").header == "no"
        assert index.find(lake / "films_1.csv", header="yes").header == "yes"
        assert index.find(write(lake / "new.csv", rows_of("fish", 5))).header == "no"
        assert index.find(write(tmp_path / "mine.csv", rows_of("fish", 5))).header == "auto"
        assert index.read("raw/films_0.csv").rows == 30


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.csv", ["a.csv", "x/y/a.csv"], ["a.tsv"]),
        ("raw/*.csv", ["raw/a.csv"], ["a.csv", "raw/x/a.csv", "x/raw/a.csv"]),
        ("raw/**/*.csv", ["raw/a.csv", "raw/x/y/a.csv"], ["a.csv", "raw.csv"]),
        ("raw/**", ["raw/a.csv", "raw/x/a.tsv"], ["raw.csv", "rawer/a.csv"]),
        ("**/x[12]?.csv", ["x1a.csv", "q/x2b.csv"], ["x3a.csv", "x1.csv"]),
        ("./a.csv", ["a.csv"], ["b.csv"]),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, matching: list[str], others: list[str]) -> None:
    rule(tmp_path, pattern, "no")
    rules = load_rules(tmp_path)
    assert [name for name in (*matching, *others) if rules.choices(name) == {"header": "no"}] == matching


def test_a_pattern_of_many_stars_ends() -> None:
    assert not FileRule("/".join(["**", "*a*a*a*a*a*a*a*b"] * 30), {}).matches("/".join(["a" * 60] * 60))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[files]\n", r"gentus\.toml is not TOML: .*line 1"),
        ("header = 'no'\n", "gentus.toml has an unknown key 'header'; rules are under"),
        ("[files]\npath = '*'\n", "write \\[\\[files\\]\\] in double brackets"),
        ("[[files]]\npath = '*'\nheader = 'no'\n[[files]]\nheader = 'no'\n", "number 2 needs 'path', a text"),
        (
            "[[files]]\npath = '*'\nheader = 'none'\n",
            "number 1: header is one of auto, yes, no",
        ),
        ("[[files]]\npath = '*'\nheaders = 'no'\n", "number 1 has an unknown key 'headers'; there are path"),
    ],
)
def test_wrong_rules_are_named(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "a.csv", [["a", "b"], ["1", "2"]])
    (tmp_path / "gentus.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        gentus.build(tmp_path, tmp_path / "index")
    assert not (tmp_path / "index" / "config.json").exists()


def test_rules_at_a_url() -> None:
    import fsspec

    store: Any = fsspec.filesystem("memory")
    store.pipe("/ruled/gentus.toml", b'[[files]]\npath = "a.csv"\nheader = "no"\n')
    assert load_rules(Remote("memory://ruled")).choices("a.csv") == {"header": "no"}
    assert load_rules(Remote("memory://unruled")).files == ()


def test_only_delimited_text_has_a_header(tmp_path: Path) -> None:
    rule(tmp_path, "**", "no")
    rules = load_rules(tmp_path)
    for name, header in {
        "a.csv": "no",
        "a.tsv.gz": "no",
        "a.txt": "no",
        "a.json": "auto",
        "a.db": "auto",
    }.items():
        found = rules.applied(Source(name, tmp_path / name, "t" if name == "a.db" else None, 1, 1))
        assert isinstance(found, Source)
        assert found.header == header


def test_wrong_headers_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", [["a", "b"], ["1", "2"]])
    wrong: Any = "none"
    with pytest.raises(ValueError, match="header is one of auto, yes, no, not 'none'"):
        gentus.build(tmp_path, tmp_path / "index", header=wrong)


# --- over HTTP ---------------------------------------------------------------------------------------------


def test_headers_over_http(lake: Path, tmp_path: Path) -> None:
    rule(lake, "raw/**", "no")
    gentus.build(lake, tmp_path / "index").close()
    bare = "".join(",".join(row) + "\n" for row in rows_of("films", 99, 30)[1:]).encode()
    with served(tmp_path / "index", token="secret") as api:
        assert api.send_file("/api/search", "bare.csv", bare).json()["doubt"].startswith("its first row")
        found = api.send_file("/api/search", "bare.csv", bare, header="no", k="6").json()
        assert (found["doubt"], found["query_columns"][0]) == ("", "column_1")
        assert {one["fit"] for one in found["results"]} == {"full"}
        wrong = api.send_file("/api/upload", "bare.csv", bare, header="none")
        assert (wrong.status_code, wrong.json()["error"]) == (
            422,
            "header is one of auto, yes, no, not 'none'",
        )
        sent = api.send_file("/api/upload", "bare.csv", bare, header="no").json()
        assert (sent["rows"], sent["doubt"]) == (30, "")
        asked = {"query": {"upload": sent["upload"]}, "tables": ["raw/films_0.csv", "films_0.csv"]}
        plan = api.post_json("/api/union/plan", asked).json()
        assert [one.get("header") for one in (plan["query"], *plan["tables"])] == ["no", "no", None]
        del plan["tables"][0]["header"]  # a table of the index is read as it was
        shown = api.post_json("/api/union/preview", {"query": asked["query"], "plan": plan, "rows": 10})
        assert shown.json()["total"] == 90
        api.headers["authorization"] = "Bearer secret"
        api.send_file("/api/tables", "bare.csv", bare, header="no").raise_for_status()
        assert api.table("added/bare.csv")["rows"] == 30
    with gentus.open(tmp_path / "index") as index:
        assert len(index.sync()) == 0


# --- how well it is judged ---------------------------------------------------------------------------------


def test_the_experiment_counts_alarms_and_misses(lake: Path, tmp_path: Path) -> None:
    (experiment,) = chosen(["headers"])
    request = Request(Results(tmp_path / "out"), lake.parent, [lake.name])
    ((document, text),) = experiment.execute(request, experiment.parse(()))
    assert document["alarms"] == [f"raw/films_{n}.csv" for n in range(3)]
    assert (document["files"], document["missed"]) == (9, 0)
    assert "| lake | 9 | 3 | 0 |" in text
