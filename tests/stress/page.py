"""The page in a real browser: time to its first paint, and from a dropped file to its results.

`PYTHONPATH=tests python -m stress.page INDEX QUERY`.
"""

from __future__ import annotations

import os
import shutil
import statistics
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gentus.extras import install_extra
from gentus_bench.experiments.serving import served
from gentus_bench.machine import describe

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PLAIN = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
_SILENT = ("--disable-background-networking", "--disable-component-update")  # it asks nobody for anything
# From the drop until results were painted: what waits for a frame and then its turn comes after the paint.
_WATCH = """
addEventListener("drop", () => {
  const dropped = performance.now();
  new MutationObserver((_, watch) => {
    if (!document.querySelector("[data-hit]")) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.dropToResults = performance.now() - dropped; }));
  }).observe(document.body, { childList: true, subtree: true });
}, true);
"""
_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser without a window; the system's own, which `GENTUS_CHROMIUM` may name."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise ImportError(f"a browser is driven by Playwright: {install_extra('page')}") from error
    named = os.environ.get("GENTUS_CHROMIUM")
    found = named or next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise FileNotFoundError("there is no Chromium; on Debian: apt install chromium")
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []  # which Chromium refuses to have as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*_PLAIN, *_SILENT, *alone])
        try:
            yield browser
        finally:
            browser.close()


def measure_page(index: Path, query: Path, runs: int = 15) -> dict[str, Any]:
    """Open the page and drop a file on it, again and again, nothing cached; the first time does not count."""
    paints, results = [], []
    with served(index) as address, chromium() as browser:
        for _ in range(runs + 1):
            with browser.new_context() as context, context.new_page() as page:
                page.add_init_script(_WATCH)
                page.goto(address)
                page.locator(".dropzone").wait_for()
                paints.append(_soon(page, _PAINT))
                page.locator(".dropzone").drop({"files": str(query)})
                results.append(_soon(page, "() => window.dropToResults ?? null"))
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "runs": runs,
        "first_contentful_paint_ms": _summary(paints[1:]),
        "drop_to_results_ms": _summary(results[1:]),
    }


def _soon(page: Any, expression: str, seconds: float = 20) -> float:
    """What an expression gives as soon as it gives anything."""
    for _ in range(int(seconds * 50)):
        value = page.evaluate(expression)
        if value is not None:
            return float(value)
        page.wait_for_timeout(20)
    said = page.locator("[role=alert]").all_text_contents()
    raise RuntimeError("the page shows nothing" + (f": {said[0]}" if said else ""))


def _summary(milliseconds: Sequence[float]) -> dict[str, float]:
    return {"median": round(statistics.median(milliseconds), 1), "worst": round(max(milliseconds), 1)}


def main() -> None:
    """Measure, and print medians."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("query", type=Path, help="a table to drop on the page")
    parser.add_argument("--runs", type=int, default=15)
    asked = parser.parse_args()
    facts = measure_page(asked.index, asked.query, asked.runs)
    for name in ("first_contentful_paint_ms", "drop_to_results_ms"):
        words, found = name.removesuffix("_ms").replace("_", " "), facts[name]
        print(f"{words}: median {found['median']:.0f} ms, worst {found['worst']:.0f} ms of {asked.runs}")


if __name__ == "__main__":
    main()
