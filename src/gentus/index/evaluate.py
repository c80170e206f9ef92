"""Scoring an index: search every query of a ground truth, reading included."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from gentus.index.index import Index
from gentus.index.second_look import SearchOptions
from gentus.lake import Source, Unreadable
from gentus.metrics import GroundtruthCheck, Metrics, check, load_groundtruth, score


@dataclass(frozen=True, slots=True)
class Report:
    """An index scored: its metrics, what the ground truth lacks, and queries that could not be read."""

    metrics: Metrics
    check: GroundtruthCheck
    unreadable: dict[str, str]
    rankings: dict[str, list[str]]  # what was scored

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.metrics.to_dict(),
            "missing_queries": self.check.missing_queries,
            "missing_candidates": self.check.missing_candidates,
            "unreadable": self.unreadable,
        }


def evaluate_index(
    index: Index,
    groundtruth: str | Path,
    k: int,
    queries: Path | None = None,
    **options: Unpack[SearchOptions],
) -> Report:
    """Search every query of a ground truth, reading included, and score the answers."""
    truth = load_groundtruth(groundtruth)
    lake = index.sources()
    files: dict[str, Path | Source] = {}
    for query in truth:
        if queries is None:
            if query in lake:
                files[query] = lake[query]
        elif (queries / query).exists():
            files[query] = queries / query
    checked = check(truth, lake, files)
    rankings: dict[str, list[str]] = {}
    milliseconds: list[float] = []
    unreadable: dict[str, str] = {}
    for query, file in files.items():
        started = time.perf_counter()
        try:
            hits = index.search(file, k=k, **options)
        except Unreadable as error:
            unreadable[query] = error.reason
            continue
        milliseconds.append((time.perf_counter() - started) * 1000)
        rankings[query] = [hit.table for hit in hits]
    return Report(score(rankings, truth, k, milliseconds or None), checked, unreadable, rankings)
