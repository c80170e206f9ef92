"""The generator: a T5 that reads a query and gives logits of the next symbol of an identifier.

V = K + S + 1 symbols: K codes shared by all levels, S suffixes, and EOS. The input is column states with the
query's latent before them, or the table as text. The output is tied to the codebooks, so that similar codes
have similar logits from the start, or is plain tokens, as in the paper.

The encoder is that of transformers. The decoder's modules are called from here: one implementation serves
whole targets and single steps, and all beams of a query share its keys and values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn import functional

from gentus.arrays import F32
from gentus.features.serialize import Serial, Serializer, SerialSettings
from gentus.files import write_file
from gentus.generator.saved import FORMAT, GAIN_SCALE
from gentus.generator.t5 import SymbolT5, create_t5
from gentus.settings import GeneratorSettings


@dataclass(frozen=True, slots=True)
class Inputs:
    """A batch of queries, padded."""

    content: Tensor  # (B, S, w) column states, or (B, S) token ids
    mask: Tensor  # (B, S) bool, false where padded
    latents: Tensor  # (B, d)

    @classmethod
    def of_columns(cls, states: Sequence[F32], latents: F32) -> Inputs:
        """From the (columns, w) states of each query."""
        return cls(*_pad(states), torch.from_numpy(latents).float())

    @classmethod
    def of_text(cls, serials: Sequence[Serial], latents: F32) -> Inputs:
        """From each query as tokens."""
        return cls(*_pad([np.array(s.ids, np.int64) for s in serials]), torch.from_numpy(latents).float())

    def to(self, device: torch.device) -> Inputs:
        """The same on another device."""
        return Inputs(self.content.to(device), self.mask.to(device), self.latents.to(device))


@dataclass(frozen=True, slots=True)
class Memory:
    """Keys and values of a batch of queries for cross-attention, computed once."""

    cross: list[tuple[Tensor, Tensor]]  # per layer: (B, heads, S, w / heads) each
    mask: Tensor  # (B, 1, 1, S) bool
    latents: Tensor  # (B, d)


class Generator(nn.Module):
    """`create` makes one; what it saves, `SavedGenerator` loads."""

    codewords: Tensor  # (L + 1, K + 1, d); zero for other symbols, and after the last level
    books: Tensor  # (L + 1, K, d) each level scaled to codewords of mean square length one ...
    lengths: Tensor  # (L + 1,) ... by this

    def __init__(
        self, settings: GeneratorSettings, t5: SymbolT5, codewords: Tensor, suffixes: int, states: int
    ) -> None:
        super().__init__()
        self.settings, self.tokenizer = settings, t5.tokenizer
        self.levels, self.codes, latent = codewords.shape
        self.suffixes, self.states = suffixes, states
        self.first, self.start = t5.first, t5.start
        self.t5 = t5.model
        width = self.t5.config.d_model
        codewords = functional.pad(codewords.float(), (0, 0, 0, 1, 0, 1))
        books = codewords[:, :-1]
        lengths = books.square().sum(2).mean(1).sqrt().clamp_min(1e-12)
        self.register_buffer("codewords", codewords, persistent=False)
        self.register_buffer("books", books / lengths[:, None, None], persistent=False)
        self.register_buffer("lengths", lengths, persistent=False)
        if settings.input == "columns":
            self.read_column = _linear(states, width, states**-0.5)
            self.read_latent = _linear(latent, width, latent**-0.5)
        if settings.output == "codebooks":
            self.read_prefix = _linear(latent, width, latent**-0.5)
            # All zero, so that all symbols have the same logit before training: the prior alone ranks.
            self.to_latent = _linear(width, latent, 0)
            self.to_suffix = _linear(width, suffixes + 1, 0)
            self.gain = nn.Parameter(torch.zeros(self.levels + 1))
            self.bias = nn.Parameter(torch.zeros(self.levels + 1, self.codes))

    # --- creating, saving and loading ------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        settings: GeneratorSettings,
        codewords: Tensor | F32,
        suffixes: int,
        states: int = 0,
        *,
        seed: int = 0,
        download: bool = False,
    ) -> Generator:
        """An untrained one, for codewords (L, K, d), S suffixes and, to read columns, their width w.

        A T5 of the hub has to be on this machine already, unless `download` allows fetching it.
        """
        codewords = torch.as_tensor(codewords)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            t5 = create_t5(settings, codewords.shape[1] + suffixes + 1, download)
            states = states if settings.input == "columns" else 0
            return cls(settings, t5, codewords, suffixes, states).eval()

    @torch.no_grad()
    def start_as_prior(self, sharpness: float) -> Generator:
        """Set the logits of an untrained one to minus half the squared residual norm, times `sharpness`.

        Only where it is tied to the codebooks.
        """
        if self.settings.output == "codebooks":
            self.gain.copy_(sharpness * self.lengths**2 / GAIN_SCALE)  # residuals come divided by lengths
        return self

    def save(self, folder: Path) -> None:
        """Write weights, settings and, to read text, the tokenizer, for `SavedGenerator`.

        Weights stay float32: rounded ones would not rank as the validated ones did.
        """
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: p.detach().cpu().contiguous() for name, p in self.named_parameters()}
        tensors["codewords"] = self.codewords[:-1, :-1].cpu().contiguous()
        about = {"format": FORMAT, "settings": asdict(self.settings), "suffixes": self.suffixes}
        about |= {"states": self.states, "first": self.first, "start": self.start}
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder)
            about["ends"] = self.serializer().ends
        write_file(folder / "config.json", self.t5.config.to_json_string(use_diff=False).encode())
        write_file(folder / "generator.json", (json.dumps(about, indent=2) + "\n").encode())
        write_file(folder / "model.safetensors", to_bytes(tensors))

    def serializer(self, settings: SerialSettings | None = None) -> Serializer:
        """Turns tables into the tokens that this generator reads."""
        if self.tokenizer is None:
            raise ValueError("this generator reads column states, not text")
        return Serializer.of(self.tokenizer, settings)

    @property
    def symbols(self) -> int:
        """V."""
        return self.codes + self.suffixes + 1

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.codewords.device

    # --- forward passes --------------------------------------------------------------------------------

    def encode(self, inputs: Inputs) -> Memory:
        """Run the encoder on queries."""
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

        The softmax is over the `valid` (n, T, V) symbols, or over all. The log-probability is 0 where the
        target is padding or no symbol is valid.
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
        """(n, T, V) logits at every position of targets (n, T), given the symbols before it."""
        length = symbols.shape[1]
        symbols = symbols.clamp_min(0)
        level = torch.arange(length, device=self.device).clamp_max(self.levels)
        codewords = self.codewords[level, symbols.clamp_max(self.codes)]  # (n, T, d)
        prefix = functional.pad(codewords.cumsum(1)[:, :-1], (0, 0, 1, 0))
        rows = functional.pad(symbols[:, :-1] + self.first, (1, 0), value=self.start)
        packing = Packing(owner, len(memory.latents))
        hidden, _ = self.run_decoder(self.embed(rows, prefix), memory, packing, self.position_bias(length))
        return self.output_logits(hidden, prefix, memory.latents[owner][:, None], 0)

    def embed(self, rows: Tensor, prefix: Tensor) -> Tensor:
        """(n, T, width) decoder inputs, from rows of the embedding (n, T) and sums of codewords (n, T, d)."""
        embedded: Tensor = self.t5.shared(rows)
        if self.settings.output == "codebooks":
            embedded = embedded + self.read_prefix(prefix * self.codewords.shape[2] ** 0.5)
        return embedded

    def position_bias(self, length: int) -> Tensor:
        """(1, heads, T, T) T5's bias by relative position, minus infinity for later positions."""
        attention = self.t5.decoder.block[0].layer[0].SelfAttention
        position = torch.arange(length, device=self.device)
        back = position[None] - position[:, None]
        bucket = attention._relative_position_bucket(
            back,
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        bias: Tensor = attention.relative_attention_bias(bucket).permute(2, 0, 1)[None]
        return bias.masked_fill(back > 0, -torch.inf)

    def run_decoder(
        self,
        hidden: Tensor,
        memory: Memory,
        packing: Packing,
        positions: Tensor,
        past: Sequence[Tensor] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """(n, T, width) states of the decoder for its inputs, and the keys and values for the next step."""
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
            found = self._attend(_heads(attention.q(normed), attention), both[0], both[1], bias)
            hidden = hidden + layer.dropout(attention.o(found.transpose(1, 2).flatten(2)))
            layer, attention = block.layer[1], block.layer[1].EncDecAttention
            query = packing.pack(attention.q(layer.layer_norm(hidden)))  # (B, n T / B, width)
            found = self._attend(_heads(query, attention), *cross, memory.mask)
            found = packing.unpack(found.transpose(1, 2).flatten(2), hidden)
            hidden = hidden + layer.dropout(attention.o(found))
            hidden = block.layer[2](hidden)
        return decoder.dropout(decoder.final_layer_norm(hidden)), present

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Attention without scaling, as in T5."""
        dropout = self.t5.config.dropout_rate if self.training else 0.0
        mask = mask if mask.dtype == torch.bool else mask.to(query.dtype)
        return functional.scaled_dot_product_attention(query, key, value, mask, dropout, scale=1.0)

    def output_logits(self, hidden: Tensor, prefix: Tensor, latents: Tensor, position: int) -> Tensor:
        """(n, T, V) logits of the next symbol, for states (n, T, width) at positions from `position` on."""
        with torch.autocast(self.device.type, enabled=False):
            hidden = hidden.float()
            if self.settings.output == "tokens":  # tied to the embedding, and scaled, as in T5
                rows: Tensor = self.t5.shared.weight[self.first : self.first + self.symbols]
                return (hidden @ rows.T).mul(rows.shape[1] ** -0.5)
            positions = torch.arange(position, position + hidden.shape[1], device=self.device)
            level = positions.clamp_max(self.levels)
            books = self.books[level]  # (T, K, d)
            # Never negative, yet with a gradient everywhere: it starts at the bound.
            gain = GAIN_SCALE * (self.gain + (self.gain.clamp_min(0) - self.gain).detach())[level][:, None]
            residual = (latents - prefix) / self.lengths[level][:, None]  # (n, T, d)
            codes = torch.einsum("ntd,tkd->ntk", gain * residual + self.to_latent(hidden), books)
            codes = codes - gain * books.square().sum(2) / 2 + self.bias[level]
            return torch.cat([codes, self.to_suffix(hidden)], 2)


class Packing:
    """Rows of many queries as one padded line per query, so that they share its keys and values."""

    def __init__(self, owner: Tensor, queries: int) -> None:
        self.owner, self.queries = owner, queries
        if queries == 1:
            return
        counts = torch.bincount(owner, minlength=queries)
        order = owner.argsort(stable=True)
        self.slot = torch.empty_like(owner)  # (n,) the number of each row among those of its query
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
    """Scaled to a mean square of one, as T5's embeddings are: encoders differ in their scale."""
    return functional.rms_norm(rows, rows.shape[-1:], eps=1e-6)


def _pad(rows: Sequence[NDArray[Any]]) -> tuple[Tensor, Tensor]:
    """Arrays of different lengths as one padded array, and its mask."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.zeros((*mask.shape, *rows[0].shape[1:]), rows[0].dtype)
    padded[mask] = np.concatenate(rows)
    return torch.from_numpy(padded), torch.from_numpy(mask)
