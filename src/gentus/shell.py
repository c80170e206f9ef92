"""Commands in messages, as they are typed in a shell."""

from __future__ import annotations

import shlex


def command(*words: object) -> str:
    """A command of gentus with its arguments, quoted where they need it: `gentus info 'my index'`."""
    return shlex.join(["gentus", *map(str, words)])
