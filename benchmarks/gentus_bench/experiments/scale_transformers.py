"""Constrained generation by transformers, beside ours with the same weights.

transformers' `generate()` calls a `prefix_allowed_tokens_fn` for every beam at every step; it looks up, in a
trie of Python dicts or of the library marisa-trie, what may follow. Both are written here as they are
commonly written. Each trie is measured in a process of its own, with bounds on its memory and time.

Beside both goes our search without labels, which needs no T5; and how long T5's arithmetic alone would take,
at the best rate of the machine: no search with the same T5 and beams can be faster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from gentus.extras import install_extra
from gentus.generator.model import Generator, Inputs
from gentus.retrieval.beam import Decoder
from gentus.retrieval.trie import Trie
from gentus.settings import Softmax
from gentus_bench.experiments.roofline import peak_flops
from gentus_bench.experiments.scale_decoding import (
    PROFILED,
    comparable_generator,
    made_up_inputs,
    profile,
    torch_threads,
    write_alone,
)
from gentus_bench.experiments.scale_trees import TreeFolder
from gentus_bench.processes import in_process, resident_bytes
from gentus_bench.timer import Facts, Function, Profile, conditions, in_turn, medians

SOFTMAXES: tuple[Softmax, ...] = ("children", "vocabulary")
_BLOCK = 10_000  # identifiers between two looks at memory
_LOST = -1e8  # scores below are of beams that stand for nothing


class TooLargeError(Exception):
    """A trie that does not fit into the memory it may have."""


class TokenTrie(Protocol):
    """What `prefix_allowed_tokens_fn` asks."""

    @property
    def nbytes(self) -> int | None:
        """Its size once it is built, where it is known."""
        ...

    def following(self, prefix: list[int]) -> list[int]:
        """The symbols that may follow those written so far; none where the prefix is no identifier's."""
        ...


class DictTrie:
    """Dicts in dicts."""

    nbytes = None

    def __init__(self, identifiers: Iterator[list[int]]) -> None:
        self.root: dict[int, Any] = {}
        for identifier in identifiers:
            node = self.root
            for symbol in identifier:
                node = node.setdefault(symbol, {})

    def following(self, prefix: list[int]) -> list[int]:
        """The symbols that may follow those written so far; none where the prefix is no identifier's."""
        node = self.root
        for symbol in prefix:
            if symbol not in node:
                return []
            node = node[symbol]
        return list(node)


class MarisaTrie:
    """Identifiers as strings of characters in a succinct trie, which finds all that begin with a prefix."""

    def __init__(self, identifiers: Iterator[list[int]]) -> None:
        try:
            import marisa_trie
        except ImportError as error:
            raise ImportError(f"this trie comes with: {install_extra('bench')}") from error
        self.trie = marisa_trie.Trie("".join(map(_character, symbols)) for symbols in identifiers)
        self.first = sorted(
            {_symbol(key[0]) for key in self.trie.iterkeys()}
        )  # else it would list all, often

    @property
    def nbytes(self) -> int:
        """Its size once it is built."""
        return len(self.trie.tobytes())

    def following(self, prefix: list[int]) -> list[int]:
        """The symbols that may follow those written so far; none where the prefix is no identifier's."""
        if not prefix:
            return self.first
        key = "".join(map(_character, prefix))
        return list(
            {_symbol(longer[len(key)]) for longer in self.trie.iterkeys(key) if len(longer) > len(key)}
        )


def _character(symbol: int) -> str:
    return chr(symbol + 1)  # a string of C ends at 0


def _symbol(character: str) -> int:
    return ord(character) - 1


MAKERS: dict[str, Callable[[Iterator[list[int]]], TokenTrie]] = {"dict": DictTrie, "marisa": MarisaTrie}


def identifiers(tree: Trie, codes: int, suffixes: int, most_bytes: float = np.inf) -> Iterator[list[int]]:
    """The symbols of every row of a tree: codes, suffix if there is one, end. Stops where memory does."""
    end = codes + suffixes
    for begin in range(0, len(tree), _BLOCK):
        if (used := resident_bytes()) > most_bytes:
            raise TooLargeError(f"{used / 1e9:.1f} GB taken by the first {begin:,} identifiers")
        rows = np.arange(begin, min(begin + _BLOCK, len(tree)))
        for written, suffix in zip(tree.codes_of(rows).tolist(), tree.suffix(rows).tolist(), strict=True):
            if suffix:
                written.append(codes + min(suffix, suffixes) - 1)  # as for ours, the last symbol is shared
            written.append(end)
            yield written


class TransformersSearch:
    """A generator's weights in transformers' own T5, held to a trie by `prefix_allowed_tokens_fn`."""

    def __init__(self, generator: Generator, trie: TokenTrie) -> None:
        from transformers import T5ForConditionalGeneration

        self.generator, self.trie = generator, trie
        self.t5: Any = T5ForConditionalGeneration(generator.t5.config)
        self.t5.eval()
        self.t5.load_state_dict(generator.t5.state_dict(), strict=False)
        # What a target begins with is no symbol that can be said.
        self.t5.lm_head = nn.Linear(generator.t5.config.d_model, generator.symbols, bias=False)
        self.t5.lm_head.weight.data = generator.t5.shared.weight[: generator.symbols].detach()

    def search(self, read: dict[str, Any], beam: int, softmax: Softmax) -> list[tuple[list[int], float]]:
        """Identifiers and their scores, best first, for what T5's encoder is to read."""
        generator = self.generator
        end = generator.symbols - 1

        def allowed(_: int, said: torch.Tensor) -> list[int]:
            # Beams that ended, or never began, are looked up too.
            return self.trie.following(said.tolist()[1:]) or [end]

        found = self.t5.generate(
            **read,
            prefix_allowed_tokens_fn=allowed,
            renormalize_logits=softmax == "children",
            length_penalty=0.0 if softmax == "children" else 1.0,
            early_stopping="never",  # as a beam search is in books
            num_beams=beam,
            num_return_sequences=beam,
            max_new_tokens=generator.levels + 2,
            do_sample=False,
            decoder_start_token_id=generator.start,
            pad_token_id=generator.start,
            eos_token_id=end,
            return_dict_in_generate=True,
            output_scores=True,
        )
        scored = zip(found.sequences[:, 1:].tolist(), found.sequences_scores.tolist(), strict=True)
        return [(said[: said.index(end)], score) for said, score in scored if score > _LOST]


@torch.inference_mode()
def what_t5_reads(generator: Generator, inputs: Inputs) -> dict[str, Any]:
    """What our generator gives its T5's encoder for a query."""
    caught: dict[str, Any] = {}
    hook = generator.t5.encoder.register_forward_pre_hook(
        lambda _, __, options: caught.update(options), with_kwargs=True
    )
    generator.encode(inputs)
    hook.remove()
    return {"inputs_embeds": caught["inputs_embeds"], "attention_mask": caught["attention_mask"].long()}


# --- measuring -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is to measure."""

    folder: str  # of the trees
    size: int
    trie: str
    suffixes: int
    beam: int
    queries: int
    threads: tuple[int, ...]
    most_bytes: float


def measure_transformers(task: Task, seconds: float) -> dict[str, Any]:
    """Ours beside transformers over one kind of trie, or why it did not run."""
    module = "gentus_bench.experiments.scale_transformers"
    try:
        return in_process(module, json.dumps(asdict(task)), seconds=seconds)
    except subprocess.TimeoutExpired:
        return {"did_not_run": f"not done within {seconds:g} s"}


def _measure(task: Task) -> dict[str, Any]:
    trees = TreeFolder(Path(task.folder))
    codebooks, tree = trees.codebooks(), Trie.load(trees.tree(task.size))
    generator = comparable_generator(codebooks, task.suffixes)
    latents = trees.queries()[: task.queries]
    inputs = made_up_inputs(latents)
    read = [what_t5_reads(generator, one) for one in inputs]
    MAKERS[task.trie](iter([[0]]))  # whatever it has to import is not the trie's
    before, started = resident_bytes(), time.perf_counter()
    try:
        trie = MAKERS[task.trie](identifiers(tree, codebooks.size, task.suffixes, task.most_bytes))
    except (TooLargeError, MemoryError) as error:
        return {"did_not_run": str(error) or "out of memory"}
    built, taken = time.perf_counter() - started, resident_bytes() - before
    transformers, decoder = TransformersSearch(generator, trie), Decoder(tree, codebooks)

    def ours(softmax: Softmax) -> Callable[[int], object]:
        return lambda at: write_alone(generator, inputs[at], tree, codebooks, task.beam, softmax)

    def theirs(softmax: Softmax) -> Callable[[int], object]:
        return lambda at: transformers.search(read[at], task.beam, softmax)

    queries, some = range(len(inputs)), range(min(len(inputs), PROFILED))
    ways = {f"ours {softmax}": ours(softmax) for softmax in SOFTMAXES}
    ways |= {f"transformers {softmax}": theirs(softmax) for softmax in SOFTMAXES}
    ways["search"] = lambda at: decoder.search(latents[at], task.beam)
    runs = {}
    for count in task.threads:
        with torch_threads(count):
            times = in_turn(ways, queries)
            parts = medians(
                {"ours": profile(ours("children"), type(tree)), "transformers": _profile(theirs("children"))},
                some,
            )
        runs[str(count)] = {"times": {way: clock.facts() for way, clock in times.items()}, **parts}
    return {
        "timing": conditions(),
        "queries": len(inputs),
        "build_seconds": built,
        "bytes_per_table": (trie.nbytes or taken) / task.size,
        "memory_bytes_per_table": taken / task.size,
        "least_ms": 1000 * float(np.median([_flops(ours("children"), at) for at in some])) / peak_flops(),
        "threads": runs,
    }


def _flops(work: Callable[[int], object], query: int) -> int:
    """FLOPs of the matrix products that torch computes."""
    with FlopCounterMode(display=False) as counter:
        work(query)
    return int(counter.get_total_flops())


def _profile(work: Callable[[int], object]) -> Callable[[int], Facts]:
    """Milliseconds that transformers spends in T5, and in walking the trie and masking logits."""
    from transformers import T5ForConditionalGeneration
    from transformers.generation.logits_process import PrefixConstrainedLogitsProcessor

    functions: list[Function] = [
        ("generator", T5ForConditionalGeneration, "forward"),
        ("constraint", PrefixConstrainedLogitsProcessor, "__call__"),
    ]

    def one(query: int) -> Facts:
        watch = Profile()
        watch.run(functions, lambda: work(query))
        return {"ms": watch.milliseconds(), "steps": watch.calls["generator"]}

    return one


if __name__ == "__main__":
    print(json.dumps(_measure(Task(**json.loads(sys.argv[1])))))
