"""The lineage of a union, as OpenLineage has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from conftest import write_table
from test_cli import Run, run

from gentus.union.lineage import _dataset

__all__ = ["run"]

# What the specification demands of the parts that are used (spec 2-0-2 and the facets' own versions).
TEXT = {"type": "string"}
URI = {"type": "string", "format": "uri", "pattern": "^[a-z]+:"}


def some(required: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **others}, "required": list(required)}


def facet(name: str, version: str, required: dict[str, Any], **others: Any) -> dict[str, Any]:
    url = f"https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}"
    return some({"_producer": URI, "_schemaURL": {"const": url}, **required}, **others)


SCHEMA = facet(
    "SchemaDatasetFacet", "1-1-1", {"fields": {"type": "array", "items": some({"name": TEXT}, type=TEXT)}}
)
TRANSFORMATION = some({"type": {"enum": ["DIRECT", "INDIRECT"]}}, subtype=TEXT, description=TEXT)
FIELD = some(
    {"namespace": TEXT, "name": TEXT, "field": TEXT},
    transformations={"type": "array", "items": TRANSFORMATION, "minItems": 1},
)
LINEAGE = facet(
    "ColumnLineageDatasetFacet",
    "1-2-0",
    {
        "fields": {
            "type": "object",
            "additionalProperties": some({"inputFields": {"type": "array", "items": FIELD}}),
        }
    },
)
STATISTICS = facet(
    "OutputStatisticsOutputDatasetFacet",
    "1-0-2",
    {"rowCount": {"type": "integer"}, "size": {"type": "integer"}},
)
INPUT = some({"namespace": TEXT, "name": TEXT, "facets": some({"schema": SCHEMA})})
OUTPUT = some(
    {
        "namespace": TEXT,
        "name": TEXT,
        "facets": some({"schema": SCHEMA, "columnLineage": LINEAGE}),
        "outputFacets": some({"outputStatistics": STATISTICS}),
    }
)
EVENT = some(
    {
        "eventType": {"const": "COMPLETE"},
        "eventTime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
        "run": some({"runId": {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}}),
        "job": some({"namespace": TEXT, "name": TEXT}),
        "inputs": {"type": "array", "items": INPUT},
        "outputs": {"type": "array", "items": OUTPUT, "minItems": 1},
        "producer": URI,
        "schemaURL": {"const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"},
    }
)


def test_every_column_names_its_sources(run: Run, tmp_path: Path) -> None:
    query = write_table(tmp_path / "q.csv", [["price", "who"], ["1.5", "ann"], ["2.5", "bob"]])
    table = tmp_path / "t.csv"
    table.write_text("cost;name\n3,5;eve\n4,25;joe\n")
    document = {
        "gentus_union_plan": 1,
        "query": {
            "name": "q.csv",
            "path": str(query),
            "columns": [{"from": "price", "into": "price"}, {"from": "who", "into": "who"}],
        },
        "columns": [{"name": "price"}, {"name": "who"}],
        "tables": [
            {
                "name": "t.csv",
                "path": str(table),
                "columns": [{"from": "cost", "into": "price", "reason": "both prices"}],
            }
        ],
    }
    plan, out, lineage = (tmp_path / name for name in ("plan.json", "out.sqlite", "lineage.json"))
    plan.write_text(json.dumps(document))
    arguments = ("union", "--plan", plan, "-o", out, "--table-name", "prices", "--lineage", lineage)
    assert run(*arguments).code == 0
    event = json.loads(lineage.read_text("utf-8"))
    jsonschema.validate(event, EVENT)
    assert [one["name"] for one in event["inputs"]] == [str(query), str(table)]
    (target,) = event["outputs"]
    assert (target["namespace"], target["name"]) == ("file", f"{out}/prices")
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 4
    kinds = {one["name"]: one["type"] for one in target["facets"]["schema"]["fields"]}
    assert kinds == {
        **{"price": "DOUBLE", "who": "VARCHAR"},
        **{"_source_table": "VARCHAR", "_source_row": "BIGINT"},
    }
    fields = target["facets"]["columnLineage"]["fields"]
    sources = {
        name: [(one["name"], one["field"]) for one in field["inputFields"]] for name, field in fields.items()
    }
    assert sources == {"price": [(str(query), "price"), (str(table), "cost")], "who": [(str(query), "who")]}
    (how,) = fields["price"]["inputFields"][1]["transformations"]
    assert how["subtype"] == "TRANSFORMATION"
    assert how["description"].startswith("as DOUBLE, decimal: ,; both prices")
    assert fields["who"]["inputFields"][0]["transformations"][0]["subtype"] == "IDENTITY"

    ran = run(*arguments, "--table-name", "more")
    assert (ran.code, "--force replaces it" in " ".join(ran.err.replace("│", " ").split())) == (2, True)
    assert run(*arguments, "--table-name", "more", "--force").code == 0
    assert run("union", "--plan", plan, "--dry-run", "--lineage", tmp_path / "no.json").code == 2
    ran = run(
        "union", "--plan", plan, "-o", out, "--table-name", "x", "--lineage", tmp_path / "no" / "l.json"
    )
    assert (ran.code, "there is no folder" in ran.err) == (2, True)


def test_names_of_datasets() -> None:
    assert _dataset("s3://bucket/a/b.csv", "") == {"namespace": "s3://bucket", "name": "a/b.csv"}
    found = _dataset("postgresql://me@host:5432/shop/public.sales", "")
    assert found == {"namespace": "postgresql://host:5432", "name": "shop/public.sales"}
    assert _dataset(None, "query") == {"namespace": "gentus", "name": "query"}
