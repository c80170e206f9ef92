"""Whether the first row of delimited text is a header, or looks like the rows below it."""

from __future__ import annotations

from collections.abc import Sequence


def header_doubt(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Why the first row looks like data, in words; empty if it looks like a header."""
    return ""
