"""What all routes answer with, and who asks them."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from gentus.app.serve.guard import who


def client_of(request: Request) -> str:
    """Who asks."""
    return who(request.scope)


def answer(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A document as JSON."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        content = text.encode()
    except UnicodeEncodeError:  # half a character, which only an escape can tell
        content = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return Response(content, status, headers, "application/json")


def invalid_words(errors: Any) -> str:
    """What is wrong with a request, in words."""
    told = []
    for one in list(errors)[:5]:
        place = ".".join(str(part) for part in one["loc"] if part not in ("body", "query"))
        message = str(one["msg"]).removeprefix("Value error, ")
        told.append(f"{place}: {message}" if place else message)
    return "; ".join(told) or "the request is not understood; see /docs"
