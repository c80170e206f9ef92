"""The tools that agents have, asked by the official client."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import genes, rows_of, subject_of, write_table
from mcp import Client, StdioServerParameters

from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.mcp_tools import make_tools
from gentus.app.serve.service import Service
from gentus.app.serve.settings import Settings

Ask = Callable[..., Any]


class ToolFailedError(Exception):
    """What a tool says when it cannot do what it was asked for."""


@pytest.fixture
def ask(index_path: Path, tmp_path: Path) -> Iterator[Ask]:
    """Call a tool, in this process; its folder is empty."""
    service = Service(IndexHandle(index_path), Settings(slow_seconds=30))
    tools = make_tools(service, [tmp_path])

    def ask(name: str, **arguments: Any) -> Any:
        async def call() -> Any:
            async with Client(tools) as client:
                return await client.call_tool(name, arguments)

        return answer_of(asyncio.run(call()))

    yield ask
    service.close()
    service.handle.index.close()


def answer_of(result: Any) -> Any:
    """What a tool has answered."""
    text = "".join(getattr(part, "text", "") for part in result.content)
    if result.is_error:
        raise ToolFailedError(text)
    return result.structured_content if result.structured_content is not None else json.loads(text)


def test_search_in_every_way(ask: Ask, tmp_path: Path) -> None:
    rows = rows_of("fish", 77)
    path = write_table(tmp_path / "mine.csv", rows)
    by_path = ask("search_tables", path=str(path), k=4)
    by_rows = ask("search_tables", rows=[dict(zip(rows[0], row, strict=True)) for row in rows[1:]], k=4)
    relative = ask("search_tables", path="mine.csv", k=4)
    assert by_path["results"] == by_rows["results"] == relative["results"]
    assert {subject_of(hit["table"]) for hit in by_path["results"]} == {"fish"}
    assert (by_path["query"], by_path["query_columns"], by_path["upload"]) == ("mine.csv", rows[0], None)
    by_name = ask("search_tables", table="fish_0.csv", k=2, explain=True)
    assert by_name["results"][0]["alignment"]["pairs"]
    assert "fish_0.csv" not in [hit["table"] for hit in by_name["results"]]


def test_what_fits_and_that_nothing_does(ask: Ask) -> None:
    header, *rows = genes()
    query = [dict(zip(header, row, strict=True)) for row in rows]
    nothing = ask("search_tables", rows=query, k=2)
    assert (nothing["fit"], nothing["verdict"]) == ("none", "No table in this lake fits yours.")
    assert [hit["why"] for hit in nothing["results"]] == ["no column matches"] * 2
    assert not ask("search_tables", rows=query, fit="partial")["results"]
    found = ask("search_tables", table="fish_0.csv", k=5, min_score=0.9, order="generated")
    assert {(hit["fit"], subject_of(hit["table"])) for hit in found["results"]} == {("full", "fish")}
    for wrong, words in (({"fit": "good"}, "'any', 'partial' or 'full'"), ({"min_score": 2}, "at most 1")):
        with pytest.raises(ToolFailedError, match=words):
            ask("search_tables", table="fish_0.csv", **wrong)


def test_look_and_align(ask: Ask, tmp_path: Path) -> None:
    write_table(tmp_path / "mine.csv", rows_of("fish", 77))
    assert ask("list_tables", words="fish parquet")["tables"][0]["name"] == "typed/fish_3.parquet"
    assert ask("find_duplicates")["total"] == 0
    told = ask("describe_table", table="typed/fish_3.parquet", rows=2)
    assert told["sample"] == rows_of("fish", 3)[1:3]
    assert ask("describe_table", path="mine.csv", rows=2)["sid"] is None
    aligned = ask("align_columns", path="mine.csv", with_table="typed/fish_3.parquet")
    assert [pair["table"]["name"] for pair in aligned["pairs"]] == ["name", "kind", "size", "year"]


def test_union_from_plan_to_file(ask: Ask, tmp_path: Path, lake: Path) -> None:
    write_table(tmp_path / "mine.csv", rows_of("fish", 77))
    plan = ask("plan_union", path="mine.csv", tables=["fish_0.csv", "typed/fish_3.parquet"])
    assert str(lake) not in json.dumps(plan)
    shown = ask("preview_union", plan=plan, path="mine.csv", show=6)
    assert len(shown["rows"]) == 6
    assert shown["total"] == 36
    report = ask("run_union", plan=plan, path="mine.csv", output="all.csv")
    assert (report["rows"], report["unconverted"]) == (36, 0)
    with (tmp_path / "all.csv").open(newline="") as file:
        written = list(csv.reader(file))
    assert [row[:4] for row in written[1:13]] == rows_of("fish", 77)[1:]
    with pytest.raises(ToolFailedError, match="already exists"):
        ask("run_union", plan=plan, path="mine.csv", output="all.csv")


def test_a_plan_with_a_reading(ask: Ask, tmp_path: Path) -> None:
    _, *rows = rows_of("fish", 77)
    cells = [[*row[:2], f"{at},{100 + at}", row[3]] for at, row in enumerate(rows, 1)]
    write_table(tmp_path / "mine.csv", cells)
    reading = {"header": "no", "decimal": [","]}
    plan = ask("plan_union", path="mine.csv", tables=["fish_0.csv"], reading=reading)
    assert plan["query"]["header"] == "no"
    assert plan["decimal"] == ","
    report = ask("run_union", plan=plan, path="mine.csv", output="all.csv")
    assert report["tables"][0]["rows"] == len(rows)
    with pytest.raises(ToolFailedError, match="decimal 'x'"):
        ask("plan_union", path="mine.csv", tables=["fish_0.csv"], reading={"decimal": ["x"]})


def test_only_files_in_its_folders(ask: Ask, tmp_path: Path, lake: Path, index_path: Path) -> None:
    write_table(tmp_path / "mine.csv", rows_of("fish", 77))
    (tmp_path / "out.csv").symlink_to(lake / "fish_0.csv")
    for path in (str(lake / "fish_0.csv"), "/etc/passwd", "../x.csv", "out.csv"):
        with pytest.raises(ToolFailedError, match="is not in"):
            ask("search_tables", path=path)
    plan = ask("plan_union", path="mine.csv", tables=["fish_0.csv"])
    for output in (str(lake / "new.csv"), "../new.csv", str(index_path / "new.csv")):
        with pytest.raises(ToolFailedError, match="is not in"):
            ask("run_union", plan=plan, path="mine.csv", output=output)
    with pytest.raises(ToolFailedError, match=r"end in one of \.csv"):
        ask("run_union", plan=plan, path="mine.csv", output="all.db")
    plan["tables"][0]["path"] = str(tmp_path / "mine.csv")
    with pytest.raises(ToolFailedError, match="no 'path'"):
        ask("run_union", plan=plan, path="mine.csv", output="new.csv")


def test_lake_and_index_are_not_written_to(index_path: Path, lake: Path) -> None:
    service = Service(IndexHandle(index_path), Settings())
    tools = make_tools(service, [lake.parent])

    async def union(output: Path) -> Any:
        async with Client(tools) as client:
            asked: dict[str, Any] = {"table": "fish_0.csv", "tables": ["deep/er/fish_1.csv"]}
            plan = answer_of(await client.call_tool("plan_union", asked))
            asked = {"plan": plan, "table": "fish_0.csv", "output": str(output)}
            return await client.call_tool("run_union", asked)

    for folder in (lake, index_path):
        with pytest.raises(ToolFailedError, match="not written to"):
            answer_of(asyncio.run(union(folder / "new.csv")))
    service.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "exactly one of"),
        ({"table": "a", "path": "b"}, "exactly one of"),
        ({"table": "nothing.csv"}, "no table"),
        ({"path": "nothing.csv"}, "there is no file"),
        ({"rows": []}, "rows"),
        ({"table": "fish_0.csv", "k": 0}, "the argument 'k' has to be at least 1$"),
        ({"table": "fish_0.csv", "k": "many"}, "the argument 'k' has to be a whole number$"),
        ({"table": 5, "order": "x"}, "'order' has to be one of .*; the argument 'table' has to be text$"),
        ({"rows": [1]}, "the argument 'rows.0' has to be an object$"),
        ({"path": "a\0b.csv"}, "'a.x00b.csv' cannot be the path of a file"),
        ({"path": "x" * 5000}, "name too long"),
        ({"table": "a\0b"}, "there is no table"),
    ],
)
def test_what_cannot_be(ask: Ask, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolFailedError, match=rf"(?i)^Error executing tool search_tables: .*{words}"):
        ask("search_tables", **arguments)


def test_an_output_may_have_no_nul(ask: Ask) -> None:
    with pytest.raises(ToolFailedError, match="cannot be the path of a file"):
        ask("run_union", table="fish_0.csv", plan={}, output="a\0b.csv")


def test_over_stdio(index_path: Path, tmp_path: Path) -> None:
    """As an agent starts it: a process of its own, with nothing but the protocol on stdout."""
    write_table(tmp_path / "mine.csv", rows_of("fish", 77))
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "gentus.app.cli.main", "mcp", str(index_path)], cwd=str(tmp_path)
    )

    async def talk() -> tuple[Any, Any]:
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, await client.call_tool("search_tables", {"path": "mine.csv", "k": 3})

    tools, result = asyncio.run(_in_time(talk))
    found = answer_of(result)
    names = {tool.name for tool in tools}
    assert {"search_tables", "align_columns", "plan_union", "run_union"} <= names
    for tool in tools:
        assert tool.description
        assert tool.annotations.read_only_hint is (tool.name != "run_union")
    assert [subject_of(hit["table"]) for hit in found["results"]] == ["fish"] * 3


async def _in_time(work: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(60):
        return await work()
