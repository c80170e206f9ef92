"""The rules of a lake, in its root folder: how its files are read (`gentus.toml`), and which are not.

[[files]]
path = "exports/**/*.csv"
header = "no"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gentus.lake.base import RULES, Skipped, Source
from gentus.lake.exclude import NOTHING, Exclude, checked_length, parse_lines, whole_path
from gentus.lake.files import sample_bytes
from gentus.lake.formats.detect import Format, format_of
from gentus.lake.location import POSTGRES, Location, Remote, as_location
from gentus.lake.tables import is_outside_lake, table_name
from gentus.table import text_choices

IGNORED = ".gentusignore"  # patterns of what is left out, see `exclude`
_KEYS = ("path", "header", "encoding")
_MOST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class FileRule:
    """How the files of a pattern are read."""

    path: str
    text: Mapping[str, Any] = field(hash=False)  # fields of a source: header, encoding

    def matches(self, name: str) -> bool:
        """Whether a file is meant, by its name in the lake; without a slash, in whatever folder it is."""
        return whole_path(self.path).fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class LakeRules:
    """How the files of a lake are read: by the last rule that matches, else by the default."""

    text: Mapping[str, Any] = field(default_factory=dict, hash=False)  # fields of a source
    files: tuple[FileRule, ...] = ()
    exclude: Exclude = NOTHING

    def applied(self, item: Source | Skipped) -> Source | Skipped:
        """A table of the lake as it is to be read; only of delimited text is there a choice."""
        if isinstance(item, Skipped) or not is_delimited(item):
            return item
        return replace(item, **self.choices(item.name))

    def choices(self, name: str) -> dict[str, Any]:
        """How a file of the lake is read, by its name, as fields of a source."""
        chosen = dict(self.text)
        for rule in self.files:
            chosen.update(rule.text if rule.matches(name) else {})
        return chosen


def excluded_name(path: str | os.PathLike[str] | Remote, lake: Location, exclude: Exclude) -> str | None:
    """The name of a file or folder that a person names, if it is excluded; None: it is not."""
    location = as_location(path)
    if isinstance(location, Path):
        full = Path(os.path.abspath(location))
        location = full.parent.resolve() / full.name
    name = table_name(location, None, lake)
    if location == lake.resolve() or is_outside_lake(name):
        return None
    return name if exclude.by(name) or exclude.by(f"{name}/") else None


def is_delimited(source: Source) -> bool:
    """Whether a table is delimited text, by the name of its file."""
    in_archive = source.part is not None and format_of(source.path.name) is Format.ZIP
    name = source.part if in_archive else source.path.name if source.part is None else None
    return name is not None and format_of(name) in (Format.TEXT, Format.PROSE)


def load_rules(
    lake: Location, text: Mapping[str, Any] | None = None, exclude: Iterable[str] = ()
) -> LakeRules:
    """The rules of a lake; raises `ValueError` that names the file and the key or line.

    Patterns that are given come after those of the lake, and so decide.
    """
    ignored = _text(lake, IGNORED)
    patterns = [] if ignored is None else parse_lines(ignored, lake / IGNORED)
    return LakeRules(text_choices(text or {}), _file_rules(lake), Exclude.of([*patterns, *exclude]))


def _file_rules(lake: Location) -> tuple[FileRule, ...]:
    text = _text(lake, RULES)
    if text is None:
        return ()
    where = f"{lake / RULES}"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where} is not TOML: {error}") from error
    for key in document:
        if key != "files":
            raise ValueError(f"{where} has an unknown key {key!r}; rules are under [[files]]")
    rules = document.get("files", [])
    if not isinstance(rules, list):
        raise ValueError(f"{where}: 'files' must be a list of tables; write [[files]] in double brackets")
    return tuple(_rule(rule, f"{where}: [[files]] number {at}") for at, rule in enumerate(rules, 1))


def _rule(rule: Any, where: str) -> FileRule:
    if not isinstance(rule, dict):
        raise ValueError(f"{where} is no table of keys")
    for key in rule:
        if key not in _KEYS:
            raise ValueError(f"{where} has an unknown key {key!r}; there are {', '.join(_KEYS)}")
    for key in ("path", *rule) if len(rule) > 1 else ("path", "header"):
        if not isinstance(rule.get(key), str) or not rule[key]:
            raise ValueError(f"{where} needs {key!r}, a text")
    try:
        path = checked_length(rule["path"]).removeprefix("./")
        whole_path(path)
        return FileRule(path, text_choices(rule))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _text(lake: Location, name: str) -> str | None:
    """The text of a file in the root folder of a lake; None if it has none."""
    path = lake / name
    if isinstance(path, Remote):
        from gentus.lake.remote.storage import exists

        if path.scheme in POSTGRES or format_of(str(lake)) is not None or not exists(path):
            return None
    elif not path.is_file():
        return None
    taken = sample_bytes(path, _MOST)
    if not taken.complete:
        raise ValueError(f"{path} has more than {_MOST:,} bytes; write fewer rules, with patterns")
    try:
        return taken.head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8") from error
