"""The lineage of a union as an OpenLineage event: which column of which table each column comes from."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gentus import __version__
from gentus.lake.location import Remote, as_location
from gentus.union.output import STDOUT, Output, result_types
from gentus.union.plan import OutputColumn, Placement, PlannedTable, UnionPlan
from gentus.union.report import UnionReport

PRODUCER = f"pkg:pypi/gentus@{__version__}"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_VERSIONS = {  # of the facets that are used
    "SchemaDatasetFacet": "1-1-1",
    "ColumnLineageDatasetFacet": "1-2-0",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
}
_NAMESPACE = "gentus"  # of jobs, and of data that is in no file


def run_event(plan: UnionPlan, output: Output, report: UnionReport) -> dict[str, Any]:
    """The event of a union that was written, given its plan with all types (`Union.ran`)."""
    target = _dataset(None if output.path == STDOUT else str(output.path.absolute()), "stdout")
    if output.format in ("duckdb", "sqlite"):
        target["name"] += f"/{output.table}"
    size = {} if report.bytes is None else {"size": report.bytes}
    return {
        "eventType": "COMPLETE",
        "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "run": {"runId": str(uuid.uuid4())},
        "job": {"namespace": _NAMESPACE, "name": f"union.{Path(target['name']).name}"},
        "inputs": [
            {**_input(table), "facets": {"schema": _schema((one.source, None) for one in table.columns)}}
            for table in plan.sources
        ],
        "outputs": [
            {
                **target,
                "facets": {"schema": _schema(result_types(plan)), "columnLineage": _column_lineage(plan)},
                "outputFacets": {
                    "outputStatistics": _facet(
                        "OutputStatisticsOutputDatasetFacet", rowCount=report.rows, **size
                    )
                },
            }
        ],
        "producer": PRODUCER,
        "schemaURL": _EVENT,
    }


def _facet(name: str, **values: Any) -> dict[str, Any]:
    url = f"{_SPEC}/facets/{_VERSIONS[name]}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": url, **values}


def _schema(columns: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    """Names of columns, and types where they are known."""
    fields = [{"name": name} | ({"type": kind} if kind else {}) for name, kind in columns]
    return _facet("SchemaDatasetFacet", fields=fields)


def _column_lineage(plan: UnionPlan) -> dict[str, Any]:
    """The columns that each column of the result comes from; provenance comes from none."""
    fields: dict[str, Any] = {column.name: {"inputFields": []} for column in plan.columns}
    columns = {column.name: column for column in plan.columns}
    for table in plan.sources:
        for one in table.columns:
            transformation = _transformation(one, columns[one.into])
            fields[one.into]["inputFields"].append(
                {**_input(table), "field": one.source, "transformations": [transformation]}
            )
    return _facet("ColumnLineageDatasetFacet", fields=fields)


def _transformation(placed: Placement, column: OutputColumn) -> dict[str, Any]:
    """How a column is made: taken as text, or read as a type in a notation."""
    read = {} if placed.read is None else placed.read.to_dict()
    notation = [f"{key}: {value}" for key, value in read.items()]
    text = column.type in (None, "VARCHAR")
    how = "as text" if text else ", ".join([f"as {column.type}", *notation])
    return {
        "type": "DIRECT",
        "subtype": "IDENTITY" if text else "TRANSFORMATION",
        "description": "; ".join(filter(None, (how, placed.reason, placed.note))),
        "masking": False,
    }


def _input(table: PlannedTable) -> dict[str, str]:
    dataset = _dataset(table.path, table.name)
    return {**dataset, "name": f"{dataset['name']}/{table.part}"} if table.part else dataset


def _dataset(path: str | None, name: str) -> dict[str, str]:
    """Namespace and name as OpenLineage's naming rules have them; without a path it is known by a name."""
    if path is None:
        return {"namespace": _NAMESPACE, "name": name}
    location = as_location(path)
    if isinstance(location, Remote):
        parts = urlsplit(str(location))
        return {
            "namespace": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
            "name": parts.path.strip("/"),
        }
    return {"namespace": "file", "name": location.absolute().as_posix()}
