"""Text as people publish it: titles, notes, comments, headers of several rows, encodings; its benchmark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from test_headers import run

import gentus
from gentus.lake import read, read_path
from gentus.lake.encoding import guess_encoding
from gentus.lake.formats.text import sample_text
from gentus.lake.full.open import open_full
from gentus.lake.full.rows import Tally
from gentus.lake.reader import only_table
from gentus.table import Limits
from gentus_bench.baselines.text_readers import Reading, read_by
from gentus_bench.experiment import Request
from gentus_bench.experiments.readers import judged
from gentus_bench.lakes.annotated import annotated_files
from gentus_bench.lakes.messy_text import SHAPES, make_messy
from gentus_bench.registry import chosen
from gentus_bench.results import Results

BODY = "id,city,sales\n1,Berlin,10\n2,Paris,20\n3,Rome,30\n"
ROWS = [("1", "Berlin", "10"), ("2", "Paris", "20"), ("3", "Rome", "30")]
NAMES = ["id", "city", "sales"]


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def whole(path: Path) -> tuple[list[str], list[tuple[str, ...]], str]:
    """Names and all rows as a union reads them, and what is told of it."""
    with duckdb.connect() as duck:
        full = open_full(only_table(path), duck)
        way = full.strict or full
        with way.scan(duck, range(len(full.names)), Tally()) as relation:
            rows = duck.sql(f"SELECT * EXCLUDE (row) FROM {relation} ORDER BY row").fetchall()
    return full.names, rows, full.reading


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"Quarterly report\n{BODY}", "1 line above the table left out ('Quarterly report')"),
        (f"Report,,\nSource: Office,,\n,,\n{BODY}", "3 lines above the table left out"),
        (f"Report; preliminary\n\nSales, by city\n{BODY}", "2 lines above"),
        (f"# made by a tool\n# on Monday, late\n{BODY}", "2 lines above"),
        (BODY.replace("2,Paris", "# checked\n2,Paris"), "lines that begin with # left out"),
        (f"{BODY}\nSource: Office for Statistics\n", "1 line below the table left out ('Source: Office"),
        (f"{BODY}Note: preliminary, may change\n", "1 line below"),
        (f"{BODY}Total,,60\n", "1 line below the table left out ('Total 60')"),
        (f"Sales of 2024\n{BODY}\n* estimated\n", "1 line above"),
        (f"Figures of all regions, preliminary, second edition\nOur report\n\n{BODY}", "2 lines above"),
        (f"A report\nFigures of all regions, preliminary, second edition\n\n{BODY}", "2 lines above"),
    ],
)
def test_what_stands_around_a_table_is_left_out_and_told(tmp_path: Path, text: str, told: str) -> None:
    names, rows, reading = whole(put(tmp_path / "a.csv", text))
    assert (names, rows) == (NAMES, ROWS)
    assert told in reading
    sampled = read_path(tmp_path / "a.csv")
    assert ([one.name for one in sampled.columns], sampled.rows) == (NAMES, 3)
    assert sampled.reading == reading


def test_nothing_is_left_out_where_a_header_is_given(tmp_path: Path) -> None:
    source = only_table(put(tmp_path / "a.csv", f"Report of 2024\n{BODY}\nSource: Office\n"))
    headed, bare = read(replace(source, header="yes")), read(replace(source, header="no"))
    assert (headed.rows, headed.reading, bare.rows, bare.reading) == (5, "", 6, "")


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        f"{BODY}4,Oslo,\n",
        f"{BODY}4\n",  # a short row is no note
        f"{BODY}Total,Madrid,55\n",  # no sum
        "city,sum\nTotal,5\nSum,7\nRome,9\n",
        "#,name,points\n1,Ann,3\n2,Bob,4\n",
        "#1 team,w,l\nA,3,1\nB,2,2\n",
        ",a,b\nx,1,2\ny,3,4\n",
        "name,,year\nAnn,x,2019\nBob,y,2020\nCid,z,2021\n",
        "name,time,points\nAnn,DNF,4\nBob,12.5,3\nCid,11.0,8\n",
        "a,b\nr1,1,2\nr2,3,4\n",
        "remark\nyes, indeed\nno, never\nwell, perhaps\n",
        "pos,name\n1,Ann\n2,Bob\nDNF,Cid\n",
    ],
)
def test_tables_are_left_whole(tmp_path: Path, text: str) -> None:
    sampled = sample_text(put(tmp_path / "a.csv", text), Limits())
    assert sampled.layout.is_plain
    assert len(sampled.rows) == text.count("\n") - 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Place,,Sales,\nid,city,2019,2020\n1,Berlin,5,6\n2,Rome,7,8\n",
            "Place id,Place city,Sales 2019,Sales 2020",
        ),
        ("city,weight,share\n,kg,%\nBerlin,5,6.5\nRome,7,8.1\n", "city,weight kg,share %"),
        (
            "Club,Club,Apps,Apps,Goals\nClub,Town,A,B,C\nx,y,1,2,3\nz,u,4,5,6\n",
            "Club,Club Town,Apps A,Apps B,Goals C",
        ),
    ],
)
def test_headers_of_several_rows_are_joined(tmp_path: Path, text: str, names: str) -> None:
    found, rows, reading = whole(put(tmp_path / "a.csv", text))
    assert (found, len(rows), reading) == (names.split(","), 2, "a header of 2 rows, joined")


def test_wide_tables_under_a_short_title_keep_all_columns(tmp_path: Path) -> None:
    header = ",".join(f"c{at}" for at in range(18))
    row = ",".join(map(str, range(18)))
    assert len(whole(put(tmp_path / "a.csv", f"A title\n{header}\n{row}\n{row}\n"))[0]) == 18


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("cp1251", "Москва Казань Самара"),
        ("koi8-r", "Москва Казань Самара"),
        ("cp1250", "Łódź Gdańsk Świdnica"),
        ("iso8859-2", "Plzeň Děčín Žďár Šumperk"),
        ("cp1254", "İzmir Eskişehir Iğdır"),
        ("cp1253", "Αθήνα Πάτρα Λάρισα"),
        ("cp1255", "ירושלים חיפה אשדוד"),
        ("shift_jis", "東京 大阪 名古屋 さいたま"),
        ("gb18030", "北京 上海 广州 深圳"),
        ("big5", "臺北 高雄 臺中 臺南"),
        ("euc_kr", "서울 부산 인천 대구"),
        ("cp874", "กรุงเทพ เชียงใหม่ ภูเก็ต ขอนแก่น สงขลา ชลบุรี ระยอง ลำปาง นนทบุรี เชียงราย พัทยา ตรัง น่าน"),
        ("mac_roman", "Köln Genève Málaga"),
    ],
)
def test_encodings_are_recognised_and_told(tmp_path: Path, encoding: str, words: str) -> None:
    cities = words.split()
    text = "id,city\n" + "".join(f"{at},{city}\n" for at, city in enumerate(cities))
    _, rows, reading = whole(put(tmp_path / "a.csv", text, encoding))
    assert [row[1] for row in rows] == cities == read_path(tmp_path / "a.csv").columns[1].cells
    assert "guessed by words such as" in reading
    assert any(repr(city) in reading for city in cities)


def test_a_note_that_nothing_cuts_is_no_row(tmp_path: Path) -> None:
    rows = "".join(f"{name} by the great sea,{at},{at}\n" for at, name in enumerate("abcdefghi"))
    text = f"place,a,b\n{rows}Values below three are not shown\n"
    _, found, reading = whole(put(tmp_path / "a.csv", text))
    assert len(found) == 9
    assert "1 line below the table left out ('Values below three" in reading
    text = f"place,a,b\n{rows}Values below three are not shown,9,\n"
    assert len(whole(put(tmp_path / "a.csv", text))[1]) == 10


def test_signs_alone_are_western() -> None:
    assert {guess_encoding(text.encode("cp1252")) for text in ("a – b", "5 €", "20°", "“so”", "é")} == {
        "cp1252"
    }


def test_one_control_character_is_no_binary_file(tmp_path: Path) -> None:
    assert read_path(put(tmp_path / "a.csv", "a,b\n1,x\x02\n2,y\n")).columns[1].cells == ["x", "y"]


def test_a_stray_quote_reaches_no_cell_of_a_union(tmp_path: Path) -> None:
    for text in ('"a","b"\n"1","x"\n"2" ,"y"\n"3","z"\n', "'a','b'\n'1','x'\n'2','y'\n'3','z'\n"):
        names, rows, _ = whole(put(tmp_path / "a.csv", text))
        assert (names, [[cell.strip() for cell in row] for row in rows]) == (
            ["a", "b"],
            [["1", "x"], ["2", "y"], ["3", "z"]],
        )


def test_large_files_with_notes_at_their_end(tmp_path: Path) -> None:
    body = "".join(f"{at},some words that fill a line,{at}\n" for at in range(60_000))
    path = put(tmp_path / "a.csv", f"A title of it\nid,text,number\n{body}\nSource: Office for Statistics\n")
    names, rows, reading = whole(path)
    assert (names, len(rows), rows[-1][0]) == (["id", "text", "number"], 60_000, "59999")
    assert "1 line below the table left out" in reading


def test_the_index_and_a_union_tell_of_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    for number in range(3):
        rows = "".join(f"{at},Town {at},{at * 7 + number}\n" for at in range(20))
        put(lake / f"t{number}.csv", f"Report of {2020 + number}\nid,city,sales\n{rows}\nSource: Office\n")
    _, err = run("index", lake, "-o", tmp_path / "index")
    assert "3 not read in the usual way" in err
    listed = json.loads(run("info", tmp_path / "index", "--reading", "--json")[0])["reading"]
    assert [one["name"] for one in listed] == ["t0.csv", "t1.csv", "t2.csv"]
    assert "1 line above the table left out" in run("describe", tmp_path / "index", "t0.csv")[0]
    out, err = run(
        "union", tmp_path / "index", "t0.csv", "--tables", "t1.csv", "-o", tmp_path / "all.csv", "--json"
    )
    assert json.loads(out)["rows"] == 40
    assert (
        sum("below the table left out ('Source: Office')" in note for note in json.loads(out)["notes"]) == 2
    )
    with gentus.open(tmp_path / "index") as index:
        assert len(index.unusual()) == 3


# --- the benchmark --------------------------------------------------------------------------------------


def test_made_files_are_read_right(tmp_path: Path) -> None:
    assert make_messy(tmp_path, 2) == 2 * len(SHAPES)
    wrong = []
    for one in annotated_files(tmp_path):
        found = read_by("gentus", one.path)
        wrong += [one.path.name] * (not all(judged(one, found).values()))
    assert wrong == []


def test_annotations_as_they_are_published(tmp_path: Path) -> None:
    put(tmp_path / "w.csv", "a;b\n1;2\n")
    facts = {
        "filename": "./x/w.csv",
        "status": "OK",
        "dialect": {"delimiter": ";", "quotechar": "", "escapechar": ""},
    }
    put(tmp_path / "out_reference_x.json", json.dumps(facts) + "\n")
    put(tmp_path / "c.csv", "a,b\n1,2\n")
    dialect = {"header": False}
    put(tmp_path / "c.csv-metadata.json", json.dumps({"url": "c.csv", "dialect": dialect}))
    known = {one.path.name: one for one in annotated_files(tmp_path)}
    assert (known["w.csv"].delimiter, known["w.csv"].names) == (";", None)
    assert (known["c.csv"].delimiter, known["c.csv"].names) == (",", [])
    assert judged(known["w.csv"], Reading(delimiter=",")) == {"dialect": False}
    assert judged(known["c.csv"], Reading(delimiter=",", quote='"')) == {"dialect": True, "header": True}


def test_the_speed_of_two_checkouts_is_compared(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    make_messy(lake, 2)
    own = Path(gentus.__file__).parents[2]
    (experiment,) = chosen(["reading"])
    options = experiment.parse([f"other={own}", "files=12", "rounds=2", "large=2", "megabytes=0.02"])
    request = Request(Results(tmp_path / "results"), lake / "csv")
    small, large = (document for document, _ in experiment.execute(request, options))
    assert (small["what"]["files"], large["what"]["files"]) == (12, 2)
    for document in (small, large):
        assert list(document["turns"]) == ["this", "other"]
        assert all(len(one["cpu_seconds"]) == 2 and one["refused"] == 0 for one in document["turns"].values())
    assert "Speed of this checkout" in str(experiment.module.tables(small)[0].note)
    with pytest.raises(ValueError, match="there is no gentus in"):
        list(experiment.execute(request, experiment.parse([f"other={tmp_path}"])))
