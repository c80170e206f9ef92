"""Ground truths that benchmarks ship as pickles, read without running anything that is in them.

A pickle is a program. This one may only build dicts, lists, sets, text and numbers: first each instruction of
it is looked at and must be on a short list, then it is loaded by an unpickler that knows no class but a few
containers. All else is refused with the name of the class.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MOST_BYTES = 256 << 20

_INSTRUCTIONS = {  # without BUILD, NEWOBJ, INST, OBJ, EXT*, PERSID: plain containers need none of them
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK"),
    *("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
    *("EMPTY_SET", "ADDITEMS", "FROZENSET"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("NONE", "NEWTRUE", "NEWFALSE"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL", "REDUCE"),
}
_PUT = {"PUT", "BINPUT", "LONG_BINPUT"}
_GET = {"GET", "BINGET", "LONG_BINGET"}


class UnsafePickleError(ValueError):
    """A pickle that asks for more than plain containers."""


def _dict(*arguments: Any) -> dict[Any, Any]:
    """Stand in for `OrderedDict`, whose old pickles hand over their items."""
    return dict(*arguments)


def _default_dict(factory: object = None, /, *items: Any) -> dict[Any, Any]:
    """Stand in for `defaultdict`; what it would call for a missing key is dropped."""
    return dict(*items)


_CONTAINERS: dict[str, Callable[..., Any]] = {
    "collections.defaultdict": _default_dict,
    "collections.OrderedDict": _dict,
    **{
        f"{module}.{kind.__name__}": kind
        for module in ("builtins", "__builtin__")
        for kind in (dict, list, set, frozenset)
    },
}


def _refusal(path: Path, wanted: str) -> UnsafePickleError:
    hint = ""
    if wanted.partition(".")[0] in ("numpy", "pandas"):
        hint = "; where it was made, save plain lists of str instead: {str(q): [str(c) for c in found], ..}"
    return UnsafePickleError(f"{path} needs {wanted}, and only plain containers are loaded{hint}")


class _Plain(pickle.Unpickler):
    """Knows containers only."""

    def __init__(self, data: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")  # the text of Python 2 is bytes
        self.path = path

    def find_class(self, module: str, name: str, /) -> Any:
        wanted = f"{module}.{name}"
        if wanted not in _CONTAINERS:
            raise _refusal(self.path, wanted)
        return _CONTAINERS[wanted]

    def persistent_load(self, pid: Any, /) -> Any:
        raise UnsafePickleError(f"{self.path} refers to things outside of it")


def load_plain(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """Load a pickle of plain containers, or refuse it; nothing it names is ever imported or called."""
    size = path.stat().st_size
    if size > most_bytes:
        raise UnsafePickleError(f"{path} has {size:,} bytes, more than the {most_bytes:,} that are loaded")
    data = path.read_bytes()
    try:
        _look_through(data, path)
        return _Plain(data, path).load()
    except UnsafePickleError:
        raise
    except RecursionError as error:
        raise UnsafePickleError(f"{path} is nested too deeply") from error
    except Exception as error:  # a damaged stream can raise nearly anything
        raise ValueError(f"{path} is no pickle, or is cut off or damaged ({error})") from error


def _look_through(data: bytes, path: Path) -> None:
    """Refuse instructions that plain containers do not need, and what would cost far more than its size.

    Tuples that hold one tuple twice, forty deep, take years to hash; so no tuple may be used twice.
    """
    texts: list[str] = []
    classes: list[str] = []  # classes, as far as it is known without running it: enough for a message
    kept: dict[int, bool] = {}  # numbers of what is kept to be used again: whether it is a tuple
    before = ""
    for count, (instruction, argument, at) in enumerate(pickletools.genops(data)):
        name = instruction.name
        if name in ("GLOBAL", "INST"):
            classes.append(str(argument).replace(" ", ".", 1))
        elif name == "STACK_GLOBAL":
            classes.append(".".join(texts[-2:]))
        elif isinstance(argument, str):
            texts = [*texts[-1:], argument]
        if name == "MEMOIZE" or name in _PUT:
            number = len(kept) if name == "MEMOIZE" else int(argument or 0)
            if number > count:
                raise UnsafePickleError(f"{path} asks for more memory at byte {at} than it can fill")
            kept[number] = before.startswith("TUPLE")
        elif name in _GET and kept.get(int(argument or 0)):
            raise UnsafePickleError(f"{path} uses a tuple again at byte {at}; save lists instead")
        before = name
        if name not in _INSTRUCTIONS:
            if strange := [wanted for wanted in classes if wanted not in _CONTAINERS]:
                raise _refusal(path, strange[0])
            raise UnsafePickleError(
                f"{path} has the instruction {name} at byte {at}: it holds more than dicts, lists, sets and"
                " text, and is not loaded"
            )


def load_truth_pickle(path: Path) -> dict[str, list[str]]:
    """Load `{query: [candidates]}`; candidates may be any container of text, sets come sorted."""
    loaded = load_plain(path)
    if not isinstance(loaded, dict):
        raise ValueError(
            f"{path} holds a {type(loaded).__name__}, not a dict of queries with their candidates"
        )
    truth: dict[str, list[str]] = {}
    for query, found in loaded.items():
        if not isinstance(query, str):
            raise ValueError(f"{path}: the query {query!r} is no text")
        truth[query] = list(_names(path, query, found))
    return truth


def _names(path: Path, query: str, found: Any) -> Iterable[str]:
    if not isinstance(found, list | tuple | set | frozenset | dict):
        raise ValueError(
            f"{path}: the candidates of {query} are a {type(found).__name__}, not a list of names"
        )
    if wrong := [name for name in found if not isinstance(name, str)]:
        raise ValueError(f"{path}: {wrong[0]!r}, a candidate of {query}, is no text")
    return sorted(found) if isinstance(found, set | frozenset) else dict.fromkeys(found)
