"""A fair queue: work in threads, so that nothing blocks the event loop, and clients take turns.

Each queue has a few threads. Clients are served round-robin, however many requests one of them has sent, and
no client ever has all threads. Waiting jobs of one kind may run as a batch where that takes less time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gentus.app.serve.errors import ApiError
from gentus.union.session import OPEN_CONNECTIONS

T = TypeVar("T")


class Cancelled(BaseException):
    """Work was stopped. A BaseException, so that no handler of failures inside the work catches it."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.reason)
        self.error = error


class Cancellation:
    """Tells work to end early: on request, or when its time is over."""

    def __init__(self, seconds: float) -> None:
        self._requested = threading.Event()
        self.seconds, self.deadline = seconds, time.monotonic() + seconds
        self.watched: list[Any] = []  # DuckDB connections in use

    def request(self) -> None:
        """Ask the work to end soon."""
        self._requested.set()
        for connection in list(self.watched):
            with suppress(Exception):  # it may have been closed meanwhile
                connection.interrupt()

    def requested(self) -> bool:
        """Whether the work is to end."""
        return self._requested.is_set() or time.monotonic() > self.deadline

    def check(self) -> None:
        """Raise `Cancelled` if the work is to end."""
        if self.requested():
            raise Cancelled(took_too_long(self.seconds))


def took_too_long(seconds: float) -> ApiError:
    """The error of work that was started and not finished in time."""
    return ApiError(422, f"this takes longer than the limit of {seconds:g} s; ask for less")


def too_busy() -> ApiError:
    """The error of work that was not started in time."""
    return ApiError(503, "the server is too busy; try again in a moment", {"Retry-After": "5"})


@dataclass(frozen=True, slots=True)
class Batchable:
    """Work that can run as a batch with other work of its kind."""

    item: Any
    kind: Hashable
    work: Callable[[list[Any]], list[Any]]  # items -> a result or an exception for each


@dataclass(slots=True, eq=False)
class _Job:
    client: str
    work: Callable[[Cancellation], Any] | Batchable
    cancel: Cancellation
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    begun: bool = False


@dataclass(slots=True)
class FairQueue:
    """A few threads, and the jobs of clients that wait for them."""

    name: str
    threads: int
    waiting: int  # jobs that may wait ...
    waiting_of_one: int  # ... of one client
    batch_size: int = 1  # jobs of one kind that run as one batch
    _ready: threading.Condition = field(default_factory=threading.Condition, init=False)
    _queues: dict[str, deque[_Job]] = field(
        default_factory=dict, init=False
    )  # per client, in the order of their turns
    _running: Counter[str] = field(default_factory=Counter, init=False)
    _jobs: set[_Job] = field(default_factory=set, init=False)
    _started: list[threading.Thread] = field(default_factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    async def run(self, client: str, seconds: float, work: Callable[[Cancellation], T] | Batchable) -> T:
        """Do some work in a thread when it is the client's turn; raises what the work raises."""
        loop = asyncio.get_running_loop()
        job = _Job(client, work, Cancellation(seconds), loop, loop.create_future())
        self._put(job)
        timer = loop.call_later(seconds, self._time_out, job)
        try:
            return await job.future  # type: ignore[no-any-return]
        finally:
            timer.cancel()
            if not job.future.done() or job.future.cancelled():
                self._abandon(job)

    def depth(self) -> int:
        """How many jobs wait."""
        with self._ready:
            return sum(map(len, self._queues.values()))

    def busy(self) -> int:
        """How many jobs are running."""
        with self._ready:
            return self._running.total()

    def close(self, patience: float = 5.0) -> bool:
        """Ask all work to end and wait for it; False if some does not."""
        with self._ready:
            self._closed = True
            for job in (*self._jobs, *(job for own in self._queues.values() for job in own)):
                job.cancel.request()
            self._ready.notify_all()
        until = time.monotonic() + patience
        for thread in self._started:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._started)

    # --- on the event loop ------------------------------------------------------------------------------

    def _put(self, job: _Job) -> None:
        with self._ready:
            own = self._queues.get(job.client, ())
            if self._closed or len(own) >= self.waiting_of_one or self._waiting() >= self.waiting:
                raise ApiError(
                    503, "too many requests are waiting; try again in a moment", {"Retry-After": "2"}
                )
            self._queues.setdefault(job.client, deque()).append(job)
            if len(self._started) < self.threads:
                self._started.append(
                    threading.Thread(target=self._work, name=f"gentus {self.name}", daemon=True)
                )
                self._started[-1].start()
            self._ready.notify()

    def _waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    def _time_out(self, job: _Job) -> None:
        if not job.future.done():
            waited = self._abandon(job)
            job.future.set_exception(too_busy() if waited else took_too_long(job.cancel.seconds))

    def _abandon(self, job: _Job) -> bool:
        """Cancel a job; returns whether it was still waiting."""
        job.cancel.request()
        with self._ready:
            if job.begun:
                return False
            own = self._queues.get(job.client)
            if own is not None and job in own:
                own.remove(job)
                if not own:
                    del self._queues[job.client]
            return True

    # --- in the threads ---------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._ready:
                while not (jobs := self._next()):
                    if self._closed:
                        return
                    self._ready.wait()
            results = _results(jobs)
            with self._ready:
                for job in jobs:
                    self._running[job.client] -= 1
                    if not self._running[job.client]:
                        del self._running[job.client]
                    self._jobs.discard(job)
                self._ready.notify()
            try:
                jobs[0].loop.call_soon_threadsafe(_deliver, jobs, results)
            except RuntimeError:  # the loop has ended
                return

    def _next(self) -> list[_Job]:
        """The first job of the next client that may have another thread, and jobs that can join its batch."""
        most = max(1, self.threads - 1)
        first = next((client for client in self._queues if self._running[client] < most), None)
        if first is None:
            return []
        jobs = [self._take(first)]
        while len(jobs) < self.batch_size and isinstance(jobs[0].work, Batchable):
            kind = jobs[0].work.kind
            client = next((client for client, own in self._queues.items() if _kind(own[0]) == kind), None)
            if client is None:
                break
            jobs.append(self._take(client))
        return jobs

    def _take(self, client: str) -> _Job:
        """A client's first job; the client goes to the end of the round."""
        own = self._queues.pop(client)
        job = own.popleft()
        if own:
            self._queues[client] = own
        self._running[client] += 1
        self._jobs.add(job)
        job.begun = True
        return job


def _kind(job: _Job) -> Hashable:
    return job.work.kind if isinstance(job.work, Batchable) else None


def _results(jobs: list[_Job]) -> list[Any]:
    """Run jobs as one batch: a result or an exception for each, in their order."""
    in_time = [job for job in jobs if not job.cancel.requested()]
    results: list[Any] = []
    try:
        if in_time and isinstance(in_time[0].work, Batchable):
            results = in_time[0].work.work(
                [job.work.item for job in in_time if isinstance(job.work, Batchable)]
            )
        elif in_time and not isinstance(in_time[0].work, Batchable):
            OPEN_CONNECTIONS.set(in_time[0].cancel.watched)
            results = [in_time[0].work(in_time[0].cancel)]
    except BaseException as failure:
        results = [failure.error if isinstance(failure, Cancelled) else failure] * len(in_time)
    by_job = dict(zip(map(id, in_time), results, strict=True))
    return [by_job[id(job)] if id(job) in by_job else too_busy() for job in jobs]


def _deliver(jobs: list[_Job], results: list[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.future.done():
            continue
        if isinstance(result, BaseException):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
