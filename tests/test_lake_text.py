import csv
import gzip
import io
import logging
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gentus.lake import Limits, Unreadable, read, read_path
from gentus.lake.reader import only_table
from gentus.table import EMPTY, Table
from gentus_bench.processes import resident_bytes

ROWS = [["name", "city", "note"], ["Zoë", "Köln", 'said "no", twice'], ["Łukasz", "Łódź", "two\nlines"]]
WESTERN = [["name", "city", "note"], ["Zoë", "Köln", 'said "no", twice'], ["Jørgen", "Ærø", "two\nlines"]]


def written(rows: list[list[str]], delimiter: str = ",", end: str = "\r\n") -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(rows)
    return out.getvalue()


def by_name(table: Table) -> dict[str, list[str]]:
    return {column.name: column.cells for column in table.columns}


def expected(rows: list[list[str]]) -> dict[str, list[str]]:
    return dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))


def put(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(tmp_path: Path, delimiter: str, end: str) -> None:
    rows = ROWS if "\n" in end else ROWS[:2]
    path = put(tmp_path / "a.csv", written(rows, delimiter, end))
    assert by_name(read_path(path)) == expected(rows)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_encodings_and_compression(tmp_path: Path, encoding: str, packed: str) -> None:
    rows = WESTERN if encoding in ("latin-1", "cp1252") else ROWS
    data = written(rows, ";").encode(encoding)
    if packed == ".gz":
        data = gzip.compress(data[:7]) + gzip.compress(data[7:])  # several members are one file
    elif packed:
        data = pa.compress(data, codec="zstd", asbytes=True)
    assert by_name(read_path(put(tmp_path / f"a.csv{packed}", data))) == expected(rows)


def test_utf16_with_big_endian_mark(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tsv", b"\xfe\xff" + written(ROWS, "\t").encode("utf-16-be"))
    assert by_name(read_path(path)) == expected(ROWS)


@pytest.mark.parametrize("suffix", ["tsv", "psv", "tab", "txt", "dat", "CSV"])
def test_other_suffixes(tmp_path: Path, suffix: str) -> None:
    assert by_name(read_path(put(tmp_path / f"a.{suffix}", written(ROWS, "|")))) == expected(ROWS)


def test_first_row_is_the_header_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "1,2\n3,4\n5,6\n")
    table = read(replace(only_table(path), header="yes"))
    assert by_name(table) == {"1": ["3", "5"], "2": ["4", "6"]}
    assert table.rows == 2
    table = read_path(path)  # it looks like data, and no row of data is lost
    assert by_name(table) == {"column_1": ["1", "3", "5"], "column_2": ["2", "4", "6"]}
    assert table.doubt


def test_header_over_several_lines_empty_and_repeated(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", '"long\nname";x;;x\n1;2;3;4\n')
    assert by_name(read_path(path)) == {"long name": ["1"], "x": ["2"], "column_3": ["3"], "x_2": ["4"]}


def test_trailing_delimiters_make_no_column(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "a | b | c |\n1 | 2 | 3 |\n4 | 5 | 6 |\n")
    assert by_name(read_path(path)) == {"a": ["1", "4"], "b": ["2", "5"], "c": ["3", "6"]}
    path = put(tmp_path / "b.csv", "a|b|c\n1|2|3|\n4|5|6|\n")
    assert list(by_name(read_path(path))) == ["a", "b", "c"]


def test_overflow_behind_a_trailing_delimiter_is_kept_as_a_nameless_column(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "a|b|\n1|2|\n3|4|\n5|6|overflow|\n")
    assert by_name(read_path(path)) == {"a": ["1", "3", "5"], "b": ["2", "4", "6"], "column_3": ["overflow"]}


def test_markdown_table(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "| a | b |\n|:---|---|\n| 1 | x |\n| 2 | y |\n")
    table = read_path(path)
    assert by_name(table) == {"a": ["1", "2"], "b": ["x", "y"]}
    assert table.rows == 2


def test_ragged_rows(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "a,b,c\n1\n2,x\n3,y,z\n4,y,z,too much\n")
    assert by_name(read_path(path)) == {
        "a": ["1", "2", "3", "4"],
        "b": ["x", "y", "y"],
        "c": ["z", "z"],
        "column_4": ["too much"],
    }
    path = put(tmp_path / "b.csv", "a,b\nr1,1,2\nr2,3,4\n")  # row labels without a name
    assert by_name(read_path(path)) == {"a": ["r1", "r2"], "b": ["1", "3"], "column_3": ["2", "4"]}


def test_empty_cells_are_left_out_and_others_trimmed_and_clipped(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "a,b\n NULL ,x\nNaN, y \nn/a,\nNone,z\n-," + "w" * 300 + "\n,\n")
    table = read_path(path)
    assert by_name(table) == {"a": ["-"], "b": ["x", "y", "z", "w" * 256]}
    assert table.rows == 6


def test_single_column_keeps_commas(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "remark\nyes, indeed\nno\none, two, three\n")
    assert by_name(read_path(path)) == {"remark": ["yes, indeed", "no", "one, two, three"]}


def test_stray_quotes_do_not_swallow_rows(tmp_path: Path) -> None:
    rows = "".join(f'{i};"half quoted;{i}\n' for i in range(20))
    assert len(by_name(read_path(put(tmp_path / "a.csv", "a;b;c\n" + rows)))["c"]) == 20
    inches = "".join(f'{i},4" pipe,{i}\n' for i in range(20))
    assert by_name(read_path(put(tmp_path / "b.csv", "a,b,c\n" + inches)))["b"] == ['4" pipe'] * 20


def test_other_quotes(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "a,b\n'x, y',1\n'z',2\n'u, v, w',3\n")
    assert by_name(read_path(path)) == {"a": ["x, y", "z", "u, v, w"], "b": ["1", "2", "3"]}
    path = put(tmp_path / "b.csv", 'a,b\n"say \\"x, y\\" now",1\n"z",2\n')
    assert by_name(read_path(path)) == {"a": ['say "x, y" now', "z"], "b": ["1", "2"]}


def test_decimal_commas(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "x;y\n1,5;2,5\n3,5;4,5\n")
    assert by_name(read_path(path)) == {"x": ["1,5", "3,5"], "y": ["2,5", "4,5"]}


def test_damaged_utf8_is_still_utf8(tmp_path: Path) -> None:
    good = "a,b\n" + "".join(f"köln {i},łódź\n" for i in range(20))
    cells = by_name(read_path(put(tmp_path / "a.csv", good.encode() + b"bad \xff,x\n")))
    assert cells["a"][0] == "köln 0"
    assert cells["a"][-1] == "bad \ufffd"


def test_large_files_are_sampled_all_over(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("number,text,more\n")
        for i in range(120_000):
            file.write(f'{i},"some, ""quoted"" text\nover lines",end {i}\n')
    table = read_path(path)
    numbers = [int(cell) for cell in by_name(table)["number"]]
    assert table.rows == 512 == len(numbers)
    assert numbers == sorted(set(numbers))
    assert len({number // 20_000 for number in numbers}) == 6
    assert set(by_name(table)["text"]) == {'some, "quoted" text\nover lines'}


def test_large_utf16_file(tmp_path: Path) -> None:
    text = "n;t\n" + "".join(f"{i};héllo {i}\n" for i in range(100_000))
    cells = by_name(read_path(put(tmp_path / "a.csv", text.encode("utf-16"))))
    assert len(cells["t"]) == 512
    assert int(cells["n"][-1]) > 90_000


def test_enormous_cells_and_many_columns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.csv"
    with path.open("w") as file:
        file.write("a,b\n1,")
        for _ in range(100):
            file.write("x" * (1 << 20))
        file.write("\n2,y\n")
    assert by_name(read_path(path))["a"] == ["1"]
    wide = ",".join(f"c{i}" for i in range(10_000)) + "\n"
    wide += (",".join("1" for _ in range(10_000)) + "\n") * 30
    with caplog.at_level(logging.INFO, "gentus.lake"):
        table = read_path(put(tmp_path / "b.csv", wide))
    assert len(table.columns) == 4096
    assert table.rows == 30
    assert "5904 columns" in caplog.text


def test_limits(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "a,b,c\n" + "".join(f"{i},long text,z\n" for i in range(100)))
    table = read_path(path, Limits(rows=10, columns=2, cell_chars=4))
    assert by_name(table) == {"a": [str(i) for i in range(0, 100, 10)], "b": ["long"] * 10}
    with pytest.raises(ValueError, match="at least 1"):
        Limits(rows=0)


def test_plain_writing_is_no_table(tmp_path: Path) -> None:
    path = put(tmp_path / "README.txt", "Notes\n\nSome words, and more.\nThis, that, and the other.\nEnd\n")
    with pytest.raises(Unreadable, match="plain writing"):
        read_path(path)


cell = st.text(st.characters(blacklist_categories=("Cs", "Cc")) | st.sampled_from('\n\t",;|'), max_size=12)
name = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    header = draw(st.lists(name, min_size=2, max_size=5, unique=True))
    row = st.lists(cell, min_size=len(header), max_size=len(header))
    body = draw(st.lists(row, min_size=1, max_size=8))
    return [header, *body]


@settings(max_examples=80, deadline=None)
@given(
    rows=tables(),
    delimiter=st.sampled_from(",;|\t"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_csv_writes_is_read_back(rows: list[list[str]], delimiter: str, encoding: str, end: str) -> None:
    want = [
        [text for row in rows[1:] if (text := row[i].strip()).lower() not in EMPTY]
        for i in range(len(rows[0]))
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder) / "a.csv", written(rows, delimiter, end).encode(encoding))
        if not any(want):
            with pytest.raises(Unreadable):
                read_path(path)
            return
        table = read_path(path)
    assert [column.name for column in table.columns] == rows[0]
    assert [column.cells for column in table.columns] == want


def test_gzip_of_any_length(tmp_path: Path) -> None:
    for size in [*range(65_500, 65_560, 7), 131_072, 131_073, 400_000]:
        text = "a,b\n" + "1,2\n" * (size // 4)
        assert read_path(put(tmp_path / "a.csv.gz", gzip.compress(text.encode()) + b"\0\0")).rows == 512


def test_texts_that_begin_like_something_else(tmp_path: Path) -> None:
    for start in ("PAR1", "animals,DUCK", "BZh,GIF8", "ARROW1"):
        assert read_path(put(tmp_path / "a.csv", f"{start},x,y\n" + "1,2,3,4\n" * 5)).rows == 5


def test_a_letter_cut_in_two_does_not_change_the_encoding(tmp_path: Path) -> None:
    for shift in range(3):
        text = "a,b\n" + "x" * shift + "é,ü\n" + ("y" * 60 + ",zé\n") * 30_000
        assert by_name(read_path(put(tmp_path / "a.csv", text)))["b"][:2] == ["ü", "zé"]


def test_text_that_turns_out_western_late(tmp_path: Path) -> None:
    data = b"a,b\n" + b"1,2\n" * 30_000 + "é,ü\n".encode("latin-1")
    assert read_path(put(tmp_path / "a.csv", data), Limits(rows=10**6)).columns[1].cells[-1] == "ü"


def test_damaged_zstd_files_leave_nothing_in_memory(tmp_path: Path) -> None:
    """pyarrow's `read` never frees what such a stream was to be read into: 64 kB a file."""
    path = tmp_path / "t.csv.zst"
    packed = pa.compress(random.Random(0).randbytes(200_000).hex().encode(), codec="zstd", asbytes=True)
    path.write_bytes(packed[: len(packed) * 3 // 4] + b"\xff" * 40)

    def read_often(times: int) -> int:
        for _ in range(times):
            with pytest.raises(Unreadable):
                read_path(path)
        return resident_bytes()

    before = read_often(20)
    assert read_often(300) - before < 8 << 20


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('"a","b"\n"1","x"\n"2" ,"y"\n"3","z"\n', [["1", "x"], ["2", "y"], ["3", "z"]]),
        ('"a";"b"\n"1";"x; y"\n"2";"5"" pipe" \n"3";"z"\n', [["1", "x; y"], ["2", '5" pipe'], ["3", "z"]]),
        ('"a","b"\n' + '"1","x"\n' * 9 + '"2",5" pipe\n', [["1", "x"]] * 9 + [["2", '5" pipe']]),
        ("'a','b'\n'1','x'\n'2','y, z'\n", [["1", "x"], ["2", "y, z"]]),
        ("a,b\n1,5\"\n2,7\"\n3,'9'\n", [["1", '5"'], ["2", '7"'], ["3", "'9'"]]),
        ("a,b\n1,'tis\n2,o'clock\n", [["1", "'tis"], ["2", "o'clock"]]),
    ],
)
def test_one_stray_quote_leaves_the_others_what_they_are(
    tmp_path: Path, text: str, rows: list[list[str]]
) -> None:
    table = read_path(put(tmp_path / "a.csv", text))
    assert by_name(table) == expected([["a", "b"], *rows])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("rows", [1, 2, 30])
def test_a_quoted_file_whose_last_column_is_empty(tmp_path: Path, delimiter: str, rows: int) -> None:
    lines = [["name", ""], *([f"n{at}", ""] for at in range(rows))]
    text = "".join(delimiter.join(f'"{cell}"' for cell in line) + "\n" for line in lines)
    table = read_path(put(tmp_path / "a.csv", text))
    assert by_name(table) == {"name": [f"n{at}" for at in range(rows)]}
