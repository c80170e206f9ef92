"""A T5 whose embedding has a row for every symbol of an identifier: a new one, or one from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gentus.errors import CheckpointError
from gentus.extras import install_extra
from gentus.features.bert import quiet_transformers
from gentus.features.serialize import Serializer
from gentus.features.weights import TOKENIZER, WORDLLAMA, open_tokenizer
from gentus.settings import SCRATCH, GeneratorSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_FOLDER = "a folder with config.json, tokenizer.json and model.safetensors"


@dataclass(frozen=True, slots=True)
class SymbolT5:
    """A T5, and the rows of its embedding that stand for symbols."""

    model: Any
    first: int  # the row of symbol 0; the others follow
    start: int  # the row that every target begins with
    tokenizer: PreTrainedTokenizerBase | None = None  # where it reads text


def create_t5(settings: GeneratorSettings, symbols: int, download: bool) -> SymbolT5:
    """An untrained T5, or that of a checkpoint, with rows for the symbols."""
    if settings.checkpoint is None:
        return SymbolT5(_fresh(settings, symbols + 1), 0, symbols)
    if settings.checkpoint == SCRATCH:
        tokenizer = _word_pieces()
        t5 = _fresh(settings, len(tokenizer))
    else:
        t5, tokenizer = _load(settings.checkpoint, settings.dropout, download)
    first = _add_symbols(t5, tokenizer, symbols)
    start = getattr(t5.config, "decoder_start_token_id", t5.config.pad_token_id)
    return SymbolT5(t5, first, start, tokenizer)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ImportError(f"a generator needs transformers: {install_extra('train')}") from error
    return transformers


def _fresh(settings: GeneratorSettings, rows: int) -> Any:
    """An untrained T5 with so many rows of its embedding."""
    transformers = _transformers()
    return transformers.T5Model(
        transformers.T5Config(
            vocab_size=rows,
            d_model=settings.width,
            d_kv=settings.width // settings.heads,
            d_ff=settings.feedforward,
            num_layers=settings.layers,
            num_heads=settings.heads,
            dropout_rate=settings.dropout,
        )
    )


def _word_pieces() -> PreTrainedTokenizerBase:
    """The tokenizer of the static vectors, which every install has."""
    pieces = open_tokenizer(WORDLLAMA.file(TOKENIZER))
    made: PreTrainedTokenizerBase = _transformers().PreTrainedTokenizerFast(
        tokenizer_object=pieces, eos_token="</s>", unk_token="<unk>", pad_token="<unk>"
    )
    return made


def _load(checkpoint: str, dropout: float, download: bool) -> tuple[Any, PreTrainedTokenizerBase]:
    transformers = _transformers()
    try:
        # Code that comes with a model is never run; without this, transformers asks on a terminal.
        options = {"local_files_only": not download, "trust_remote_code": False}
        with quiet_transformers():
            kind = transformers.AutoConfig.from_pretrained(checkpoint, **options).model_type
            tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint, **options)
            t5, report = transformers.T5Model.from_pretrained(
                checkpoint,
                local_files_only=not download,
                use_safetensors=True,  # the other format is pickle, which can run code
                dtype=torch.float32,
                dropout_rate=dropout,
                output_loading_info=True,
            )
    except Exception as error:  # transformers passes on all errors of its parts
        raise CheckpointError(
            f"The T5 {checkpoint!r} could not be loaded, as it is not {_FOLDER}."
            if Path(checkpoint).exists()
            else f"The T5 {checkpoint!r} could not be loaded: give {_FOLDER}, "
            f"or fetch it while there is a network with `hf download {checkpoint}`."
        ) from error
    if kind != "t5" or report["missing_keys"]:  # missing weights were drawn at random
        raise CheckpointError(f"{checkpoint!r} is not a T5, encoder and decoder, with all its weights.")
    return t5, tokenizer


@torch.no_grad()
def _add_symbols(t5: Any, tokenizer: PreTrainedTokenizerBase, symbols: int) -> int:
    """Add rows for `[COL]`, `[VAL]` and all symbols, drawn like the others; returns the row of symbol 0."""
    added = Serializer.of(tokenizer).added
    known = t5.shared.weight
    spread, mean = torch.std_mean(known, 0)
    first = max(len(known), len(tokenizer))  # T5 has more rows than tokens; `[COL]` and `[VAL]` may take some
    t5.resize_token_embeddings(first + symbols, mean_resizing=False)
    rows = torch.tensor([*added, *range(first, first + symbols)])
    t5.shared.weight[rows] = mean + spread * torch.randn(len(rows), len(mean))
    return first
