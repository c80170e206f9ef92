"""The base of all errors that gentus raises on purpose.

Each is also one of Python's own, so that code that knows nothing of gentus can catch it: an index or a table
that is not there is a `FileNotFoundError`, a table that cannot be read a `ValueError`. Messages say what is
wrong, with which file, and what to do. A wrong argument is a plain `ValueError` or `TypeError`,
a package that has to be installed first a `ModuleNotFoundError`.
"""

from __future__ import annotations

import errno


class GentusError(Exception):
    """What gentus raises if something is wrong with an index, a lake, a table, a plan or an output.

    Example:
        >>> try:
        ...     gentus.open("nowhere.index")
        ... except gentus.GentusError as error:
        ...     print(type(error).__name__)
        IndexNotFoundError
    """

    # An error that is also a `KeyError` would show its message in quotes.
    __str__ = Exception.__str__


NO_ROOM = "there is no room on the disk"
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def system_reason(error: Exception) -> str:
    """What the system or SQLite says of a failure, without a path; of a full disk always the same.

    SQLite calls that an I/O error where its index of the log cannot grow, and where a quota ends.
    """
    name = getattr(error, "sqlite_errorname", "")
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE") or getattr(error, "errno", None) in _FULL:
        return NO_ROOM
    doubt = f"; perhaps {NO_ROOM}" if name.startswith("SQLITE_IOERR") else ""
    return f"{getattr(error, 'strerror', None) or error}{doubt}"


class CheckpointError(GentusError, RuntimeError):
    """A language model or a generator cannot be loaded; the message says what to do."""
