"""JSON responses, and validation errors in words."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import Response


def json_response(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A document as JSON."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        content = text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can express
        content = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return Response(content, status, headers, "application/json")


def describe_errors(errors: Any) -> str:
    """What is wrong with a request, in words."""
    messages = []
    for error in list(errors)[:5]:
        field = ".".join(str(part) for part in error["loc"] if part not in ("body", "query"))
        message = str(error["msg"]).removeprefix("Value error, ")
        messages.append(f"{field}: {message}" if field else message)
    return "; ".join(messages) or "the request is not understood; see /docs"
