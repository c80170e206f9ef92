"""The command that installs what is missing into the environment that gentus runs in."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit


def install_extra(extra: str) -> str:
    """The command for an extra of gentus, of the clone if gentus is installed from one."""
    clone = _clone()
    wanted = [f"gentus[{extra}]"] if clone is None else ["-e", f"{clone}[{extra}]"]
    return shlex.join(["uv", "tool", "install", *wanted] if _is_uv_tool() else [*_installer(), *wanted])


def require_training(what: str = "Learning from labels") -> None:
    """Refuse what needs the extra `train` where that is not installed."""
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        raise ModuleNotFoundError(f"{what} needs {' and '.join(missing)}: {install_extra('train')}")


def install(*packages: str) -> str:
    """The command for other packages."""
    if _is_uv_tool():
        return shlex.join(["uv", "tool", "install", "gentus", *(f"--with={one}" for one in packages)])
    return shlex.join([*_installer(), *packages])


def upgrade() -> str:
    """The command for the newest gentus; of a clone, the one that fetches its changes."""
    if (clone := _clone()) is not None:
        return shlex.join(["git", "-C", str(clone), "pull"])
    return shlex.join(
        ["uv", "tool", "upgrade", "gentus"] if _is_uv_tool() else [*_installer(), "--upgrade", "gentus"]
    )


def _clone() -> Path | None:
    """The folder that an editable install runs from."""
    from urllib.request import url2pathname  # slow to import, and rarely needed

    try:
        origin = json.loads(distribution("gentus").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return None
    editable = origin.get("dir_info", {}).get("editable", False)
    return Path(url2pathname(urlsplit(origin["url"]).path)) if editable else None


def _is_uv_tool() -> bool:
    return (Path(sys.prefix) / "uv-receipt.toml").exists()


def _installer() -> list[str]:
    """`pip install` by its shortest name that means the pip of this environment."""
    if find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", sys.executable]
    found = shutil.which("pip")
    same = found is not None and Path(found).parent == Path(sys.executable).parent
    return ["pip", "install"] if same else [sys.executable, "-m", "pip", "install"]
