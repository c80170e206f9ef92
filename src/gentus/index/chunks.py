"""Chunks of features on disk: read tables that need not be read again."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from dataclasses import fields
from pathlib import Path

import numpy as np

from gentus.features.extract import Features
from gentus.files import write_file
from gentus.index.folder import IndexFolderError, open_regular

_FEATURES = tuple(field.name for field in fields(Features))


def write_chunk(path: Path, features: Features) -> int:
    """Write features so that they are there whole or not at all; returns the CRC of what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, **{name: getattr(features, name) for name in _FEATURES})
    write_file(path, buffer.getvalue())
    return zlib.crc32(buffer.getbuffer())


def read_chunk(path: Path, crc: int | None = None) -> Features:
    """Features as they were written; with the CRC that was noted, no others."""
    try:
        with open_regular(path) as file:
            data = file.read()
        if crc is not None and zlib.crc32(data) != crc:
            raise ValueError("it is not the one that was written")
        _refuse_lies(data)
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


def _refuse_lies(data: bytes) -> None:
    """Arrays that are larger than what there is of them would take memory before anybody noticed."""
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
