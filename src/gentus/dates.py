"""Dates in the formats that people write, as days: enough to compare columns by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MONTHS = {
    name: at
    for at, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_MONTH = "|".join(_MONTHS)
_TIME = r"(?:[T ]+\d{1,2}:\d{2}.*)?"
_YMD = re.compile(rf"(?P<y>[12]\d{{3}})([-/.])(?P<m>\d{{1,2}})\2(?P<d>\d{{1,2}}){_TIME}")
_PLAIN = re.compile(r"(?P<y>1[89]\d{2}|20\d{2})(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])")
_AB_Y = re.compile(rf"(?P<a>\d{{1,2}})([-/.])(?P<b>\d{{1,2}})\2(?P<y>[12]\d{{3}}){_TIME}")
_D_MON_Y = re.compile(
    rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[ -](?P<mon>{_MONTH})[a-z]*\.?,?[ -](?P<y>\d{{4}}){_TIME}", re.I
)
_MON_D_Y = re.compile(
    rf"(?P<mon>{_MONTH})[a-z]*\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>\d{{4}}){_TIME}", re.I
)
_YM = re.compile(r"(?P<y>[12]\d{3})[-/](?P<m>0[1-9]|1[0-2])")
FORMATS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ISO dates", _YMD),
    ("dates such as 31/12/1999", _AB_Y),
    ("dates such as 31 Dec 1999", _D_MON_Y),
    ("dates such as Dec 31, 1999", _MON_D_Y),
    ("dates such as 19991231", _PLAIN),
    ("months such as 1999-12", _YM),
)
_LOOK = 16  # values by which a format is recognised
_MOSTLY = 0.8  # of them have to be dates


@dataclass(frozen=True, slots=True)
class Dates:
    """A column read as dates."""

    format: str  # for people
    days: NDArray[np.float64]  # (n,) since 1970, NaN where a value is no date


def read_dates(values: Sequence[str]) -> Dates | None:
    """Read values as dates of one format; None if most of them are none."""
    some = values[:: max(1, len(values) // _LOOK)][:_LOOK]
    for name, pattern in FORMATS:
        if sum(pattern.fullmatch(value) is not None for value in some) >= max(1, _MOSTLY * len(some)):
            if pattern is _PLAIN and len(values) < 3:
                return None  # as likely a number
            days = _days([pattern.fullmatch(value) for value in values])
            return Dates(name, days) if np.isfinite(days).mean() >= _MOSTLY else None
    return None


def _days(found: Sequence[re.Match[str] | None]) -> NDArray[np.float64]:
    """Days since 1970; which of two small numbers is the month shows where one is above 12."""
    parts = [match.groupdict() if match else None for match in found]
    day_first = not any(part and "b" in part and int(part["b"]) > 12 for part in parts)
    days = np.full(len(parts), np.nan)
    for at, part in enumerate(parts):
        if part is None:
            continue
        year, month, day = int(part["y"]), part.get("m"), part.get("d")
        if "a" in part:
            day, month = (part["a"], part["b"]) if day_first else (part["b"], part["a"])
        elif "mon" in part:
            month = str(_MONTHS[part["mon"].lower()])
        days[at] = _ordinal(year, int(month or 1), int(day or 1))
    return days


def _ordinal(year: int, month: int, day: int) -> float:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return float("nan")
    # Days of the civil calendar, by Howard Hinnant's formula: no error for the 31st of June, no limits.
    year -= month <= 2
    era, month = year // 400, (month + 9) % 12
    of_era = year - era * 400
    return float(
        era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + (153 * month + 2) // 5 + day - 719_469
    )
