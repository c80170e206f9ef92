"""Files that others made are data: nothing in the code could run what is in them.

A walk over the syntax trees of all modules; what it looks for is listed here, and what is excepted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gentus
import gentus_bench

SOURCES = [Path(str(package.__file__)).parent for package in (gentus, gentus_bench)]
MODULES = {
    "cloudpickle",
    "code",
    "dill",
    "joblib",
    "jsonpickle",
    "marshal",
    "pickle",
    "runpy",
    "shelve",
    "yaml",
}
BUILTINS = {"__import__", "compile", "eval", "exec"}
CALLS = {
    *("os.popen", "os.system", "torch.load", "torch.jit.load", "torch.hub.load"),
    *("importlib.import_module", "import_module"),
}
METHODS = {
    "enable_load_extension",
    "extract",
    "extractall",
    "load_extension",
    "read_pickle",
    "unpack_archive",
}
KEYWORDS = {"allow_pickle": False, "shell": False, "trust_remote_code": False, "weights_only": True}
SETTINGS = ("INSTALL ", "LOAD ", "autoinstall_known_extensions=true")  # in DuckDB's SQL
EXCEPTED = {
    (
        "gentus_bench/lakes/safe_pickle.py",
        "import pickle",
    ),  # it looks at every instruction first, and knows containers only
    ("gentus/__init__.py", "import_module()"),  # of our own classes, by a fixed list of names
    ("gentus/app/serve/run.py", "import_module()"),  # of two modules of our own, by name
    ("gentus/lake/sandbox/process.py", "import_module()"),  # of a module that our own code names
    ("gentus_bench/experiment.py", "importlib.import_module()"),  # of our own experiments, by name
}


def runs_code(tree: ast.Module) -> Iterator[str]:
    """Whatever in a module could run what a file says."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (f"import {one.name}" for one in names if one.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield f"import {module}"
            case ast.Call(func=func, keywords=keywords):
                yield from _calls(ast.unparse(func), keywords)
            case ast.Constant(value=str(text)) if text.startswith(SETTINGS):
                yield text
            case ast.Dict(keys=keys, values=values):  # keywords that are handed over by **
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant):
                        yield from _keyword(str(key.value), value)


def _calls(called: str, keywords: list[ast.keyword]) -> Iterator[str]:
    method = called.rpartition(".")[2]
    if called in BUILTINS | CALLS or ("." in called and method in METHODS):
        yield f"{called}()"
    given = {one.arg: one.value for one in keywords if one.arg}
    for name, value in given.items():
        yield from _keyword(name, value)
    if method == "from_pretrained" and "Model" in called:
        safe = given.get("use_safetensors")
        if not (isinstance(safe, ast.Constant) and safe.value is True):
            yield f"{called}() of any format"


def _keyword(name: str, value: ast.expr) -> Iterator[str]:
    if name in KEYWORDS and not (isinstance(value, ast.Constant) and value.value is KEYWORDS[name]):
        yield f"{name}={ast.unparse(value)}"


def test_no_module_runs_what_a_file_says() -> None:
    found = {
        (path.relative_to(source.parent).as_posix(), what)
        for source in SOURCES
        for path in source.rglob("*.py")
        for what in runs_code(ast.parse(path.read_text("utf-8")))
    }
    assert found == EXCEPTED


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import pickle", "import pickle"),
        ("def f():\n    from yaml import load", "import yaml"),
        ("import a, joblib.numpy_pickle", "import joblib.numpy_pickle"),
        ("x = eval(text)", "eval()"),
        ("torch.load(path)", "torch.load()"),
        ("torch.load(path, weights_only=False)", "weights_only=False"),
        ("np.load(path, allow_pickle=True)", "allow_pickle=True"),
        ("np.load(path, allow_pickle=trusted)", "allow_pickle=trusted"),
        ("subprocess.run(line, shell=True)", "shell=True"),
        ("options = {'trust_remote_code': True}", "trust_remote_code=True"),
        ("tarfile.open(path).extractall(folder)", "tarfile.open(path).extractall()"),
        (
            "transformers.AutoModel.from_pretrained(x)",
            "transformers.AutoModel.from_pretrained() of any format",
        ),
        ("duck.execute('INSTALL httpfs')", "INSTALL httpfs"),
        ("import_module(name)", "import_module()"),
    ],
)
def test_it_would_be_found(code: str, what: str) -> None:
    assert what in set(runs_code(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "model.eval()",
        "re.compile('a')",
        "np.load(path, allow_pickle=False)",
        "packed.extractfile(member)",
        "AutoModel.from_pretrained(x, use_safetensors=True, trust_remote_code=False)",
    ],
)
def test_what_is_harmless_is_not(code: str) -> None:
    assert not set(runs_code(ast.parse(code)))
