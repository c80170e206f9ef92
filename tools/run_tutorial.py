"""Run the code of a tutorial from top to bottom: `python tools/run_tutorial.py [--write] PAGE...`.

Blocks of `sh`, `console`, `python` and `pycon` are run in one shell and one interpreter, in a new folder.
What is shown below `$ command` and `>>> code` must be what is printed: `[..]` stands for any text; durations,
sizes, versions, scores and widths may differ. `--write` puts the printed text into the page where it differs.
A comment before a block says more: `<!-- run: no -->` only shows it, `<!-- run: in the background -->` starts
a server, which is stopped at the end.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^(?:<!-- run: (?P<how>[a-z ]+) -->\n\n?)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S
)
VARYING = re.compile(r"\b\d[\d,.]* (?:ms|s|min|bytes|kB|MB)\b|\b\d+\.\d+\.\d+\b|\b[01]\.\d{2,4}\b|─+")
PORT = "8420"  # of `gentus serve`; a free one is used
END = "end of a command"


class Shell:
    """One bash for all blocks of a page, so that variables and servers stay; stderr is in stdout."""

    def __init__(self, folder: Path) -> None:
        env = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, code: str) -> tuple[str, int]:
        """What the code prints, and its exit code."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{{\n{code}\n}} </dev/null\nprintf '\\n{END} %s\\n' $?\n".encode())
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            text = line.decode("utf-8", "replace")
            if text.startswith(END):
                return "".join(lines).removesuffix("\n"), int(text.split()[-1])
            lines.append(text)
        raise AssertionError(f"the shell ended: {''.join(lines)}")

    def close(self) -> None:
        """Stop the shell and what it has in the background."""
        assert self.process.stdin
        self.process.stdin.write(b"kill $(jobs -p) 2>/dev/null; wait; exit\n")
        self.process.stdin.close()
        self.process.wait(30)
        assert self.process.stdout
        self.process.stdout.close()


def run_page(text: str, folder: Path) -> str:
    """The page with what its commands print now; a block that fails is an AssertionError."""
    port = str(_free_port())
    scope: dict[str, Any] = {"__name__": "__main__"}
    with _inside(folder), closing(Shell(folder)) as shell:
        parts, last = [], 0
        for block in BLOCK.finditer(text):
            code, how = block["code"].replace(PORT, port), block["how"]
            if how == "in the background":
                _start(shell, code, int(port))
            elif how != "no" and block["language"] == "sh":
                printed, status = shell.run(code)
                assert status == 0, f"{code}{printed}"
            elif how != "no" and block["language"] == "python":
                exec(compile(code, "page", "exec"), scope)
            elif how != "no" and block["language"] in ("console", "pycon"):
                lines = _session(code, scope) if block["language"] == "pycon" else _console(shell, code)
                parts += [text[last : block.start("code")], "".join(lines).replace(port, PORT)]
                last = block.end("code")
        return "".join([*parts, text[last:]])


def _console(shell: Shell, code: str) -> Iterator[str]:
    """Commands with what they print, or what the page shows if that matches."""
    last = None
    for entry in re.finditer(r"^\$ (?P<command>(?:.*\\\n)*.*\n)(?P<shown>(?:(?!\$ ).*\n)*)", code, re.M):
        printed = [line.rstrip() for line in shell.run(entry["command"])[0].splitlines()]
        text = "".join(f"{line}\n" for line in printed).strip("\n")
        as_shown = matches(entry["shown"], text)
        yield ("" if last in (None, True) else "\n") + f"$ {entry['command']}"
        yield entry["shown"] if as_shown else f"{text}\n"
        last = as_shown


def _session(code: str, scope: dict[str, Any]) -> Iterator[str]:
    """An interactive session with what it prints, or what the page shows if that matches."""
    for example in doctest.DocTestParser().get_examples(code):
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(example.source, "page", "single"), scope)
        text = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().strip("\n").splitlines())
        yield ">>> " + example.source.rstrip("\n").replace("\n", "\n... ") + "\n"
        yield example.want if matches(example.want, text) else text


def matches(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed."""
    same = [VARYING.sub("0", " ".join(text.split())) for text in (shown, printed)]
    return bool(re.fullmatch(".*".join(map(re.escape, same[0].split("[..]"))), same[1]))


def _start(shell: Shell, code: str, port: int) -> None:
    """Start a server and wait until it answers."""
    shell.run(f"{code.strip()} >server.log 2>&1 &")
    for _ in range(600):
        with closing(socket.socket()) as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(shell.run("cat server.log")[0])


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, with the commands of this environment."""
    before, path = Path.cwd(), os.environ["PATH"]
    os.chdir(folder)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), path])
    try:
        yield
    finally:
        os.environ["PATH"] = path
        os.chdir(before)


def main(arguments: list[str]) -> int:
    """Run pages; the number of those that show something else than what is printed."""
    different = 0
    for name in arguments:
        if name == "--write":
            continue
        page = Path(name).absolute()
        text = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            now = run_page(text, Path(folder))
        different += now != text
        print(f"{name}: {'as shown' if now == text else 'different'}")
        if "--write" in arguments:
            page.write_text(now, "utf-8")
    return 0 if "--write" in arguments else different


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
