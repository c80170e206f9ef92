"""Delimited text as people publish it, made with known truth: the table inside is known cell by cell.

The folder is laid out as Pollock's: `csv/` has the files, `clean/` the tables in them, `parameters/` dialect,
encoding and how many lines stand above and below the table.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

Row = list[str]

# By encoding, words of a language that is written in it.
WORDS = {
    "utf-8": "Berlin Paris Lisbon Oslo Madrid Dublin Vienna Warsaw Prague Athens Rome Bern Turin Lyon Porto",
    "cp1252": "Köln Genève São Málaga Århus Zürich Besançon Düren Gijón Évora Nîmes Lübeck Orléans Tromsø",
    "cp1250": "Łódź Kraków Gdańsk Poznań Wrocław Częstochowa Rzeszów Toruń Białystok Elbląg Żory Świdnica",
    "iso8859-2": "Plzeň České Budějovice Kroměříž Děčín Jičín Třebíč Uherské Hradiště Žďár Přerov Šumperk",
    "cp1251": "Москва Новгород Казань Самара Омск Уфа Пермь Воронеж Саратов Тверь Ижевск Барнаул Рязань",
    "koi8-r": "Москва Новгород Казань Самара Омск Уфа Пермь Воронеж Саратов Тверь Ижевск Барнаул Рязань",
    "cp1253": "Αθήνα Θεσσαλονίκη Πάτρα Ηράκλειο Λάρισα Βόλος Ιωάννινα Χανιά Καβάλα Σέρρες Κατερίνη Ρόδος",
    "cp1254": "İstanbul Ankara İzmir Eskişehir Diyarbakır Şanlıurfa Muğla Balıkesir Kırıkkale Çanakkale",
    "cp1255": "ירושלים חיפה אשדוד נתניה חולון רחובות אשקלון הרצליה רמלה נהריה עכו טבריה צפת אילת נצרת",
    "cp1256": "القاهرة الرياض بغداد دمشق بيروت عمان الدوحة مسقط صنعاء الخرطوم طرابلس تونس الجزائر الرباط",
    "shift_jis": "東京 大阪 名古屋 札幌 福岡 神戸 京都 仙台 広島 さいたま 新潟 浜松 熊本 岡山 ソウル",
    "euc_jp": "東京 大阪 名古屋 札幌 福岡 神戸 京都 仙台 広島 さいたま 新潟 浜松 熊本 岡山 つくば",
    "gb18030": "北京 上海 广州 深圳 成都 杭州 武汉 西安 重庆 南京 天津 苏州 长沙 郑州 青岛 沈阳 宁波",
    "big5": "臺北 高雄 臺中 臺南 新竹 基隆 嘉義 桃園 花蓮 屏東 宜蘭 彰化 雲林 苗栗 南投 澎湖 金門",
    "euc_kr": "서울 부산 인천 대구 대전 광주 울산 수원 창원 고양 용인 성남 청주 전주 천안 안산 김해",
    "utf-16": "Łódź Paris Αθήνα Москва 東京 Köln Oslo Brno Genève Wien Praha Roma Bern Torino Lyon Porto",
    "utf-8-sig": "Łódź Paris Αθήνα Москва 東京 Köln Oslo Brno Genève Wien Praha Roma Bern Torino Lyon Porto",
}
_NAMES = {  # of columns, by what is in them
    "number": ("amount", "population", "price", "sales", "weight", "height", "revenue", "units", "visits"),
    "date": ("date", "updated", "opened", "founded"),
    "code": ("code", "product id", "station", "reference", "sku"),
    "word": ("city", "region", "place", "district", "office"),
    "text": ("remark", "description", "comment", "address"),
    "share": ("share", "growth", "rate", "change"),
}
_UNITS = {"number": "kg m EUR km t", "share": "% % ‰", "date": "dd.mm", "code": "-", "word": "", "text": ""}
_TITLES = (
    "Quarterly report",
    "Statistics of the regions, preliminary figures, second edition",
    "Source: Office for Statistics",
    "Generated on 2024-03-18 by export tool 4.2",
    "Table 3: values by place",
    "All figures without warranty; see the notes",
    "Reporting period: January to March 2024",
    "Contact: data@example.org",
)
_NOTES = (
    "Source: Office for Statistics, own calculations",
    "Note: figures are preliminary and may change.",
    "* estimated",
    "(c) 2024 Example Office. All rights reserved.",
    "Last updated: 18 March 2024",
    "Values below three are not shown to protect privacy",
)


@dataclass(slots=True)
class Messy:
    """A file, and the table that is in it."""

    header: list[Row]  # rows of it; none: there is no header
    rows: list[Row]
    kinds: Row  # of the columns
    above: list[str] = field(default_factory=list)  # lines
    below: list[str] = field(default_factory=list)
    within: dict[int, str] = field(default_factory=dict)  # lines before a row
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    quoting: int = csv.QUOTE_MINIMAL
    encoding: str = "utf-8"
    end: str = "\n"
    rewrite: Callable[[list[str]], list[str]] | None = None  # of the lines of the body

    @property
    def names(self) -> Row:
        """The header as one row."""
        return [" ".join(filter(None, cells)) for cells in zip(*_filled(self.header), strict=True)]

    def text(self) -> str:
        """The file."""
        body = [self._line(row) for row in self.rows]
        body = self.rewrite(body) if self.rewrite else body
        for at, line in sorted(self.within.items(), reverse=True):
            body.insert(at, line)
        lines = [*self.above, *map(self._line, self.header), *body, *self.below]
        return "".join(line + self.end for line in lines)

    def _line(self, row: Row) -> str:
        out = io.StringIO()
        csv.writer(
            out,
            delimiter=self.delimiter,
            quotechar=self.quote,
            quoting=self.quoting,  # type: ignore[arg-type]
            escapechar=self.escape or None,
            doublequote=not self.escape,
            lineterminator="",
        ).writerow(row)
        return out.getvalue()


def _filled(header: list[Row]) -> list[Row]:
    """Rows of a header with the cells of merged ones repeated, all but those of the last row."""
    filled = []
    for number, row in enumerate(header):
        last, cells = "", []
        for cell in row:
            last = cell or (last if number + 1 < len(header) else "")
            cells.append(last)
        filled.append(cells)
    return filled


def make_messy(out: Path, per_shape: int, seed: int = 0) -> int:
    """Write files of every shape; returns how many. The same seed gives the same files."""
    for folder in ("csv", "clean", "parameters"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for shape, change in SHAPES.items():
        for number in range(per_shape):
            rng = random.Random(f"{shape} {number} {seed}")
            made = change(_table(rng, shape), rng)
            _write(out, f"{shape}_{number:03}.csv", shape, made)
    return len(SHAPES) * per_shape


def _write(out: Path, name: str, shape: str, made: Messy) -> None:
    (out / "csv" / name).write_bytes(made.text().encode(made.encoding))
    with (out / "clean" / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([made.names, *made.rows])
    facts = {
        "shape": shape,
        "encoding": made.encoding,
        "delimiter": made.delimiter,
        "quotechar": made.quote,
        "escapechar": made.escape or made.quote,
        "header_lines": len(made.header),
        "preamble_lines": len(made.above),
        "footnote_lines": len(made.below),
        "column_names": made.names,
    }
    (out / "parameters" / f"{name}_parameters.json").write_text(json.dumps(facts, indent=1))


# --- tables ---------------------------------------------------------------------------------------------


def _table(rng: random.Random, shape: str) -> Messy:
    encoding = "utf-8"
    if shape == "encoding":
        encoding = rng.choice([name for name in WORDS if name != "utf-8"])
    width = rng.randint(3, 9)
    kinds = ["word", "number", *rng.choices(list(_NAMES), k=width - 2)]
    rng.shuffle(kinds)
    names: list[str] = []
    taken: set[str] = set()
    style = rng.choice((str.lower, str.title, str.upper, lambda name: name.replace(" ", "_")))
    for kind in kinds:
        name = style(rng.choice(_NAMES[kind]))
        names.append(name if name not in taken else f"{name} {len(names)}")
        taken.add(names[-1])
    words = WORDS[encoding].split()
    rows = [[_cell(kind, rng, words) for kind in kinds] for _ in range(rng.randint(5, 60))]
    return Messy(
        [names],
        rows,
        kinds,
        delimiter=rng.choice(",,,;;\t|"),
        encoding=encoding,
        end=rng.choice(("\n", "\n", "\r\n")),
    )


def _cell(kind: str, rng: random.Random, words: list[str]) -> str:
    if rng.random() < 0.04 and kind not in ("word", "code"):
        return ""
    match kind:
        case "number":
            return str(rng.randint(1, 90_000))
        case "share":
            return f"{rng.uniform(-20, 80):.1f}"
        case "date":
            return f"{rng.randint(2015, 2024)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        case "code":
            return f"{rng.choice('ABCX')}{rng.choice('KLMN')}-{rng.randint(100, 9999)}"
        case "word":
            return rng.choice(words)
    some = [rng.choice(words) for _ in range(rng.randint(1, 4))]
    glue = rng.choice((" ", ", ", " and ", "; "))
    return glue.join(some) + rng.choice(("", "", ' "new"', "!", " 5"))


# --- shapes ---------------------------------------------------------------------------------------------


def _plain(made: Messy, rng: random.Random) -> Messy:
    return made


def _quoted(made: Messy, rng: random.Random) -> Messy:
    return replace(made, quoting=csv.QUOTE_ALL)


def _single_quoted(made: Messy, rng: random.Random) -> Messy:
    return replace(_quoted(made, rng), quote="'", rows=[[_no_double(c) for c in r] for r in made.rows])


def _no_double(cell: str) -> str:
    return cell.replace('"', "'")


def _escaped(made: Messy, rng: random.Random) -> Messy:
    rows = [list(row) for row in made.rows]
    at = made.kinds.index("word")
    for row in rows[:: max(1, len(rows) // 4)]:
        row[at] = f'say "{row[at]}{made.delimiter} now"'
    return replace(made, rows=rows, escape="\\", quoting=csv.QUOTE_ALL)


def _stray_quote(made: Messy, rng: random.Random) -> Messy:
    """One closing quote with a blank behind it, in a row of a file that is quoted throughout."""
    made = _quoted(made, rng)
    closing = f'"{made.delimiter}'

    def rewrite(lines: list[str]) -> list[str]:
        at = rng.randrange(len(lines))
        return [*lines[:at], lines[at].replace(closing, f'" {made.delimiter}', 1), *lines[at + 1 :]]

    return replace(made, rewrite=rewrite)


def _lines(made: Messy, rng: random.Random, texts: tuple[str, ...], most: int) -> tuple[list[str], str]:
    """Lines of writing, bare or padded with delimiters as spreadsheets export them; and the padding."""
    padding = made.delimiter * (len(made.kinds) - 1) if rng.random() < 0.5 else ""
    some = rng.sample(texts, rng.randint(1, most))
    lines = [f'"{one}"{padding}' if made.delimiter in one and padding else one + padding for one in some]
    return lines, padding


def _preamble(made: Messy, rng: random.Random) -> Messy:
    lines, padding = _lines(made, rng, _TITLES, 5)
    return replace(made, above=[*lines, *([padding] if rng.random() < 0.5 else [])])


def _footer(made: Messy, rng: random.Random) -> Messy:
    lines, padding = _lines(made, rng, _NOTES, 3)
    return replace(made, below=[*([padding] if rng.random() < 0.6 else []), *lines])


def _total(made: Messy, rng: random.Random) -> Messy:
    """A last row with the sums of all columns of numbers."""
    at = made.kinds.index("word")
    order = [at, *(one for one in range(len(made.kinds)) if one != at)]
    made = replace(
        made,
        kinds=[made.kinds[one] for one in order],
        header=[[row[one] for one in order] for row in made.header],
        rows=[[row[one] for one in order] for row in made.rows],
    )
    sums = [
        str(sum(int(row[one] or 0) for row in made.rows)) if kind == "number" else ""
        for one, kind in enumerate(made.kinds)
    ]
    word = rng.choice(("Total", "TOTAL", "Sum", "Grand total"))
    return replace(made, below=[made.delimiter.join([word, *sums[1:]])])


def _both(made: Messy, rng: random.Random) -> Messy:
    return _footer(_preamble(made, rng), rng)


def _comments(made: Messy, rng: random.Random) -> Messy:
    above = [f"# {line}" for line in rng.sample(_TITLES, rng.randint(1, 4))]
    within = {rng.randrange(1, len(made.rows)): "# checked until here"} if rng.random() < 0.4 else {}
    return replace(made, above=above, within=within)


def _headerless(made: Messy, rng: random.Random) -> Messy:
    return replace(made, header=[])


def _multirow(made: Messy, rng: random.Random) -> Messy:
    """Groups of columns above their names, as of merged cells: two at least, the first over two columns."""
    groups = iter(("Location", "Figures", "Details", "Other", "Control"))
    top = [next(groups), "", next(groups)]
    left = rng.randrange(3)
    for _ in made.kinds[3:]:
        top.append("" if left else next(groups, "More"))
        left = (left or rng.randint(1, 3)) - 1
    return replace(made, header=[top, *made.header])


def _units(made: Messy, rng: random.Random) -> Messy:
    units = [rng.choice(_UNITS[kind].split() or [""]) for kind in made.kinds]
    return replace(made, header=[*made.header, units])


def _ragged(made: Messy, rng: random.Random) -> Messy:
    """Rows that end early, where their last cells are empty."""
    rows = [list(row) for row in made.rows]
    for at in rng.sample(range(1, len(rows)), max(1, len(rows) // 5)):
        rows[at][-1] = ""

    def rewrite(lines: list[str]) -> list[str]:
        return [line.removesuffix(made.delimiter) for line in lines]

    return replace(made, rows=rows, rewrite=rewrite)


def _wide(made: Messy, rng: random.Random) -> Messy:
    """A title above far more columns than it has."""
    more = [str(year) for year in range(2001, 2001 + 18 - len(made.kinds))]
    rows = [[*row, *(str(rng.randint(1, 9999)) for _ in more)] for row in made.rows]
    kinds = [*made.kinds, *["number"] * len(more)]
    wide = replace(made, header=[[*made.header[0], *more]], rows=rows, kinds=kinds)
    return replace(wide, above=rng.sample(_TITLES, rng.randint(1, 3)))


SHAPES: dict[str, Callable[[Messy, random.Random], Messy]] = {
    "plain": _plain,
    "quoted": _quoted,
    "single_quoted": _single_quoted,
    "escaped": _escaped,
    "stray_quote": _stray_quote,
    "preamble": _preamble,
    "footer": _footer,
    "total": _total,
    "preamble_and_footer": _both,
    "comments": _comments,
    "encoding": _plain,
    "headerless": _headerless,
    "multirow_header": _multirow,
    "units": _units,
    "ragged": _ragged,
    "wide_preamble": _wide,
}
