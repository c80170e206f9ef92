"""The OpenAPI document and the server agree, whatever is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from pydantic_core.core_schema import ErrorType
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from served import TOKEN, Served, served

from gentus.app.serve.responses import describe_errors

EXAMPLES = 12
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
ROUTES = (
    "GET /api/index",
    "GET /api/tables",
    "POST /api/tables",
    "DELETE /api/tables",
    "GET /api/table",
    "GET /api/groups",
    "GET /api/group",
    "GET /api/map",
    "GET /api/tree",
    "GET /api/duplicates",
    "POST /api/upload",
    "POST /api/search",
    "GET /api/search",
    "POST /api/align",
    "POST /api/union/plan",
    "POST /api/union/preview",
    "POST /api/union/download",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
)
REAL: dict[str, Any] = {
    "query": {"table": "fish_0.csv"},
    "table": "typed/fish_3.parquet",
    "tables": ["deep/er/fish_1.csv", "birds_0.csv"],
}


@pytest.fixture(scope="module")
def api(index_path: Path) -> Iterator[Served]:
    with served(index_path, token=TOKEN, json_bytes=1 << 20, upload_bytes=1 << 20) as client:
        yield client


@pytest.fixture(scope="module")
def operations(api: Served) -> dict[str, Any]:
    document = schemathesis.openapi.from_url(f"{api.base_url}/openapi.json")
    found: Any = (result.ok() for result in document.get_all_operations())
    return {operation.label: operation for operation in found}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_answers_are_as_described(operations: dict[str, Any], route: str, mode: GenerationMode) -> None:
    """No fault of ours, no status and no document that was not announced; whether it is right or wrong."""
    try:
        cases = operations[route].as_strategy(generation_mode=mode)
    except Unsatisfiable:  # nothing can be wrong with it
        return

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=cases)
    def ask(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    try:
        ask()
    except Unsatisfiable:
        return


@pytest.mark.parametrize("route", [route for route in ROUTES if "tables" not in route and "/api/" in route])
def test_answers_about_real_tables(operations: dict[str, Any], route: str) -> None:
    """The same where the tables that are asked for are there."""
    seen = set()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=operations[route].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Any) -> None:
        for values in (case.query, case.body):
            if isinstance(values, dict):
                values.update({key: real for key, real in REAL.items() if key in values})
        if isinstance(case.query, dict) and "name" in case.query:
            case.query = {"name": REAL["table"], "rows": 3}
        seen.add(case.call_and_validate(checks=CHECKS).status_code)

    ask()
    assert 200 in seen or "upload" in route or "union/" in route


def test_every_route_is_described(api: Served) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    assert {f"{method.upper()} {path}" for path in paths for method in paths[path]} == set(ROUTES)
    for path, methods in paths.items():
        for method, told in methods.items():
            assert told["description"], (method, path)
            assert told["tags"], (method, path)
            assert path.startswith("/api/") or told["tags"] == ["machines"]


def test_no_words_of_pydantic_reach_people() -> None:
    kinds = list(get_args(ErrorType))
    assert len(kinds) > 80
    names = ("min_length", "max_length", "pattern", "ge", "gt", "le", "lt", "expected", "error")
    context = dict.fromkeys(names, "")
    for kind in kinds:
        error = {"type": kind, "loc": ("body", "field"), "msg": "Input should be", "ctx": context}
        words = describe_errors([error])
        assert ("Input" in words) == (kind == "value_error")  # whose words are ours
        assert "'field'" in words or kind == "json_invalid"
