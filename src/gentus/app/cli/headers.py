"""What the commands say of first rows that look like data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from glob import escape
from pathlib import Path

from gentus.shell import command

SHOWN = 5  # tables that are named


def header_hints(doubtful: list[tuple[str, str]], lake: str, index: Path) -> Iterator[str]:
    """Which tables have a first row that looks like data, and how to say that it is the header."""
    from gentus.lake import is_outside_lake
    from gentus.lake.base import RULES
    from gentus.lake.formats.detect import format_of

    if not doubtful:
        return
    one = len(doubtful) == 1
    yield (
        f"{len(doubtful):,} {'table has' if one else 'tables have'} a first row that looks like data. "
        f"It was read as a row, and columns are numbered:"
    )
    for name, why in doubtful[:SHOWN]:
        yield f"  {name}: {why}"
    if len(doubtful) > SHOWN:
        yield f"  and {len(doubtful) - SHOWN:,} more: see {command('info', index, '--headers')}"
    example = doubtful[0][0]
    if is_outside_lake(example):
        yield f"If it is the header: {command('add', index, example, '--header', 'yes')}"
        return
    if format_of(lake) is not None:  # it is one file, and has no folder for rules
        yield f"If it is the header: {command('sync', index, '--header', 'yes')}"
        return
    yield f"If it is the header of a file, write into {lake.rstrip('/')}/{RULES} (path may be a pattern):"
    yield from (
        "  [[files]]",
        f"  path = {json.dumps(escape(example), ensure_ascii=False)}",
        '  header = "yes"',
    )
    yield f"Then run: {command('sync', index)}"
