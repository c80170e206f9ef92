"""Columns of two tables, put together: the features against obvious references, and what follows from it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from conftest import partly_fish, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import ks_2samp, spearmanr
from test_cli import Run, run

import gentus
from gentus.align.alignment import Alignment
from gentus.align.column_notations import ColumnNotations
from gentus.align.context_features import CONTEXT_FEATURES, _order_agreement
from gentus.align.matched_columns import MatchedColumns
from gentus.align.matcher import Weights, align, dual_softmax, one_to_one, pair_scores, shipped_weights
from gentus.align.name_similarity import compare_names
from gentus.align.numeric_values import parse_values
from gentus.align.pair_features import NAME_FEATURES, PAIR_FEATURES, pair_features
from gentus.align.table_profile import profile_table
from gentus.align.value_keys import text_keys
from gentus.align.verdict import Fit, fit_of
from gentus.features.names import is_name
from gentus.index.explain import align_tables
from gentus.index.index import Index
from gentus.lake import Unreadable
from gentus.table import Column, Table

__all__ = ["run"]


def table(columns: Mapping[str, Sequence[str]], name: str = "t", rows: int | None = None) -> Table:
    longest = max((len(cells) for cells in columns.values()), default=0)
    return Table(name, [Column(n, list(c)) for n, c in columns.items()], longest if rows is None else rows)


def pairs_of(alignment: Alignment) -> dict[str, str]:
    return {pair.query.name: pair.table.name for pair in alignment.pairs}


def harbours(seed: int, rows: int = 60) -> Table:
    """Columns of many kinds, none like another."""
    chance = random.Random(seed)
    towns = ["Oslo", "Bergen", "Narvik", "Molde", "Bodo", "Alta", "Horten", "Moss", "Skien", "Hamar"]
    return table(
        {
            "town": [chance.choice(towns) for _ in range(rows)],
            "berths": [str(chance.randint(2, 40)) for _ in range(rows)],
            "opened": [f"{chance.randint(1900, 2020)}-0{chance.randint(1, 9)}-11" for _ in range(rows)],
            "depth": [f"{chance.uniform(3, 18):.2f} m" for _ in range(rows)],
            "code": [f"NO-{chance.randint(100, 999)}-{chance.choice('ABC')}" for _ in range(rows)],
            "note": [" ".join(chance.choices(["quay", "crane", "ferry", "fish"], k=6)) for _ in range(rows)],
            "tax": [f"{-chance.uniform(10_000, 90_000):.4f}" for _ in range(rows)],
        },
        f"harbours {seed}",
    )


def shuffled(made: Table, order: Sequence[int]) -> Table:
    return replace(made, columns=[made.columns[at] for at in order])


def feature(name: str, query: Table, other: Table) -> NDArray[np.float64]:
    features = pair_features(profile_table(query), profile_table(other))
    return np.asarray(features.pair[:, :, PAIR_FEATURES.index(name)], np.float64)


# --- features ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind", "unit", "first"),
    [
        (["3", "-1.5", "2e3"], "number", "", 3),
        (["1,234", "5,678,901"], "number", "", 1234),
        (["1.234,50", "12,3"], "number", "", 1234.5),
        (["$1,200", "$35.50"], "number", "$", 1200),
        (["45%", "3.2 %"], "number", "%", 45),
        (["12.4 kg", "3 kg"], "number", "kg", 12.4),
        (["(123)", "45"], "number", "", -123),
        (["\u22125", "3"], "number", "", -5),
        (["1970-01-03", "2001-01-02"], "date", "ISO dates", 2),
        (["1970-01-02 12:00:00", "2001-01-02 00:00:00"], "date", "ISO dates", 1.5),
        (["1970-1-3", "NA", "2001-2-3", "2001-2-4", "2001-2-5", "2002-1-1"], "date", "ISO dates", 2),
        (["3/1/1970", "31/12/1999"], "date", "dates such as 5/12/1999", 2),
        (["1/3/1970", "12/31/1999"], "date", "dates such as 5/12/1999", 2),
        (["3 Jan 1970", "31 December 1999"], "date", "dates such as 31 Dec 1999", 2),
        (["January 3rd, 1970", "Dec 31, 1999"], "date", "dates such as Dec 31, 1999", 2),
        (["19700103", "19991231", "20000101"], "date", "dates such as 19991231", 2),
        (["1970-01", "1999-12"], "date", "months such as 1999-12", 0),
        (["12:00", "23:59:59"], "date", "times such as 23:59", 0.5),
        (["12A", "13B", "abc"], "text", "", None),
        (["1.2.3", "4.5.6"], "text", "", None),
        (["Oslo", "3 Oslo", ""], "text", "", None),
        ([], "text", "", None),
    ],
)
def test_quantities(values: list[str], kind: str, unit: str, first: float | None) -> None:
    notations = ColumnNotations.of(table({"a": values}), [(values, [1.0] * len(values))])
    read = parse_values(values, *notations.reading(0, {}))
    assert (read.type, read.unit, len(read.values)) == (kind, unit, len(values))
    if first is None:
        assert np.isnan(read.values).all()
    else:
        assert read.values[0] == pytest.approx(first)


def test_names_that_say_something() -> None:
    for name in ("year", "id", "W", "birthDate", "Größe", "G_3b", "population 2001"):
        assert is_name(name)
    for name in ("", "_", "_2", "c0", "V12", "column_3", "Column 3", "col_1", "Unnamed: 4", "7", "f-1"):
        assert not is_name(name)
    alike = compare_names(["birthDate", "town", "col_1"], ["birth_date", "city", "col_1"])
    assert alike[0, 0].tolist() == [1, 1, pytest.approx(1), pytest.approx(1)]
    named, equal, letters, meaning = alike[1, 1].tolist()
    assert (named, equal) == (1, 0)
    assert meaning > 0.3 > letters
    assert not alike[2].any()
    assert not alike[:, 2].any()


def test_shared_values_are_counted() -> None:
    ours = {"a": ["x", "Y", "z", "z"], "b": ["1", "2.0", "3"], "empty": []}
    theirs = {"c": ["y", "Z", "w"], "d": ["2", "3.00", "4", "5", "5"], "e": ["q"]}
    features = pair_features(profile_table(table(ours)), profile_table(table(theirs)))
    for i, mine in enumerate(ours.values()):
        for j, its in enumerate(theirs.values()):
            left, right = ({_plain(cell) for cell in cells} for cells in (mine, its))
            both, either = len(left & right), len(left | right)
            assert features.jaccard[i, j] == pytest.approx(both / either if either else 0)
            contained = features.pair[i, j, PAIR_FEATURES.index("containment")]
            assert contained == pytest.approx(both / min(len(left), len(right)) if left and right else 0)
    assert features.nonempty.tolist() == [[True] * 3, [True] * 3, [False] * 3]


def _plain(cell: str) -> str | float:
    return float(cell) if cell[0].isdigit() else cell.lower()


def test_distributions_are_as_far_apart_as_kolmogorov_and_smirnov_say() -> None:
    chance = np.random.default_rng(1)
    columns = [
        chance.normal(size=80),
        chance.normal(0.5, 2, 50),
        chance.integers(0, 4, 60),
        chance.random(40),
    ]
    texts = {f"c{at}": [f"{number:.6f}" for number in column] for at, column in enumerate(columns)}
    gaps = feature("KS distance", table(texts), table(texts))
    for i, one in enumerate(columns):
        for j, other in enumerate(columns):
            assert gaps[i, j] == pytest.approx(ks_2samp(one, other).statistic, abs=0.13), (i, j)
    assert np.diag(gaps).max() == 0


def test_columns_that_move_together_are_known() -> None:
    chance = random.Random(2)
    numbers = [chance.random() for _ in range(50)]
    others = [number + chance.random() / 2 for number in numbers]
    made = table({"a": [f"{n:.5f}" for n in numbers], "b": [f"{n:.5f}" for n in others], "c": ["1"] * 49})
    seen = profile_table(made)
    assert seen.correlations[0, 1] == pytest.approx(spearmanr(numbers, others).statistic, abs=1e-6)
    assert seen.complete.tolist() == [True, True, False]  # a cell is missing, so that rows are not known
    assert not seen.correlations[2].any()


def test_order_is_features_where_others_keep_it() -> None:
    sure = np.eye(4)
    local, overall = _order_agreement(sure)
    assert overall > 0.8
    assert np.diag(local).min() > 0.5
    assert local[0, 3] < 0  # the first column is last there, and all others are the other way round
    _, backwards = _order_agreement(sure[::-1])
    assert backwards < -0.8


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 1000))
def test_an_assignment_is_the_best_there_is(q: int, t: int, seed: int) -> None:
    scores = np.random.default_rng(seed).random((q, t))
    chosen = one_to_one(scores, 0.4)
    assert chosen == sorted(chosen)
    assert len({i for i, _ in chosen}) == len({j for _, j in chosen}) == len(chosen)
    gains = np.maximum(scores - 0.4, 0) if q <= t else np.maximum(scores.T - 0.4, 0)
    best = max(
        sum(gains[i, j] for i, j in enumerate(way)) for way in permutations(range(max(q, t)), min(q, t))
    )
    assert sum(scores[pair] - 0.4 for pair in chosen) == pytest.approx(best)
    assert all(scores[pair] >= 0.4 for pair in chosen)


def test_the_dual_softmax_is_the_geometric_mean_of_two() -> None:
    scores = np.array([[2.0, 2.0, -1.0], [0.0, -3.0, 1.0]])
    allowed = np.array([[True, True, True], [True, True, False]])
    odds = np.exp(scores) * allowed
    rows, columns = odds / (1 + odds.sum(1, keepdims=True)), odds / (1 + odds.sum(0))
    assert dual_softmax(scores, allowed) == pytest.approx(np.sqrt(rows * columns))
    assert dual_softmax(np.full((2, 2), 900.0), np.ones((2, 2), bool)) == pytest.approx(np.full((2, 2), 0.5))


def test_the_shipped_weights_fit_the_features() -> None:
    weights = shipped_weights()
    assert (tuple(weights.pair), tuple(weights.names)) == (PAIR_FEATURES, NAME_FEATURES)
    assert tuple(weights.context) == CONTEXT_FEATURES
    assert 0.2 < weights.threshold < 0.7
    assert weights.names["equal names"] > 0
    assert weights.context["order agreement, ordered tables"] > 0
    assert Weights(**json.loads(json.dumps(weights.to_dict()))) == weights


# --- alignments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [True, False])
def test_a_table_is_aligned_with_itself(names: bool) -> None:
    made = harbours(0)
    found = align(made, made, names)
    assert [(pair.query.at, pair.table.at) for pair in found.pairs] == [(at, at) for at in range(7)]
    assert (found.query_only, found.table_only) == ([], [])
    assert (align_tables(made, made, names).score or 0) > 0.9
    assert (found.query, found.table) == ("harbours 0", "harbours 0")


@pytest.mark.parametrize("width", [3, 600])
@pytest.mark.parametrize("names", [True, False])
def test_a_copy_is_aligned_column_by_column(names: bool, width: int) -> None:
    """Medals by country: the distribution of some columns is like that of others."""
    medals = (
        "500000400300010000308100000000010200000000000006080000",
        "000000800201030003203000000002040101000000000006040000",
        "100000400100020000504100000004021102000000000008070000",
    )
    empty: dict[str, list[str]] = {f"X{number}": [] for number in range(width - 3)}
    made = table({f"column_{at}": list(cells) for at, cells in enumerate(medals)} | empty)
    found = align(made, replace(made, name="copy"), names)
    assert [(pair.query.at, pair.table.at) for pair in found.pairs] == [(at, at) for at in range(width)]
    assert (found.query_only, found.table_only) == ([], [])
    assert (found.pairs[-1].reason == "both are empty") == (width > 3)


def test_twins_are_told_apart_by_their_order() -> None:
    cells = [str(number % 7) for number in range(40)]
    made = table(dict.fromkeys(("c1", "c2", "c3"), cells) | {"d": [f"x{cell}" for cell in cells]})
    assert [(p.query.at, p.table.at) for p in align(made, made).pairs] == [(at, at) for at in range(4)]


@settings(max_examples=12, deadline=None)
@given(st.permutations(range(7)), st.permutations(range(7)))
def test_other_orders_of_columns_give_the_same_pairs(ours: list[int], theirs: list[int]) -> None:
    found = align(shuffled(harbours(1), ours), shuffled(harbours(2), theirs), names=False)
    names = [column.name for column in harbours(1).columns]
    assert pairs_of(found) == {name: name for name in names}
    assert [pair.query.at for pair in found.pairs] == list(range(7))


def test_what_belongs_to_nothing_is_left_over() -> None:
    query, other = harbours(3), harbours(4)
    extra = Column("captain", [f"Captain {chr(65 + n % 26)}. Olsen-{n}" for n in range(60)])
    query, other = shuffled(query, [0, 1, 2]), replace(shuffled(other, [2, 0]), name="u")
    found = align(query, replace(other, columns=[*other.columns, extra]), names=False)
    assert pairs_of(found) == {"town": "town", "opened": "opened"}
    assert [(column.at, column.name) for column in found.query_only] == [(1, "berths")]
    assert [(column.at, column.name) for column in found.table_only] == [(2, "captain")]
    assert found.to_dict()["query_only"] == [{"at": 1, "name": "berths"}]
    assert "missing" not in found.to_dict()


def test_names_count_if_they_are_to_count() -> None:
    chance = random.Random(5)

    def weights(names: list[str], seed: int) -> Table:
        return table(
            {name: [f"{chance.uniform(40, 90):.1f}" for _ in range(30)] for name in names}, str(seed)
        )

    query, other = weights(["before", "after", "later"], 0), weights(["later", "before", "after"], 1)
    assert pairs_of(align(query, other)) == {name: name for name in ("before", "after", "later")}
    with_names = {pair.score for pair in align(query, other).pairs}
    assert min(with_names) > max((pair.score for pair in align(query, other, names=False).pairs), default=0)
    made_up = weights(["c1", "c2", "c3"], 2), weights(["c3", "c1", "c2"], 3)
    assert align(*made_up).to_dict() == align(*made_up, names=False).to_dict()


def test_empty_columns_are_left_over_unless_their_names_say_otherwise() -> None:
    query = table({"town": ["Oslo", "Moss", "Bodo"], "fax": [], "column_3": ["NA", "NA", "-"]})
    other = table({"Fax": ["22 33", "44 55", "66 77"], "town": ["Oslo", "Alta", "Moss"], "column_3": []})
    found = align(query, other)
    assert pairs_of(found) == {"town": "town", "fax": "Fax"}
    assert found.pairs[1].reason == "same words in the column names; one of them is empty"
    assert pairs_of(align(query, other, names=False)) == {"town": "town"}
    both = align(table({"a b": [], "k": ["x"]}), table({"k": ["x"], "a b": []}))
    assert both.pairs[0].reason == "same column name; both are empty"


CELLS = st.text(max_size=8) | st.sampled_from(
    ["NA", "0", "1", "-1e400", "nan", "2001-02-31", "ß" * 300, "١٢"]
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(CELLS.filter(bool), max_size=12), max_size=5),
    st.lists(st.lists(CELLS.filter(bool), max_size=12), max_size=5),
    st.booleans(),
)
def test_nothing_brings_it_down(ours: list[list[str]], theirs: list[list[str]], names: bool) -> None:
    query, other = (table({f"n{at}": cells for at, cells in enumerate(side)}) for side in (ours, theirs))
    found = align_tables(query, other, names)
    left, right = ([getattr(pair, side).at for pair in found.pairs] for side in ("query", "table"))
    assert left == sorted(set(left))
    assert len(set(right)) == len(right)
    assert sorted([*left, *(column.at for column in found.query_only)]) == list(range(len(ours)))
    assert sorted([*right, *(column.at for column in found.table_only)]) == list(range(len(theirs)))
    assert all(shipped_weights().threshold <= pair.score <= 1 and pair.reason for pair in found.pairs)
    assert found.columns is not None
    assert found.score is not None
    assert 0 <= found.score <= 1
    assert found.columns.query == sum(map(bool, ours)) == found.columns.matched + len(found.columns.missing)
    assert found.fit == fit_of(found.score, found.columns.matched, found.columns.query)


def test_it_is_fast_on_wide_tables() -> None:
    def wide(columns: int, seed: int) -> Table:
        parts = [harbours(seed + at, 200).columns for at in range(-(-columns // 7))]
        cells = [column for part in parts for column in part][:columns]
        return Table("wide", [Column(f"{c.name} {at}", c.cells) for at, c in enumerate(cells)], 200)

    align(harbours(0), harbours(1))  # vectors are loaded once
    for columns, most in ((20, 1.0), (300, 20.0)):  # far more than it takes: 15 ms and half a second
        query, other = wide(columns, 100), wide(columns, 900)
        started = time.perf_counter()
        found = align(query, other)
        assert time.perf_counter() - started < most
        assert len(found.pairs) > columns / 2


def test_wide_tables_are_aligned_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when all pairs are compared; and columns that could be taken for each other are not matched."""
    chance = random.Random(4)

    def made(alike: bool) -> Table:
        columns = {}
        for at in range(120):
            low = 0 if alike else 1000 * at
            columns[f"column_{at}"] = [str(chance.randint(low, low + 700)) for _ in range(60)]
        return table(columns)

    for alike in (False, True):
        query, other = made(alike), made(alike)
        whole = pairs_of(align(query, other))
        with monkeypatch.context() as patched:
            patched.setattr("gentus.align.matcher.MOST_PAIRS", 1000)
            assert pairs_of(align(query, other)) == whole
        assert len(whole) == (0 if alike else 120)
    names = [f"price of group {at}" for at in range(120)]
    query, other = (
        replace(one, columns=[replace(c, name=name) for c, name in zip(one.columns, order, strict=True)])
        for one, order in ((made(True), names), (made(True), names[::-1]))
    )
    monkeypatch.setattr("gentus.align.matcher.MOST_PAIRS", 1000)
    assert pairs_of(align(query, other)) == {name: name for name in names}


def test_very_wide_tables_are_aligned_by_fewer_values() -> None:
    """Of over 1,024 columns; as well as by more."""

    def made(seed: int) -> Table:
        chance = random.Random(seed)
        words = ([f"w{at}x{chance.randrange(30)}" for _ in range(40)] for at in range(1100))
        return table({f"column_{at}": cells for at, cells in enumerate(words)})

    query, other = made(1), made(2)
    order = random.Random(3).sample(range(1100), 1100)
    found = align(query, shuffled(other, order))
    assert pairs_of(found) == {f"column_{at}": f"column_{at}" for at in range(1100)}


_ALIGN_WIDE = """
import random
from gentus.align import matcher
from gentus.table import Column, Table
matcher.MOST_PAIRS = 1000
chance = random.Random(1)
def made():
    words = [[f"w{at % 7}x{chance.randrange(40)}" for _ in range(30)] for at in range(120)]
    return Table("t", [Column(f"column_{at}", cells) for at, cells in enumerate(words)], 30)
print(matcher.align(made(), made()))
"""


def test_alignments_of_wide_tables_do_not_depend_on_the_process() -> None:
    """Python's own hashes of text differ from one process to the next."""
    said = {
        subprocess.run(
            [sys.executable, "-c", _ALIGN_WIDE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert b"column_" in said.pop()


def test_values_have_keys_without_regard_to_case() -> None:
    values = ["Straße", "STRASSE", "a", "b", "ab", "ba", "", "x" * 500, "two\nlines", "TWO\nLINES", "aa"]
    keys = text_keys(values).tolist()
    assert keys[0] == keys[1]
    assert keys[8] == keys[9]
    assert len(set(keys)) == len(values) - 2
    assert [text_keys([value]).item() for value in values] == keys  # whatever stands beside them
    assert keys == list(map(slow_key, values))
    assert not len(text_keys([]))


def slow_key(text: str) -> int:
    """A polynomial in the characters, modulo 2^64, mixed; as a signed number."""
    key: int = sum((ord(c) + 1) * 0x9E3779B97F4A7C15**at for at, c in enumerate(text.casefold())) % 2**64
    for _ in range(2):
        key = (key ^ (key >> 32)) * 0xD6E8FEB86659FD93 % 2**64
    key ^= key >> 32
    return key - 2**64 if key >> 63 else key


# --- reasons -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (
            ["2001-05-03", "2010-01-01"],
            ["2002-01-01", "2023-12-01"],
            "both ISO dates, 2001-2010 and 2002-2023",
        ),
        (["2001-05-03", "2023-01-01"], ["2002-01-01", "2022-12-01"], "both ISO dates, 2001-2023"),
        (
            ["2001-05-03", "2003-01-01"],
            ["2 May 2001", "5 June 2003"],
            "ISO dates and dates such as 31 Dec 1999, 2001-2003",
        ),
        (["0.1 kg", "12.4 kg", "3 kg"], ["0.2 kg", "11 kg", "2.9 kg"], "same units and range (0.1-12.4 kg)"),
        (["1950", "1999", "2001"], ["1951", "2000", "2002"], "both years, 1950-2002"),
        (["-3.5", "9"], ["-3", "8.25"], "similar distributions (-3.5 to 9)"),
        (["7", "7", "7"], ["7", "7"], "the same distinct values; both are 7 throughout"),
        (
            ["river bank", "lake shore", "sea"],
            ["river bed", "sea side", "lake view"],
            "common words: lake, river, sea",
        ),
        (["T-012-X", "T-443-Q"], ["T-777-Z", "R-001-B"], "same format, such as T-012-X"),
        (["a", "b", "c", "d"], ["c", "d", "e", "f"], "33 % of distinct values shared"),
        (["12:30", "14:00"], ["13:10", "09:20"], "both times such as 23:59"),
    ],
)
def test_reasons(ours: list[str], theirs: list[str], said: str) -> None:
    from gentus.align.reasons import pair_reason

    query, other = (profile_table(table({"c1": cells})) for cells in (ours, theirs))
    assert pair_reason(query, other, pair_features(query, other), 0, 0) == said


@pytest.mark.parametrize(
    ("ours", "pairs", "fit", "words"),
    [
        ("sex age name", 0, "none", "no column matches"),
        ("sex age name", 1, "none", "only `sex` matches"),
        ("year month genre", 2, "partial", "`year` and `month` match; `genre` does not"),
        ("a b c d e f g h", 4, "partial", "`a`, `b` and 2 more match; `e` and 3 more do not"),
        ("a b c d e f", 3, "partial", "`a`, `b` and `c` match; `d` and 2 more do not"),
        ("a b c d e", 4, "partial", "all but `e` match"),
        ("a b", 2, "full", "all 2 columns match"),
        ("a b", 2, "none", "all 2 columns match, but not closely enough"),
        ("a", 1, "full", "your only column matches"),
        ("a" * 100 + " b", 1, "none", f"only `{'a' * 39}…` matches"),
        ("", 0, "none", "your table has no cells"),
    ],
)
def test_why_a_table_fits_or_not(ours: str, pairs: int, fit: Fit, words: str) -> None:
    columns = MatchedColumns.of(ours.split(), ours.split(), [(at, at) for at in range(pairs)])
    assert columns.why(fit) == words
    assert str(columns) == f"{pairs} of {len(ours.split())}"


# --- an index ------------------------------------------------------------------------------------------


def test_index_aligns_by_name_hit_or_file(index: Index, lake: Path) -> None:
    query = lake / "fish_0.csv"
    found = index.align(query, "deep/er/fish_1.csv")
    assert pairs_of(found) == {name: name for name in ("name", "kind", "size", "year")}
    assert found.pairs[0].reason.startswith("same column name; ")
    (hit,) = index.search(query, k=1)
    assert index.align(query, hit).table == hit.table
    assert index.align(query, str(lake / "semi" / "fish_2.semicolon.csv")).table == "fish_2.semicolon.csv"
    rows = rows_of("fish", 9)
    cells = {name: [row[at] for row in rows[1:]] for at, name in enumerate(rows[0])}
    unnamed = index.align(table(cells), table(cells, "u"), names=False)
    assert unnamed == align_tables(table(cells), table(cells, "u"), names=False)
    assert (unnamed.fit, str(unnamed.columns)) == ("full", "4 of 4")
    with pytest.raises(Unreadable, match=r"deep/fish_1.csv: it is neither .* mean deep/er/fish_1.csv"):
        index.align(query, "deep/fish_1.csv")


def test_a_file_that_cannot_be_read_is_named(index: Index, lake: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    for query, table in ((empty, "fish_0.csv"), (lake / "fish_0.csv", str(empty))):
        with pytest.raises(Unreadable, match=r"empty\.csv: it is empty"):
            index.align(query, table)


def test_hits_explained(index: Index, lake: Path) -> None:
    query = lake / "fish_0.csv"
    plain, explained = index.search(query, k=3), index.search(query, k=3, explain=True)
    assert all(hit.alignment is None and "alignment" not in hit.to_dict() for hit in plain)
    assert [replace(hit, alignment=None) for hit in explained] == plain
    for hit in explained:
        assert hit.alignment == index.align(query, hit)
        assert hit.to_dict()["alignment"] == hit.alignment.to_dict()
    assert index.search([query], k=1, explain=True)[0][0].alignment is not None


def test_the_fit_of_an_explained_hit_is_that_of_its_alignment(index: Index) -> None:
    rows = partly_fish()
    query = table({**{name: [row[at] for row in rows[1:]] for at, name in enumerate(rows[0])}, "empty": []})
    assert [hit.columns.query for hit in index.search(query, k=2)] == [4, 4]  # empty columns do not count
    for hit in index.search(query, k=20, explain=True):
        assert hit.alignment is not None
        assert (hit.alignment.score, hit.alignment.fit, hit.alignment.columns) == (
            *(hit.score, hit.fit, hit.columns),
        )
        assert hit.columns.pairs == [(pair.query.name, pair.table.name) for pair in hit.alignment.pairs]
        assert hit.fit == fit_of(hit.score, hit.columns.matched, 4)
        assert "empty" not in hit.columns.missing
    assert not index.search(query, k=20, explain=True, fit="full")


def test_a_vanished_file_does_not_stop_the_answer(tmp_path: Path) -> None:
    from conftest import QUICK, make_lake

    lake = make_lake(tmp_path / "lake", ["fish", "cities"], 3)
    with gentus.build(lake, tmp_path / "index", settings=QUICK, workers=1) as index:
        (lake / "deep" / "er" / "fish_1.csv").unlink()
        hits = {hit.table: hit for hit in index.search(lake / "fish_0.csv", k=5, explain=True)}
        gone = hits["deep/er/fish_1.csv"].alignment
        assert gone is not None
        assert "no longer there" in gone.to_dict()["missing"]
        assert (gone.fit, hits["deep/er/fish_1.csv"].columns.matched) == ("full", 4)  # as the index has it
        assert (gone.pairs, [column.name for column in gone.query_only]) == (
            [],
            ["name", "kind", "size", "year"],
        )
        other = hits["semi/fish_2.semicolon.csv"].alignment
        assert other is not None
        assert other.pairs


def test_align_on_the_command_line(run: Run, index_path: Path, lake: Path) -> None:
    query = lake / "fish_0.csv"
    ran = run("align", index_path, query, "deep/er/fish_1.csv")
    assert (ran.code, ran.err) == (0, "")
    hits = {hit.table: hit for hit in gentus.open(index_path).search(query)}
    score = hits["deep/er/fish_1.csv"].score  # the same everywhere
    assert f"deep/er/fish_1.csv  fit full, 4 of 4 columns, score {score:.3f}" in ran.out
    assert "same column name; " in ran.out
    document = run("align", index_path, query, "deep/er/fish_1.csv", "--json").json()
    assert document == gentus.open(index_path).align(query, "deep/er/fish_1.csv").to_dict()
    hidden = run(
        "align", index_path, query, lake / "deep" / "er" / "fish_1.csv", "--no-names", "--json"
    ).json()
    assert not any("name" in pair["reason"] for pair in hidden["pairs"])
    ran = run("align", index_path, query, "films_9.csv")
    assert (ran.code, ran.out) == (1, "")
    assert "films_9.csv: it is neither a table of the index nor a file. Did you mean films_0.csv" in ran.err


def test_leftovers_are_named(run: Run, index_path: Path, lake: Path, tmp_path: Path) -> None:
    own, rows = tmp_path / "own.csv", list(enumerate(rows_of("fish", 7)[1:]))
    own.write_text("[b]colour[/b],fish\n" + "".join(f"{n} blue-{n * n},{row[0]}\n" for n, row in rows))
    ran = run("align", index_path, own, "fish_0.csv")
    assert "only theirs: kind, size, year" in ran.out
    assert "only yours: [b]colour[/b]" in ran.out
    ran = run("align", index_path, own, "films_0.csv")
    assert "films_0.csv  fit none, 0 of 2 columns, score 0.0" in ran.out
    assert "no column matches one of yours" in ran.out


def test_search_explains_columns(run: Run, index_path: Path, lake: Path) -> None:
    ran = run("search", index_path, lake / "fish_0.csv", "-k", 2, "--explain")
    jargon = ("generated", "identifier")  # for those who want to know how it was found
    assert all(word in ran.out for word in jargon)
    assert ran.out.count("4 of 4") == 2
    answer = run("search", index_path, lake / "fish_0.csv", "-k", 2, "--explain", "--json").json()
    assert all(len(hit["alignment"]["pairs"]) == 4 for hit in answer["queries"][0]["results"])
    plain = run("search", index_path, lake / "fish_0.csv", "-k", 2)
    assert not any(word in plain.out for word in jargon)
    (answer,) = run("search", index_path, lake / "fish_0.csv", "--json").json()["queries"]
    assert all("alignment" not in hit and hit["sid"] for hit in answer["results"])


def test_scores_are_the_same_everywhere(index: Index, lake: Path) -> None:
    query, other = index.read(lake / "fish_0.csv"), index.read(lake / "deep" / "er" / "fish_1.csv")
    left, right = profile_table(query), profile_table(other)
    scores = pair_scores(left, right, pair_features(left, right), shipped_weights())
    for pair in index.align(query, other).pairs:
        assert pair.score == pytest.approx(scores[pair.query.at, pair.table.at], abs=1e-4)
