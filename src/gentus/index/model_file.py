"""The model file of the closed form: encoder, codebooks and learnt ranking, as one safetensors file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from gentus.embed.closed_form import ClosedForm
from gentus.features.weights import map_tensors
from gentus.files import write_file
from gentus.identifiers.codebooks import Codebooks
from gentus.neighbours.listwise import Listwise
from gentus.retrieval.beam import Decoder
from gentus.retrieval.retriever import ClosedFormRetriever
from gentus.retrieval.trie import Tree
from gentus.retrieval.walk import AnnotatedGraph


def save_model(
    path: Path,
    encoder: ClosedForm,
    codebooks: Codebooks,
    ranking: tuple[AnnotatedGraph, Listwise] | None = None,
) -> None:
    """Write encoder, codebooks and a ranking learnt from labels; the fit has rounded them already."""
    arrays = {**encoder.arrays(), "codebooks": codebooks.codewords.astype(np.float16)}
    for part in ranking or ():
        arrays |= part.arrays()
    write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def load_model(path: Path, tree: Tree, feedback: float) -> ClosedFormRetriever:
    """Read what `save_model` wrote, checking every shape. Large arrays stay on the disk, memory-mapped."""
    arrays = map_tensors(path)
    codebooks = Codebooks(arrays["codebooks"].astype(np.float32))
    return ClosedFormRetriever(ClosedForm.restore(arrays), Decoder(tree, codebooks), feedback)


def load_ranking(path: Path, features: int) -> tuple[AnnotatedGraph, Listwise]:
    """The ranking that `save_model` wrote, for so many features."""
    arrays = map_tensors(path)
    return AnnotatedGraph.restore(arrays), Listwise.restore(arrays, features)
