"""Draw the figure of the pipeline: `python tools/draw_pipeline.py` writes docs/pipeline.svg.

With a path as its argument it writes there; the end of the name decides the format.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

TARGET = Path(__file__).parent.parent / "docs" / "pipeline.svg"
INK, GREY = "#1c1917", "#57534e"
STEP, WIDTH, HEIGHT = 2.0, 1.72, 1.3  # between columns of boxes; of a box
LABELLED, BUILD, SEARCH, RESULT = 6.6, 4.6, 2.15, 0.35  # rows, by the middle of their boxes
FILL = {
    LABELLED: ("#f5f3ff", "#6d28d9"),
    BUILD: ("#f0fdfa", "#0f766e"),
    SEARCH: ("#fffbeb", "#b45309"),
    RESULT: ("#fffbeb", "#b45309"),
}


class Box(NamedTuple):
    """One stage: where it stands, what it is called, what it is and which package has it."""

    column: float
    row: float
    title: str
    text: str
    package: str
    width: float = WIDTH

    @property
    def x(self) -> float:
        """The middle of the box."""
        return self.column * STEP


LAKE = Box(0, BUILD, "lake", "folder, database\nor URL", "lake")
TABLES = Box(1, BUILD, "tables", "bounded samples\nof rows, as text", "lake")
FEATURES = Box(2, BUILD, "features", "words, grams,\ntokens, names", "features")
NEIGHBOURS = Box(3, BUILD, "neighbours", "column matching,\nhubness correction", "neighbours")
SPACE = Box(4, BUILD, "latent space", "an eigenproblem,\nthen smoothing", "embed")
IDENTIFIERS = Box(5, BUILD, "identifiers", "residual k-means:\n10-1-13-4-…", "identifiers")
TREE = Box(6, BUILD, "prefix tree", "sorted codes,\nmemory-mapped", "retrieval")
LABELS = Box(2, LABELLED, "labels", "pairs of\nunionable tables", "neighbours")
NETWORK = Box(4, LABELLED, "network", "replaces the\neigenproblem", "embed")
GENERATOR = Box(7, LABELLED, "generator", "T5, trained to\nwrite identifiers", "generator")
QUERY = Box(2, SEARCH, "query", "read and counted\nlike a table", "lake, features")
LATENT = Box(4, SEARCH, "latent", "one unit vector,\nnot smoothed", "embed")
BEAM = Box(
    6.5,
    SEARCH,
    "beam search",
    "by residual distance, then feedback;\nwith labels by distance and generator",
    "retrieval",
    3.72,
)
RANKED = Box(6.5, RESULT, "ranked tables", "identifiers with scores,\nmapped to names", "index", 3.72)
ALIGNMENT = Box(4, RESULT, "alignment", "which columns\nbelong together", "align")
UNION = Box(2, RESULT, "union", "all rows\nin one file", "union")
BOXES = (
    *(LAKE, TABLES, FEATURES, NEIGHBOURS, SPACE, IDENTIFIERS, TREE, LABELS, NETWORK, GENERATOR),
    *(QUERY, LATENT, BEAM, RANKED, ALIGNMENT, UNION),
)
ROWS = {LABELLED: "with labels", BUILD: "build", SEARCH: "search", RESULT: "use"}


def draw() -> Figure:
    """The whole figure."""
    mpl.rcParams.update({"font.family": "DejaVu Sans", "svg.hashsalt": "gentus", "svg.fonttype": "path"})
    figure = Figure(figsize=(12.2, 6.0))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.98, 15.0), ylim=(-0.42, 7.42))
    axes.axis("off")
    for row, name in ROWS.items():
        height = row + HEIGHT / 2 + 0.27 if row == BUILD else row  # a box stands where its name would
        axes.text(-0.86, height, name, color=FILL[row][1], fontsize=13, weight="bold", va="center")
    for box in BOXES:
        _draw_box(axes, box)
    for left, right in ((LAKE, TABLES), (TABLES, FEATURES), (FEATURES, NEIGHBOURS), (NEIGHBOURS, SPACE)):
        _join(axes, left, right)
    for left, right in ((SPACE, IDENTIFIERS), (IDENTIFIERS, TREE), (QUERY, LATENT), (LATENT, BEAM)):
        _join(axes, left, right)
    for left, right in ((RANKED, ALIGNMENT), (ALIGNMENT, UNION), (LABELS, NETWORK), (NETWORK, GENERATOR)):
        _join(axes, left, right)
    _down(axes, NETWORK.x, LABELLED, BUILD)
    _down(axes, SPACE.x, BUILD, SEARCH, "projection")
    _down(axes, TREE.x, BUILD, SEARCH, "valid codes")
    _down(axes, GENERATOR.x, LABELLED, SEARCH)
    _note(axes, GENERATOR.x - 0.1, BUILD, "log-\nprobability", "right")
    _down(axes, BEAM.x, SEARCH, RESULT)
    _bypass(axes)
    return figure


def _draw_box(axes: Axes, box: Box) -> None:
    fill, edge = FILL[box.row]
    style = "--" if box.row == LABELLED else "-"
    corner = (box.x - box.width / 2, box.row - HEIGHT / 2)
    axes.add_patch(
        FancyBboxPatch(
            corner,
            box.width,
            HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.4,
            linestyle=style,
        )
    )
    axes.text(
        box.x, box.row + 0.4, box.title, ha="center", va="center", fontsize=12, weight="bold", color=INK
    )
    axes.text(
        box.x, box.row - 0.03, box.text, ha="center", va="center", fontsize=9.3, color=INK, linespacing=1.2
    )
    axes.text(
        box.x,
        box.row - 0.47,
        box.package,
        ha="center",
        va="center",
        fontsize=9,
        color=edge,
        family="monospace",
    )


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: str = "arc3") -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=14,
            color=GREY,
            linewidth=1.4,
            shrinkA=0,
            shrinkB=0,
            connectionstyle=bend,
        )
    )


def _join(axes: Axes, start: Box, end: Box) -> None:
    """An arrow between two boxes of a row."""
    way = 1 if start.x < end.x else -1
    _arrow(axes, (start.x + way * start.width / 2, start.row), (end.x - way * end.width / 2, end.row))


def _down(axes: Axes, x: float, above: float, below: float, text: str = "") -> None:
    """An arrow from a row to one below it."""
    _arrow(axes, (x, above - HEIGHT / 2), (x, below + HEIGHT / 2))
    if text:
        _note(axes, x + 0.1, below + HEIGHT / 2 + 0.52, text, "left")


def _note(axes: Axes, x: float, y: float, text: str, side: str = "center") -> None:
    """Small text beside an arrow."""
    axes.text(x, y, text, fontsize=9.3, color=GREY, ha=side, va="center")


def _bypass(axes: Axes) -> None:
    """Blocks go from the features to the latent space as well, and the graph from the neighbours."""
    top, bottom = BUILD - HEIGHT / 2, BUILD - HEIGHT / 2 - 0.34
    start, end = FEATURES.x + 0.3, SPACE.x - 0.4
    axes.plot([start, start, end], [top, bottom, bottom], color=GREY, linewidth=1.4, solid_joinstyle="round")
    _arrow(axes, (end, bottom), (end, top))
    _note(axes, (start + end) / 2, bottom - 0.17, "blocks X")
    _note(axes, 3.5 * STEP - 0.02, BUILD + 0.17, "A")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    metadata = {"Date": None} if target.suffix == ".svg" else None
    draw().savefig(target, dpi=110, facecolor="white", metadata=metadata)
