"""One HTML page with everything that was measured: tables, plots, and sentences made from the numbers."""

from __future__ import annotations

import base64
import contextlib
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gentus_bench.machine import sentence
from gentus_bench.overview import best_rows

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2327; --soft: #5b666d; --line: #d9dfe2; --paper: #fdfcfa;
  --ours: #b23a20; --card: #fff; --tint: #fbeee9; --good: #2c7a43; --bad: #a8481c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --soft: #a4adb3; --line: #3a4247; --paper: #16191b; --ours: #ee8a72;
    --card: #181818; --tint: #2c211e; --good: #7cc48f; --bad: #e7a27c; }
  figure img { filter: invert(.905) hue-rotate(180deg); } /* plots are drawn on white; hues stay */
}
* { box-sizing: border-box; }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.2rem 5rem; }
h1 { font-size: 1.9rem; margin: 0 0 .2rem; } h2 { margin: 2.6rem 0 .5rem; font-size: 1.3rem; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1.02rem; } p, li { max-width: 74ch; }
.soft { color: var(--soft); font-size: .88rem; }
nav { columns: 2; margin: 1rem 0 2rem; font-size: .92rem; }
@media (max-width: 640px) { nav { columns: 1; } }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; margin: .4rem 0 1rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .65rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
tr.ours td { color: var(--ours); font-weight: 600; background: var(--tint); }
td.best { font-weight: 700; text-decoration: underline; text-underline-offset: 3px; }
table.words td { white-space: normal; text-align: left; vertical-align: top; }
table.words th { text-align: left; }
.claim { margin: 1rem 0; } .claim p { margin: 0; max-width: none; }
.claim ul { margin: .2rem 0 0; padding-left: 0; list-style: none; }
.claim li { max-width: none; margin: .15rem 0; padding: 0 .7rem; border-left: 4px solid var(--good);
  font-size: .92rem; }
.claim li.no { border-color: var(--bad); }
details { margin: .4rem 0 1rem; } summary { cursor: pointer; color: var(--soft); }
a { color: inherit; }
tr.published td { color: var(--soft); font-style: italic; }
figure { margin: .8rem 0; padding: .6rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; }
figure img { max-width: 100%; display: block; margin: auto; }
figcaption { color: var(--soft); font-size: .85rem; }
"""


@dataclass(slots=True)
class Page:
    """A page that grows section by section."""

    title: str
    parts: list[str] = field(default_factory=list)
    sections: list[tuple[str, str]] = field(default_factory=list)  # anchor and heading

    def section(self, heading: str) -> None:
        """Begin a section."""
        anchor = f"s{len(self.sections) + 1}"
        self.sections.append((anchor, heading))
        self.parts.append(f'<h2 id="{anchor}">{html.escape(heading)}</h2>')

    def anchor(self, heading: str) -> str | None:
        """Where a section is, if the page has it."""
        return next((anchor for anchor, text in self.sections if text == heading), None)

    def say(self, *sentences: str, soft: bool = False) -> None:
        """A paragraph."""
        kind = ' class="soft"' if soft else ""
        self.parts.append(f"<p{kind}>{html.escape(' '.join(sentences))}</p>")

    def heading(self, text: str) -> None:
        """A heading inside a section."""
        self.parts.append(f"<h3>{html.escape(text)}</h3>")

    def claim(self, words: str, verdicts: Iterable[tuple[bool, str]]) -> None:
        """A claim, and below it where it holds and where it does not, with a stroke that shows which."""
        items = "".join(
            f'<li class="{"yes" if holds else "no"}">{html.escape(said)}</li>' for holds, said in verdicts
        )
        self.parts.append(f'<div class="claim"><p><b>{html.escape(words)}</b></p><ul>{items}</ul></div>')

    @contextlib.contextmanager
    def folded(self, title: str) -> Iterator[None]:
        """What only some readers want to see."""
        self.parts.append(f"<details><summary>{html.escape(title)}</summary>")
        yield
        self.parts.append("</details>")

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        best: Mapping[int, bool] | None = None,
        words: bool = False,
    ) -> None:
        """A table; in the columns of `best` the highest (True) or lowest (False) measured value is marked.

        One of `words` has text in its cells, to be broken into lines. A cell that is `Markup` is taken as is.
        """
        listed = [list(row) for row in rows]
        marks = {
            (at, column)
            for column, highest in (best or {}).items()
            for at in best_rows(listed, column, highest)
        }
        lines = ["<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in header) + "</tr>"]
        for at, row in enumerate(listed):
            kind = "ours" if row[0].startswith("GenTUS") and "published" not in row[0] else ""
            kind = "published" if "published" in row[0] else kind
            cells = "".join(
                f"<td{' class=best' if (at, column) in marks else ''}>{_text(cell)}</td>"
                for column, cell in enumerate(row)
            )
            lines.append(f'<tr class="{kind}">{cells}</tr>' if kind else f"<tr>{cells}</tr>")
        self.parts.append(
            '<div class="scroll"><table'
            + (' class="words">' if words else ">")
            + "\n".join(lines)
            + "</table></div>"
        )

    def plot(self, path: Path, caption: str) -> None:
        """A plot that lies beside the results as SVG, put into the page itself."""
        file = path.with_name(path.name + ".svg")
        if file.is_file():
            data = base64.b64encode(file.read_bytes()).decode()
            said = html.escape(caption)
            self.parts.append(
                f'<figure><img alt="{said}" src="data:image/svg+xml;base64,{data}">'
                f"<figcaption>{said}</figcaption></figure>"
            )

    def machines(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """What the figures of a section were measured on, and when."""
        # How busy the machine was stands in every document; here it would only make as many lines.
        machines = [(document["made"][:10], {**document["machine"], "load": None}) for document in documents]
        told = {f"{day}; {sentence(machine)}" for day, machine in machines}
        for line in sorted(told):
            self.say(line, soft=True)

    def text(self) -> str:
        """The whole page."""
        links = "".join(f'<a href="#{a}">{html.escape(h)}</a><br>' for a, h in self.sections)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title><style>{_STYLE}</style></head><body><main>"
            f"<h1>{html.escape(self.title)}</h1><nav>{links}</nav>"
            + "\n".join(self.parts)
            + "</main></body></html>\n"
        )


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def link(anchor: str, text: str) -> Markup:
    """A link to a section of the page."""
    return Markup(f'<a href="#{anchor}">{html.escape(text)}</a>')


def _text(cell: str) -> str:
    return cell if isinstance(cell, Markup) else html.escape(cell)
