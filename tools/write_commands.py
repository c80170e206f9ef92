"""Write docs/COMMANDS.md from the command tree: `python tools/write_commands.py`, or `make docs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from gentus.app.cli.help import (
    argument_words,
    arguments_of,
    command_groups,
    help_of,
    needed_options,
    option_groups,
    split_help,
    usage_words,
)
from gentus.app.cli.main import app

TARGET = Path(__file__).parent.parent / "docs" / "COMMANDS.md"
HEAD = """# Commands

Written by `make docs` from the help texts of `gentus`. With `--json` a command prints one JSON document on
stdout; messages and progress go to stderr. `--quiet` leaves only errors there.
"""


def commands_page() -> str:
    """The whole page."""
    tree: Any = typer.main.get_command(app)
    groups = command_groups(tree)
    lines = [
        f"- **{title}**: {' · '.join(f'[{one.name}](#gentus-{one.name})' for one in some)}"
        for title, some in groups.items()
    ]
    sections = (_section(one) for some in groups.values() for one in some)
    return "\n".join([HEAD, *lines, "", _COMPLETION, *sections])


_COMPLETION = """## Completion

`gentus --install-completion` lets the Tab key complete commands, options, names of tables of the index and
files, in bash, zsh, fish and PowerShell; open a new terminal afterwards. `gentus --show-completion` prints
the script instead. Where a command takes a table, names that begin with what was typed are offered (up to
500), and files beside them."""


def _section(command: Any) -> str:
    about, examples = split_help(command.help)
    rows = [f"| `{argument_words(one)}` | {_text(one)} |" for one in arguments_of(command)]
    rows += [f"| {_flags(one)} | {_text(one)} |" for one in needed_options(command)]
    for title, options in option_groups(command).items():
        shown = [one for one in options if not one.required]
        if shown:
            rows += [f"| **{title}** | |", *(f"| {_flags(one)} | {_text(one)} |" for one in shown)]
    usage = " ".join(["gentus", command.name, *usage_words(command)])
    return "\n".join(
        [
            *("", f"## gentus {command.name}", "", about, ""),
            *("```sh", *examples, "```", ""),
            *(f"    {usage}", "", "| | |", "|---|---|", *rows),
        ]
    )


def _flags(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else option.metavar or option.name.upper()
    return f"{flags} `{value}`".replace("|", "\\|") if value else flags


def _text(parameter: Any) -> str:
    return help_of(parameter).replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(commands_page() + "\n", "utf-8")
