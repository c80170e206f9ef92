"""One lake, one server and one browser for all journeys; every journey has a window of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import QUICK, write_table
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from stress.page import chromium

import gentus
from gentus_bench.experiments.serving import served
from page.lake import film_rows, page_lake

PATIENCE = 20_000  # ms, for machines that are busy with other things
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table to search with."""
    return write_table(tmp_path_factory.mktemp("mine") / "my films.csv", film_rows(0, 10))


@pytest.fixture(scope="session")
def films_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    gentus.build(page_lake(folder / "lake"), folder / "films.index", settings=QUICK, workers=1).close()
    return folder / "films.index"


@pytest.fixture(scope="session")
def address(films_index: Path) -> Iterator[str]:
    with served(films_index) as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


class Window:
    """A window of the browser; what the page complains about must have been expected."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context, self.address = context, address
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self.page.set_default_timeout(PATIENCE)

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.complaints.append(f"{said.text} {said.location['url']}")

    def forgive(self, part: str) -> None:
        """A complaint that belongs to the journey, such as about an answer of 422."""
        assert any(part in one for one in self.complaints), self.complaints
        self.complaints = [one for one in self.complaints if part not in one]

    def open(self, path: str = "/") -> Page:
        self.page.goto(self.address + path)
        return self.page

    def drop(self, file: Path) -> Page:
        """Open the page, drop a file and wait for results."""
        page = self.open()
        page.locator(".dropzone").drop({"files": str(file)})
        page.locator("[data-hit]").first.wait_for()
        return page


@pytest.fixture
def window(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Window]:
    """A window; `@pytest.mark.parametrize("window", [options], indirect=True)` gives it other options."""
    options = {"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})}
    with browser.new_context(**options) as context:
        opened = Window(context, address)
        yield opened
        assert opened.complaints == []
