"""How much memory this process has, and had. Linux tells it of this program alone."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def peak_bytes() -> int:
    """The most that this process has had. Unlike `getrusage`, not that of its parent."""
    told = _status("VmHWM")
    if told is not None:
        return told
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def resident_bytes(process: int | None = None) -> int:
    """What it has now, or another process; where the system does not tell, the most it had, and 0."""
    told = _status("VmRSS", "self" if process is None else str(process))
    return (peak_bytes() if process is None else 0) if told is None else told


def mapped_bytes(folder: Path) -> int:
    """Bytes of the files of a folder that this process has mapped and touched. Only Linux tells."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):  # `from-to rights offset device inode path` begins a mapping
            counts = f"{folder.resolve()}/" in rest
        elif counts and name == "Rss:":
            total += 1024 * int(rest.split()[0])
    return total


def _status(field: str, process: str = "self") -> int | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return None
