"""Column signatures: what they keep of a column, how they are stored, and how they follow the lake."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from conftest import rows_of, write_table
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_cli import Run, run

import gentus
from gentus.align.second_look import QueryColumns, _shared
from gentus.align.signatures import (
    SIGNATURE,
    SKETCHES,
    VALUES,
    WIDTH,
    Signatures,
    hash_values,
    joined,
    names_of,
    packed,
    sign_tables,
    unpacked,
)
from gentus.arrays import F32
from gentus.features.extract import featurize_all
from gentus.index.check import check
from gentus.index.folder import IndexFolderError, Layout
from gentus.index.index import Index
from gentus.table import Column, Table

__all__ = ["run"]

# As processes with other hash seeds make it.
MADE = """
from hashlib import sha256
from gentus.align.signatures import hash_values, sign_tables
from gentus.features.extract import featurize_all
from gentus.table import Column, Table
cells = [f"value {n % 40} of {n}" for n in range(90)]
table = Table("t", [Column("a name", cells), Column("b", [str(n / 7) for n in range(30)])], 90)
(signed,) = sign_tables([table], featurize_all([table]), [hash_values(table)])
print(sha256(signed.tobytes()).hexdigest())
"""


def table(*columns: list[str], name: str = "t") -> Table:
    """A table whose columns are named by letters."""
    rows = max(map(len, columns), default=0)
    return Table(name, [Column(chr(97 + at % 26), cells) for at, cells in enumerate(columns)], rows)


def sign(*tables: Table) -> list[Signatures]:
    return sign_tables(tables, featurize_all(tables), list(map(hash_values, tables)))


def query_of(one: Table) -> QueryColumns:
    return QueryColumns.of(one, sign(one)[0], hash_values(one))


# --- one column -----------------------------------------------------------------------------------------


@given(arrays(np.float32, (3, WIDTH), elements=st.floats(-100, 100, width=32)))
def test_packing_loses_half_a_step_at_most(sketches: F32) -> None:
    """A step is a seventh of the largest number of a kind."""
    kept = unpacked(packed(sketches))
    assert packed(sketches).shape == (3, WIDTH // 2)
    assert (kept.numbers == np.rint(kept.numbers)).all()
    assert np.abs(kept.numbers).max() <= 7
    for kind, part in SKETCHES.items():
        some, numbers = sketches[:, part].astype(np.float64), kept.numbers[:, part].astype(np.float64)
        largest = np.abs(some).max(1, keepdims=True)
        if (largest > 1e-6).all():
            assert (np.abs(numbers * largest / 7 - some) <= largest / 14 * 1.001).all()
        assert kept.lengths[kind] == pytest.approx(np.linalg.norm(numbers, axis=1), rel=1e-6)


words = st.text("abcdefghijklmnop", min_size=1, max_size=4)


@given(st.lists(st.sets(words, min_size=1, max_size=40), min_size=1, max_size=3), st.sets(words, min_size=1))
def test_shares_of_few_values_are_exact(ours: list[set[str]], theirs: set[str]) -> None:
    """Against the sets themselves; of a column with more values, an estimate from some of them."""
    query, other = table(*map(sorted, ours)), table(sorted(theirs))
    all_values = sorted({*theirs, *set().union(*ours)})
    hashes = hash_values(table(all_values))[0] & 0xFFFF
    assume(len(set(hashes.tolist())) == len(all_values))
    (signed,) = sign(other)
    assert signed["distinct"][0] == len(theirs)
    shares = _shared(query_of(query), signed)[:, 0]
    kept = {value for value in theirs if hash_values(table([value]))[0][0] & 0xFFFF in signed["values"][0]}
    assert len(kept) == min(len(theirs), VALUES)
    for share, values in zip(shares, ours, strict=True):
        assert share == pytest.approx(len(values & kept) / len(kept))


def test_spellings_of_one_value() -> None:
    (left,), (right,) = (hash_values(table(cells)) for cells in (["1", "Yes", "a"], ["1.0", "yes", "A"]))
    assert left.tolist() == right.tolist()
    assert len(hash_values(table(["\ud800", "\udc80\udfff", "?"]))[0]) == 3  # no Unicode, no error


def test_tables_beside_it_do_not_change_a_byte() -> None:
    tables = [
        table([f"city {n}" for n in range(40)], [str(n) for n in range(9)], name="a"),
        table(name="empty"),
        table([], ["x"] * 3, [], name="gaps"),
        table(*([f"{row} {column}" for row in range(5)] for column in range(30)), name="wide"),
    ]
    alone = [sign(one)[0].tobytes() for one in tables]
    assert [signed.tobytes() for signed in sign(*tables)] == alone
    assert [signed.tobytes() for signed in sign(*tables[::-1])] == alone[::-1]
    assert joined(sign(*tables)).tobytes() == b"".join(alone)
    assert [len(one) // SIGNATURE.itemsize for one in alone] == [2, 0, 1, 30]
    assert names_of(tables[2]) == ["b"]


def test_processes_and_hash_seeds_do_not_change_a_byte() -> None:
    cells = [f"value {n % 40} of {n}" for n in range(90)]
    one = Table("t", [Column("a name", cells), Column("b", [str(n / 7) for n in range(30)])], 90)
    expected = sha256(sign(one)[0].tobytes()).hexdigest()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", MADE]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == expected


@pytest.mark.parametrize(
    "columns",
    [
        [["x"]],
        [[str(n)] for n in range(2000)],
        [["long " * 40_000, "x" * 100_000]],
        [["\x00", "\uffff", "𝔘𝔫𝔦"], ["\u202e", "ß", "\x1f"]],
        [[str(n) for n in range(70_000)]],  # more than a field counts
        [["1e308", "-1e308", "nan", "inf", "0"]],
    ],
    ids=["one cell", "2000 columns", "long cells", "odd characters", "many cells", "extreme numbers"],
)
def test_any_table_has_signatures(columns: list[list[str]]) -> None:
    one = table(*columns)
    (signed,) = sign(one)
    assert len(signed) == len(columns)
    assert np.isfinite(signed["profile"].astype(np.float32)).all()
    assert (signed["distinct"] > 0).all()
    assert (signed["distinct"] <= signed["cells"]).all()
    assert _shared(query_of(one), signed[:9])[:9].diagonal().tolist() == [1.0] * min(len(columns), 9)


# --- in an index -----------------------------------------------------------------------------------------


def stored(index: Index) -> dict[str, tuple[list[str], bytes]]:
    """Names and signatures of all tables."""
    ids = index.catalogue.tables.ids()
    signed = index.catalogue.signatures.of(ids.values())
    return {name: (signed[at].names, signed[at].signatures.tobytes()) for name, at in ids.items()}


def expected(index: Index) -> dict[str, tuple[list[str], bytes]]:
    """What should be stored: read again, one table at a time."""
    tables = {name: index.read(source) for name, source in index.sources().items()}
    return {name: (names_of(one), sign(one)[0].tobytes()) for name, one in tables.items()}


def test_what_is_stored(index: Index) -> None:
    found = stored(index)
    assert found == expected(index)
    assert SIGNATURE.itemsize == 188
    columns, size = index.catalogue.signatures.bytes()
    assert columns == sum(len(names) for names, _ in found.values())
    assert 184 < size / columns <= 200  # with names
    assert index.catalogue.signatures.of([10**9]) == {}


def test_signatures_follow_the_lake(home: Path) -> None:
    lake = home / "lake"
    with gentus.open(home / "index") as index:
        before = stored(index)
        write_table(lake / "new.csv", [["n", "", "empty"], *([str(n), f"é {n}", ""] for n in range(9))])
        (lake / "odd.jsonl").write_text('{"n \\ud800": "\\udc80 x"}\n{"n \\ud800": "y"}\n')  # no Unicode
        assert len(index.add([lake / "new.csv", lake / "odd.jsonl"]).added) == 2
        assert stored(index) == expected(index)
        assert len(stored(index)["new.csv"][0]) == 2
        assert len(stored(index)["odd.jsonl"][0]) == 1
        write_table(lake / "fish_0.csv", rows_of("cities", 77))
        index.sync()
        assert stored(index) == expected(index)
        assert stored(index)["fish_0.csv"] != before["fish_0.csv"]
        index.remove("fish_0.csv")
        (lake / "fish_0.csv").unlink()
        (lake / "cities_0.csv").unlink()
        index.sync()
        after = stored(index)
        rows = index.catalogue.db.execute("SELECT count(*) FROM signatures").fetchone()
        assert rows == (len(after),) == (len(before),)  # two came and two went
    with gentus.refit(home / "index") as index:
        assert stored(index) == after == expected(index)
    assert check(home / "index") == []


def test_signatures_outlive_the_cache_and_the_lake(home: Path) -> None:
    layout = Layout(home / "index")
    query = home / "query.csv"
    write_table(query, rows_of("fish", 50))
    with gentus.open(home / "index") as index:
        before, hits = stored(index), index.search(query)
    shutil.rmtree(layout.cache)
    with gentus.open(home / "index") as index:
        assert index.search(query) == hits
    with gentus.refit(home / "index") as index:  # which reads the lake again
        assert stored(index) == before
    (home / "lake").rename(home / "gone")
    with gentus.open(home / "index") as index:
        again = index.search(query)
        assert {hit.table: (hit.score, hit.columns) for hit in again} == {
            hit.table: (hit.score, hit.columns) for hit in hits
        }


DAMAGES: dict[str, tuple[str, str]] = {
    "a byte": ("UPDATE signatures SET columns = zeroblob(length(columns))", "not what was written"),
    "a name": ("UPDATE signatures SET names = replace(names, 'name', 'nome')", "not what was written"),
    "a type": ("UPDATE signatures SET columns = 'text'", "not what was written"),
    "exchanged": ("UPDATE signatures SET id = id + 100", "it lacks the columns of table"),
    "lost": ("DELETE FROM signatures", "it lacks the columns of table"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_signatures_are_refused(home: Path, run: Run, damage: str) -> None:
    statement, words = DAMAGES[damage]
    query = write_table(home / "query.csv", rows_of("fish", 50))
    with sqlite3.connect(home / "index" / "catalogue.sqlite") as db:
        db.execute(statement)
    db.close()
    with gentus.open(home / "index") as index, pytest.raises(IndexFolderError, match=words) as refused:
        index.search(query)
    assert "catalogue.sqlite" in str(refused.value)
    assert any("signatures" in problem.what or words in problem.what for problem in check(home / "index"))
    ran = run("check", home / "index")
    assert (ran.code, "Traceback" in ran.err) == (1, False)


def forged(home: Path, change: Callable[[sqlite3.Connection], object]) -> None:
    """Change rows with checksums that fit, as no accident does."""
    from gentus.index.catalogue.row_checksums import row_checksum

    with sqlite3.connect(home / "index" / "catalogue.sqlite") as db:
        change(db)
        for row in db.execute("SELECT id, names, columns FROM signatures").fetchall():
            db.execute("UPDATE signatures SET checksum = ? WHERE id = ?", (row_checksum(*row), row[0]))
    db.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE signatures SET columns = zeroblob(100)", "not what was written"),
        ("UPDATE signatures SET names = '[\"a\"]'", "4 columns have 1 names"),
    ],
)
def test_forged_signatures_are_refused(home: Path, statement: str, words: str) -> None:
    forged(home, lambda db: db.execute(statement))
    query = write_table(home / "query.csv", rows_of("fish", 50))
    with gentus.open(home / "index") as index, pytest.raises(IndexFolderError, match=words):
        index.search(query)
