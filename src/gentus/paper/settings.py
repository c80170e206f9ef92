"""The constants of the paper, and those of a laptop. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

Indexed = Literal["positives", "all"]
TableVectors = Literal["bert", "closed-form"]
Kind = Literal["semantic", "no-suffix", "random", "atomic"]  # of identifiers (Table 5)


@dataclass(frozen=True, slots=True)
class SerialSettings:
    """How much of a table is serialised (section 5.1)."""

    values: int = 24  # r_j: distinct non-empty values a column, at most
    tokens: int = 512  # of an input, all included


@dataclass(frozen=True, slots=True)
class SidSettings:
    """The residual quantizer (section 5.2)."""

    L: int = 6  # codebooks
    K: int = 64  # codewords of each; the paper has 256
    d_z: int = 64  # of the latent
    hidden: int = 256
    beta: float = 0.25
    lambda_u: float = 0.1
    tau: float = 0.1
    steps: int = 2000
    start: int = 400  # the step before which nothing is quantized; then k-means of the residuals
    rate: float = 1e-3
    batch: int = 512  # tables of a step
    anchors: int = 128  # of these, tables that come with a positive
    reset_every: int = 100  # steps after which dead codewords are reset


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """Training records (section 5.3)."""

    augmented: float = 0.8  # share of the views that are augmented
    least_rows: int = 8  # rows that an augmented view has at least
    n_neg: int = 10  # hard negatives of a query
    profile: int = 256  # tokens of a table's profile
    indexed: Indexed = "all"  # the paper's are the annotated positives


@dataclass(frozen=True, slots=True)
class T5Settings:
    """A T5 from scratch; a checkpoint has its own sizes."""

    d_kv: int = 64
    heads: int = 4
    d_ff: int = 1024
    layers: int = 2  # of the encoder, and of the decoder
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Training of the generator (section 5.4)."""

    epochs: int = 30  # passes over the annotated pairs
    minutes: float | None = None  # in place of epochs
    regression: float = 0.0  # share of the training in which the encoder learns to say z, before
    views: int = 8  # of queries a step
    positives: int = 4  # targets of a view
    indexing: int = 24  # indexing records a step
    rate: float = 1e-3
    added_rate: float = 4.0  # the identifier tokens' rate is so many times as high
    betas: tuple[float, float] = (0.9, 0.99)
    warmup: int = 50  # steps
    clip: float = 1.0  # norm of the gradient
    gamma: float = 0.2
    lambda_r: float = 0.2
    held_out: float = 0.1  # share of the queries by which the checkpoint is chosen
    most_held_out: int = 50
    save_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """All constants. These are a laptop's; `PAPER` has the paper's."""

    vectors: TableVectors = "bert"  # what table embeddings come from
    bert: str = "minilm"
    t5: str = "scratch"
    download: bool = False  # of models that are not on this machine
    identifiers: Kind = "semantic"
    encoder: SerialSettings = field(default_factory=SerialSettings)
    text: SerialSettings = field(default_factory=lambda: SerialSettings(tokens=64))  # of the generator
    sid: SidSettings = field(default_factory=SidSettings)
    records: RecordSettings = field(default_factory=RecordSettings)
    scratch: T5Settings = field(default_factory=T5Settings)
    train: TrainSettings = field(default_factory=TrainSettings)
    seed: int = 0


PAPER = PaperSettings(
    bert="bert-base-uncased",
    t5="t5-base",
    text=SerialSettings(),
    sid=SidSettings(K=256),
    records=RecordSettings(indexed="positives"),
    train=TrainSettings(rate=3e-4, added_rate=1.0, views=4, indexing=16),  # 4 x 4 + 16: batches of 32
)


def paper_settings(
    vectors: TableVectors, bert: str, t5: str, levels: int | None, codes: int | None, *, download: bool
) -> PaperSettings:
    """A laptop's settings; with a T5 that was trained before, the paper's."""
    usual = PaperSettings() if t5 == "scratch" else PAPER
    sid = replace(usual.sid, L=levels or usual.sid.L, K=codes or usual.sid.K)
    return replace(usual, vectors=vectors, bert=bert, t5=t5, sid=sid, download=download)
