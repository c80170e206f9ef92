"""A small lake of several subjects, formats and folders, indexed once for all tests that search."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings

import gentus
from gentus.index.index import Index
from gentus.retrieval.retriever import ClosedFormRetriever
from gentus.settings import BuildSettings, QuantizerSettings
from gentus.sparse import SparseRows

# The same examples in every run, so that it is a change that turns a test red.
# `HYPOTHESIS_PROFILE=explore` draws others. How long an example takes says only how busy the machine is.
settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# What takes longest begins first, so that no process is left with it at the end while the others wait.
LONGEST = (
    "engine_ray",
    "soak",
    "crash",
    "nasty",
    "tutorials",
    "bench",
    "bench_scale",
)


def sparse(matrix: np.ndarray) -> SparseRows:
    """The entries of a dense matrix that are not zero."""
    rows, columns = matrix.nonzero()
    return SparseRows.of_entries(matrix[rows, columns], rows, columns, matrix.shape)


def dense(matrix: SparseRows) -> np.ndarray:
    """All entries of a sparse matrix."""
    full = np.zeros((len(matrix), matrix.width), matrix.values.dtype)
    full[matrix.owners(), matrix.columns] = matrix.values
    return full


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; within each, tests stay as they are."""
    order = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


SUBJECTS = {
    "cities": ["Berlin Vienna Lisbon Madrid Rome Oslo Dublin Prague Athens Warsaw", "Europe north south"],
    "fish": ["salmon trout carp pike eel perch herring cod tuna bass", "river lake sea pond brook"],
    "films": ["Vertigo Alien Casablanca Psycho Rocky Jaws Amadeus Fargo Heat", "drama thriller comedy"],
    "metals": ["iron copper zinc nickel silver gold cobalt tin lead titanium", "ore alloy wire sheet"],
    "birds": ["robin sparrow heron eagle falcon owl crane stork wren finch", "forest marsh garden cliff"],
    "tools": ["hammer pliers wrench chisel drill saw clamp lathe rasp mallet", "workshop bench rack"],
}
SLICES = 6

QUICK = BuildSettings(quantizer=QuantizerSettings(rounds=3))  # of k-means: enough for a small lake

Rows = list[list[str]]


def rows_of(subject: str, seed: int, count: int = 12) -> Rows:
    """Made-up rows of a subject, with a header."""
    chance = random.Random(f"{subject} {seed}")
    names, kinds = (words.split() for words in SUBJECTS[subject])
    size = 10 ** (1 + list(SUBJECTS).index(subject))
    return [["name", "kind", "size", "year"]] + [
        [
            chance.choice(names),
            chance.choice(kinds),
            f"{chance.uniform(size, 3 * size):.1f}",
            str(chance.randint(1950, 2020)),
        ]
        for _ in range(count)
    ]


def genes(count: int = 20) -> Rows:
    """Rows that fit no subject."""
    return [["gene", "locus", "strand", "transcript"]] + [
        [f"BRCA{i}", f"chr{i % 9}:1{i}0332-1{i}9921", "+-"[i % 2], f"ENST0000{i * 7919 % 9999:04}"]
        for i in range(count)
    ]


def partly_fish() -> Rows:
    """Three columns of fish, and one that fits no subject."""
    both = zip(rows_of("fish", 78), genes(12), strict=True)
    return [[name, kind, year, locus] for (name, kind, _, year), (_, locus, *_) in both]


def write_table(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    """Write rows in the format that the name asks for; `.semicolon.csv` has `;` between its cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header, *body = rows
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(header, map(list, zip(*body, strict=True)), strict=True))), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in body))
    else:
        delimiter = ";" if ".semicolon" in path.name else ","
        text = "".join(delimiter.join(row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def strict_json(text: str | bytes) -> Any:
    """A JSON document; Python's extensions NaN and Infinity are errors, and names are there once."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    def extension(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=extension, object_pairs_hook=once)


def make_lake(root: Path, subjects: Sequence[str] = tuple(SUBJECTS), slices: int = SLICES) -> Path:
    """A lake whose tables are named after their subject, in nested folders and several formats."""
    places = (
        "{}_0.csv",
        "deep/er/{}_1.csv",
        "semi/{}_2.semicolon.csv",
        "typed/{}_3.parquet",
        "typed/lines/{}_4.jsonl",
        "packed files/{}_ü_5.csv.gz",
    )
    for subject in subjects:
        for number in range(slices):
            write_table(root / places[number % len(places)].format(subject), rows_of(subject, number))
    return root


def subject_of(name: str) -> str:
    return name.rsplit("/", 1)[-1].split("_")[0]


def write_pairs(path: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("query_table", "candidate_table"), *pairs])
    return path


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty-six tables of six subjects. Not to be changed by a test."""
    return make_lake(tmp_path_factory.mktemp("data") / "my lake")


@pytest.fixture(scope="session")
def index_path(lake: Path) -> Path:
    """The index of that lake. Not to be changed by a test."""
    folder = lake.parent / "my.index"
    gentus.build(lake, folder, settings=QUICK, workers=1).close()
    return folder


@pytest.fixture
def index(index_path: Path) -> Iterator[Index]:
    with gentus.open(index_path) as opened:
        yield opened


def closed_form(index: Index) -> ClosedFormRetriever:
    """What an index without a generator is searched by."""
    retriever = index._snapshot.retriever
    assert isinstance(retriever, ClosedFormRetriever)
    return retriever


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT as people publish one, small enough for a test."""
    import torch
    from data.tokenizers import word_pieces
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("bert")
    tokenizer = word_pieces()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
        initializer_range=0.5,  # otherwise its states hardly depend on the words
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_t5_tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 whose output is tied to its embedding, as that of the first T5s is."""
    import torch
    from data.tokenizers import sentence_pieces
    from transformers import T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("tied")
    tokenizer = sentence_pieces()
    config = T5Config(
        vocab_size=len(tokenizer) + 3,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small lake and its index; `home` is a copy of them."""
    from victim import TINY  # which imports this module

    root = tmp_path_factory.mktemp("small")
    gentus.build(make_lake(root / "lake", ["cities", "fish"], 3), root / "index", settings=TINY).close()
    return root


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Path:
    """A lake and its index, to be changed."""
    shutil.copytree(built / "lake", tmp_path / "lake")
    shutil.copytree(built / "index", tmp_path / "index")
    with gentus.open(tmp_path / "index") as index:
        index.sync(tmp_path / "lake")
    return tmp_path


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have unions run where a test has changed something, and not in a process of their own."""
    for module in ("gentus.union.worker", "gentus.index.union_plan"):
        monkeypatch.setattr(f"{module}.runs_here", lambda tables: True)
