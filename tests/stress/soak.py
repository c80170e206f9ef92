"""Soak test: random changes and faults for an hour, beside a model of what the index must hold.

After every step a search that finds all tables is compared with the model, in this process or in another
that has had the index open all the time; and a server is searched with tables of the lake. A table that is
missing is lost; one that should not be there, an identifier given twice or changed, an unexpected error, or
damage that `check` finds, is wrong. `make soak` runs it.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

import gentus
from gentus.index.check import check
from gentus.index.folder import IndexFolderError
from gentus.progress import Progress, terminal_progress
from gentus_bench.experiments.serving import serving
from gentus_bench.processes import resident_bytes
from gentus_bench.results import Results
from gentus_bench.table import Table
from stress.reading import CALLS, COMMANDS, Reading
from stress.soak_model import FEWEST, MOST, Model, Operation
from stress.soak_processes import Processes, Reader, sids

CHANGES = {"add": 20, "replace": 14, "remove": 16, "rename": 6, "sync": 8, "compact": 4}
FAULTS = {"kill": 5, "no room": 4, "no permission": 2, "two writers": 3, "cut while read": 3, "refit": 0.2}
SEARCHES = {"search": 40, "read": 6, "check": 1.5}
FIRST = 300  # searches before the time begins: caches fill, and memory is to stay as it is from then on
LOOKS = 20  # at memory
_MIB = 1 << 20
_BOUNDARY = "gentus-soak-6d1f"


@dataclass(slots=True)
class Tally:
    """What was done, and what was found to be amiss."""

    done: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)  # of faults
    looks: Counter[str] = field(default_factory=Counter)  # at everything, by who looked
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    memory: list[dict[str, float]] = field(default_factory=list)  # bytes of each process, over time

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def measure_soak(
    results: Results,
    minutes: float,
    seed: int,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build an index of a small lake, and let it live for so long."""

    def measure() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="gentus-soak-", dir=folder) as scratch:
            os.chmod(scratch, 0o755)  # others may look, so that what they may not do is to write
            return _soak(Path(scratch), 60 * minutes, seed, progress or Progress())

    return results.measured("soak", {"minutes": minutes, "seed": seed}, measure)


def _soak(root: Path, seconds: float, seed: int, progress: Progress) -> dict[str, Any]:
    model = Model(root, random.Random(seed))
    model.fill()
    _build(model)
    with ExitStack() as stack:
        server = stack.enter_context(serving(model.index))
        reader = Reader(model.index)
        stack.callback(reader.close)
        opened = stack.enter_context(gentus.open(model.index))
        life = Life(model, Processes(), reader, opened, *server)
        life.warm()
        begun, shown = time.monotonic(), 0
        with progress.stage("Soaking", round(seconds), unit="seconds") as tick:
            while (now := time.monotonic() - begun) < seconds:
                if now >= len(life.tally.memory) * seconds / LOOKS:
                    life.look_at_memory(now)
                life.step()
                tick(int(now) - shown)
                shown = int(now)
        life.look_at_memory(time.monotonic() - begun)
        life.settle()
        life.check()
    return {
        "seconds": round(time.monotonic() - begun),
        "tables": len(model.tables),
        "operations": sum(life.tally.done.values()),
        **life.tally.to_dict(),
    }


def _build(model: Model) -> None:
    """So small that learning takes no time: how well it ranks is not the question here."""
    from gentus.settings import BuildSettings, QuantizerSettings

    settings = BuildSettings(quantizer=QuantizerSettings(levels=4))
    gentus.build(model.lake, model.index, settings=settings, workers=1).close()


@dataclass(slots=True)
class Life:
    """An index, all who use it, and what it has been through."""

    model: Model
    processes: Processes
    reader: Reader
    opened: gentus.Index
    address: str
    server: int  # its process
    tally: Tally = field(default_factory=Tally)
    known: dict[str, str] = field(default_factory=dict)  # identifiers that must stay

    def warm(self) -> None:
        """Let everybody have searched."""
        for _ in range(FIRST):
            self._by_http()
        for _ in range(10):
            self.look()
        for _ in range(3):
            self._read(Operation("compact"))

    def step(self) -> None:
        """One thing that happens, and a look at everything afterwards."""
        chance, many = self.model.chance, len(self.model.tables)
        weights = {**CHANGES, **FAULTS, **SEARCHES}
        weights["add"] *= 0.2 if many > MOST else 1
        weights["remove"] *= 0.2 if many < FEWEST else 1
        (kind,) = chance.choices(list(weights), list(weights.values()))
        self.tally.done[kind] += 1
        if kind == "search":
            self._by_http() if chance.random() < 0.6 else self._own_content()
        elif kind == "read":
            kind = self.model.chance.choice(["add", "replace", "remove", "rename", "compact"])
            self._read(self.model.change(kind, inside=True))
        elif kind == "check":
            self.settle()
            self.check()
        elif kind == "refit":
            self._refit()
        elif kind in FAULTS:
            self._suffer(kind)
        else:
            self._change(kind)

    # --- changes ---------------------------------------------------------------------------------------

    def _change(self, kind: str) -> None:
        """Change the index here, while the reader searches: it sees what was, what is, or some of it."""
        before = set(self.model.tables)
        self.reader.ask(self.model.query)
        operation = self.model.change(kind)
        try:
            if operation.kind == "add":
                self.opened.add(operation.what)
            elif operation.kind == "remove":
                self.opened.remove(operation.what)
            elif operation.kind == "sync":
                self.opened.sync(force=True)
            else:
                self.opened.compact()
        except Exception as error:
            self.tally.wrong.append(f"{kind}: {type(error).__name__}: {error}")
        self._compare(self.reader.answer(), before & self.model.tables, before | self.model.tables, "beside")
        self.look()

    def _read(self, operation: Operation) -> None:
        """Calls, requests and a command of all kinds, while another process changes the index."""
        end = self.processes.start(self.model.index, operation)
        chance, names = self.model.chance, self.model.some(9)
        reading = Reading(self.model.index, self.model.query, chance)
        for kind in chance.sample(sorted(CALLS.keys() - {"gentus.check"}), 6):  # a killed writer leaves files
            reading.call(self.opened, kind, chance.choice(names))
        with httpx.Client(base_url=self.address, timeout=60) as client:
            for _ in range(4):
                reading.request(client, names)
        reading.run(chance.choice([one for one in COMMANDS if one != ["check"]]), names)
        self._expect("read", end(None), "done")
        self.tally.wrong += reading.wrong
        self.look()

    def _refit(self) -> None:
        self.settle()
        outcome = self.processes.start(self.model.index, Operation("refit"))(None)
        self._expect("refit", outcome, "done")
        self.known.clear()
        self.look()

    def _suffer(self, fault: str) -> None:
        """Let another process change the index and come to harm; then follow the lake, as its owner would."""
        model, chance = self.model, self.model.chance
        before = set(model.tables)
        kind = chance.choice(["add", "replace", "rename", "sync", "compact"])
        if fault == "cut while read":
            kind = "replace"
        operation = model.change(kind, inside=True)
        if fault == "kill":
            outcome = self.processes.start(model.index, operation)(
                chance.uniform(0.1, 1.1) * self.processes.usual()
            )
            self._expect(fault, outcome, "killed", "done")
        elif fault == "no room":
            outcome = self.processes.start(model.index, operation, room=1 << chance.randint(9, 22))(None)
            self._expect(fault, outcome, "done", "IndexFolderError: Cannot write")
        elif fault == "no permission":
            with _read_only(model.index):
                outcome = self.processes.start(model.index, operation, humble=True)(None)
            self._expect(fault, outcome, "IndexFolderError: Cannot write", "IndexFolderError: ")
        elif fault == "two writers":
            end = self.processes.start(model.index, operation)
            other = model.change("add", inside=True)
            try:
                self.opened.add(other.what)
            except IndexFolderError as error:  # the other took more than five seconds
                self.tally.outcomes[f"{fault}: told to wait"] += 1
                self._expect(fault, str(error), f"{model.index} is being changed by another process")
            self._expect(fault, end(None), "done", "IndexFolderError: ")
        else:
            before -= self._cut(operation)
        self._compare(self._everything(), before & model.tables, before | model.tables, fault)
        self.settle()
        self.look()

    def _cut(self, operation: Operation) -> set[str]:
        """Files shrink and grow while they are read; returns whose. In the end they are whole."""
        end = self.processes.start(self.model.index, operation)
        paths = [Path(path) for path in operation.what]
        whole = {path: path.read_bytes() for path in paths}
        for share in (0.5, 0.0, 0.8):
            for path, content in whole.items():
                path.write_bytes(content[: int(share * len(content))])
            time.sleep(0.01)
        self._expect("cut while read", end(None), "done", "IndexFolderError: ")
        for path, content in whole.items():
            path.write_bytes(content)
        return {path.relative_to(self.model.lake).as_posix() for path in paths}

    def _expect(self, fault: str, outcome: str, *allowed: str) -> None:
        begins = next((one for one in allowed if outcome.startswith(one)), None)
        self.tally.outcomes[f"{fault}: {'refused' if begins and ':' in begins else begins}"] += 1
        if begins is None:
            self.tally.wrong.append(f"{fault}: {outcome}")

    def settle(self) -> None:
        """Follow the lake; afterwards the index has all that the model has."""
        try:
            self.opened.sync(force=True)
        except Exception as error:
            self.tally.wrong.append(f"sync: {type(error).__name__}: {error}")

    # --- looks -----------------------------------------------------------------------------------------

    def _everything(self) -> list[tuple[str, str]] | str:
        try:
            return sids(self.opened, self.model.query)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def look(self) -> None:
        """Everything must be found, nothing else, and by the identifiers that were given."""
        if self.model.chance.random() < 0.5:
            found, who = self._everything(), "here"
        else:
            self.reader.ask(self.model.query)
            found, who = self.reader.answer(), "another process"
        tables = self.model.tables
        self._compare(found, tables, tables, who)
        if isinstance(found, str):
            return
        now = dict(found)
        for name, sid in now.items():
            if name not in self.model.changed and self.known.get(name, sid) != sid:
                self.tally.wrong.append(f"{name} had the identifier {self.known[name]} and has {sid}")
        self.known = now
        self.model.changed.clear()

    def _compare(self, found: list[tuple[str, str]] | str, must: set[str], may: set[str], who: str) -> None:
        self.tally.looks[who] += 1
        if isinstance(found, str):
            self.tally.wrong.append(f"{who}: {found}")
            return
        names = {name for name, _ in found}
        self.tally.lost += [f"{name} was not found ({who})" for name in must - names]
        self.tally.wrong += [f"{name} was found ({who})" for name in names - may]
        if len(names) < len(found) or len({sid for _, sid in found}) < len(found):
            self.tally.wrong.append(f"two tables of one name or one identifier ({who})")

    def _own_content(self) -> None:
        """A table is found by what it holds."""
        name = self.model.some(1)[0]
        hits = self.opened.search(self.opened.read(self.model.path(name)), k=100)
        self._among(name, [hit.table for hit in hits], "by its content")

    def _by_http(self) -> None:
        """The same over HTTP."""
        name = self.model.some(1)[0]
        try:
            hits = _post(self.address, self.model.path(name))
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            self.tally.wrong.append(f"over HTTP: {type(error).__name__}: {error}")
            return
        self._among(name, hits, "over HTTP")

    def _among(self, name: str, found: list[str], who: str) -> None:
        self.tally.looks[who] += 1
        if name not in found:
            self.tally.lost.append(f"{name} was not among the first hundred ({who})")
        self.tally.wrong += [f"{other} was found ({who})" for other in set(found) - self.model.tables]

    def check(self) -> None:
        """No damage anywhere."""
        self.tally.wrong += [f"check: {one.file}: {one.what}" for one in check(self.model.index)]

    def look_at_memory(self, seconds: float) -> None:
        """What the processes hold that live as long as the soak."""
        held = {
            "reader": self.reader.resident(),
            "server": resident_bytes(self.server),
            "here": resident_bytes(),
        }
        self.tally.memory.append({"seconds": round(seconds), **held})


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """Take the permission to write away, and give it back; root is not impressed, and steps down instead."""
    everything = [folder, *folder.rglob("*")]
    modes = [path.stat().st_mode for path in everything]
    for path, mode in zip(everything, modes, strict=True):
        path.chmod(mode & 0o555)
    try:
        yield
    finally:
        for path, mode in zip(everything, modes, strict=True):
            with suppress(FileNotFoundError):  # SQLite tidies up
                path.chmod(mode)


def _post(address: str, path: Path) -> list[str]:
    """Search over HTTP with a file; returns the names of what is found."""
    field_of = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="'
    head = f'{field_of}k"\r\n\r\n100\r\n{field_of}file"; filename="query.csv"\r\n\r\n'
    body = head.encode() + path.read_bytes() + f"\r\n--{_BOUNDARY}--\r\n".encode()
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        kind = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
        connection.request("POST", "/api/search", body, kind)
        answer = connection.getresponse()
        told = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(f"{answer.status}: {told[:200]!r}")
    return [hit["table"] for hit in json.loads(told)["results"]]


# --- the report ----------------------------------------------------------------------------------------


def growth(memory: Sequence[Mapping[str, float]], who: str, since: float = 0.0) -> float:
    """How much more memory a process has at the end than after a share of the time."""
    start = _after(memory, since)[who]
    return memory[-1][who] / start - 1 if start else 0.0


def _after(memory: Sequence[Mapping[str, float]], share: float) -> Mapping[str, float]:
    return memory[round(share * (len(memory) - 1))]


def tables(document: Mapping[str, Any]) -> list[Table]:
    """Operations, faults, and memory of the processes that live as long as the test."""
    memory = document["memory"]
    rows = []
    for who in ("reader", "server", "here"):
        sizes = (*(_after(memory, share)[who] for share in (0, 0.5, 1)), max(look[who] for look in memory))
        grown = (growth(memory, who), growth(memory, who, 0.5))
        rows.append([who, *(f"{value / _MIB:.0f}" for value in sizes), *(f"{one:+.1%}" for one in grown)])
    faults = sum(count for kind, count in document["done"].items() if kind in FAULTS)
    note = (
        f"{document['seconds'] / 60:.0f} minutes, seed {document['what']['seed']}, about {document['tables']}"
        f" tables: {document['operations']:,} operations, {faults:,} of them with a fault;"
        f" {sum(document['looks'].values()):,} checks of what is found."
        f" **Lost: {len(document['lost'])}, wrong: {len(document['wrong'])}.**"
    )
    note += "".join(f"\n- {finding}" for finding in [*document["lost"], *document["wrong"]][:20])
    counted = [
        Table([kind, "times"], [[name, f"{n:,}"] for name, n in _sorted(document[key])])
        for kind, key in (("operation", "done"), ("fault", "outcomes"))
    ]
    columns = ["MiB in memory", "start", "half-time", "end", "highest", "start to end", "second half"]
    return [*counted, Table(columns, rows, note=note)]


def _sorted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def main() -> None:
    """Run it, print the tables, and end with exit code 1 if something was lost or wrong."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="which changes and faults")
    parser.add_argument("--dir", type=Path, help="where lake and index go; the folder for temporary files")
    parser.add_argument("--out", type=Path, default=Path("results"), help="where the results go")
    asked = parser.parse_args()
    results = Results(asked.out, fresh=True)
    document = measure_soak(results, asked.minutes, asked.seed, asked.dir, terminal_progress())
    print("\n\n".join(table.markdown() for table in tables(document)))
    sys.exit(1 if document["lost"] or document["wrong"] else 0)


if __name__ == "__main__":
    main()
