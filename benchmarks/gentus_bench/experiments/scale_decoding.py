"""Time of one query over trees of several sizes, and the share of the tree in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import isfunction
from typing import Any

import numpy as np
import torch

from gentus.arrays import F32
from gentus.generator.decoding import decode
from gentus.generator.model import Generator, Inputs
from gentus.generator.session import DecodingSession
from gentus.generator.supervision import SHARPNESS
from gentus.identifiers.codebooks import Codebooks
from gentus.retrieval import generate
from gentus.retrieval.beam import Decoder
from gentus.retrieval.trie import Tree, Trie
from gentus.settings import GeneratorSettings, Softmax
from gentus_bench.timer import Facts, Function, Profile, conditions, in_turn, medians

COLUMNS = 6  # of a made-up query
WIDTH = 256  # of the state of a column, as encoders have it by default
WEIGHT = 0.2  # of the generator beside the prior: what is chosen most often
BATCH = 16  # queries at once, where many wait
PROFILED = 20  # queries whose parts are timed


def made_up_inputs(latents: F32, seed: int = 0) -> list[Inputs]:
    """What a generator reads of each query: random states of columns, and the latent."""
    states = np.random.default_rng(seed).standard_normal((len(latents), COLUMNS, WIDTH), np.float32)
    return [Inputs.of_columns([own], latent[None]) for own, latent in zip(states, latents, strict=True)]


def together(several: Sequence[Inputs]) -> Inputs:
    """A batch of queries of equally many columns."""
    return Inputs(*(torch.cat([getattr(one, name) for one in several]) for name in Inputs.__slots__))


def measure_decoding(
    trees: Mapping[int, Trie],
    codebooks: Codebooks,
    latents: F32,
    beam: int,
    suffixes: int,
    threads: Sequence[int],
) -> dict[str, Any]:
    """Search without labels, and by prior and an untrained generator, in trees of all sizes in turn."""
    generator = Generator.create(GeneratorSettings(), codebooks.codewords, suffixes, WIDTH)
    generator.start_as_prior(SHARPNESS)  # so its beams go where those of a trained one would
    inputs = made_up_inputs(latents)
    batches = [together(inputs[at : at + BATCH]) for at in range(0, len(inputs) - BATCH + 1, BATCH)]

    def searching(tree: Trie) -> Callable[[int], object]:
        decoder = Decoder(tree, codebooks)
        return lambda query: decoder.search(latents[query], beam)

    decoding = generate.Decoding(beam, WEIGHT)

    def writing(tree: Trie, inputs_of: Sequence[Inputs]) -> Callable[[int], object]:
        return lambda query: torch_decode(generator, inputs_of[query], tree, codebooks, decoding)

    queries = range(len(latents))
    document: dict[str, Any] = {"timing": conditions(), "generator": {}, "queries": len(latents)}
    search = in_turn({size: searching(tree) for size, tree in trees.items()}, queries)
    document["search"] = {str(size): times.facts() for size, times in search.items()}
    for count in threads:
        with torch_threads(count):
            one = in_turn({size: writing(tree, inputs) for size, tree in trees.items()}, queries)
            many = in_turn(
                {size: writing(tree, batches) for size, tree in trees.items()}, range(len(batches))
            )
            parts = medians(
                {size: profile(writing(tree, inputs), type(tree)) for size, tree in trees.items()},
                queries[:PROFILED],
            )
        document["generator"][str(count)] = {
            str(size): {
                **one[size].facts(),
                "batch_ms_p50": many[size].facts()["ms_p50"] / BATCH if batches else None,
                "parts": parts[size],
            }
            for size in trees
        }
    return document


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch have so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- where the time goes -------------------------------------------------------------------------------


def profile(work: Callable[[int], object], tree: type[Trie]) -> Callable[[int], Facts]:
    """How long each part of constrained decoding takes of a query, and what the constraint costs.

    `tree`: calls of the prefix tree, and making symbols of what it says. `children`: picking the children's
    logits, and softmax over them. Both are the constraint's; `generator` is the decoder's own steps. Beside
    them, `reading` is the generator's encoder, once a query, and `pruning` is choosing beams, which any beam
    search does.
    """
    functions: list[Function] = [
        ("reading", Generator, "encode"),
        ("generator", DecodingSession, "begin"),
        ("generator", DecodingSession, "step"),
        ("tree", generate, "_symbols"),
        *(("tree", tree, name) for name in _methods(Tree)),
        ("children", generate, "_log_probabilities"),
        ("pruning", generate, "_best"),
    ]

    def one(query: int) -> Facts:
        watch = Profile()
        watch.run(functions, lambda: work(query))
        constraint = watch.seconds["tree"] + watch.seconds["children"]
        return {
            "ms": watch.milliseconds(),
            "steps": watch.calls["generator"],
            "constraint_ms": 1000 * constraint,
            "constraint_share": constraint / watch.seconds["generator"],
        }

    return one


def _methods(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if isfunction(value) and name[0] != "_"]


def comparable_generator(codebooks: Codebooks, suffixes: int) -> Generator:
    """One that says plain tokens, as transformers' own T5 does: the same weights can do both."""
    return Generator.create(GeneratorSettings(output="tokens"), codebooks.codewords, suffixes, WIDTH)


def write_alone(
    generator: Generator, inputs: Inputs, tree: Trie, codebooks: Codebooks, beam: int, softmax: Softmax
) -> generate.Ranking:
    """What a generator writes without a prior."""
    (found,) = torch_decode(generator, inputs, tree, codebooks, generate.Decoding(beam, None, softmax))
    return found


@torch.inference_mode()
def torch_decode(
    generator: Generator, inputs: Inputs, tree: Tree, codebooks: Codebooks, decoding: generate.Decoding
) -> list[generate.Ranking]:
    """Decode as validation does while a generator is trained: with torch, as transformers does."""
    session = DecodingSession(generator, generator.encode(inputs))
    return decode(session, inputs.latents.numpy(), tree, codebooks, decoding)
