r"""SQL macros that DuckDB runs over every cell: the shape of a cell, and its text as a number or a date.

The shape of a cell is a short text: `n:$:commas.` for $1,200.50 (a number, its currency, how digits are
grouped), `d:either/:` for 3/4/2020 (a date, the order of day and month, whether a time follows), `b:yes:`,
`e:N/A:` for a word that may stand for a missing value, or `t::` for text. Types are inferred from the
counts of shapes; see `type_inference`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gentus.align.cell_patterns import (
    BLANKS,
    CLOCK,
    DAY_NAMED,
    GAP,
    GROUPED,
    ISO,
    MONEY,
    MONTH_NAMED,
    NAMED,
    NUMBERS,
    NUMERIC,
    PERCENT,
    SIGN_AND_MONEY,
    ZONE,
)
from gentus.lake.formats.typed import literal
from gentus.table import NULL_WORDS

if TYPE_CHECKING:
    import duckdb

TRUE, FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_WHITE = "[{}]".format(  # what `str.strip` takes away
    "".join(rf"\x{{{code:x}}}" for code in range(0x3001) if chr(code).isspace())
)

_PATTERNS = {  # every $NAME in the SQL below
    **{name: pattern for name, (pattern, _) in NUMBERS.items()},
    "CENTS": r"-?\d+\.\d{1,2}",  # the commonest fractions, which cannot be thousands
    "WITH_COMMA": r"[+-]?(?:\d*,\d+|\d+,)",
    "GROUPED_COMMA": rf"{GROUPED}(?:(?:\.\d{{3}})+|(?:{GAP}\d{{3}})+)(?:,\d*)?",
    "WITH_POINT": r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?",
    "GROUPED_POINT": rf"{GROUPED}(?:(?:,\d{{3}})+|(?:{GAP}\d{{3}})+)(?:\.\d*)?",
    "POINTS_AND_GAPS": rf"\.|{GAP}",
    "COMMAS_AND_GAPS": rf",|{GAP}",
    "MONEY": MONEY,
    "MONEY_AT_AN_END": rf"^[+−-]?{BLANKS}{MONEY}|{MONEY}$",
    "SIGN_AND_MONEY": SIGN_AND_MONEY,
    "PERCENT": PERCENT,
    "ISO_ZONE": ISO + CLOCK + ZONE,
    "PLAIN_DATE": r"\d{4}-\d{2}-\d{2}",
    "PLAIN_STAMP": r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}:\d{2})?",
    "NUMERIC": f"{NUMERIC}(?:{CLOCK})?",
    "LIKE_A_DATE": rf"^(?:\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d|{NAMED})",
    "DATE": rf"(?:{ISO}|{NUMERIC}|{NAMED})(?:{CLOCK})?",
    "BEGINS_YEAR": r"^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})",
    "BEGINS_NUMERIC": r"^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})",
    "BEGINS_DAY": f"^{DAY_NAMED}",
    "BEGINS_MONTH": f"^{MONTH_NAMED}",
    "FIRST_NUMBER": r"^\d+",
    "SECOND_NUMBER": r"^\d+[-/.](\d+)",
    "FIRST_POINT": r"^\d+\.",
    "NOON": r"(?i)[ap]m$",
    "LETTERS": r"[A-Za-z]{3}",
    "MONTH_NAME": r"([A-Za-z]{3})[a-z]* ",
    "BOOLEAN": f"(?i:{'|'.join(TRUE + FALSE)})",
    "NULL_WORD": f"(?i:{'|'.join(map(re.escape, sorted(NULL_WORDS)))})",
    "DIGIT": r"\d",
    "WHITE_END": f"^{_WHITE}|{_WHITE}$",
    "WHITE_ENDS": f"^{_WHITE}+|{_WHITE}+$",
    "LIKE_A_NUMBER": r"[^\pL]*(?:\pL{1,3}[^\pL]*)?",  # at most a short word, such as a currency
}
_CLOCKS = ["", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %I:%M%p", " %I:%M:%S%p"]

_MACROS = {
    # A cell without blanks around it; most have none, and replacing is slow.
    "gentus_trimmed(x)": """
        CASE WHEN regexp_matches(x, $WHITE_END) THEN regexp_replace(x, $WHITE_ENDS, '', 'g') ELSE x END""",
    # A number without currency, percent sign and typographic minus.
    "gentus_bare(x)": r"""
        regexp_replace(regexp_replace(replace(x, '−', '-'), $SIGN_AND_MONEY, '\1'), $PERCENT, '')""",
    "gentus_number_shape(x)": "CASE {} END".format(
        " ".join(f"WHEN regexp_full_match(x, ${name}) THEN '{shape}'" for name, (_, shape) in NUMBERS.items())
    ),
    # Digits, a decimal point and an exponent: what a cast takes. Null for what is no number.
    "gentus_digits(x, comma)": """CASE
        WHEN regexp_full_match(x, $ANY_DIGITS) THEN x
        WHEN comma AND regexp_full_match(x, $WITH_COMMA) THEN replace(x, ',', '.')
        WHEN comma AND regexp_full_match(x, $GROUPED_COMMA)
            THEN replace(regexp_replace(x, $POINTS_AND_GAPS, '', 'g'), ',', '.')
        WHEN comma THEN NULL
        WHEN regexp_full_match(x, $WITH_POINT) THEN x
        WHEN regexp_full_match(x, $GROUPED_POINT) THEN regexp_replace(x, $COMMAS_AND_GAPS, '', 'g')
        END""",
    # A date as year, month and day; where the month has a name, as day, month and year.
    "gentus_normal(x, day_first)": r"""CASE
        WHEN regexp_matches(x, $BEGINS_YEAR) THEN regexp_replace(x, $BEGINS_YEAR, '\1-\2-\3')
        WHEN regexp_matches(x, $BEGINS_NUMERIC) THEN CASE
            WHEN day_first THEN regexp_replace(x, $BEGINS_NUMERIC, '\3-\2-\1')
            ELSE regexp_replace(x, $BEGINS_NUMERIC, '\3-\1-\2') END
        WHEN regexp_matches(x, $BEGINS_DAY) THEN regexp_replace(x, $BEGINS_DAY, '\1 \2 \3')
        ELSE regexp_replace(x, $BEGINS_MONTH, '\2 \1 \3') END""",
    "gentus_stamp(x, day_first)": r"""CASE
        WHEN regexp_full_match(x, $PLAIN_STAMP) THEN TRY_CAST(x AS TIMESTAMP)
        WHEN NOT regexp_full_match(x, $DATE) THEN NULL
        WHEN regexp_matches(x, $LETTERS) THEN try_strptime(
            regexp_replace(gentus_normal(x, day_first), $MONTH_NAME, '\1 '), $NAMED_FORMATS)
        WHEN regexp_matches(x, $NOON) THEN try_strptime(gentus_normal(x, day_first), $NOON_FORMATS)
        ELSE TRY_CAST(gentus_normal(x, day_first) AS TIMESTAMP) END""",
    "gentus_zoned(x, day_first)": """CASE
        WHEN regexp_full_match(x, $ISO_ZONE) THEN TRY_CAST(gentus_normal(x, day_first) AS TIMESTAMPTZ)
        ELSE CAST(gentus_stamp(x, day_first) AS TIMESTAMPTZ) END""",
    # The order of day and month in a date of three numbers, as far as this one tells it.
    "gentus_order(x)": """CASE
        WHEN CAST(regexp_extract(x, $FIRST_NUMBER) AS INT) > 12
            THEN CASE WHEN regexp_matches(x, $FIRST_POINT) THEN 'day.' ELSE 'day' END
        WHEN CAST(regexp_extract(x, $SECOND_NUMBER, 1) AS INT) > 12 THEN 'month'
        WHEN CAST(regexp_extract(x, $FIRST_NUMBER) AS INT) = CAST(regexp_extract(x, $SECOND_NUMBER, 1) AS INT)
            THEN 'any'
        WHEN regexp_matches(x, $FIRST_POINT) THEN 'either.'
        ELSE 'either/' END""",
    # A date by both orders of day and month, and with a zone, each null if it is none in that way.
    "gentus_date_shape(x, day_first, month_first, zoned)": """CASE
        WHEN zoned IS NOT NULL AND regexp_full_match(x, $ISO_ZONE) THEN 'd:any:zone'
        WHEN day_first IS NULL AND month_first IS NULL THEN NULL
        ELSE CASE WHEN regexp_full_match(x, $NUMERIC) THEN 'd:' || gentus_order(x) ELSE 'd:any' END
            || CASE WHEN contains(x, ':') THEN ':time' ELSE ':' END
        END""",
    "gentus_dressed_shape(x, bare)": """CASE
        WHEN suffix(x, '%') THEN 'n:%:' || gentus_number_shape(bare)
        WHEN regexp_matches(x, $MONEY_AT_AN_END)
            THEN 'n:' || regexp_extract(x, $MONEY) || ':' || gentus_number_shape(bare)
        ELSE 'n::' || gentus_number_shape(bare) END""",
    "gentus_is_boolean(x)": "regexp_full_match(x, $BOOLEAN)",
    "gentus_is_null_word(x)": "strlen(x) <= 4 AND regexp_full_match(x, $NULL_WORD)",
    "gentus_plain_date(x)": "regexp_full_match(x, $PLAIN_DATE) AND TRY_CAST(x AS DATE) IS NOT NULL",
    "gentus_like_a_date(x)": "regexp_matches(x, $LIKE_A_DATE) AND NOT gentus_plain_date(x)",
    # A cell of the same shape with fewer different digits: of dates all of them matter, else 0 and 1 do.
    "gentus_form(x)": """
        CASE WHEN regexp_matches(x, $LIKE_A_DATE) THEN x ELSE translate(x, '3456789', '2222222') END""",
    "gentus_shape(x, date_shape, number_shape)": """CASE
        WHEN x IS NULL THEN NULL
        WHEN x = '0' OR x = '1' THEN 'n::bit'
        WHEN regexp_full_match(x, $INT) THEN 'n::int'
        WHEN regexp_full_match(x, $CENTS) THEN 'n::point'
        WHEN NOT regexp_matches(x, $DIGIT)
            THEN CASE WHEN gentus_is_boolean(x) THEN 'b:' || lower(x) || ':'
                WHEN gentus_is_null_word(x) THEN 'e:' || x || ':' ELSE 't::' END
        WHEN gentus_plain_date(x) THEN 'd:any:'
        WHEN gentus_like_a_date(x) THEN coalesce(date_shape, 't::')
        WHEN regexp_full_match(x, $LIKE_A_NUMBER) THEN coalesce(number_shape, 't::')
        ELSE 't::' END""",
}


def literals(some: Iterable[str]) -> str:
    """Quote texts for SQL, with commas between them."""
    return ", ".join(map(literal, some))


def is_one_of(text: str, some: Iterable[str]) -> str:
    """Whether a text is one of some words, without regard to case; they have no special signs of patterns.

    DuckDB turns an IN into a join, which loses the order, and a list into thousands of copies.
    """
    return f"regexp_full_match({text}, {literal(f'(?i:{chr(124).join(some)})')})"


def is_any(text: str, some: Iterable[str]) -> str:
    """Whether a text is one of some others, exactly."""
    return f"({' OR '.join(['false', *(f'{text} = {literal(one)}' for one in some)])})"


def define_macros(duck: duckdb.DuckDBPyConnection) -> None:
    """Define the macros that the expressions of `convert` use."""
    for sql in macros_sql().values():
        duck.execute(sql)


def macros_sql() -> dict[str, str]:
    """The statements that define the macros, by their names; each uses only those before it."""
    return {
        signature.partition("(")[0]: f"CREATE OR REPLACE TEMP MACRO {signature} AS"
        f" {re.sub(r'[$]([A-Z_0-9]+)', _value, body)}"
        for signature, body in _MACROS.items()
    }


def _value(name: re.Match[str]) -> str:
    lists = {
        "NAMED_FORMATS": f"[{literals([f'%d %b %Y{clock}' for clock in _CLOCKS])}]",
        "NOON_FORMATS": f"[{literals([f'%Y-%m-%d{clock}' for clock in _CLOCKS[4:]])}]",
    }
    return lists[name[1]] if name[1] in lists else literal(_PATTERNS[name[1]])
