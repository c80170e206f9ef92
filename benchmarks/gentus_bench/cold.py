"""How long a search takes from the shell, from nothing: a new process, its imports, the index, the answer."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gentus_bench.machine import describe


def cold_search(index: Path, query: Path, runs: int = 9) -> dict[str, Any]:
    """Run `gentus search` in a new process again and again; the operating system's file cache stays warm."""
    command = [sys.executable, "-m", "gentus.app.cli.main", "search", str(index), str(query), "--json"]
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "runs": runs,
        "seconds_median": round(statistics.median(seconds), 3),
        "seconds_worst": round(max(seconds), 3),
    }
