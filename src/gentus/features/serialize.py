"""A table as tokens: `[CLS] [COL] [VAL] v v v [COL] [VAL] v v ..`, within a budget, without its header.

The paper's serialisation, for encoders of the BERT family and for T5 alike. All columns stay; what gives
way is how many of their values are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from tokenizers import AddedToken, Tokenizer

from gentus.table import Column, Table, evenly_spaced

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COLUMN, VALUE = "[COL]", "[VAL]"

Tokens = list[int]


@dataclass(frozen=True, slots=True)
class SerialSettings:
    """How much of a table is told."""

    values: int = 24  # distinct non-empty values a column
    tokens: int = 512  # budget of an input, everything included
    column_tokens: int = 8  # a table that cannot have as many a column is told in several windows

    def __post_init__(self) -> None:
        """Refuse a budget that does not hold one column and the `[CLS]` before it."""
        if min(self.values, self.column_tokens) < 1 or self.tokens < self.column_tokens + 1:
            raise ValueError("values and column_tokens have to be at least 1, tokens more than column_tokens")


@dataclass(frozen=True, slots=True)
class Serial:
    """One input of a language model."""

    ids: Tokens
    marks: list[int]  # where the `[COL]` of each column is, in the order of the columns


class Serializer:
    """Tables in, token ids out, for one Hugging Face fast tokenizer.

    `[COL]` and `[VAL]` are added to that tokenizer if it lacks them; `added` are the ids they got, which
    a model has to be given embeddings for.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, settings: SerialSettings | None = None) -> None:
        self.settings = settings or SerialSettings()
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise TypeError(f"{type(tokenizer).__name__} is not a fast tokenizer (one with a tokenizer.json)")
        new = [mark for mark in (COLUMN, VALUE) if backend.token_to_id(mark) is None]
        tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in new])
        place = backend.get_vocab()
        self._column, self._value = place[COLUMN], place[VALUE]
        self.added = [place[mark] for mark in new]
        self._head, self._tail = _ends(tokenizer)
        self._room = self.settings.tokens - len(self._head) - len(self._tail)
        # A copy, as padding and truncation are the owner's business, and so that a cell which says "[COL]"
        # or "[SEP]" is text like any other.
        self._pieces = Tokenizer.from_str(backend.to_str())
        self._pieces.no_padding()
        self._pieces.no_truncation()
        self._pieces.encode_special_tokens = True

    def one(self, table: Table) -> Serial:
        """All columns of a table in one input.

        Every column has its `[COL]`, then a `[VAL]` and values as far as its share of the budget goes. A
        share may be a single token, so all columns are kept as long as there is a token for each of them;
        of a table with more columns than that, as many as there are tokens, evenly spread.
        """
        columns = [table.columns[i] for i in evenly_spaced(len(table.columns), self._room)]
        return self._serial(self._tokenize(columns))

    def windows(self, table: Table) -> list[Serial]:
        """All columns of a table, however many, in as few inputs as give each column its least tokens.

        Every column is in exactly one window, in order; windows are of like size. None if there are no
        columns.
        """
        columns = self._tokenize(table.columns)
        total, most = len(columns), max(1, self._room // self.settings.column_tokens)
        count = -(-total // most)
        bounds = [total * i // count for i in range(count + 1)] if count else []
        return [self._serial(columns[a:b]) for a, b in pairwise(bounds)]

    def _tokenize(self, columns: Sequence[Column]) -> list[list[Tokens]]:
        """The tokens of the distinct values of columns. Each value is tokenised once a table."""
        values = [_distinct(column, self.settings.values) for column in columns]
        place = {value: i for i, value in enumerate(dict.fromkeys(chain.from_iterable(values)))}
        encodings = self._pieces.encode_batch_fast(list(place), add_special_tokens=False)
        tokens = [encoding.ids for encoding in encodings]
        # Some text is nothing to a tokenizer: control characters, for one.
        return [[ids for value in column if (ids := tokens[place[value]])] for column in values]

    def _serial(self, columns: Sequence[list[Tokens]]) -> Serial:
        """Share the room among columns: what one does not use is left to those that want more than it."""
        wanted = [2 + sum(map(len, values)) for values in columns]
        told: list[Tokens] = [[] for _ in columns]
        room = self._room
        for done, i in enumerate(sorted(range(len(columns)), key=wanted.__getitem__)):
            told[i] = self._column_tokens(columns[i], room // (len(columns) - done))
            room -= len(told[i])
        ids, marks = list(self._head), []
        for tokens in told:
            marks.append(len(ids))
            ids += tokens
        return Serial(ids + self._tail, marks)

    def _column_tokens(self, values: list[Tokens], share: int) -> Tokens:
        """As many whole values as fit; of the first one, what fits: a part of it says more than nothing."""
        tokens = [self._column, self._value, *chain.from_iterable(values[:1])][:share]
        for value in values[1:]:
            if len(tokens) + len(value) > share:
                break
            tokens += value
        return tokens


def _distinct(column: Column, limit: int) -> list[str]:
    """Distinct values spread evenly over a column: the head of a sorted one says little about the rest."""
    values = list(dict.fromkeys(filter(None, column.cells)))
    return [values[i] for i in evenly_spaced(len(values), limit)]


def _ends(tokenizer: PreTrainedTokenizerBase) -> tuple[Tokens, Tokens]:
    """What comes before the columns and after them: BERT's `[CLS]`, or T5's end of sequence."""
    first, last = tokenizer.cls_token_id, tokenizer.eos_token_id
    if first is not None:
        return [first], []
    return [], [] if last is None else [last]
