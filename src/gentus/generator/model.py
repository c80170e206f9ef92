"""The generator: a T5 that reads a query and says how likely each next symbol of an identifier is.

V = K + S + 1 symbols: K codes shared by all levels, S suffixes, and the end. What T5 reads are column states
with the query's latent before them, or the table as text. What it says is tied to the codebooks, so that it
knows from the start which codes are alike, or is plain tokens, as in the paper.

The encoder runs as transformers wrote it. The decoder's modules are called from here: one way through them
serves whole targets and single steps, and all beams of a query share its memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn import functional

from gentus.arrays import F32
from gentus.features.bert import CheckpointError
from gentus.features.serialize import Serial, Serializer, SerialSettings
from gentus.files import write_file
from gentus.settings import GeneratorSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 1
# A lone factor moves by the learning rate a step; a product with a matrix, by that times its width.
_PACE = 16.0
_FOLDER = "a folder with config.json, tokenizer.json and model.safetensors"


@dataclass(frozen=True, slots=True)
class Inputs:
    """A batch of queries, padded."""

    content: Tensor  # (B, S, w) column states, or (B, S) token ids
    mask: Tensor  # (B, S) bool: what is not padding
    latents: Tensor  # (B, d)

    @classmethod
    def of_columns(cls, states: Sequence[F32], latents: F32) -> Inputs:
        """From the (columns, w) states of each query."""
        return cls(*_pad(states), torch.from_numpy(latents).float())

    @classmethod
    def of_text(cls, serials: Sequence[Serial], latents: F32) -> Inputs:
        """From what a serializer made of each query."""
        return cls(*_pad([np.array(s.ids, np.int64) for s in serials]), torch.from_numpy(latents).float())

    def to(self, device: torch.device) -> Inputs:
        """The same on another device."""
        return Inputs(self.content.to(device), self.mask.to(device), self.latents.to(device))


@dataclass(frozen=True, slots=True)
class Memory:
    """What the decoder remembers of a batch of queries: keys and values, made once."""

    cross: list[tuple[Tensor, Tensor]]  # a layer: (B, heads, S, w / heads) each
    mask: Tensor  # (B, 1, 1, S) bool
    latents: Tensor  # (B, d)


class Generator(nn.Module):
    """`create` makes one, `load` reads one that was saved."""

    words: Tensor  # (L + 1, K + 1, d) codewords; zero for other symbols, and after the last level
    books: Tensor  # (L + 1, K, d) each level scaled to codewords of mean square length one ...
    lengths: Tensor  # (L + 1,) ... by this

    def __init__(
        self,
        settings: GeneratorSettings,
        t5: Any,
        words: Tensor,
        suffixes: int,
        states: int,
        first: int,
        start: int,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        super().__init__()
        self.settings, self.tokenizer = settings, tokenizer
        self.levels, self.codes, latent = words.shape
        self.suffixes, self.states = suffixes, states
        self.first, self.start = (
            first,
            start,
        )  # rows of T5's embedding: symbol 0, and what a target begins with
        self.t5 = t5
        width = t5.config.d_model
        words = functional.pad(words.float(), (0, 0, 0, 1, 0, 1))
        books = words[:, :-1]
        lengths = books.square().sum(2).mean(1).sqrt().clamp_min(1e-12)
        self.register_buffer("words", words, persistent=False)
        self.register_buffer("books", books / lengths[:, None, None], persistent=False)
        self.register_buffer("lengths", lengths, persistent=False)
        if settings.input == "columns":
            self.read_column = _linear(states, width, states**-0.5)
            self.read_latent = _linear(latent, width, latent**-0.5)
        if settings.output == "codebooks":
            self.read_written = _linear(latent, width, latent**-0.5)
            # All zero, so that an untrained generator has no opinion: its prior alone decides.
            self.aim = _linear(width, latent, 0)
            self.ending = _linear(width, suffixes + 1, 0)
            self.gain = nn.Parameter(torch.zeros(self.levels + 1))
            self.bias = nn.Parameter(torch.zeros(self.levels + 1, self.codes))

    # --- making, writing and reading one ---------------------------------------------------------------

    @classmethod
    def create(
        cls,
        settings: GeneratorSettings,
        words: Tensor | F32,
        suffixes: int,
        states: int = 0,
        *,
        seed: int = 0,
        sharpness: float = 0.0,
        download: bool = False,
    ) -> Generator:
        """An untrained one, for codewords (L, K, d), S suffixes and, to read columns, their width w.

        Tied to the codebooks it begins with what the latent says: logits of minus half the squared distance
        to each codeword, times `sharpness`; at 0 it has no opinion.

        A T5 of the hub has to be on this machine already, unless `download` allows fetching it.
        """
        words = torch.as_tensor(words)
        symbols = words.shape[1] + suffixes + 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if settings.checkpoint is None:
                t5, first, start = _fresh(settings, symbols), 0, symbols
                return cls(settings, t5, words, suffixes, states, first, start)._open_minded(sharpness)
            t5, tokenizer = _load_t5(settings.checkpoint, settings.dropout, download)
            first = _grow(t5, tokenizer, symbols)
            start = getattr(t5.config, "decoder_start_token_id", t5.config.pad_token_id)
            return cls(settings, t5, words, suffixes, 0, first, start, tokenizer)._open_minded(sharpness)

    @torch.no_grad()
    def _open_minded(self, sharpness: float) -> Generator:
        if self.settings.output == "codebooks":
            self.gain.copy_(sharpness * self.lengths**2 / _PACE)  # rest and codewords come scaled by lengths
        return self.eval()

    def save(self, folder: Path) -> None:
        """Write weights, settings and, to read text, the tokenizer. Nothing has to be fetched to load it.

        Weights stay float32: rounded, it would not rank as it did when it was validated.
        """
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: p.detach().cpu().contiguous() for name, p in self.named_parameters()}
        tensors["words"] = self.words[:-1, :-1].cpu().contiguous()
        about = {"format": FORMAT, "settings": asdict(self.settings), "suffixes": self.suffixes}
        about |= {"states": self.states, "first": self.first, "start": self.start}
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder)
        write_file(folder / "config.json", self.t5.config.to_json_string(use_diff=False).encode())
        write_file(folder / "generator.json", (json.dumps(about, indent=2) + "\n").encode())
        write_file(folder / "model.safetensors", to_bytes(tensors))

    @classmethod
    def load(cls, folder: Path) -> Generator:
        """The one that was saved into a folder."""
        transformers = _transformers()
        try:
            about = json.loads((folder / "generator.json").read_text("utf-8"))
            if about["format"] != FORMAT:
                raise ValueError(f"its format is {about['format']}, not {FORMAT}")
            settings = GeneratorSettings(**about["settings"])
            tensors = load_file(folder / "model.safetensors")
            t5 = transformers.T5Model(transformers.T5Config.from_json_file(folder / "config.json"))
            tokenizer = None
            if settings.input == "text":
                options = {"local_files_only": True, "trust_remote_code": False}
                tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **options)
            sizes = (about["suffixes"], about["states"], about["first"], about["start"])
            generator = cls(settings, t5, tensors.pop("words"), *sizes, tokenizer)
            if tensors.keys() != (names := dict(generator.named_parameters()).keys()):
                raise ValueError(f"it has not the weights {sorted(tensors.keys() ^ names)[:3]}")
            generator.load_state_dict(tensors, strict=False)  # T5 has one embedding under several names
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise CheckpointError(
                f"The generator in {folder} could not be loaded ({error}). Train it again."
            ) from error
        return generator.eval()

    def serializer(self, settings: SerialSettings | None = None) -> Serializer:
        """What turns tables into the text that this generator reads."""
        if self.tokenizer is None:
            raise ValueError("this generator reads column states, not text")
        return Serializer(self.tokenizer, settings)

    @property
    def symbols(self) -> int:
        """V."""
        return self.codes + self.suffixes + 1

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.words.device

    # --- running it ------------------------------------------------------------------------------------

    def encode(self, inputs: Inputs) -> Memory:
        """Read queries."""
        inputs = inputs.to(self.device)
        mask = inputs.mask
        if self.settings.input == "text":
            states = self.t5.encoder(input_ids=inputs.content, attention_mask=mask).last_hidden_state
        else:
            columns = self.read_column(_unit(inputs.content))  # (B, S, width)
            embeds = torch.cat([self.read_latent(_unit(inputs.latents))[:, None], columns], 1)
            mask = functional.pad(mask, (1, 0), value=True)
            states = self.t5.encoder(inputs_embeds=embeds, attention_mask=mask).last_hidden_state
        attentions = [block.layer[1].EncDecAttention for block in self.t5.decoder.block]
        cross = [(_heads(a.k(states), a), _heads(a.v(states), a)) for a in attentions]
        return Memory(cross, mask[:, None, None], inputs.latents)

    def score(self, memory: Memory, owner: Tensor, symbols: Tensor, valid: Tensor | None = None) -> Tensor:
        """(n, T) log-probabilities of targets (n, T), padded with -1, of the queries `owner` (n,).

        A probability is a share among the `valid` (n, T, V) symbols, or among all. It is 1 where the target
        is padding or nothing is valid.
        """
        owner, symbols = owner.to(self.device), symbols.to(self.device)
        logits = self.logits(memory, owner, symbols)
        counted = symbols >= 0
        if valid is not None:
            valid = valid.to(self.device)
            some = valid.any(2)
            counted = counted & some
            logits = logits.masked_fill(~(valid | ~some[:, :, None]), -torch.inf)
        picked = logits.log_softmax(2).gather(2, symbols.clamp_min(0)[:, :, None])[:, :, 0]
        return torch.where(counted, picked, 0.0)

    def logits(self, memory: Memory, owner: Tensor, symbols: Tensor) -> Tensor:
        """(n, T, V) logits at every place of targets, given what is before it."""
        length = symbols.shape[1]
        said = symbols.clamp_min(0)
        level = torch.arange(length, device=self.device).clamp_max(self.levels)
        words = self.words[level, said.clamp_max(self.codes)]  # (n, T, d)
        written = functional.pad(words.cumsum(1)[:, :-1], (0, 0, 1, 0))
        rows = functional.pad(said[:, :-1] + self.first, (1, 0), value=self.start)
        packing = _Packing(owner, len(memory.latents))
        hidden, _ = self._decode(self._embed(rows, written), memory, packing, self._positions(length))
        return self._say(hidden, written, memory.latents[owner][:, None], 0)

    def _embed(self, rows: Tensor, written: Tensor) -> Tensor:
        """What the decoder reads: (n, T, width), from rows of the embedding and codewords summed so far."""
        embedded: Tensor = self.t5.shared(rows)
        if self.settings.output == "codebooks":
            embedded = embedded + self.read_written(written * self.words.shape[2] ** 0.5)
        return embedded

    def _positions(self, length: int) -> Tensor:
        """(1, heads, T, T) T5's bias for how far back a place is, minus infinity for what lies ahead."""
        attention = self.t5.decoder.block[0].layer[0].SelfAttention
        place = torch.arange(length, device=self.device)
        back = place[None] - place[:, None]
        bucket = attention._relative_position_bucket(
            back,
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        bias: Tensor = attention.relative_attention_bias(bucket).permute(2, 0, 1)[None]
        return bias.masked_fill(back > 0, -torch.inf)

    def _decode(
        self,
        hidden: Tensor,
        memory: Memory,
        packing: _Packing,
        positions: Tensor,
        past: Sequence[Tensor] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """(n, T, width) states of the decoder for what it reads, and its keys and values: the next past."""
        decoder, present = self.t5.decoder, []
        length = hidden.shape[1]
        before = past[0].shape[3] if past else 0
        bias = positions[:, :, before : before + length, : before + length]
        hidden = decoder.dropout(hidden)
        for i, (block, cross) in enumerate(zip(decoder.block, memory.cross, strict=True)):
            layer, attention = block.layer[0], block.layer[0].SelfAttention
            normed = layer.layer_norm(hidden)
            both = torch.stack(
                [_heads(attention.k(normed), attention), _heads(attention.v(normed), attention)]
            )
            if past:
                both = torch.cat([past[i], both], 3)  # (2, n, heads, T, width / heads)
            present.append(both)
            told = self._attend(_heads(attention.q(normed), attention), both[0], both[1], bias)
            hidden = hidden + layer.dropout(attention.o(told.transpose(1, 2).flatten(2)))
            layer, attention = block.layer[1], block.layer[1].EncDecAttention
            asked = packing.pack(attention.q(layer.layer_norm(hidden)))  # (B, n T / B, width)
            told = self._attend(_heads(asked, attention), *cross, memory.mask)
            told = packing.unpack(told.transpose(1, 2).flatten(2), hidden)
            hidden = hidden + layer.dropout(attention.o(told))
            hidden = block.layer[2](hidden)
        return decoder.dropout(decoder.final_layer_norm(hidden)), present

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Attention without a scale, as T5 has it."""
        dropout = self.t5.config.dropout_rate if self.training else 0.0
        mask = mask if mask.dtype == torch.bool else mask.to(query.dtype)
        return functional.scaled_dot_product_attention(query, key, value, mask, dropout, scale=1.0)

    def _say(self, hidden: Tensor, written: Tensor, latents: Tensor, place: int) -> Tensor:
        """(n, T, V) logits of what may follow, for states at the places from `place` on."""
        with torch.autocast(self.device.type, enabled=False):
            hidden = hidden.float()
            if self.settings.output == "tokens":  # tied to the embedding, and scaled, as T5's own
                rows: Tensor = self.t5.shared.weight[self.first : self.first + self.symbols]
                return (hidden @ rows.T).mul(rows.shape[1] ** -0.5)
            places = torch.arange(place, place + hidden.shape[1], device=self.device)
            level = places.clamp_max(self.levels)
            books = self.books[level]  # (T, K, d)
            # Never negative, yet with a gradient everywhere: it starts at the bound.
            gain = _PACE * (self.gain + (self.gain.clamp_min(0) - self.gain).detach())[level][:, None]
            rest = (latents - written) / self.lengths[level][:, None]  # (n, T, d)
            codes = torch.einsum("ntd,tkd->ntk", gain * rest + self.aim(hidden), books)
            codes = codes - gain * books.square().sum(2) / 2 + self.bias[level]
            return torch.cat([codes, self.ending(hidden)], 2)


class DecodingSession:
    """Beams that grow a symbol at a time, all of them at once, for a batch of queries."""

    @torch.inference_mode()
    def __init__(self, generator: Generator, memory: Memory) -> None:
        self._generator, self._memory = generator, memory
        self._positions = generator._positions(generator.levels + 2)
        self._past: list[Tensor] = []
        self._place = 0
        self.owner = torch.arange(len(memory.latents), device=generator.device)  # (n,) the query of each beam
        self._written = torch.zeros_like(memory.latents)  # (n, d) sums of codewords

    @torch.inference_mode()
    def begin(self) -> Tensor:
        """(Q, V) logits of the first symbol of each query."""
        if self._place:
            raise RuntimeError("a session begins once")
        return self._advance(torch.full_like(self.owner, self._generator.start))

    @torch.inference_mode()
    def step(self, parent: Tensor, symbols: Tensor) -> Tensor:
        """(n, V) logits after `symbols` (n,), each said by a beam `parent` (n,) of the step before."""
        generator = self._generator
        if not 0 < self._place < generator.levels + 2:
            raise RuntimeError(
                "begin first; and an identifier has no more than its codes, a suffix and the end"
            )
        parent, symbols = parent.to(generator.device), symbols.to(generator.device)
        self.owner = self.owner[parent]
        self._past = [both.index_select(1, parent) for both in self._past]
        level = min(self._place - 1, generator.levels)
        words = generator.words[level, symbols.clamp_max(generator.codes)]
        self._written = self._written[parent] + words
        return self._advance(symbols + generator.first)

    def _advance(self, rows: Tensor) -> Tensor:
        generator, memory = self._generator, self._memory
        written = self._written[:, None]
        packing = _Packing(self.owner, len(memory.latents))
        embedded = generator._embed(rows[:, None], written)
        hidden, self._past = generator._decode(embedded, memory, packing, self._positions, self._past)
        logits = generator._say(hidden, written, memory.latents[self.owner][:, None], self._place)
        self._place += 1
        return logits[:, 0]


class _Packing:
    """Rows of many queries as one padded line a query, so that they share what is known of the query."""

    def __init__(self, owner: Tensor, queries: int) -> None:
        self.owner, self.queries = owner, queries
        if queries == 1:
            return
        counts = torch.bincount(owner, minlength=queries)
        order = owner.argsort(stable=True)
        self.slot = torch.empty_like(owner)  # (n,) which of its query's rows each is
        self.slot[order] = (
            torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner[order]]
        )
        self.width = int(counts.max())

    def pack(self, rows: Tensor) -> Tensor:
        """(n, T, w) -> (B, width T, w)."""
        if self.queries == 1:
            return rows.flatten(0, 1)[None]
        lines = rows.new_zeros(self.queries, self.width, *rows.shape[1:])
        lines[self.owner, self.slot] = rows
        return lines.flatten(1, 2)

    def unpack(self, lines: Tensor, like: Tensor) -> Tensor:
        """(B, width T, w) -> (n, T, w)."""
        count, length = like.shape[:2]
        if self.queries == 1:
            return lines.view(count, length, lines.shape[2])
        return lines.view(self.queries, self.width, length, lines.shape[2])[self.owner, self.slot]


def _heads(rows: Tensor, attention: Any) -> Tensor:
    """(B, S, w) -> (B, heads, S, w / heads)."""
    return rows.view(*rows.shape[:2], attention.n_heads, attention.key_value_proj_dim).transpose(1, 2)


def _linear(inner: int, outer: int, spread: float) -> nn.Linear:
    layer = nn.Linear(inner, outer, bias=False)
    nn.init.normal_(layer.weight, std=spread)
    return layer


def _unit(rows: Tensor) -> Tensor:
    """Scaled to a mean square of one, as T5's own embeddings are: encoders differ in how loud they speak."""
    return functional.rms_norm(rows, rows.shape[-1:], eps=1e-6)


def _pad(rows: Sequence[NDArray[Any]]) -> tuple[Tensor, Tensor]:
    """Rows of many lengths as one array, and where it holds some."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.zeros((*mask.shape, *rows[0].shape[1:]), rows[0].dtype)
    padded[mask] = np.concatenate(rows)
    return torch.from_numpy(padded), torch.from_numpy(mask)


# --- T5 -----------------------------------------------------------------------------------------------


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ImportError("a generator needs transformers: pip install transformers") from error
    return transformers


def _fresh(settings: GeneratorSettings, symbols: int) -> Any:
    """A T5 whose embedding holds the symbols and what a target begins with."""
    transformers = _transformers()
    return transformers.T5Model(
        transformers.T5Config(
            vocab_size=symbols + 1,
            d_model=settings.width,
            d_kv=settings.width // settings.heads,
            d_ff=settings.feedforward,
            num_layers=settings.layers,
            num_heads=settings.heads,
            dropout_rate=settings.dropout,
        )
    )


def _load_t5(checkpoint: str, dropout: float, download: bool) -> tuple[Any, PreTrainedTokenizerBase]:
    transformers = _transformers()
    logging = transformers.utils.logging
    chatter = logging.get_verbosity()
    logging.set_verbosity_error()  # the output layer is left unused, which is no news
    logging.disable_progress_bar()
    try:
        # Code that comes with a model is never run; left unsaid, a terminal would be asked.
        options = {"local_files_only": not download, "trust_remote_code": False}
        kind = transformers.AutoConfig.from_pretrained(checkpoint, **options).model_type
        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint, **options)
        t5, report = transformers.T5Model.from_pretrained(
            checkpoint,
            local_files_only=not download,
            use_safetensors=True,  # the other format is pickle, which may run anything
            dtype=torch.float32,
            dropout_rate=dropout,
            output_loading_info=True,
        )
    except Exception as error:  # transformers raises whatever its parts raise
        raise CheckpointError(
            f"The T5 {checkpoint!r} could not be loaded, as it is not {_FOLDER}."
            if Path(checkpoint).exists()
            else f"The T5 {checkpoint!r} could not be loaded: give {_FOLDER}, "
            f"or fetch it while there is a network with `hf download {checkpoint}`."
        ) from error
    finally:
        logging.set_verbosity(chatter)
    if kind != "t5" or report["missing_keys"]:  # what is missing was made up at random
        raise CheckpointError(f"{checkpoint!r} is not a T5, encoder and decoder, with all its weights.")
    return t5, tokenizer


@torch.no_grad()
def _grow(t5: Any, tokenizer: PreTrainedTokenizerBase, symbols: int) -> int:
    """Embed `[COL]`, `[VAL]` and all symbols as random words of this T5; the row of symbol 0."""
    added = Serializer(tokenizer).added
    known = t5.shared.weight
    spread, mean = torch.std_mean(known, 0)
    first = max(len(known), len(tokenizer))  # T5 has more rows than tokens, which the marks may take
    t5.resize_token_embeddings(first + symbols, mean_resizing=False)
    rows = torch.tensor([*added, *range(first, first + symbols)])
    t5.shared.weight[rows] = mean + spread * torch.randn(len(rows), len(mean))
    return first
