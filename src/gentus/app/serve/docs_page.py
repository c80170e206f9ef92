"""The documentation of the API, from OpenAPI: one page without scripts or third-party requests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi.responses import HTMLResponse

from gentus.app.serve.middleware import CSP

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .8rem; background: color-mix(in srgb, currentColor 7%, transparent);
  border-radius: 6px; }
article { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: .4rem 0 1rem; }
h3 { font-size: 1.05rem; } h3 b { display: inline-block; min-width: 4.5rem; }
table { border-collapse: collapse; }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
"""
_POLICY = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_DEEPEST = 6


def docs_page(document: dict[str, Any]) -> HTMLResponse:
    """The documentation as HTML."""
    body = "\n".join(_page(document))
    html = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>GenTUS API</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body>\n{body}\n</body></html>\n"
    )
    policy = CSP.replace("style-src 'self'", f"style-src 'sha256-{_POLICY}'")
    return HTMLResponse(html, headers={"content-security-policy": policy})


def _page(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['summary'])}</p>"
    yield '<p>For programs: <a href="/openapi.json">/openapi.json</a>. The page: <a href="/">/</a>.</p>'
    for tag in document.get("tags", []):
        yield f"<section><h2>{escape(tag['name'].capitalize())}</h2><p>{escape(tag['description'])}</p>"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation.get("tags", []):
                    yield from _operation(document, path, method, operation)
        yield "</section>"


def _operation(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"<article><h3><b>{method.upper()}</b> <code>{escape(path)}</code></h3>"
    yield f"<p>{escape(operation.get('description', ''))}</p>"
    if operation.get("security"):
        yield "<p>Needs <code>Authorization: Bearer TOKEN</code>.</p>"
    parameters = operation.get("parameters", [])
    if parameters:
        yield "<table><thead><tr><th>parameter</th><th>type</th><th></th></tr></thead><tbody>"
        for one in parameters:
            kind = _short(document, one["schema"])
            words = one.get("description", "") or ("required" if one.get("required") else "")
            cells = f"<code>{escape(one['name'])}</code>", escape(kind), escape(words)
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        yield "</tbody></table>"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Send {escape(kind)}:</p><pre>{escape(_shape(document, content['schema']))}</pre>"
    for status, reply in operation["responses"].items():
        for kind, content in reply.get("content", {}).items():
            if status.startswith("2") and content.get("schema"):
                shape = escape(_shape(document, content["schema"]))
                yield f"<p>Returns {escape(status)}, {escape(kind)}:</p><pre>{shape}</pre>"
    yield "</article>"


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema, with references followed."""
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].lstrip("#/").split("/"):
            found = found.get(part, {})
        schema = found
    return schema


def _short(document: dict[str, Any], schema: dict[str, Any]) -> str:
    schema = _resolved(document, schema)
    if "anyOf" in schema:
        return " or ".join(_short(document, one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f'"{one}"' for one in schema["enum"])
    default = f" = {schema['default']}" if schema.get("default") not in (None, "") else ""
    return f"{schema.get('type', 'anything')}{default}"


def _shape(document: dict[str, Any], schema: dict[str, Any], depth: int = 0) -> str:
    """The shape of a document, as JSON with types."""
    schema = _resolved(document, schema)
    if depth > _DEEPEST:
        return ".."
    if "anyOf" in schema:
        return " or ".join(_shape(document, one, depth) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"[{_shape(document, schema.get('items', {}), depth)}, ..]"
    if schema.get("properties"):
        space = "  " * (depth + 1)
        lines = (
            f'{space}"{name}": {_shape(document, one, depth + 1)}'
            for name, one in schema["properties"].items()
        )
        return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"
    return _short(document, schema)
