"""Requests that come with a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile

from gentus.app.serve.errors import Refused

_FILE = {"type": "string", "format": "binary", "description": "CSV, TSV, JSON, Parquet, Arrow or Excel."}


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[tuple[UploadFile, dict[str, str]]]:
    """The file of a form, open until the end, and its other fields."""
    async with request.form(max_files=1, max_fields=5, max_part_size=1000) as sent:
        found = sent.get("file")
        if not isinstance(found, UploadFile):
            raise Refused(422, "the form has to have a file in its field 'file'")
        yield found, {key: value for key, value in sent.items() if isinstance(value, str)}


def expect(request: Request, *kinds: str) -> str:
    """The content type of a request, if it is one of those."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in kinds:
        raise Refused(415, f"send {' or '.join(kinds)}, not {given or 'nothing'}")
    return given


def form(model: Any = None, **fields: Any) -> dict[str, Any]:
    """What a form with a file looks like, in OpenAPI; with a model, JSON is taken as well."""
    properties = {"file": _FILE, **fields}
    made = {"schema": {"type": "object", "required": ["file"], "properties": properties}}
    content: dict[str, Any] = {"multipart/form-data": made}
    if model is not None:
        told = model.model_json_schema(ref_template="#/components/schemas/{model}")
        told.pop("$defs", None)  # other routes have them in the document
        content = {"application/json": {"schema": told}, **content}
    return {"required": True, "content": content}
