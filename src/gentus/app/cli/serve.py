"""`gentus serve` and `gentus mcp`: an index for people, for programs and for agents."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gentus.app.cli.common import IndexPath, say


def serve(
    index: IndexPath,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Default: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("-p", "--port", min=0, max=65535, help="0 picks a free one.")] = 8420,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GENTUS_TOKEN",
            show_envvar=True,
            help="Who sends it may add and remove tables. Better given in the environment than here.",
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nobody may add or remove tables.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name by which the server may be called, such as of a proxy.")
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="A proxy on this machine says in X-Forwarded-For who asks."),
    ] = False,
    max_upload: Annotated[int, typer.Option(min=1, help="Most megabytes of an upload.")] = 64,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve an index as a page and an API, for this machine unless told otherwise."""
    for package in ("fastapi", "prometheus_client", "python_multipart", "uvicorn"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"{package} is not installed. Run: pip install 'gentus[serve]'")
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
        print(url, flush=True)
        say(f"Serving {index}; API: {url}docs; Ctrl-C stops.")
        if host not in ("127.0.0.1", "::1", "localhost"):
            say(f"Whoever can reach {host} can read every table of this lake.")
        if browser:
            import webbrowser

            webbrowser.open(url)

    run(Path(os.path.abspath(index)), host, port, settings, ready)


def mcp(
    index: IndexPath,
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="Where an agent may read files and write unions. Default: the current folder."),
    ] = None,
) -> None:
    """Give an agent search, alignment and unions as tools, by the Model Context Protocol on stdio."""
    if find_spec("mcp") is None:
        raise ModuleNotFoundError("mcp is not installed. Run: pip install 'gentus[mcp]'")
    from gentus.app.serve.mcp_tools import serve_tools

    folders = folder or [Path.cwd()]
    for one in folders:
        if not one.is_dir():
            raise typer.BadParameter(f"there is no folder {one}", param_hint="--folder")
    serve_tools(Path(os.path.abspath(index)), folders)


def add_serve(app: typer.Typer) -> None:
    """Let an app have these commands."""
    app.command()(serve)
    app.command()(mcp)
