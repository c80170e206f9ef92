"""`gentus serve` and `gentus mcp`: an index over HTTP, and for agents."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gentus.app.cli.common import RUNNING, IndexPath, Quiet, say
from gentus.extras import install_extra
from gentus.terminal import write_line

_RIGHTS = "Who may do what"


def serve(
    index: IndexPath,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            rich_help_panel=RUNNING,
            help="The address to listen on. Default: 127.0.0.1, which is this machine only.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "-p",
            "--port",
            min=0,
            max=65535,
            metavar="N",
            rich_help_panel=RUNNING,
            help="The port; 0 picks a free one.",
        ),
    ] = 8420,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GENTUS_TOKEN",
            metavar="SECRET",
            rich_help_panel=_RIGHTS,
            help="Clients that send it may add and remove tables. The environment is a safer place for it.",
        ),
    ] = None,
    read_only: Annotated[
        bool,
        typer.Option("--read-only", rich_help_panel=_RIGHTS, help="Do not allow changes of the index."),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_RIGHTS,
            help="Accept this host name, such as that of a proxy. Can be repeated.",
        ),
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy",
            rich_help_panel=_RIGHTS,
            help="Take the client address from X-Forwarded-For, set by a proxy on this machine.",
        ),
    ] = False,
    max_upload: Annotated[
        int,
        typer.Option(min=1, metavar="MB", rich_help_panel=_RIGHTS, help="The most megabytes of an upload."),
    ] = 64,
    browser: Annotated[
        bool, typer.Option("--open", rich_help_panel=RUNNING, help="Open the page in a browser.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Serve an index as a page and an API, by default to this machine only.

    Examples:
        gentus serve my.index --open
        gentus serve my.index --host 0.0.0.0 --read-only   # to everyone who can reach this machine
    """
    for package in ("fastapi", "prometheus_client", "python_multipart", "uvicorn"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"{package} is not installed. Run: {install_extra('serve')}")
    from gentus.app.serve.run import serve as run
    from gentus.app.serve.settings import Settings

    if token is not None and not token.strip():
        raise typer.BadParameter("the token is empty", param_hint="--token")
    settings = Settings(
        token=token,
        read_only=read_only,
        hosts=tuple(allow_host or ()),
        behind_proxy=behind_proxy,
        upload_bytes=max_upload << 20,
    )

    def ready(url: str) -> None:
        write_line(url)
        sys.stdout.flush()
        say(f"Serving {index}; API: {url}docs; Ctrl-C stops.")
        if host not in ("127.0.0.1", "::1", "localhost"):
            say(f"Everyone who can reach {host} can read every table of this lake.", always=True)
        if browser:
            import webbrowser

            webbrowser.open(url)

    run(Path(os.path.abspath(index)), host, port, settings, ready)


def mcp(
    index: IndexPath,
    folder: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder in which agents may read files and write unions. Can be repeated. Default: the "
            "current folder.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Offer search, alignment and unions to agents, by the Model Context Protocol on stdio.

    Examples:
        gentus mcp my.index
        gentus mcp my.index --folder ~/reports
    """
    if find_spec("mcp") is None:
        raise ModuleNotFoundError(f"mcp is not installed. Run: {install_extra('mcp')}")
    from gentus.app.serve.mcp_tools import serve_tools

    folders = folder or [Path.cwd()]
    for one in folders:
        if not one.is_dir():
            raise typer.BadParameter(f"there is no folder {one}", param_hint="--folder")
    serve_tools(Path(os.path.abspath(index)), folders)
