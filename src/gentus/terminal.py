"""The one way to the terminal: names and cells of others are shown there, and cannot command it.

An escape sequence in a name could erase lines or forge them; a bidirectional override shows it in another
order. On a terminal such characters are written out: `\\x1b`, `\\u202e`. In a file or a pipe they stay, but a
line end inside a line is written out there, too.
"""

from __future__ import annotations

import io
import logging
import re
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.segment import Segment

# C0 without line feeds, DEL, C1, and what changes the direction of text or ends a line in Unicode
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """A text with its control characters written out; line feeds stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """A text with its line ends written out."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


def markup(text: str) -> str:
    """A text of others within a line of markup: it is shown as it is, and in that line."""
    from rich.markup import escape

    return escape(one_line(text))


def write_line(text: str = "", stderr: bool = False) -> None:
    """Print a line for people."""
    print(one_line(text), file=sys.stderr if stderr else sys.stdout)


def write_text(text: str) -> None:
    """Print text of several lines, such as SQL, on stdout."""
    sys.stdout.write(text)


def write_json(text: str) -> None:
    """Print a JSON document on stdout; on a terminal as JSON escapes where it has control characters."""
    if sys.stdout.isatty():
        text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    write_text(f"{text}\n")


def copy_to_stdout(reader: int) -> None:
    """Copy rows from a pipe to standard output as it was inherited; a terminal gets them as text."""
    with open(reader, "rb", buffering=0) as source, open(1, "wb", closefd=False) as stdout:
        if not stdout.isatty():
            shutil.copyfileobj(source, stdout)
            return
        for line in io.TextIOWrapper(io.BufferedReader(source), "utf-8", "backslashreplace", newline="\n"):
            stdout.write(visible(line).encode())


def console(stderr: bool = False, quiet: bool = False) -> Console:
    """What prints styles, tables and progress: the only one whose own sequences reach the terminal."""
    from rich.console import Console as Rich

    class Escaping(Rich):
        def render_str(self, text: str, *arguments: Any, **options: Any) -> Any:
            """Escaped before it is measured, so that tables fit."""
            return super().render_str(self._shown(text), *arguments, **options)

        def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
            """Whatever is printed; a segment's style is not in its text."""
            for segment in super().render(*arguments, **options):
                yield segment if segment.control else segment._replace(text=self._shown(segment.text))

        def push_render_hook(self, hook: Any) -> None:
            """A live display begins. It has redirected the streams, and would obey the sequences in them."""
            super().push_render_hook(hook)
            _guard_streams()

        def _shown(self, text: str) -> str:
            return visible(text) if self.is_terminal else text

    stream = sys.stderr if stderr else sys.stdout
    return Escaping(file=getattr(stream, "beneath", stream), stderr=stderr, quiet=quiet, emoji=False)


class _Escaped:
    """A stream to a terminal, for all that is written as text: messages, warnings, logs, tracebacks."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.beneath: IO[str] = getattr(stream, "beneath", stream)  # where styles are written

    def write(self, text: str) -> int:
        self._stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))


def guard_terminal() -> None:
    """Escape from now on what this program writes to a terminal, and keep log messages on their lines."""
    _guard_streams()
    if (handler := logging.lastResort) is not None:
        handler.setFormatter(_OneLine())
        logging.basicConfig(handlers=[handler])  # so that no library sets up its own


def _guard_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty() and not isinstance(stream, _Escaped):
            setattr(sys, name, _Escaped(stream))
