"""The page for everyone: with the keyboard alone, on a phone, in light and dark, with a screen reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from page.conftest import Window

AUDIT = (Path(__file__).parent / "audit.js").read_text()
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
View = Callable[[Page], None]


def _compared(page: Page) -> None:
    page.locator("[data-hit='films/b.parquet'] button").click()
    page.locator(".stacked").wait_for()


def _unrelated(page: Page) -> None:
    rows = b"".join(b"BRCA%d,chr%d,%d\n" % (number, number, 1234 * number) for number in range(1, 15))
    table = b"gene,chromosome,length bp\n" + rows
    page.locator(".dropzone").drop({"files": {"name": "genes.csv", "mimeType": "", "buffer": table}})
    page.get_by_text("No table in this lake fits yours.", exact=True).wait_for()


def _united(page: Page) -> None:
    page.get_by_role("link", name="Preview the union").click()
    page.locator(".preview tbody tr").first.wait_for()


def _expanded(page: Page) -> None:
    page.locator("button.branch").nth(1).click()
    page.locator(".leaf").first.wait_for()


def _pasting(page: Page) -> None:
    page.evaluate("() => { navigator.clipboard.readText = () => Promise.reject(new Error('denied')) }")
    page.get_by_role("button", name="Paste").click()
    page.locator("#rows").wait_for()


VIEWS: dict[str, tuple[str, View]] = {
    "start": ("/", lambda page: page.locator(".examples li").first.wait_for()),
    "paste": ("/", _pasting),
    "proposals": ("/", lambda page: page.get_by_role("combobox").focus()),
    "results": ("/?table=films/a.csv", lambda page: page.locator("[data-hit]").first.wait_for()),
    "comparison": ("/?table=films/a.csv", _compared),
    "nothing fits": ("/", _unrelated),
    "union": ("/?table=films/a.csv", _united),
    "tables": ("/tables", lambda page: page.locator(".listing").wait_for()),
    "table": ("/table?name=films/a.csv", lambda page: page.locator(".grid").wait_for()),
    "families": ("/groups", lambda page: page.locator(".families-list li").first.wait_for()),
    "family": ("/group?table=films/a.csv", lambda page: page.locator(".listing").wait_for()),
    "map": ("/map", lambda page: page.locator(".legend").wait_for()),
    "tree": ("/tree", _expanded),
}


def test_names_structure_and_contrast(window: Window) -> None:
    wrong = {}
    for name, (path, ready) in VIEWS.items():
        page = window.open(path)
        ready(page)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # colours change at once
            wrong[f"{name}, {scheme}"] = page.evaluate(AUDIT)
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("window", [PHONE], indirect=True)
def test_a_phone_scrolls_down_only(window: Window) -> None:
    for path, ready in VIEWS.values():
        page = window.open(path)
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.evaluate("visualViewport.scale") == 1


@pytest.mark.parametrize("window", [PHONE], indirect=True)
def test_a_journey_on_a_phone(window: Window, films: Path) -> None:
    page = window.drop(films)
    expect(page.locator(".comparison")).to_have_count(0)
    page.locator("[data-hit='films/a.csv'] button").tap()
    expect(page.locator(".comparison h2")).to_have_text("films/a.csv")
    expect(page.locator(".hits")).to_be_hidden()
    page.get_by_role("link", name="Results").tap()
    expect(page.locator(".hits")).to_be_visible()
    page.get_by_role("button", name="Clear").tap()
    page.get_by_role("checkbox", name="Add films/a.csv to the union").tap()
    page.get_by_role("link", name="Preview the union").tap()
    expect(page.locator(".union .facts")).to_contain_text("24 rows")
    with page.expect_download():
        page.get_by_role("button", name="Download").tap()


@pytest.mark.parametrize("window", [PHONE], indirect=True)
def test_a_finger_on_the_map(window: Window) -> None:
    page = window.open("/map")
    page.get_by_role("searchbox").fill("films/c")
    page.get_by_role("button", name="films/c.csv").tap()
    box = page.locator("canvas").bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # looks, and stays
    expect(page).to_have_url(re.compile("/map"))
    page.locator(".tip").get_by_role("link", name="Search with it").tap()
    expect(page).to_have_url(re.compile(r"table=films%2Fc\.csv"))


def test_with_the_keyboard_alone(window: Window) -> None:
    page = window.open()

    def until(what: str, presses: int = 60) -> None:
        """Press Tab until something is reached that is called so."""
        for _ in range(presses):
            page.keyboard.press("Tab")
            if page.evaluate("what => document.activeElement.matches(what)", what):
                return
        raise AssertionError(f"Tab does not lead to {what}")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    until("input[type=file]", 10)
    until("[role=combobox]", 2)
    page.keyboard.type("films/a")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("[data-hit]").first.wait_for()
    page.keyboard.press("Tab")
    until("button.hit")
    page.keyboard.press("ArrowDown")
    expect(page.locator("button.hit").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    second = page.locator("[data-hit]").nth(1).get_attribute("data-hit") or ""
    expect(page.locator(".comparison h2")).to_have_text(second)
    expect(page.locator("button.hit").nth(1)).to_have_attribute("aria-pressed", "true")
    until(".basket button", 120)
    page.keyboard.press("Enter")
    expect(page.locator(".basket")).to_be_hidden()
    expect(page.locator("main")).to_be_focused()
    until(".comparison input[data-tick]")
    page.keyboard.press("Space")
    expect(page.locator(".basket")).to_contain_text("1 table selected")
    until(".pairs input[type=checkbox]")
    page.keyboard.press("Space")
    expect(page.locator(".curve.off")).to_have_count(1)
    expect(page.locator(".pairs input[type=checkbox]").first).to_be_focused()
    until(".basket .primary")
    page.keyboard.press("Enter")
    expect(page.locator(".union h1")).to_be_visible()
    page.locator(".matrix button").first.wait_for()
    until(".matrix button")
    page.keyboard.press("Space")
    expect(page.locator(".matrix button").first).to_be_focused()
    expect(page.locator(".matrix button").first).to_have_attribute("aria-pressed", "true")


def test_focus_can_be_seen_and_follows_the_view(window: Window) -> None:
    page = window.open("/tables")
    page.locator(".listing").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.get_by_role("link", name="Tree").focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("link", name="Tree", exact=True)).to_have_attribute("aria-current", "page")
    expect(page.locator("#live")).to_contain_text("28 tables below")


def test_what_a_screen_reader_hears(window: Window, films: Path) -> None:
    page = window.drop(films)
    live = page.get_by_role("status").and_(page.locator("#live"))
    expect(live).to_have_attribute("aria-live", "polite")
    expect(live).to_contain_text(
        re.compile(r"8 of 10 tables fit yours, \d of them fully\. The best is films/")
    )
    page.locator("[data-hit='films/c.csv'] button").click()
    expect(live).to_have_text("Compared with films/c.csv")
    row = page.get_by_role("row", name=re.compile("Year released"))
    expect(row).to_contain_text("years")
    expect(page.get_by_role("region", name="Rows of my films.csv and of films/c.csv")).to_be_visible()
    page.get_by_role("checkbox", name="Use kind for Genre").click()
    expect(live).to_have_text("Genre is left empty")


def test_light_and_dark(window: Window) -> None:
    page = window.open()

    def brightness() -> int:
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert brightness() > 600
    page.emulate_media(color_scheme="dark")
    assert brightness() < 150
