"""The feature cache: features of some hundred tables per file, so that unchanged tables are not read again.

It may be deleted; a build or a refit reads the tables once more.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path

import numpy as np

from gentus.features.extract import Features, concatenate
from gentus.files import write_file
from gentus.index.catalogue import Catalogue, FeatureSlots
from gentus.index.folder import IndexFolderError, Layout, open_regular

CHUNK = 256  # tables whose features are written together

_FEATURES = tuple(field.name for field in fields(Features))


def write_chunk(path: Path, features: Features) -> int:
    """Write features in one step; returns the CRC of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, **{name: getattr(features, name) for name in _FEATURES})
    write_file(path, buffer.getvalue())
    return zlib.crc32(buffer.getbuffer())


def read_chunk(path: Path, crc: int | None = None) -> Features:
    """Features as they were written; with a CRC, the file is compared with it."""
    try:
        with open_regular(path) as file:
            data = file.read()
        if crc is not None and zlib.crc32(data) != crc:
            raise ValueError("it is not the one that was written")
        _check_sizes(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return Features(*(arrays[name] for name in _FEATURES))
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise IndexFolderError(
            f"{path} is damaged ({error}). Delete it and run the same command again; "
            "only its tables are then read once more."
        ) from error


def _check_sizes(data: bytes) -> None:
    """Refuse arrays that claim to be larger than the file, before memory is allocated for them."""
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        for part in parts.infolist():
            if part.compress_type != zipfile.ZIP_STORED or part.file_size > len(data):
                raise ValueError(f"{part.filename} is not as we write it")
            with parts.open(part) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
                if read is None:
                    raise ValueError(f"{part.filename} is not as we write it")
                shape, _, kind = read(file)
                if math.prod(shape) * kind.itemsize > len(data):
                    raise ValueError(f"{part.filename} claims to be larger than the file")


def stream_features(tables: Iterable[Sequence[int]] | FeatureSlots, layout: Layout) -> Iterator[Features]:
    """Features of tables (id, chunk, slot) in their order, some hundred at a time and few chunks at once."""
    recent: dict[int, Features] = {}
    iterator = iter(tables)
    while batch := list(islice(iterator, CHUNK)):
        parts = []
        for _, chunk, slot in batch:
            if chunk not in recent:
                if len(recent) >= 8:
                    recent.pop(next(iter(recent)))
                recent[chunk] = read_chunk(layout.chunk(chunk))
            parts.append(recent[chunk].one(slot))
        yield concatenate(parts)


def damaged_chunks(layout: Layout, catalogue: Catalogue) -> Iterator[int]:
    """Chunks that are missing or cannot be read whole."""
    for number in sorted(catalogue.chunks.numbers()):
        try:
            read_chunk(layout.chunk(number), catalogue.chunks.crc(number))
        except IndexFolderError:
            yield number


def delete_other_chunks(layout: Layout, used: set[int]) -> None:
    """Delete cached features that no table points to any more."""
    keep = {layout.chunk(number).stem for number in used}
    for path in layout.cache.glob("features-*"):
        if path.name.split(".")[0] not in keep:  # states of a language model are named after their chunk
            path.unlink(missing_ok=True)
