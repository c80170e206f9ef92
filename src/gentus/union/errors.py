"""Errors of unions. Their messages say what is wrong, and where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PlanError(ValueError):
    """A plan that cannot be run."""


class OutputError(ValueError):
    """A union that cannot be written to this file; the message says what to do."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that is most like it, if one is."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
