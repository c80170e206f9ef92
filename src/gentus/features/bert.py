"""Contextual column states: the output of a BERT-family encoder at the `[COL]` token of each column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch

from gentus.arrays import F32
from gentus.errors import CheckpointError
from gentus.extras import install_extra
from gentus.features.serialize import COLUMN, Serial, Serializer, SerialSettings
from gentus.features.weights import minilm_folder
from gentus.progress import Tick
from gentus.settings import Precision
from gentus.table import Table

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MINILM = "minilm"
# Measured: on a CPU, larger batches exceed the cache of a core. A GPU needs larger ones.
BATCH_TOKENS = {"cpu": 1024, "mps": 8192, "cuda": 32768}


class BertColumns:
    """Tables in, one state per column out. `load` makes one."""

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        settings: SerialSettings | None = None,
        precision: Precision = "auto",
    ) -> None:
        if precision not in get_args(Precision):
            raise ValueError(f"precision is one of {', '.join(get_args(Precision))}, not {precision!r}")
        settings = settings or SerialSettings()
        positions = getattr(model.config, "max_position_embeddings", settings.tokens)
        longest = min(tokenizer.model_max_length, positions)
        self.serializer = Serializer.of(tokenizer, replace(settings, tokens=min(settings.tokens, longest)))
        _add_tokens(model, tokenizer, self.serializer.added)
        self._device = best_device()
        self._bfloat16 = precision == "bfloat16" or (precision == "auto" and fast_bfloat16(self._device))
        self._pad = tokenizer.pad_token_id or 0
        self._model = model.eval().to(self._device)

    @classmethod
    def load(
        cls,
        checkpoint: str = MINILM,
        settings: SerialSettings | None = None,
        precision: Precision = "auto",
        *,
        download: bool = False,
    ) -> BertColumns:
        """Make one from `"minilm"` (the installed weights package), a folder, or a model of the hub.

        A model of the hub has to be on this machine already, unless `download` allows fetching it: without
        a network, the hub's client retries for most of a minute.
        """
        model, tokenizer = _load(checkpoint, download)
        return cls(model, tokenizer, settings, precision)

    @property
    def width(self) -> int:
        """Width of a column's state."""
        return int(self._model.config.hidden_size)

    @property
    def precision(self) -> str:
        """The precision of matrix products; states are always float32."""
        return "bfloat16" if self._bfloat16 else "float32"

    def states(self, tables: Sequence[Table], tick: Tick = lambda n: None) -> list[F32]:
        """The (columns, width) states of each table, all in memory: stream a lake in chunks."""
        states = [np.empty((len(table.columns), self.width), np.float32) for table in tables]
        inputs: list[tuple[Serial, F32]] = []  # with the rows of `states` that each fills
        for table, rows in zip(tables, states, strict=True):
            first = 0
            for serial in self.serializer.windows(table):
                inputs.append((serial, rows[first : (first := first + len(serial.columns))]))
        batches = list(_batches([serial for serial, _ in inputs], BATCH_TOKENS[self._device.type]))

        def work(batch: list[int]) -> int:
            serials = [inputs[i][0] for i in batch]
            ends = np.cumsum([len(serial.columns) for serial in serials])
            for i, found in zip(batch, np.split(self._forward(serials), ends[:-1]), strict=True):
                inputs[i][1][:] = found
            return len(batch)

        # A table may have several windows; `tick` adds up to the number of tables.
        done = ticked = 0
        for count in _each(work, batches, self._device):
            done += count
            now = len(tables) * done // len(inputs)
            tick(now - ticked)
            ticked = now
        tick(len(tables) - ticked)
        return states

    @torch.inference_mode()
    def _forward(self, serials: Sequence[Serial]) -> F32:
        """(columns, width) states at all `[COL]` tokens of a batch, one input after the other."""
        lengths = np.array([len(serial.ids) for serial in serials])
        mask = np.arange(lengths.max()) < lengths[:, None]  # (B, L)
        ids = np.full(mask.shape, self._pad, np.int64)
        ids[mask] = np.concatenate([serial.ids for serial in serials])
        rows = np.repeat(np.arange(len(serials)), [len(serial.columns) for serial in serials])
        positions = np.concatenate([serial.columns for serial in serials])
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            hidden = self._model(
                input_ids=torch.from_numpy(ids).to(self._device),
                attention_mask=torch.from_numpy(mask.astype(np.int64)).to(self._device),
            ).last_hidden_state  # (B, L, width)
        picked = hidden[torch.from_numpy(rows), torch.from_numpy(positions)]
        return np.asarray(picked.float().cpu().numpy(), np.float32)


def _load(checkpoint: str, download: bool) -> tuple[Any, PreTrainedTokenizerBase]:
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise ImportError(f"BERT column states need transformers: {install_extra('train')}") from error
    source = str(minilm_folder()) if checkpoint == MINILM else checkpoint
    try:
        # Code that comes with a model is never run; without this, transformers asks on a terminal.
        options = {"local_files_only": not download, "trust_remote_code": False}
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
            model, report = AutoModel.from_pretrained(
                source,
                **options,
                use_safetensors=True,  # the other format is pickle, which can run code
                dtype=torch.float32,
                output_loading_info=True,
            )
    except Exception as error:  # transformers passes on all errors of its parts
        folder = "a folder with config.json, tokenizer.json and model.safetensors"
        raise CheckpointError(
            f"The language model {checkpoint!r} could not be loaded: give {folder}, "
            f"or fetch it while there is a network with `hf download {checkpoint}`."
            if not Path(source).exists()
            else f"The language model {checkpoint!r} could not be loaded, as it is not {folder}."
        ) from error
    # Missing weights were drawn at random; that is fine for the pooler only, which is not used.
    if model.config.is_encoder_decoder or any("pooler" not in key for key in report["missing_keys"]):
        raise CheckpointError(f"{checkpoint!r} is not an encoder of the BERT family with all its weights.")
    return model, tokenizer


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars, and no warnings about weights that a model does not use."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


@torch.no_grad()
def _add_tokens(model: Any, tokenizer: PreTrainedTokenizerBase, added: Sequence[int]) -> None:
    """Embed the tokens that are new to the checkpoint: `[COL]` as `[SEP]`, `[VAL]` as the mean of all tokens.

    Nothing is random, so that a checkpoint always gives the same states. The best of ten alternatives on 90
    tables of one lake with MiniLM: of 825 columns cut in halves, 53% find their other half. Both as `[SEP]`:
    45%; both as the mean: 39%; `[COL]` as `[CLS]`: under 10%.
    """
    if not added:
        return
    known = model.get_input_embeddings().weight
    mean = known.mean(0)
    column = mean if tokenizer.sep_token_id is None else known[tokenizer.sep_token_id].clone()
    if len(tokenizer) > len(known):
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    embeddings = model.get_input_embeddings().weight
    column_id = tokenizer.convert_tokens_to_ids(COLUMN)
    for token in added:
        embeddings[token] = column if token == column_id else mean


def _batches(serials: Sequence[Serial], tokens: int) -> Iterator[list[int]]:
    """Positions of inputs of similar length, longest first, in batches of at most `tokens`."""
    order = sorted(range(len(serials)), key=lambda i: -len(serials[i].ids))
    start = 0
    while start < len(order):
        batch = order[start : start + max(1, tokens // len(serials[order[start]].ids))]
        start += len(batch)
        yield batch


def _each(
    work: Callable[[list[int]], int], batches: Sequence[list[int]], device: torch.device
) -> Iterator[int]:
    """Work on every batch. On a CPU one thread per batch, as threads that share a batch wait for each other.

    Measured on two cores: a quarter more time.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or min(threads, len(batches)) < 2:
        yield from map(work, batches)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(work, batches)
    finally:
        torch.set_num_threads(threads)


def best_device() -> torch.device:
    """The fastest device of this machine."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def fast_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16: 1.6 times the speed with MiniLM, cosine of states 0.9999.

    Dynamic int8 was measured, too, and is not offered: no faster, cosine of states 0.8, states that depend on
    the batch, and PyTorch is about to remove it.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
