"""Threads of our own in place of BLAS's: results must not depend on how many cores there are.

BLAS adds up in another order on another number of threads, and results then differ in their last digits. So
work is cut into pieces that do not depend on the cores, and each piece is done with one BLAS thread.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

A = TypeVar("A")
R = TypeVar("R")


def parallel(work: Callable[[A], R], items: Iterable[A], threads: int | None = None) -> Iterator[R]:
    """`work(item)` of all items in order, by threads, never far ahead of whoever takes the results."""
    count = threads or os.cpu_count() or 1
    left = iter(items)
    with one_blas_thread(), ThreadPoolExecutor(count) as pool:
        running: deque[Future[R]] = deque(pool.submit(work, item) for item in islice(left, 2 * count))
        while running:
            yield running.popleft().result()
            running.extend(pool.submit(work, item) for item in islice(left, 1))


_lock = threading.Lock()
_limits: list[Any] = []  # of all who are inside, in the order in which they came
_inside = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Linear algebra in the calling thread alone; for all threads, until the last of them has left.

    Everyone who comes sets the limit again: a library that was loaded meanwhile has not heard of it.
    """
    from threadpoolctl import threadpool_limits

    global _inside
    with _lock:
        _limits.append(threadpool_limits(1, "blas"))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            while not _inside and _limits:
                _limits.pop().restore_original_limits()
