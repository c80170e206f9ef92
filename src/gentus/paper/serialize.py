"""Tables as tokens (section 5.1): `[CLS] [COL] [VAL] v v [COL] [VAL] v ..`, all columns, without their names.

The budget bounds how many values of a column are in its sentence; only a table with more columns than the
budget has tokens loses columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from tokenizers import Tokenizer

from gentus.paper.settings import SerialSettings
from gentus.table import Column, Table, evenly_spaced

Tokens = list[int]
CACHED = 1_000_000  # values whose tokens are kept


class Sentence(NamedTuple):
    """x_T, and the positions p_j of its `[COL]` tokens in the order of the columns."""

    ids: Tokens
    columns: list[int]


@dataclass(frozen=True, slots=True)
class Serializer:
    """`ser` and `sigma` with one tokenizer. A cell that says "[COL]" is ordinary text."""

    pieces: Tokenizer  # without padding and truncation
    col: int  # the token [COL]
    val: int  # the token [VAL]
    first: tuple[int, ...]  # before the columns: BERT's [CLS]
    last: tuple[int, ...]  # after them: T5's end of sequence
    settings: SerialSettings = field(default_factory=SerialSettings)
    _known: dict[str, Tokens] = field(default_factory=dict, repr=False, compare=False)

    def ser(self, table: Table) -> Sentence:
        """x_T = [CLS] ∘ σ_1 ∘ .. ∘ σ_|C|; what short columns leave of the budget goes to longer ones."""
        room = self.settings.tokens - len(self.first) - len(self.last)
        columns = [table.columns[at] for at in evenly_spaced(len(table.columns), room)]
        # A column can use no more values than its share of the budget has tokens.
        most = min(self.settings.values, max(1, room - 2 * len(columns)))
        values = self._tok([_distinct(column, most) for column in columns])
        sentences: list[Tokens] = [[] for _ in columns]
        by_length = sorted(range(len(columns)), key=lambda at: sum(map(len, values[at])))
        for done, at in enumerate(by_length):
            sentences[at] = self.sigma(values[at], room // (len(columns) - done))
            room -= len(sentences[at])
        ids, positions = list(self.first), []
        for sentence in sentences:
            positions.append(len(ids))
            ids += sentence
        return Sentence([*ids, *self.last], positions)

    def sigma(self, values: Sequence[Tokens], share: int) -> Tokens:
        """σ_j = [COL] ∘ [VAL] ∘ tok(v_1) ∘ .. in `share` tokens: evenly spaced values; a lone one is cut."""
        room = share - 2
        while len(values) > 1 and sum(map(len, values)) > room:
            fitting = max(1, min(len(values) - 1, len(values) * room // sum(map(len, values))))
            values = [values[at] for at in evenly_spaced(len(values), fitting)]
        return [self.col, self.val, *chain.from_iterable(values)][:share]

    def _tok(self, columns: Sequence[Sequence[str]]) -> list[list[Tokens]]:
        """The tokens of the values of columns. Some text has none, such as control characters."""
        if len(self._known) > CACHED:
            self._known.clear()
        new = list(dict.fromkeys(value for column in columns for value in column if value not in self._known))
        found = self.pieces.encode_batch_fast(new, add_special_tokens=False) if new else []
        self._known.update((value, one.ids) for value, one in zip(new, found, strict=True))
        return [[ids for value in column if (ids := self._known[value])] for column in columns]


def _distinct(column: Column, most: int) -> list[str]:
    """V_j: distinct values, evenly spaced over the column, as it may be sorted."""
    values = list(dict.fromkeys(filter(None, column.cells)))
    return [values[at] for at in evenly_spaced(len(values), most)]
