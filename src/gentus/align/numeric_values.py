"""The values of a column as numbers: numbers in usual notations, dates and times; with their unit.

This is for comparing columns, so it is fast and lenient. Package `union` converts values by stricter rules;
decimal mark and order of day and month are decided by the same rules (`notation`) for both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gentus.align.notation import MONTH_FIRST
from gentus.arrays import F64, I64

ValueType = Literal["number", "date", "text"]

_SAMPLE = 16  # values by which a notation is recognised
_MOSTLY = 0.8  # of them have to be dates, or have the same unit
_LARGEST = 1e300  # numbers can still be subtracted
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_TIME = r"(?:[T ]+(?P<time>\d{1,2}:\d{2}(?::\d{2})?).*)?"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_DATES = {  # a name for people, and the pattern
    "ISO dates": re.compile(rf"(?P<y>[12]\d{{3}})([-/.])(?P<m>\d{{1,2}})\2(?P<d>\d{{1,2}}){_TIME}"),
    "dates such as 5/12/1999": re.compile(
        rf"(?P<d>\d{{1,2}})([-/.])(?P<m>\d{{1,2}})\2(?P<y>[12]\d{{3}}){_TIME}"
    ),
    "dates such as 31 Dec 1999": re.compile(rf"{_DAY}[ -]{_MONTH},?[ -](?P<y>\d{{4}}){_TIME}", re.I),
    "dates such as Dec 31, 1999": re.compile(rf"{_MONTH} {_DAY},? (?P<y>\d{{4}}){_TIME}", re.I),
    "dates such as 19991231": re.compile(
        r"(?P<y>1[89]\d{2}|20\d{2})(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])"
    ),
    "months such as 1999-12": re.compile(r"(?P<y>[12]\d{3})-(?P<m>0[1-9]|1[0-2])"),
    "times such as 23:59": re.compile(r"(?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?:\.\d+)?"),
}
_AMOUNT = re.compile(
    r"(?P<sign>[-+\u2212(]?) ?(?P<before>[$€£¥]?) ?"
    r"(?P<number>[-+]?(?:\d[\d.,' \u00a0\u202f]*)?\d|[-+]?[.,]\d+)"
    r"(?P<power>[eE][-+]?\d{1,3})? ?(?P<after>%|[$€£¥]|[^\W\d_]{1,4}[²³]?(?:/[^\W\d_]{1,4}[²³]?)?)?\)?"
)
_PLAIN_MONEY = re.compile(r"(?:[$€£¥](?:\d[\d,]*)?\d(?:\.\d+)?(?:\n|$))+", re.ASCII)
_PLAIN_NUMERIC = re.compile(r"(?:\d{1,2}([-/.])\d{1,2}\1[12]\d{3}(?:\n|$))+", re.ASCII)
_DIGITS = re.compile(r"\d+")
_BLANK = re.compile(r"[' \u00a0\u202f]")


@dataclass(frozen=True, slots=True)
class NumericValues:
    """The values of a column as numbers: days since 1970 if they are dates."""

    type: ValueType
    values: F64  # (n,) NaN where a value is not of the type
    unit: str = ""  # of numbers: kg, %, $; of dates: how they are written


def parse_values(values: Sequence[str], decimal: str = ".", dates: str = MONTH_FIRST) -> NumericValues:
    """Parse the distinct values of a column, given its decimal mark and the order of day and month."""
    try:
        plain = np.fromiter(map(float, values), np.float64, len(values))
    except ValueError:
        pass
    else:
        if decimal == "," and any("." in value for value in values):  # between thousands
            return _amounts(values, decimal)
        return _compact_days(values) or _numbers(plain)
    some = values[:: max(1, len(values) // _SAMPLE)][:_SAMPLE]
    for name, pattern in _DATES.items():
        if _mostly(pattern, some):
            days = _days(values, pattern, dates)
            if np.isfinite(days).mean() >= _MOSTLY:
                return NumericValues("date", days, name)
    if any(_AMOUNT.fullmatch(value) for value in some):
        return _amounts(values, decimal)
    return NumericValues("text", np.full(len(values), np.nan))


def _mostly(pattern: re.Pattern[str], some: Sequence[str]) -> bool:
    """Whether most values match; a few that do not are sufficient to deny it."""
    left = len(some)
    for value in some:
        left -= pattern.fullmatch(value) is None
        if left < _MOSTLY * len(some):
            return False
    return True


def _compact_days(values: Sequence[str]) -> NumericValues | None:
    """Numbers of eight digits that are all dates; a few could be chance."""
    name, pattern = "dates such as 19991231", _DATES["dates such as 19991231"]
    if len(values) < 3 or len(values[0]) != 8 or not all(map(pattern.fullmatch, values)):
        return None
    return NumericValues("date", _days(values, pattern, MONTH_FIRST), name)


def _amounts(values: Sequence[str], decimal: str) -> NumericValues:
    """Numbers with thousands separators, currency, percent or units; the unit is that of most values."""
    if decimal == "." and _PLAIN_MONEY.fullmatch("\n".join(values)) and len({one[0] for one in values}) == 1:
        plain_money = (float(value[1:].replace(",", "")) for value in values)
        return _numbers(np.fromiter(plain_money, np.float64, len(values)), values[0][0])
    found = [_AMOUNT.fullmatch(value) for value in values]
    units = Counter(match["before"] + (match["after"] or "") for match in found if match)
    unit, times = units.most_common(1)[0]
    if times < max(_MOSTLY * units.total(), len(values) / 2):
        unit = ""
    plain = str.maketrans(",.", ". ") if decimal == "," else str.maketrans(",", " ")
    read = np.full(len(values), np.nan)
    for at, match in enumerate(found):
        if match and match["before"] + (match["after"] or "") in ("", unit):
            text = _BLANK.sub("", match["number"].translate(plain)) + (match["power"] or "")
            try:
                number = float(text)
            except ValueError:  # several decimal points: a version, an address
                continue
            read[at] = -number if match["sign"] in ("-", "(", "\u2212") else number
    return _numbers(read, unit)


def _numbers(values: F64, unit: str = "") -> NumericValues:
    """Numbers that are too large are NaN."""
    small = np.abs(values) < _LARGEST
    if not small.any():
        return NumericValues("text", np.full(len(values), np.nan))
    return NumericValues("number", np.where(small, values, np.nan), unit)


def _days(values: Sequence[str], pattern: re.Pattern[str], dates: str) -> F64:
    """(n,) days since 1970, with the time of day as a fraction; NaN if a value is not a date."""
    if pattern is _DATES["ISO dates"]:
        try:
            seconds = np.array([value[:19] for value in values], "datetime64[s]")  # without the zone
            return seconds.astype(np.float64) / 86_400
        except ValueError:  # one of them is written otherwise
            pass
    numeric = pattern is _DATES["dates such as 5/12/1999"]
    if numeric and _PLAIN_NUMERIC.fullmatch(text := "\n".join(values)):  # without times
        three = np.fromiter(map(int, _DIGITS.findall(text)), np.int64).reshape(-1, 3)
        first, second, year = three.T
        return _as_days(year, *((first, second) if dates == MONTH_FIRST else (second, first)))
    parts = [match.groupdict() if (match := pattern.fullmatch(value)) else {} for value in values]
    count = len(parts)
    year = np.fromiter((int(part.get("y") or 1970) for part in parts), np.int64, count)
    month = np.fromiter((_month(part) for part in parts), np.int64, count)
    day = np.fromiter((int(part.get("d") or 1) for part in parts), np.int64, count)
    if numeric and dates == MONTH_FIRST:
        month, day = day, month
    time = np.fromiter((_seconds(part.get("time")) for part in parts), np.float64, count)
    days = _as_days(year, month, day) + time / 86_400
    return np.where(np.fromiter(map(bool, parts), bool, count), days, np.nan)


def _as_days(year: I64, month: I64, day: I64) -> F64:
    """(n,) days since 1970; NaN if there is no such month or day."""
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    return np.where(good, months.astype("datetime64[D]").astype(np.float64) + day - 1, np.nan)


def _month(part: dict[str, str | None]) -> int:
    named = part.get("month")
    return _MONTHS.index(named.lower()) + 1 if named else int(part.get("m") or 1)


def _seconds(time: str | None) -> float:
    if not time:
        return 0.0
    hours, minutes, *seconds = map(int, time.split(":"))
    return 3600.0 * hours + 60 * minutes + sum(seconds)
