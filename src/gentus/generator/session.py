"""Decoding with torch while a generator is trained, on its device; searches have `gentus.generator.saved`."""

from __future__ import annotations

import torch
from torch import Tensor

from gentus.arrays import F32, I64
from gentus.generator.model import Generator, Memory, Packing


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
    def begin(self) -> F32:
        """(Q, V) logits of the first symbol of each query."""
        if self._position:
            raise RuntimeError("a session begins once")
        return self._advance(torch.full_like(self.owner, self._generator.start))

    @torch.inference_mode()
    def step(self, parent: I64, symbols: I64) -> F32:
        """(n, V) logits after `symbols` (n,), which extend the beams `parent` (n,) of the step before."""
        generator = self._generator
        if not 0 < self._position < generator.levels + 2:
            raise RuntimeError(
                "begin first; and an identifier has no more than its codes, a suffix and the end"
            )
        beams, written = (torch.from_numpy(array).to(generator.device) for array in (parent, symbols))
        self.owner = self.owner[beams]
        self._past = [both.index_select(1, beams) for both in self._past]
        level = min(self._position - 1, generator.levels)
        codewords = generator.codewords[level, written.clamp_max(generator.codes)]
        self._prefix = self._prefix[beams] + codewords
        return self._advance(written + generator.first)

    def _advance(self, rows: Tensor) -> F32:
        generator, memory = self._generator, self._memory
        prefix = self._prefix[:, None]
        packing = Packing(self.owner, len(memory.latents))
        embedded = generator.embed(rows[:, None], prefix)
        hidden, self._past = generator.run_decoder(embedded, memory, packing, self._positions, self._past)
        logits = generator.output_logits(hidden, prefix, memory.latents[self.owner][:, None], self._position)
        self._position += 1
        found: F32 = logits[:, 0].float().cpu().numpy()
        return found
