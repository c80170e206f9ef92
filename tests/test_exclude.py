"""What of a lake is left out: patterns, `.gentusignore`, `--exclude`, and files that are added by name."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random

import pytest
from conftest import make_lake, rows_of, write_table
from test_cli import Run, run

import gentus
from gentus.lake import Excluded, scan
from gentus.lake.exclude import Exclude, Pattern, keeping, latest
from gentus.lake.listing_tasks import ListingTask, run_listing
from gentus.lake.rules import FileRule

__all__ = ["run"]  # a fixture


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("*.bak.csv", ["a.bak.csv", "x/y/a.bak.csv"], ["a.csv", "a.bak.csv.gz"]),
        ("old", ["old", "old/a.csv", "x/old/a.csv", "data/old/y/z.csv"], ["older/a.csv", "x/old.csv"]),
        ("old/", ["old/a.csv", "x/old/a.csv", "old/"], ["old", "x/old"]),
        ("/old", ["old", "old/a.csv"], ["x/old/a.csv"]),
        ("x/*.csv", ["x/a.csv"], ["x/y/a.csv", "y/x/a.csv"]),
        ("x/**/a.csv", ["x/a.csv", "x/y/z/a.csv"], ["x/b.csv", "a.csv", "xx/a.csv"]),
        ("x/**", ["x/a.csv", "x/y/a.csv"], ["x", "y/x/a.csv"]),
        ("**/tmp/*.csv", ["tmp/a.csv", "x/tmp/a.csv"], ["tmp/x/a.csv"]),
        ("./x/?.csv", ["x/a.csv"], ["x/ab.csv", "x/.csv"]),
        ("[a-c]1.csv", ["b1.csv", "x/c1.csv"], ["d1.csv", "b2.csv"]),
        ("[!a-c]1.csv", ["d1.csv"], ["b1.csv"]),
        (r"a\*.csv", ["a*.csv"], ["ab.csv"]),
        ("a[.csv", ["a[.csv"], ["a.csv"]),
        ("größe (1)+.csv", ["größe (1)+.csv"], ["größe 1.csv"]),
        ("*.db", ["sales.db/orders", "x/sales.db/orders"], ["sales.dbx/orders"]),
    ],
)
def test_a_pattern(pattern: str, matched: list[str], others: list[str]) -> None:
    exclude = Exclude.of([pattern])
    assert [name for name in matched if not exclude.by(name)] == []
    assert [name for name in others if exclude.by(name)] == []


def fits(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether parts of a pattern stand for all names of a path: slow, and by the definition."""
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    if parts[0] == "**":
        return fits(parts[1:], names) or fits(parts, names[1:])
    return fnmatchcase(names[0], parts[0]) and fits(parts[1:], names[1:])


def test_patterns_match_as_their_definition_says() -> None:
    random = Random(1)
    seen = set()
    for _ in range(4_000):
        words = ["a", "b", "?", "*", "**", "[ab]", "[!a]", "*a", "a*b*", "*a*?*b", "a**b"]
        parts = random.choices(words, k=random.randint(2, 5))
        names = ["".join(random.choices("abc", k=random.randint(1, 5))) for _ in range(random.randint(1, 5))]
        above = [names[:at] for at in range(1, len(names) + 1)]
        # The last part is one name at least; the pattern matches a path, or a folder above it.
        last = ["*", "**"] if parts[-1] == "**" else parts[-1:]
        expected = any(fits([*parts[:-1], *last], some) for some in above)
        assert Pattern("/".join(parts)).matches("/".join(names)) == expected, (parts, names)
        seen.add(expected)
        deeper = ["/".join([*names, *more]) for more in (["a"], ["b"], ["a", "b"])]
        if any(Pattern("/".join(parts)).matches(one) for one in deeper) and not expected:
            assert Pattern("/".join(parts)).may_match_in("/".join(names) + "/"), (parts, names)
    assert seen == {True, False}


HOSTILE = [
    *("a*a*a*a*a*a*a*a*b", "?*" * 2_000 + "b", "[ab]*" * 800 + "c", "*?" * 2_000 + "x"),
    *("**/" * 1_300 + "b", "**/a*/" * 600 + "b", "a/**/" * 800 + "b", "/".join(["**", "a*a"] * 500) + "/b"),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_no_pattern_takes_long(text: str) -> None:
    started = time.perf_counter()
    for pattern in (Pattern(text), Pattern("!" + text)):
        for name in ("a" * 4_000, "a/" * 2_000 + "a", "/".join(["a" * 200] * 20), "aa/" * 1_300):
            assert not pattern.matches(name)
            pattern.may_match_in(name + "/")
            FileRule(text, {}).matches(name)
    assert time.perf_counter() - started < 5  # without the mend, the first takes longer than the universe


def test_a_pattern_that_is_too_long_is_named(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", ["fish"], 2)
    long = "a" * 5_000
    (lake / ".gentusignore").write_text(f"*.bak\n\n{long}\n")
    with pytest.raises(ValueError, match=r"\.gentusignore, line 3: a pattern of 5,000 characters is"):
        gentus.build(lake, tmp_path / "my.index")
    (lake / ".gentusignore").unlink()
    (lake / "gentus.toml").write_text(f'[[files]]\npath = "{long}"\nheader = "no"\n')
    with pytest.raises(ValueError, match=r"gentus\.toml: \[\[files\]\] number 1: a pattern of 5,000 char"):
        gentus.build(lake, tmp_path / "my.index")


def test_the_last_pattern_that_matches_decides() -> None:
    exclude = Exclude.of(["*.csv", "!keep.csv", "archive/", "!/archive/2024/"])
    assert [
        name
        for name in ("a.csv", "keep.csv", "archive/a.csv", "archive/keep.csv", "archive/2024/a.csv", "b.tsv")
        if not exclude.by(name)
    ] == ["keep.csv", "archive/2024/a.csv", "b.tsv"]
    path = Path("archive")
    assert exclude.excluded("archive", path, folder=True) is None  # some of it is kept
    assert exclude.excluded("archive/2023", path, folder=True) is None  # it may hold a keep.csv
    exclude = Exclude.of(["archive/", "!/archive/2024/"])
    left_out = exclude.excluded("archive/2023", path, folder=True)
    assert left_out is not None
    assert left_out.reason == "it is excluded by archive/"
    assert Exclude.of(["x"]).by("y/x/a.csv") == Pattern("x")


@pytest.mark.parametrize("text", ["", "/", "!", "!/", "./", "[z-a]"])
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError, match="no pattern of files"):
        Pattern(text)


def test_a_name_taken_back_matches_itself_only() -> None:
    for name in ("a*.csv", "a[1].csv", "x y/ü?.csv", "a\\b.csv", "!a.csv", "#a.csv"):
        exclude = Exclude((Pattern("*.csv"), keeping(name)))
        assert exclude.by(name) is None
        assert exclude.by(name.replace("a", "b").replace("ü", "u") + "x.csv")
    assert latest(["a", "b"], ["a", "c"]) == ("b", "a", "c")


@pytest.fixture
def wide_lake(tmp_path: Path) -> Path:
    lake = make_lake(tmp_path / "my lake", ["fish", "cities"], 3)
    for name in ("archive/old/a.csv", "archive/b.csv", "fish_0.bak.csv", "deep/tmp/c.csv"):
        write_table(lake / name, rows_of("fish", len(name)))
    with sqlite3.connect(lake / "deep" / "own.db") as db:
        db.execute("CREATE TABLE t (name, kind)")
        db.executemany("INSERT INTO t VALUES (?, ?)", [("carp", "pond"), ("pike", "lake")])
    db.close()
    (lake / ".gentusignore").write_text("# not ours\n\narchive/\n*.db\n")
    return lake


def names(index: Path) -> set[str]:
    with gentus.open(index) as opened:
        return set(opened.tables())


ALWAYS = {
    *("fish_0.csv", "cities_0.csv", "deep/er/fish_1.csv", "deep/er/cities_1.csv"),
    *("semi/fish_2.semicolon.csv", "semi/cities_2.semicolon.csv"),
}


def test_ignored_files_and_patterns_that_are_remembered(run: Run, wide_lake: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    ran = run("index", wide_lake, "-o", index, "--exclude", "*.bak.csv", "--exclude", "/deep/tmp")
    assert ran.code == 0
    assert "4 files or folders excluded." in ran.err  # a folder that is left out is not opened
    assert names(index) == ALWAYS
    assert run("info", index, "--json").json()["excluded"] == 4
    told = "4 files or folders, by --exclude '*.bak.csv' --exclude /deep/tmp or .gentusignore"
    assert told in run("info", index).out
    write_table(wide_lake / "new.bak.csv", rows_of("fish", 5))
    write_table(wide_lake / "new.csv", rows_of("fish", 6))
    ran = run("sync", index)
    assert ran.out == "+ new.csv\n"
    assert "6 unchanged, 5 excluded" in ran.err
    assert names(index) == ALWAYS | {"new.csv"}

    dry = run("sync", index, "--exclude", "new*", "--dry-run")
    assert dry.out == "- new.csv\n"
    assert run("sync", index).out == ""
    assert run("sync", index, "--exclude", "new*", "--exclude", "!*.bak.csv", "--json").json()["removed"] == [
        "new.csv"
    ]
    assert names(index) == ALWAYS | {"fish_0.bak.csv", "new.bak.csv"}  # the last pattern decides
    (wide_lake / ".gentusignore").unlink()
    assert run("sync", index).code == 0
    assert names(index) >= {"archive/old/a.csv", "archive/b.csv", "deep/own.db/t"}
    assert run("refit", index).code == 0
    assert run("sync", index).out == ""


def test_a_file_that_a_person_names_is_added_and_kept(run: Run, wide_lake: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert run("index", wide_lake, "-o", index).code == 0
    before = names(index)
    ran = run("add", index, wide_lake / "archive" / "old" / "a.csv")
    assert ran.out == "+ archive/old/a.csv\n"
    assert "Excluded until now, and kept from now on: archive/old/a.csv" in ran.err
    assert run("sync", index).out == ""
    assert names(index) == before | {"archive/old/a.csv"}
    assert "--exclude '!/archive/old/a.csv'" in run("info", index).out
    ran = run("add", index, wide_lake / "deep")  # a folder that is not excluded: what is in it, may be
    assert (ran.out, "1 excluded" in ran.err) == ("", True)
    assert run("add", index, wide_lake / "archive").out == "+ archive/b.csv\n"
    assert run("sync", index).out == ""
    ran = run("remove", index, "archive/b.csv")
    assert "Still in the lake: archive/b.csv" in ran.err
    assert run("sync", index, "--exclude", "archive/").out == "- archive/old/a.csv\n"
    outside = write_table(tmp_path / "archive" / "d.csv", rows_of("fish", 3))
    assert run("add", index, outside).out == f"+ {outside}\n"  # patterns are for the lake
    assert run("sync", index).out == ""


def test_a_removed_table_that_is_excluded_does_not_return(run: Run, wide_lake: Path, tmp_path: Path) -> None:
    assert run("index", wide_lake, "-o", tmp_path / "index").code == 0
    (wide_lake / ".gentusignore").write_text("/fish_0.csv\n")
    ran = run("remove", tmp_path / "index", "fish_0.csv")
    assert (ran.code, "Still in the lake" in ran.err) == (0, False)


def test_a_line_that_is_no_pattern(run: Run, wide_lake: Path, tmp_path: Path) -> None:
    (wide_lake / ".gentusignore").write_text("*.csv\n!/\n")
    ran = run("index", wide_lake, "-o", tmp_path / "index")
    assert ran.code == 1
    assert f"{wide_lake / '.gentusignore'}, line 2: '!/' is no pattern of files" in ran.err
    assert not (tmp_path / "index").exists()


def test_tasks_list_the_same_as_a_scan(wide_lake: Path) -> None:
    for database, name in (("*.db", "deep/own.db"), ("own.db/", "deep/own.db/t"), ("*.db/?", "fish_0.csv")):
        exclude = Exclude.of(["archive/", "*.bak.csv", database, "!/archive/b.csv"])
        found = list(scan(wide_lake, exclude))
        assert run_listing(wide_lake, exclude, ListingTask(wide_lake)) == found
        left_out = {item.name for item in found if isinstance(item, Excluded)}
        assert left_out - {name} == {"archive/old", "fish_0.bak.csv"}
        assert (name in left_out) == (database != "*.db/?")  # which is meant from the root of the lake


def test_a_database_and_python(wide_lake: Path, tmp_path: Path) -> None:
    database = wide_lake / "deep" / "own.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE tmp_1 AS SELECT * FROM t")
    db.close()
    with gentus.build(database, tmp_path / "index", exclude=["tmp_*"]) as index:
        assert index.tables() == ["t"]
        assert index.info()["excluded"] == 1
        assert index.sync(exclude=["!tmp_1"]).added == ["tmp_1"]
