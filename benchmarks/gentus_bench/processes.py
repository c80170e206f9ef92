"""Memory of processes, and commands that are measured in a process of their own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_EVERY = 0.25  # seconds between two samples of memory


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory in bytes at a moment; pages that processes share count once."""

    when: float  # time.monotonic(), which all processes share
    main: int  # of the process itself
    all: int  # and of those that it started


def peak_bytes() -> int:
    """The most memory that this process has had. Unlike `getrusage` on Linux, not that of its parent."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def resident_bytes(process: int | None = None) -> int:
    """The memory that this process has now, or another one; 0 if that one is gone."""
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.Error:
        return 0


def mapped_bytes(folder: Path) -> int:
    """Bytes of the files of a folder that this process has mapped and touched."""
    inside = f"{folder.resolve()}/"
    return sum(one.rss for one in psutil.Process().memory_maps() if one.path.startswith(inside))


def costs(command: Sequence[str], folder: Path | None = None) -> dict[str, float]:
    """Run a command: its wall time, and the processor time and memory of all its processes."""
    before, started = os.times(), time.perf_counter()
    _, samples = watched(command, folder)
    seconds, after = time.perf_counter() - started, os.times()
    cpu = sum(getattr(after, kind) - getattr(before, kind) for kind in ("children_user", "children_system"))
    peak = max((sample.all for sample in samples), default=0)
    return {"seconds": round(seconds, 2), "cpu": round(cpu, 2), "peak_mb": round(peak / 1e6, 1)}


def watched(command: Sequence[str], folder: Path | None = None) -> tuple[str, list[Sample]]:
    """Run a command, and sample the memory of its processes; returns what it printed."""
    samples = []
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(command, stdout=output, cwd=folder) as process,
    ):
        try:
            while process.poll() is None:
                memory = _memory(process.pid)
                samples.append(Sample(time.monotonic(), memory[0], sum(memory)))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_EVERY)
        except BaseException:
            process.terminate()
            raise
        if process.returncode != 0:
            raise RuntimeError(f"{command[2]} failed with exit code {process.returncode}: see above")
        output.seek(0)
        return output.read().decode(), samples


def _memory(pid: int) -> list[int]:
    """Proportional bytes of a process, then of all it has started."""
    found = []
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                found.append(int(process.memory_full_info().pss))
    return found or [0]


def in_process(module: str, *arguments: str, seconds: float | None = None) -> dict[str, Any]:
    """Run a module in a new process; returns the JSON document that it prints last."""
    command = [sys.executable, "-m", module, *arguments]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found
