"""The configuration of an index: typed, validated when it is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gentus
from gentus.index.config import from_document, to_document
from gentus.index.folder import IndexFolderError, Layout, read_config


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    (folder / "lake").mkdir()
    for at in range(3):
        (folder / "lake" / f"{at}.csv").write_text(f"a,b\n{at},x\n{at + 1},y\n")
    gentus.build(folder / "lake", folder / "index").close()
    return folder / "index"


def _rewrite(index: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Change `config.json`, with a checksum that fits; returns what it was."""
    file = Layout(index).config
    before = file.read_bytes()
    document = json.loads(before)
    document.pop("checksum")
    change(document)
    checksum = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps({**document, "checksum": checksum}))
    return before


def test_it_comes_back_as_it_was(index: Path) -> None:
    config = read_config(Layout(index))
    assert from_document(json.loads(json.dumps(to_document(config)))) == config
    with gentus.open(index) as opened:
        assert opened.config == config


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda document: document.update(colour="red"), "unknown key `colour`"),
        (lambda document: document["settings"]["graph"].update(colour=1), "`settings.graph.colour`"),
        (lambda document: document["settings"]["limits"].update(rows="many"), "settings.limits.rows"),
        (lambda document: document["settings"].update(header="maybe"), "settings.header"),
        (lambda document: document.pop("tree"), "`tree`"),
        (lambda document: document["report"].update(held_out_error=[]), "report.held_out_error"),
    ],
)
def test_a_wrong_key_is_named(index: Path, change: Callable[[dict[str, Any]], object], named: str) -> None:
    lake = read_config(Layout(index)).lake
    before = _rewrite(index, change)
    try:
        with pytest.raises(IndexFolderError) as refused:
            gentus.open(index)
    finally:
        Layout(index).config.write_bytes(before)
    assert named in str(refused.value)
    assert str(Layout(index).config) in str(refused.value)
    assert f"gentus index {lake} -o {index}" in str(refused.value)
