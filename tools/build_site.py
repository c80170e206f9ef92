"""Build the docs as a site with no warnings: `python tools/build_site.py`, or `make docs`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = {  # pages that are not in docs/, and their names on the site
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "benchmarks/README.md": "BENCHMARKS.md",
    "src/gentus/paper/README.md": "PAPER.md",
}
LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?(\))")


def build_site(folder: Path) -> Path:
    """Build the site and return its folder; any warning is an error."""
    shutil.rmtree(folder, ignore_errors=True)
    gather_pages(folder / "pages")
    config = shutil.copy(ROOT / "docs" / "zensical.toml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", config]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    if done.returncode or "warning" in said.lower():
        raise SystemExit(said)
    return folder / "site"


def gather_pages(pages: Path) -> None:
    """Copy docs/ and the pages from elsewhere into one folder; links between them are those of the copies."""
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.toml"))
    for name, place in ELSEWHERE.items():
        shutil.copy(ROOT / name, pages / place)
    sources = {place: name for name, place in ELSEWHERE.items()}
    for page in pages.rglob("*.md"):
        place = page.relative_to(pages).as_posix()
        source = ROOT / sources.get(place, f"docs/{place}")
        page.write_text(_relinked(page.read_text("utf-8"), source, page, pages), "utf-8")


def _relinked(text: str, source: Path, page: Path, pages: Path) -> str:
    """The text of a page with links that were relative to its source."""

    def link(found: re.Match[str]) -> str:
        target = (source.parent / found[2]).resolve()
        if not target.is_relative_to(ROOT):
            return found[0]
        name = target.relative_to(ROOT).as_posix()
        place = pages / ELSEWHERE.get(name, name.removeprefix("docs/"))
        return f"{found[1]}{Path(os.path.relpath(place, page.parent)).as_posix()}{found[3] or ''}{found[4]}"

    return LINK.sub(link, text)


if __name__ == "__main__":
    print(f"The site is in {build_site(ROOT / 'build' / 'docs')}")
