"""Ranking a query by prior and generator. No torch here."""

from __future__ import annotations

from dataclasses import replace

from gentus.arrays import F32
from gentus.identifiers.codebooks import Codebooks
from gentus.retrieval.generate import Decoding, Prior, Ranking, Scorer, generate
from gentus.retrieval.trie import Tree
from gentus.table import evenly_spaced

MOST_COLUMNS = 32  # of a wider table the generator reads so many, spread evenly


def sample_columns(states: F32) -> F32:
    """The states of a table; of a very wide one, MOST_COLUMNS of them."""
    return states if len(states) <= MOST_COLUMNS else states[evenly_spaced(len(states), MOST_COLUMNS)]


def decode(
    scorer: Scorer, latents: F32, trie: Tree, codebooks: Codebooks, decoding: Decoding
) -> list[Ranking]:
    """The best identifiers of queries with latents (Q, d); without a weight the generator ranks alone."""
    alone = decoding.weight is None
    decoding = replace(decoding, length_normalised=alone and decoding.softmax == "vocabulary")
    prior = None if alone else Prior(latents, codebooks.codewords)
    return generate(scorer, trie, len(latents), codebooks.size, decoding, prior)
