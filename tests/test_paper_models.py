"""Tables as tokens, language models from files, the table encoder, and the generator's probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_models import TEXT, WIDTH, lake, pieces, sentences, serializer, small_generator
from torch import Tensor

from gentus.arrays import F32
from gentus.errors import CheckpointError
from gentus.paper.checkpoints import create_t5, load_bert, load_t5
from gentus.paper.encoder import ColumnStates, Pooling
from gentus.paper.generator import Generator
from gentus.paper.serialize import Sentence, Serializer
from gentus.paper.settings import SerialSettings, T5Settings
from gentus.table import Column, Table

COL, VAL, CLS, EOS = 100, 101, 102, 103


# --- serialisation -----------------------------------------------------------------------------------


def ser(columns: list[list[str]], tokens: int = 512, values: int = 24) -> Sentence:
    made = Serializer(pieces(), COL, VAL, (CLS,), (EOS,), SerialSettings(values, tokens))
    return made.ser(Table("t", [Column("name", cells) for cells in columns], 9))


def test_a_table_sentence() -> None:
    known = pieces()
    a, b = (known.encode(text, add_special_tokens=False).ids for text in ("ab", "c"))
    found = ser([["ab", "", "c", "ab"], [], ["c"]])
    assert found.ids == [CLS, COL, VAL, *a, *b, COL, VAL, COL, VAL, *b, EOS]  # distinct, non-empty, no names
    assert found.columns == [1, 3 + len(a + b), 5 + len(a + b)]


def test_text_is_never_a_marker() -> None:
    assert ser([["[COL]"]]).ids.count(COL) == 1


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.text("abcdef", max_size=9), max_size=30), max_size=30),
    st.integers(8, 200),
    st.integers(1, 24),
)
def test_bounds(columns: list[list[str]], tokens: int, values: int) -> None:
    found = ser(columns, tokens, values)
    assert len(found.ids) <= tokens
    assert len(found.columns) == min(len(columns), tokens - 2)  # all columns, while there is a token for each
    assert [found.ids[at] for at in found.columns] == [COL] * len(found.columns)
    assert (found.ids[0], found.ids[-1]) == (CLS, EOS)


def test_no_more_values_than_the_limit() -> None:
    letters = list("abcdefghijklmnopqrstuvwxyz")
    alone = len(pieces().encode("a", add_special_tokens=False).ids)
    assert len(ser([letters], values=5).ids) == 4 + 5 * alone
    assert len(ser([letters]).ids) == 4 + 24 * alone


# --- language models ---------------------------------------------------------------------------------


def test_column_states_are_those_at_the_markers(tiny_bert: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    states = ColumnStates(load_bert(str(tiny_bert)), SerialSettings(tokens=60))
    states._bfloat16 = False
    table = lake()[2]
    ids, columns = states.serializer.ser(table)
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_bert), AutoModel.from_pretrained(tiny_bert)
    known = model.get_input_embeddings().weight.detach()
    rows = {len(tokenizer): known[tokenizer.sep_token_id], len(tokenizer) + 1: known.mean(0)}
    embedded = torch.stack([rows[at] if at in rows else known[at] for at in ids])
    with torch.no_grad():
        hidden = model.eval()(inputs_embeds=embedded[None]).last_hidden_state[0]
    assert len(columns) == 4
    assert np.allclose(states.h_col(table), hidden[columns].numpy(), atol=1e-5)


def test_a_lake_is_encoded_as_its_tables_are(tiny_bert: Path) -> None:
    states = ColumnStates(load_bert(str(tiny_bert)), SerialSettings())
    assert states.serializer.settings.tokens == 128  # what this BERT can read
    tables = [*lake(), Table("none", [], 0)]
    for table, found in zip(tables, states.h_cols(tables), strict=True):
        assert (states.h_col(table) == found).all()


def slow_pooling(eta: Pooling, h: F32) -> F32:
    """q_η attends to the columns, head by head; then g_η and length one."""
    weight, bias = eta.attention.in_proj_weight.detach().numpy(), eta.attention.in_proj_bias.detach().numpy()
    width, heads = h.shape[1], eta.attention.num_heads
    q, k, v = (
        x @ weight[at * width : (at + 1) * width].T + bias[at * width : (at + 1) * width]
        for at, x in enumerate((eta.q_eta.detach().numpy()[None], h, h))
    )
    parts = []
    for head in range(heads):
        some = slice(head * width // heads, (head + 1) * width // heads)
        scores = (q[:, some] @ k[:, some].T)[0] / np.sqrt(width // heads)
        shares = np.exp(scores) / np.exp(scores).sum()
        parts.append(sum(share * value for share, value in zip(shares, v[:, some], strict=True)))
    out = eta.attention.out_proj
    pooled = np.concatenate(parts) @ out.weight.detach().numpy().T + out.bias.detach().numpy()
    e = pooled @ eta.g_eta.weight.detach().numpy().T + eta.g_eta.bias.detach().numpy()
    return np.asarray(e / np.linalg.norm(e), np.float32)


def test_pooling() -> None:
    random = np.random.default_rng(0)
    h_cols = [random.standard_normal((1 + at, 8), dtype=np.float32) for at in range(6)]
    eta = Pooling(8)
    assert np.allclose(eta.h_tab(h_cols).detach().numpy(), [one.mean(0) for one in h_cols], atol=1e-6)
    eta.standardise(h_cols)
    plain = eta.g_eta(eta.h_tab(h_cols)).detach().numpy()
    assert np.allclose(plain.mean(0), 0, atol=1e-5)
    assert np.allclose(plain.std(0), 1, atol=1e-4)
    torch.manual_seed(0)
    for parameter in eta.parameters():
        torch.nn.init.normal_(parameter)
    expected = [slow_pooling(eta, one) for one in h_cols]
    assert np.allclose(eta.e_t(h_cols).detach().numpy(), expected, atol=1e-5)
    assert np.isfinite(eta.vectors([np.zeros((0, 8), np.float32)])).all()


@pytest.mark.parametrize("kind", ["relu", "gated-gelu"])
def test_t5_is_that_of_its_authors(tmp_path: Path, kind: str) -> None:
    from data.tokenizers import sentence_pieces
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    tokenizer = sentence_pieces()
    config = T5Config(
        vocab_size=len(tokenizer) + 3, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_decoder_layers=3,
        num_heads=3, dropout_rate=0.0, feed_forward_proj=kind, decoder_start_token_id=0,
        tie_word_embeddings=True,
    )  # fmt: skip
    theirs = T5ForConditionalGeneration(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    base = load_t5(str(tmp_path))
    assert (base.start, base.eos, base.frozen) == (0, tokenizer.eos_token_id, False)
    ids, before = (
        torch.randint(3, 20, (4, 150)),
        torch.randint(3, 20, (4, 40)),
    )  # beyond the buckets' distance
    mask = torch.ones_like(ids)
    mask[1, 90:] = 0
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=before).logits
        memory = base.t5.memory(base.t5.encode(base.text[ids], mask.bool()), mask.bool())
        states, _ = base.t5.decode(base.text[before], torch.arange(4), memory)
    assert torch.allclose(states * 16**-0.5 @ base.text.T, expected, atol=1e-4)


def test_from_scratch_the_token_vectors_are_frozen_and_standardised() -> None:
    base = create_t5(T5Settings(layers=1))
    assert base.frozen
    assert torch.allclose(base.text.mean(0), torch.zeros(256), atol=1e-4)
    assert torch.allclose(base.text.std(0), torch.ones(256), atol=1e-3)
    assert base.text.shape[0] == base.pieces.get_vocab_size()


def test_what_is_no_checkpoint(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(CheckpointError, match=r"not a folder with config\.json"):
        load_t5(str(tmp_path))
    with pytest.raises(CheckpointError, match="let it be downloaded"):
        load_bert("nobody/nothing")
    with pytest.raises(CheckpointError, match=r"is not a T5|could not be loaded"):
        load_t5(str(tiny_bert))


def test_weights_in_a_pickle_are_refused(tmp_path: Path, tiny_bert: Path) -> None:
    import shutil

    from safetensors.torch import load_file

    folder = shutil.copytree(tiny_bert, tmp_path / "bert")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        load_bert(str(folder))


# --- the generator -----------------------------------------------------------------------------------


def slow_log_p(model: Generator, sentence: Sentence, symbols: list[int]) -> list[float]:
    """log P(y_t | y_<t, x) one at a time, by a softmax over every token of the extended vocabulary."""
    rows = torch.cat([model.text, model.added])
    found = []
    with torch.no_grad():
        memory = model.read([sentence])
        for t in range(len(symbols)):
            before = [model.vocabulary.start, *(TEXT + symbol for symbol in symbols[:t])]
            states, _ = model.t5.decode(rows[before][None], torch.zeros(1, dtype=torch.long), memory)
            log_p = (states[0, -1] * WIDTH**-0.5 @ rows.T).log_softmax(0)
            end = symbols[t] == model.vocabulary.end
            found.append(float(log_p[model.vocabulary.eos if end else TEXT + symbols[t]]))
    return found


def targets(model: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Owners, symbols and lengths: several targets of an input share prefixes, some have suffixes."""
    codes = np.array([[0, 1, 2], [0, 1, 2], [0, 1, 3], [0, 1, 2], [3, 3, 3]])
    y, lengths = model.vocabulary.tok(codes, np.array([1, 2, 0, 1, 0]))
    return torch.tensor([0, 0, 0, 1, 2]), y, lengths


@pytest.mark.parametrize("frozen", [True, False])
def test_probabilities_are_of_the_whole_vocabulary(frozen: bool) -> None:
    model, inputs = small_generator(frozen=frozen), sentences(3)
    owner, y, lengths = targets(model)
    log_p = model.log_p_theta(model.read(inputs), owner, y, lengths).detach()
    for at, (own, length) in enumerate(zip(owner.tolist(), lengths.tolist(), strict=True)):
        slow = slow_log_p(model, inputs[own], y[at, :length].tolist())
        assert np.allclose(log_p[at, :length].numpy(), slow, atol=1e-4)
        assert (log_p[at, length:] == 0).all()
        p = model.p_theta(model.read(inputs), owner, y, lengths)[at]
        assert p.item() == pytest.approx(np.exp(sum(slow)), rel=1e-3)


@pytest.mark.parametrize("frozen", [True, False])
def test_gradients_are_those_of_the_plain_softmax(frozen: bool) -> None:
    model, inputs = small_generator(frozen=frozen), sentences(3)
    owner, y, lengths = targets(model)
    weights = torch.randn(y.shape)
    torch.autograd.backward((model.log_p_theta(model.read(inputs), owner, y, lengths) * weights).sum())
    fast = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert ("text" in fast) != frozen
    model.zero_grad()
    rows = torch.cat([model.text, model.added])
    tokens = torch.where(y == model.vocabulary.end, model.vocabulary.eos, TEXT + y)
    before = torch.cat([torch.full((len(y), 1), model.vocabulary.start), TEXT + y[:, :-1].clamp(max=6)], 1)
    states, _ = model.t5.decode(rows[before], owner, model.read(inputs))
    log_p = (states * WIDTH**-0.5 @ rows.T).log_softmax(2).gather(2, tokens[..., None])[..., 0]
    inside = torch.arange(y.shape[1]) < lengths[:, None]
    torch.autograd.backward((log_p * weights * inside).sum())
    for name, parameter in model.named_parameters():
        if name in fast:
            assert parameter.grad is not None
            assert torch.allclose(fast[name], parameter.grad, atol=1e-4), name


def test_tokens_of_identifiers() -> None:
    model = small_generator(codes=4, suffixes=3)
    y, lengths = model.vocabulary.tok(np.array([[1, 2], [1, 2], [3, 0], [1, 2]]), np.array([1, 3, 0, 9]))
    assert y.tolist() == [[1, 2, 4, 7], [1, 2, 6, 7], [3, 0, 7, 7], [1, 2, 6, 7]]  # beyond S: the last suffix
    assert lengths.tolist() == [4, 4, 3, 4]  # |y| counts the end


def test_a_table_without_columns_can_be_read() -> None:
    model = small_generator()
    memory = model.read([serializer(model).ser(Table("none", [], 0)), Sentence([], [])])
    assert all(bool(torch.isfinite(keys).all()) for keys in memory.keys)
