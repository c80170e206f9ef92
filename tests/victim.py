"""Processes that change an index or read it, for the crash tests to kill and to watch.

`python victim.py` is a warm process: it forks a child for every trial that it reads from stdin, so that none
waits for imports, and never works on an index itself. `python victim.py INDEX QUERY` is a reader.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from conftest import QUICK

import gentus
from gentus.features.weights import load_tokenizer, load_vectors

# So small that a build takes a tenth of a second; how well it ranks is not the question here.
TINY = replace(
    QUICK,
    quantizer=replace(QUICK.quantizer, levels=3),
    smoothing=0.0,  # so that identifiers are those of the features alone
)
_DONE_TO_FILES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}


@dataclass(slots=True)
class Operation:
    """One change of an index."""

    kind: str  # add, remove, sync, compact or index
    what: list[str] = field(default_factory=list)  # files to add, or tables to remove


@dataclass(slots=True)
class Trial:
    """Operations in a row; in the last one the process is killed, by the clock or at something it does."""

    lake: str
    index: str
    operations: list[Operation]
    delay: float | None = None  # seconds into the last operation
    moment: int | None = None  # which of the things that it does to the disk


@dataclass(slots=True)
class Outcome:
    """What became of a trial."""

    acknowledged: int = 0  # operations that were finished, as far as anybody was told
    killed: bool = False  # in the last operation
    seconds: float = 0.0  # that the last operation took, if it was finished
    moments: int = 0  # that it had
    error: str = ""  # what went wrong without a kill


class Moments:
    """Counts what a process does to files and to the catalogue; at the fatal one it kills the process."""

    def __init__(self) -> None:
        self.count, self.fatal = 0, 0

    def pass_one(self, *_: object) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, folder: str) -> None:
        """From now on: opened, renamed and deleted files, `fsync` on both sides, every SQL statement."""

        def heard(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _DONE_TO_FILES or (event == "open" and str(arguments[0]).startswith(folder)):
                self.pass_one()

        def fsync(descriptor: Any) -> None:
            self.pass_one()
            really(descriptor)
            self.pass_one()

        def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
            made: sqlite3.Connection = really_connect(*arguments, **options)
            made.set_trace_callback(self.pass_one)
            return made

        really, really_connect = os.fsync, sqlite3.connect
        vars(os)["fsync"], vars(sqlite3)["connect"] = fsync, connect
        sys.addaudithook(heard)


def carry_out(operation: Operation, trial: Trial, done: Callable[[], None]) -> None:
    """Do it, and say so at once: what comes after, such as closing the index, has nothing to add."""
    if operation.kind == "index":
        built = gentus.build(trial.lake, trial.index, settings=TINY, workers=1)
        done()
        built.close()
        return
    with gentus.open(trial.index) as index:
        if operation.kind == "add":
            assert not index.add(operation.what).unreadable
        elif operation.kind == "remove":
            index.remove(operation.what)
        elif operation.kind == "sync":
            assert not index.sync(force=True).unreadable
        else:
            index.compact()
        done()


def suffer(trial: Trial, pipe: int) -> None:
    """The child: says when the last operation begins, and when each one is finished."""
    moments = Moments()
    moments.watch(trial.index)
    for number, operation in enumerate(trial.operations, 1):
        started = time.monotonic()

        def done(number: int = number, started: float = started) -> None:
            moments.fatal = 0
            told = Outcome(number, seconds=time.monotonic() - started, moments=moments.count)
            os.write(pipe, json.dumps(asdict(told)).encode() + b"\n")

        if number == len(trial.operations):
            os.write(pipe, b"last\n")
            moments.count, moments.fatal = 0, trial.moment or 0
        carry_out(operation, trial, done)


def attempt(trial: Trial) -> Outcome:
    """Fork a child for the trial, kill it in time, and say how far it got."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # rather than hang
        try:
            suffer(trial, here)
        except BaseException:
            os.write(here, json.dumps(asdict(Outcome(error=traceback.format_exc()))).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(here)
    outcome = Outcome()
    with os.fdopen(there) as pipe:
        for line in pipe:
            if line == "last\n":
                if trial.delay is not None:
                    time.sleep(trial.delay)
                    os.kill(child, signal.SIGKILL)  # not reaped yet, so it is nobody else's number
            elif (told := Outcome(**json.loads(line))).error:
                outcome.error = told.error
            else:
                outcome = told
    _, status = os.waitpid(child, 0)
    by_us = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    outcome.killed = by_us and outcome.acknowledged < len(trial.operations)
    return outcome


def serve() -> None:
    for module in ("gentus.index.build", "gentus.index.updater", "gentus.lake.formats.text"):
        importlib.import_module(module)
    load_tokenizer()
    load_vectors()
    for line in sys.stdin:
        told = json.loads(line)
        trial = Trial(**{**told, "operations": [Operation(**one) for one in told["operations"]]})
        print(json.dumps(asdict(attempt(trial))), flush=True)


def look(folder: Path, query: Path) -> None:
    """Search until told to stop; tell when each search began and ended, and everything that it found."""
    with gentus.open(folder) as index:
        while not os.path.exists(folder.parent / "stop"):
            begun = time.monotonic()
            found = [hit.table for hit in index.search(query, k=1000)]
            print(json.dumps([begun, time.monotonic(), found]), flush=True)
            time.sleep(0.02)


if __name__ == "__main__":
    look(*map(Path, sys.argv[1:])) if len(sys.argv) > 1 else serve()
