"""One HTML page with everything that was measured: tables, plots, and sentences made from the numbers."""

from __future__ import annotations

import base64
import contextlib
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gentus.bench.machine import sentence

_STYLE = """
:root { --ink: #1d2327; --soft: #5b666d; --line: #d9dfe2; --paper: #fdfcfa; --ours: #c8553d; --card: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --soft: #a4adb3; --line: #3a4247; --paper: #16191b; --ours: #ee8a72;
    --card: #1e2225; }
  figure img { background: #fff; border-radius: 4px; }
}
* { box-sizing: border-box; }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.2rem 5rem; }
h1 { font-size: 1.9rem; margin: 0 0 .2rem; } h2 { margin: 2.6rem 0 .5rem; font-size: 1.3rem; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1.02rem; } p, li { max-width: 74ch; }
.soft { color: var(--soft); font-size: .88rem; }
nav { columns: 2; margin: 1rem 0; } nav a { color: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; margin: .4rem 0 1rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .65rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
tr.ours td { color: var(--ours); font-weight: 600; } td.best { font-weight: 700; text-decoration: underline; }
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

    def say(self, *sentences: str, soft: bool = False) -> None:
        """A paragraph."""
        kind = ' class="soft"' if soft else ""
        self.parts.append(f"<p{kind}>{html.escape(' '.join(sentences))}</p>")

    def heading(self, text: str) -> None:
        """A heading inside a section."""
        self.parts.append(f"<h3>{html.escape(text)}</h3>")

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[str]], best: Mapping[int, bool] | None = None
    ) -> None:
        """A table; in the columns of `best` the highest (True) or lowest (False) measured value is marked."""
        listed = [list(row) for row in rows]
        marks = {
            (at, column) for column, highest in (best or {}).items() for at in _best(listed, column, highest)
        }
        lines = ["<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in header) + "</tr>"]
        for at, row in enumerate(listed):
            kind = "ours" if row[0].startswith("GenTUS") and "published" not in row[0] else ""
            kind = "published" if "published" in row[0] else kind
            cells = "".join(
                f"<td{' class=best' if (at, column) in marks else ''}>{html.escape(cell)}</td>"
                for column, cell in enumerate(row)
            )
            lines.append(f'<tr class="{kind}">{cells}</tr>' if kind else f"<tr>{cells}</tr>")
        self.parts.append('<div class="scroll"><table>' + "\n".join(lines) + "</table></div>")

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


def _best(rows: Sequence[Sequence[str]], column: int, highest: bool) -> list[int]:
    """The measured rows with the best value of a column, as it is shown."""
    values: dict[int, float] = {}
    for at, row in enumerate(rows):
        with contextlib.suppress(ValueError):
            if "published" not in row[0]:
                values[at] = float(row[column].split(" ")[0].replace(",", ""))
    wanted = (max if highest else min)(values.values(), default=0.0)
    return [at for at, value in values.items() if value == wanted]


def ratio(larger: float, smaller: float) -> str:
    """How many times, in words that a reader can check."""
    return f"{larger / smaller:,.1f} times" if smaller else "infinitely many times"
