"""An experiment, the options that all experiments share, and how one is run."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, cast, get_type_hints

import msgspec

from gentus.lake import Source, scan
from gentus.progress import Progress
from gentus.table import evenly_spaced
from gentus_bench.lakes.benchmarks import Benchmark, find
from gentus_bench.paper_system import MINUTES
from gentus_bench.results import Document, Results
from gentus_bench.table import Table

log = logging.getLogger("gentus_bench")


@dataclass(frozen=True, slots=True)
class Request:
    """The options that experiments share; each takes what it needs."""

    results: Results
    data: Path | None = None
    lakes: Sequence[str] = ()  # names in `data`; none: all
    methods: Sequence[str] = ()  # none: all
    k: int | None = None  # None: the usual one of each lake or experiment
    seeds: int = 1
    minutes: float = MINUTES  # to train the paper's generator
    indexes: Sequence[Path] = ()
    queries: Path | None = None
    runs: Mapping[str, str] = field(default_factory=dict)  # files or folders of others' rankings, by name
    progress: Progress = field(default_factory=Progress)

    @property
    def folder(self) -> Path:
        """The folder of data."""
        if self.data is None:
            raise ValueError("this experiment needs --data")
        return self.data

    def folders(self) -> list[Path]:
        """The lakes as folders, without recognising benchmarks."""
        return [self.folder / name for name in self.lakes] or [self.folder]

    def benchmarks(self) -> Iterator[Benchmark]:
        """The lakes with ground truth."""
        for benchmark in find(self.folder, self.lakes, self.k):
            log.info("%s, k = %d: recognised by %s", benchmark.name, benchmark.k, benchmark.evidence)
            for note in benchmark.notes:
                log.warning("%s: %s", benchmark.name, note)
            yield benchmark

    def index(self) -> Path:
        """The index, where an experiment takes one."""
        if len(self.indexes) != 1:
            raise ValueError("this experiment needs one --index")
        return self.indexes[0]

    def query_path(self) -> Path:
        """The folder or file of queries."""
        if self.queries is None:
            raise ValueError("this experiment needs --queries")
        return self.queries

    def query_files(self, count: int) -> list[Source]:
        """At most so many files of one table each, spread over the folder of queries."""
        folder = self.query_path()
        found = [item for item in scan(folder) if isinstance(item, Source) and item.part is None]
        if not found:
            raise ValueError(f"there are no tables in {folder}")
        return [found[at] for at in evenly_spaced(len(found), count)]


@dataclass(frozen=True, slots=True)
class NoOptions:
    """An experiment without options of its own."""


class ExperimentModule(Protocol):
    """What a module of `gentus_bench.experiments` has; `Options` and `plot` may be missing."""

    def run(self, request: Request, options: Any) -> Iterable[Document]:
        """Measure what is missing, and return the documents."""

    def tables(self, document: Document) -> list[Table]:
        """A document as tables."""

    def plot(self, document: Document, path: Path) -> None:
        """A document as a plot, `path.png` and `path.svg`."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment by name; its module is imported when it is needed."""

    name: str
    about: str  # one line
    needs: str = ""  # the shared options that it takes
    paper: str = ""  # the tables and figures of the paper that it measures

    @property
    def module(self) -> ExperimentModule:
        """Where its functions are."""
        found = importlib.import_module(f"gentus_bench.experiments.{self.name.replace('-', '_')}")
        return cast(ExperimentModule, found)

    @property
    def options(self) -> type[Any]:
        """Its own options: a frozen dataclass with defaults."""
        return cast(type[Any], getattr(self.module, "Options", NoOptions))

    def parse(self, settings: Sequence[str]) -> Any:
        """Its own options from `NAME=VALUE`; several values of a sequence have commas between them."""
        types = get_type_hints(self.options)
        values: dict[str, Any] = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            if name not in types:
                known = ", ".join(one.name for one in fields(self.options)) or "none"
                raise ValueError(f"{self.name} has no option {name}; its options are: {known}")
            values[name] = value.split(",") if "tuple" in str(types[name]) else value
        return msgspec.convert(values, self.options, strict=False, dec_hook=lambda kind, value: kind(value))

    def execute(self, request: Request, options: Any = None) -> Iterator[tuple[Document, str]]:
        """Run it; every document with its tables, which are written beside it with its plot."""
        module = self.module
        for document in module.run(request, options or self.options()):
            text = "\n\n".join(table.markdown() for table in module.tables(document))
            request.results.write_table(document["name"], text)
            if hasattr(module, "plot"):
                module.plot(document, request.results.folder / document["name"])
            yield document, text
