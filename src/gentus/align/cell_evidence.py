"""What the sampled cells of a column show of its notations, as a union finds it from all cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gentus.align.cell_patterns import (
    CLOCK,
    ISO,
    NAMED,
    NUMBERS,
    NUMERIC,
    PERCENT,
    SIGN_AND_MONEY,
    ZONE,
    compiled,
)
from gentus.align.notation import COMMA, OPEN, POINT, Evidence
from gentus.table import NULL_WORDS

_NUMBERS = [(compiled(pattern), shape) for pattern, shape in NUMBERS.values()]
_ANY_NUMBER = compiled("|".join(f"(?:{pattern})" for pattern, _ in NUMBERS.values()))
_DIGIT = re.compile(r"\d")
_DATE = compiled(rf"(?:{ISO}|{NUMERIC}|{NAMED})(?:{CLOCK}(?:{ZONE})?)?")
_NUMERIC = compiled(rf"(\d{{1,2}})([-/.])(\d{{1,2}})[-/.]\d{{4}}(?:{CLOCK})?")
_MONEY, _PERCENT = compiled(SIGN_AND_MONEY), compiled(PERCENT)
_MONTHS, _DAYS = 12, 31
_INNER, _ONES = re.compile(r"(?<=\d)\d", re.ASCII), str.maketrans("23456789", "1" * 8)
_SAMPLE = 16  # values that show whether a column has any numbers or dates
_MARK = re.compile(r"[.,]\d|\d[-/.,'’\s]")  # without one, no cell can be read in two ways
_PLAIN_DATES = re.compile(r"(?:\d{4}-\d\d-\d\d(?:\n|$))+")
_PLAIN_NUMBERS = re.compile(r"(?:-?(?:0|[1-9]\d{0,14})(?:\.\d+)?(?:\n|$))+")
_FRACTION = re.compile(r"^(?!-?[1-9]\d{0,2}\.\d{3}$).*\.", re.M)
_POINT3 = re.compile(r"^-?[1-9]\d{0,2}\.\d{3}$", re.M)


def cell_evidence(values: Sequence[str], counts: Iterable[float]) -> Evidence:
    """The evidence of distinct values, given how often each occurs; most columns plainly have none."""
    text = "\n".join(values)
    if not _MARK.search(text) or _PLAIN_DATES.fullmatch(text):
        return Evidence()
    if _PLAIN_NUMBERS.fullmatch(text):  # whole numbers and fractions with a point
        fractions = sum(1 for _ in _FRACTION.finditer(text))
        return Evidence(point=fractions, open_numbers=_POINT3.search(text) is not None, typed=True)
    some = values[:: max(1, len(values) // _SAMPLE)][:_SAMPLE]
    if all(shape == "text" for shape in map(_shape, some, _forms(some))):
        return Evidence()
    shapes: Counter[str] = Counter()
    for value, form, count in zip(values, _forms(values), counts, strict=True):
        if value.lower() not in NULL_WORDS:
            shapes[_shape(value, form)] += int(count)
    numbers, dates = (any(shape.startswith(kind) for shape in shapes) for kind in ("n:", "d:"))
    slashes, points = shapes["d:either/"], shapes["d:either."]
    return Evidence(
        sum(shapes[f"n:{one}"] for one in POINT),
        sum(shapes[f"n:{one}"] for one in COMMA),
        shapes["d:month"],
        shapes["d:day"] + shapes["d:day."],
        any(shapes[f"n:{one}"] for one in OPEN),
        slashes + points > 0,
        (numbers != dates) and not shapes["text"],
        shapes["d:day."] + points > 0,
        points > slashes,
    )


def _forms(values: Sequence[str]) -> list[str]:
    """Values with few different digits, which are of the same shape: patterns see no more of most digits."""
    text = "\n".join(values)
    forms = _INNER.sub("0", text).translate(_ONES).split("\n")
    return forms if len(forms) == len(values) else list(values)


def _shape(value: str, form: str) -> str:
    """The shape of a value; of dates such as 3/4/2020 the digits matter."""
    return (_date(value) or _number(value) or "text") if (shape := _form_shape(form)) == "" else shape


@lru_cache(maxsize=65_536)
def _form_shape(form: str) -> str:
    """The shape of all values of a form; empty if they differ."""
    return "" if _NUMERIC.fullmatch(form) else _date(form) or _number(form) or "text"


def _number(value: str) -> str:
    """How the digits of a number are grouped; empty for what is no number."""
    if not _DIGIT.search(value):
        return ""
    bare = _PERCENT.sub("", _MONEY.sub(lambda found: found[1] or "", value.replace("−", "-"), 1), 1)
    if not _ANY_NUMBER.fullmatch(bare):
        return ""
    return next(f"n:{shape}" for pattern, shape in _NUMBERS if pattern.fullmatch(bare))


def _date(value: str) -> str:
    """The order of day and month of a date as far as it tells it; empty for what is no date."""
    numeric = _NUMERIC.fullmatch(value)
    if numeric is None:
        return "d:any" if _DATE.fullmatch(value) else ""
    first, second, dot = int(numeric[1]), int(numeric[3]), "." if numeric[2] == "." else ""
    if not (0 < min(first, second) <= _MONTHS and max(first, second) <= _DAYS):
        return ""
    if first > _MONTHS:
        return f"d:day{dot}"
    if second > _MONTHS:
        return "d:month"
    return "d:any" if first == second else f"d:either{dot or '/'}"
