"""What `gentus union` writes besides the result: its SQL, a dbt model, its lineage."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gentus.app.cli.common import progress, say
from gentus.terminal import write_text

if TYPE_CHECKING:
    from gentus.union import Union, UnionPlan
    from gentus.union.output import Output
    from gentus.union.report import UnionReport

_STDOUT = Path("-")


@dataclass(frozen=True, slots=True)
class SideFiles:
    """The files to write, each None if it is not wanted; the SQL may go to stdout."""

    sql: Path | None
    dbt: Path | None
    lineage: Path | None

    @property
    def wants_sql(self) -> bool:
        """Whether the union has to be turned into SQL."""
        return self.sql is not None or self.dbt is not None

    def check(self, out: Path | None, force: bool) -> None:
        """Raise before any work is done if one of them cannot be written."""
        taken = [] if out is None else [out.absolute()]
        for option in ("sql", "dbt", "lineage"):
            path: Path | None = getattr(self, option)
            if path is None:
                continue
            wrong = None
            if path == _STDOUT and (option != "sql" or out == _STDOUT):
                wrong = "name a file; only one thing can go to stdout"
            elif path.absolute() in taken:
                wrong = f"{path} is written by another option; name another file"
            elif path != _STDOUT and not path.absolute().parent.is_dir():
                wrong = f"there is no folder {path.parent}"
            elif path != _STDOUT and path.exists() and not force:
                wrong = f"{path} already exists; --force replaces it"
            if wrong:
                raise typer.BadParameter(wrong, param_hint=f"--{option}")
            taken.append(path.absolute())
        if self.lineage is not None and out is None:
            raise typer.BadParameter("lineage is of a file that is written: give -o", param_hint="--lineage")

    def write_sql(self, union: Union) -> None:
        """Write the SQL and the model."""
        found = union.to_sql(progress())
        for path, text in ((self.sql, found.script()), (self.dbt, found.dbt_model())):
            if path == _STDOUT:
                write_text(text)
            elif path is not None:
                _write(path, text)
                say(f"SQL of {found.about.partition(',')[0]} in {path}")

    def write_lineage(self, plan: UnionPlan, output: Output, report: UnionReport) -> None:
        """Write the lineage of a union that was written."""
        from gentus.union.lineage import run_event

        if self.lineage is not None:
            event = run_event(plan, output, report)
            _write(self.lineage, json.dumps(event, indent=2, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    from gentus.files import write_file

    write_file(path, text.encode())
