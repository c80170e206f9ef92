"""A table as tokens: `[CLS] [COL] [VAL] v v v [COL] [VAL] v v ..`, within a budget, without its header.

The paper's serialisation (section 4.1), for BERT-family encoders and for T5. All columns are kept; the budget
limits how many of their values are.
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
    """How much of a table is serialised."""

    values: int = 24  # distinct non-empty values per column
    tokens: int = 512  # budget of an input, all tokens included
    column_tokens: int = 8  # a table with less budget per column is split into windows

    def __post_init__(self) -> None:
        """Refuse a budget that is too small for one column and the `[CLS]` before it."""
        if min(self.values, self.column_tokens) < 1 or self.tokens < self.column_tokens + 1:
            raise ValueError("values and column_tokens have to be at least 1, tokens more than column_tokens")


@dataclass(frozen=True, slots=True)
class Serial:
    """One input of a language model."""

    ids: Tokens
    columns: list[int]  # positions of the `[COL]` tokens, in the order of the columns


class Serializer:
    """Tables in, token ids out, for one tokenizer that knows `[COL]` and `[VAL]`.

    `ends` are the tokens before the columns and after them. `of` makes one from a tokenizer of transformers.
    """

    def __init__(
        self, pieces: Tokenizer, ends: tuple[Tokens, Tokens], settings: SerialSettings | None = None
    ) -> None:
        self.settings, self.ends = settings or SerialSettings(), ends
        column, value = (pieces.token_to_id(token) for token in (COLUMN, VALUE))
        if column is None or value is None:
            raise ValueError(f"the tokenizer does not know {COLUMN} and {VALUE}")
        self._column, self._value = column, value
        self.added: Tokens = []  # ids that were new to the tokenizer: a model needs embeddings for them
        self._room = self.settings.tokens - sum(map(len, ends))
        self._pieces = pieces
        pieces.no_padding()
        pieces.no_truncation()
        pieces.encode_special_tokens = True  # so that a cell "[COL]" is ordinary text

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, settings: SerialSettings | None = None) -> Serializer:
        """For a fast tokenizer of transformers, to which `[COL]` and `[VAL]` are added if it lacks them."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise TypeError(f"{type(tokenizer).__name__} is not a fast tokenizer (one with a tokenizer.json)")
        new = [token for token in (COLUMN, VALUE) if backend.token_to_id(token) is None]
        tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in new])
        # A copy, so that padding and truncation of the given one stay.
        made = cls(Tokenizer.from_str(backend.to_str()), _ends(tokenizer), settings)
        made.added = [backend.get_vocab()[token] for token in new]
        return made

    def one(self, table: Table) -> Serial:
        """All columns of a table in one input.

        Every column has its `[COL]`, then a `[VAL]` and values within its share of the budget. A share may be
        a single token; of a table with more columns than tokens, as many columns as tokens, evenly spaced.
        """
        columns = [table.columns[i] for i in evenly_spaced(len(table.columns), self._room)]
        return self._serial(self._tokenize(columns))

    def windows(self, table: Table) -> list[Serial]:
        """All columns of a table, in as few inputs as give each column at least `column_tokens`.

        Every column is in exactly one window, in order; windows have similar sizes. Without columns there are
        no windows.
        """
        columns = self._tokenize(table.columns)
        total, most = len(columns), max(1, self._room // self.settings.column_tokens)
        count = -(-total // most)
        bounds = [total * i // count for i in range(count + 1)] if count else []
        return [self._serial(columns[a:b]) for a, b in pairwise(bounds)]

    def _tokenize(self, columns: Sequence[Column]) -> list[list[Tokens]]:
        """The tokens of the distinct values of columns. Each value is tokenised once per table."""
        values = [_distinct(column, self.settings.values) for column in columns]
        number = {value: i for i, value in enumerate(dict.fromkeys(chain.from_iterable(values)))}
        encodings = self._pieces.encode_batch_fast(list(number), add_special_tokens=False)
        tokens = [encoding.ids for encoding in encodings]
        # Some text has no tokens, such as control characters.
        return [[ids for value in column if (ids := tokens[number[value]])] for column in values]

    def _serial(self, columns: Sequence[list[Tokens]]) -> Serial:
        """Share the budget among columns: what a short one does not need goes to the longer ones."""
        needed = [2 + sum(map(len, values)) for values in columns]
        shares: list[Tokens] = [[] for _ in columns]
        room = self._room
        for done, i in enumerate(sorted(range(len(columns)), key=needed.__getitem__)):
            shares[i] = self._column_tokens(columns[i], room // (len(columns) - done))
            room -= len(shares[i])
        ids, positions = list(self.ends[0]), []
        for tokens in shares:
            positions.append(len(ids))
            ids += tokens
        return Serial(ids + self.ends[1], positions)

    def _column_tokens(self, values: list[Tokens], share: int) -> Tokens:
        """As many whole values as fit; the first one is cut if needed."""
        tokens = [self._column, self._value, *chain.from_iterable(values[:1])][:share]
        for value in values[1:]:
            if len(tokens) + len(value) > share:
                break
            tokens += value
        return tokens


def _distinct(column: Column, limit: int) -> list[str]:
    """Distinct values, evenly spaced over a column, as it may be sorted."""
    values = list(dict.fromkeys(filter(None, column.cells)))
    return [values[i] for i in evenly_spaced(len(values), limit)]


def _ends(tokenizer: PreTrainedTokenizerBase) -> tuple[Tokens, Tokens]:
    """Tokens before the columns and after them: BERT's `[CLS]`, or T5's end of sequence."""
    first, last = tokenizer.cls_token_id, tokenizer.eos_token_id
    if first is not None:
        return [first], []
    return [], [] if last is None else [last]
