"""Arguments in the wrong order: an index where a table belongs, and the other way round."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gentus.shell import command

_OTHERS = ("query", "queries", "table", "names", "files", "lake")  # arguments beside INDEX


def check_order(params: Mapping[str, Any]) -> None:
    """Raise with the command that was meant, if another argument is an index and INDEX is none."""
    building = isinstance(params.get("out"), Path) and isinstance(params.get("lake"), str)  # gentus index
    if building:
        given, others = params["out"], [params["lake"]]
    else:
        given, others = params.get("index"), list(_texts(params))
    if not isinstance(given, Path) or _is_index(given):
        return
    for other in others:
        if _is_index(Path(other)) and Path(other) != given:
            if building and not given.exists():
                return  # nothing to index either
            raise ValueError(
                f"{other} is an index, and {given} is none: they are in the wrong order. "
                f"Run: {_swapped(given, Path(other))}"
            )


def _texts(params: Mapping[str, Any]) -> Iterator[str]:
    for name in _OTHERS:
        value = params.get(name)
        yield from value if isinstance(value, list | tuple) else [value] if isinstance(value, str) else []


def _is_index(path: Path) -> bool:
    """A quick look; opening it says more."""
    try:
        return (path / "catalogue.sqlite").is_file()
    except (OSError, ValueError):  # no permission, or no path at all
        return False


def _swapped(first: Path, second: Path) -> str:
    """The command that was typed, with two of its words exchanged."""
    words = []
    for word in sys.argv[1:]:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        meant = {first: second, second: first}.get(Path(value), value)
        words.append(f"{option}{equals}{meant}")
    return command(*words)
