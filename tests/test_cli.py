"""The command line, as people and scripts use it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    genes,
    make_lake,
    partly_fish,
    rows_of,
    strict_json,
    subject_of,
    write_pairs,
    write_table,
)

import gentus
from gentus.app.cli import main as cli
from gentus.app.cli.common import size_words
from gentus.extras import upgrade
from gentus.index.folder import Layout
from gentus.retrieval.trie import Trie
from gentus_bench.cli import main as bench_main


class Ran:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def json(self) -> Any:
        """The one document on stdout."""
        assert self.code in (0, 1), self.err
        return strict_json(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Ran:
        bench = arguments[:1] == ("bench",)  # a command of its own: gentus-bench
        monkeypatch.setattr(sys, "argv", ["gentus", *map(str, arguments[bench:])])
        capsys.readouterr()
        code: object = 0
        try:
            bench_main() if bench else cli.main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        assert isinstance(code, int)
        assert "Traceback" not in err
        return Ran(code, out, err)

    return run


@pytest.fixture
def copied(index_path: Path, tmp_path: Path) -> Path:
    return shutil.copytree(index_path, tmp_path / "my copy.index")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A lake of six tables, and three files that cannot be read."""
    lake = make_lake(tmp_path / "a lake", ["cities", "fish"], 3)
    (lake / "empty.csv").touch()
    (lake / "header.csv").write_text("a,b\n")
    (lake / "broken.csv").symlink_to("nowhere.csv")
    return lake


# --- index --------------------------------------------------------------------------------------------


def test_index_search_info_eval(run: Run, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "a new" / "index"
    ran = run("index", small, "-o", out)
    assert (ran.code, ran.out) == (0, "")
    assert "6 tables indexed in" in ran.err
    assert re.search(r"The index takes [0-9.]+ [kM]B on disk: .*catalogue [0-9.]+ [kM]B", ran.err)
    assert f"3 skipped: see gentus info '{out}' --skipped" in ran.err
    assert f"gentus search '{out}' YOUR_TABLE" in ran.err

    ran = run("search", out, small / "fish_0.csv", "-k", 2)
    assert ran.code == 0
    assert "deep/er/fish_1.csv" in ran.out
    assert "fish_0.csv  2 of 2 tables fit yours fully.  " in ran.out

    ran = run("info", out)
    assert "6 (3 skipped: see --skipped)" in ran.out
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[2][:3] == ["size", "on", "disk"]  # the whole first, then its parts
    assert {"model", "cache", "catalogue", "prefix"} <= {line[0] for line in lines[3:8]}
    size = run("info", out, "--json").json()["bytes"]
    assert size["total"] == sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    assert lines[2][3:] == size_words(size["total"]).split()
    assert "none (self-supervised)" in ran.out
    ran = run("info", out, "--skipped")
    assert ran.out.splitlines() == [
        "broken.csv: it is a link that leads nowhere or to itself; mend or remove it",
        "empty.csv: it is empty",
        "header.csv: it has a header row and no rows under it",
    ]
    skipped = run("info", out, "--skipped", "--json").json()["skipped"]
    assert {"name": "empty.csv", "reason": "it is empty"} in skipped

    truth = write_pairs(
        tmp_path / "truth.csv",
        [("fish_0.csv", "deep/er/fish_1.csv"), ("fish_0.csv", "gone.csv"), ("lost.csv", "fish_0.csv")],
    )
    ran = run("eval", out, "--groundtruth", truth, "-k", 3)
    assert ran.code == 0
    assert "query tables missing: 1 of 2 (lost.csv)" in ran.err
    assert "not in the lake: 1 (gone.csv)" in ran.err
    assert "map_prefix" in ran.out


def test_index_prints_one_document(run: Run, small: Path, tmp_path: Path) -> None:
    labels = write_pairs(
        tmp_path / "labels.csv", [("fish_0.csv", "deep/er/fish_1.csv"), ("fish_0.csv", "gone.csv")]
    )
    ran = run(
        *("index", f"{small}/", "-o", tmp_path / "index", "--labels", labels, "--codes", 3, "--levels", 2),
        *("--seed", 5, "--workers", 1, "--json"),
    )
    facts = ran.json()
    assert facts["seconds"] > 0
    assert (facts["tables"], facts["skipped"], facts["codebook_size"], facts["levels"]) == (6, 3, 3, 2)
    assert (facts["labels"]["pairs"], facts["labels"]["pairs_outside_the_lake"]) == (1, 1)
    assert "1 labelled pairs name tables that are not in the lake" in ran.err
    told = run("info", tmp_path / "index").out
    assert "1 pairs" in told
    assert "none (too few labelled queries to learn and validate another)" in told
    config = json.loads((tmp_path / "index" / "config.json").read_text())
    assert config["settings"]["seed"] == 5


def test_a_lake_with_nothing_to_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a.csv").touch()
    ran = run("index", tmp_path / "lake", "-o", tmp_path / "index")
    assert ran.code == 1
    assert "No table could be read" in ran.err
    assert f"gentus info {tmp_path / 'index'} --skipped" in ran.err
    assert run("info", tmp_path / "index", "--skipped").out == "a.csv: it is empty\n"


def test_index_that_cannot_begin(run: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    truth = tmp_path / "labels.csv"
    truth.write_text("query_table,candidate_table\na\n")
    for arguments, words in (
        ((tmp_path / "none", "-o", tmp_path / "index"), f"no lake at {tmp_path / 'none'}"),
        ((small, "-o", tmp_path / "file"), f"Cannot write the index to {tmp_path / 'file'}"),
        ((small, "-o", tmp_path / "index", "--labels", tmp_path / "no.csv"), "no.csv: No such file"),
        ((small, "-o", tmp_path / "index", "--labels", truth), "labels.csv, line 2"),
        ((small, "-o", small), "is the lake itself"),
    ):
        ran = run("index", *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert words in ran.err
    assert run("index", small).code == 2


def test_control_c_keeps_what_was_read(run: Run, lake: Path, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "index")
    command = [sys.executable, "-m", "gentus.app.cli.main", "index", str(lake), "-o", str(layout.root)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while _read_so_far(layout.catalogue) < 36:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT), err
    assert "The tables read so far are kept; run the same command to resume: gentus index" in err
    assert "Traceback" not in err
    ran = run("search", layout.root, lake / "fish_0.csv")
    assert ran.code == 1
    assert "not finished; run: gentus index" in ran.err
    times = [path.stat().st_mtime_ns for path in sorted(layout.cache.iterdir())]
    assert run("index", lake, "-o", layout.root).code == 0
    assert [path.stat().st_mtime_ns for path in sorted(layout.cache.iterdir())] == times
    (answer,) = run("search", layout.root, lake / "fish_0.csv", "--json").json()["queries"]
    assert len(answer["results"]) == 10


def _read_so_far(catalogue: Path) -> int:
    if not catalogue.exists():
        return 0
    try:
        db = sqlite3.connect(f"{catalogue.as_uri()}?mode=ro", uri=True)
        (count,) = db.execute("SELECT count(*) FROM tables WHERE chunk IS NOT NULL").fetchone()
    except sqlite3.OperationalError:  # not there yet
        return 0
    db.close()
    return int(count)


# --- search and eval ----------------------------------------------------------------------------------


def test_search_prints_one_document(run: Run, index_path: Path, lake: Path) -> None:
    ran = run("search", index_path, lake / "fish_0.csv", "-k", 4, "--json")
    (answer,) = ran.json()["queries"]  # the same shape for one query and for many
    assert ran.err == ""
    assert answer["query"] == str(lake / "fish_0.csv")
    assert [hit["rank"] for hit in answer["results"]] == [1, 2, 3, 4]
    assert all({"rank", "table", "score", "sid"} <= set(hit) for hit in answer["results"])
    assert {subject_of(hit["table"]) for hit in answer["results"]} == {"fish"}
    hits = gentus.open(index_path).search(lake / "fish_0.csv", k=4)
    assert [hit.to_dict() for hit in hits] == answer["results"]


def test_what_fits_and_that_nothing_does(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlike = write_table(tmp_path / "genes.csv", genes())
    partial = write_table(tmp_path / "partly.csv", partly_fish())
    fish = write_table(tmp_path / "fish.csv", rows_of("fish", 0))
    ran = run("search", index_path, unlike, partial, fish, "-k", 2)
    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    at = next(
        n for n, line in enumerate(lines) if line.startswith(f"{unlike} No table in this lake fits yours.")
    )
    assert lines[at + 1] == "The nearest, none of which fits:"
    assert lines.count("no column matches") == 2
    assert any(line.startswith(f"{partial} 2 of 2 tables fit yours partly.") for line in lines)
    assert lines.count("`name`, `kind` and `year` match; `locus` does not") == 2
    assert lines.count("# table fit columns score") == 3
    assert any(line.startswith("1 fish_0.csv full 4 of 4 ") for line in lines)
    assert "same rows as your table" in lines
    answers = run("search", index_path, unlike, partial, fish, "-k", 2, "--json").json()["queries"]
    assert [answer["fit"] for answer in answers] == ["none", "partial", "full"]
    assert answers[0]["verdict"] == "No table in this lake fits yours."
    assert answers[2]["results"][0]["same_rows"]["words"] == "same rows as your table"
    monkeypatch.setattr("gentus.index.engine.FEW", 2)  # as if they were very many
    many = run("search", index_path, unlike, partial, fish, "-k", 2, "--fit", "partial", "--json").json()
    fitting = [[hit for hit in answer["results"] if hit["fit"] != "none"] for answer in answers]
    assert [answer["results"] for answer in many["queries"]] == fitting


@pytest.mark.parametrize(
    ("options", "verdict", "hint"),
    [
        (["--fit", "partial"], "fits yours.", "--fit any shows the nearest."),
        (["--fit", "full"], "fits yours fully.", "--fit any shows the nearest."),
        (
            ["--min-score", "0.9"],
            "fits yours with a score of at least 0.9.",
            "--min-score 0 shows the nearest.",
        ),
    ],
)
def test_options_that_leave_nothing(
    run: Run, index_path: Path, tmp_path: Path, options: list[str], verdict: str, hint: str
) -> None:
    unlike = write_table(tmp_path / "genes.csv", genes())
    ran = run("search", index_path, unlike, *options)
    assert (ran.code, ran.err) == (0, "")
    assert f"No table in this lake {verdict}" in ran.out
    assert hint in ran.out
    (answer,) = run("search", index_path, unlike, *options, "--json").json()["queries"]
    assert (answer["fit"], answer["results"]) == ("none", [])
    assert run("search", index_path, unlike, options[0], "7").code == 2  # neither a fit nor a probability


def test_the_order_of_hits(run: Run, index_path: Path, lake: Path) -> None:
    (answer,) = run(
        "search", index_path, lake / "fish_0.csv", "-k", 30, "--order", "generated", "--json"
    ).json()["queries"]
    generated = [hit["generated"] for hit in answer["results"]]
    assert generated == sorted(generated, reverse=True)
    with gentus.open(index_path) as index:
        hits = index.search(lake / "fish_0.csv", k=30, order="generated")
    assert [hit.to_dict() for hit in hits] == answer["results"]


def test_verdicts_of_a_lake_that_has_vanished(run: Run, tmp_path: Path) -> None:
    """Signatures are in the index: no file is opened, and with --explain it is said that none could be."""
    lake = make_lake(tmp_path / "lake", ["fish", "cities"], 3)
    assert run("index", lake, "-o", tmp_path / "index").code == 0
    query = write_table(tmp_path / "partly.csv", partly_fish())
    before = run("search", tmp_path / "index", query, "--json").json()["queries"][0]["results"]
    shutil.rmtree(lake)
    after = run("search", tmp_path / "index", query, "--json").json()["queries"][0]["results"]
    assert after == before
    assert after[0]["fit"] == "partial"
    assert after[0]["columns"]["pairs"] == [["name", "name"], ["kind", "kind"], ["year", "year"]]
    ran = run("search", tmp_path / "index", query, "-k", 1, "--explain")
    assert (ran.code, "no longer there" in ran.out, "3 of 4" in ran.out) == (0, True, True)
    assert "Its columns are compared by what the index keeps of them" in " ".join(ran.out.split())


def test_several_queries_of_which_one_is_bad(
    run: Run, index_path: Path, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake)
    Path(tmp_path / "junk.parquet").write_bytes(b"junk")
    queries = [
        "fish_0.csv",
        tmp_path / "junk.parquet",
        tmp_path / "none.csv",
        "packed files/birds_ü_5.csv.gz",
    ]
    ran = run("search", index_path, *queries, "-k", 2, "--json")
    assert ran.code == 1
    assert f"{tmp_path / 'junk.parquet'}: it is named like a Parquet file" in ran.err
    assert f"{tmp_path / 'none.csv'}: it is neither a table of the index nor a file" in ran.err
    answers = ran.json()["queries"]
    assert [answer["query"] for answer in answers] == [str(query) for query in queries]
    assert [len(answer["results"]) for answer in answers] == [2, 0, 0, 2]
    assert [("error" in answer) for answer in answers] == [False, True, True, False]
    assert "packed files/birds_ü_5.csv.gz" not in [hit["table"] for hit in answers[3]["results"]]

    ran = run("search", index_path, *queries, "-k", 2)
    assert ran.code == 1
    assert ran.out.count("2 of 2 tables fit yours fully.") == 2
    assert "neither a table of the index nor a file" in ran.err


def test_k_is_checked(run: Run, index_path: Path, lake: Path) -> None:
    assert run("search", index_path, lake / "fish_0.csv", "-k", 0).code == 2
    assert run("search", index_path).code == 2
    (answer,) = run("search", index_path, lake / "fish_0.csv", "-k", 500, "--json").json()["queries"]
    assert len(answer["results"]) == 35


def test_eval_prints_one_document(run: Run, index_path: Path, lake: Path, tmp_path: Path) -> None:
    names = gentus.open(index_path).tables()
    pairs = [(q, c) for q in names if q.endswith("_0.csv") for c in names if subject_of(c) == subject_of(q)]
    truth = write_pairs(tmp_path / "truth.csv", pairs)
    ran = run("eval", index_path, "--groundtruth", truth, "-k", 5, "--json")
    report = ran.json()
    assert (ran.code, ran.err) == (0, "")
    assert {
        *("k", "queries", "map", "map_full", "map_prefix", "precision", "recall", "ms_p50", "ms_p95")
    } <= set(report)
    assert (report["k"], report["queries"]) == (5, 6)
    assert report["map"] > 0.9
    assert report["ms_p95"] >= report["ms_p50"] > 0
    assert report["missing_queries"] == report["missing_candidates"] == []


def test_eval_with_queries_elsewhere_and_missing_tables(run: Run, index_path: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "queries" / "q.csv", rows_of("fish", 31))
    (tmp_path / "queries" / "bad.csv").touch()
    pairs = [("q.csv", "fish_0.csv"), ("bad.csv", "fish_0.csv"), ("no.csv", "x.csv"), ("q.csv", "y.csv")]
    truth = write_pairs(tmp_path / "truth.csv", pairs)
    ran = run("eval", index_path, "--groundtruth", truth, "--queries", tmp_path / "queries", "--json")
    report = ran.json()
    assert (report["queries"], report["missing_queries"]) == (3, ["no.csv"])
    assert report["missing_candidates"] == ["x.csv", "y.csv"]
    assert report["unreadable"] == {"bad.csv": "it is empty"}
    assert "query tables missing: 1 of 3 (no.csv)" in ran.err
    assert "not in the lake: 2 (x.csv, y.csv)" in ran.err
    assert "bad.csv: it is empty; it counts as a query without results" in ran.err
    for path, words in ((tmp_path, "Is a directory"), (tmp_path / "no.csv", "No such file")):
        ran = run("eval", index_path, "--groundtruth", path)
        assert ran.code == 1
        assert f"{path}: {words}" in ran.err


# --- what can be wrong with an index ------------------------------------------------------------------


def test_an_index_that_is_none(run: Run, tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("file", "my shop.db"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    for path, words, hint in (
        (tmp_path / "none", "There is no index at", ["LAKE", "-o", str(tmp_path / "none")]),
        (tmp_path / "empty", "There is no index at", ["LAKE", "-o", str(tmp_path / "empty")]),
        (tmp_path / "none.csv", "There is no index at", ["LAKE", "-o", "INDEX"]),
        (tmp_path / "file", "is a file, not an index", ["LAKE", "-o", "INDEX"]),
        (tmp_path / "my shop.db", "is a file", [str(tmp_path / "my shop.db"), "-o", "my shop.index"]),
        (lake, "is not an index", [str(lake), "-o", "my lake.index"]),
    ):
        for command in (
            ["search", path, lake / "fish_0.csv", "--json"],
            ["info", path],
            ["info", path, "--skipped"],
            ["check", path],
            ["eval", path, "--groundtruth", lake / "fish_0.csv"],
        ):
            ran = run(*command)
            assert (ran.code, ran.out) == (1, "")
            assert f"{words} {path}" in ran.err or f"{path} {words}" in ran.err
            assert ran.err.endswith(f": {shlex.join(['gentus', 'index', *hint])}\n")


def test_no_hint_writes_an_index_into_data(
    run: Run, small: Path, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (small / "config.json").write_text('{"format": 3, "name": "of another program"}')
    files = sorted(tmp_path.rglob("*"))
    for folder in (tmp_path, small, small / "deep"):
        monkeypatch.chdir(folder)
        for command in (["info", small], ["check", small, "--repair"], ["search", small, "x.csv"]):
            ran = run(*command)
            assert ran.code == 1
            words = shlex.split(ran.err.rpartition(": ")[2])
            assert words[:3] == ["gentus", "index", str(small)]
            assert not Path(words[4]).exists()
            assert not Path(words[4]).resolve().is_relative_to(small)
    ran = run("index", index_path.parent, "-o", small)
    assert ran.code == 1
    assert "is a folder of other files. Give the index a folder of its own: gentus index" in ran.err
    assert f"-o '{tmp_path / 'a lake.index'}'" in ran.err
    assert "is an index, not a lake" in run("index", index_path, "-o", tmp_path / "new").err
    assert sorted(tmp_path.rglob("*")) == files
    monkeypatch.chdir(tmp_path)
    assert run(*shlex.split(run("info", "a lake").err.rpartition(": gentus ")[2])).code == 0
    assert "a lake is not an index; a lake.index is an index of it." in run("info", "a lake").err
    assert "not a URL" in run("info", "s3://bucket/lake").err


def test_arguments_in_the_wrong_order(
    run: Run, copied: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "größe 1.csv", rows_of("fish", 3))
    for typed, meant in (
        ("search 'größe 1.csv' 'my copy.index' -k 3", "search 'my copy.index' 'größe 1.csv' -k 3"),
        ("align none.csv 'my copy.index' x.csv", "align 'my copy.index' none.csv x.csv"),
        ("union 'größe 1.csv' 'my copy.index' -o a.csv", "union 'my copy.index' 'größe 1.csv' -o a.csv"),
        ("add 'a lake/' 'my copy.index'", "add 'my copy.index' 'a lake'"),
        ("remove fish_0.csv 'my copy.index'", "remove 'my copy.index' fish_0.csv"),
        ("describe fish_0.csv 'my copy.index'", "describe 'my copy.index' fish_0.csv"),
        ("sync 'a lake' 'my copy.index' --dry-run", "sync 'my copy.index' 'a lake' --dry-run"),
        ("index 'my copy.index' -o 'a lake'", "index 'a lake' -o 'my copy.index'"),
        ("index 'my copy.index' '--out=a lake'", "index 'a lake' '--out=my copy.index'"),
    ):
        ran = run(*shlex.split(typed))
        assert (ran.code, ran.out) == (1, "")
        assert "they are in the wrong order" in ran.err
        assert ran.err.endswith(f". Run: gentus {meant}\n")
    ran = run(*shlex.split("search 'my copy.index' 'größe 1.csv' -k 3"))  # as the first one says
    assert (ran.code, ran.err) == (0, "")
    assert run("index", "my copy.index", "-o", "no such folder").code == 1
    assert not (tmp_path / "no such folder").exists()


@pytest.mark.parametrize(
    "file",
    ["config.json", "model-1.safetensors", "catalogue.sqlite", "trie-1/codes.npy", "trie-1/tables.npy"],
)
def test_a_damaged_file_is_named(run: Run, copied: Path, lake: Path, file: str) -> None:
    for log in copied.glob("catalogue.sqlite-*"):
        log.unlink()
    path = copied / file
    data = path.read_bytes()
    for name, content in (
        ("missing", None),
        ("empty", b""),
        ("cut", data[: len(data) // 2]),
        ("junk", bytes(255 - byte for byte in data)),
        ("brief", b"{}"),
    ):
        path.unlink() if content is None else path.write_bytes(content)
        ran = run("search", copied, lake / "fish_0.csv")
        said = f"{name}: {ran.err}"
        assert (ran.code, ran.out) == (1, ""), said
        assert ran.err.startswith("Error: "), said
        assert len(ran.err.splitlines()) == 1, said
        assert str(path.parent) in ran.err, said
        assert path.name in ran.err or (file, name) == ("config.json", "missing"), said
        helps = ("index", "LAKE", "-o") if (file, name) == ("config.json", "missing") else ("check",)
        assert shlex.join(["gentus", *helps, str(copied)]) in ran.err, said  # its path needs quotes
        path.write_bytes(data)
    assert run("search", copied, lake / "fish_0.csv").code == 0


def test_arrays_that_do_not_fit_are_noticed(run: Run, copied: Path, lake: Path) -> None:
    shutil.copy(copied / "trie-1" / "suffixes.npy", copied / "trie-1" / "starts.npy")
    with pytest.raises(ValueError, match="do not fit each other"):
        Trie.load(copied / "trie-1")
    ran = run("search", copied, lake / "fish_0.csv")
    assert ran.code == 1
    assert "starts.npy is damaged" in ran.err


@pytest.mark.parametrize("version", [1, 99])
def test_an_index_of_another_format(run: Run, copied: Path, lake: Path, version: int) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "format": version}))
    with sqlite3.connect(copied / "catalogue.sqlite") as db:
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("ALTER TABLE tables RENAME COLUMN skipped TO other")
    db.close()
    build = shlex.join(["gentus", "index", config["lake"], "-o", str(copied)])
    commands = [["search", copied, lake / "fish_0.csv"], ["add", copied, lake / "fish_0.csv"]]
    commands += [[name, copied] for name in ("info", "duplicates", "sync", "refit", "check")]
    for command in (*commands, *([["index", lake, "-o", copied]] if version == 99 else [])):
        ran = run(*command)
        assert ran.code == 1
        assert f"{copied} has index format {version}" in ran.err
        assert ((build in ran.err), (f"upgrade: {upgrade()}" in ran.err)) == (version == 1, version == 99)
    if version == 99:  # what a newer gentus has learnt is not lost by mistake
        assert run("index", lake, "-o", copied, "--force").code == 0
    assert run("index", lake, "-o", copied).code == 0  # what the message says helps
    assert run("search", copied, lake / "fish_0.csv").code == 0


@pytest.mark.parametrize("file", ["config.json", "model-1.safetensors", "trie-1/codes.npy", "trie-1"])
def test_building_again_mends_a_damaged_index(run: Run, copied: Path, lake: Path, file: str) -> None:
    path = copied / file
    shutil.rmtree(path) if path.is_dir() else path.write_bytes(b"junk")
    assert run("index", lake, "-o", copied).code == 0
    assert run("search", copied, lake / "fish_0.csv").code == 0


def test_a_damaged_catalogue_is_not_written_over(run: Run, copied: Path, lake: Path) -> None:
    (copied / "catalogue.sqlite").write_bytes(b"junk" * 1000)
    ran = run("index", lake, "-o", copied)
    assert ran.code == 1
    assert f"{copied / 'catalogue.sqlite'} is damaged" in ran.err
    assert f"Delete {copied}" in ran.err


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (26_123, "26.1 kB"), (548_864, "549 kB")),
        *((999_600, "1.0 MB"), (1_900_000, "1.9 MB"), (99_960_000, "100 MB"), (3_456_000_000, "3.5 GB")),
        (12_345_678_901_234, "12346 GB"),
    ],
)
def test_sizes_are_told_as_people_count(count: int, words: str) -> None:
    assert size_words(count) == words


# --- the program ---------------------------------------------------------------------------------------


def test_version_and_no_command(run: Run) -> None:
    assert run("--version").out == f"gentus {gentus.__version__}\n"
    ran = run()
    assert "Usage: gentus" in ran.out + ran.err
    assert run("no-such-command").code == 2


def test_a_reader_that_stops_listening_is_no_error(index_path: Path) -> None:
    command = f"{sys.executable} -m gentus.app.cli.main info '{index_path}' --json | head -n 0"
    for unbuffered in ({}, {"PYTHONUNBUFFERED": "1"}):  # it is met as the program ends, or at once
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        environment |= unbuffered
        done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
        assert done.stderr == ""


def test_names_that_the_terminal_cannot_write(index_path: Path, lake: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "gentus.app.cli.main",
        "search",
        str(index_path),
        str(lake / "fish_0.csv"),
    ]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    plain = subprocess.run(command, capture_output=True, env=environment)
    assert (plain.returncode, plain.stderr) == (0, b"")
    document = subprocess.run([*command, "--json"], capture_output=True, env=environment)
    names = [hit["table"] for hit in json.loads(document.stdout)["queries"][0]["results"]]
    assert "packed files/fish_ü_5.csv.gz" in names
