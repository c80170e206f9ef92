"""What training the paper's T5 on the labels of an index would need: parameters, memory, FLOPs and hours.

Nothing is trained. Records are counted as training makes them, their tokens are those of a sample of tables,
and the rate is that of one layer of the width of T5-base, forward and backward, on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import gentus
from gentus.features.serialize import Serializer
from gentus.index.index import Index
from gentus.index.inspect_records import inspect
from gentus.settings import SCRATCH, GeneratorSettings, preset_settings
from gentus.table import evenly_spaced
from gentus_bench.experiment import Request
from gentus_bench.results import Document
from gentus_bench.table import Table

SAMPLE = 100  # tables whose tokens are counted
TRAINING = 3  # a backward pass costs two forward passes
BYTES = 16  # per parameter in training: weight, gradient and two moments of AdamW, float32
GPU = 100e12  # FLOPs per second that a GPU of 312 TFLOPS (bfloat16) may reach in training


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a T5."""

    width: int
    layers: int
    feedforward: int
    vocabulary: int

    @property
    def encoder(self) -> int:
        """Parameters of the encoder's layers."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.feedforward)

    @property
    def decoder(self) -> int:
        """Parameters of the decoder's layers."""
        return self.layers * (8 * self.width**2 + 2 * self.width * self.feedforward)

    @property
    def parameters(self) -> int:
        """All, but for norms and biases of positions."""
        return self.vocabulary * self.width + self.encoder + self.decoder

    def flops(self, read: float, written: float, symbols: int) -> float:
        """Of training on one record that reads and writes so many tokens."""
        products = self.encoder * read + self.decoder * written + self.width * symbols * written
        attention = 2 * self.layers * self.width * (read**2 + written**2 + read * written)
        return 2 * TRAINING * (products + attention)


BASE = Shape(768, 12, 3072, 32128)


def run(request: Request, options: object) -> Iterator[Document]:
    """An index with labels."""
    index = request.index()
    what = {"index": index.resolve().name}
    yield request.results.measured(f"t5_cost-{index.resolve().name}", what, lambda: _measure(index))


def _measure(path: object) -> Document:
    paper = preset_settings("paper").generation
    assert paper is not None
    with gentus.open(str(path)) as index:
        counted = inspect(index, show=0, settings=paper.records)["records"]
        read, tables = _tokens(index), len(index)
    records, epochs = sum(counted.values()), paper.training.epochs
    small = GeneratorSettings("text", "tokens", checkpoint=SCRATCH)
    rate = flops_per_second(BASE)
    shapes = {
        "T5-base": BASE,
        "--t5 scratch": Shape(small.width, small.layers, small.feedforward, 32_000),
    }
    symbols, written = 256 + 33, 8  # six codes, a suffix and the end
    rows = {
        name: {
            "parameters": shape.parameters,
            "gigabytes": BYTES * shape.parameters / 1e9,
            "flops_per_epoch": records * shape.flops(read, written, symbols),
            "hours": epochs * records * shape.flops(read, written, symbols) / rate / 3600,
            "gpu_hours": epochs * records * shape.flops(read, written, symbols) / GPU / 3600,
        }
        for name, shape in shapes.items()
    }
    facts = {"tables": tables, "records": counted, "tokens": read, "epochs": epochs}
    return {**facts, "flops_per_second": rate, "rows": rows}


def _tokens(index: Index) -> float:
    """Mean tokens of a table as T5 reads it, with the tokenizer that is at hand."""
    from gentus.generator.t5 import create_t5

    tokenizer = create_t5(GeneratorSettings("text", "tokens", checkpoint=SCRATCH), 1, False).tokenizer
    assert tokenizer is not None
    serializer, sources = Serializer.of(tokenizer), list(index.sources().values())
    chosen = [sources[at] for at in evenly_spaced(len(sources), SAMPLE)]
    return float(np.mean([len(serializer.one(index.read(source)).ids) for source in chosen]))


def flops_per_second(shape: Shape, tokens: int = 512, times: int = 3) -> float:
    """The rate of one encoder layer, forward and backward, per second of one thread's CPU time."""
    import torch
    from transformers import T5Config, T5EncoderModel

    layer = Shape(shape.width, 1, shape.feedforward, 2)
    config = T5Config(vocab_size=2, d_model=shape.width, d_ff=shape.feedforward, num_layers=1, num_heads=12)
    model, threads = T5EncoderModel(config), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        inputs = torch.randn(4, tokens, shape.width)
        seconds = []
        for _ in range(times + 1):
            started = time.process_time()
            model(inputs_embeds=inputs).last_hidden_state.sum().backward()
            seconds.append(time.process_time() - started)
    finally:
        torch.set_num_threads(threads)
    work = 2 * TRAINING * 4 * (layer.encoder * tokens + 2 * layer.width * tokens**2)
    return work / min(seconds[1:])


def tables(document: Document) -> list[Table]:
    """A row per size."""
    columns = ["T5", "parameters", "memory, GB", "FLOPs per epoch", "hours on one core", "hours on a GPU"]
    rows = [
        [
            *(name, f"{row['parameters'] / 1e6:.1f} M", f"{row['gigabytes']:.1f}"),
            *(f"{row['flops_per_epoch']:.1e}", f"{row['hours']:,.1f}", f"{row['gpu_hours']:,.2f}"),
        ]
        for name, row in document["rows"].items()
    ]
    records = sum(document["records"].values())
    note = (
        f"{document['tables']:,} tables, {records:,} records per epoch of {document['tokens']:.0f} tokens,"
        f" {document['epochs']} epochs; one thread here does {document['flops_per_second'] / 1e9:.0f} GFLOPs"
        f" per second of a layer of T5-base, a GPU is counted with {GPU / 1e12:.0f} TFLOPs. Memory is that of"
        " weights, gradients and moments, without activations. Hours are upper bounds: an input that several"
        " records of a batch share is encoded once."
    )
    return [Table(columns, rows, document["what"]["index"], note)]
