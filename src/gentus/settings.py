"""Settings: everything that shapes an index, and the presets. No torch here.

The latent space has a closed form, by `graph`, `space`, `smoothing` and `feedback`; or, with labels, a
network learns it (`network`), which the generator reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from gentus.table import Header, Limits

Preset = Literal["fast", "trained", "paper"]
Variant = Literal["semantic", "ordinary", "random", "atomic", "no-suffix"]  # of identifiers
Softmax = Literal["children", "vocabulary"]
Input = Literal["columns", "text"]
Output = Literal["codebooks", "tokens"]
Precision = Literal["auto", "float32", "bfloat16"]
VERY_MANY = 2_000_000  # tables
SCRATCH = "scratch"  # in place of a checkpoint: a small untrained T5


# --- without labels ----------------------------------------------------------------------------------


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
    # With labels, codes are learnt together with the network first.
    commitment: float = 0.25  # beta
    union_weight: float = 0.1  # lambda_u, where labels alone shape the identifiers
    steps: int | None = None
    rate: float = 5e-4
    reset_every: int = 50  # steps after which dead codewords are reset

    def for_lake(self, tables: int) -> QuantizerSettings:
        """With fewer levels for a lake of very many tables, whatever part of it the fit sees.

        There the tree is what a search artifact weighs: 15 bytes a table, not 30, for some hundredths of MAP.
        """
        return replace(self, levels=9) if self.levels is None and tables > VERY_MANY else self

    def training_steps(self, tables: int) -> int:
        """How many steps of learning together."""
        return self.steps if self.steps is not None else 150 if tables < 2000 else 300

    def shape(self, tables: int) -> tuple[int, int]:
        """(L, K) for a lake of this size; K is at most the number of tables and fits a byte."""
        fitting = 1 << max(2, (tables // 4).bit_length() - 1)
        size = min(self.codes or min(fitting, 256), tables, 256)
        # Small lakes are told apart early; large ones gain to the last.
        return self.levels or (16 if tables < 2000 else 24), max(size, 1)


# --- with labels -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TeacherSettings:
    """How many candidates the pair scorer compares with each table."""

    candidates: int = 200  # tables judged by column matching, for each anchor ...
    candidates_in_large_lakes: int = 100  # ... and where that would take many minutes
    large: int = 20_000  # tables

    def width(self, tables: int) -> int:
        """How many candidates each anchor of a lake gets."""
        most = self.candidates if tables <= self.large else self.candidates_in_large_lakes
        return min(most, tables - 1)


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """Sizes of the network."""

    hidden: int = 256
    heads: int = 8
    embedding: int = 256
    latent: int = 64
    positions: int = 0  # column positions that are distinguished; 0: positions do not count
    inputs: int = 0  # numbers that come in for a column, its position left out; the fit sets it


@dataclass(frozen=True, slots=True)
class LatentSettings:
    """How the latent space is learnt."""

    basis: int = 256  # principal directions of the evidence that learning works in
    seeds: int = 32  # anchors a batch (twice as many from 2,000 tables on) ...
    per_seed: int = 10  # ... and neighbours drawn for each
    positives: int = 6  # for an annotated anchor, so many of its positives ...
    hard_negatives: int = 6  # ... and of its neighbours
    neighbours: int = 50  # of the scored candidates, the best this many count
    rate: float = 2e-3
    temperature: float = 0.1
    teacher_temperature: float = 0.2  # in standard deviations of the pair scores
    large: int = 2000  # tables; more of them need larger batches
    fewest_steps: int = 500
    most_steps: int = 2000

    def anchors(self, tables: int) -> int:
        """Larger lakes need more tables beside each other to be told apart."""
        return min(self.seeds if tables < self.large else 2 * self.seeds, tables)

    def steps(self, tables: int, label_supervised: bool) -> int:
        """More tables need more steps; where labels supervise, more would overfit."""
        steps = int(np.clip(tables // 8, self.fewest_steps, self.most_steps))
        return min(2 * steps, self.most_steps) if label_supervised else 4 * steps


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """What becomes a record."""

    views: int = 2  # augmented views of a query, beside the query itself
    least_rows: float = 0.5  # a view keeps a share of the cells, drawn between this and 1 ...
    least_columns: float = 0.7  # ... and a share of the columns, in any order
    negatives: int = 8  # hard negatives mined for a query
    tokens: int = 128  # words in the profile by which they are mined
    index: Literal["positives", "all", "none"] = "positives"  # tables that get an indexing record

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if not (0 < self.least_rows <= 1 and 0 < self.least_columns <= 1):
            raise ValueError("the least share of rows and of columns lies above 0, up to 1")
        if min(self.views, self.negatives) < 0 or self.tokens < 1:
            raise ValueError("views and negatives are at least 0, tokens at least 1")


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """What a generator reads, what it says, and how large it is. A checkpoint has sizes of its own."""

    input: Input = "columns"
    output: Output = "codebooks"
    width: int = 128
    layers: int = 2  # of the encoder, and as many of the decoder
    heads: int = 4
    feedforward: int = 256
    dropout: float = 0.1
    checkpoint: str | None = None  # to read text: a T5 of the hub or in a folder, or `SCRATCH`

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if self.input not in get_args(Input) or self.output not in get_args(Output):
            raise ValueError("input is columns or text, output is codebooks or tokens")
        if (self.input == "text") != (self.checkpoint is not None):
            raise ValueError("text needs a checkpoint, the T5 that can read it; columns need none")
        if min(self.width, self.layers, self.heads, self.feedforward) < 1 or self.width % self.heads:
            raise ValueError("sizes are at least 1, and the width is a multiple of the heads")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How a generator is trained."""

    epochs: int = 30  # at most
    rate: float = 3e-4
    accumulate: int = 1  # batches a step
    margin: float = 0.2  # by which a positive is to score above a hard negative
    margin_weight: float = 0.2
    patience: int = 3  # epochs without a better one after which to stop
    seed: int = 0
    precision: Precision = "auto"
    clip: float = 1.0  # longest gradient
    warmup: float = 0.05  # share of the steps in which the rate rises
    checkpoint_seconds: float = 60

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision is one of {', '.join(get_args(Precision))}, not {self.precision!r}")
        if min(self.epochs, self.accumulate, self.patience) < 1 or not 0 <= self.warmup < 1:
            raise ValueError("epochs, accumulate and patience are at least 1, warmup from 0 up to 1")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Whether there is a generator, what it is, and how it is taught."""

    model: GeneratorSettings = field(default_factory=GeneratorSettings)
    training: TrainingSettings = field(default_factory=lambda: TrainingSettings(epochs=8, rate=1e-3))
    records: RecordSettings = field(default_factory=RecordSettings)
    softmax: Softmax = "children"
    batch: int = 256  # records
    most_records: int | None = 16_000  # of annotated pairs an epoch; the next one goes on with others
    affinity_targets: int = 40_000  # drawn by affinity per epoch, about; 0: only records
    depth: int | None = 6  # symbols of an identifier to learn, the last ones mostly have no choice
    beam: int = 100
    always: bool = False  # ship the generator even if the prior alone wins, to look at it


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
    identifiers: Variant = "semantic"
    # With labels.
    network: bool = False  # whether a network learns the latent space; else it has a closed form
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    bert: str | None = None  # a BERT-family checkpoint that reads the columns; None: the hybrid encoder
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    latent: LatentSettings = field(default_factory=LatentSettings)
    teacher_weight: float = 1.0  # 0: labels alone shape the identifiers, as in the paper
    generation: GenerationSettings | None = None  # None: no generator, the prior ranks
    download: bool = False  # whether checkpoints may be fetched from the hub


def needs_network(settings: BuildSettings) -> bool:
    """Whether labels are learnt from by a network, for which torch is needed."""
    others = settings.bert is not None or settings.generation is not None or not settings.teacher_weight
    return settings.network or others


def preset_settings(preset: Preset, seed: int = 0, t5: str | None = None) -> BuildSettings:
    """`fast` learns at most a ranking; `trained` a network and a generator; `paper` is the paper's system."""
    if preset == "fast":
        return BuildSettings(seed=seed)
    if preset == "trained":
        model = GeneratorSettings() if t5 is None else GeneratorSettings("text", "tokens", checkpoint=t5)
        return BuildSettings(seed=seed, network=True, generation=GenerationSettings(model))
    if preset == "paper":
        return BuildSettings(
            seed=seed,
            network=True,
            bert="google-bert/bert-base-uncased",
            quantizer=QuantizerSettings(levels=6, codes=256, union_weight=0.1),
            teacher_weight=0.0,
            generation=GenerationSettings(
                model=GeneratorSettings(input="text", output="tokens", checkpoint=t5 or "google-t5/t5-base"),
                training=TrainingSettings(epochs=30, rate=3e-4, margin=0.2, margin_weight=0.2, patience=30),
                softmax="vocabulary",
                batch=32,
                most_records=None,
                affinity_targets=0,
            ),
        )
    raise ValueError(f"there is no preset {preset}; there are {', '.join(get_args(Preset))}")


def refuse_unknown(options: Mapping[str, object], known: type) -> None:
    """Raise `TypeError` for an option that a `TypedDict` of options does not have."""
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown option {min(unknown)}; there are {', '.join(known.__annotations__)}")
