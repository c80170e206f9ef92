"""A run file as a system: the rankings of somebody's own, compared with the others."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from gentus.runs import read_run
from gentus.table import Table


class RunFile:
    """Answers from a TREC run, or from CSV."""

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.file = name, file

    @classmethod
    def of(cls, name: str, path: Path, lake: str) -> RunFile:
        """From a file, or from that of a lake in a folder."""
        if path.is_dir():
            both = [path / f"{lake}.run", path / f"{lake}.csv"]
            path = next((file for file in both if file.is_file()), both[0])
        if not path.is_file():
            raise FileNotFoundError(f"there is no run {path}")
        return cls(name, path)

    @cached_property
    def digest(self) -> str:
        """Of what is in the file."""
        return sha256(self.file.read_bytes()).hexdigest()[:16]

    def fit(self, tables: Iterable[Table]) -> None:
        """Read the file."""
        self._rankings = read_run(self.file)

    def search(self, table: Table, k: int) -> list[str]:
        """The ranking of a query, by its name; nothing where the file has none."""
        return self._rankings.get(table.name, [])[:k]
