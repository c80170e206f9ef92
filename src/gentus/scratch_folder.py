"""Private folders for files that do not last; what killed processes left is removed by the next one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

_LOCK = "lock"


@contextmanager
def scratch_folder(output: Path) -> Iterator[Path]:
    """A hidden folder beside the output, removed in the end; those that killed runs left are removed, too."""
    remove_abandoned(output)
    scratch = Path(tempfile.mkdtemp(prefix=f".{output.name}.part-", dir=output.parent))
    try:
        with _locked(scratch / _LOCK):
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def temporary_folder(purpose: str) -> AbstractContextManager[Path]:
    """The same in the system's folder for temporary files, for one of our purposes."""
    return scratch_folder(Path(tempfile.gettempdir()) / f"gentus-{purpose}")


def remove_abandoned(output: Path) -> None:
    """Remove the scratch folders that processes left that were killed."""
    for old in output.parent.glob(f"{_escaped(f'.{output.name}.part-')}*"):
        if _abandoned(old):
            shutil.rmtree(old, ignore_errors=True)


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock; where the system has none, keep the file open."""
    with (path if os.name == "nt" else path.with_suffix(".new")).open("w") as file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(file.name, path)  # only now: not yet locked, it would seem abandoned
        yield


def _abandoned(folder: Path) -> bool:
    """Whether the process that made a scratch folder has ended: its lock can be taken."""
    lock = folder / _LOCK
    try:
        if os.name == "nt":  # an open file cannot be deleted there, and closes with its process
            lock.unlink()
            return True
        import fcntl

        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
