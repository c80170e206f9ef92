"""What is declared, built and published: dependencies, version, wheel and source archive."""

from __future__ import annotations

import ast
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gentus

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Imported for people who have them: a table is handed over as a frame of theirs, or asked for as one.
HANDED_OVER = {"datasets", "pandas", "polars"}
TYPES_ONLY = {"typing-extensions"}  # imported while types are checked, and known to every type checker
COMES_WITH = {  # parts of another package's interface
    "adbc-driver-manager": "adbc-driver-postgresql",
    "pydantic": "fastapi",
    "starlette": "fastapi",
}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


def imports(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every module and the packages outside the standard library that it imports, wherever in it."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found = [name.name for name in node.names]
            else:
                found = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            tops = {name.partition(".")[0] for name in found} - {"", "gentus"}
            yield from ((path, top) for top in tops - sys.stdlib_module_names)


def test_everything_that_is_imported_is_declared_and_the_base_has_nothing_else() -> None:
    base = names(PROJECT["dependencies"])
    extras = set().union(*(names(some) for some in PROJECT["optional-dependencies"].values()))
    known = packages_distributions()
    imported: dict[str, set[str]] = {}
    for path, top in imports(ROOT / "src"):
        package = canonicalize_name(known.get(top, [top])[0])
        imported.setdefault(COMES_WITH.get(package, package), set()).add(path.name)
    declared = base | extras | HANDED_OVER | TYPES_ONLY
    assert {name: where for name, where in imported.items() if name not in declared} == {}
    assert base - imported.keys() == {"wordllama"}  # whose data files alone are read
    assert not base & {"pandas", "scikit-learn", "scipy", "torch", "transformers"}


def test_the_version_is_in_one_place(tmp_path: Path) -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.search(
        r"^## \[(Unreleased|[0-9.]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    bench = WheelBuilder(str(ROOT / "benchmarks")).metadata
    assert WheelBuilder(str(ROOT)).metadata.version == bench.version == gentus.__version__


def test_the_wheel_has_the_package_and_nothing_else(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as wheel:
        found = set(wheel.namelist())
        about = f"gentus-{gentus.__version__}.dist-info"
        assert b"Tag: py3-none-any" in wheel.read(f"{about}/WHEEL")
    source = ROOT / "src"
    expected = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    package = {name for name in expected if "__pycache__" not in name and not name.startswith(".")}
    names = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    assert found == package | {f"{about}/{name}" for name in names}
    assert {"gentus/py.typed", "gentus/align/weights.json", "gentus/app/serve/page/index.html"} <= found


def test_the_source_archive_builds_and_tests_itself(tmp_path: Path) -> None:
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    tops = {name.partition("/")[0] for name in found}
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]
    named = set(config["sdist"]["only-include"])
    assert tops == named | {"PKG-INFO", "LICENSE", "README.md", "pyproject.toml", ".gitignore"}
    locks = {path.name for path in ROOT.glob("requirements*.lock")}
    assert {*locks, "tests/conftest.py", "benchmarks/pyproject.toml", "tools/try_dist.py"} <= found
    assert not [name for name in found if "__pycache__" in name or name.endswith((".pyc", ".so"))]


def test_the_image_is_made_of_files_that_are_there_and_runs_as_a_user() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copied = [word for line in lines if re.match(r"COPY (?!--)", line) for word in line.split()[1:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    allowed = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert {f"!{name}" for name in copied} <= set(allowed)
    assert allowed[0] == "*"
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1] not in ("root", "0")


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_is_there_with_few_rights(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert set(workflow["permissions"].items()) <= {("contents", "read")}
    assert "concurrency" in workflow
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    assert set(re.findall(r"\bmake ([a-z-]+)", commands)) <= TARGETS
    files = re.findall(r"python (tools/\S+)|-r (\S+\.lock)|-e (benchmarks)", commands)
    assert [name for found in files for name in found if name and not (ROOT / name).exists()] == []
    for action in (step["uses"] for step in steps(workflow) if "uses" in step):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@(release/)?v\d+", action), action


def test_tests_run_as_make_runs_them_on_all_systems_and_versions() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["tests"]["strategy"]["matrix"]
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    named = [one for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert matrix["python"] == [one.rpartition(" ")[2] for one in named]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    options = re.findall(r"PYTEST\) (-m .*)", makefile)
    assert len(options) == 2  # what is slow, and what is not
    ran = [step.get("run", "") for step in steps(workflow)]
    assert {f"python -m pytest {one}" for one in options} <= set(ran)
    for check in ("ruff check .", "ruff format --check .", "mypy"):
        assert check in ran
        assert f"$(BIN)/{check}" in makefile
