"""What of a lake is left out: patterns as in `.gitignore`, from `--exclude` and the lake's `.gentusignore`.

A pattern with a slash before its end is meant from the root of the lake, another one in every folder. `*`,
`?` and `[abc]` stay within a name, `**` is any number of folders, a slash at the end means folders only, `!`
takes back. The last pattern that matches a table or a folder above it decides, which is simpler than Git: a
table can be taken back out of a folder that is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from gentus.lake.base import Excluded, Skipped, Source

if TYPE_CHECKING:
    from gentus.lake.location import Location

_SPECIAL = re.compile(r"([\\*?\[])")
LONGEST = 4_096  # characters of a pattern: as long as a path can be
_ANY_FOLDERS = "(?:[^/]++/)*"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, and the expressions that it stands for."""

    text: str  # as it was written
    keeps: bool = field(init=False)  # what it matches is not left out
    _matches: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _above: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)  # up to the first **
    _at_any_depth: bool = field(init=False, repr=False, compare=False)  # there is a ** after these

    def __post_init__(self) -> None:
        """Translate it into expressions that take linear time.

        Of two `*` or `**`, the first may stand for as little as possible, once and for all: if the rest can
        match at all, it can match behind that. So everything but the last one is atomic.
        """
        keeps = checked_length(self.text).startswith("!")
        path = self.text[keeps:]
        parts = [part for part in path.removesuffix("/").split("/") if part not in ("", ".")]
        if not parts:
            raise ValueError(f"{self.text!r} is no pattern of files")
        if "/" not in path.removesuffix("/"):
            parts = ["**", *parts]
        before = ["" if part == "**" else f"{_expression(part)}/" for part in parts]
        last = ".+" if parts[-1] == "**" else _expression(parts[-1])
        ending = "/.*" if path.endswith("/") else "(?:/.*)?"
        whole = _folders(before[:-1]) + last + ending
        above = parts[: parts.index("**")] if "**" in parts[:-1] else parts[:-1]
        object.__setattr__(self, "keeps", keeps)
        object.__setattr__(self, "_matches", re.compile(whole, re.S))
        object.__setattr__(self, "_above", tuple(re.compile(_expression(part), re.S) for part in above))
        object.__setattr__(self, "_at_any_depth", "**" in parts[:-1])

    def matches(self, name: str) -> bool:
        """Whether it matches a table or a folder above it; the name of a folder ends in a slash."""
        return self._matches.fullmatch(name) is not None

    def may_match_in(self, folder: str) -> bool:
        """Whether it can match something in a folder, whose name ends in a slash."""
        names = folder.removesuffix("/").split("/")
        fits = all(one.fullmatch(name) for one, name in zip(self._above, names, strict=False))
        return fits and (self._at_any_depth or len(names) <= len(self._above))


@dataclass(frozen=True, slots=True)
class Exclude:
    """The patterns of a lake, in the order in which they count."""

    patterns: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Exclude:
        """From the texts of patterns."""
        return cls(tuple(map(Pattern, texts)))

    def by(self, name: str) -> Pattern | None:
        """The pattern by which a table or folder is left out; None: it is not."""
        for pattern in reversed(self.patterns):
            if pattern.matches(name):
                return None if pattern.keeps else pattern
        return None

    def excluded(self, name: str, path: Location, folder: bool = False) -> Excluded | None:
        """A file that is left out, or a whole folder that is; None: at least a part of it is read."""
        full = f"{name}/" if folder else name
        pattern = self.by(full)
        if pattern is None:
            return None
        if folder and any(one.keeps and one.may_match_in(full) for one in self.patterns):
            return None
        return Excluded(name, path, f"it is excluded by {pattern.text}")

    def applied(self, items: Iterable[Source | Skipped]) -> Iterator[Source | Skipped]:
        """The tables of a database or workbook, of which single ones may be left out."""
        for item in items:
            yield self.excluded(item.name, item.path) or item


NOTHING = Exclude()


def checked_length(pattern: str) -> str:
    """A pattern that is not too long."""
    if len(pattern) > LONGEST:
        raise ValueError(f"a pattern of {len(pattern):,} characters is too long; {LONGEST:,} are allowed")
    return pattern


def parse_lines(text: str, where: object) -> list[str]:
    """The patterns in a file: one on each line, but for empty ones and comments (`#`)."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            found.append(Pattern(line).text)
        except ValueError as error:
            raise ValueError(f"{where}, line {number}: {error}") from error
    return found


def keeping(name: str) -> Pattern:
    """The pattern that takes back the table or folder of this name."""
    return Pattern("!/" + _SPECIAL.sub(r"\\\1", name))


def latest(before: Iterable[str], given: Iterable[str]) -> tuple[str, ...]:
    """Patterns with further ones behind them, where they decide; one that is given again moves there."""
    new = list(given)
    return tuple(dict.fromkeys([*(one for one in before if one not in new), *new]))


@lru_cache(maxsize=4096)
def whole_path(pattern: str) -> re.Pattern[str]:
    """The expression of a pattern that stands for files, and not for what is in a folder; `!` is a sign."""
    *before, last = pattern.split("/") if "/" in pattern else ("**", pattern)
    folders = ["" if part == "**" else f"{_expression(part)}/" for part in before]
    return re.compile(_folders(folders) + (".+" if last == "**" else _expression(last)), re.S)


def _folders(parts: Sequence[str]) -> str:
    """A regular expression for folders, of which an empty one stands for any number."""
    runs = [""]
    for part in parts:
        runs = [*runs[:-1], runs[-1] + part] if part else [*runs, ""]
    if len(runs) == 1:
        return runs[0]
    between = "".join(f"(?>{_ANY_FOLDERS}?{run})" for run in runs[1:-1])
    return runs[0] + between + _ANY_FOLDERS + runs[-1]


def _expression(part: str) -> str:
    """A regular expression for one part of a path."""
    pieces, at = [""], 0  # between one * and the next
    while at < len(part):
        sign = part[at]
        end = part.find("]", at + 2) if sign == "[" else -1
        if sign == "*":
            pieces.append("")
        elif sign == "?":
            pieces[-1] += "[^/]"
        elif end > 0:
            inner = part[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            pieces[-1] += f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
            at = end
        else:
            at += sign == "\\" and at + 1 < len(part)
            pieces[-1] += re.escape(part[at])
        at += 1
    found = pieces[0]
    if len(pieces) > 1:
        between = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
        found = f"(?>{found}{between}[^/]*{pieces[-1]})"
    try:
        re.compile(found)
    except re.error as error:  # such as [z-a]
        raise ValueError(f"{part!r} is no pattern of files: {error}") from error
    return found
