"""Ranking a query by prior and generator: its inputs, and the identifiers decoded for it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gentus.arrays import F32
from gentus.generator.model import Generator, Inputs, Memory, Packing
from gentus.identifiers.codebooks import Codebooks
from gentus.search.generate import Decoding, Prior, Ranking, generate
from gentus.search.trie import Tree
from gentus.table import Table, evenly_spaced

MOST_COLUMNS = 32  # of a wider table the generator reads so many, spread evenly


def query_inputs(generator: Generator, table: Table, hidden: F32, latent: F32) -> Inputs:
    """A query as inputs of the generator, from its table, (C, w) column states and (d,) latent."""
    if generator.settings.input == "text":
        return Inputs.of_text([generator.serializer().one(table)], latent[None])
    return Inputs.of_columns([sample_columns(hidden)], latent[None])


def sample_columns(states: F32) -> F32:
    """The states of a table; of a very wide one, MOST_COLUMNS of them."""
    return states if len(states) <= MOST_COLUMNS else states[evenly_spaced(len(states), MOST_COLUMNS)]


class DecodingSession:
    """Extends the beams of a batch of queries by one symbol per step, with cached keys and values."""

    @torch.inference_mode()
    def __init__(self, generator: Generator, memory: Memory) -> None:
        self._generator, self._memory = generator, memory
        self._positions = generator.position_bias(generator.levels + 2)
        self._past: list[Tensor] = []
        self._position = 0
        self.owner = torch.arange(len(memory.latents), device=generator.device)  # (n,) the query of each beam
        self._prefix = torch.zeros_like(memory.latents)  # (n, d) sums of codewords

    @torch.inference_mode()
    def begin(self) -> Tensor:
        """(Q, V) logits of the first symbol of each query."""
        if self._position:
            raise RuntimeError("a session begins once")
        return self._advance(torch.full_like(self.owner, self._generator.start))

    @torch.inference_mode()
    def step(self, parent: Tensor, symbols: Tensor) -> Tensor:
        """(n, V) logits after `symbols` (n,), which extend the beams `parent` (n,) of the step before."""
        generator = self._generator
        if not 0 < self._position < generator.levels + 2:
            raise RuntimeError(
                "begin first; and an identifier has no more than its codes, a suffix and the end"
            )
        parent, symbols = parent.to(generator.device), symbols.to(generator.device)
        self.owner = self.owner[parent]
        self._past = [both.index_select(1, parent) for both in self._past]
        level = min(self._position - 1, generator.levels)
        codewords = generator.codewords[level, symbols.clamp_max(generator.codes)]
        self._prefix = self._prefix[parent] + codewords
        return self._advance(symbols + generator.first)

    def _advance(self, rows: Tensor) -> Tensor:
        generator, memory = self._generator, self._memory
        prefix = self._prefix[:, None]
        packing = Packing(self.owner, len(memory.latents))
        embedded = generator.embed(rows[:, None], prefix)
        hidden, self._past = generator.run_decoder(embedded, memory, packing, self._positions, self._past)
        logits = generator.output_logits(hidden, prefix, memory.latents[self.owner][:, None], self._position)
        self._position += 1
        return logits[:, 0]


def decode(
    generator: Generator, inputs: Inputs, trie: Tree, codebooks: Codebooks, decoding: Decoding
) -> list[Ranking]:
    """The best identifiers for a batch of queries; without a weight the generator ranks without the prior."""
    alone = decoding.weight is None
    decoding = replace(decoding, length_normalised=alone and decoding.softmax == "vocabulary")
    prior = None if alone else Prior(inputs.latents.numpy(), codebooks.codewords)
    with torch.inference_mode():
        session = DecodingSession(generator, generator.encode(inputs))
        return generate(session, trie, len(inputs.latents), codebooks.size, decoding, prior)
