"""The clock of `stress.page`."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from stress import page


def test_paint_and_results_are_timed(
    films_index: Path, films: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "chromium", lambda: _Borrowed(browser))
    facts = page.measure_page(films_index, films, runs=2)
    for name in ("first_contentful_paint_ms", "drop_to_results_ms"):
        assert 0 < facts[name]["median"] <= facts[name]["worst"]


class _Borrowed:
    """A browser that is open already, and stays so: Playwright runs once in a process."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def __enter__(self) -> Browser:
        return self.browser

    def __exit__(self, *_: object) -> None:
        pass
