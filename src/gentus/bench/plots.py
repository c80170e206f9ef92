"""Plots of experiments, all in one style, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OURS = "#c8553d"
COLOURS = ("#1f6f8b", "#6a994e", "#8d6a9f", "#bc8034", "#5c6b73", "#3d8f88", "#a05195", "#7f7f3f", "#4f6d9a")
MARKS = "osD^vPX*<>"


@contextmanager
def figure(path: Path, columns: int = 1, width: float = 5.0, height: float = 3.5) -> Iterator[list[Any]]:
    """Axes side by side; saved as `path.png` and `path.svg` at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "svg.hashsalt": "gentus",  # the same data gives the same file
    }
    with plt.rc_context(style):
        drawn, axes = plt.subplots(
            1, columns, figsize=(width * columns, height), squeeze=False, layout="constrained"
        )
        try:
            yield list(axes[0])
            path.parent.mkdir(parents=True, exist_ok=True)
            drawn.savefig(path.with_name(path.name + ".png"), dpi=130)
            drawn.savefig(path.with_name(path.name + ".svg"), metadata={"Date": None})
        finally:
            plt.close(drawn)


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour a method, the same in every plot of a report; ours stands out."""
    others = [name for name in names if not name.startswith("GenTUS")]
    chosen = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(others)}
    return {name: chosen.get(name, OURS) for name in names}


def lines(axes: Any, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], **labels: Any) -> None:
    """One line a name, over numbers."""
    shades = colours(list(series))
    for at, (name, (xs, ys)) in enumerate(series.items()):
        ours = name.startswith("GenTUS")
        axes.plot(
            xs,
            ys,
            marker=MARKS[at % len(MARKS)],
            markersize=4,
            color=shades[name],
            linewidth=2.2 if ours else 1.2,
            zorder=3 if ours else 2,
            label=name,
        )
    axes.set(**labels)


def bars(axes: Any, values: Mapping[str, float], log: bool = False, **labels: Any) -> None:
    """One horizontal bar a name, with its value written beside it, the first on top."""
    names = list(values)[::-1]
    shades = colours(names)
    drawn = axes.barh(
        names, [values[name] for name in names], color=[shades[name] for name in names], height=0.65
    )
    axes.bar_label(drawn, [f"{values[name]:,.3g}" for name in names], padding=3, fontsize=8)
    axes.grid(axis="y", visible=False)
    if log:
        axes.set_xscale("log")
    axes.margins(x=0.18)
    axes.set(**labels)
