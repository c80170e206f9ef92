"""A build by the command line in a process of its own: time and memory of the whole, and of every stage."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gentus.progress import Progress, Step
from gentus_bench.processes import Sample, watched

STARTING, BETWEEN, WRITING = "Starting", "Between stages", "Writing the index"
_SAMPLES = 400  # that are kept


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the build, by the clock that all processes share."""

    name: str
    began: float
    ended: float


def measure_build(lake: Path, index: Path) -> dict[str, Any]:
    """Run `gentus index LAKE -o INDEX --no-names`, and report what it took."""
    with tempfile.TemporaryDirectory(prefix="gentus-large-") as scratch:
        log = Path(scratch, "stages")
        command = [sys.executable, "-m", "gentus_bench.experiments.large_build", str(log), "index", str(lake)]
        began = time.monotonic()
        output, samples = watched([*command, "-o", str(index), "--no-names", "--json"])
        ended = time.monotonic()
        known = [Stage(**json.loads(line)) for line in log.read_text("utf-8").splitlines()]
    info = json.loads(output)
    size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    seconds = ended - began
    return {
        "seconds": round(seconds, 2),
        "tables": info["tables"],
        "skipped": info["skipped"],
        "tables_per_second": round(info["tables"] / seconds, 1),
        "peak_mb": _peak(samples, "all"),
        "peak_main_mb": _peak(samples, "main"),
        "stages": stage_facts(with_gaps(known, began, ended), samples),
        "levels": info["levels"],
        "codes": info["codebook_size"],
        "bytes": {**info["bytes"], "folder": size},
        "bytes_per_table": info["bytes_per_table"],
        "bytes_per_table_with_model": info["bytes_per_table_with_model"],
        "folder_bytes_per_table": round(size / max(info["tables"], 1), 1),
        "samples": [
            [round(one.when - began, 1), round(one.main / 1e6), round(one.all / 1e6)]
            for one in samples[:: 1 + len(samples) // _SAMPLES]
        ],
    }


def with_gaps(stages: Sequence[Stage], began: float, ended: float) -> list[Stage]:
    """The stages of a build, and between them the time that belongs to none."""
    every, last = [], began
    for number, stage in enumerate(stages):
        every += [Stage(BETWEEN if number else STARTING, last, stage.began), stage]
        last = stage.ended
    return [*every, Stage(WRITING, last, ended)]


def stage_facts(stages: Sequence[Stage], samples: Sequence[Sample]) -> dict[str, dict[str, float | None]]:
    """Seconds and peak memory of every stage, in order; those of the same name together."""
    facts: dict[str, dict[str, float | None]] = {}
    for name in dict.fromkeys(stage.name for stage in stages):
        same = [stage for stage in stages if stage.name == name]
        during = [one for one in samples if any(of.began <= one.when <= of.ended for of in same)]
        facts[name] = {
            "seconds": round(sum(stage.ended - stage.began for stage in same), 2),
            "peak_mb": _peak(during, "all"),
            "peak_main_mb": _peak(during, "main"),
        }
    return facts


def _peak(samples: Sequence[Sample], of: str) -> float | None:
    """The most memory in MB; None for a stage shorter than the time between samples."""
    return max((round(getattr(one, of) / 1e6, 1) for one in samples), default=None)


class _Log(Progress):
    """Writes to a file when stages begin and end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def stage(
        self, title: str, total: int | None, unit: str = "tables", effort: float | None = None
    ) -> Iterator[Step]:
        """Note it when it has ended."""
        began = time.monotonic()
        yield lambda done, effort=None: None
        with self.path.open("a", encoding="utf-8") as file:
            print(json.dumps(asdict(Stage(title, began, time.monotonic()))), file=file)


def _main() -> None:
    """The process that is measured: the command line, which logs its stages instead of showing them."""
    from gentus import progress
    from gentus.app.cli import main as cli

    log = _Log(Path(sys.argv.pop(1)))
    progress.terminal_progress = lambda lines=False: log
    cli.main()


if __name__ == "__main__":
    _main()
