"""Plots of experiments, all in one style, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OURS, TRAINED = "#c8442a", "#7d1f10"
PAPERS = {"GenTUS (paper, closed form": "#b0307a", "GenTUS (paper": "#e08a1e"}  # by how titles begin
COLOURS = (  # muted, so that ours stands out, and of different lightness, so that they differ in grey too
    *("#6c9bb5", "#8fb07c", "#a78bb8", "#c9a36a", "#8a959c", "#5fa8a0"),
    *("#bb8aa6", "#9a9a5b", "#6f83b3", "#b0714f", "#4f7f5f", "#7d6f8f"),
)
OTHERS = "#9fb2bd"  # bars have their names beside them and need no colour each
MARKS = "osD^vPX*<>ph"
KNOWN = (  # systems by how their titles begin: each has the same colour and mark in every plot
    *("Starmie", "TACTUS", "LIFTus", "Sherlock", "SATO", "SANTOS", "D3L"),
    *("TF-IDF words", "TF-IDF chars", "MiniLM"),
)


def is_ours(title: str) -> bool:
    """Whether a system, or what stands for one, is GenTUS."""
    return title.startswith("GenTUS")


@contextmanager
def figure(
    path: Path, columns: int = 1, width: float = 5.0, height: float = 3.5, rows: int = 1
) -> Iterator[list[Any]]:
    """Axes side by side, row by row; saved as `path.png` and `path.svg` at the end. Sizes are of one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "svg.hashsalt": "gentus",  # the same data gives the same file
    }
    with plt.rc_context(style):
        drawn, axes = plt.subplots(
            rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained"
        )
        try:
            yield list(axes.flat)
            path.parent.mkdir(parents=True, exist_ok=True)
            drawn.savefig(path.with_name(path.name + ".png"), dpi=130)
            drawn.savefig(path.with_name(path.name + ".svg"), metadata={"Date": None})
        finally:
            plt.close(drawn)


@contextmanager
def grid(path: Path, count: int, columns: int, width: float, height: float) -> Iterator[list[Any]]:
    """So many axes in rows of `columns`; what is left of the last row stays blank."""
    columns = min(columns, count)
    with figure(path, columns, width, height, rows=-(-count // columns)) as axes:
        for blank in axes[count:]:
            blank.set_axis_off()
        yield axes[:count]


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour per method, the same in every plot; ours stands out."""
    chosen: dict[str, str] = {}
    free = iter(range(len(KNOWN), len(KNOWN) + len(names)))
    for name in names:
        if is_ours(name):
            papers = (shade for known, shade in PAPERS.items() if name.startswith(known))
            chosen[name] = next(papers, TRAINED if "labels" in name else OURS)
        else:
            at = next((at for at, known in enumerate(KNOWN) if name.startswith(known)), None)
            chosen[name] = COLOURS[(next(free) if at is None else at) % len(COLOURS)]
    return chosen


def lines(
    axes: Any, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], size: float = 4.0, **labels: Any
) -> None:
    """One line a name, over numbers. Ours is thick and on top; a second kind of a system is dashed.

    `size` is of the marks.
    """
    shades = colours(list(series))
    marks = {
        shade: MARKS[at % len(MARKS)] for at, shade in enumerate((*COLOURS, OURS, TRAINED, *PAPERS.values()))
    }
    for name, (xs, ys) in series.items():
        ours = is_ours(name)
        axes.plot(
            xs,
            ys,
            marker=marks[shades[name]],
            markersize=1.35 * size if ours else size,
            color=shades[name],
            linewidth=2.6 if ours else 1.2,
            linestyle="--" if "," in name or "(generated)" in name else "-",
            zorder=4 if ours else 2,
            label=name,
        )
    axes.set(**labels)


def legend(axes: Any, on: Any = None) -> None:
    """Name the lines beside the plot, where they cover none, or on other axes, ours first."""
    handles, names = axes.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda at: not is_ours(names[at]))
    if not order:
        return
    if on is not None:
        on.set_axis_off()
    drawn = (on or axes).legend(
        [handles[at] for at in order],
        [names[at] for at in order],
        loc="upper left",
        bbox_to_anchor=(0.0 if on is not None else 1.02, 1.0),
        borderaxespad=0.0,
        fontsize=8,
    )
    for text in drawn.get_texts():
        if is_ours(text.get_text()):
            text.set_fontweight("bold")


def bars(axes: Any, values: Mapping[str, float], log: bool = False, **labels: Any) -> None:
    """One horizontal bar a name, with its value written beside it, the first on top."""
    names = list(values)[::-1]
    shades = {name: colours([name])[name] if is_ours(name) else OTHERS for name in names}
    drawn = axes.barh(
        names, [values[name] for name in names], color=[shades[name] for name in names], height=0.68
    )
    axes.bar_label(drawn, [_written(values[name]) for name in names], padding=3, fontsize=8)
    axes.tick_params(axis="y", labelsize=7.5)  # names are long
    for text in axes.get_yticklabels():
        if is_ours(text.get_text()):
            text.set(fontweight="bold", color=shades[text.get_text()])
    axes.grid(axis="y", visible=False)
    if log:
        logarithmic(axes, values.values())
    axes.margins(x=0.18)
    axes.set(**labels)


def logarithmic(axes: Any, values: Iterable[float]) -> None:
    """Let x grow by factors, with plain numbers at the ticks; values that hardly differ stay as they are."""
    from matplotlib.ticker import LogLocator

    listed = list(values)
    if not listed or max(listed) < 8 * min(listed):
        return
    axes.set_xscale("log")
    few = max(listed) < 200 * min(listed)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    plain_numbers(axes.xaxis)


def plain_numbers(axis: Any) -> None:
    """No powers at the ticks of a logarithmic axis, and nothing between them."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _written(value: float) -> str:
    """Three figures, and whole numbers in full: a reader should not meet 1.41e+04."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
