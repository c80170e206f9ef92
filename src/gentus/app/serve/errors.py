"""What can be wrong with a request: a status, and words that say what happened and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from gentus.app.serve import schema
from gentus.index.folder import IndexFolderError
from gentus.lake import Unreadable
from gentus.union.errors import OutputError, PlanError
from gentus.weights import WeightsMissingError

WRONG: dict[int | str, dict[str, Any]] = {  # as every route may answer
    status: {"model": schema.ErrorAnswer, "description": words}
    for status, words in {
        400: "It cannot be read",
        403: "Not from here",
        404: "Not there",
        408: "Sent too slowly",
        413: "Too large",
        415: "Neither JSON nor a form",
        421: "Another host was meant",
        422: "It cannot be understood, or not be done",
        503: "Too busy, or being changed",
    }.items()
}


class Refused(Exception):  # noqa: N818 - it reads as what it says of the request
    """A request that is not answered as it was meant."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, reason)  # from which another process can make it anew
        self.status, self.reason, self.headers = status, reason, dict(headers or {})

    def __str__(self) -> str:
        """Return the words."""
        return self.reason


def refusal_of(error: Exception) -> Refused | None:
    """The refusal that an expected failure amounts to; None: it is a fault of ours."""
    match error:
        case Refused():
            return error
        case Unreadable():
            return Refused(422, error.reason)
        case IndexFolderError() | WeightsMissingError():
            return Refused(503, str(error), {"Retry-After": "5"})
        case sqlite3.Error():
            return Refused(503, f"the catalogue could not be read: {error}", {"Retry-After": "5"})
        case PlanError() | OutputError():
            return Refused(422, str(error))
    return None
