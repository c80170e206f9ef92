"""Commands on a terminal of their own, each in a child of one warm process, so that none waits for imports.

Reads a list of commands as JSON from stdin, and writes as JSON what reached the terminal and the exit codes.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import logging
import os
import pty
import re
import signal
import socket
import struct
import sys
import termios
import time
import traceback
import warnings
from collections.abc import Callable

from gentus.app.cli import main as cli
from gentus.progress import terminal_progress

MODULES = (
    *("gentus.index.index", "gentus.index.build", "gentus.align.matcher", "gentus.union.union"),
    *("gentus.app.serve.run", "gentus.app.serve.app", "gentus.app.serve.mcp_tools", "rich.progress"),
)
WIDTH = 1000  # so that no line wraps
Job = dict[str, object]


def defect() -> None:
    """An error that no user can cause."""
    raise RuntimeError(sys.argv[1])


def libraries() -> None:
    """A warning and a log message, also while bars are shown."""
    with terminal_progress().stage("Working", 10) as tick:
        tick(5)
        for text in (sys.argv[1], "after it"):
            logging.getLogger("some.library").warning("of %s", text)
            warnings.warn(text, stacklevel=1)
            sys.stderr.write(f"{text}\n")
    print(sys.argv[1])


OTHERS: dict[str, Callable[[], None]] = {"(defect)": defect, "(libraries)": libraries}


def child(words: list[str]) -> None:
    """Run a command; never returns."""
    code = 1
    try:
        name, *arguments = words
        if name in OTHERS:
            sys.argv = ["gentus", *arguments]
            cli.guarded(OTHERS[name])
        else:
            sys.argv = ["gentus", *words]
            cli.main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def bother(shown: bytes) -> None:
    """Send hostile requests to the server whose address is shown."""
    found = re.search(rb"http://127.0.0.1:(\d+)/", shown)
    assert found, shown
    hostile = b"\x1b]0;t\x07\x1b[31;47m\xc2\x9b[blink]"
    for head in (
        b"GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n",
        b"%s\r\n%s\r\n\r\n",
        b"GET /?%s HTTP/1.1\r\nHost: a\r\n%s: b\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", int(found[1])), 10) as client:
            client.sendall(head % (hostile, hostile))
            client.recv(1)


def run(job: Job, seconds: float = 60) -> dict[str, object]:
    """What a command shows. Once it has shown the text `stop_at`, it gets Ctrl-C."""
    words, stop_at = job["words"], str(job.get("stop_at", "")).encode()
    assert isinstance(words, list)
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": str(WIDTH), **job.get("environment", {})})  # type: ignore[dict-item]
        child(words)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    shown, began = b"", time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the child has closed its side
            break
        if not piece:
            break
        shown += piece
        if stop_at and stop_at in shown:
            bother(shown)
            os.kill(process, signal.SIGINT)
            stop_at = b""
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return {
        "shown": shown.decode("utf-8", "backslashreplace"),
        "code": code,
        "seconds": time.monotonic() - began,
    }


def main() -> None:
    """Run all commands."""
    for module in MODULES:
        importlib.import_module(module)
    json.dump([run(job) for job in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
