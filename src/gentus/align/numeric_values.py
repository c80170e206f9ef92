"""The values of a column as numbers: numbers in usual notations, dates and times; with their unit.

This is for comparing columns, so it is fast and lenient. Package `union` converts values by stricter rules;
from the cells of a column, both take the same decimal mark, and the same order of day and month.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

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
_BLANK = re.compile(r"[' \u00a0\u202f]")
_MARKED = (  # a number with one reading: a fraction that is no thousand, groups before it, or several groups
    r"[-+]?(?:(?![1-9]\d{{0,2}}{mark}\d{{3}}$)\d*{mark}\d+"
    r"|\d{{1,3}}(?:(?:{other}\d{{3}})+|(?:[' \u00a0\u202f]\d{{3}})+){mark}\d*"
    r"|\d{{1,3}}(?:{other}\d{{3}}){{2,}})"
)
_COMMA = re.compile(_MARKED.format(mark=",", other=r"\."))  # only a decimal comma
_POINT = re.compile(_MARKED.format(mark=r"\.", other=","))  # only a decimal point


@dataclass(frozen=True, slots=True)
class NumericValues:
    """The values of a column as numbers: days since 1970 if they are dates."""

    type: ValueType
    values: F64  # (n,) NaN where a value is not of the type
    unit: str = ""  # of numbers: kg, %, $; of dates: how they are written


def parse_values(values: Sequence[str]) -> NumericValues:
    """Parse the distinct values of a column by the notation that most of them have."""
    try:
        plain = np.fromiter(map(float, values), np.float64, len(values))
    except ValueError:
        pass
    else:
        return _compact_days(values) or _numbers(plain)
    some = values[:: max(1, len(values) // _SAMPLE)][:_SAMPLE]
    for name, pattern in _DATES.items():
        if sum(pattern.fullmatch(value) is not None for value in some) >= _MOSTLY * len(some):
            days = _days(values, pattern)
            if np.isfinite(days).mean() >= _MOSTLY:
                return NumericValues("date", days, name)
    if any(_AMOUNT.fullmatch(value) for value in some):
        return _amounts(values)
    return NumericValues("text", np.full(len(values), np.nan))


def _compact_days(values: Sequence[str]) -> NumericValues | None:
    """Numbers of eight digits that are all dates; a few could be chance."""
    name, pattern = "dates such as 19991231", _DATES["dates such as 19991231"]
    if len(values) < 3 or len(values[0]) != 8 or not all(map(pattern.fullmatch, values)):
        return None
    return NumericValues("date", _days(values, pattern), name)


def _amounts(values: Sequence[str]) -> NumericValues:
    """Numbers with thousands separators, currency, percent or units; the unit is that of most values."""
    found = [_AMOUNT.fullmatch(value) for value in values]
    units = Counter(match["before"] + (match["after"] or "") for match in found if match)
    unit, times = units.most_common(1)[0]
    if times < max(_MOSTLY * units.total(), len(values) / 2):
        unit = ""
    numbers = [match["number"] for match in found if match]
    comma = sum(map(bool, map(_COMMA.fullmatch, numbers))) > sum(map(bool, map(_POINT.fullmatch, numbers)))
    plain = str.maketrans(",.", ". ") if comma else str.maketrans(",", " ")
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


def _days(values: Sequence[str], pattern: re.Pattern[str]) -> F64:
    """(n,) days since 1970, with the time of day as a fraction; NaN if a value is not a date."""
    if pattern is _DATES["ISO dates"]:
        try:
            seconds = np.array([value[:19] for value in values], "datetime64[s]")  # without the zone
            return seconds.astype(np.float64) / 86_400
        except ValueError:  # one of them is written otherwise
            pass
    parts = [match.groupdict() if (match := pattern.fullmatch(value)) else {} for value in values]
    count = len(parts)
    year = np.fromiter((int(part.get("y") or 1970) for part in parts), np.int64, count)
    month = np.fromiter((_month(part) for part in parts), np.int64, count)
    day = np.fromiter((int(part.get("d") or 1) for part in parts), np.int64, count)
    if pattern is _DATES["dates such as 5/12/1999"] and _month_first(values, day, month):
        month, day = day, month
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    good &= np.fromiter(map(bool, parts), bool, count)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.float64) + day - 1
    time = np.fromiter((_seconds(part.get("time")) for part in parts), np.float64, count)
    return np.where(good, days + time / 86_400, np.nan)


def _month_first(values: Sequence[str], first: I64, second: I64) -> bool:
    """Whether the month comes first: a number above 12 is the day; else with points the day comes first."""
    day_first, month_first = (first > 12).sum(), (second > 12).sum()
    if day_first or month_first:
        return bool(month_first >= day_first)
    open_ones = [value for value, equal in zip(values, first == second, strict=True) if not equal]
    dotted = sum(value.lstrip("0123456789").startswith(".") for value in open_ones)
    return 2 * dotted <= len(open_ones)


def _month(part: dict[str, str | None]) -> int:
    named = part.get("month")
    return _MONTHS.index(named.lower()) + 1 if named else int(part.get("m") or 1)


def _seconds(time: str | None) -> float:
    if not time:
        return 0.0
    hours, minutes, *seconds = map(int, time.split(":"))
    return 3600.0 * hours + 60 * minutes + sum(seconds)
