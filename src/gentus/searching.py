"""Searching: queries in, rows of the tree out, best first; many queries are encoded as one if they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gentus.decode import Decoder
from gentus.encoder import Encoder
from gentus.evidence import F32
from gentus.features import concatenate, featurize
from gentus.table import Table
from gentus.trie import Trie

if TYPE_CHECKING:
    from gentus.generator import Generator

LEAST_BEAM = 100  # where a generator writes; the prior alone is cheap ...
LEAST_PRIOR_BEAM = 200  # ... and can look wider


@dataclass(frozen=True, slots=True)
class Moment:
    """What an index is at one moment: all of it fits together, and none of it ever changes."""

    config: dict[str, Any]
    encoder: Encoder
    base: Trie  # the snapshot
    changes: int  # how much came and went since
    decoder: Decoder  # what there is now


@dataclass(frozen=True, slots=True)
class Found:
    """A row of the tree, and its score; with a generator, also the two parts of that."""

    row: int
    score: float
    prior: float | None = None
    generator: float | None = None


def rank(
    now: Moment,
    generator: Generator | None,
    tables: Sequence[Table],
    itself: Sequence[set[int]],
    k: int,
    beam: int | None,
) -> list[list[Found]]:
    """For every query the `k` best rows, best first, and as many more as the lake has of the query itself."""
    if generator is not None:
        several = [_by_generator(now, generator, table, k, beam) for table in tables]
        return [found[: k + len(own)] for found, own in zip(several, itself, strict=True)]
    return [
        _by_prior(now, latent, k, beam, own)
        for latent, own in zip(_latents(now.encoder, tables), itself, strict=True)
    ]


def _latents(encoder: Encoder, tables: Sequence[Table]) -> list[F32]:
    if encoder.states is not None or len(tables) == 1:
        return [encoder.read(table)[1] for table in tables]
    return list(encoder.encode(concatenate([featurize(table) for table in tables])))


def _by_prior(now: Moment, latent: F32, k: int, beam: int | None, itself: set[int]) -> list[Found]:
    width, feedback = beam or max(2 * k, LEAST_PRIOR_BEAM), now.config.get("feedback", 0.0)
    rows, left = now.decoder.search_drawn(latent, width, feedback, itself)
    best = slice(k + len(itself))
    return list(map(Found, rows[best].tolist(), (1 - left[best] / 2).tolist()))


def _by_generator(now: Moment, generator: Generator, table: Table, k: int, beam: int | None) -> list[Found]:
    from gentus.answer import decode, query_inputs

    inputs = query_inputs(generator, table, *now.encoder.read(table))
    weight: float | None = now.config["generator"]["weight"]
    softmax = now.config["settings"]["generation"]["softmax"]
    width = beam or max(2 * k, LEAST_BEAM)
    (found,) = decode(generator, inputs, now.decoder.trie, now.decoder.codebooks, weight, width, softmax)
    rows = found.rows.tolist()
    if weight is None:
        return [
            Found(row, score, None, score) for row, score in zip(rows, found.scores.tolist(), strict=True)
        ]
    # Both parts on the scale of the score: 1 is the same content, and nothing to doubt.
    prior, said = 1 + found.prior / 2, weight / 2 * found.generator
    return list(map(Found, rows, (prior + said).tolist(), prior.tolist(), said.tolist()))
