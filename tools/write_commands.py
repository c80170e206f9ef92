"""Write docs/COMMANDS.md from the command tree: `python tools/write_commands.py`, or `make docs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from gentus.app.cli.main import app

TARGET = Path(__file__).parent.parent / "docs" / "COMMANDS.md"
HEAD = """# Commands

Written by `make docs` from the help texts of `gentus`. With `--json` a command prints one JSON document on
stdout; messages and progress go to stderr.
"""


def commands_page() -> str:
    """The whole page."""
    tree: Any = typer.main.get_command(app)
    names = sorted(tree.commands)
    links = " · ".join(f"[{name}](#gentus-{name})" for name in names)
    return "\n".join([HEAD, links, *(_section(name, tree.commands[name]) for name in names)])


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument" and not one.hidden]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    needed = [f"{one.opts[0]} {one.name.upper()}" for one in options if one.required]
    usage = " ".join(["gentus", name, *(_shown(one) for one in arguments), *needed])
    about = " ".join((command.help or "").split())
    rows = [f"| `{_shown(one)}` | {_text(one)} |" for one in arguments]
    rows += [f"| {_flags(one)} | {_text(one)} |" for one in options]
    return "\n".join(
        ["", f"## gentus {name}", "", about, "", f"    {usage}", "", "| | |", "|---|---|", *rows]
    )


def _shown(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    repeated = "..." if argument.nargs == -1 else ""
    return f"{name}{repeated}" if argument.required else f"[{name}{repeated}]"


def _flags(option: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))


def _text(parameter: Any) -> str:
    text = " ".join((parameter.help or "").replace("|", "\\|").split())
    if parameter.envvar:
        text += f" Environment: `{parameter.envvar}`."
    default = parameter.default
    if default is None or isinstance(default, bool) or callable(default) or "Default:" in text:
        return text
    return f"{text} Default: {default}."


if __name__ == "__main__":
    TARGET.write_text(commands_page() + "\n", "utf-8")
