r"""Patterns of cells that are numbers or dates, for DuckDB (`union.sql_macros`) and for Python.

The syntax is that of RE2; `compiled` translates what Python writes in another way.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from unicodedata import category

GAP = r"[ \x{a0}\x{202f}\x{2009}'’]"  # between groups of digits, besides point and comma
BLANKS = r"[ \x{a0}\x{202f}\x{2009}]*"
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|RUB|TRY|KRW|ZAR|kr|zł|Kč"
MONEY = rf"(?:[A-Z]{{0,3}}\p{{Sc}}|{_CODES})"
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
CLOCK = r"[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?: ?[AaPp][Mm])?"
ZONE = r" ?(?:Z|[+-]\d{2}(?::?\d{2})?)"
ISO = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"
NUMERIC = r"\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
DAY_NAMED = rf"(?i:(\d{{1,2}})(?:st|nd|rd|th)?[ .-]*({_MONTH})\.?[ ,.-]*(\d{{4}}))"
MONTH_NAMED = rf"(?i:({_MONTH})\.? *(\d{{1,2}})(?:st|nd|rd|th)?,? *(\d{{4}}))"
NAMED = rf"(?:{DAY_NAMED}|{MONTH_NAMED})"
GROUPED = r"[+-]?[1-9]\d{0,2}"
SIGN_AND_MONEY = rf"^([+-]?){BLANKS}{MONEY}{BLANKS}|{BLANKS}{MONEY}$"
PERCENT = rf"{BLANKS}%$"
NUMBERS = {  # patterns by name, and the shape of the first that matches
    "INT": (r"-?(?:0|[1-9]\d{0,14})", "int"),  # up to 15 digits: any program holds such numbers exactly
    "SIGNED": (r"\+(?:0|[1-9]\d{0,5})", "int"),  # more digits after a plus are a telephone number
    "ANY_DIGITS": (r"[+-]?\d+", "id"),
    "POINT3": (GROUPED + r"\.\d{3}", "point3"),
    "POINT": (r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d{1,3})?|[+-]?\d+[eE][+-]?\d{1,3}", "point"),
    "COMMA3": (GROUPED + r",\d{3}", "comma3"),
    "COMMA": (r"[+-]?\d*,\d+", "comma"),
    "COMMAS": (GROUPED + r"(?:,\d{3})+", "commas"),
    "COMMAS_POINT": (GROUPED + r"(?:,\d{3})+\.\d*", "commas."),
    "POINTS": (GROUPED + r"(?:\.\d{3})+", "points"),
    "POINTS_COMMA": (GROUPED + r"(?:\.\d{3})+,\d*", "points,"),
    "PHONE": (rf"\d{{3}}{GAP}\d{{3}}{GAP}\d{{3}}", "phone"),
    "SPACES": (rf"{GROUPED}(?:{GAP}\d{{3}})+", "spaces"),
    "SPACES_POINT": (rf"{GROUPED}(?:{GAP}\d{{3}})+\.\d*", "spaces."),
    "SPACES_COMMA": (rf"{GROUPED}(?:{GAP}\d{{3}})+,\d*", "spaces,"),
}


@lru_cache(maxsize=64)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern for Python."""
    plain = re.sub(r"\\x\{([0-9a-f]+)\}", lambda code: chr(int(code[1], 16)), pattern)
    return re.compile(plain.replace(r"\p{Sc}", _currencies()), re.ASCII)


@lru_cache(maxsize=1)
def _currencies() -> str:
    signs = (chr(code) for code in range(0x24, min(sys.maxunicode, 0x20D0)) if category(chr(code)) == "Sc")
    return f"[{''.join(signs)}]"
