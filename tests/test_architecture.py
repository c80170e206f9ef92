"""The floor plan: packages are layers, imports point one way, and everything fits on a page."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gentus
import gentus_bench

# A module may import those of its own layer and of the layers before it. The first layer has the modules that
# lie in `gentus` itself.
LAYERS = (
    *("shared", "lake", "features", "neighbours", "embed", "identifiers", "retrieval"),
    *("paper", "align", "union", "index", "app"),
)
MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 400, 60, 6

SOURCE = Path(gentus.__file__).parent
BENCH = Path(gentus_bench.__file__).parent
MODULES = {
    ".".join(("gentus", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
FACADE = {"gentus", "gentus.__main__"}  # what people import and start; it leads to everything
OPTION_LISTS = SOURCE / "app" / "cli"  # commands: a parameter there is an option of the command line


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The modules of gentus that a file imports, wherever in it that is; for types alone counts, too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gentus":
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield node.lineno, inner if inner in MODULES else node.module or ""


def layer(module: str) -> int:
    parts = module.split(".")
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else 0


def test_every_package_is_a_layer() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(LAYERS[1:])
    for path in SOURCE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), f"{path} does not say what it is for"


def test_no_import_points_up_the_list() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} imports {target}"
        for module, path in MODULES.items()
        if module not in FACADE
        for line, target in imported(path)
        if target not in FACADE and layer(target) > layer(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_package_does_not_know_its_benchmarks() -> None:
    for path in SOURCE.rglob("*.py"):
        assert "gentus_bench" not in path.read_text("utf-8"), path


def test_no_imports_in_circles() -> None:
    graph = {
        module: {target for _, target in imported(path)} - FACADE - {module}
        for module, path in MODULES.items()
        if module not in FACADE
    }

    def reach(module: str) -> set[str]:
        found: set[str] = set()
        ahead = [module]
        while ahead:
            new = graph[ahead.pop()] - found
            found |= new
            ahead += new
        return found

    assert [module for module in graph if module in reach(module)] == []


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("root", [SOURCE, BENCH], ids=["gentus", "gentus_bench"])
def test_everything_fits_on_a_page(root: Path) -> None:
    wrong = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MOST_LINES:
            wrong.append(f"{root.name}/{name}")
        for function in functions(path):
            lines = (function.end_lineno or 0) - function.lineno + 1
            options = path.is_relative_to(OPTION_LISTS) or path.name == "cli.py"
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            parameters = len([one for one in arguments if one.arg not in ("self", "cls")])
            if lines > MOST_FUNCTION_LINES and not options:
                wrong.append(f"{root.name}/{name}: {function.name}, lines")
            if parameters > MOST_PARAMETERS and not options:
                wrong.append(f"{root.name}/{name}: {function.name}, parameters")
    assert not wrong, "\n".join(wrong)
