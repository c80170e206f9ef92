"""The serialisation of tables: what has to hold for any table, and what a reader would expect of a few."""

from __future__ import annotations

from functools import cache
from string import ascii_lowercase as letters

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gentus.features.serialize import Serial, Serializer, SerialSettings
from gentus.table import Column, Table

Cells = list[list[str]]


def word_pieces() -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer like BERT's that knows letters only, so that a word has as many tokens."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, "[", "]", *letters, *(f"##{letter}" for letter in letters)]
    pieces = Tokenizer(models.WordPiece({v: i for i, v in enumerate(vocabulary)}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer()
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.decoder = decoders.WordPiece()
    pieces.enable_padding(length=128)  # as MiniLM's has it
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return _fast(pieces, **dict(zip(names, special, strict=True)))


def sentence_pieces() -> PreTrainedTokenizerFast:
    """A Unigram tokenizer like T5's: nothing in front, the end of sequence behind."""
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces = Tokenizer(models.Unigram(vocabulary + [(letter, -3.0) for letter in letters], unk_id=2))
    pieces.pre_tokenizer = pre_tokenizers.Metaspace()
    return _fast(pieces, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def _fast(pieces: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=pieces, **special)


@cache
def serializer(values: int = 24, tokens: int = 512, column_tokens: int = 8) -> Serializer:
    return Serializer.of(word_pieces(), SerialSettings(values, tokens, column_tokens))


def table(columns: Cells) -> Table:
    return Table("t", [Column(f"c{i}", cells) for i, cells in enumerate(columns)], 0)


def told(serial: Serial) -> list[str]:
    """What each column says, in tokens."""
    tokens = word_pieces()
    Serializer.of(tokens)
    ends = [*serial.columns[1:], len(serial.ids)]
    return [
        " ".join(tokens.convert_ids_to_tokens(serial.ids[a:b]))
        for a, b in zip(serial.columns, ends, strict=True)
    ]


def values_of(serial: Serial, column: int) -> list[list[int]]:
    """Token ids of a column's values, in tests where every value is one word."""
    begin, end = serial.columns[column], [*serial.columns, len(serial.ids)][column + 1]
    values: list[list[int]] = []
    for token in serial.ids[begin + 2 : end]:
        if token < FIRST_CONTINUATION:
            values.append([])
        values[-1].append(token)
    return values


FIRST_CONTINUATION = word_pieces().get_vocab()["##a"]
COL = serializer().added[0]
CELLS = st.lists(st.text(letters, max_size=12), max_size=40)


def test_a_table_reads_as_in_the_paper() -> None:
    serial = serializer().one(table([["ab", "c", "ab"], [], ["d"]]))
    tokens = word_pieces()
    Serializer.of(tokens)
    expected = "[CLS] [COL] [VAL] a ##b c [COL] [VAL] [COL] [VAL] d"
    assert " ".join(tokens.convert_ids_to_tokens(serial.ids)) == expected
    assert serial.columns == [1, 6, 8]


@given(st.lists(CELLS, max_size=40), st.integers(9, 120), st.integers(1, 8), st.integers(1, 24))
@settings(max_examples=150, deadline=None)
def test_one_input_keeps_all_columns_within_the_budget(
    columns: Cells, tokens: int, least: int, values: int
) -> None:
    serial = Serializer.of(word_pieces(), SerialSettings(values, tokens, least)).one(table(columns))
    assert len(serial.ids) <= tokens
    assert len(serial.columns) == min(len(columns), tokens - 1)
    assert serial.columns == [i for i, token in enumerate(serial.ids) if token == COL]
    if len(columns) > tokens - 1:
        return
    kept = Serializer.of(word_pieces(), SerialSettings(values, 100_000, least)).one(table(columns))
    for i, cells in enumerate(columns):
        some, all_ = values_of(serial, i), values_of(kept, i)
        assert len(all_) == min(values, len({cell for cell in cells if cell}))
        assert some[1:] == all_[1 : len(some)]  # whole values from the first on
        assert not some or some[0] == all_[0][: len(some[0])]
        assert len(some) < 2 or some[0] == all_[0]


@given(st.lists(CELLS, max_size=60), st.integers(9, 80), st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_windows_have_every_column_once_in_order(columns: Cells, tokens: int, least: int) -> None:
    windows = serializer(24, tokens, least).windows(table(columns))
    assert all(len(window.ids) <= tokens for window in windows)
    assert sum(len(window.columns) for window in windows) == len(columns)
    wide = serializer(24, 100_000, least).one(table(columns))
    firsts = [values_of(wide, i)[:1] for i in range(len(columns))]
    found = [values_of(window, i)[:1] for window in windows for i in range(len(window.columns))]
    for first, part in zip(firsts, found, strict=True):
        assert not part or part[0] == first[0][: len(part[0])]
        assert least < 3 or bool(part) == bool(first)
    if len(columns) * least <= tokens - 1:
        assert len(windows) == bool(columns)


def test_short_columns_leave_their_room_to_long_ones() -> None:
    words = [letter * 4 for letter in letters[:20]]
    serial = serializer(tokens=1 + 3 + 2 * 40).one(table([words, ["a"], words]))
    short = told(serial)[1]
    assert short == "[COL] [VAL] a"
    # 40 tokens each, or nine whole values; what these leave over is enough for a tenth of the last column.
    assert [len(values_of(serial, i)) for i in (0, 2)] == [9, 10]


def test_only_a_first_value_is_cut() -> None:
    serial = serializer(tokens=9).one(table([["abcdefghijkl", "m"]]))
    assert told(serial) == ["[COL] [VAL] a ##b ##c ##d ##e ##f"]
    assert told(serializer(tokens=9).one(table([["abcd", "efgh", "i"]]))) == ["[COL] [VAL] a ##b ##c ##d"]


def test_columns_shrink_to_their_mark_before_any_is_lost() -> None:
    wide = table([[letter] for letter in letters])
    narrow = serializer(tokens=1 + 26)
    assert told(narrow.one(wide)) == ["[COL]"] * 26
    fewer = Serializer.of(word_pieces(), SerialSettings(tokens=1 + 13)).one(wide)
    assert told(fewer) == ["[COL]"] * 13


def test_many_values_are_spread_over_the_column() -> None:
    serial = serializer(values=2).one(table([sorted(letters)]))
    assert told(serial) == ["[COL] [VAL] a n"]


def test_wide_tables_are_told_in_windows_of_like_size() -> None:
    windows = serializer().windows(table([["ab", "cd"]] * 300))
    assert [len(window.columns) for window in windows] == [60] * 5


def test_special_tokens_inside_cells_are_text() -> None:
    serial = serializer().one(table([["[COL]"], ["[SEP]"]]))
    assert told(serial) == ["[COL] [VAL] [ c ##o ##l ]", "[COL] [VAL] [ s ##e ##p ]"]


def test_t5_has_an_end_and_no_beginning() -> None:
    tokenizer = sentence_pieces()
    serial = Serializer.of(tokenizer).one(table([["ab"], []]))
    tokens = tokenizer.convert_ids_to_tokens(serial.ids)
    assert tokens == ["[COL]", "[VAL]", "▁", "a", "b", "[COL]", "[VAL]", "</s>"]
    full = Serializer.of(sentence_pieces(), SerialSettings(tokens=9)).one(table([["abc", "def"] * 9] * 3))
    assert len(full.ids) <= 9
    assert full.ids[-1] == tokenizer.eos_token_id


def test_the_tokenizer_is_extended_once_and_otherwise_left_alone() -> None:
    tokenizer = word_pieces()
    before = len(tokenizer)
    assert Serializer.of(tokenizer).added == [before, before + 1]
    assert Serializer.of(tokenizer).added == []
    assert len(tokenizer) == before + 2
    assert tokenizer.backend_tokenizer.padding is not None
    assert not tokenizer.backend_tokenizer.encode_special_tokens


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="tokens"):
        SerialSettings(tokens=8, column_tokens=8)
    with pytest.raises(TypeError, match="fast tokenizer"):
        Serializer.of(object())
