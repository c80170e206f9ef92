"""The paper's own system as it is measured: its settings, and how long its generator is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gentus.paper.settings import PaperSettings, TableVectors

SETTINGS = PaperSettings()  # a laptop's
MINUTES = 40.0  # of training
VECTORS: dict[str, TableVectors] = {"gentus-paper": "bert", "gentus-paper-closed": "closed-form"}  # by method


def settings_for(vectors: TableVectors, seed: int = 0) -> PaperSettings:
    """The settings with these table vectors."""
    return replace(SETTINGS, vectors=vectors, seed=seed)


def encoder_name(vectors: TableVectors) -> str:
    """What table vectors come from."""
    bert = Path(SETTINGS.bert).name
    return {"minilm": "MiniLM"}.get(bert, bert) if vectors == "bert" else "closed form"


def title(method: str, minutes: float) -> str:
    """A system as tables show it: with its table vectors and minutes of training."""
    return f"GenTUS (paper, {encoder_name(VECTORS[method])}, {minutes:g} min), labels"


def with_minutes(method: str, minutes: float) -> str:
    """A method in names of files: trained for another time, it is another system."""
    return f"{method}-{minutes:g}min" if method in VECTORS else method
