"""Very many queries: read in several processes, answered in order as one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import Run, run

from gentus.index.engine import FEW
from gentus.index.index import Index
from gentus.lake import Skipped

__all__ = ["run"]


@pytest.fixture
def queries(lake: Path, tmp_path: Path) -> list[str]:
    """More than are worth a second process, with two among them that cannot be read."""
    (tmp_path / "empty.csv").write_text("")
    good = [str(path) for path in sorted(lake.glob("*.csv"))]
    several = (good * (FEW // len(good) + 2))[: FEW + 50]
    return [str(tmp_path / "none.csv"), *several[:30], str(tmp_path / "empty.csv"), *several[30:]]


def test_many_queries_are_answered_in_order_as_one_by_one(index: Index, queries: list[str]) -> None:
    answers = list(index.search_many(iter(queries), k=3, workers=2))
    assert [query for query, _ in answers] == queries
    alone: dict[str, object] = {}
    for query, found in answers:
        if isinstance(found, Skipped):
            expected = {"none.csv": "it is neither", "empty.csv": "it is empty"}
            assert found.reason.startswith(expected[Path(query).name])
            continue
        if query not in alone:
            alone[query] = [hit.table for hit in index.search(query, k=3)]
        assert [hit.table for hit in found] == alone[query]
    assert sum(isinstance(found, Skipped) for _, found in answers) == 2


def test_a_query_has_the_same_hits_and_scores_however_it_is_asked(index: Index, lake: Path) -> None:
    paths = sorted(str(path) for path in lake.rglob("*") if path.is_file())[::2]
    alone = [index.search(path, k=36) for path in paths]
    assert len({hit.generated for hits in alone for hit in hits}) > 100  # there is something to get wrong
    assert index.search(paths, k=36) == alone
    assert index.search(paths[5:6], k=36) == alone[5:6]
    tables = [index.read(path) for path in paths]
    assert index.search_as([Path(path) for path in paths], tables, 36) == alone
    repeated = paths * (FEW // len(paths) + 2)  # more than are worth a second process
    for workers in (1, 2):
        answers = [hits for _, hits in index.search_many(repeated, k=36, workers=workers)]
        assert answers == alone * (len(repeated) // len(paths))


def test_the_command_line_goes_on_behind_what_it_cannot_read(
    run: Run, index_path: Path, queries: list[str]
) -> None:
    ran = run("search", index_path, *queries, "-k", 2, "--json")
    assert ran.code == 1
    said = ran.json()["queries"]
    assert [one["query"] for one in said] == queries
    assert [len(one["results"]) for one in said].count(0) == 2
    assert ran.err.count("it is empty") == 1
