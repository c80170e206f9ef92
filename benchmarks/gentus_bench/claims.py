"""What is claimed of GenTUS, each claim in the same words whether the figures bear it out or not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gentus_bench.overview import RANKED, Lakes, Overview, Row, ours_of

RIVALS = ("Starmie-type", "TACTUS-type")  # by how their titles begin
BEST_RANK = 1.3
FASTER = 10.0
SMALLER = 20.0
Times = Mapping[str, Mapping[str, Row]]  # measured side by side: by lake and title, with ms_p50 and ms_p95


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds on a lake, or on all of them together, and the figures that say so."""

    where: str
    holds: bool
    measured: str

    @property
    def text(self) -> str:
        """Say it."""
        return f"{'Holds' if self.holds else 'Does not hold'} on {self.where}: {self.measured}."


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim and its verdicts."""

    words: str
    verdicts: list[Verdict]

    @property
    def text(self) -> str:
        """All of it in one paragraph."""
        return " ".join([f"{self.words}.", *(verdict.text for verdict in self.verdicts)])


def rank(one: Overview) -> Claim | None:
    """The average rank; None while GenTUS has none."""
    ranks = one.ranks()
    if one.ours not in ranks:
        return None
    mine = ranks[one.ours]
    measured = [
        f"{mine:.2f} among {len(ranks)} systems",
        f"by MAP, P and R together {one.ranks(RANKED)[one.ours]:.2f}",
    ]
    for name, rows in one.ranked.items():
        own = next(row["map"] for row in rows if row["title"] == one.ours)
        ahead = [row for row in rows if (row.get("map") or 0.0) > own]
        if ahead:
            told = ", ".join(
                f"{row['title']} {row['map']:.3f}" for row in sorted(ahead, key=lambda row: -row["map"])
            )
            measured.append(f"ahead of it on {name}, where it has {own:.3f}: {told}")
    words = f"The average rank of {one.ours} by MAP is at most {BEST_RANK}"
    return Claim(words, [Verdict(", ".join(one.ranked), mine <= BEST_RANK, "; ".join(measured))])


def speed(lakes: Lakes, times: Times) -> Iterator[Claim]:
    """How much faster a search is, and not worse; from times taken side by side where there are some."""
    for ours, rival, pairs in _pairs(lakes):
        verdicts = []
        for lake, mine, theirs in pairs:
            beside = times.get(lake, {})
            both = ours in beside and rival in beside
            fast, slow = (beside[ours], beside[rival]) if both else (mine, theirs)
            if not fast.get("ms_p50") or not slow.get("ms_p50"):
                continue
            ratio = slow["ms_p50"] / fast["ms_p50"]
            measured = (
                f"{_times(ratio)} times by p50 ({fast['ms_p50']:.1f} against {slow['ms_p50']:.1f} ms), "
                f"{_times(slow['ms_p95'] / fast['ms_p95'])} times by p95 ({fast['ms_p95']:.1f} against "
                f"{slow['ms_p95']:.1f} ms); MAP {mine['map']:.3f} against {theirs['map']:.3f}"
                f"{'' if both else '; not timed side by side'}"
            )
            verdicts.append(Verdict(lake, ratio >= FASTER and mine["map"] >= theirs["map"], measured))
        if verdicts:
            words = f"{ours} searches at least {FASTER:.0f} times faster than {rival}, at equal or better MAP"
            yield Claim(words, verdicts)


def size(lakes: Lakes) -> Iterator[Claim]:
    """How much smaller it is what a search needs on disk."""
    for ours, rival, pairs in _pairs(lakes):
        verdicts = []
        for lake, mine, theirs in pairs:
            if mine.get("bytes_per_table") and theirs.get("bytes_per_table"):
                ratio = theirs["bytes_per_table"] / mine["bytes_per_table"]
                measured = (
                    f"{_times(ratio)} times ({mine['bytes_per_table']:,.0f} against "
                    f"{theirs['bytes_per_table']:,.0f} bytes a table)"
                )
                verdicts.append(Verdict(lake, ratio >= SMALLER, measured))
        if verdicts:
            words = f"The artifacts of {ours} are at least {SMALLER:.0f} times smaller than those of {rival}"
            yield Claim(words, verdicts)


def _times(ratio: float) -> str:
    """One figure after the point, the rest cut off: what falls short of a claim must not look like it."""
    return f"{math.floor(10 * ratio) / 10:,.1f}"


def _pairs(lakes: Lakes) -> Iterator[tuple[str, str, list[tuple[str, Row, Row]]]]:
    """Each GenTUS beside each system that is claimed about, with their rows of every lake that has both."""
    found: dict[tuple[str, str], list[tuple[str, Row, Row]]] = {}
    for lake, rows in lakes.items():
        for mine in ours_of(rows):
            for theirs in rows:
                if theirs["title"].startswith(RIVALS) and theirs.get("map") is not None:
                    found.setdefault((mine["title"], theirs["title"]), []).append((lake, mine, theirs))
    for (ours, rival), pairs in sorted(found.items()):
        yield ours, rival, pairs
