"""Drift: whether tables that came since the fit still look like those that codes were learnt from."""

from __future__ import annotations

from typing import Any

from gentus.index.catalogue import Catalogue
from gentus.index.config import IndexConfig

FEW = 20  # of so few new tables nothing can be said
ERROR = 1.5  # advise a refit when new tables are this many times as far from their codewords as to expect,
CROWDED = 0.1  # or so many of them share their codes with others, and twice as many as at the fit,
GROWN = 1.0  # or this many have come for each that was there,
SHRUNK = 0.5  # or so many have gone


def drift(config: IndexConfig, catalogue: Catalogue) -> dict[str, Any]:
    """What came and went since the fit, beside what was there at the fit, and whether to fit anew."""
    report, fitted = config.report, config.report.tables
    facts = catalogue.drift(config.fit_sequence, report.held_out_error_p95)
    reasons = []
    if facts["added"] >= FEW:
        ratio = facts["error"] / report.held_out_error if report.held_out_error else 0.0
        if ratio > ERROR:
            reasons.append(
                f"tables added since lie {ratio:.1f} times as far from their codewords as expected"
            )
        if facts["collision_rate"] > max(CROWDED, 2 * report.codebook_statistics.collision_rate):
            reasons.append(f"{facts['collision_rate']:.0%} of the tables added since share their codes")
    if facts["added"] >= max(FEW, GROWN * fitted):
        reasons.append(f"{facts['added']:,} tables came to the {fitted:,} it was learnt from")
    if facts["removed"] >= max(FEW, SHRUNK * fitted):
        reasons.append(f"{facts['removed']:,} of the {fitted:,} tables it was learnt from are gone")
    return {**facts, "refit_advised": bool(reasons), "reasons": reasons}
