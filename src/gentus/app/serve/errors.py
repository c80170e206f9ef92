"""Errors of a request: an HTTP status, and a message that says what happened and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from gentus.app.serve import schema
from gentus.features.weights import WeightsMissingError
from gentus.index.folder import IndexFolderError
from gentus.lake import Unreadable
from gentus.union.errors import OutputError, PlanError

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {  # that every route may give
    status: {"model": schema.ErrorAnswer, "description": words}
    for status, words in {
        400: "The request cannot be read",
        403: "Not allowed from here",
        404: "Not found",
        408: "Sent too slowly",
        413: "Too large",
        415: "Neither JSON nor a form",
        421: "Meant for another host",
        422: "Not understood, or not possible",
        503: "Too busy, or the index is being changed",
    }.items()
}


class ApiError(Exception):
    """A request that fails with a status and a reason."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, reason)  # what another process needs to unpickle it
        self.status, self.reason, self.headers = status, reason, dict(headers or {})

    def __str__(self) -> str:
        """The reason."""
        return self.reason


def as_api_error(error: Exception) -> ApiError | None:
    """The response to an expected failure; None for a bug of the server."""
    match error:
        case ApiError():
            return error
        case Unreadable():
            return ApiError(422, error.reason)
        case IndexFolderError() | WeightsMissingError():
            return ApiError(503, str(error), {"Retry-After": "5"})
        case sqlite3.Error():
            return ApiError(503, f"the catalogue could not be read: {error}", {"Retry-After": "5"})
        case PlanError() | OutputError():
            return ApiError(422, str(error))
    return None
