"""Queries a second, and how near a search is to what the machine could do."""

from __future__ import annotations

from pathlib import Path

from test_cli import Run, run

__all__ = ["run"]


def test_queries_a_second(run: Run, index_path: Path, lake: Path, tmp_path: Path) -> None:
    asked = (
        "bench",
        "run",
        "batch",
        "--index",
        index_path,
        "--queries",
        lake,
        "--set",
        "count=12",
        "--out",
        tmp_path,
    )
    (found,) = run(*asked, "--json").json()
    assert found["all_cores"]["queries"] == found["one_process"]["queries"] == 12
    assert found["same_answers"] == 1.0
    assert "per second" in run(*asked).out


def test_the_roofline_counts_every_part(run: Run, index_path: Path, lake: Path, tmp_path: Path) -> None:
    asked = (
        "bench",
        "run",
        "roofline",
        "--index",
        index_path,
        "--queries",
        lake,
        "--set",
        "count=5",
        "--out",
        tmp_path,
    )
    (found,) = run(*asked, "--json").json()
    for part in found["parts"].values():
        assert part["ms"] > 0
        assert 0 <= part["share"] <= 1
    assert 0 < found["share"] < 1
    assert "| encode |" in run(*asked).out
