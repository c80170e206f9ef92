"""Starting processes that read files."""

from __future__ import annotations

import sys
from multiprocessing.process import BaseProcess
from threading import Lock

_ONE_AT_A_TIME = Lock()


def start(process: BaseProcess) -> None:
    """Start a process that does not run the script of the one that asks for it.

    A spawned process imports the main script again, in case its work is defined there. Ours never is; and a
    script that calls `gentus.build` without `if __name__ == "__main__":` would build, in every process, anew.
    """
    main = sys.modules["__main__"]
    with _ONE_AT_A_TIME:
        spec, file = main.__spec__, main.__dict__.pop("__file__", None)
        main.__spec__ = None
        try:
            process.start()
        finally:
            main.__spec__ = spec
            if file is not None:  # `python -c` has none, and others count on that
                main.__file__ = file
