"""A saved generator is decoded with NumPy as torch decodes it: the same logits, identifiers and scores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_generator import CODES, END, LATENT, LEVELS, SMALL, STATES, SUFFIXES, codewords, make
from test_serialize import sentence_pieces
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Attention

from gentus.errors import CheckpointError
from gentus.generator.decoding import MOST_COLUMNS, decode, sample_columns
from gentus.generator.model import Generator, Inputs
from gentus.generator.saved import SavedGenerator
from gentus.generator.session import DecodingSession
from gentus.generator.t5_numpy import position_buckets
from gentus.identifiers.codebooks import Codebooks
from gentus.identifiers.semantic_ids import assign_suffixes
from gentus.retrieval.generate import Decoding
from gentus.retrieval.trie import build_trie
from gentus.settings import SCRATCH, GeneratorSettings, Softmax
from gentus.table import Column, Table

SHAPES = {  # of a T5 that reads text: feed-forward, layers of the encoder, of the decoder
    "gated-gelu": (2, 1),
    "relu": (1, 3),
    "gated-silu": (1, 1),
}


def text_settings(folder: Path, feed_forward: str, output: str) -> GeneratorSettings:
    tokenizer = sentence_pieces()
    layers, decoder_layers = SHAPES[feed_forward]
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=layers,
        num_decoder_layers=decoder_layers,
        num_heads=3,
        relative_attention_num_buckets=8,  # so that tables of some dozen tokens reach the shared ones
        relative_attention_max_distance=20,
        feed_forward_proj=feed_forward,
    )
    torch.manual_seed(0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return replace(SMALL, input="text", output=output, checkpoint=str(folder))  # type: ignore[arg-type]


def query(columns: int, seed: int = 0) -> tuple[Table, np.ndarray, np.ndarray]:
    """A table, its column states and its latent."""
    random = np.random.default_rng(seed)
    cells = [[str(random.choice(["ab", "cde", "f"])) for _ in range(3)] for _ in range(columns)]
    table = Table("t", [Column(f"c{at}", cell) for at, cell in enumerate(cells)], 3)
    states = random.normal(size=(columns, STATES)).astype(np.float32)
    return table, states, random.normal(size=LATENT).astype(np.float32)


def session_of(generator: Generator, table: Table, states: np.ndarray, latent: np.ndarray) -> DecodingSession:
    """What torch makes of the same query."""
    if generator.settings.input == "text":
        inputs = Inputs.of_text([generator.serializer().one(table)], latent[None])
    else:
        inputs = Inputs.of_columns([sample_columns(states)], latent[None])
    with torch.inference_mode():
        return DecodingSession(generator, generator.encode(inputs))


@pytest.fixture(
    scope="module",
    params=[
        ("columns", "codebooks"),
        ("columns", "tokens"),
        *((kind, output) for kind in SHAPES for output in ("codebooks", "tokens")),
    ],
    ids="-".join,
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Generator, SavedGenerator]:
    """A generator with an opinion, as torch has it and as it was saved."""
    kind, output = request.param
    folder = tmp_path_factory.mktemp("generator")
    settings = replace(SMALL, output=output)
    if kind != "columns":
        settings = text_settings(folder / "t5", kind, output)
    generator = make(settings, opinion=0.5)
    for name, parameter in generator.named_parameters():
        if "layer_norm" in name:  # all ones, otherwise
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    generator.save(folder / "saved")
    return generator, SavedGenerator.load(folder / "saved")


def test_steps_are_those_of_torch(both: tuple[Generator, SavedGenerator]) -> None:
    """Also where beams change places, are dropped and multiplied."""
    generator, saved = both
    random = np.random.default_rng(3)
    for columns in (1, 5, 20, MOST_COLUMNS + 9):
        table, states, latent = query(columns, columns)
        theirs, ours = session_of(generator, table, states, latent), saved.session(table, states, latent)
        expected, found = theirs.begin(), ours.begin()
        count = 1
        for position in range(LEVELS + 2):
            assert found.shape == (count, END + 1)
            assert np.abs(found - expected).max() < 1e-4
            assert np.ptp(expected) > 0.1  # it says something
            if position == LEVELS + 1:
                break
            parent = random.integers(0, count, (7, 2, 5)[position % 3])
            low, high = (0, CODES) if position < LEVELS else (CODES, END)
            symbols = random.integers(low, high, len(parent))
            expected, found, count = theirs.step(parent, symbols), ours.step(parent, symbols), len(parent)
        assert found.dtype == np.float32


@pytest.mark.parametrize("softmax", ["children", "vocabulary"])
@pytest.mark.parametrize("weight", [0.3, None])
def test_identifiers_and_scores_are_those_of_torch(
    both: tuple[Generator, SavedGenerator], softmax: Softmax, weight: float | None
) -> None:
    generator, saved = both
    random = np.random.default_rng(4)
    codes = random.integers(0, CODES, (300, LEVELS)).astype(np.uint8)
    suffixes = np.minimum(assign_suffixes(codes, np.zeros(300, np.float32)), SUFFIXES)
    trie = build_trie(codes, suffixes, np.arange(300))
    books = Codebooks(codewords().numpy())
    for beam in (10, 400):
        asked = query(6, beam)
        answers = [
            decode(session, asked[2][None], trie, books, Decoding(beam, weight, softmax))[0]
            for session in (session_of(generator, *asked), saved.session(*asked))
        ]
        theirs, ours = (np.argsort(answer.rows) for answer in answers)
        assert answers[0].rows[theirs].tolist() == answers[1].rows[ours].tolist()
        assert len(ours) == min(beam, len(trie))
        for part in ("scores", "prior", "generator"):
            expected, found = (getattr(answer, part) for answer in answers)
            assert np.abs(expected[theirs] - found[ours]).max() < 1e-4, part
        # The same order, but for scores that are equal to rounding.
        in_our_order = answers[0].scores[theirs][np.argsort(ours)]
        assert np.diff(in_our_order).max() < 1e-5


@pytest.mark.parametrize("both_ways", [True, False])
def test_positions_have_the_buckets_of_transformers(both_ways: bool) -> None:
    offsets = np.arange(-700, 701)
    for buckets, furthest in ((32, 128), (8, 20), (16, 100)):
        expected = T5Attention._relative_position_bucket(
            torch.from_numpy(offsets), both_ways, buckets, furthest
        )
        assert position_buckets(offsets, buckets, furthest, both_ways).tolist() == expected.tolist()


def test_a_session_begins_and_ends(tmp_path: Path) -> None:
    make().save(tmp_path)
    session = SavedGenerator.load(tmp_path).session(*query(3))
    one = np.zeros(1, np.int64)
    with pytest.raises(RuntimeError, match="begin first"):
        session.step(one, one)
    session.begin()
    assert session.step(one[:0], one[:0]).shape == (0, END + 1)
    with pytest.raises(RuntimeError, match="begins once"):
        session.begin()


def test_only_json_and_safetensors_are_saved(both: tuple[Generator, SavedGenerator]) -> None:
    generator, saved = both
    files = [path for path in saved.folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".safetensors"}
    assert saved.settings == generator.settings


def test_a_t5_from_scratch_reads_text(tmp_path: Path) -> None:
    generator = make(GeneratorSettings("text", "tokens", checkpoint=SCRATCH))
    assert 4e6 < sum(parameter.numel() for parameter in generator.parameters()) < 6e6
    generator.save(tmp_path)
    saved, asked = SavedGenerator.load(tmp_path), query(4)
    cells = ["Berlin", "1.5", "[COL]", "über", "東京"]
    asked = (replace(asked[0], columns=[*asked[0].columns, Column("more", cells)]), *asked[1:])
    assert saved.serializer.one(asked[0]) == generator.serializer().one(asked[0])
    expected = session_of(generator, *asked).begin()
    assert np.abs(saved.session(*asked).begin() - expected).max() < 1e-4


def test_a_damaged_generator_is_refused(tmp_path: Path) -> None:
    def refused(reason: str) -> None:
        with pytest.raises(CheckpointError, match=rf"could not be loaded .*{reason}.* Train it again"):
            SavedGenerator.load(tmp_path)

    refused("No such file")
    make().save(tmp_path)
    config = tmp_path / "config.json"
    whole = json.loads(config.read_text())
    config.write_text(json.dumps(whole | {"feed_forward_proj": "gated-tanh"}))
    refused("gated-tanh")
    config.write_text(json.dumps(whole | {"num_layers": 3}))
    refused("lacks 'encoder.block.2")
    config.write_text(json.dumps(whole))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    refused("")
