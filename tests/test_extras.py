"""Messages about missing packages name a command that installs them where gentus runs."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from gentus import extras
from gentus.extras import install, install_extra


class Installed:
    """What pip wrote about where gentus came from."""

    def __init__(self, origin: object) -> None:
        self.text = None if origin is None else json.dumps(origin)

    def read_text(self, name: str) -> str | None:
        return {"direct_url.json": self.text}[name]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """From an index, into an environment that is the first on the path."""
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(None))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr("shutil.which", lambda name: str(tmp_path / "bin" / name))
    return monkeypatch


@pytest.mark.usefixtures("installed")
def test_an_extra_of_an_installed_package() -> None:
    assert install_extra("serve") == "pip install 'gentus[serve]'"
    assert install("--no-deps", "one==1.0") == "pip install --no-deps one==1.0"


def test_an_extra_of_a_clone(installed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clone = tmp_path / "my clone"
    origin = {"url": clone.as_uri(), "dir_info": {"editable": True}}
    installed.setattr(extras, "distribution", lambda name: Installed(origin))
    assert install_extra("serve") == f"pip install -e '{clone}[serve]'"
    assert install("gcsfs") == "pip install gcsfs"


@pytest.mark.parametrize("origin", [{"dir_info": {}}, {"archive_info": {"hash": "sha256=1"}}])
def test_an_extra_of_a_folder_or_wheel_that_was_installed(
    origin: dict[str, object], installed: pytest.MonkeyPatch
) -> None:
    installed.setattr(extras, "distribution", lambda name: Installed({"url": "file:///x", **origin}))
    assert install_extra("mcp") == "pip install 'gentus[mcp]'"  # it is there: pip adds what the extra needs


def test_an_extra_where_gentus_is_only_on_the_path(installed: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Installed:
        raise PackageNotFoundError(name)

    installed.setattr(extras, "distribution", missing)
    assert install_extra("mcp") == "pip install 'gentus[mcp]'"


@pytest.mark.parametrize("found", [None, "/usr/bin/pip"])
def test_the_pip_of_another_environment_is_not_named(
    found: str | None, installed: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed.setattr("shutil.which", lambda name: found)
    assert install_extra("serve") == f"{tmp_path}/bin/python -m pip install 'gentus[serve]'"


def test_environments_of_uv(installed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed.setattr(extras, "find_spec", lambda name: None)  # uv's environments have no pip
    python = tmp_path / "bin" / "python"
    assert install_extra("serve") == f"uv pip install --python {python} 'gentus[serve]'"
    (tmp_path / "uv-receipt.toml").write_text("[tool]\n")
    assert install_extra("serve") == "uv tool install 'gentus[serve]'"
    assert install("gcsfs") == "uv tool install gentus --with=gcsfs"
