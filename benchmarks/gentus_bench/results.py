"""A folder of results: one JSON document per measurement, written atomically, never measured twice.

A document is kept for the same parameters, which name the data, and the same code. A failure is not kept.

A document of an experiment lies in the folder itself; its parts, such as one system on one lake, in a
folder of the experiment's name.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from gentus_bench.machine import describe
from gentus_bench.sources import code_digest

log = logging.getLogger("gentus_bench")

Document = dict[str, Any]
REQUIRED = {"name", "what", "machine", "made"}


@dataclass(frozen=True, slots=True)
class Results:
    """Where measurements are kept. A run that was stopped goes on with the next that is missing."""

    folder: Path
    fresh: bool = False  # measure again what is there already

    def measured(
        self,
        name: str,
        what: Mapping[str, Any],
        measure: Callable[[], Document],
        modules: Sequence[str] = (),
    ) -> Document:
        """The document `name`, measured now unless it is there with the same parameters and code.

        The code is that of `modules`, by default of the one that `measure` is from, with all that they
        import. Machine, versions, command and time of the measurement are in the document. One that has an
        `error` is not written.
        """
        key = self.key(what, modules or (_module(measure),))
        if not self.fresh and (known := self.kept(name, key)) is not None:
            log.info("%s: kept from %s, the data and the code are the same", name, known["made"])
            return known
        document = {
            "name": name,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe(),
            "command": shlex.join(["gentus-bench", *sys.argv[1:]]),
            **key,
            **measure(),
        }
        if "error" in document:
            return document
        path = self.folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)
        return document

    def combined(self, name: str, what: Mapping[str, Any], content: Document) -> Document:
        """A document put together from parts: written anew each time, since some of the parts may be new."""
        return replace(self, fresh=True).measured(name, what, lambda: content)

    @staticmethod
    def key(what: Mapping[str, Any], modules: Sequence[str]) -> Document:
        """What a measurement depends on, as its document has it."""
        return {"what": json.loads(json.dumps(what)), "code": code_digest(*modules)}

    def kept(self, name: str, key: Document) -> Document | None:
        """A document that was measured with the same key."""
        known = self.read(name)
        return known if known is not None and all(known.get(one) == key[one] for one in key) else None

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


def _module(measure: Callable[[], Document]) -> str:
    """Where a function is defined, also one that some arguments were given to."""
    while isinstance(measure, partial):
        measure = measure.func
    return measure.__module__
