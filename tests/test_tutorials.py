"""Tutorials run from top to bottom, and their commands print what the pages show."""

from __future__ import annotations

import difflib
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
TUTORIALS = [path for path in sorted((ROOT / "docs" / "tutorials").glob("*.md")) if path.stem != "index"]
PAGES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem == "reproduce" else [])
    for path in TUTORIALS
]


@pytest.mark.skipif(
    shutil.which("bash") is None or sys.platform == "win32", reason="the commands are for bash"
)
@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_runs_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    from run_tutorial import run_page

    shown = page.read_text("utf-8")
    now = run_page(shown, tmp_path)
    changed = difflib.unified_diff(shown.splitlines(), now.splitlines(), "shown", "printed", lineterm="", n=0)
    assert now == shown, "\n".join(["python tools/run_tutorial.py --write writes what is printed:", *changed])


def test_wrong_output_and_failing_code_are_noticed(tmp_path: Path) -> None:
    from run_tutorial import run_page

    page = "```console\n$ echo one; echo three\n{}\n```\n"
    assert run_page(page.format("one\nthree"), tmp_path) == page.format("one\nthree")
    assert run_page(page.format("one [..]"), tmp_path) == page.format("one [..]")
    assert run_page(page.format("two"), tmp_path) == page.format("one\nthree")
    assert run_page("```pycon\n>>> 1 + 1\n3\n```\n", tmp_path) == "```pycon\n>>> 1 + 1\n2\n```\n"
    for block in ("sh\nfalse", "python\n1 / 0", "pycon\n>>> 1 / 0"):
        with pytest.raises((AssertionError, ZeroDivisionError)):
            run_page(f"```{block}\n```\n", tmp_path)
    assert run_page("<!-- run: no -->\n```sh\nfalse\n```\n", tmp_path)
