"""How far a reader has to jump: the functions that one CSV goes through, and how often the file changes.

`python tools/trace_files.py` indexes a lake of one small table and searches it. Of either it notes every
function of the package when it is called for the first time, in that order, and counts how often the next
function stands in another file than the one before, and in another package: as many changes would be left
if every package were one file. `--list` prints the functions.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import gentus
from gentus.app.cli.main import app

PACKAGE = str(Path(gentus.__file__).parent)
TABLE = "name,year,country\n" + "".join(f"film {i},{1950 + i},country {i % 5}\n" for i in range(20))


def trace(work: Callable[[], object]) -> list[tuple[str, str]]:
    """(file, function) of the package in the order in which they were first called."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        ours = event == "call" and code.co_filename.startswith(PACKAGE)
        # Bodies of classes and modules are no functions, lambdas and the like are part of theirs.
        if ours and code.co_flags & inspect.CO_NEWLOCALS and not code.co_name.startswith("<"):
            seen.setdefault((code.co_filename[len(PACKAGE) + 1 :], code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def changes(places: list[str]) -> int:
    """How often the next place is another one."""
    return sum(one != other for one, other in pairwise(places))


def package(file: str) -> str:
    """The package of a file; the modules of gentus itself count as one."""
    return Path(file).parts[0] if "/" in file else "shared"


def command(*arguments: str) -> Callable[[], object]:
    """A run of the command line in this process."""
    return lambda: app(list(arguments), standalone_mode=False)


def main() -> None:
    """Trace both and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the functions, too")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake, index = Path(folder) / "lake", Path(folder) / "index"
        lake.mkdir()
        (lake / "films.csv").write_text(TABLE, encoding="utf-8")
        query = Path(folder) / "query.csv"
        query.write_text(TABLE, encoding="utf-8")
        for name, work in (
            ("index", command("index", str(lake), "-o", str(index))),
            ("search", command("search", str(index), str(query), "--json")),
        ):
            calls = trace(work)
            files = [Path(file).as_posix() for file, _ in calls]
            print(
                f"{name}: {len(calls)} functions in {len(set(files))} files, "
                f"{changes(files)} changes of file, {changes([package(file) for file in files])} of package"
            )
            if told.list:
                print("".join(f"  {file}: {function}\n" for file, function in calls), end="")


if __name__ == "__main__":
    main()
