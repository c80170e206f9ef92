"""Threads of our own in place of BLAS's: results must not depend on how many cores there are.

BLAS adds up in another order on another number of threads, and results then differ in their last digits. So
work is cut into pieces that do not depend on the cores, and each piece is done with one BLAS thread.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Linear algebra in the calling thread alone."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield
