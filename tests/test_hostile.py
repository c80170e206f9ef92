"""Index folders that were damaged, mixed up or made by somebody who means harm.

Whatever is done to a file: it is noticed and named, or the answers are what they were. Nothing is run, and
nothing hangs.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from conftest import make_lake, rows_of, write_table
from test_cli import Run, run
from victim import TINY

import gentus
from gentus.index.catalogue import row_checksums
from gentus.index.catalogue.database import connect
from gentus.index.check import check
from gentus.index.feature_cache import read_chunk
from gentus.index.folder import IndexFolderError, Layout, write_config
from gentus.retrieval.trie import Trie

__all__ = ["run"]
SEED = os.environ.get("HOSTILE_SEED", "0")
FLIPS = 8  # bits of each file, in as many copies of the index
Answer = list[tuple[str, str, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake, its index, and another index of another lake. Not to be changed by a test."""
    root = tmp_path_factory.mktemp("hostile")
    for name, slices in (("mine", 4), ("other", 3)):
        lake = make_lake(root / name / "lake", ["cities", "fish", "films"], slices)
        gentus.build(lake, root / name / "index", settings=TINY, workers=1, seed=slices).close()
        with gentus.open(root / name / "index") as index:  # something that is not in the snapshot yet
            index.add(write_table(lake / "fish_70.csv", rows_of("fish", 70)))
            index.remove("films_0.csv")
    return root


@pytest.fixture
def index(home: Path, tmp_path: Path) -> Path:
    """A copy to be changed. Its paths are those of the lake that it was made of."""
    return shutil.copytree(home / "mine" / "index", tmp_path / "index")


@pytest.fixture(scope="module")
def right(home: Path) -> Answer:
    return answer(home / "mine" / "index", home)


def answer(folder: Path, home: Path) -> Answer:
    """Everything that an index says: what it finds, under which name and identifier, and what it lists."""
    with gentus.open(folder) as opened:
        query = opened.read(home / "mine" / "lake" / "fish_0.csv")
        hits = opened.search(query, k=100)  # as a table without a file: it finds all, itself too
        assert sorted(hit.table for hit in hits) == opened.tables()
        assert len(opened.skipped()) == 0
        return [(hit.table, hit.sid, hit.path) for hit in hits]


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@contextmanager
def in_time(seconds: int = 20) -> Iterator[None]:
    """Rather an error than to wait for ever."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def verdict(folder: Path, home: Path, right: Answer) -> str:
    """What becomes of it: refused when it is used, reported by a check, or harmless; no answer is wrong."""
    with in_time():
        try:
            given = answer(folder, home)
        except IndexFolderError as error:
            told = str(error)
            assert str(folder) in told
            assert "gentus " in told or "permission" in told  # what to do
            return "refused"
        assert given == right
        return "reported" if check(folder) else "harmless"


NAMES = (
    "config.json",
    "catalogue.sqlite",
    "model-1.safetensors",
    "write.lock",
    *(f"trie-1/{name}.npy" for name in Trie.__dataclass_fields__),
    "cache/features-000000.npz",
    "cache/features-000001.npz",
)
HARMLESS = {"write.lock"}


def test_all_files_of_an_index_are_attacked_here(index: Path) -> None:
    assert set(files_of(index)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit(index: Path, home: Path, right: Answer, name: str) -> None:
    chance, path = random.Random(f"{SEED} {name}"), index / name
    whole = path.read_bytes()
    for _ in range(FLIPS if whole else 0):
        at, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        got = verdict(index, home, right)
        if not name.startswith(("catalogue", *HARMLESS)):  # in it there is room that nobody uses
            assert got == ("reported" if name.startswith("cache") else "refused"), at
        shutil.rmtree(index)
        shutil.copytree(home / "mine" / "index", index)


def test_every_bit_that_answers_hang_on_is_noticed(index: Path, home: Path, right: Answer) -> None:
    """All over the pages of the catalogue: an answer is refused or right, and no flip goes unseen by a check
    other than in room that is not used, and in what only makes a table be read again."""
    path = index / "catalogue.sqlite"
    whole, chance = path.read_bytes(), random.Random(SEED)
    with closing(connect(path, "ro")) as db:
        names = [name for (name,) in db.execute("SELECT name FROM tables")]
    got = []
    for name in names:
        for at in _all_of(whole, name.encode()):
            spoilt = bytearray(whole)
            spoilt[at + chance.randrange(len(name))] ^= 1 << chance.randrange(5)
            path.write_bytes(spoilt)
            got.append(verdict(index, home, right))
    assert len(got) > 3 * len(names)  # its name, its path twice, and the indexes of both
    assert "harmless" not in got
    assert got.count("refused") > len(got) // 2


def test_a_query_is_not_its_own_answer_because_a_list_is_damaged(index: Path, home: Path) -> None:
    """SQLite trusts its indexes: one that no longer leads to a file would let it be found."""
    path, query = index / "catalogue.sqlite", home / "mine" / "lake" / "fish_0.csv"
    whole, refused = path.read_bytes(), []
    for at in _all_of(whole, b"fish_0.csv"):
        path.write_bytes(whole[:at] + b"g" + whole[at + 1 :])
        with in_time():
            try:
                with gentus.open(index) as opened:
                    found = [hit.path for hit in opened.search(query, k=100)]
            except IndexFolderError as error:
                refused.append(str(error))
            else:
                assert str(query) not in found
    assert any("its list of files does not lead to fish_0.csv" in told for told in refused)


def _all_of(whole: bytes, part: bytes) -> Iterator[int]:
    at = whole.find(part)
    while at >= 0:
        yield at
        at = whole.find(part, at + 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left", [0, 0.5, 0.99])
def test_a_file_cut_short(index: Path, home: Path, right: Answer, name: str, left: float) -> None:
    path = index / name
    size = path.stat().st_size
    os.truncate(path, int(left * size))
    assert verdict(index, home, right) != "harmless" or name in HARMLESS


@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_another_index(index: Path, home: Path, right: Answer, name: str) -> None:
    shutil.copy(home / "other" / "index" / name, index / name)
    same = (home / "mine" / "index" / name).read_bytes() == (index / name).read_bytes()
    assert (verdict(index, home, right) == "harmless") == same


def test_a_missing_file(index: Path, home: Path, right: Answer) -> None:
    for name in NAMES:
        (index / name).unlink()
        got = verdict(index, home, right)
        assert got == ("harmless" if name in HARMLESS or name.startswith("cache") else "refused"), name
        shutil.copy(home / "mine" / "index" / name, index / name)


@pytest.mark.parametrize("name", [*NAMES, "cache", "trie-1", "catalogue.sqlite-wal", "config.json.part"])
def test_a_link_or_a_pipe_is_refused_and_named(index: Path, home: Path, name: str, tmp_path: Path) -> None:
    path, own = index / name, home / "mine" / "index" / name
    secret = write_table(tmp_path / "secret", [["a"], ["b"]])
    targets: list[Path | None] = [secret, Path("/dev/zero"), tmp_path / "nowhere", own, None]
    for target in targets:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if target is None:
            os.mkfifo(path)
        else:
            path.symlink_to(target)
        for use in (gentus.open, check, _add_to(home)):
            with in_time(), pytest.raises(IndexFolderError, match="does not belong into an index") as told:
                use(index)
            assert str(path) in str(told.value)
            assert ("link to" if target else "neither a file nor a folder") in str(told.value)
    assert secret.read_text() == "a\nb\n"
    assert not (tmp_path / "nowhere").exists()


def _add_to(home: Path) -> Callable[[Path], object]:
    from gentus.index.writer import writer

    def add(folder: Path) -> None:
        with writer(Layout(folder)):
            raise AssertionError("it was opened")

    return add


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_in_place_of_a_file(index: Path, home: Path, right: Answer, name: str) -> None:
    (index / name).unlink()
    (index / name).mkdir()
    got = verdict(index, home, right)
    assert got == "refused" or name in HARMLESS or name.startswith("cache")


def test_what_is_written_does_not_follow_a_link(index: Path, home: Path, tmp_path: Path) -> None:
    """One that appears after the index was opened."""
    mine = write_table(tmp_path / "mine.txt", [["a"], ["b"]])
    with gentus.open(index) as opened:
        (index / "config.json.part").symlink_to(mine)
        write_config(Layout(index), opened.config)
    assert mine.read_text() == "a\nb\n"


# --- files that lie ------------------------------------------------------------------------------------


def update_checksums(folder: Path) -> None:
    """As a forger would do it: all checksums are right again."""
    from gentus.index.catalogue import Catalogue
    from gentus.index.writer import publish

    layout = Layout(folder)
    with closing(Catalogue(layout.catalogue, writable=True)) as catalogue:
        config = catalogue.config()
        assert config is not None
        with catalogue.transaction():
            config = publish(layout, catalogue, config)
        write_config(layout, config)


def npy(header: str) -> bytes:
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000000,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775807, 9), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-5,), }",
        "__import__('os').abort()",
    ],
)
@pytest.mark.parametrize("name", ["codes", "tables", "offsets"])
def test_an_array_that_lies_about_its_size(index: Path, home: Path, name: str, header: str) -> None:
    (index / "trie-1" / f"{name}.npy").write_bytes(npy(header) + bytes(64))
    update_checksums(index)
    with in_time(), pytest.raises(IndexFolderError, match="trie-1"):
        gentus.open(index)
    part = index / "cache" / "features-000000.npz"
    with zipfile.ZipFile(part) as old:
        kept = {each: old.read(each) for each in old.namelist()}
    for packed in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", packed) as new:
            for at, (each, data) in enumerate(kept.items()):
                new.writestr(each, data if at else npy(header) + bytes(1 << 20))
        part.write_bytes(buffer.getvalue())
        with in_time(), pytest.raises(IndexFolderError, match=r"features-000000\.npz is damaged"):
            read_chunk(part)


@pytest.mark.parametrize("size", [1 << 60, (1 << 64) - 1, 100_000_000])
def test_a_model_that_lies_about_its_size(index: Path, size: int) -> None:
    path = index / "model-1.safetensors"
    path.write_bytes(struct.pack("<Q", size) + path.read_bytes()[8:])
    update_checksums(index)
    with in_time(), pytest.raises(IndexFolderError, match=r"model-1\.safetensors is damaged"):
        gentus.open(index)


HOSTILE_SCHEMAS = {
    "a view": "ALTER TABLE labels RENAME TO l; CREATE VIEW labels AS"
    " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS query,"
    " i AS checksum FROM n",
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON tables BEGIN DELETE FROM tables; END",
    "a function": "CREATE INDEX i ON tables (id) WHERE load_extension('/nowhere') > 0",
    "a generated column": "ALTER TABLE meta ADD COLUMN g AS (load_extension('/nowhere'))",
    "another table": "CREATE TABLE more (a)",
    "a table less": "DROP TABLE labels",
    "a virtual table": "CREATE VIRTUAL TABLE f USING fts5(a)",
}


@pytest.mark.parametrize("what", HOSTILE_SCHEMAS)
def test_a_schema_that_is_not_ours(index: Path, home: Path, what: str) -> None:
    with closing(sqlite3.connect(index / "catalogue.sqlite")) as db:
        db.create_function("load_extension", 1, lambda _: 1, deterministic=True)
        db.executescript(HOSTILE_SCHEMAS[what])
    ours = "not those that gentus makes|malformed database schema"
    with in_time():
        for use in (gentus.open, _add_to(home)):
            with pytest.raises(IndexFolderError, match=ours):
                use(index)
        assert re.search(ours, check(index)[0].what)


def test_the_database_of_another_program(index: Path, home: Path, tmp_path: Path) -> None:
    path = index / "catalogue.sqlite"
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE tables (id, name); INSERT INTO tables VALUES (1, 'theirs')")
    for use in (gentus.open, _add_to(home)):
        with in_time(), pytest.raises(IndexFolderError, match=r"catalogue\.sqlite"):
            use(index)
    with pytest.raises(IndexFolderError, match="another program"):
        gentus.build(home / "mine" / "lake", index, settings=TINY, workers=1)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM tables").fetchall() == [(1, "theirs")]


def forge(folder: Path, change: str) -> None:
    """Change rows of the catalogue, and their checksums with them."""
    with closing(connect(folder / "catalogue.sqlite", "rwc")) as db:
        assert db.execute(change).rowcount > 0
        db.commit()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tables SET name = x'ff00' WHERE name = 'fish_70.csv'",
        "UPDATE tables SET codes = 'text'",
        "UPDATE tables SET codes = x'00' WHERE assigned_in > 1",
        "UPDATE tables SET suffix = 'many', assigned_in = 'late'",
        "UPDATE tables SET assigned_in = 1e300",
        "UPDATE meta SET value = 'x' WHERE key = 'change_sequence'",
        "UPDATE meta SET value = '[]' WHERE key = 'config'",
        "UPDATE meta SET value = '{}' WHERE key = 'config'",
        "UPDATE meta SET value = '{\"' WHERE key = 'config'",
        "UPDATE meta SET value = 5 WHERE key = 'identifier_count'",
        "DELETE FROM meta",
        "DELETE FROM tables",
        "DELETE FROM removed",
    ],
)
def test_values_that_make_no_sense(index: Path, home: Path, right: Answer, change: str) -> None:
    forge(index, change)
    assert verdict(index, home, right) != "harmless"


def test_text_that_is_none(index: Path, home: Path, right: Answer) -> None:
    with closing(sqlite3.connect(index / "catalogue.sqlite")) as db, db:
        db.execute("UPDATE tables SET name = CAST(x'ffff' AS TEXT) WHERE name = 'fish_70.csv'")
    assert verdict(index, home, right) == "refused"


# --- files of the lake, and beside it ------------------------------------------------------------------


def test_a_path_out_of_the_lake_cannot_hide_behind_a_name(
    index: Path, home: Path, tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """A catalogue may come from others: what it opens elsewhere can be seen by the name."""
    from gentus.app.serve.index_handle import IndexHandle

    secret, lake = write_table(tmp_path / "secret.csv", rows_of("birds", 1)), home / "mine" / "lake"
    sneaky = lake / ".." / ".." / ".." / "secret.csv"
    for path in (secret, sneaky):
        forge(index, f"UPDATE tables SET path = '{path}', real_path = '{path}' WHERE name = 'fish_0.csv'")
        with gentus.open(index) as opened, pytest.raises(IndexFolderError, match=r"fish_0\.csv has the path"):
            opened.align(lake / "cities_0.csv", "fish_0.csv")
        with gentus.open(index) as opened, pytest.raises(IndexFolderError, match=r"fish_0\.csv has the path"):
            opened.union_plan(lake / "cities_0.csv", ["fish_0.csv"])
        assert any("has the path" in problem.what for problem in check(index))
    told = run("union", index, lake / "cities_0.csv", "--tables", "fish_0.csv", "-o", tmp_path / "all.csv")
    assert told.code != 0
    assert "birds" not in told.out
    forge(
        index, f"UPDATE tables SET name = '{secret}', path = '{secret}', real_path = '{secret}' WHERE id = 1"
    )
    with caplog.at_level("WARNING", "gentus.app.serve"):
        IndexHandle(index).index.close()
    assert f"1 tables lie outside of the lake {lake}, such as {secret}" in caplog.text


def test_an_older_catalogue_beside_newer_files_is_noticed(index: Path, home: Path, tmp_path: Path) -> None:
    old = (index / "catalogue.sqlite").read_bytes()
    with gentus.open(index) as opened:
        assert opened.compact()
    (index / "catalogue.sqlite").write_bytes(old)
    with pytest.raises(IndexFolderError):
        gentus.open(index)


# --- what this costs, and what it is made of ------------------------------------------------------------


def test_row_checksums_are_the_same_everywhere() -> None:
    """Written by one version of Python and read by another: these numbers never change."""
    assert row_checksums.row_checksum(1, "fish ü \U0001f41f.csv", b"\x00\xff", None, -5) == 637082043
    with pytest.raises(sqlite3.DatabaseError, match="the row of 1, 'a' is not what was written"):
        list(row_checksums.verified([(1, "a", row_checksums.row_checksum(1, "b"))]))


def test_a_damaged_row_gets_no_new_checksum(index: Path) -> None:
    """Changing or removing a table whose row was altered is refused: it would make damage look right."""
    with closing(sqlite3.connect(index / "catalogue.sqlite")) as db, db:
        db.execute("UPDATE tables SET suffix = suffix + 4 WHERE name = 'fish_0.csv'")
    with gentus.open(index) as opened, pytest.raises(IndexFolderError, match="is damaged"):
        opened.remove("fish_0.csv")


def test_all_columns_have_a_checksum_but_those_that_do_no_harm(index: Path) -> None:
    with closing(connect(index / "catalogue.sqlite", "ro")) as db:
        columns = {name for _, name, *_ in db.execute("PRAGMA table_info(tables)")}
    checked = {*row_checksums.NAME_COLUMNS, *row_checksums.ID_COLUMNS}
    assert columns - checked == {
        "size",
        "mtime_ns",
        "hash",
        "error",
        "name_checksum",
        "id_checksum",
    }


def test_a_check_that_finds_damage_says_so_in_json(index: Path, run: Run) -> None:
    with closing(sqlite3.connect(index / "catalogue.sqlite")) as db, db:
        db.execute("UPDATE tables SET name = 'fisj_0.csv' WHERE name = 'fish_0.csv'")
    ran = run("check", index, "--json")
    assert ran.code == 1
    assert any(
        "'fisj_0.csv' is not what was written" in one["what"] for one in json.loads(ran.out)["problems"]
    )
    assert np.all([one["file"] == "catalogue.sqlite" for one in json.loads(ran.out)["problems"]])
