"""Online retrieval (section 6) behind the seam of the index: Algorithm 2, and identifiers for new tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save
from tokenizers import Tokenizer

from gentus.arrays import F32, I32, U8
from gentus.embed.closed_form import ClosedForm
from gentus.features.extract import Features
from gentus.features.weights import load_tokenizer, map_tensors
from gentus.files import write_file
from gentus.identifiers.codebooks import Codebooks
from gentus.paper.checkpoints import best_device, fast_bfloat16, load_bert, wordllama_vectors
from gentus.paper.decode import beam_width, generate
from gentus.paper.encoder import ColumnStates, Encoder, Pooling
from gentus.paper.generator import Generator, Vocabulary
from gentus.paper.offline import Offline
from gentus.paper.quantizer import Quantizer
from gentus.paper.serialize import Sentence, Serializer
from gentus.paper.settings import PaperSettings
from gentus.paper.t5 import T5, Shape
from gentus.retrieval.beam import Decoder
from gentus.retrieval.retriever import Encode, RankedRow, Retriever
from gentus.retrieval.trie import Tree
from gentus.table import Table

Vectors = Callable[[Sequence[Table], Features], F32]  # (N, D) table embeddings


@dataclass(frozen=True, slots=True)
class PaperRetriever(Retriever):
    """Ranks by the generator alone."""

    vectors: Vectors
    q_omega: Quantizer
    g_theta: Generator
    serializer: Serializer
    decoder: Decoder

    @property
    def reads_cells(self) -> bool:
        """Whether a language model reads them."""
        return isinstance(self.vectors, _ByBert)

    def encode(self, tables: Sequence[Table], features: Features) -> list[I32]:
        """x_q = ser(q)."""
        return serialised(self.serializer, tables)

    def portable(self) -> Encode:
        """With the serialiser alone."""
        return SentSerializer(self.serializer)

    def codes(self, tables: Sequence[Table], features: Features) -> tuple[U8, F32]:
        """Base identifiers, with encoder, networks and codebooks as they were trained."""
        return self.q_omega.encode(self.vectors(tables, features))

    def rank(
        self, query: NDArray[Any], k: int, beam: int | None, self_ids: Collection[int]
    ) -> list[RankedRow]:
        """Y_q in the order of constrained beam search, by log P(s | x); one identifier is one table."""
        width = beam or beam_width(k)
        (found,) = generate(self.g_theta, [Sentence(query.tolist(), [])], self.decoder.trie, width)
        best = slice(k + len(self_ids))
        return list(map(RankedRow, found.rows[best].tolist(), found.scores[best].tolist()))

    def over(self, tree: Tree) -> PaperRetriever:
        """The same model."""
        return replace(self, decoder=Decoder(tree, self.decoder.codebooks))


@dataclass(frozen=True, slots=True)
class SentSerializer:
    """`ser`, to be sent to another process."""

    serializer: Serializer

    def __call__(self, tables: Sequence[Table], features: Features) -> list[I32]:
        """x_q = ser(q)."""
        return serialised(self.serializer, tables)


def serialised(serializer: Serializer, tables: Sequence[Table]) -> list[I32]:
    """The token ids of each table."""
    return [np.array(serializer.ser(table).ids, np.int32) for table in tables]


# --- what is stored ----------------------------------------------------------------------------------


def save_model(path: Path, made: Offline, settings: PaperSettings, encoder: ClosedForm | None) -> None:
    """Write all that was learnt to one file, with the closed form if that gave the table vectors.

    Frozen token vectors and BERT are not in it: they are read where they came from.
    """
    model, parts = made.g_theta, {"q_omega": made.q_omega, "g_theta": made.g_theta}
    if made.f_eta is not None:
        parts["eta"] = made.f_eta.eta
    frozen = not model.text.requires_grad
    tensors = {
        f"{part}.{name}": value.detach().cpu().contiguous()
        for part, module in parts.items()
        for name, value in module.state_dict().items()
        if not (frozen and part == "g_theta" and name == "text")
    }
    if encoder is not None:
        arrays = encoder.arrays().items()
        tensors |= {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays}
    said = {
        "settings": asdict(settings),
        "vocabulary": asdict(model.vocabulary),
        "shape": asdict(model.t5.shape),
        "width": made.q_omega.f_omega[0].in_features,  # D
        "pieces": None if frozen else made.serializer.pieces.to_str(),
    }
    write_file(path, save(tensors, {"paper": json.dumps(said)}))


def load_model(path: Path, tree: Tree) -> PaperRetriever:
    """The retriever of a stored model. The BERT is only loaded once new tables need identifiers."""
    with safe_open(path, "pt") as file:
        said = json.loads(file.metadata()["paper"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
    settings = msgspec.convert(said["settings"], PaperSettings)
    vocabulary, shape = Vocabulary(**said["vocabulary"]), Shape(**said["shape"])
    weights = _part(tensors, "g_theta")
    frozen = "text" not in weights
    if frozen:
        weights["text"], pieces = wordllama_vectors(), load_tokenizer()
    else:
        pieces = Tokenizer.from_str(said["pieces"])
        pieces.encode_special_tokens = True
    g_theta = Generator(T5(shape), weights["text"], vocabulary, frozen=frozen)
    g_theta.load_state_dict(weights)
    g_theta.to(best_device())
    g_theta.mixed = fast_bfloat16(g_theta.device)
    q_omega = Quantizer(said["width"], settings.sid)
    q_omega.load_state_dict(_part(tensors, "q_omega"))
    serializer = Serializer(pieces, vocabulary.col, vocabulary.val, (), (vocabulary.eos,), settings.text)
    vectors: Vectors
    if settings.vectors == "bert":
        eta = Pooling(said["width"])
        eta.load_state_dict(_part(tensors, "eta"))
        vectors = _ByBert(eta, settings)
    else:
        vectors = _ByClosedForm(ClosedForm.restore(map_tensors(path)))
    codebooks = Codebooks(q_omega.codebooks.detach().numpy())
    return PaperRetriever(vectors, q_omega, g_theta, serializer, Decoder(tree, codebooks))


def _part(tensors: Mapping[str, Any], name: str) -> dict[str, Any]:
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}


@dataclass(frozen=True, slots=True)
class _ByClosedForm:
    encoder: ClosedForm

    def __call__(self, tables: Sequence[Table], features: Features) -> F32:
        """(N, D) latents."""
        return self.encoder.encode(features)


@dataclass(slots=True)
class _ByBert:
    """F_eta, whose language model is loaded when it is first needed."""

    eta: Pooling
    settings: PaperSettings
    encoder: Encoder | None = None

    def __call__(self, tables: Sequence[Table], features: Features) -> F32:
        """(N, D) e_T."""
        if self.encoder is None:
            states = ColumnStates(load_bert(self.settings.bert), self.settings.encoder)
            self.encoder = Encoder(states, self.eta)
        return self.encoder.vectors(tables)
