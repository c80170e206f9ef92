"""The model file of an index: encoder, codebooks and learnt ranking, as one safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from gentus.embed.closed_form import ClosedForm
from gentus.embed.encoder import Encoder
from gentus.features.weights import map_tensors
from gentus.files import write_file
from gentus.identifiers.codebooks import Codebooks
from gentus.neighbours.listwise import Listwise
from gentus.retrieval.walk import AnnotatedGraph
from gentus.settings import EncoderSettings


def save_model(
    path: Path,
    encoder: ClosedForm | Encoder,
    codebooks: Codebooks,
    ranking: tuple[AnnotatedGraph, Listwise] | None = None,
) -> None:
    """Write encoder, codebooks and a ranking learnt from labels; the fit has rounded them already."""
    arrays = {**encoder.arrays(), "codebooks": codebooks.codewords.astype(np.float16)}
    for part in ranking or ():
        arrays |= part.arrays()
    write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def load_model(path: Path, settings: EncoderSettings) -> tuple[ClosedForm | Encoder, Codebooks]:
    """Read what `save_model` wrote, checking every shape. Large arrays stay on the disk, memory-mapped."""
    arrays = map_tensors(path)
    encoder = restore_encoder(arrays, settings)
    return encoder, Codebooks(arrays["codebooks"].astype(np.float32))


def load_ranking(path: Path, features: int) -> tuple[AnnotatedGraph, Listwise]:
    """The ranking that `save_model` wrote, for so many features."""
    arrays = map_tensors(path)
    return AnnotatedGraph.restore(arrays), Listwise.restore(arrays, features)


def restore_encoder(
    arrays: Mapping[str, NDArray[Any]], settings: EncoderSettings | None
) -> ClosedForm | Encoder:
    """The encoder that was stored: learnt in closed form, or with labels a network of these settings."""
    if "closed_form.projection" in arrays or settings is None:
        return ClosedForm.restore(arrays)
    return Encoder.restore(arrays, settings)
