"""The machine and the versions that a figure was measured with."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Return the machine (processor, cores, memory, load) and the versions of what ran on it."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": _version("torch"),
        "gentus": _version("gentus"),
        "commit": _commit(),
    }


def sentence(facts: dict[str, Any]) -> str:
    """Say it in one line."""
    memory = f", {facts['memory_gb']} GB" if facts["memory_gb"] else ""
    commit = f" ({facts['commit']})" if facts["commit"] else ""
    load = "" if facts["load"] is None else f", load {facts['load']} at the start"  # others' work slows ours
    return (
        f"{facts['cpu']}, {facts['cores']} cores{memory}{load}, {facts['system']};"
        f" gentus {facts['gentus']}{commit}, Python {facts['python']}, torch {facts['torch']}"
    )


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the commit of the source tree this runs from, with `+` where it was changed since."""
    here = Path(__file__).parent
    # An installed copy may lie inside some other project's repository: only count where git knows this file.
    if _git(here, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    head = _git(here, "rev-parse", "--short", "HEAD")
    changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", str(here.parent))
    return f"{head}+" if head and changed else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        run = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None
