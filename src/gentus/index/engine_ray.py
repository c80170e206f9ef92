"""The work of a build on a Ray cluster: one of many machines, or one that lasts as long as the build.

Tasks are never many more than there are cores, and results come back in order. What a killed process or a
lost machine was busy with is done again elsewhere; a file that kills its reader costs only itself.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from gentus import __version__
from gentus.extras import install_extra
from gentus.features.extract import VERSION as FEATURES
from gentus.lake import Limits, Location, Remote, Skipped, Source, exists, scan
from gentus.lake.base import failure_reason
from gentus.lake.exclude import Exclude
from gentus.lake.listing_tasks import ListingResult, ListingTask, run_listing
from gentus.lake.sandbox.pool import Work, batches, read_all
from gentus.lake.sandbox.process import bounded_memory, bounded_time, portable
from gentus.lake.sandbox.start import safe_path

A = TypeVar("A")
R = TypeVar("R")

ATTEMPTS = 5  # how often a task may lose its process before it is taken to be the cause ...
PAUSE = 0.5  # ... seconds before the second, then doubled: Ray takes a while to notice that a machine is lost
AHEAD = 4  # tasks per core that may be ahead of the consumer of the results
_TIMEOUT = 10.0  # seconds for a cluster to answer
_STORE_BYTES = 256 << 20  # bytes of the object store of a cluster of our own; beyond, Ray goes on on the disk
_NOT_FOUND = failure_reason(FileNotFoundError())


@contextmanager
def ray_engine(address: str | None = None, workers: int | None = None) -> Iterator[RayEngine]:
    """Work on the cluster at an address; without one, on a cluster on this machine that ends with the work.

    If this process is connected to a cluster already, that one is used and left as it is.
    """
    ray = _import_ray(alone=address is None)
    ours = not ray.is_initialized()
    if ours:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            quiet |= {"num_cpus": workers or os.cpu_count(), "object_store_memory": _STORE_BYTES}
            quiet |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        else:
            _check_address(address)
        job = ray.job_config.JobConfig()
        # Ray has every task look for modules in this folder first, and in that of the caller's script.
        job._py_driver_sys_path = deque(maxlen=0)  # keeps nothing of what is added
        try:
            with safe_path():
                ray.init(address or "local", job_config=job, **quiet)
        except ConnectionError as error:
            hint = "If it asks for a token, set RAY_AUTH_MODE=token (docs/CLUSTER.md)."
            raise ValueError(f"No Ray cluster lets us in at {address}: {error}. {hint}") from error
    try:
        yield RayEngine(workers if address else None)
    finally:
        if ours:
            ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address that does not answer; Ray would try for a quarter of an hour."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():  # else it is a word that Ray knows, such as auto
        try:
            socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT).close()
        except OSError as error:
            raise ValueError(f"There is no Ray cluster at {address}: {error.strerror or error}") from error


def _import_ray(alone: bool = False) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if alone:  # a cluster of this machine only, as is the default on Windows and macOS
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise ModuleNotFoundError(f"The engine ray needs Ray: {install_extra('ray')}") from error
    return ray


@dataclass(frozen=True, slots=True)
class _Lost:
    """A task whose process or machine was lost as often as it may be."""

    reason: str


class RayEngine:
    """Tasks on the cluster that this process is connected to."""

    def __init__(self, workers: int | None = None) -> None:
        self._ray, self._workers = _import_ray(), workers
        from ray import exceptions

        self._losses = (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
            exceptions.ObjectLostError,
        )
        # No retries by Ray: it would do a whole batch again, and one that runs out of memory without end.
        self._run = self._ray.remote(num_cpus=1, max_retries=0)(_run)

    def scan(self, lake: Location, exclude: Exclude) -> Iterator[Source | Skipped]:
        """List the folders of a lake by tasks; what is no folder, or far away, is listed here."""
        if isinstance(lake, Remote) or not lake.is_dir():
            yield from scan(lake, exclude)
            return
        root = lake.resolve()
        self._check_nodes(root)
        work = self._ray.put(partial(run_listing, root, exclude))
        line: deque[Source | Skipped | _Listing] = deque([_Listing(ListingTask(root))])  # in order
        later = deque(item for item in line if isinstance(item, _Listing))  # of these, not yet begun
        ahead = 0
        while line:
            item = line.popleft()
            if not isinstance(item, _Listing):
                yield item
                continue
            if item.task is None:
                later.popleft()  # in the same order: it is the first
                item.task, ahead = self._run.remote(work, item.part), ahead + 1
            found = self._result(item.task, work, item.part, ATTEMPTS)
            ahead -= 1
            if isinstance(found, _Lost):
                raise RuntimeError(f"{item.part.folder} could not be listed: {found.reason}")
            inside: list[Source | Skipped | _Listing] = [_listing(one) for one in found]
            line.extendleft(reversed(inside))
            later.extendleft(one for one in reversed(inside) if isinstance(one, _Listing))
            while later and ahead < self._window():
                first = later.popleft()
                first.task, ahead = self._run.remote(work, first.part), ahead + 1

    def each(
        self, sources: Iterable[Source], work: Work[R], limits: Limits
    ) -> Iterator[tuple[Source, R | Skipped]]:
        """Read batches by tasks. One that was lost is read table by table, to find the one that kills."""
        job = partial(_read_all, work, limits)
        for batch, results in self._stream(job, batches(iter(sources)), attempts=1):
            if not isinstance(results, _Lost):
                for source, result in zip(batch, results, strict=True):
                    yield source, _seen_here(source, result)
                continue
            for (source,), single in self._stream(job, ([one] for one in batch), ATTEMPTS):
                if isinstance(single, _Lost):
                    why = f"perhaps out of memory, or of the {limits.seconds:g} s that a file may take"
                    reason = f"every process reading it died ({single.reason}), {why}; split the file"
                    yield source, Skipped(source.name, source.path, reason)
                else:
                    yield source, _seen_here(source, single[0])

    def map(self, work: Callable[[A], R], items: Iterable[A]) -> Iterator[R]:
        """Work by tasks, one an item."""
        for _, result in self._stream(work, items, ATTEMPTS):
            if isinstance(result, _Lost):
                raise RuntimeError(f"a task of the cluster was lost {ATTEMPTS} times: {result.reason}")
            yield result

    def _stream(
        self, work: Callable[[A], R], items: Iterable[A], attempts: int
    ) -> Iterator[tuple[A, R | _Lost]]:
        """Items with what `work` makes of them, in order.

        Left early, what runs is let run out: it is little, and cancelling tasks that are just done ends
        this process by a failed check in Ray 2.60.
        """
        stored = self._ray.put(work)
        left = iter(items)
        running: deque[tuple[A, Any]] = deque()
        while True:
            for item in islice(left, max(0, self._window() - len(running))):
                running.append((item, self._run.remote(stored, item)))
            if not running:
                return
            item, task = running.popleft()
            yield item, self._result(task, stored, item, attempts)

    def _result(self, task: Any, work: Any, item: Any, attempts: int) -> Any:
        """What came of a task, begun again if it was lost; its own error is raised."""
        for left in reversed(range(attempts)):
            try:
                good, result = self._ray.get(task)
            except self._losses as error:
                lost = _Lost(type(error).__name__)
                if left:
                    time.sleep(PAUSE * 2 ** (attempts - 1 - left))
                    task = self._run.remote(work, item)
                continue
            if not good:
                raise result
            return result
        return lost

    def _window(self) -> int:
        """How many tasks there may be. Asked again and again, as machines come and go."""
        if self._workers:
            return self._workers
        return AHEAD * max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def _check_nodes(self, root: Path) -> None:
        """Refuse machines that would not do the same work, or do not see the lake."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        def look() -> tuple[object, bool]:  # sent as it is: gentus may not be there
            try:
                from gentus import __version__
                from gentus.features import extract as features
            except ImportError as error:
                return str(error), False
            return (__version__, features.VERSION), root.is_dir()

        nodes = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        task = self._ray.remote(num_cpus=0, max_retries=ATTEMPTS)(look)
        there = (NodeAffinitySchedulingStrategy(node["NodeID"], soft=True) for node in nodes)
        answers = [task.options(scheduling_strategy=place).remote() for place in there]
        for node, (version, visible) in zip(nodes, self._ray.get(answers), strict=True):
            where = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
            if version != (__version__, FEATURES):
                raise ValueError(
                    f"{where} of the cluster needs gentus {__version__}, as there is here, and has: {version}"
                )
            if not visible:
                raise ValueError(
                    f"{where} of the cluster does not see the lake: mount it at {root} on every machine"
                )


@dataclass(slots=True)
class _Listing:
    """A part of the lake in the place where its tables belong, and the task that lists it."""

    part: ListingTask
    task: Any = None


def _listing(found: ListingResult) -> Source | Skipped | _Listing:
    return _Listing(found) if isinstance(found, ListingTask) else found


def _run(work: Callable[[A], R], item: A) -> tuple[bool, R | Exception]:
    """Run as a task. An error comes back as a value: Ray would wrap it, with a traceback for a message."""
    try:
        return True, work(item)
    except Exception as error:
        return False, portable(error)


def _read_all(work: Work[R], limits: Limits, sources: list[Source]) -> list[R | Skipped]:
    with bounded_memory(limits), bounded_time(limits) as begin:
        return read_all(sources, work, limits, begin)


def _seen_here(source: Source, result: R | Skipped) -> R | Skipped:
    """Say so if a file is only missing where it was to be read."""
    if isinstance(result, Skipped) and result.reason == _NOT_FOUND and exists(source.path):
        reason = "it is there, but not on the machine of the cluster that was to read it"
        return replace(result, reason=f"{reason}; mount the lake at the same path everywhere")
    return result
