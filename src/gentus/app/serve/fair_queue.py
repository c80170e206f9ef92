"""Work in threads, so that nothing blocks the event loop, and clients take turns.

Each kind of work has a lane of a few threads. Within a lane the client whose turn it is comes next, however
many requests another one has sent; and no client ever has all threads of a lane. Work of one kind that waits
may be done together where that takes less time.
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

from gentus.app.serve.errors import Refused
from gentus.union.session import WATCHED

T = TypeVar("T")


class Halted(BaseException):
    """Work that was stopped, and why: no failure of the work, and nobody but the lane is to catch it."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class Stop:
    """Says to some work that nobody waits for its end any more."""

    def __init__(self, seconds: float) -> None:
        self._asked = threading.Event()
        self.seconds, self.deadline = seconds, time.monotonic() + seconds
        self.watched: list[Any] = []  # connections of DuckDB that are at work

    def ask(self) -> None:
        """Let the work end soon."""
        self._asked.set()
        for connection in list(self.watched):
            with suppress(Exception):  # it may just be closed
                connection.interrupt()

    def late(self) -> bool:
        """Whether nobody waits any more."""
        return self._asked.is_set() or time.monotonic() > self.deadline

    def check(self) -> None:
        """Raise `Halted` if the work is to end."""
        if self.late():
            raise Halted(too_long(self.seconds))


def too_long(seconds: float) -> Refused:
    """What is said of work that takes too long."""
    return Refused(422, f"this takes longer than the {seconds:g} s that it may take here; ask for less")


def too_busy() -> Refused:
    """What is said of work whose turn has not come."""
    return Refused(503, "the server is too busy just now; try again in a moment", {"Retry-After": "5"})


@dataclass(frozen=True, slots=True)
class Shared:
    """Work that can be done together with other work of its kind."""

    item: Any
    kind: Hashable
    work: Callable[[list[Any]], list[Any]]  # items in, results out, or the exceptions that they come to


@dataclass(slots=True, eq=False)
class _Job:
    client: str
    work: Callable[[Stop], Any] | Shared
    stop: Stop
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    begun: bool = False


@dataclass(slots=True)
class Lane:
    """Some threads, and the work that waits for them."""

    name: str
    threads: int
    waiting: int  # jobs that may wait ...
    waiting_of_one: int  # ... of one client
    together: int = 1  # jobs of one kind that are done at once
    _ready: threading.Condition = field(default_factory=threading.Condition, init=False)
    _queues: dict[str, deque[_Job]] = field(default_factory=dict, init=False)  # of clients, next one first
    _running: Counter[str] = field(default_factory=Counter, init=False)
    _jobs: set[_Job] = field(default_factory=set, init=False)
    _started: list[threading.Thread] = field(default_factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    async def run(self, client: str, seconds: float, work: Callable[[Stop], T] | Shared) -> T:
        """Do some work in a thread when it is the client's turn; raises what the work raises."""
        loop = asyncio.get_running_loop()
        job = _Job(client, work, Stop(seconds), loop, loop.create_future())
        self._put(job)
        timer = loop.call_later(seconds, self._late, job)
        try:
            return await job.future  # type: ignore[no-any-return]
        finally:
            timer.cancel()
            if not job.future.done() or job.future.cancelled():
                self._leave(job)

    def depth(self) -> int:
        """How many jobs wait."""
        with self._ready:
            return sum(map(len, self._queues.values()))

    def busy(self) -> int:
        """How many jobs are being done."""
        with self._ready:
            return self._running.total()

    def close(self, patience: float = 5.0) -> bool:
        """Ask all work to end and wait for it; False if some does not."""
        with self._ready:
            self._closed = True
            for job in (*self._jobs, *(job for own in self._queues.values() for job in own)):
                job.stop.ask()
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
                raise Refused(
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

    def _late(self, job: _Job) -> None:
        if not job.future.done():
            waited = self._leave(job)
            job.future.set_exception(too_busy() if waited else too_long(job.stop.seconds))

    def _leave(self, job: _Job) -> bool:
        """Nobody waits for a job any more; returns whether it had not begun yet."""
        job.stop.ask()
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
                jobs[0].loop.call_soon_threadsafe(_tell, jobs, results)
            except RuntimeError:  # the loop has ended
                return

    def _next(self) -> list[_Job]:
        """The first job of the first client that may have another thread, and others that go with it."""
        most = max(1, self.threads - 1)
        first = next((client for client in self._queues if self._running[client] < most), None)
        if first is None:
            return []
        jobs = [self._take(first)]
        while len(jobs) < self.together and isinstance(jobs[0].work, Shared):
            kind = jobs[0].work.kind
            client = next((client for client, own in self._queues.items() if _kind(own[0]) == kind), None)
            if client is None:
                break
            jobs.append(self._take(client))
        return jobs

    def _take(self, client: str) -> _Job:
        """A client's first job; then it is the next one's turn."""
        own = self._queues.pop(client)
        job = own.popleft()
        if own:
            self._queues[client] = own
        self._running[client] += 1
        self._jobs.add(job)
        job.begun = True
        return job


def _kind(job: _Job) -> Hashable:
    return job.work.kind if isinstance(job.work, Shared) else None


def _results(jobs: list[_Job]) -> list[Any]:
    """What becomes of jobs that are done at once: results or exceptions, in their order."""
    in_time = [job for job in jobs if not job.stop.late()]
    results: list[Any] = []
    try:
        if in_time and isinstance(in_time[0].work, Shared):
            results = in_time[0].work.work([job.work.item for job in in_time if isinstance(job.work, Shared)])
        elif in_time and not isinstance(in_time[0].work, Shared):
            WATCHED.set(in_time[0].stop.watched)
            results = [in_time[0].work(in_time[0].stop)]
    except BaseException as failure:
        results = [failure.refused if isinstance(failure, Halted) else failure] * len(in_time)
    told = dict(zip(map(id, in_time), results, strict=True))
    return [told[id(job)] if id(job) in told else too_busy() for job in jobs]


def _tell(jobs: list[_Job], results: list[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.future.done():
            continue
        if isinstance(result, BaseException):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
