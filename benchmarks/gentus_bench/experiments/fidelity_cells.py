"""Whether a cell of a union has the value that the source has, by the reading that the plan names."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gentus.align.notation import DAY_FIRST
from gentus.union.plan import FRACTION, Reading
from gentus.union.report import ColumnReport
from gentus_bench.experiments.exact_values import agrees, exact

EXAMPLES = 5
_TRUE, _FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ERROR = re.compile(r"#(NULL!|DIV/0!|VALUE!|REF!|NAME\?|NUM!|N/A)")  # of a workbook
_DIGITS = re.compile(r"[0-9]+")
_DATE = re.compile(
    r"(?P<a>\d{1,4})[-/. ]\s?(?P<m>\d{1,2}|[A-Za-z]{3,9})[-/., ]+(?P<b>\d{1,4})(?P<rest>.*)", re.DOTALL
)
_NAMED_MONTH = re.compile(r"(?P<m>[A-Za-z]{3,9})\.? (?P<a>\d{1,2}),? (?P<b>\d{4})(?P<rest>.*)", re.DOTALL)
_TIME = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*([AaPp]\.?[Mm]\.?)?\s*(.*)", re.DOTALL
)
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})?")


@dataclass(slots=True)
class Verdicts:
    """How many cells are equal, changed for a reason that the report gives, or changed in silence."""

    cells: int = 0
    changed: Counter[str] = field(default_factory=Counter)  # by reason
    silent: int = 0
    examples: list[str] = field(default_factory=list)  # of silent differences

    @property
    def equal(self) -> int:
        """Cells with the value of the source."""
        return self.cells - self.changed.total() - self.silent

    def add(self, other: Verdicts) -> None:
        """Add up."""
        self.cells += other.cells
        self.changed += other.changed
        self.silent += other.silent
        self.examples = (self.examples + other.examples)[:EXAMPLES]

    def fail(self, count: int, example: str) -> None:
        """Count silent differences."""
        self.silent += count
        if count and len(self.examples) < EXAMPLES:
            self.examples.append(example)


def compare_column(
    source: pa.ChunkedArray,
    found: pa.ChunkedArray,
    read: Reading | None,
    report: ColumnReport,
    errors: bool = False,
) -> Verdicts:
    """Compare a column of the source with that of the union, row by row.

    With `errors`, the report says that errors such as #DIV/0! are read as empty.
    """
    verdicts = Verdicts(len(source))
    reading = read or Reading()
    nulls = Counter[str]()  # values of the source that are null in the union
    for one, other in _unlike(source, found):
        if other is None:
            nulls[_text(one)] += 1
        elif not _same(one, other, reading):
            verdicts.fail(1, f"{report.into}: {one!r} became {other!r} ({report.type})")
    blanks = sum(count for value, count in nulls.items() if not value.strip())
    if blanks:
        verdicts.changed["blank"] += blanks
    told = Counter(report.taken_as_null)
    left, unexplained = report.unconverted, []
    for value, count in nulls.items():
        if not value.strip():
            continue
        if errors and _ERROR.fullmatch(value):
            verdicts.changed["error in a sheet"] += count
            continue
        by_word = min(count, max(told[value], told[value.strip()]))
        by_type = min(count - by_word, left)
        left -= by_type
        verdicts.changed["null word"] += by_word
        verdicts.changed["not converted"] += by_type
        if count > by_word + by_type:
            unexplained.append((value, count - by_word - by_type))
    for value, count in unexplained:
        verdicts.fail(count, f"{report.into}: {value[:60]!r} became null ({report.type})")
    verdicts.changed = +verdicts.changed
    return verdicts


def compare_typed(source: pa.ChunkedArray, found: pa.ChunkedArray, report: ColumnReport) -> Verdicts:
    """Compare a typed column of the source with that of the union, value by value and exactly."""
    verdicts = Verdicts(len(source))
    lost = 0
    for one, other in zip(exact(source), exact(found), strict=True):
        if one is not None and other is None:
            lost += 1
        elif (one is None) != (other is None) or (one is not None and not agrees(one, other)):
            verdicts.fail(1, f"{report.into}: {one} became {other} ({report.type})")
    words = min(lost, report.taken_as_null.total())
    counted = min(lost - words, report.unconverted)
    verdicts.changed = +Counter({"null word": words, "not converted": counted})
    verdicts.fail(lost - words - counted, f"{report.into}: {lost} values became null ({report.type})")
    return verdicts


def _unlike(source: pa.ChunkedArray, found: pa.ChunkedArray) -> Iterator[tuple[Any, Any]]:
    """The cells that are not plainly the same, as values of Python."""
    if source.type == found.type and not pa.types.is_nested(source.type):
        try:
            different = pc.fill_null(pc.not_equal(source, found), pc.xor(source.is_null(), found.is_null()))
            source, found = source.filter(different), found.filter(different)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            pass
    elif pa.types.is_large_string(source.type) or pa.types.is_string(source.type):
        written = _written(found)
        same = pc.fill_null(pc.equal(pc.cast(source, pa.large_string()), written), False)
        source, found = source.filter(pc.invert(same)), found.filter(pc.invert(same))
    for one, other in zip(source.to_pylist(), found.to_pylist(), strict=True):
        empty = one is None or one == "" or one != one
        if not (empty and (other is None or other == "" or other != other)):
            yield one, other


def _written(found: pa.ChunkedArray) -> Any:
    """Values as they are most often written; others are compared one by one."""
    try:
        return pc.cast(found, pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.nulls(len(found), pa.large_string())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _same(one: Any, other: Any, read: Reading) -> bool:
    """Whether a value of the source and one of the union are the same by value."""
    if one is None or one == "":
        return False  # something came from nothing
    if one == other and type(one) is type(other):
        return True
    if isinstance(other, str):
        return _same_text(one, other)
    if isinstance(other, bool):
        return _text(one).strip().lower() in (_TRUE if other else _FALSE)
    if isinstance(other, int | float | Decimal):
        return _same_number(one, other, read)
    if isinstance(other, datetime.datetime):
        return _instant(one, read) == _naive(other)
    if isinstance(other, datetime.date):
        return _instant(one, read) == datetime.datetime(other.year, other.month, other.day)
    return _text(one).strip() == _text(other)


def _same_text(one: Any, other: str) -> bool:
    if isinstance(one, str):
        return one == other
    if isinstance(one, bool):
        return other.lower() == str(one).lower()
    if isinstance(one, int | float | Decimal):
        return _number(other, Reading()) == Decimal(str(one))
    if isinstance(one, bytes):
        return one.decode("utf-8", "replace") == other
    if isinstance(one, list | dict):
        try:
            return bool(json.loads(other) == json.loads(json.dumps(one, default=str)))
        except ValueError:
            return False
    return str(one) == other or _instant(one, Reading()) == _instant(other, Reading())


def _same_number(one: Any, other: int | float | Decimal, read: Reading) -> bool:
    value = Decimal(str(other))
    if isinstance(one, bool):
        return Decimal(int(one)) == value
    if isinstance(one, float):
        return one == float(other)
    if isinstance(one, int | Decimal):
        return Decimal(one) == value
    text = _text(one).strip().lower()
    if read.booleans and text in _TRUE | _FALSE:
        return value == (1 if text in _TRUE else 0)
    number = _number(text, read)
    if number is None:
        return False
    if "%" in text and read.percent == FRACTION:
        number /= 100
    return number == value or (len(_digits(text)) <= 17 and float(number) == float(other))


def _digits(text: str) -> str:
    return "".join(_DIGITS.findall(text.partition("e")[0])).strip("0")


def _number(text: str, read: Reading) -> Decimal | None:
    """A number as it is written, with a currency or a percent sign, and thousands."""
    bare = re.sub(r"^(\D*?)([-+]?[\d.,(])", r"\2", text.strip()) if re.search(r"\d", text) else text
    sign = "-" if re.match(r"^\D*-", text.strip()) and not bare.startswith(("-", "(")) else ""
    bare = re.sub(r"[\s\u00a0\u202f'’_%]|[^\d.,eE+\-()]+$", "", sign + bare)
    bare = bare.replace(".", "").replace(",", ".") if read.decimal == "," else bare.replace(",", "")
    try:
        return Decimal(bare)
    except InvalidOperation:
        return None


def _naive(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def _instant(value: Any, read: Reading) -> datetime.datetime | None:
    """A date or time as it is written, in UTC where it has a zone."""
    if isinstance(value, datetime.datetime):
        return _naive(value)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    text = _text(value).strip()
    match = _NAMED_MONTH.fullmatch(text) or _DATE.fullmatch(text.replace("T", " ", 1))
    if match is None:
        return None
    first, middle, last, rest = match["a"], match["m"], match["b"], match["rest"]
    try:
        month = _MONTHS.index(middle[:3].lower()) + 1 if middle[0].isalpha() else int(middle)
        if len(first) == 4:
            day = datetime.datetime(int(first), month, int(last))
        elif middle[0].isalpha() or read.dates == DAY_FIRST or "." in text[:3]:
            day = datetime.datetime(int(last), month, int(first))
        else:
            day = datetime.datetime(int(last), int(first), int(middle))
        return _at_time(day, rest.strip())
    except ValueError:
        return None


def _at_time(day: datetime.datetime, text: str) -> datetime.datetime | None:
    if not text:
        return day
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second, fraction, half, zone = match.groups()
    hours = int(hour) % 12 + 12 * (half[0] in "pP") if half else int(hour)
    day = day.replace(hour=hours, minute=int(minute), second=int(second or 0))
    day = day.replace(microsecond=int((fraction or "0").ljust(6, "0")[:6]))
    if zone in ("", "Z", "UTC", "GMT"):
        return day
    shift = _ZONE.fullmatch(zone)
    if shift is None:
        return None
    ahead = datetime.timedelta(hours=int(shift[2]), minutes=int(shift[3] or 0))
    return day - ahead if shift[1] == "+" else day + ahead
