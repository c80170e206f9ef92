"""What can be wrong with a request: a status, and words that say what happened and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from gentus.lake import Unreadable
from gentus.store import IndexFolderError


class Refused(Exception):  # noqa: N818 - it reads as what it says of the request
    """A request that is not answered as it was meant."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, dict(headers or {})


def refusal_of(error: Exception) -> Refused | None:
    """The refusal that an expected failure amounts to; None: it is a fault of ours."""
    match error:
        case Refused():
            return error
        case Unreadable():
            return Refused(422, error.reason)
        case IndexFolderError():
            return Refused(503, str(error), {"Retry-After": "5"})
        case sqlite3.Error():
            return Refused(503, f"the catalogue could not be read: {error}", {"Retry-After": "5"})
        case ValueError():
            return Refused(422, str(error))
    return None
