"""Completion of arguments at a prompt: names of tables of the index, and files beside them.

Whatever is wrong with the index, nothing is printed: then there are only files.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from gentus.terminal import one_line, visible

_SHELL = "_GENTUS_COMPLETE"  # set by the script of the shell: complete_bash, complete_zsh, ..
_REFUSED = {
    "complete_zsh": r"\\",
    **dict.fromkeys(("complete_powershell", "complete_pwsh"), r"[^\w ./\\:~-]"),
}


def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tables of the index that is given before."""
    return _offered(_names(ctx, incomplete))


def tables_and_files(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tables of the index, and files."""
    return _offered([*_names(ctx, incomplete), *_files(incomplete)])


def _offered(names: list[str]) -> list[str]:
    """Names without control characters, and without what Typer does not escape for this shell."""
    refused = _REFUSED.get(os.environ.get(_SHELL, ""), "\n")
    plain = (one for one in dict.fromkeys(names) if visible(one_line(one)) == one)
    return [_Completion(name) for name in plain if not re.search(refused, name)]


class _Completion(str):
    """A word as the shell has to insert it, compared with what was typed as it is meant.

    Typer drops words that do not start with what was typed, and bash inserts them as they are: a blank has to
    be escaped for the one, and not for the other. The other shells escape by themselves.
    """

    def __new__(cls, name: str) -> _Completion:
        bash = os.environ.get(_SHELL) == "complete_bash"
        made = super().__new__(cls, _escaped(name) if bash else name)
        made.name = name
        return made

    name: str

    def startswith(self, *arguments: Any) -> bool:
        return self.name.startswith(*arguments)


def _escaped(name: str) -> str:
    """A name with backslashes where bash needs them; quotes would not continue what was typed."""
    if shlex.quote(name) == name:
        return name
    return "".join(sign if sign.isalnum() or sign in "@%+=:,./-_" else f"\\{sign}" for sign in name)


def _names(ctx: typer.Context, start: str) -> list[str]:
    from gentus.index.names import names_beginning

    # An option that still lacks its value ends Typer's parsing, and the arguments are left over.
    index = ctx.params.get("index") or next((one for one in ctx.args if not one.startswith("-")), None)
    with suppress(Exception):
        return names_beginning(Path(os.path.expanduser(index)), start) if index else []
    return []


def _files(start: str) -> list[str]:
    """Files and folders that begin with what was typed, as a shell would list them.

    A folder that is the only one is opened: the shell would take it for finished, and add a blank.
    """
    found = list(_entries(start))
    while len(found) == 1 and found[0].endswith("/"):
        found = list(_entries(found[0]))
    return found


def _entries(start: str) -> Iterator[str]:
    folder, begin = os.path.split(start)
    with suppress(OSError), os.scandir(os.path.expanduser(folder) or ".") as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.name.startswith(begin) and (begin or not entry.name.startswith(".")):
                yield os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
