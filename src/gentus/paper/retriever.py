"""Online retrieval (section 6) behind the seam of the index: Algorithm 2, and identifiers for new tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save
from tokenizers import Tokenizer

from gentus.arrays import F32
from gentus.features.bert import best_device, fast_bfloat16
from gentus.features.weights import load_tokenizer
from gentus.files import write_file
from gentus.paper.checkpoints import load_bert, wordllama_vectors
from gentus.paper.decode import beam_width, generate
from gentus.paper.encoder import ColumnStates, Encoder, Pooling
from gentus.paper.generator import Generator, Vocabulary
from gentus.paper.offline import Offline
from gentus.paper.quantizer import Quantizer
from gentus.paper.serialize import Sentence, Serializer
from gentus.paper.settings import PaperSettings
from gentus.paper.t5 import T5, Shape
from gentus.retrieval.retriever import Ranked, Retriever
from gentus.retrieval.trie import Tree
from gentus.table import Table

Vectors = Callable[[Sequence[Table]], F32]  # (N, D) table embeddings


class PaperRetriever(Retriever[Sentence]):
    """Ranks by the generator alone."""

    def __init__(
        self, vectors: Vectors, q_omega: Quantizer, g_theta: Generator, serializer: Serializer, trie: Tree
    ) -> None:
        self.vectors, self.q_omega, self.g_theta = vectors, q_omega, g_theta
        self.serializer, self.trie = serializer, trie

    def encode(self, table: Table) -> Sentence:
        """x_q = ser(q)."""
        return self.serializer.ser(table)

    def codes(self, tables: Sequence[Table]) -> tuple[NDArray[np.unsignedinteger[Any]], F32]:
        """Base identifiers, with encoder, networks and codebooks as they were trained."""
        return self.q_omega.encode(self.vectors(tables))

    def rank(self, query: Sentence, k: int, beam: int | None = None) -> Ranked:
        """Y_q: the identifiers that constrained beam search generates, in its order; one table has one."""
        (found,) = generate(self.g_theta, [query], self.trie, beam or beam_width(k))
        return Ranked(found.rows, found.scores)


# --- what is stored ----------------------------------------------------------------------------------


def save_model(path: Path, made: Offline, settings: PaperSettings) -> None:
    """Write all that was learnt to one file; frozen token vectors and the BERT stay where they came from."""
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
    said = {
        "settings": asdict(settings),
        "vocabulary": asdict(model.vocabulary),
        "shape": asdict(model.t5.shape),
        "width": made.q_omega.f_omega[0].in_features,  # D
        "encoder": "closed-form" if made.f_eta is None else "bert",
        "pieces": None if frozen else made.serializer.pieces.to_str(),
    }
    write_file(path, save(tensors, {"paper": json.dumps(said)}))


def load_model(path: Path, trie: Tree, vectors: Vectors | None = None) -> PaperRetriever:
    """The retriever of a stored model. `vectors` are needed where table vectors were given to the training.

    The BERT is only loaded once new tables need identifiers.
    """
    with safe_open(path, "pt") as file:
        said = json.loads(file.metadata()["paper"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
    settings = msgspec.convert(said["settings"], PaperSettings)
    vocabulary, shape = Vocabulary(**said["vocabulary"]), Shape(**said["shape"])

    def part(name: str) -> dict[str, Any]:
        return {
            key.removeprefix(f"{name}."): value
            for key, value in tensors.items()
            if key.startswith(f"{name}.")
        }

    weights = part("g_theta")
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
    q_omega.load_state_dict(part("q_omega"))
    serializer = Serializer(pieces, vocabulary.col, vocabulary.val, (), (vocabulary.eos,), settings.text)
    if said["encoder"] == "bert":
        eta = Pooling(said["width"])
        eta.load_state_dict(part("eta"))
        vectors = _Lazy(eta, settings)
    elif vectors is None:
        raise ValueError(
            f"{path}: this model was trained on table vectors from elsewhere; give what makes them"
        )
    return PaperRetriever(vectors, q_omega, g_theta, serializer, trie)


@dataclass(slots=True)
class _Lazy:
    """F_η, whose language model is loaded when it is first needed."""

    eta: Pooling
    settings: PaperSettings
    encoder: Encoder | None = None

    def __call__(self, tables: Sequence[Table]) -> F32:
        """(N, D) e_T."""
        if self.encoder is None:
            states = ColumnStates(load_bert(self.settings.bert), self.settings.encoder)
            self.encoder = Encoder(states, self.eta)
        return self.encoder.vectors(tables)
