"""Run a notebook on the demo's lake and take its picture, light and dark: notebook.png, notebook-dark.png.

It needs the lake and index of `make demo`, Chromium, and Jupyter's packages, which are in no lock file:

    python -m venv /tmp/jupyter && /tmp/jupyter/bin/pip install nbconvert nbclient ipykernel
    PYTHONPATH=$PWD/tests:$PWD/src:$(echo $PWD/.venv/lib/python3.*/site-packages) \
        /tmp/jupyter/bin/python tools/draw_notebook.py demo docs
"""

from __future__ import annotations

import io
import shutil
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import gentus

CELLS = (
    'import gentus\n\nindex = gentus.open("demo/index")\nindex',
    'hits = index.search("demo/films.csv", k=6)\nhits',
    'index.align("demo/films.csv", hits[0])',
    'union = index.union("demo/films.csv", hits[:4])\nunion.plan',
    'union.write_parquet("films.parquet")',
)
WIDTH, SHARPNESS = 1000, 1.5
HIDDEN = ".jp-InputCollapser, .jp-OutputCollapser { display: none }"


def main(demo: Path, out: Path) -> None:
    """Run the cells in a folder where the demo is `demo`, and draw what Jupyter shows."""
    nbclient, nbconvert, nbformat = map(import_module, ("nbclient", "nbconvert", "nbformat.v4"))
    notebook = nbformat.new_notebook(cells=[nbformat.new_code_cell(cell) for cell in CELLS])
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(demo, Path(folder) / "demo"))
        with gentus.open(copy / "index") as index:
            index.sync(copy / "lake")
        nbclient.NotebookClient(notebook, resources={"metadata": {"path": folder}}).execute()
    for theme, name in (("light", "notebook.png"), ("dark", "notebook-dark.png")):
        page, _ = nbconvert.HTMLExporter(theme=theme).from_notebook_node(notebook)
        _draw(page, out / name)


def _draw(html: str, path: Path) -> None:
    """A picture of a page, in 256 colours."""
    from PIL import Image
    from stress.page import chromium

    with TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "notebook.html"
        file.write_text(html, "utf-8")
        page = browser.new_context(
            device_scale_factor=SHARPNESS, viewport={"width": WIDTH, "height": 400}, offline=True
        ).new_page()
        page.goto(file.as_uri(), wait_until="domcontentloaded")
        page.add_style_tag(content=HIDDEN)
        page.wait_for_timeout(800)
        shot = page.screenshot(full_page=True)
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    few = picture.quantize(256, Image.Quantize.MEDIANCUT, kmeans=4, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
