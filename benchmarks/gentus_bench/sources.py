"""The code that a measurement depends on, as one digest: modules and all that they import."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

PACKAGES = ("gentus", "gentus_bench")


@cache
def code_digest(*roots: str) -> str:
    """A digest of the modules `roots` and of all modules of ours that they import, directly or not.

    `import gentus` brings all of the package. Files beside a module, such as weights, belong to it.
    """
    found, waiting = set[str](), list(roots)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += _imported(name)
    files = {file for name in found for file in _files(name)}
    if "gentus" in found:
        files |= {file for file in _folder("gentus").rglob("*") if file.is_file() and file.suffix != ".pyc"}
    return sha256("".join(_of_file(file) for file in sorted(files)).encode()).hexdigest()[:16]


@cache
def _imported(name: str) -> tuple[str, ...]:
    """The modules of ours that one imports, wherever in it that is."""
    path = _path(name)
    return tuple(_named(ast.parse(path.read_text("utf-8")))) if path else ()


def _named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in PACKAGES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            assert node.module is not None
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [one for one in inner if _path(one)]
            yield from modules
            if len(modules) < len(inner):
                yield node.module


@cache
def _path(name: str) -> Path | None:
    """The source of a module; None: there is no such module."""
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # what it would be in is a module
        return None
    return Path(found.origin) if found and found.origin and found.origin.endswith(".py") else None


def _folder(name: str) -> Path:
    path = _path(name)
    assert path is not None
    return path.parent


def _files(name: str) -> Iterator[Path]:
    path = _path(name)
    if path is None:  # a module of a script, such as a test
        return
    yield path
    beside = (file for file in path.parent.iterdir() if file.is_file())
    yield from (file for file in beside if file.suffix not in (".py", ".pyc"))


@cache
def _of_file(file: Path) -> str:
    return f"{file.name} {sha256(file.read_bytes()).hexdigest()}\n"
