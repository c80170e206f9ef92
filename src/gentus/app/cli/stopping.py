"""Stopping `gentus union` by Ctrl-C or a signal, without a partial file."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gentus.app.cli.common import say_stopped


@contextmanager
def stoppable(out: Path | None) -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that no partial file is left."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in _signals()}
    try:
        yield
    except KeyboardInterrupt:
        say_stopped("" if out is None else f" {out} is unchanged.")
        sys.stdout.flush()
        sys.stderr.flush()
        # Temporary files are deleted by now. A regular exit could crash: a DuckDB thread may still wait for
        # rows from Python.
        os._exit(130)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> list[signal.Signals]:
    if threading.current_thread() is not threading.main_thread():
        return []  # signals can only be handled in the main thread
    return [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
