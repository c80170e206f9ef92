"""Language models: BERT's family and T5, from a folder or the hub, or a T5 from scratch. Safetensors only.

Code that comes with a model is never run. The T5 from scratch has wordllama's token vectors, which every
install has, frozen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from gentus.errors import CheckpointError
from gentus.extras import install_extra
from gentus.features.weights import load_tokenizer, load_vectors, minilm_folder
from gentus.paper.settings import T5Settings
from gentus.paper.t5 import T5, Shape

MINILM, SCRATCH = "minilm", "scratch"
_FOLDER = "a folder with config.json, tokenizer.json and model.safetensors"


class Bert(NamedTuple):
    """LM_η: an encoder of BERT's family and its tokenizer, which [COL] and [VAL] were added to."""

    model: Any
    pieces: Tokenizer
    cls: int
    col: int
    val: int
    width: int
    tokens: int  # that it can read
    pad: int


class BaseT5(NamedTuple):
    """G_θ^(0): a T5, its token embeddings and its tokenizer."""

    t5: T5
    text: Tensor  # (V, d)
    pieces: Tokenizer
    start: int
    eos: int
    frozen: bool  # the token embeddings do not learn


def load_bert(checkpoint: str, *, download: bool = False) -> Bert:
    """BERT, MiniLM or a relative, frozen. `minilm` is the one that the package of its weights has."""
    source = str(minilm_folder()) if checkpoint == MINILM else checkpoint
    model, tokenizer, missing = _load("AutoModel", source, checkpoint, download)
    # Missing weights were drawn at random; that is fine for the pooler only, which is not used.
    if model.config.is_encoder_decoder or any("pooler" not in key for key in missing):
        raise CheckpointError(f"{checkpoint!r} is not an encoder of the BERT family with all its weights.")
    if tokenizer.cls_token_id is None:
        raise CheckpointError(f"The tokenizer of {checkpoint!r} has no [CLS] token.")
    col, val = len(tokenizer), len(tokenizer) + 1
    known = model.get_input_embeddings().weight
    sep = known.mean(0) if tokenizer.sep_token_id is None else known[tokenizer.sep_token_id].clone()
    rows = torch.stack([sep, known.mean(0)]).detach()
    model.resize_token_embeddings(max(len(known), val + 1), mean_resizing=False)
    with torch.no_grad():  # nothing is random: a checkpoint always gives the same states
        model.get_input_embeddings().weight[[col, val]] = rows
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 512))
    pieces = _pieces(tokenizer)
    first, pad = tokenizer.cls_token_id, tokenizer.pad_token_id or 0
    return Bert(model.eval(), pieces, first, col, val, int(model.config.hidden_size), longest, pad)


def load_t5(checkpoint: str, *, download: bool = False, dropout: float = 0.0) -> BaseT5:
    """A T5 with its weights, such as `t5-base`, whose output layer is tied to its embedding."""
    model, tokenizer, missing = _load("T5Model", checkpoint, checkpoint, download)
    config = model.config
    if config.model_type != "t5" or missing or not getattr(config, "tie_word_embeddings", True):
        raise CheckpointError(f"{checkpoint!r} is not a T5 with tied embeddings and all its weights.")
    shape = Shape(
        config.d_model, config.d_kv, config.num_heads, config.d_ff, config.num_layers,
        config.num_decoder_layers, dropout, config.is_gated_act,
    )  # fmt: skip
    t5 = T5(shape)
    weights = {_our_name(name): value for name, value in model.state_dict().items()}
    text = weights.pop("shared")
    for name in [name for name in weights if name.endswith("embed_tokens")]:
        del weights[name]
    for name in weights:
        if name.endswith(".q.weight"):  # our attention divides by the root of the head's width
            weights[name] = weights[name] * shape.d_kv**0.5
    t5.load_state_dict(weights)
    start = config.decoder_start_token_id
    start = config.pad_token_id if start is None else start
    return BaseT5(t5, text.clone(), _pieces(tokenizer), start, tokenizer.eos_token_id, frozen=False)


def create_t5(settings: T5Settings) -> BaseT5:
    """A T5 from scratch, whose token embeddings are wordllama's, centred and of unit variance."""
    vectors = wordllama_vectors()
    shape = Shape(
        vectors.shape[1], settings.d_kv, settings.heads, settings.d_ff, settings.layers, settings.layers,
        settings.dropout,
    )  # fmt: skip
    pieces = load_tokenizer()
    start, eos = (int(pieces.token_to_id(token) or 0) for token in ("<unk>", "</s>"))
    return BaseT5(T5(shape), vectors, pieces, start, eos, frozen=True)


def wordllama_vectors() -> Tensor:
    """(V, d) token vectors, centred and of unit variance."""
    vectors = np.asarray(load_vectors(), np.float32)
    vectors = vectors - vectors.mean(0)
    return torch.from_numpy(vectors / vectors.std(0))


# --- loading -----------------------------------------------------------------------------------------


def _load(kind: str, source: str, checkpoint: str, download: bool) -> tuple[Any, Any, list[str]]:
    """A model, its fast tokenizer, and the names of weights that were not there."""
    try:
        import transformers
    except ImportError as error:
        raise ImportError(f"a language model needs transformers: {install_extra('train')}") from error
    # Without these, transformers asks on a terminal whether to run code, or reads pickles, which can run it.
    options: dict[str, Any] = {"local_files_only": not download, "trust_remote_code": False}
    try:
        with _quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
            if kind == "T5Model":  # it takes no word about code, and has none to run
                del options["trust_remote_code"]
            model, report = getattr(transformers, kind).from_pretrained(
                source, **options, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
    except Exception as error:  # transformers passes on all errors of its parts
        how = f"give {_FOLDER}, or let it be downloaded"
        what = f"as it is not {_FOLDER}" if Path(source).exists() else how
        raise CheckpointError(f"The language model {checkpoint!r} could not be loaded: {what}.") from error
    if not isinstance(getattr(tokenizer, "backend_tokenizer", None), Tokenizer):
        raise CheckpointError(f"{checkpoint!r} has no fast tokenizer (tokenizer.json).")
    return model, tokenizer, list(report["missing_keys"])


def _pieces(tokenizer: Any) -> Tokenizer:
    """A copy of the tokenizer for whole values, to which a cell that says "[SEP]" is ordinary text."""
    pieces = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    pieces.no_padding()
    pieces.no_truncation()
    pieces.encode_special_tokens = True
    return pieces


_NAMES = (
    (r"^shared\.weight$", "shared"),
    (r"\.embed_tokens\.weight$", ".embed_tokens"),
    (r"\.block\.(\d+)\.layer\.\d+\.", r".\1."),
    (r"\.SelfAttention\.relative_attention_bias", ".itself.positions"),
    (r"\.SelfAttention\.", ".itself."),
    (r"\.EncDecAttention\.", ".cross."),
    (r"\.DenseReluDense\.wi_0\.", ".feed.gate."),
    (r"\.DenseReluDense\.wi_1\.", ".feed.wi."),
    (r"\.DenseReluDense\.", ".feed."),
    (r"^(encoder|decoder)\.final_layer_norm", r"\1_norm"),
)


def _our_name(name: str) -> str:
    """The name of one of T5's weights in `T5`."""
    norms = (
        ("itself_norm", "cross_norm", "feed_norm")
        if name.startswith("decoder")
        else ("itself_norm", "feed_norm")
    )
    if found := re.fullmatch(r"(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.layer_norm\.weight", name):
        return f"{found[1]}.{found[2]}.{norms[int(found[3])]}.weight"
    for pattern, ours in _NAMES:
        name = re.sub(pattern, ours, name)
    return name


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars, and no warnings about weights that a model does not use."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def best_device() -> torch.device:
    """The fastest device of this machine."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def fast_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16: 1.6 times the speed with MiniLM, cosine of states 0.9999."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
