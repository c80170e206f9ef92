"""Multipart requests: a form with a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile

from gentus.app.serve.errors import ApiError
from gentus.table import HEADERS, Header

_HEADER = {
    "type": "string",
    "enum": list(HEADERS),
    "default": "auto",
    "description": "Whether the first row of delimited text is a header. auto: it is, and `doubt` says why "
    "it looks like data.",
}
_FILE = {"type": "string", "format": "binary", "description": "CSV, TSV, JSON, Parquet, Arrow or Excel."}


@asynccontextmanager
async def receive_form(request: Request, *fields: str) -> AsyncIterator[tuple[UploadFile, dict[str, str]]]:
    """The file of a form, open inside the context, and its other fields: the header and those named."""
    async with request.form(max_files=1, max_fields=10, max_part_size=1000) as form:
        unknown = [name for name in form if name not in ("file", "header", *fields)]
        file = form.get("file")
        if not isinstance(file, UploadFile):
            wrong = "is text and has to be a file" if file is not None else "is missing"
            found = f" (there is only {' and '.join(map(repr, unknown))})" if unknown else ""
            raise ApiError(422, f"the field 'file' {wrong}{found}; with curl: -F file=@mine.csv")
        if unknown:
            known = " and ".join(map(repr, ("file", "header", *fields)))
            raise ApiError(422, f"the field {unknown[0]!r} is not known here; there is {known}")
        yield file, {name: value for name, value in form.items() if isinstance(value, str)}


def header_field(fields: dict[str, str]) -> Header:
    """Take the choice of header out of the fields of a form."""
    given = fields.pop("header", "auto")
    if given not in HEADERS:
        raise ApiError(422, f"header is one of {', '.join(HEADERS)}, not {given!r}")
    return given


def require_type(request: Request, *kinds: str) -> str:
    """The content type of a request; raises if it is none of `kinds`."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in kinds:
        raise ApiError(415, f"send {' or '.join(kinds)}, not {given or 'nothing'}")
    return given


def form_schema(model: Any = None, **fields: Any) -> dict[str, Any]:
    """A form with a file, in OpenAPI; with a model, JSON is accepted as well."""
    properties = {"file": _FILE, "header": _HEADER, **fields}
    form = {
        "schema": {
            "type": "object",
            "required": ["file"],
            "properties": properties,
            "additionalProperties": False,
        }
    }
    content: dict[str, Any] = {"multipart/form-data": form}
    if model is not None:
        document = model.model_json_schema(ref_template="#/components/schemas/{model}")
        document.pop("$defs", None)  # other routes have them in the document
        content = {"application/json": {"schema": document}, **content}
    return {"required": True, "content": content}
