"""Tables of figures as Markdown; every table of a result is one of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """Names on the left, figures to the right of them, and what they mean."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    best: Mapping[int, bool] = field(default_factory=dict)  # columns whose highest (True) or lowest is bold

    def markdown(self) -> str:
        """The table, with its title above and its note below."""
        marks = {(row, at) for at, highest in self.best.items() for row in best_rows(self.rows, at, highest)}
        lines = [self.columns, ["---", *["---:"] * (len(self.columns) - 1)]]
        for number, row in enumerate(self.rows):
            lines.append([f"**{cell}**" if (number, at) in marks else cell for at, cell in enumerate(row)])
        text = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        return "\n\n".join(filter(None, (self.title and f"{self.title}:", text, self.note)))

    def filled(self) -> Table:
        """The same without the columns that nothing is known for."""
        kept = [at for at in range(len(self.columns)) if at == 0 or any(row[at] for row in self.rows)]
        rows = [[row[at] for at in kept] for row in self.rows]
        best = {kept.index(at): highest for at, highest in self.best.items() if at in kept}
        return Table([self.columns[at] for at in kept], rows, self.title, self.note, best)


def figure(value: Any, form: str = "") -> str:
    """A number as it is shown: by a format, or with three significant figures; None is empty."""
    if value is None:
        return ""
    if form:
        return format(value, form)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def best_rows(rows: Sequence[Sequence[str]], column: int, highest: bool) -> list[int]:
    """The measured rows with the best value of a column, as it is shown."""
    values: dict[int, float] = {}
    for number, row in enumerate(rows):
        shown = row[column].split(" ")[0].replace(",", "") if "published" not in row[0] else ""
        try:
            values[number] = float(shown)
        except ValueError:
            continue
    wanted = (max if highest else min)(values.values(), default=0.0)
    return [number for number, value in values.items() if value == wanted]
