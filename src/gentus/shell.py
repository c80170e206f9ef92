"""Commands in messages, as they are typed in a shell."""

from __future__ import annotations

import os
import shlex
import sys


def quoted(*words: object) -> str:
    """Words as one line of a shell, quoted where they need it."""
    line = list(map(str, words))
    if os.name != "nt":
        return shlex.join(line)
    import subprocess  # only its quoting is used

    return subprocess.list2cmdline(line)


def command(*words: object) -> str:
    """A command of gentus with its arguments: `gentus info 'my index'`."""
    return quoted("gentus", *words)


def typed_command() -> str:
    """The command that this process was started with."""
    return command(*sys.argv[1:])
