"""Help pages: commands and options in groups with examples, in plain lines of the terminal's width.

The examples of a command are in its docstring, under `Examples:`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gentus.app.cli.common import say_stopped
from gentus.app.cli.swapped import check_order
from gentus.terminal import console, markup, one_line, visible

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = "Examples:"
WIDEST = 110  # longer lines are hard to read, however wide the terminal
_WrongUsage: type[Any] = typer.BadParameter.__mro__[2]  # which Typer does not export
_MORE = "COMMAND --help shows the options of a command, with examples."


class Command(TyperCommand):
    """A command with our help page."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name: `[OPTIONS] INDEX QUERY...`."""
        return usage_words(self)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page."""
        about, examples = split_help(self.help)
        page = _page()
        page.print(about, highlight=False, markup=False)
        _print_usage(page, ctx.command_path, usage_words(self))
        arguments = [(argument_words(one), help_of(one)) for one in arguments_of(self)]
        needed = [(option_words(one), help_of(one)) for one in needed_options(self)]
        _print_rows(page, "Arguments", arguments + needed)
        for title, options in option_groups(self, ctx).items():
            shown = [(option_words(one), help_of(one)) for one in options if not one.required]
            _print_rows(page, title, shown)
        _print_examples(page, examples)

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        check_order(ctx.params)
        return super().invoke(ctx)


@contextmanager
def _stoppable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say_stopped()
        raise typer.Exit(130) from None
    except _WrongUsage as error:  # wrong usage, which may name files that a pattern of the shell found
        error.message = visible(one_line(error.message))
        raise


class CommandGroup(TyperGroup):
    """All commands, in groups; Ctrl-C ends each with one line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse what was typed."""
        with _stoppable():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _stoppable():
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the program's name."""
        return ["[OPTIONS]", "COMMAND", "..."]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page."""
        about, examples = split_help(self.help)
        page = _page()
        page.print(about, highlight=False, markup=False)
        _print_usage(page, ctx.command_path, self.collect_usage_pieces(ctx))
        wide = max(map(len, self.commands))
        for title, commands in command_groups(self).items():
            rows = [(f"{one.name:<{wide}}", _first_sentence(split_help(one.help)[0])) for one in commands]
            _print_rows(page, title, rows)
        for title, options in option_groups(self, ctx).items():
            _print_rows(page, title, [(option_words(one), help_of(one)) for one in options])
        _print_examples(page, examples)
        page.print(f"\n{ctx.command_path} {_MORE}", highlight=False)


# --- the texts, which `tools/write_commands.py` uses too -------------------------------------------------


def split_help(text: str | None) -> tuple[str, list[str]]:
    """What a docstring says of a command, and the lines of its examples."""
    about, _, examples = (text or "").partition(EXAMPLES)
    return " ".join(about.split()), [line.strip() for line in examples.splitlines() if line.strip()]


def arguments_of(command: Any) -> list[Any]:
    """The positional arguments that are shown."""
    return [one for one in command.params if one.param_type_name == "argument" and not one.hidden]


def option_groups(command: Any, ctx: Any = None) -> dict[str, list[Any]]:
    """The options that are shown, by the titles of their groups."""
    groups: dict[str, list[Any]] = {}
    for one in command.params if ctx is None else command.get_params(ctx):
        if one.param_type_name == "option" and not one.hidden:
            groups.setdefault(getattr(one, "rich_help_panel", None) or "Options", []).append(one)
    last = groups.pop("Options", [])  # what every command has
    return groups | ({"Options": last} if last else {})


def command_groups(group: Any) -> dict[str, list[Any]]:
    """The commands by the titles of their groups, in the order in which they were added."""
    groups: dict[str, list[Any]] = {}
    for one in group.commands.values():
        groups.setdefault(getattr(one, "rich_help_panel", None) or "Commands", []).append(one)
    return groups


def needed_options(command: Any) -> list[Any]:
    """The options that have to be given."""
    return [one for options in option_groups(command).values() for one in options if one.required]


def usage_words(command: Any) -> list[str]:
    """How a command is called: its arguments, and the options that it needs."""
    words = [argument_words(one) for one in arguments_of(command)]
    needed = [f"{one.opts[0]} {one.metavar or one.name.upper()}" for one in needed_options(command)]
    return ["[OPTIONS]", *words, *needed]


def argument_words(argument: Any) -> str:
    """An argument as it is typed: `INDEX`, `QUERY...`, `[LAKE]`."""
    name = (argument.metavar or argument.name.upper()) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def option_words(option: Any) -> str:
    """An option as it is typed: `-o, --out FOLDER`, `--names / --no-names`."""
    words = ", ".join(sorted(option.opts, key=len))
    if option.secondary_opts:
        return f"{words} / {', '.join(option.secondary_opts)}"
    return words if option.is_flag else f"{words} {option.metavar or option.name.upper()}"


def help_of(parameter: Any) -> str:
    """The help of an argument or option, with its default."""
    text = " ".join((parameter.help or "").split())
    if parameter.envvar:
        text += f" Environment: {parameter.envvar}."
    default = parameter.default
    if default in (None, "") or isinstance(default, bool) or callable(default) or "Default:" in text:
        return text
    return f"{text} Default: {default}."


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "."


# --- printing --------------------------------------------------------------------------------------------


def _page() -> Console:
    page = console()
    page.width = min(page.width, WIDEST)
    return page


def _print_usage(page: Console, path: str, words: Iterable[str]) -> None:
    page.print(f"\n[bold]Usage:[/bold] {markup(' '.join([path, *words]))}", highlight=False, soft_wrap=True)


def _print_rows(page: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Names and what they mean, in two columns under a title."""
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column()
    for name, text in rows:
        grid.add_row(Text(f"  {name}"), Text(text))
    if grid.row_count:
        page.print(f"\n[bold]{title}[/bold]", highlight=False)
        page.print(grid)


def _print_examples(page: Console, examples: Iterable[str]) -> None:
    from rich.text import Text

    lines = list(_aligned(examples))
    if lines:
        page.print("\n[bold]Examples[/bold]")
    for call, comment in lines:
        page.print(Text.assemble("  ", (call, "cyan"), (comment, "dim")), soft_wrap=True)


def _aligned(examples: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Calls and their comments, the comments below each other."""
    parts = [line.partition("  # ") for line in examples]
    wide = max((len(call.rstrip()) for call, _, comment in parts if comment), default=0)
    for call, _, comment in parts:
        call = call.rstrip()
        yield call, f"{' ' * (wide - len(call))}  # {comment}" if comment else ""
