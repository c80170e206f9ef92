"""One Markdown file of all results in a folder: docs/RESULTS.md is made from benchmarks/results by it.

A document is either what an experiment measured, shown by the tables of that experiment, or tables as they
were printed (`title`, `command`, `date`, `machine`, `commit`, `tables`, `note`). `contents.json` groups
documents into sections; without it every experiment is a section.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gentus_bench.experiments.quality_tables import overview
from gentus_bench.machine import sentence
from gentus_bench.registry import EXPERIMENTS
from gentus_bench.results import REQUIRED, Document
from gentus_bench.table import Table

CONTENTS = "contents.json"


def render(folder: Path) -> str:
    """The whole report."""
    documents = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}
    contents = documents.pop(Path(CONTENTS).stem, None) or _by_experiment(documents)
    listed = [name for section in contents["sections"] for name in section["documents"]]
    if unknown := sorted(set(listed) ^ set(documents)):
        raise ValueError(f"{folder / CONTENTS} and the documents do not fit: {', '.join(unknown)}")
    paragraphs = ["# Results", contents.get("text", "")]
    for section in contents["sections"]:
        paragraphs += [f"## {section['title']}", section.get("text", "")]
        chosen = [documents[name] for name in section["documents"]]
        measured = [one for one in chosen if one.get("name", "").startswith("quality-")]
        if len(measured) > 1:
            paragraphs.append(overview(measured).markdown())
        for document in chosen:
            measured_here = document.keys() >= REQUIRED
            paragraphs += (
                _measured(document) if measured_here else _printed(document, contents.get("machine"))
            )
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _by_experiment(documents: Mapping[str, Document]) -> Document:
    """Contents of a folder that has none."""
    order = {name: [one for one in documents if one.split("-")[0] == name] for name in EXPERIMENTS}
    rest = [name for name in documents if name.split("-")[0] not in EXPERIMENTS]
    sections = [
        {"title": EXPERIMENTS[name].about, "documents": found} for name, found in order.items() if found
    ]
    return {"sections": [*sections, *([{"title": "Other results", "documents": rest}] if rest else [])]}


def _measured(document: Document) -> Iterator[str]:
    """What an experiment measured."""
    name = document["name"].split("-")[0]
    if name not in EXPERIMENTS:
        return
    yield f"### {document['name']}"
    yield f"`{document['command']}`; {document['made'][:10]}; {sentence(document['machine'])}."
    for table in EXPERIMENTS[name].module.tables(document):
        yield table.markdown()


def _printed(document: Mapping[str, Any], usual_machine: str | None) -> Iterator[str]:
    """Tables as they were printed; the machine where it is not the usual one."""
    if document["title"]:
        yield f"### {document['title']}"
    commands: Sequence[str] = document.get("command", [])
    if len(commands) > 3:
        yield "\n".join(["```sh", *commands, "```"])
    machine = document.get("machine", "")
    shown = ", ".join(f"`{command}`" for command in commands) if len(commands) <= 3 else ""
    facts = [shown, document.get("date", "")]
    facts += ["" if machine == usual_machine else machine]
    facts += [f"{key} {document[key]}" for key in ("commit", "load") if document.get(key)]
    measured_by = "; ".join(filter(None, facts))
    yield " ".join(filter(None, (measured_by and f"{measured_by}.", document.get("text", ""))))
    for table in document.get("tables", []):
        yield Table(table["columns"], table["rows"], table.get("title", ""), table.get("note", "")).markdown()
    if image := document.get("image"):
        yield f"![{image['text']}]({image['file']})"
    yield document.get("note", "")
