"""A folder of results: one JSON document an experiment, written whole or not at all, never measured twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gentus_bench.machine import describe


@dataclass(frozen=True, slots=True)
class Results:
    """Where measurements are kept. A run that was stopped goes on with the next that is missing."""

    folder: Path
    fresh: bool = False  # measure again what is there already

    def measured(
        self, name: str, what: Mapping[str, Any], measure: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """The document `name`, measured now unless it is there for the same question `what`.

        Machine, versions and time of the measurement stand in it.
        """
        path = self.folder / f"{name}.json"
        asked = json.loads(json.dumps(what))
        if not self.fresh and (known := self.read(name)) is not None and known["what"] == asked:
            return known
        machine = describe()
        document = {
            "name": name,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine,
            "what": asked,
            **measure(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)
        return document

    def read(self, name: str) -> dict[str, Any] | None:
        """A document that was measured before."""
        try:
            found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if {"what", "machine", "made"} <= found.keys() else None

    def write_table(self, name: str, text: str) -> None:
        """A Markdown table beside its document."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of names on the left and figures to the right of them."""
    return "\n".join(
        [
            f"| {' | '.join(header)} |",
            "| --- |" + " ---: |" * (len(header) - 1),
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    )
