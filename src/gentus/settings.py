"""Settings: everything that shapes an index, and the presets. No torch here.

The latent space has a closed form, by `graph`, `space`, `smoothing` and `feedback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from gentus.table import Header, Limits

Preset = Literal["fast", "paper"]
VERY_MANY = 2_000_000  # tables


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """How neighbours are found."""

    candidates: int = 100  # tables whose columns are compared, for each table
    n_components: int = 256  # principal components in which candidates are found
    order: float = 1.0  # weight of columns at the same position, times how far the lake keeps positions
    hubness: float = 0.4  # how much a table loses for matching everything
    reciprocal: int = 15  # neighbours among which two tables are mutual ones
    kept: int = 80  # neighbours of each table in the end


@dataclass(frozen=True, slots=True)
class SpaceSettings:
    """Sizes of the latent space."""

    columns: int = 192  # numbers a column's vector has
    whitening: float = 0.4  # 0: directions of columns count as they vary, 1: all alike
    latent: int = 128  # dimensions
    ridge: float = 0.0035  # in traces of X'X


@dataclass(frozen=True, slots=True)
class QuantizerSettings:
    """Size of the code space, and how it is learnt. None: chosen from the size of the lake."""

    levels: int | None = None
    codes: int | None = None
    rounds: int = 10  # of k-means a level

    def for_lake(self, tables: int) -> QuantizerSettings:
        """With fewer levels for a lake of very many tables, whatever part of it the fit sees.

        There the tree is what a search artifact weighs: 15 bytes a table, not 30, for some hundredths of MAP.
        """
        return replace(self, levels=9) if self.levels is None and tables > VERY_MANY else self

    def shape(self, tables: int) -> tuple[int, int]:
        """(L, K) for a lake of this size; K is at most the number of tables and fits a byte."""
        fitting = 1 << max(2, (tables // 4).bit_length() - 1)
        size = min(self.codes or min(fitting, 256), tables, 256)
        # Small lakes are told apart early; large ones gain to the last.
        return self.levels or (16 if tables < 2000 else 24), max(size, 1)


# --- all of it ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """Everything that shapes an index."""

    seed: int = 0
    names: bool = True  # whether names of columns count
    fit_columns: int = 250_000  # the fit sees all tables up to this many columns, a sample beyond
    fit_width: int = 96  # of a wider table it compares this many columns
    limits: Limits = field(default_factory=Limits)
    header: Header = "auto"  # of delimited text that no rule of the lake names
    encoding: str = ""  # the same; empty: it is found out
    exclude: tuple[str, ...] = ()  # patterns of files that are left out, besides those of the lake itself
    graph: GraphSettings = field(default_factory=GraphSettings)
    space: SpaceSettings = field(default_factory=SpaceSettings)
    quantizer: QuantizerSettings = field(default_factory=QuantizerSettings)
    smoothing: float = 1.0  # how far a table of the lake moves to the mean of its mutual neighbours
    feedback: float = 0.6  # how far a query moves to the mean of the first tables that it finds


def refuse_unknown(options: Mapping[str, object], known: type) -> None:
    """Raise `TypeError` for an option that a `TypedDict` of options does not have."""
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown option {min(unknown)}; there are {', '.join(known.__annotations__)}")
