"""Answering a query by prior and generator: what the generator reads of it, what the two write together."""

from __future__ import annotations

import torch

from gentus.arrays import F32
from gentus.generator.model import DecodingSession, Generator, Inputs
from gentus.identifiers.codebooks import Codebooks
from gentus.search.generate import Prior, Ranking, generate
from gentus.search.trie import Tree
from gentus.settings import Softmax
from gentus.table import Table, evenly_spaced

MOST_COLUMNS = 32  # of a wider table the generator reads so many, spread evenly


def query_inputs(generator: Generator, table: Table, hidden: F32, latent: F32) -> Inputs:
    """A query as the generator reads it."""
    if generator.settings.input == "text":
        return Inputs.of_text([generator.serializer().one(table)], latent[None])
    return Inputs.of_columns([sample_columns(hidden)], latent[None])


def sample_columns(states: F32) -> F32:
    """The states of a table, of a very wide one some."""
    return states if len(states) <= MOST_COLUMNS else states[evenly_spaced(len(states), MOST_COLUMNS)]


def decode(
    generator: Generator,
    inputs: Inputs,
    trie: Tree,
    codebooks: Codebooks,
    weight: float | None,
    beam: int,
    softmax: Softmax,
) -> list[Ranking]:
    """Write identifiers for a batch of queries, by prior and generator, or by one of them alone."""
    with torch.inference_mode():
        session = DecodingSession(generator, generator.encode(inputs))
        alone = weight is None
        prior = None if alone else Prior(inputs.latents.numpy(), codebooks.codewords)
        return generate(
            session,
            trie,
            len(inputs.latents),
            beam,
            codes=codebooks.size,
            prior=prior,
            weight=1.0 if weight is None else weight,
            softmax=softmax,
            length_normalised=alone and softmax == "vocabulary",
        )
