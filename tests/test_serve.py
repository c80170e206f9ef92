"""The API, over HTTP: searches, tables, alignments, unions, changes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, Rows, genes, make_lake, partly_fish, rows_of, subject_of, write_table
from served import TOKEN, Served, served

import gentus
from gentus.app.serve.families import FamilyMaker
from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.overview import project_2d
from gentus.index.check import check
from gentus.index.groups import Group


def families_made(api: Served) -> dict[str, Any]:
    """All families, once they are made."""
    for _ in range(200):
        told: dict[str, Any] = api.get("/api/groups").json()
        if told["state"] != "computing":
            return told
        time.sleep(0.05)
    raise AssertionError("families are not made in 10 seconds")


@pytest.fixture(scope="module")
def api(index_path: Path) -> Iterator[Served]:
    with served(index_path) as client:
        families_made(client)  # so that answers stay the same
        yield client


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small index, not to be changed."""
    folder = tmp_path_factory.mktemp("small")
    lake = make_lake(folder / "a lake", ["cities", "fish"], 3)
    gentus.build(lake, folder / "small.index", settings=QUICK, workers=1).close()
    return folder / "small.index"


@pytest.fixture
def own(small: Path, tmp_path: Path) -> Iterator[Served]:
    """A server of a small index that may be changed, with a token."""
    with served(shutil.copytree(small, tmp_path / "own.index"), token=TOKEN) as client:
        yield client


def as_csv(subject: str, seed: int = 77) -> bytes:
    return as_bytes(rows_of(subject, seed))


def as_bytes(rows: Rows) -> bytes:
    return "".join(",".join(row) + "\n" for row in rows).encode()


def upload(api: Served, subject: str = "fish") -> str:
    answer = api.send_file("/api/upload", "mine.csv", as_csv(subject)).json()
    return str(answer["upload"])


# --- what is served ------------------------------------------------------------------------------------


def test_index(api: Served) -> None:
    told = api.get("/api/index").json()
    assert (told["name"], told["tables"], told["levels"]) == ("my.index", 36, 16)
    assert told["read_only"] is True  # there is no token
    assert told["limits"] == {"upload_bytes": 64 << 20, "rows": 1_000_000, "columns": 4000}
    assert told["version"] == gentus.__version__
    assert api.get("/index.json").json() == told


def test_tables_by_page_and_by_words(api: Served) -> None:
    first = api.get("/api/tables", params={"limit": 5}).json()
    assert (first["total"], first["offset"], len(first["tables"])) == (36, 0, 5)
    rest = api.get("/api/tables", params={"offset": 5, "limit": 100}).json()
    names = [table["name"] for table in first["tables"] + rest["tables"]]
    assert names == sorted(names)
    assert len(set(names)) == 36
    found = api.get("/tables.json", params={"filter": "FISH csv"}).json()
    assert found["total"] == 4
    assert {subject_of(table["name"]) for table in found["tables"]} == {"fish"}
    assert api.get("/api/tables", params={"filter": "Ü"}).json()["total"] == 6  # also in other letters
    (entry,) = api.get("/api/tables", params={"filter": "fish_0"}).json()["tables"]
    assert (entry["rows"], entry["columns"], entry["more_rows"]) == (12, 4, False)
    assert entry["sid"].count("-") == 15


@pytest.mark.parametrize("name", ["fish_0.csv", "typed/fish_3.parquet", "typed/lines/fish_4.jsonl"])
def test_a_table_of_the_lake(api: Served, name: str) -> None:
    told = api.table(name, rows=3)
    assert (told["name"], told["rows"], told["more_rows"]) == (name, 12, False)
    rows = rows_of("fish", int(name.rsplit("_", 1)[1][0]))
    assert [column["name"] for column in told["columns"]] == rows[0]
    assert [column["type"] for column in told["columns"]] == ["text", "text", "number", "number"]
    assert told["sample"] == rows[1:4]
    kinds = told["columns"][1]
    assert kinds["filled"] == 1
    assert kinds["distinct"] == len({row[1] for row in rows[1:]})
    assert set(kinds["examples"]) <= {row[1] for row in rows[1:]}
    assert told["sid"] == api.get("/api/tables", params={"filter": name}).json()["tables"][0]["sid"]
    assert api.get("/table.json", params={"name": name, "rows": 3}).json() == told


def test_rows_of_a_file_that_is_read_in_parts(api: Served) -> None:
    """A large file of few rows is sampled: the answer says that there are more."""
    row = b",".join([b"x" * 100] * 60)
    header = b",".join(b"name %d" % at for at in range(60))
    for rows, more in ((100, False), (400, True)):
        sent = header + b"\n" + b"\n".join([row] * rows)
        told = api.send_file("/api/upload", "wide.csv", sent).json()
        assert told["more_rows"] is more
        assert told["rows"] == rows if not more else told["rows"] < rows
        table = api.get("/api/table", params={"upload": told["upload"]}).json()
        assert (table["rows"], table["more_rows"]) == (told["rows"], more)


def test_cells_are_text_or_nothing(api: Served) -> None:
    sent = b"a;b;c\n1;<script>alert(1)</script>;\n2;null;x\n"
    key = api.send_file("/api/upload", "../../odd name.csv", sent).json()
    assert (key["name"], key["rows"], key["columns"]) == ("odd name.csv", 2, ["a", "b", "c"])
    told = api.get("/api/table", params={"upload": key["upload"]}).json()
    assert told["sample"] == [["1", "<script>alert(1)</script>", None], ["2", None, "x"]]
    assert told["sid"] is None
    assert [column["filled"] for column in told["columns"]] == [1, 0.5, 0.5]


def test_families(api: Served, index_path: Path) -> None:
    told = families_made(api)
    with gentus.open(index_path) as index:
        groups = index.groups()
    assert (told["state"], told["total"], told["single"]) == ("ready", len(groups), groups.single)
    assert told["grouped"] + told["single"] == 36
    assert [(one["id"], one["name"], one["size"]) for one in told["groups"]] == [
        (group.id, group.name, group.size) for group in groups
    ]
    assert told["groups"][0]["tables"] == groups[0].tables[:5]
    assert api.get("/groups.json", params={"offset": 1, "limit": 1}).json()["groups"] == told["groups"][1:2]
    assert api.get("/api/groups", params={"filter": "no such words"}).json()["total"] == 0

    # A family is named by any of its tables; lists, tables, the map and the tree say which one a table is in.
    first = groups[0]
    known = {"id": 1, "name": first.name, "size": first.size, "example": first.example}
    for table in first.tables[:2]:
        family = api.get("/api/group", params={"table": table, "limit": 1000}).json()
        assert family["group"] == known
        assert [one["name"] for one in family["tables"]] == first.tables
        assert api.get("/api/table", params={"name": table}).json()["group"] == known
    assert family["tables"][0]["group"] == known
    assert api.get("/group.json", params={"table": "nosuch.csv"}).status_code == 404
    of = {table: group.id for group in groups for table in group.tables}
    listed = api.get("/api/tables", params={"limit": 1000}).json()
    assert {one["name"]: one["group"] and one["group"]["id"] for one in listed["tables"]} == {
        one["name"]: of.get(one["name"]) for one in listed["tables"]
    }
    points = api.get("/api/map").json()
    assert [point[2] for point in points["points"]] == [of.get(name, 0) for name in points["names"]]
    (below,) = (one for one in api.get("/api/tree").json()["children"] if first.example in one["examples"])
    assert 0 < below["group"]["size"] <= below["tables"]


def test_families_follow_the_index(own: Served) -> None:
    before = families_made(own)
    assert own.post("/api/tables", files={"file": ("new.csv", b"a,b\n1,2\n")}, headers=bearer()).is_success
    now = own.get("/api/groups").json()  # those of before, until the new ones are made
    assert now["groups"] == before["groups"]
    assert now["state"] in ("computing", "ready")
    after = families_made(own)
    assert after["grouped"] + after["single"] == before["grouped"] + before["single"] + 1


def test_families_that_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    maker, begin = FamilyMaker(), threading.Event()

    def fails() -> list[Group]:
        begin.wait(10)
        raise RuntimeError("no memory")

    state, later = object(), object()
    assert maker.get(state, fails)[1] == "computing"
    assert maker.get(state, fails)[1] == "computing"  # one thread is enough
    begin.set()
    for _ in range(200):
        if maker.get(state, fails)[1] == "failed":
            break
        time.sleep(0.05)
    families, told = maker.get(state, fails)
    assert (told, len(families)) == ("failed", 0)
    assert "no memory" in caplog.text
    assert maker.get(later, list)[1] == "computing"  # the next state of the index is tried again


def test_map_and_tree(api: Served, index_path: Path) -> None:
    told = api.get("/api/map").json()
    assert told["total"] == len(told["names"]) == len(told["points"]) == 36
    assert max(abs(x) for point in told["points"] for x in point[:2]) == pytest.approx(1, abs=1e-3)
    with gentus.open(index_path) as index:
        first = {name: int((index.sid(name) or "").split("-")[0]) for name in told["names"]}
    assert api.get("/map.json").json() == told
    assert api.get("/api/map", headers={"accept-encoding": "identity"}).json() == told

    tree = api.get("/api/tree").json()
    assert (tree["prefix"], tree["tables"]) == ([], 36)
    assert sum(child["tables"] for child in tree["children"]) == 36
    child = tree["children"][0]
    below = api.get("/tree.json", params={"prefix": str(child["code"])}).json()
    assert (below["prefix"], below["tables"]) == ([child["code"]], child["tables"])
    assert {name for name, code in first.items() if code == child["code"]} == set(below["below"])
    assert set(child["examples"]) <= set(below["below"])
    assert api.get("/api/tree", params={"prefix": "255-255"}).json()["tables"] == 0
    assert api.get("/api/tree", params={"prefix": "-".join("1" * 17)}).status_code == 422
    assert api.get("/api/tree", params={"prefix": "a"}).status_code == 422


def test_duplicates(own: Served) -> None:
    assert own.get("/duplicates.json").json()["groups"] == []
    rows = rows_of("fish", 0)
    turned = "".join(",".join(reversed(row)) + "\n" for row in rows).encode()
    assert own.post("/api/tables", files={"file": ("copy.csv", turned)}, headers=bearer()).status_code == 201
    told = own.get("/api/duplicates", params={"limit": 1}).json()
    (group,) = told["groups"]
    (copy,) = group["duplicates"]
    assert (group["table"], copy["table"], copy["kind"]) == ("added/copy.csv", "fish_0.csv", "exact")
    assert (copy["rows"], copy["columns"], told["tables"]) == (12, 4, 7)
    assert told["exact_bytes"] > 0
    assert own.get("/api/duplicates", params={"min_share": 0.1}).status_code == 422


def test_overview_while_the_index_is_being_refreshed(small: Path) -> None:
    handle = IndexHandle(small)
    with handle.index.catalogue.transaction(read=True):  # as a refresh in another thread has it open
        assert len(handle.overview()) == 6
    handle.index.close()


def test_points_of_a_plane() -> None:
    chance = np.random.default_rng(0)
    vectors = (chance.normal(size=(500, 8)) * [9, 5, 1, 1, 1, 1, 1, 1]).astype(np.float32)
    flat = project_2d(vectors)
    assert abs(np.corrcoef(flat[:, 0], vectors[:, 0])[0, 1]) > 0.99
    assert abs(np.corrcoef(flat[:, 1], vectors[:, 1])[0, 1]) > 0.98
    assert project_2d(vectors[:0]).shape == (0, 2)
    assert np.allclose(project_2d(np.ones((3, 1), np.float32)), 0)


# --- searches ------------------------------------------------------------------------------------------


def test_search_in_every_way(api: Served, index_path: Path) -> None:
    rows = rows_of("fish", 77)
    as_rows = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    by_file = api.send_file("/api/search", "mine.csv", as_csv("fish"), k="5").json()
    key = by_file["upload"]
    by_upload = api.post_json("/api/search", {"query": {"upload": key}, "k": 5}).json()
    by_rows = api.post_json("/api/search", {"query": {"rows": as_rows}, "k": 5}).json()
    assert (by_file["query"], by_file["query_columns"]) == ("mine.csv", rows[0])
    assert (by_rows["query"], by_upload["upload"]) == ("rows.jsonl", key)
    assert by_upload["results"] == by_file["results"] == by_rows["results"]
    assert [hit["rank"] for hit in by_file["results"]] == [1, 2, 3, 4, 5]
    assert {subject_of(hit["table"]) for hit in by_file["results"]} == {"fish"}
    always = {"rank", "table", "score", "fit", "columns", "why", "sid", "generated", "rows", "more_rows"}
    assert set(by_file["results"][0]) == always
    assert by_file["results"][0]["columns"] == {
        **{"matched": 4, "query": 4, "table": 4, "missing": []},
        "pairs": [[name, name] for name in rows[0]],
    }
    assert (by_file["fit"], by_file["verdict"]) == ("full", "5 of 5 tables fit yours fully.")

    by_name = api.get("/api/search", params={"table": "fish_0.csv", "k": 3}).json()
    assert by_name["upload"] is None
    assert by_name == {
        **api.post_json("/api/search", {"query": {"table": "fish_0.csv"}, "k": 3}).json(),
        "ms": by_name["ms"],
    }
    with gentus.open(index_path) as index:
        expected = index.search(index.sources()["fish_0.csv"], k=3)
    assert [hit["table"] for hit in by_name["results"]] == [hit.table for hit in expected]
    assert [hit["score"] for hit in by_name["results"]] == [hit.score for hit in expected]


def test_what_fits_and_that_nothing_does(api: Served) -> None:
    """In the form, the body and the query string alike."""
    unlike = as_bytes(genes())
    nothing = api.send_file("/api/search", "genes.csv", unlike, k="3").json()
    assert (nothing["fit"], nothing["verdict"]) == ("none", "No table in this lake fits yours.")
    assert [(hit["fit"], hit["why"]) for hit in nothing["results"]] == [("none", "no column matches")] * 3
    for filtered in (
        api.send_file("/api/search", "genes.csv", unlike, fit="partial"),
        api.send_file("/api/search?fit=partial", "genes.csv", unlike),
        api.post_json("/api/search", {"query": {"upload": nothing["upload"]}, "fit": "partial"}),
        api.post_json("/api/search", {"query": {"upload": nothing["upload"]}, "min_score": 0.5}),
    ):
        assert (filtered.json()["results"], filtered.json()["fit"]) == ([], "none"), filtered.text
    partly = api.send_file("/api/search", "partly.csv", as_bytes(partly_fish()), k="2").json()
    assert (partly["fit"], partly["verdict"]) == ("partial", "2 of 2 tables fit yours partly.")
    first = partly["results"][0]
    assert first["why"] == "`name`, `kind` and `year` match; `locus` does not"
    assert (first["columns"]["matched"], first["columns"]["missing"]) == (3, ["locus"])
    by_name: dict[str, Any] = {"table": "fish_0.csv", "k": 35}
    rest = api.get("/api/search", params=by_name).json()["results"]
    fitting = api.get("/api/search", params={**by_name, "fit": "full"}).json()["results"]
    assert [hit["table"] for hit in fitting] == [hit["table"] for hit in rest if hit["fit"] == "full"]
    assert len(fitting) >= 5
    fully = {"query": {"upload": partly["upload"]}, "fit": "full"}
    assert api.post_json("/api/search", fully).json()["results"] == []
    least = max(hit["score"] for hit in rest)
    likely = api.get("/api/search", params={**by_name, "min_score": least}).json()["results"]
    assert [hit["table"] for hit in likely] == [hit["table"] for hit in rest if hit["score"] >= least]
    assert 0 < len(likely) < len(rest)
    pure = api.get("/api/search", params={**by_name, "order": "generated"}).json()["results"]
    assert [hit["generated"] for hit in pure] == sorted((hit["generated"] for hit in pure), reverse=True)


def test_the_same_rows_are_said(api: Served, lake: Path) -> None:
    copy = (lake / "fish_0.csv").read_bytes()
    (hit,) = api.send_file("/api/search", "copy.csv", copy, k="1").json()["results"]
    assert hit["table"] == "fish_0.csv"
    assert hit["same_rows"] == {"kind": "exact", "share": 1.0, "rank": 0, "words": "same rows as your table"}


def test_search_explains(api: Served) -> None:
    told = api.get("/api/search", params={"table": "fish_0.csv", "k": 2, "explain": True}).json()
    for hit in told["results"]:
        assert hit["alignment"]["table"] == hit["table"]
        assert hit["alignment"]["pairs"]


def test_align(api: Served) -> None:
    asked = {"query": {"upload": upload(api)}, "table": "typed/fish_3.parquet"}
    told = api.post_json("/api/align", asked).json()
    assert told["query_columns"] == told["table_columns"] == ["name", "kind", "size", "year"]
    assert [(pair["query"]["name"], pair["table"]["name"]) for pair in told["pairs"]] == [
        (name, name) for name in told["query_columns"]
    ]
    assert all(pair["reason"] for pair in told["pairs"])
    nameless = api.post_json("/api/align", {**asked, "names": False}).json()
    assert not any("name" in pair["reason"] for pair in nameless["pairs"])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"query": {"table": "nothing.csv"}}, 404, "no table 'nothing.csv'"),
        ({"query": {"table": "/etc/passwd"}}, 404, "no table"),
        ({"query": {"table": "../my lake/fish_0.csv"}}, 404, "no table"),
        ({"query": {"upload": "x"}}, 404, "send the file again"),
        ({"query": {}}, 422, "exactly one of"),
        ({"query": {"table": "a", "upload": "b"}}, 422, "exactly one of"),
        ({"query": {"path": "/etc/passwd"}}, 422, "the field 'query.path' is not known here"),
        ({}, 422, "the field 'query' is missing"),
        ({"k": 3}, 422, "the field 'query' is missing"),
        ({"query": "fish_0.csv"}, 422, "the field 'query' has to be an object"),
        ({"query": {"table": 5}}, 422, "the field 'query.table' has to be text"),
        ({"query": {"rows": {"a": 1}}}, 422, "the field 'query.rows' has to be a list"),
        ({"query": {"table": "fish_0.csv"}, "k": "many"}, 422, "the field 'k' has to be a whole number"),
        ({"query": {"table": "a.csv"}, "explain": 5}, 422, "the field 'explain' has to be true or false"),
        ([], 422, "the body has to be an object"),
        ({"query": {"rows": [{}]}}, 422, ""),
        ({"query": {"rows": [{"a": ""}]}}, 422, "rows.jsonl: "),
        ({"query": {"table": "fish_0.csv"}, "k": 0}, 422, "the field 'k' has to be at least 1"),
        ({"query": {"table": "fish_0.csv"}, "k": 101}, 422, "the field 'k' has to be at most 100"),
        (
            {"query": {"table": "a.csv"}, "fit": "good"},
            422,
            "the field 'fit' has to be one of 'any', 'partial'",
        ),
        ({"query": {"table": "a.csv"}, "order": "x"}, 422, "the field 'order' has to be one of 'aligned' or"),
        ({"query": {"table": "a.csv"}, "min_score": 90}, 422, "the field 'min_score' has to be at most 1"),
        ({"query": {"table": "a.csv"}, "min_score": "x"}, 422, "the field 'min_score' has to be a number"),
    ],
)
def test_searches_that_cannot_be(api: Served, body: Any, status: int, words: str) -> None:
    answer = api.post_json("/api/search", body)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert str(api.server.uploads.folder) not in answer.text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.exe", b"MZ", "send a CSV"),
        ("a", b"a,b\n1,2\n", "send a CSV"),
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"a,b\n", "no rows"),
        ("a.parquet", b"a,b\n1,2\n", "Parquet"),
        ("a.parquet", b"PAR1" + bytes(100), "cannot be read"),
        ("a.csv", b"SQLite format 3\0" + bytes(100), "database"),
        ("a.sqlite", b"SQLite format 3\0" + bytes(100), "send a CSV"),
        ("a.json", b"not json at all", ""),
        ("a.xlsx", b"PK\x03\x04nothing", ""),
        ("a.csv.gz", b"\x1f\x8b\x08\x00broken", "gzip"),
    ],
)
def test_files_that_are_no_tables(api: Served, name: str, content: bytes, words: str) -> None:
    before = len(api.server.uploads)
    for path in ("/api/upload", "/api/search"):
        answer = api.send_file(path, name, content)
        assert answer.status_code == 422, answer.text
        assert words in answer.json()["error"]
        assert str(api.server.uploads.folder) not in answer.text
    assert len(api.server.uploads) == before
    assert not list(api.server.uploads.folder.glob("*.exe"))


def test_a_workbook_of_several_sheets(api: Served) -> None:
    book = openpyxl.Workbook()
    for title in ("one; two", "other"):
        sheet = book.create_sheet(title)
        for row in rows_of("fish", 1):
            sheet.append(row)
    content = io.BytesIO()
    book.save(content)
    answer = api.send_file("/api/upload", "book.xlsx", content.getvalue())
    assert answer.status_code == 422
    words = "book.xlsx: it holds 3 tables (Sheet, one; two, other); save the one you mean as its own file"
    assert answer.json() == {"error": words}


def test_k_in_the_body_and_in_the_query_string(api: Served) -> None:
    def found(answer: httpx.Response) -> int:
        assert answer.status_code == 200, answer.text
        return len(answer.json()["results"])

    fish, by_name = as_csv("fish"), {"query": {"table": "fish_0.csv"}}
    assert found(api.send_file("/api/search", "a.csv", fish)) == 10
    assert found(api.send_file("/api/search", "a.csv", fish, k="3")) == 3
    assert found(api.send_file("/api/search?k=4", "a.csv", fish)) == 4
    assert found(api.send_file("/api/search?k=4", "a.csv", fish, k="4")) == 4
    assert found(api.post_json("/api/search?k=5", by_name)) == 5
    assert found(api.post_json("/api/search?k=5", {**by_name, "k": 5})) == 5
    explained = api.send_file("/api/search?k=1", "a.csv", fish, explain="true").json()
    assert explained["results"][0]["alignment"]["pairs"]
    words = "k is 4 in the query string and 3 in the body; give it once"
    for answer in (
        api.send_file("/api/search?k=4", "a.csv", fish, k="3"),
        api.post_json("/api/search?k=4", {**by_name, "k": 3}),
    ):
        assert (answer.status_code, answer.json()) == (422, {"error": words})
    for path, words in (
        ("/api/search?k=0", "the parameter 'k' has to be at least 1"),
        ("/api/search?k=x", "the parameter 'k' has to be a whole number"),
        ("/api/search?min_score=nan", "the parameter 'min_score' has to be a finite number"),
        ("/api/search?fit=no", "the parameter 'fit' has to be one of 'any', 'partial' or 'full'"),
        ("/api/search?minscore=0.5", "the parameter 'minscore' is not known here"),
    ):
        answer = api.post_json(path, by_name)
        assert (answer.status_code, answer.json()) == (422, {"error": words})
    assert api.get("/api/search").json() == {"error": "the parameter 'table' is missing"}


def test_forms_that_cannot_be(api: Served) -> None:
    assert api.post("/api/upload", data={"a": "b"}).status_code == 415  # a form, but none with files
    assert api.post("/api/search", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    cut = api.post("/api/search", content=b"{", headers={"content-type": "application/json"})
    assert cut.status_code == 422
    assert cut.json()["error"].startswith("the body is not valid JSON: ")
    file = ("a.csv", as_csv("fish"))
    forms: list[tuple[str, dict[str, Any], str]] = [
        ("/api/upload", {"other": file}, "the field 'file' is missing (there is only 'other')"),
        ("/api/search", {"k": (None, "3")}, "the field 'file' is missing; with curl: -F file=@mine.csv"),
        ("/api/search", {"file": (None, "a,b")}, "the field 'file' is text and has to be a file"),
        ("/api/search", {"file": file, "k": (None, "many")}, "the field 'k' has to be a whole number"),
        ("/api/search", {"file": file, "kk": (None, "3")}, "the field 'kk' is not known here"),
        ("/api/upload", {"file": file, "k": (None, "3")}, "the field 'k' is not known here"),
    ]
    for path, files, words in forms:
        answer = api.post(path, files=files)
        assert (answer.status_code, words in answer.json()["error"]) == (422, True), answer.text
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert api.post("/api/upload", content=b"--x\r\nnonsense", headers=broken).status_code in (400, 422)


# --- unions --------------------------------------------------------------------------------------------


def plan_for(api: Served, query: dict[str, Any], tables: list[str], **options: Any) -> Any:
    answer = api.post_json("/api/union/plan", {"query": query, "tables": tables, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_wide_union(tmp_path: Path) -> None:
    """More columns than the memory of one union has room for."""
    header = [f"value {at}" for at in range(1200)]
    rows = [[f"{at % 97 + row / 4}" for at in range(1200)] for row in range(12)]
    write_table(tmp_path / "lake" / "other.csv", [header, *rows])
    gentus.build(tmp_path / "lake", tmp_path / "index", settings=QUICK, workers=1).close()
    with served(tmp_path / "index") as api:
        sent = (tmp_path / "lake" / "other.csv").read_bytes()
        query = {"upload": api.send_file("/api/upload", "mine.csv", sent).json()["upload"]}
        plan = plan_for(api, query, ["other.csv"])
        assert len(plan["columns"]) == 1200
        told = api.post_json("/api/union/preview", {"plan": plan, "query": query, "rows": 8}).json()
        assert (len(told["columns"]), len(told["rows"]), told["total"]) == (1202, 8, 24)
        assert [row[5] for row in told["rows"]] == 2 * ["5.0", "5.25", "5.5", "5.75"]


def test_union_from_plan_to_file(api: Served, lake: Path) -> None:
    query = {"upload": upload(api)}
    tables = ["fish_0.csv", "typed/fish_3.parquet", "typed/lines/fish_4.jsonl"]
    plan = plan_for(api, query, tables)
    assert str(lake) not in json.dumps(plan)
    assert "path" not in json.dumps(plan)
    assert [table["name"] for table in plan["tables"]] == tables
    assert plan["query"]["name"] == "mine.csv"

    told = api.post_json("/api/union/preview", {"plan": plan, "query": query, "rows": 8}).json()
    assert [column["name"] for column in told["columns"]] == [
        *("name", "kind", "size", "year"),
        *("_source_table", "_source_row"),
    ]
    assert [column["type"] for column in told["columns"]][2:4] == ["DOUBLE", "BIGINT"]
    assert len(told["rows"]) == 8
    assert {row[4] for row in told["rows"]} == {"mine.csv", *tables}
    assert all(isinstance(cell, str) for row in told["rows"] for cell in row)
    assert told["total"] == 48

    asked = {"plan": plan, "query": query, "format": "csv"}
    file = api.post_json("/api/union/download", asked)
    assert file.headers["content-type"].startswith("text/csv")
    assert 'filename="mine-union.csv"' in file.headers["content-disposition"]
    assert int(file.headers["content-length"]) == len(file.content)
    rows = list(csv.reader(io.StringIO(file.text)))
    assert len(rows) == 1 + 48
    assert [row[:4] for row in rows[1:13]] == rows_of("fish", 77)[1:]
    assert [row[0] for row in rows[13:25]] == [row[0] for row in rows_of("fish", 0)[1:]]
    parquet = api.post_json("/api/union/download", {**asked, "format": "parquet"})
    table = pq.read_table(io.BytesIO(parquet.content))
    assert table.num_rows == 48
    workbook = api.post_json("/api/union/download", {**asked, "format": "xlsx"})
    assert 'filename="mine-union.xlsx"' in workbook.headers["content-disposition"]
    assert openpyxl.load_workbook(io.BytesIO(workbook.content)).active.max_row == 49
    lines = api.post_json("/api/union/download", {**asked, "format": "jsonl"}).text.splitlines()
    assert (len(lines), json.loads(lines[0])["_source_row"]) == (48, 1)
    assert not list(api.server.uploads.folder.glob("union-*"))  # nothing is left


def test_a_pair_is_dropped_and_another_made(api: Served) -> None:
    query = {"table": "fish_0.csv"}
    plan = plan_for(api, query, ["deep/er/fish_1.csv"], provenance=False)
    (table,) = plan["tables"]
    table["columns"] = [
        {"from": "kind", "into": "name"},
        *(pair for pair in table["columns"] if pair["into"] not in ("name", "kind")),
    ]
    told = api.post_json("/api/union/preview", {"plan": plan, "query": query, "rows": 24}).json()
    theirs = told["rows"][12:]
    assert [row[0] for row in theirs] == [row[1] for row in rows_of("fish", 1)[1:]]
    assert {row[1] for row in theirs} == {None}


def test_unions_of_rows_and_options(api: Served) -> None:
    rows = rows_of("fish", 0)
    query = {"rows": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]}
    plan = plan_for(api, query, ["fish_0.csv"], distinct=True, keep_extra=True, provenance=False)
    assert plan["distinct"] is True
    told = api.post_json("/api/union/preview", {"plan": plan, "query": query, "rows": 50}).json()
    assert len(told["rows"]) == 12  # all of them are there twice
    assert told["total"] is None


def test_a_plan_says_what_decided_and_a_client_decides(api: Served) -> None:
    header, *rows = rows_of("fish", 0)
    cells = [[*row[:2], f"{at},{100 + at}", row[3]] for at, row in enumerate(rows, 1)]
    cells[0][3] = "NA"
    query = {"rows": [dict(zip(header, row, strict=True)) for row in cells]}
    (size,) = (
        one for one in plan_for(api, query, ["fish_0.csv"])["query"]["columns"] if one["into"] == "size"
    )
    assert (size["decided"][0]["from"], size["decided"][0]["examples"]) == ("tables", ["1,101"])
    plan = plan_for(api, query, ["fish_0.csv"], decimal=[","], null_values=["2,102"], strict=True)
    (size,) = (one for one in plan["query"]["columns"] if one["into"] == "size")
    assert size["decided"][0] == {"what": "decimal", "as": ",", "from": "person", "examples": ["1,101"]}
    told = api.post_json("/api/union/preview", {"plan": plan, "query": query, "rows": 24}).json()
    assert [row[2] for row in told["rows"][:3]] == ["1.101", None, "3.103"]
    assert any("'year': 1 'NA' taken as null" in note for note in told["notes"])
    assert any("are read with a decimal comma, as decided by a person" in note for note in told["notes"])
    asked = {"query": query, "tables": ["fish_0.csv"], "decimal": ["fish.csv=,"]}
    answer = api.post_json("/api/union/plan", asked)
    assert (answer.status_code, "did you mean 'fish_0.csv'?" in answer.json()["error"]) == (422, True)


def test_formulas_are_guarded_on_request(api: Served) -> None:
    rows = rows_of("fish", 77)
    content = "".join(",".join(row) + "\n" for row in [rows[0], ["=1+1", *rows[1][1:]], *rows[2:]])
    query = {"upload": api.send_file("/api/upload", "=danger.csv", content.encode()).json()["upload"]}
    plan = plan_for(api, query, ["fish_0.csv"])
    asked = {"plan": plan, "query": query, "format": "csv", "guard_formulas": True}
    guarded = list(csv.reader(io.StringIO(api.post_json("/api/union/download", asked).text)))
    assert guarded[1][0] == "'=1+1"
    assert guarded[1][4] == "'=danger.csv"
    asked["guard_formulas"] = False
    assert list(csv.reader(io.StringIO(api.post_json("/api/union/download", asked).text)))[1][0] == "=1+1"
    assert (
        api.post_json(
            "/api/union/download", {**asked, "format": "parquet", "guard_formulas": True}
        ).status_code
        == 422
    )


def test_plans_that_cannot_be(api: Served, lake: Path) -> None:
    query = {"upload": upload(api)}
    plan = plan_for(api, query, ["fish_0.csv"])

    def refused(change: Any, status: int = 422) -> str:
        edited = json.loads(json.dumps(plan))
        change(edited)
        answers = [
            api.post_json("/api/union/preview", {"plan": edited, "query": query}),
            api.post_json("/api/union/download", {"plan": edited, "query": query}),
        ]
        assert [answer.status_code for answer in answers] == [status, status], answers[0].text
        return str(answers[0].json()["error"])

    secret = str(lake.parent / "secret.csv")
    assert "path" in refused(lambda plan: plan["tables"][0].update(path=secret))
    assert "path" in refused(lambda plan: plan["query"].update(path=secret))
    assert "part" in refused(lambda plan: plan["tables"][0].update(part="x"))
    assert "no table" in refused(lambda plan: plan["tables"][0].update(name=secret), 404)
    assert "no table" in refused(lambda plan: plan["tables"][0].update(name="../secret.csv"), 404)
    assert "lacks 'name'" in refused(lambda plan: plan["tables"][0].pop("name"))
    assert "'tables' must be a list" in refused(lambda plan: plan.update(tables=3))
    assert "object in braces" in refused(lambda plan: plan.update(tables=["fish_0.csv"]))
    assert "at most" in refused(lambda plan: plan.update(tables=plan["tables"] * 51))
    assert "in the plan twice" in refused(lambda plan: plan.update(tables=plan["tables"] * 2))
    assert "version" in refused(lambda plan: plan.update(gentus_union_plan=9))
    assert "no column 'nothing'" in refused(
        lambda plan: plan["tables"][0]["columns"][0].update({"from": "nothing"})
    )
    assert "no type" in refused(lambda plan: plan["columns"][0].update(type="INT); DROP TABLE x"))
    answer = api.post_json("/api/union/plan", {"query": query, "tables": ["nothing.csv"]})
    assert answer.status_code == 404


# --- changes -------------------------------------------------------------------------------------------


def bearer(token: str = TOKEN) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {token}".encode()}


def test_a_table_is_added_found_and_removed(own: Served, small: Path, tmp_path: Path) -> None:
    assert own.get("/api/index").json()["read_only"] is False
    sent = {"file": ("new fish.csv", as_csv("fish", 99))}
    answer = own.post("/api/tables", files=sent, headers=bearer())
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert (told["name"], told["tables"]) == ("added/new fish.csv", 7)
    found = own.get("/api/search", params={"table": "fish_0.csv"}).json()["results"]
    assert "added/new fish.csv" in [hit["table"] for hit in found]
    assert told["sid"] in [hit["sid"] for hit in found]
    assert own.table("added/new fish.csv")["sample"] == rows_of("fish", 99)[1:]
    assert own.get("/api/tables", params={"filter": "added/"}).json()["total"] == 1
    assert own.post("/api/tables", files=sent, headers=bearer()).status_code == 409

    index = tmp_path / "own.index"
    kept = index / "added" / "new fish.csv"
    assert kept.read_bytes() == as_csv("fish", 99)
    with gentus.open(index) as opened:
        changes = opened.sync()
        assert (changes.removed, changes.unchanged) == ([], 7)  # it survives
    assert not check(index)
    moved = shutil.copytree(index, tmp_path / "moved.index")
    shutil.rmtree(index / "added")
    with gentus.open(moved) as opened:
        source = opened.source("added/new fish.csv")
        assert source is not None
        assert opened.read(source).rows == 12
        assert not [hit for hit in opened.search(source) if hit.table == "added/new fish.csv"]

    gone = own.request("DELETE", "/api/tables", params={"name": "added/new fish.csv"}, headers=bearer())
    assert gone.json() == {"removed": "added/new fish.csv", "tables": 6}
    own.request("DELETE", "/api/tables", params={"name": "fish_0.csv"}, headers=bearer())
    assert (small.parent / "a lake" / "fish_0.csv").exists()  # only the index forgets it
    gone = own.request("DELETE", "/api/tables", params={"name": "fish_0.csv"}, headers=bearer())
    assert gone.status_code == 404


def test_an_added_file_goes_with_its_table(own: Served, tmp_path: Path) -> None:
    own.post("/api/tables", files={"file": ("x.csv", as_csv("fish", 98))}, headers=bearer())
    kept = tmp_path / "own.index" / "added" / "x.csv"
    assert kept.exists()
    own.request("DELETE", "/api/tables", params={"name": "added/x.csv"}, headers=bearer())
    assert not kept.exists()
    bad = own.post("/api/tables", files={"file": ("y.csv", b"a,b\n")}, headers=bearer())
    assert bad.status_code == 422
    assert not (tmp_path / "own.index" / "added" / "y.csv").exists()


def test_only_with_the_token(own: Served, api: Served, index_path: Path) -> None:
    sent = {"file": ("x.csv", as_csv("fish"))}
    tries: list[dict[bytes, bytes]] = [{}, bearer("wrong"), {b"authorization": TOKEN.encode()}]
    for headers in tries:
        answer = own.post("/api/tables", files=sent, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        gone = own.request("DELETE", "/api/tables", params={"name": "fish_0.csv"}, headers=headers)
        assert gone.status_code == 401
    assert own.get("/api/index").json()["tables"] == 6
    answer = api.post("/api/tables", files=sent, headers=bearer())
    assert (answer.status_code, "without a token" in answer.text) == (403, True)
    with served(index_path, token=TOKEN, read_only=True) as closed:
        assert closed.get("/api/index").json()["read_only"] is True
        answer = closed.post("/api/tables", files=sent, headers=bearer())
        assert (answer.status_code, "--read-only" in answer.text) == (403, True)


def test_changes_by_others_are_seen(own: Served, index_path: Path, tmp_path: Path) -> None:
    """Also those of another process, and an index that was built anew."""
    assert own.get("/api/tables").json()["total"] == 6
    index = tmp_path / "own.index"
    late = write_table(tmp_path / "late_fish.csv", rows_of("fish", 55))
    with gentus.open(index) as other:
        other.add([late])
    assert own.get("/api/index").json()["tables"] == 7
    assert own.get("/api/tables", params={"filter": "late"}).json()["total"] == 1
    assert len(own.get("/api/map").json()["names"]) == 7
    hits = own.get("/api/search", params={"table": "fish_0.csv"}).json()["results"]
    assert str(late) in [hit["table"] for hit in hits]

    os.rename(index, tmp_path / "old.index")
    assert own.get("/api/index").json()["tables"] == 7  # until there is another one
    shutil.copytree(index_path, tmp_path / "new.index")
    os.rename(tmp_path / "new.index", index)
    assert own.get("/api/index").json()["tables"] == 36
    assert own.get("/api/search", params={"table": "films_0.csv"}).status_code == 200


def test_searches_while_tables_come_and_go(own: Served) -> None:
    stop, wrong = threading.Event(), []

    def ask() -> None:
        with httpx.Client(base_url=own.base_url, timeout=30) as client:
            while not stop.is_set():
                for path in ("/api/search?table=fish_0.csv", "/api/tables", "/api/tree"):
                    answer = client.get(path)
                    if answer.status_code != 200:
                        wrong.append(answer.text)

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for thread in asking:
        thread.start()
    for seed in range(6):
        sent = {"file": (f"late{seed}.csv", as_csv("fish", seed))}
        assert own.post("/api/tables", files=sent, headers=bearer()).status_code == 201
        hits = own.get("/api/search", params={"table": "fish_0.csv"}).json()["results"]
        assert f"added/late{seed}.csv" in [hit["table"] for hit in hits]
        if seed % 2:
            own.request("DELETE", "/api/tables", params={"name": f"added/late{seed}.csv"}, headers=bearer())
    stop.set()
    for thread in asking:
        thread.join()
    assert not wrong
    assert own.get("/api/index").json()["tables"] == 9


# --- the page, machines, the command -------------------------------------------------------------------


def test_the_page_and_its_files(api: Served) -> None:
    for path in ("/", "/tables", "/table", "/map", "/tree"):
        page = api.get(path)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-cache"
    again = api.get("/", headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert api.get("/page/nothing.js").json() == {"error": "there is nothing at this address; see /docs"}
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/../../index.py"):
        request = httpx.Request("GET", str(api.base_url) + path)
        assert api.send_raw(path).startswith(b"HTTP/1.1 404"), request


def test_docs_need_nobody_else(api: Served) -> None:
    page = api.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "http://" not in page.text.replace(str(api.base_url), "")
    assert "https://" not in page.text
    document = api.get("/openapi.json").json()
    for path in document["paths"]:
        assert f"<code>{path}</code>" in page.text
    assert {"/api/search", "/api/tables", "/api/union/download"} <= set(document["paths"])
    assert document["paths"]["/api/tables"]["post"]["security"] == [{"token": []}]


def test_health_readiness_metrics(api: Served) -> None:
    assert api.get("/healthz").text == "ok\n"
    assert api.get("/readyz").text == "ready\n"
    api.get("/api/table", params={"name": "nothing"})
    told = api.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=")
    lines = told.text.splitlines()
    assert "gentus_tables 36.0" in lines
    assert any(
        line.startswith('gentus_requests_total{method="GET",route="/api/table",status="404"}')
        for line in lines
    )
    assert any(
        line.startswith('gentus_request_seconds_bucket{le="0.005",route="/healthz"}') for line in lines
    )
    assert not any("nothing" in line for line in lines)


def test_what_is_not_there(api: Served) -> None:
    answer = api.get("/api/nothing")
    assert (answer.status_code, set(answer.json())) == (404, {"error"})
    assert api.put("/api/search").status_code == 405


def test_a_wrong_address_in_a_browser(api: Served) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, status in (("/fish", 404), ("/page/none.js", 404), ("/api/upload", 405)):
        page = api.get(path, headers=browser)
        assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert f"<code>{path}</code>" in page.text
        assert '<a href="/">Back to the search</a>' in page.text
        assert '<link rel="stylesheet" href="/page/style.css">' in page.text
        assert "<script" not in page.text
        assert "modulepreload" not in page.text
        assert "as JSON" not in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]
    for path in ("/<script>alert(1)</script>", "/%3Cimg%20src=x%20onerror=alert(1)%3E", '/"><b>', "/%ff"):
        page = api.get(path, headers=browser)
        assert page.status_code == 404
        shown = page.text.partition("<code>")[2].partition("</code>")[0]
        assert not set('<>"') & set(shown)
    assert len(api.get("/" + "x" * 5000, headers=browser).text) < 4000


def test_the_command(index_path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gentus.app.cli.main", "serve", str(index_path), "-p", "0"]
    folder = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=folder
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}api/index").json()["tables"] == 36
        assert list(tmp_path.iterdir())  # uploads would be here
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        said = process.stderr.read()
    assert said.endswith("Stopped.\n")
    assert f"Serving {index_path}; API: {url}docs; Ctrl-C stops." in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_measured(index_path: Path, lake: Path, tmp_path: Path) -> None:
    from gentus_bench.experiment import Request
    from gentus_bench.experiments.serving import Options, run, tables
    from gentus_bench.results import Results

    request = Request(Results(tmp_path), indexes=[index_path], queries=lake, k=3)
    (document,) = run(request, Options(clients=5, seconds=1.5))
    told = document["served"]
    assert told["requests"] > 5
    assert told["errors"] == 0, told["first_errors"]
    assert told["ms_p50"] <= told["ms_p95"] <= told["ms_worst"]
    assert document["share"] == pytest.approx(
        told["per_second"] / document["one_process"]["per_second"], abs=0.01
    )
    assert "server, 5 clients" in tables(document)[0].markdown()
    assert json.loads((tmp_path / "serving-my.index.json").read_text())["what"]["clients"] == 5


def test_commands_that_cannot_be(index_path: Path, tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "gentus.app.cli.main", "serve", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert ran.returncode != 0
        assert "Traceback" not in ran.stderr
        return ran.stderr

    assert "There is no index at" in said(str(tmp_path / "none"), "-p", "0")
    assert "the token is empty" in said(str(index_path), "-p", "0", "--token", " ")
