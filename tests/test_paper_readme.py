"""Every function that the README of `gentus.paper` names is there, and every equation has one."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gentus.paper
from gentus.paper import losses

README = (Path(gentus.paper.__file__).parent / "README.md").read_text("utf-8")


def named() -> Iterator[str]:
    """Dotted names in the last column of the tables; one without a module belongs to that before it."""
    for row in re.findall(r"^\| .* \|$", README, re.M):
        owner = ""
        for name in re.findall(r"`([\w.]+)`", row.split("|")[-2]):
            if name.startswith("."):
                name = owner.rpartition(".")[0] + name
            elif "." not in name:
                name = f"{owner.split('.')[0]}.{name}"
            if not name.startswith("gentus."):
                owner = name
            yield name


@pytest.mark.parametrize("name", sorted(set(named())))
def test_the_function_of_a_symbol_is_there(name: str) -> None:
    path = name if name.startswith("gentus.") else f"gentus.paper.{name}"
    parts = path.split(".")
    for split in range(len(parts), 1, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        rest = parts[split:]
        break
    for part in rest:
        known = getattr(found, part, None)
        if known is None and isinstance(found, type):  # made by the class when it is created
            assert (
                f"self.{part} =" in Path(importlib.import_module(found.__module__).__file__ or "").read_text()
            )
            return
        assert known is not None, name
        found = known


def test_every_loss_is_in_the_readme() -> None:
    defined = {name for name in vars(losses) if re.match(r"(l|s)_", name)}
    assert defined == {name.removeprefix("losses.") for name in named() if name.startswith("losses.")}
