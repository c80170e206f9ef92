"""All reading calls of Python, the server and the command line, to be made beside a writer.

A table that a call names may be removed meanwhile; nothing else may go wrong.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

import gentus
from gentus.index.index import Index

CHANGING = {"add", "add_tables", "close", "compact", "remove", "sync"}
# Each gets an index, the file of a query and the name of a table that may be removed meanwhile.
CALLS: dict[str, Callable[[Index, Path, str], object]] = {
    "align": lambda index, query, name: index.align(query, name),
    "config": lambda index, query, name: index.config.levels,
    "decoder": lambda index, query, name: len(index.decoder.trie),
    "describe": lambda index, query, name: index.describe(name),
    "doubtful": lambda index, query, name: index.doubtful(),
    "duplicates": lambda index, query, name: index.duplicates(),
    "entries": lambda index, query, name: index.entries(),
    "find": lambda index, query, name: index.find(name),
    "groups": lambda index, query, name: index.groups(),
    "info": lambda index, query, name: index.info(),
    "limits": lambda index, query, name: index.limits,
    "read": lambda index, query, name: index.read(name),
    "refresh": lambda index, query, name: index.refresh(),
    "search": lambda index, query, name: index.search([query, name], explain=True),
    "search_as": lambda index, query, name: index.search_as([query], [index.read(query)]),
    "search_many": lambda index, query, name: list(index.search_many([query, name], workers=1)),
    "sid": lambda index, query, name: index.sid(name),
    "skipped": lambda index, query, name: index.skipped(),
    "source": lambda index, query, name: index.source(name),
    "sources": lambda index, query, name: index.sources(),
    "tables": lambda index, query, name: index.tables(),
    "union": lambda index, query, name: index.union(query, name),
    "union_plan": lambda index, query, name: index.union_plan(query, [name]),
    "unusual": lambda index, query, name: index.unusual(),
    "len": lambda index, query, name: len(index),
    "repr": lambda index, query, name: (repr(index), index._repr_html_()),
    "suggestion": lambda index, query, name: index.describe(f"{name}x"),
    "gentus.open": lambda index, query, name: gentus.open(index.layout.root).close(),
    "gentus.check": lambda index, query, name: _intact(index.layout.root),
}
SLOW = {"union", "union_plan", "search_many"}  # they start processes
LISTS = ("tables", "entries", "describe", "sources", "sid", "suggestion", "info")  # that take little time
ROUTES = (
    *("/api/index", "/api/tables", "/api/groups", "/api/duplicates", "/api/map", "/api/tree", "/readyz"),
    *(
        "/api/table?name={}",
        "/api/group?table={}",
        "/api/search?table={}",
        "/metrics",
        "/api/tables?filter=a",
    ),
)
COMMANDS = (
    *(["info"], ["info", "--skipped"], ["info", "--headers"], ["info", "--reading"], ["tables"], ["groups"]),
    *(["duplicates"], ["check"], ["describe", "NAME"], ["search", "QUERY"], ["align", "QUERY", "NAME"]),
    *(["search", "NAME", "--explain"], ["union", "QUERY", "--dry-run"], ["sync", "--dry-run"]),
)


def _intact(index: Path) -> None:
    from gentus.index.check import check

    problems = check(index)
    assert not problems, f"damaged: {problems}"


@dataclass(slots=True)
class Reading:
    """What was read, and what went wrong."""

    index: Path
    query: Path
    chance: random.Random
    calls: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def call(self, opened: Index, kind: str, name: str) -> None:
        """One call of an index that is open all the time."""
        self.calls[kind] += 1
        try:
            CALLS[kind](opened, self.query, name)
        except gentus.Unreadable as error:  # the table is not there any more
            if "damaged" in str(error):
                self.wrong.append(f"{kind}: {error}")
        except Exception as error:
            self.wrong.append(f"{kind}: {type(error).__name__}: {error}")

    def some_calls(self, opened: Index, names: list[str], seconds: float, all_of_them: bool) -> None:
        """All calls in turn, for so long and each at least once."""
        kinds = sorted(CALLS.keys() - (set() if all_of_them else SLOW))
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(self.calls) < len(kinds):
            self.chance.shuffle(kinds)
            for kind in kinds:
                for one in (kind, *LISTS):
                    self.call(opened, one, self.chance.choice(names))

    def request(self, client: httpx.Client, names: list[str]) -> None:
        """One request; a table that is not there any more is an error of the client."""
        route = self.chance.choice(ROUTES)
        self.calls[f"HTTP {route}"] += 1
        try:
            answer = client.get(route.replace("{}", self.chance.choice(names)))
        except httpx.HTTPError as error:
            self.wrong.append(f"{route}: {type(error).__name__}: {error}")
            return
        if answer.status_code not in (200, 404, 422) or "damaged" in answer.text:
            self.wrong.append(f"{route}: {answer.status_code} {answer.text[:300]}")

    def some_requests(self, client: httpx.Client, names: list[str], seconds: float) -> None:
        """Requests for so long, at least one for each route."""
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(self.calls) < len(ROUTES):
            self.request(client, names)

    def run(self, arguments: list[str], names: list[str]) -> None:
        """One command in a process of its own."""
        self.calls[f"gentus {' '.join(arguments)}"] += 1
        given = {"NAME": self.chance.choice(names), "QUERY": str(self.query)}
        command, *rest = (given.get(word, word) for word in arguments)
        ran = subprocess.run(
            [sys.executable, "-P", "-m", "gentus", command, str(self.index), *rest],
            capture_output=True,
            text=True,
            cwd=self.index.parent,
        )
        gone = "neither a table of the index" in ran.stderr or "no table of this name" in ran.stderr
        if "damaged" in ran.stderr + ran.stdout or "Traceback" in ran.stderr or (ran.returncode and not gone):
            self.wrong.append(
                f"{' '.join(arguments)}: {ran.returncode} {ran.stdout[-300:]} {ran.stderr[-600:]}"
            )


WRITER = """
import sys, pathlib, random, gentus
index, beside, stop = map(pathlib.Path, sys.argv[1:4])
refits, chance, files = sys.argv[5] == "refits", random.Random(int(sys.argv[4])), sorted(beside.glob("*.csv"))
opened, count = gentus.open(index), 0
print("begun", flush=True)
while not stop.exists():
    some = chance.sample(files, chance.randint(1, 4))
    opened.add([str(path) for path in some])
    if chance.random() < 0.8:
        opened.remove([str(path) for path in chance.sample(some, chance.randint(1, len(some)))])
    if chance.random() < 0.15:
        opened.compact()
    if chance.random() < 0.1:
        opened.sync(force=True)
    if refits and count % 25 == 24:
        gentus.refit(index, workers=1).close()
        opened.close()
        opened = gentus.open(index)
    count += 1
print(count, flush=True)
"""


class Writer:
    """A process that adds and removes the files beside a lake until it is stopped."""

    def __init__(self, index: Path, beside: Path, seed: int, refits: bool) -> None:
        self._stop = beside / "stop"
        arguments = [str(index), str(beside), str(self._stop), str(seed), "refits" if refits else ""]
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begun\n", self._process.communicate()[1]

    def __enter__(self) -> Writer:
        """It has begun."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if it has not ended."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.communicate()

    def stop(self) -> int:
        """Let it finish what it does; returns how many changes it has made."""
        self._stop.touch()
        out, error = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, error
        return int(out)
