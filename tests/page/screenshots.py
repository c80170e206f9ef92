"""Take the pictures of the page that are in docs/: `make screenshots`."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect
from stress.page import chromium

import gentus
from gentus_bench.experiments.serving import served

DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
NARROW: dict[str, Any] = {"viewport": {"width": 1120, "height": 900}}
RECIPES = """Rezept,Zutaten,Backzeit,Ofen
Apfelkuchen,"Äpfel, Mehl, Butter",45 min,180 °C
Käsespätzle,"Käse, Mehl, Eier, Zwiebeln",25 min,200 °C
Linzer Torte,"Mandeln, Mehl, Johannisbeeren",50 min,175 °C
Zwiebelkuchen,"Zwiebeln, Speck, Hefe",40 min,200 °C
Brezeln,"Mehl, Hefe, Natron",15 min,230 °C
Gugelhupf,"Mehl, Rosinen, Mandeln",60 min,170 °C
"""
NAMELESS = "web/extract-091.tsv"  # a table of the demo whose header says nothing, and that lacks a column
PARTIAL = "intake/batch-007.parquet"  # it lacks two
UNITED = ("finance/batch-097.parquet", "finance/table-245.csv", NAMELESS, "archive/table-061.csv")
SHARPNESS = 1.5  # pixels of a picture for one of the page


def main(index: Path, query: Path, out: Path) -> None:
    """Walk through the page and take a picture of every view."""
    with served(index) as address, chromium() as browser:
        _desk(Camera(browser, address, out, DESK), query)
        _phone(Camera(browser, address, out, PHONE), query)
        _dark(Camera(browser, address, out, {**DESK, "color_scheme": "dark"}), query)
        _verdicts(Camera(browser, address, out, NARROW), query)
        with TemporaryDirectory() as folder, served(_with_copies(index, query, Path(folder))) as copies:
            camera = Camera(browser, copies, out, NARROW)
            camera.drop(query)
            camera.take("copies")


def _with_copies(index: Path, query: Path, folder: Path) -> Path:
    """An index of the same lake with copies of two tables and of the query."""
    lake = Path(shutil.copytree(index.parent / "lake", folder / "lake"))
    shutil.copy(query, lake / "archive" / query.name)
    shutil.copy(lake / "finance/table-245.csv", lake / "web/table-245 (1).csv")
    lines = (lake / "archive/table-051.csv").read_text().splitlines()
    (lake / "intake/first-30.csv").write_text("\n".join(lines[:31]))
    gentus.build(lake, folder / "index").close()
    return folder / "index"


class Camera:
    """A window, and a way to keep what it shows."""

    def __init__(self, browser: Browser, address: str, out: Path, options: dict[str, Any]) -> None:
        self.page: Page = browser.new_context(device_scale_factor=SHARPNESS, **options).new_page()
        self.address, self.out = address, out

    def drop(self, query: Path) -> Page:
        """Search with a file."""
        self.page.goto(self.address)
        self.page.locator(".dropzone").drop({"files": str(query)})
        self.page.locator("[data-hit]").first.wait_for()
        return self.page

    def take(self, name: str) -> None:
        """Keep what is shown, once it has come to rest; 256 colours do, in a third of the bytes."""
        self.page.wait_for_timeout(600)
        expect(self.page.locator(".waiting, [aria-busy=true]")).to_have_count(0, timeout=20_000)
        self.page.wait_for_timeout(600)
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        few = picture.quantize(256, Image.Quantize.MEDIANCUT, kmeans=4, dither=Image.Dither.NONE)
        few.save(self.out / f"page-{name}.png", optimize=True)
        print(self.out / f"page-{name}.png", file=sys.stderr)


def _desk(camera: Camera, query: Path) -> None:
    camera.drop(query)  # the first search of a server loads what it needs
    page = camera.page
    page.goto(camera.address)
    page.locator(".examples li").first.wait_for()
    page.set_viewport_size({"width": 1280, "height": 920})
    camera.take("start")
    page.set_viewport_size(DESK["viewport"])
    camera.drop(query)
    page.locator(f"[data-hit='{NAMELESS}'] button").click()
    camera.take("search")
    page.locator(".drawing .column.on").nth(1).hover()
    camera.take("alignment")
    page.mouse.move(0, 0)
    page.get_by_role("button", name="Clear").click()
    for name in UNITED:
        page.get_by_role("checkbox", name=f"Add {name} to the union").check()
    page.get_by_role("link", name="Preview the union").click()
    page.locator(".preview tbody tr").first.wait_for()
    page.locator(".matrix .link").nth(6).click()
    page.set_viewport_size({"width": 1280, "height": 920})
    page.mouse.move(0, 0)
    camera.take("union")
    page.set_viewport_size(DESK["viewport"])
    page.get_by_role("link", name="Map").click()
    page.locator(".legend").wait_for()
    _hover_a_hit(page)
    camera.take("map")
    page.mouse.move(0, 0)
    page.get_by_role("link", name="Families", exact=True).click()
    page.locator(".families-list li").first.wait_for()
    camera.take("families")
    page.get_by_role("link", name="Tree").click()
    page.locator("button.branch").first.wait_for()
    page.locator("button.branch").nth(2).click()
    camera.take("tree")


def _hover_a_hit(page: Page) -> None:
    """Look for a point of the map, from the middle to the right."""
    box = page.locator("canvas").bounding_box()
    assert box is not None
    for step in range(1000):
        x, y = box["width"] * (0.62 + step % 20 / 100), box["height"] * (0.44 + step // 20 / 100)
        page.mouse.move(box["x"] + x, box["y"] + y)
        if page.locator(".tip").is_visible():
            return


def _phone(camera: Camera, query: Path) -> None:
    camera.drop(query)
    camera.take("phone")


def _dark(camera: Camera, query: Path) -> None:
    page = camera.drop(query)
    page.locator(f"[data-hit='{NAMELESS}'] button").click()
    camera.take("dark")


def _verdicts(camera: Camera, query: Path) -> None:
    """Tables that fit in part, and a query that no table fits."""
    page = camera.drop(query)
    page.locator(f"[data-hit='{PARTIAL}'] button").click()
    page.mouse.move(0, 0)
    camera.take("partial")
    page.set_viewport_size({"width": 1120, "height": 560})
    with TemporaryDirectory() as folder:
        recipes = Path(folder, "Rezepte.csv")
        recipes.write_text(RECIPES)
        camera.drop(recipes)
        camera.take("nothing-fits")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
