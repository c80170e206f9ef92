"""Where a table lies: on a path of this machine, or at a URL.

A URL is kept as it was typed, without anything secret: gentus writes it into catalogues, plans and messages.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://", re.ASCII)
POSTGRES = ("postgresql", "postgres")
_WRAPPERS = ("reference", "filecache", "simplecache", "blockcache", "cached")  # they open other URLs


@dataclass(frozen=True, slots=True)
class State:
    """What a store says of an object without its being read; equal states mean equal content."""

    size: int
    mtime_ns: int = 0  # 0: it does not say
    version: str = ""  # an ETag, a generation or the like

    @property
    def telling(self) -> bool:
        """Whether a change could be seen at all."""
        return bool(self.mtime_ns or self.version)


@dataclass(frozen=True, slots=True)
class Remote:
    """A URL. It answers to the few questions that are asked of a `Path` wherever tables lie."""

    url: str
    state: State | None = field(default=None, compare=False)  # as it was listed; None: it is asked for

    def __str__(self) -> str:
        """The URL."""
        return self.url

    def __truediv__(self, name: str) -> Remote:
        """What lies below."""
        return Remote(f"{self.url.rstrip('/')}/{name}" if not self.url.endswith("//") else self.url + name)

    @property
    def scheme(self) -> str:
        """What comes before the colon."""
        return self.url.partition(":")[0]

    @property
    def name(self) -> str:
        """The last part of it."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def suffix(self) -> str:
        """How the name ends, as a `Path` has it."""
        return os.path.splitext(self.name)[1]

    def resolve(self) -> Remote:
        """URLs have no links."""
        return self

    def is_relative_to(self, other: Location) -> bool:
        """Whether it lies in there, or is the same."""
        return isinstance(other, Remote) and (self.url + "/").startswith((other / "").url)

    def relative_to(self, other: Location) -> str:
        """What it is called in there; elsewhere all of it."""
        inside = isinstance(other, Remote) and self.is_relative_to(other)
        return self.url.removeprefix(str(other / "")) if inside else self.url

    def exists(self) -> bool:
        """Whether there is anything; raises `Unreadable` where that cannot be found out."""
        if self.scheme in POSTGRES:
            from gentus.lake.formats.postgres import exists as has_table

            return has_table(self)
        from gentus.lake.remote.storage import exists

        return exists(self)


Location: TypeAlias = Path | Remote


def is_url(text: str) -> bool:
    """Tell a URL from a path."""
    return _URL.match(text) is not None


def as_location(where: str | os.PathLike[str] | Remote) -> Location:
    """What somebody means who names a place. What must not be stored is refused."""
    if isinstance(where, Remote):
        return where
    text = os.fspath(where)
    if text.partition("://")[0].count("::"):
        raise ValueError("a URL that stands for another one (with ::) is not opened; give that one itself")
    found = _URL.match(text)
    if found is None:
        return Path(text)
    scheme, rest = found[1].lower(), text[found.end() :]
    if scheme == "file":
        return Path(url2pathname(urlsplit(text).path))
    if scheme in POSTGRES:
        from gentus.lake.formats.postgres import without_password

        scheme, rest = POSTGRES[0], without_password(rest)
    _check(scheme, rest)
    return Remote(f"{scheme}://{rest.rstrip('/')}")


def _check(scheme: str, rest: str) -> None:
    shown = f"{scheme}://{without_secrets(rest)}"
    if scheme in _WRAPPERS:
        raise ValueError(f"{shown}: a URL that stands for another one is not opened; give that one itself")
    user, at, _ = rest.split("/", 1)[0].rpartition("@")
    if at and (":" in user or scheme in ("http", "https")):
        raise ValueError(
            f"{shown}: this URL has a user name or a password in it, and gentus stores where tables lie. "
            "Give it without; credentials are taken from where the library that reads it looks for them."
        )
    if scheme in ("http", "https") and ("?" in rest or "#" in rest):
        raise ValueError(
            f"{shown}: what follows the ? of a URL may be a signature or a key, and gentus stores where "
            "tables lie. Download the file, or give a URL without."
        )


def without_secrets(rest: str) -> str:
    """The part of a URL behind its scheme as it may be shown."""
    host, slash, path = rest.partition("/")
    return re.split(r"[?#]", host.rpartition("@")[2] + slash + path, maxsplit=1)[0]


def identity(place: Location | str) -> str:
    """What tells whether two places are one: links are followed."""
    text = str(place)
    return text if is_url(text) else os.path.realpath(text)


def absolute(place: Location) -> str:
    """A place as it is to be written down."""
    return str(place) if isinstance(place, Remote) else os.path.abspath(place)
