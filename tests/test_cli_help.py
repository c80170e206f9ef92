"""Help pages, shell completion, --quiet, and output of any width."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from conftest import rows_of, write_table
from test_cli import Run, run, small

import gentus
from gentus.app.cli import main as cli
from gentus.app.cli.help import split_help
from gentus.index.names import names_beginning
from gentus_bench.cli import bench_app

__all__ = ["run", "small"]  # fixtures


# --- help ---------------------------------------------------------------------------------------------


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


def test_everything_has_help(run: Run) -> None:
    found = list(commands(typer.main.get_command(cli.app)))
    benches = commands(typer.main.get_command(bench_app))
    found += [(("bench", *path), command) for path, command in benches]
    assert {("index",), ("search",), ("info",), ("eval",), ("demo",), ("bench", "run")} <= {
        path for path, _ in found
    }
    for path, command in found:
        about, examples = split_help(command.help)
        assert about.endswith("."), path
        for parameter in command.params:
            if parameter.name != "help":
                assert getattr(parameter, "help", None), f"gentus {' '.join(path)}: {parameter.name}"
        ran = run(*path, "--help")
        assert ran.code == 0
        assert "Usage: gentus" in ran.out
        for noise in ("<", "[]", "{", "ablation" if path[0] != "bench" else "<"):
            assert noise not in ran.out, path
        if path[0] != "bench":
            assert examples, f"gentus {' '.join(path)} has no example"
            for example in examples:
                assert f"gentus {' '.join(path)}" in example
                assert example.partition("  #")[0].rstrip() in ran.out
            flags = [one for one in command.params if one.param_type_name == "option" and not one.is_flag]
            assert all(one.metavar for one in flags), path


@pytest.mark.parametrize("width", [80, 200])
def test_help_is_in_groups(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("--help").out.splitlines()
    usage = next(at for at, line in enumerate(lines) if line.startswith("Usage: gentus [OPTIONS] COMMAND"))
    assert [line for line in lines[usage + 1 :] if line and line[0] != " "] == [
        *("Start", "Find", "Keep an index up to date", "Inspect", "Serve", "Research", "Options"),
        *("Examples", "gentus COMMAND --help shows the options of a command, with examples."),
    ]
    assert any(line.startswith("  search      Find the tables whose rows") for line in lines)
    assert max(len(line.rstrip()) for line in lines if "#" not in line) <= min(width, 110)
    lines = run("union", "--help").out.splitlines()
    assert "Usage: gentus union [OPTIONS] [INDEX] [QUERY]" in lines
    assert "  -o, --out FILE     The file to write: .csv" in "\n".join(lines)
    assert "Usage: gentus search [OPTIONS] INDEX QUERY..." in run("search", "--help").out
    assert "Usage: gentus search [OPTIONS] INDEX QUERY..." in run("search").err
    assert "Usage: gentus index [OPTIONS] LAKE -o INDEX" in run("index", "--help").out


def test_ablations_are_no_options_of_an_index(run: Run, small: Path, tmp_path: Path) -> None:
    for flag in (["--identifiers", "ordinary"], ["--softmax", "children"], ["--ship-generator"]):
        ran = run("index", small, "-o", tmp_path / "index", *flag)
        assert (ran.code, "No such option" in ran.err) == (2, True)


# --- completion ---------------------------------------------------------------------------------------


def complete(*words: str, shell: str = "bash", folder: Path | None = None) -> list[str]:
    """The completions of the last word."""
    environment = {
        **os.environ,
        "_GENTUS_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": " ".join(words),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-m", "gentus.app.cli.main"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line]


def test_tables_of_the_index_and_files_are_completed(index_path: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "fish.csv", rows_of("fish", 0))
    write_table(tmp_path / "only" / "one.csv", rows_of("fish", 0))
    index = shutil.copytree(index_path, tmp_path / "my.index").name
    assert complete("gentus", "search", index, "fi", folder=tmp_path) == [
        *("films_0.csv", "fish_0.csv", "fish.csv"),
    ]
    packed = [f"packed files/{name}_ü_5.csv.gz" for name in ("films", "fish")]
    escaped = [name.replace(" ", "\\ ") for name in packed]
    assert complete("gentus", "align", index, "fish.csv", "packed\\ files/fi", folder=tmp_path) == escaped
    assert complete("gentus", "search", index, "'packed files/fi", shell="fish", folder=tmp_path) == packed
    union = "gentus", "union", index, "fish.csv", "--tables", "a.csv"
    assert "fish.csv" in complete(*union[:-1], "fi", folder=tmp_path)
    assert complete(*union, "deep/er/fi", folder=tmp_path) == ["deep/er/films_1.csv", "deep/er/fish_1.csv"]
    assert complete("gentus", "search", index, "on", folder=tmp_path) == ["only/one.csv"]
    for command in ("remove", "describe"):  # of these only tables of the index can be named
        found = complete("gentus", command, index, "fi", folder=tmp_path)
        assert found == ["films_0.csv", "fish_0.csv"]


def test_hostile_names_run_nothing_in_a_shell(tmp_path: Path) -> None:
    """Names with control characters are not offered, and zsh would run what follows a backslash."""
    good = ["a b.csv", "a;touch x.csv", "a$(touch x).csv", "a`touch x`.csv", "a'touch x.csv", "a*.csv"]
    for name in (*good, "a\u2019;touch x #.csv", "a\\$(touch x).csv", "a\x1b[31m.csv", "a\n;touch x.csv"):
        (tmp_path / name).touch()
    (tmp_path / "a\u202evsc.csv").touch()
    offered = complete("gentus", "search", "none", "a", folder=tmp_path)
    assert len(offered) == len(good) + 2
    done = subprocess.run(
        ["bash", "-c", "printf '%s\\n' " + " ".join(offered)], capture_output=True, text=True, cwd=tmp_path
    )
    assert {*good, "a\u2019;touch x #.csv", "a\\$(touch x).csv"} == set(done.stdout.splitlines())
    assert not list(tmp_path.glob("x*"))
    assert "\\\\" not in "".join(complete("gentus", "search", "none", "a", shell="zsh", folder=tmp_path))
    assert complete("gentus", "search", "none", "a", shell="powershell", folder=tmp_path) == ["a b.csv::: "]


def test_completion_is_silent_about_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.index").mkdir()
    (tmp_path / "bad.index" / "catalogue.sqlite").write_bytes(b"junk")
    (tmp_path / "table.csv").touch()
    for index in ("bad.index", "none", "table.csv"):
        assert complete("gentus", "search", index, "ta", folder=tmp_path) == ["table.csv"]
        assert complete("gentus", "remove", index, "ta", folder=tmp_path) == []
    assert complete("gentus", "se") == ["search", "serve"]
    assert complete("gentus", "search", "x", "y", "--fit", "p") == ["partial"]


def test_of_very_many_names_the_first_and_the_last_are_offered(index_path: Path) -> None:
    """So that a shell completes no more letters than all names share."""
    every = names_beginning(index_path, "")
    assert len(every) == 36
    few = names_beginning(index_path, "", 3)
    assert few == [*every[:3], every[-1]]
    assert names_beginning(index_path, "deep/er/fish") == ["deep/er/fish_1.csv"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_our_script(index_path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "_GENTUS_COMPLETE": "source_bash"}
    script = subprocess.run(
        [sys.executable, "-m", "gentus.app.cli.main"], capture_output=True, text=True, env=environment
    ).stdout
    ours = tmp_path / "gentus"
    ours.write_text(f"#!/bin/sh\nexec {sys.executable} -m gentus.app.cli.main\n")
    ours.chmod(0o755)
    lines = (
        script,
        f"COMP_WORDS=(gentus search '{str(index_path).replace(' ', chr(92) + ' ')}' packed)",
        "COMP_CWORD=3",
        f"_gentus_completion '{ours}'",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    )
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "packed\\ files/birds_ü_5.csv.gz", done.stderr


# --- quiet --------------------------------------------------------------------------------------------


def test_quiet_leaves_errors_only(
    run: Run, small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index = tmp_path / "index"
    (small / "doubt.csv").write_text("".join(f"{n},{n * n}\n" for n in range(1, 30)))
    for command in (
        ("index", small, "-o", index),
        ("sync", index),
        ("add", index, small / "fish_0.csv"),
        ("check", index),
        ("compact", index),
        ("refit", index),
    ):
        ran = run(*command, "--quiet")
        assert (ran.code, ran.out, ran.err) == (0, "", ""), command
        assert run(*command).err != ""
    for command in (("tables", index), ("duplicates", index)):
        ran = run(*command, "-q")
        assert (ran.code, ran.err) == (0, ""), command
        assert run(*command).err != ""
    assert run("search", index, small / "doubt.csv", "-q").code == 0
    assert not caplog.messages  # that its first row looks like data
    assert run("search", index, small / "doubt.csv").code == 0
    assert "looks like data" in caplog.text
    ran = run("search", index, "none.csv", "-q")
    assert (ran.code, "neither a table of the index nor a file" in ran.err) == (1, True)
    ran = run("add", index, small / "empty.csv", "-q")
    assert (ran.code, ran.err) == (1, "empty.csv: it is empty\n")
    assert "no index at" in run("info", tmp_path / "none", "-q").err


# --- names, in any width --------------------------------------------------------------------------------

LONG = "a folder with a long name/and one below it/" + "größe_of_things_" * 8 + ".csv"


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose names are wider than terminals, and its index."""
    root = tmp_path_factory.mktemp("long")
    for number in range(3):
        write_table(root / "lake" / LONG.replace(".csv", f"{number}.csv"), rows_of("fish", number))
    write_table(root / "query.csv", rows_of("fish", 9))
    gentus.build(root / "lake", root / "index").close()
    return root


COMMANDS = (
    ("search", "index", "query.csv", "--explain"),
    ("align", "index", "query.csv", LONG.replace(".csv", "1.csv")),
    ("union", "index", "query.csv", "--dry-run"),
    ("tables", "index"),
    ("describe", "index", LONG.replace(".csv", "1.csv")),
    ("groups", "index"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_piped_names_are_whole(
    run: Run, long_names: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(long_names)
    ran = run(*command)
    assert ran.code == 0, ran.err
    assert LONG[:-4] in ran.out
    assert "…" not in ran.out.replace("-…", "")  # but for identifiers


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("width", [80, 250])
def test_names_in_a_terminal_are_whole(long_names: Path, width: int) -> None:
    """In a terminal that is wide enough in one line; else folded, but not cut."""
    for command in COMMANDS if width > 200 else COMMANDS[:2]:  # each starts a process
        shown = in_terminal([*command], long_names, width)
        assert "…" not in shown.replace("-…", ""), command  # but for identifiers
        assert LONG[:-4] in shown or width < 200, command


def in_terminal(command: list[str], folder: Path, width: int) -> str:
    """What a command prints in a terminal of this width."""
    import pty

    def size(stream: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))

    ours, theirs = pty.openpty()
    size(theirs)
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    started = subprocess.Popen(
        [sys.executable, "-m", "gentus.app.cli.main", *command],
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 1 << 16):
            pieces.append(piece)
    except OSError:  # the other end was closed
        pass
    assert started.wait() == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(pieces).decode()).replace("\r", "")
