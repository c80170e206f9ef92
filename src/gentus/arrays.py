"""Types of arrays. Comments beside arrays say their shapes, such as `(T, d)`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

F32: TypeAlias = NDArray[np.float32]
F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
U8: TypeAlias = NDArray[np.uint8]
U64: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.integer[Any]]


def half(values: NDArray[np.floating[Any]]) -> F32:
    """Values as half precision stores them."""
    return values.astype(np.float16).astype(np.float32)
