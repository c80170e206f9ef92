"""Column states, on a BERT that fits into a test, and once on MiniLM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_serialize import word_pieces
from transformers import BertModel, T5Config, T5Model

from gentus.errors import CheckpointError
from gentus.features.bert import BertColumns
from gentus.table import Column, Table

WIDTH = 16  # of the tiny BERT


@pytest.fixture(scope="module")
def bert(tiny_bert: Path) -> BertColumns:
    return BertColumns.load(str(tiny_bert), precision="float32")


def tables(count: int = 12) -> list[Table]:
    """Tables of many widths and lengths."""
    random = np.random.default_rng(0)

    def cell() -> str:
        return "".join(random.choice(list("abcdefgh"), random.integers(1, 9)))

    def column() -> Column:
        return Column("c", [cell() for _ in range(random.integers(0, 30))])

    return [Table("t", [column() for _ in range(1 + 3 * i)], 30) for i in range(count)]


def test_every_column_has_a_state(bert: BertColumns) -> None:
    lake = [*tables(), Table("none", [], 0)]
    states = bert.states(lake)
    assert bert.width == WIDTH
    assert [s.shape for s in states] == [(len(t.columns), WIDTH) for t in lake]
    assert all(s.dtype == np.float32 and np.isfinite(s).all() for s in states)
    assert bert.states([]) == []


def test_states_do_not_depend_on_the_batch(bert: BertColumns) -> None:
    lake = tables()
    for table, together in zip(lake, bert.states(lake), strict=True):
        assert np.allclose(bert.states([table])[0], together, atol=1e-5)


def test_states_are_those_at_the_column_tokens(bert: BertColumns) -> None:
    table = Table("t", [Column("a", ["ab"]), Column("b", ["cd", "e"])], 2)
    serial = bert.serializer.one(table)
    with torch.no_grad():
        hidden = bert._model(input_ids=torch.tensor([serial.ids], device=bert._device)).last_hidden_state
    assert np.allclose(bert.states([table])[0], hidden[0, serial.columns].cpu().numpy(), atol=1e-5)


def test_context_matters(bert: BertColumns) -> None:
    column = Column("a", ["ab", "cd"])
    alone, beside = bert.states([Table("t", [column], 2), Table("t", [column, Column("b", ["h"])], 2)])
    assert np.abs(alone[0] - beside[0]).max() > 1e-3


def test_windows_come_back_in_column_order(bert: BertColumns) -> None:
    wide = Table("wide", [Column("c", [f"{'abcdefgh'[i % 8]}{'xyz'[i % 3]}"]) for i in range(300)], 1)
    windows = bert.serializer.windows(wide)
    assert len(windows) > 10
    (states,) = bert.states([wide])
    assert states.shape == (300, WIDTH)
    first = len(windows[0].columns)
    second = Table("part", wide.columns[first : first + len(windows[1].columns)], 1)
    assert np.allclose(bert.states([second])[0], states[first : first + len(second.columns)], atol=1e-5)


def test_the_budget_bows_to_what_the_model_can_read(bert: BertColumns) -> None:
    assert bert.serializer.settings.tokens == 128


def test_new_tokens_have_the_same_embeddings_at_every_load(tiny_bert: Path, bert: BertColumns) -> None:
    torch.manual_seed(7)
    again = BertColumns.load(str(tiny_bert), precision="float32")
    for one, other in zip(bert.states(tables(4)), again.states(tables(4)), strict=True):
        assert np.array_equal(one, other)
    embeddings = again._model.get_input_embeddings().weight
    column, value = again.serializer.added
    separator = word_pieces().sep_token_id
    assert torch.equal(embeddings[column], embeddings[separator])
    assert torch.allclose(embeddings[value], embeddings[:column].mean(0), atol=1e-6)


def test_learnt_embeddings_of_tokens_are_kept(tiny_bert: Path, tmp_path: Path) -> None:
    tuned = BertColumns.load(str(tiny_bert), precision="float32")
    tokenizer = word_pieces()
    tokenizer.add_tokens(["[COL]", "[VAL]"], special_tokens=True)
    with torch.no_grad():
        tuned._model.get_input_embeddings().weight[tuned.serializer.added] += 1
    tuned._model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = BertColumns.load(str(tmp_path), precision="float32")
    assert again.serializer.added == []
    assert np.array_equal(again.states(tables(3))[2], tuned.states(tables(3))[2])


def test_ticks_add_up(bert: BertColumns) -> None:
    wide = Table("wide", [Column("c", ["ab"])] * 300, 1)
    for lake in ([*tables(), wide], [Table("none", [], 0)], []):
        ticks: list[int] = []
        bert.states(lake, ticks.append)
        assert sum(ticks) == len(lake)
        assert min(ticks) >= 0


def test_bfloat16_is_close(tiny_bert: Path, bert: BertColumns) -> None:
    half = BertColumns.load(str(tiny_bert), precision="bfloat16")
    assert (bert.precision, half.precision) == ("float32", "bfloat16")
    for one, other in zip(bert.states(tables(4)), half.states(tables(4)), strict=True):
        cosine = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        assert cosine.min() > 0.99
    with pytest.raises(ValueError, match="precision"):
        BertColumns.load(str(tiny_bert), precision="int8")  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["no/such/folder/at/all", "nobody-has/this-bert"])
def test_a_missing_checkpoint_is_named_with_what_to_do(missing: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        BertColumns.load(missing)
    message = str(caught.value)
    assert missing in message
    assert "model.safetensors" in message
    assert "download" in message
    assert "\n" not in message


def test_pickled_weights_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    for file in tiny_bert.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save(BertModel.from_pretrained(tiny_bert).state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        BertColumns.load(str(tmp_path))


def test_what_is_no_bert_is_refused(tmp_path: Path) -> None:
    word_pieces().save_pretrained(tmp_path)
    config = T5Config(vocab_size=80, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    T5Model(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="not an encoder"):
        BertColumns.load(str(tmp_path))


def test_minilm_tells_columns_by_their_values() -> None:
    cities, fish = ["Berlin", "Vienna", "Lisbon", "Madrid"], ["salmon", "trout", "carp", "pike"]
    more_cities = ["Rome", "Oslo", "Dublin", "Prague"]
    lake = [Table("t", [Column("c", cells)], 4) for cells in (cities, more_cities, fish)]
    bert = BertColumns.load()
    a, b, c = (states[0] / np.linalg.norm(states[0]) for states in bert.states(lake))
    assert bert.width == len(a) == 384
    assert a @ b > max(a @ c, b @ c)
