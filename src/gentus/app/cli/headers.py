"""What the commands say of headers that look like data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gentus.shell import command

SHOWN = 5  # tables that are named


def header_hints(doubtful: list[tuple[str, str]], lake: str, index: Path) -> Iterator[str]:
    """Which tables have a header that looks like data, and how to say that they have none."""
    from gentus.lake import is_outside_lake
    from gentus.lake.formats.detect import format_of
    from gentus.lake.rules import RULES

    if not doubtful:
        return
    one = len(doubtful) == 1
    yield (
        f"{len(doubtful):,} {'table has' if one else 'tables have'} a first row that looks like data. "
        f"It was read as the header:"
    )
    for name, why in doubtful[:SHOWN]:
        yield f"  {name}: {why}"
    if len(doubtful) > SHOWN:
        yield f"  and {len(doubtful) - SHOWN:,} more: see {command('info', index, '--headers')}"
    example = doubtful[0][0]
    if is_outside_lake(example):
        yield f"If a file has no header: {command('add', index, example, '--header', 'no')}"
        return
    if format_of(lake) is not None:  # it is one file, and has no folder for rules
        yield f"If it has no header: {command('sync', index, '--header', 'no')}"
        return
    yield (
        f'If a file has no header, write into {lake.rstrip("/")}/{RULES}: [[files]] path = "{example}" '
        f'header = "no" (path may be a pattern), then run: {command("sync", index)}'
    )
