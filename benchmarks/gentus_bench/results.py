"""A folder of results: one JSON document per measurement, written atomically, never measured twice.

A document of an experiment lies in the folder itself; its parts, such as one system on one lake, in a
folder of the experiment's name.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gentus_bench.machine import describe

Document = dict[str, Any]
REQUIRED = {"name", "what", "machine", "made"}


@dataclass(frozen=True, slots=True)
class Results:
    """Where measurements are kept. A run that was stopped goes on with the next that is missing."""

    folder: Path
    fresh: bool = False  # measure again what is there already

    def measured(self, name: str, what: Mapping[str, Any], measure: Callable[[], Document]) -> Document:
        """The document `name`, measured now unless it is there with the same parameters `what`.

        Machine, versions, command and time of the measurement are in it.
        """
        parameters = json.loads(json.dumps(what))
        if not self.fresh and (known := self.read(name)) is not None and known["what"] == parameters:
            return known
        document = {
            "name": name,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe(),
            "command": shlex.join(["gentus-bench", *sys.argv[1:]]),
            "what": parameters,
            **measure(),
        }
        path = self.folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)
        return document

    def combined(self, name: str, what: Mapping[str, Any], content: Document) -> Document:
        """A document put together from parts: written anew each time, since some of the parts may be new."""
        return replace(self, fresh=True).measured(name, what, lambda: content)

    def read(self, name: str) -> Document | None:
        """A document that was measured before."""
        try:
            found: Document = json.loads((self.folder / f"{name}.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if found.keys() >= REQUIRED else None

    def documents(self, experiment: str) -> Iterator[Document]:
        """What was measured in an experiment, in the order of names."""
        names = {path.stem for path in self.folder.glob("*.json")}
        for name in sorted(name for name in names if name.split("-")[0] == experiment):
            if (document := self.read(name)) is not None:
                yield document

    def write_table(self, name: str, text: str) -> None:
        """Markdown beside the document."""
        (self.folder / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
