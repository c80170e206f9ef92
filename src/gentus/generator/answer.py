"""Ranking a query by prior and generator: its inputs, and the identifiers decoded for it."""

from __future__ import annotations

from dataclasses import replace

import torch

from gentus.arrays import F32
from gentus.generator.model import DecodingSession, Generator, Inputs
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
