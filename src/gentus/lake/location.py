"""Locations of tables: paths of this machine, or URLs.

A URL is kept as it was typed, without secrets: it is written into catalogues, plans and messages.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://", re.ASCII)
POSTGRES = ("postgresql", "postgres")
_WRAPPERS = ("reference", "filecache", "simplecache", "blockcache", "cached")  # they open other URLs


@dataclass(frozen=True, slots=True)
class State:
    """Size, time and version of a file or object, without reading it; equal states mean equal content."""

    size: int
    mtime_ns: int = 0  # 0: unknown
    version: str = ""  # an ETag, a generation or the like

    @property
    def detects_changes(self) -> bool:
        """Whether a change of the content would change the state."""
        return bool(self.mtime_ns or self.version)


@dataclass(frozen=True, slots=True)
class Remote:
    """A URL, with the few methods of a `Path` that locations need."""

    url: str
    state: State | None = field(default=None, compare=False)  # as it was listed; None: not known yet

    def __str__(self) -> str:
        """The URL."""
        return self.url

    def __truediv__(self, name: str) -> Remote:
        """The URL of an entry below this one."""
        return Remote(f"{self.url.rstrip('/')}/{name}" if not self.url.endswith("//") else self.url + name)

    @property
    def scheme(self) -> str:
        """What comes before the colon: `s3`, `https`, .."""
        return self.url.partition(":")[0]

    @property
    def name(self) -> str:
        """The last component, as `Path.name`."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def suffix(self) -> str:
        """The extension of the name, as `Path.suffix`."""
        return os.path.splitext(self.name)[1]

    def resolve(self) -> Remote:
        """The URL itself: there are no links to follow."""
        return self

    def is_relative_to(self, other: Location) -> bool:
        """Whether it is the other location, or below it."""
        return isinstance(other, Remote) and (self.url + "/").startswith((other / "").url)

    def relative_to(self, other: Location) -> str:
        """The part below the other location; outside of it, the full URL."""
        inside = isinstance(other, Remote) and self.is_relative_to(other)
        return self.url.removeprefix(str(other / "")) if inside else self.url


@dataclass(frozen=True, slots=True)
class Member(Remote):
    """A file in an archive, which is read like an object at a URL: from memory or as a stream."""

    archive: Path | Remote = field(kw_only=True)
    inside: str = field(kw_only=True)  # its name in the archive
    data: bytes | None = field(default=None, kw_only=True, repr=False)  # all of it; None: it is streamed


Location: TypeAlias = Path | Remote


def is_url(text: str) -> bool:
    """Tell a URL from a path."""
    return _URL.match(text) is not None


def as_location(where: str | os.PathLike[str] | Remote) -> Location:
    """Parse a path or URL; URLs with secrets in them, which must not be stored, are refused."""
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
        from urllib.request import url2pathname  # lazily: it imports what HTTP needs, and every process would

        return Path(url2pathname(urlsplit(text).path))
    if scheme in POSTGRES:
        scheme, rest = POSTGRES[0], _without_password(rest)
    _check(scheme, rest)
    return Remote(f"{scheme}://{rest.rstrip('/')}")


def _without_password(rest: str) -> str:
    """Take the password out of a Postgres URL; only the environment of this process keeps it."""
    host, slash, path = rest.partition("/")
    user, at, host = host.rpartition("@")
    user, _, password = user.partition(":")
    if password:
        os.environ["PGPASSWORD"] = unquote(password)
    if "?" in path or "?" in host:
        raise ValueError("give settings of a Postgres connection in the environment (PGSSLMODE, ..)")
    return f"{user}{at}{host}{slash}{path}"


def _check(scheme: str, rest: str) -> None:
    shown = f"{scheme}://{without_secrets(rest)}"
    if scheme in _WRAPPERS:
        raise ValueError(f"{shown}: a URL that stands for another one is not opened; give that one itself")
    user, at, _ = rest.split("/", 1)[0].rpartition("@")
    if at and (":" in user or scheme in ("http", "https")):
        raise ValueError(
            f"{shown}: this URL has a user name or a password in it, and gentus stores the URLs of tables. "
            "Leave it out; the library that reads the URL finds credentials in its usual sources."
        )
    if scheme in ("http", "https") and ("?" in rest or "#" in rest):
        raise ValueError(
            f"{shown}: what follows the ? of a URL may be a signature or a key, and gentus stores the URLs "
            "of tables. Download the file, or give a URL without it."
        )


def without_secrets(rest: str) -> str:
    """The part of a URL after its scheme, as it may be shown."""
    host, slash, path = rest.partition("/")
    return re.split(r"[?#]", host.rpartition("@")[2] + slash + path, maxsplit=1)[0]


def identity(location: Location | str) -> str:
    """The same text for every way to write one location: links are followed."""
    text = str(location)
    return text if is_url(text) else os.path.realpath(text)


def absolute(location: Location) -> str:
    """A location as text that does not depend on the working directory."""
    return str(location) if isinstance(location, Remote) else os.path.abspath(location)
