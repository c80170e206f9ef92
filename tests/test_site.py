"""The docs as a site: it builds without warnings, has every page, and loads nothing from elsewhere."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import gentus

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
LOADED = {"img": "src", "script": "src", "source": "srcset", "iframe": "src", "link": "href"}


class Page(HTMLParser):
    """The ids of a page, its links, and what a browser loads for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") != "canonical":
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from build_site import build_site

    return build_site(tmp_path_factory.mktemp("docs") / "built")


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def named(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for part in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [part] if isinstance(part, str) else named(part)


def test_every_page_has_a_place(pages: dict[Path, Page]) -> None:
    from build_site import ELSEWHERE

    nav = tomllib.loads((ROOT / "docs" / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    files = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(named(nav)) == sorted(files | set(ELSEWHERE.values()))
    assert len(pages) == len(files) + len(ELSEWHERE)


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert page.loaded
        for name in page.loaded:
            assert not urlsplit(name).netloc, f"{path}: {name}"
            assert (path.parent / unquote(urlsplit(name).path)).resolve().is_relative_to(site), name
            assert (path.parent / unquote(urlsplit(name).path)).exists(), f"{path}: {name}"


def test_links_of_the_site_lead_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].ids if target in pages else set()
            if not target.exists() or (
                parts.fragment and unquote(parts.fragment) not in known | {"__tabbed_1"}
            ):
                broken.append(f"{path.parent.name}: {link}")
    assert not broken


def test_the_reference_has_every_public_name(site: Path, pages: dict[Path, Page]) -> None:
    ids = pages[site / "API" / "index.html"].ids
    assert {name for name in gentus.__all__ if f"gentus.{name}" not in ids} == set()
    assert "gentus.Index.search" in ids
    assert "<blockquote>" not in (site / "API" / "index.html").read_text(
        "utf-8"
    )  # >>> that was not recognised
