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


def describe_errors(errors: Any, place: str | None = None) -> str:
    """What is wrong with a request, in words that name the field, the parameter or the argument.

    The place of an error of Pydantic begins with `body` or `query`, the query string, unless one is given.
    """
    within = () if place is None else (place,)
    described = "; ".join(_words(error, *within, *error["loc"]) for error in list(errors)[:5])
    return described or "the request is not understood; see /docs"


def _words(error: Any, place: str, *path: object) -> str:
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind == "json_invalid":
        return f"the body is not valid JSON: {context.get('error', error['msg'])}"
    field = ".".join(str(part) for part in path)
    kind_of_field = {"query": "parameter", "argument": "argument"}.get(place, "field")
    name = f"the {kind_of_field} '{field}'" if field else "the body"
    if kind == "missing":
        return f"{name} is missing"
    if kind == "extra_forbidden":
        return f"{name} is not known here"
    if kind == "value_error":
        message = str(error["msg"]).removeprefix("Value error, ")
        return f"{name}: {message}"
    wanted = next((words for start, words in _WANTED.items() if kind.startswith(start)), None)
    if wanted is not None:
        return f"{name} has to be {wanted.format(**context)}"
    return f"{name} is not of a kind that is allowed there"  # never the words of Pydantic


# What a field has to be, by the beginning of the type of a Pydantic error.
_WANTED = {
    "int_": "a whole number",
    "float_": "a number",
    "finite_number": "a finite number",
    "bool_": "true or false",
    "string_type": "text",
    "string_too_short": "at least {min_length} characters long",
    "string_too_long": "at most {max_length} characters long",
    "string_pattern": "written like {pattern}",
    "string_unicode": "text of valid characters",
    "list_type": "a list",
    "tuple_type": "a list",
    "too_short": "at least {min_length} long",
    "too_long": "at most {max_length} long",
    "dict_type": "an object",
    "model_": "an object",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "literal_error": "one of {expected}",
}
