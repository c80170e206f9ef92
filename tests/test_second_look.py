"""The second look: matches and verdicts against a slow reference, and the order and fit of what is found."""

from __future__ import annotations

import math
import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import QUICK, make_lake, rows_of, write_pairs, write_table
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_cli import Run, run
from test_signatures import query_of, table
from victim import TINY

import gentus
from gentus.align import second_look
from gentus.align.second_look import (
    CONTEXT_FEATURES,
    MOST_COLUMNS,
    NAME_FEATURES,
    PAIR_FEATURES,
    TABLE_FEATURES,
    LookWeights,
    PairLook,
    QueryColumns,
    look,
)
from gentus.align.signatures import SIGNATURE, SKETCHES, VALUES, WIDTH, Signatures
from gentus.align.verdict import FITS, Verdict, fit_of, judge, matched_pairs, shipped_verdict
from gentus.arrays import F32
from gentus.features.extract import PROFILE
from gentus.index.hits import Hit, best_fit
from gentus.index.index import Index
from gentus.index.second_look import LOOKED_AT, WEIGHT, AtLeast, ChosenOptions
from gentus.table import Column, Table

__all__ = ["run"]

# --- matches against a slow reference ---------------------------------------------------------------------


def drawn_columns(seed: int, widths: Sequence[int]) -> list[Signatures]:
    """Signatures of tables that have some values, profiles and sketches in common."""
    chance = np.random.default_rng(seed)
    kinds = chance.integers(1, 16, (6, WIDTH), np.uint8)
    tables = []
    for width in widths:
        signed = np.zeros(width, SIGNATURE)
        signed["distinct"] = chance.integers(1, 40, width)
        signed["cells"] = signed["distinct"] + chance.integers(0, 100, width)
        for one in signed:
            kept = min(int(one["distinct"]), VALUES)
            one["values"][:kept] = np.sort(chance.choice(60, kept, replace=False))
            codes = np.where(chance.random(WIDTH) < 0.3, chance.integers(1, 16, WIDTH), chance.choice(kinds))
            for part in SKETCHES.values():
                if chance.random() < 0.1:
                    codes[part] = 8  # nothing of that kind
            one["sketches"] = codes[::2] << 4 | codes[1::2]
            one["profile"] = chance.normal(0, 1, PROFILE).round(2)
            one["profile"][0] = chance.choice([0, 0.5, 2])
        tables.append(signed)
    return tables


def drawn_query(seed: int, width: int) -> QueryColumns:
    (signed,) = drawn_columns(seed, [width])
    chance = random.Random(seed)
    values = [
        np.array(sorted(chance.sample(range(60), min(int(one["distinct"]), 60))), np.uint16) for one in signed
    ]
    return QueryColumns([f"c{at}" for at in range(width)], signed, values)


def drawn_weights(seed: int) -> LookWeights:
    chance = np.random.default_rng(seed)
    pair, names, context, overall = (
        chance.normal(0, 0.7, len(features)).astype(np.float32)
        for features in (PAIR_FEATURES, NAME_FEATURES, CONTEXT_FEATURES, TABLE_FEATURES)
    )
    return LookWeights(pair, 0.3, names, context, -0.2, overall, 0.1)


def cosine(left: Any, right: Any, kind: str) -> tuple[float, bool]:
    """Of one kind of two columns, and whether both have something of it."""
    numbers = []
    for side in (left, right):
        codes = [half for byte in side["sketches"].tolist() for half in (byte >> 4, byte & 15)]
        numbers.append([code - 8 for code in codes[SKETCHES[kind]]])
    lengths = [math.sqrt(sum(number * number for number in some)) for some in numbers]
    if not all(lengths):
        return 0.0, False
    return sum(a * b for a, b in zip(*numbers, strict=True)) / lengths[0] / lengths[1], True


def one_pair(left: Any, values: Sequence[int], right: Any) -> list[float]:
    """The features of one pair of columns, then those of their names."""
    mine, its = int(left["distinct"]), int(right["distinct"])
    kept = right["values"][: min(its, VALUES)].tolist()
    common = min(len([value for value in kept if value in values]) / max(len(kept), 1) * its, mine)
    containment = min(common / max(min(mine, its), 1), 1)
    jaccard = common / max(mine + its - common, 1)
    numbers = [min(max(float(side["profile"][0]) / 2, 0), 1) for side in (left, right)]
    both, text = numbers[0] * numbers[1], (1 - numbers[0]) * (1 - numbers[1])
    many = math.log1p(min(mine, its)) / 3
    cosines = {kind: cosine(left, right, kind)[0] for kind in SKETCHES}
    features = [
        *(cosines["grams"] * text, cosines["words"] * text, cosines["shapes"], cosines["tokens"] * text),
        *(containment, containment * both, containment * many, text * many if containment == 0 else 0),
        *(jaccard, jaccard * both, both, text, many),
        math.log1p(min(int(left["cells"]), int(right["cells"]))) / 4,
        float((mine == 1) != (its == 1)),
    ]
    for a, b in zip(left["profile"].tolist(), right["profile"].tolist(), strict=True):
        features.append(min(abs(a - b), 4))
    return [*features, float(cosine(left, right, "names")[1]), cosines["names"], cosines["names"] > 0.999]


def softmaxes(log_odds: list[list[float]]) -> list[list[float]]:
    odds = [[math.exp(min(max(x, -30), 30)) for x in row] for row in log_odds]
    down = [sum(row[j] for row in odds) for j in range(len(odds[0]))]
    return [[x / math.sqrt((1 + sum(row)) * (1 + down[j])) for j, x in enumerate(row)] for row in odds]


def sign_of(number: int) -> int:
    return (number > 0) - (number < 0)


def in_context(log_odds: list[list[float]], weights: Sequence[float], bias: float) -> list[list[float]]:
    """Log-odds of every pair given the other pairs."""
    q, t = len(log_odds), len(log_odds[0])
    scores = [[min(max(x, -8), 8) for x in row] for row in log_odds]
    matches = softmaxes(log_odds)
    local = [[0.0] * t for _ in range(q)]
    agree = compare = 0.0
    for i in range(q):
        for j in range(t):
            agreeing = compared = 0.0
            for a in range(q):
                for b in range(t):
                    weight = matches[a][b] ** 2
                    agreeing += sign_of(i - a) * sign_of(j - b) * weight
                    compared += abs(sign_of(i - a) * sign_of(j - b)) * weight
            local[i][j] = agreeing / (compared + 0.5)
            agree += agreeing * matches[i][j] ** 2
            compare += compared * matches[i][j] ** 2
    ordered = max(agree / (compare + 0.5), 0)
    final = [[bias] * t for _ in range(q)]
    for i in range(q):
        for j in range(t):
            in_row = max([-6, *(scores[i][b] for b in range(t) if b != j)])
            in_column = max([-6, *(scores[a][j] for a in range(q) if a != i)])
            score = scores[i][j]
            features = [score, score - in_row, score - in_column, matches[i][j], local[i][j]]
            features.append(local[i][j] * ordered)
            final[i][j] += sum(x * weight for x, weight in zip(features, weights, strict=True))
    return final


def reference(query: QueryColumns, other: Signatures, weights: LookWeights, names: bool) -> list[list[float]]:
    """The matches of a query with one table, pair by pair."""
    given = [*weights.pair.tolist(), *(weights.names.tolist() if names else [0] * len(NAME_FEATURES))]
    log_odds = [
        [
            weights.pair_bias
            + sum(x * weight for x, weight in zip(one_pair(left, values, right), given, strict=True))
            for right in other
        ]
        for left, values in zip(query.signatures, (one.tolist() for one in query.values), strict=True)
    ]
    return softmaxes(in_context(log_odds, weights.context.tolist(), weights.context_bias))


widths = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 7), widths, st.booleans())
def test_matches_are_those_of_the_reference(seed: int, width: int, others: list[int], names: bool) -> None:
    query, tables, weights = drawn_query(seed, width), drawn_columns(seed + 1, others), drawn_weights(seed)
    seen = 0
    for some, matches in look(query, tables, weights, names):
        for at, position in enumerate(some):
            expected = reference(query, tables[position], weights, names)
            found = matches.scores[at]
            np.testing.assert_allclose(found[:, : others[position]], expected, rtol=2e-3, atol=2e-5)
            assert not found[:, others[position] :].any()
            assert matches.widths[at] == others[position]
            seen += 1
    assert seen == len(tables)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 20),
    st.lists(st.integers(0, 40), min_size=1, max_size=12),
    st.sampled_from([1, 50, 1 << 18]),
)
def test_other_tables_and_batches_do_not_change_a_bit(
    seed: int, width: int, others: list[int], most: int
) -> None:
    """Alone, in a list and in any batch, a table has the same verdict to the last digit."""
    query, tables = drawn_query(seed, width), drawn_columns(seed + 1, others)
    alone = [judge(query, [one], names=True)[0] for one in tables]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second_look, "_MOST_PAIRS", most)
        together, turned = judge(query, tables, names=True), judge(query, tables[::-1], names=True)[::-1]
    for one, *more in zip(alone, together, turned, strict=True):
        for verdict in more:
            assert (verdict.score, verdict.match) == (one.score, one.match)
            assert verdict.matches.tobytes() == one.matches.tobytes()


def test_nothing_to_compare() -> None:
    some = drawn_columns(1, [3, 0])
    nothing = query_of(table())
    for query in (nothing, query_of(table([], []))):
        for verdict in judge(query, some, names=True):
            assert (verdict.match, verdict.pairs(), verdict.matches.size) == (0.0, [], 0)
            assert 0 <= verdict.score < 0.5
    assert [one.matches.shape for one in judge(nothing, some, names=False)] == [(0, 3), (0, 0)]
    (full, empty) = judge(drawn_query(2, 4), some, names=False)
    assert (full.matches.shape, empty.matches.shape, empty.match) == ((4, 3), (4, 0), 0.0)
    assert judge(drawn_query(2, 4), [], names=False) == []


def test_wide_tables_take_bounded_memory() -> None:
    query, tables = drawn_query(3, MOST_COLUMNS), drawn_columns(4, [MOST_COLUMNS, 300] * 5)
    tracemalloc.start()
    verdicts = judge(query, tables, names=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20
    assert {one.matches.shape for one in verdicts} == {(MOST_COLUMNS, MOST_COLUMNS)}
    wide = query_of(table(*([f"{at}"] for at in range(400))))
    assert len(wide.names) == len(wide.values) == len(wide.signatures) == MOST_COLUMNS


def test_the_features_have_names() -> None:
    pairs = PairLook.of(drawn_query(5, 3), drawn_columns(6, [2, 5]), names=True)
    assert pairs.pair.shape == (3, 7, len(PAIR_FEATURES))
    assert pairs.names.shape == (3, 7, len(NAME_FEATURES))
    assert pairs.context(pairs.padded(pairs.pair[:, :, 0])).shape == (2, 3, 5, len(CONTEXT_FEATURES))
    assert not PairLook.of(drawn_query(5, 3), drawn_columns(6, [2, 5]), names=False).names.any()


# --- verdicts ---------------------------------------------------------------------------------------------


@given(
    arrays(np.float32, st.tuples(st.integers(0, 6), st.integers(0, 6)), elements=st.floats(0, 1, width=16))
)
def test_pairs_are_one_to_one_and_the_best_come_first(matches: F32) -> None:
    left = {(i, j): float(x) for (i, j), x in np.ndenumerate(matches) if x >= 0.5}
    expected: list[tuple[int, int]] = []
    while left:
        i, j = max(left, key=lambda pair: (left[pair], -pair[0], -pair[1]))
        expected.append((i, j))
        left = {(a, b): x for (a, b), x in left.items() if a != i and b != j}
    assert matched_pairs(matches, 0.5) == sorted(expected)


def test_rules_of_fit() -> None:
    enough = shipped_verdict().fits
    assert 0 < enough < 1
    assert fit_of(enough, 3, 3) == "full"
    assert fit_of(1.0, 2, 3) == "partial"
    assert fit_of(1.0, 0, 3) == fit_of(1.0, 0, 0) == "none"
    assert fit_of(enough - 1e-4, 3, 3) == "none"


# --- a search ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of more tables than are looked at."""
    root = tmp_path_factory.mktemp("many")
    lake = make_lake(root / "lake", slices=6)
    for number in range(6):
        for subject in ("fish", "birds", "metals", "tools", "films", "cities"):
            rows = rows_of(subject, 20 + number)
            cut = [row[number % 3 :] for row in rows]  # with fewer columns
            write_table(lake / f"{subject}_{20 + number}.csv", cut)
    gentus.build(lake, root / "index", settings=TINY, workers=1).close()
    return root / "index"


def verdicts_of(index: Index, query: Table, tables: Sequence[str]) -> list[Verdict]:
    ids = index.catalogue.tables.ids()
    signed = index.catalogue.signatures.of(ids.values())
    chosen = [signed[ids[name]].signatures for name in tables]
    return judge(query_of(query), chosen, index.config.settings.names)


def standardised(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / deviation for value in values]


def test_both_orders(large: Path) -> None:
    with gentus.open(large) as index:
        query = index.read(index.sources()["fish_20.csv"])
        generated = index.search(query, k=72, order="generated", beam=500)
        assert len(generated) == 72
        assert [hit.generated for hit in generated] == sorted([hit.generated for hit in generated])[::-1]
        names = [hit.table for hit in generated]
        verdicts = verdicts_of(index, query, names)
        assert [hit.score for hit in generated] == [round(one.score, 4) for one in verdicts]
        left = standardised([hit.generated for hit in generated[:LOOKED_AT]])
        right = standardised([one.match for one in verdicts[:LOOKED_AT]])
        blend = [a + WEIGHT * b for a, b in zip(left, right, strict=True)]
        order = sorted(range(LOOKED_AT), key=lambda at: -blend[at])
        aligned = index.search(query, k=72, order="aligned", beam=500)
        assert [hit.table for hit in aligned[LOOKED_AT:]] == names[LOOKED_AT:]  # they stay
        found = [names.index(hit.table) for hit in aligned[:LOOKED_AT]]
        assert [blend[at] for at in found] == pytest.approx([blend[at] for at in order], abs=1e-5)
        assert found != list(range(LOOKED_AT))
        assert [hit.rank for hit in aligned] == list(range(1, 73))
        assert index.search(query, k=72, beam=500) == aligned  # by default, without labels
        for k in (1, 10, 60):
            assert index.search(query, k=k, beam=500) == aligned[:k]
            assert index.search(query, k=k, beam=500, order="generated") == generated[:k]


def test_eval_scores_either_order(large: Path, tmp_path: Path, run: Run) -> None:
    query, ranks = "fish_20.csv", {}
    with gentus.open(large) as index:
        for order in ("aligned", "generated"):
            hits = index.search(index.sources()[query], k=LOOKED_AT, order=order)
            ranks[order] = {hit.table: hit.rank for hit in hits}
    moved = next(name for name, rank in ranks["aligned"].items() if ranks["generated"][name] != rank)
    truth = write_pairs(tmp_path / "truth.csv", [(query, moved)])
    scored = ("eval", large, "--groundtruth", truth, "-k", LOOKED_AT, "--json")
    for order, found in ranks.items():
        assert run(*scored, "--order", order).json()["map"] == pytest.approx(1 / found[moved])
    assert run(*scored).json()["map"] == pytest.approx(1 / ranks["aligned"][moved])
    assert run(*scored, "--order", "best").code == 2


def test_only_what_fits(large: Path) -> None:
    with gentus.open(large) as index:
        query = index.read(index.sources()["fish_20.csv"])

        def kept(hits: Sequence[Hit]) -> list[str]:
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
            return [hit.table for hit in hits]

        for order in ("aligned", "generated"):
            hits = index.search(query, k=LOOKED_AT, order=order)
            middle = sorted(hit.score for hit in hits)[LOOKED_AT // 2]
            fits: tuple[AtLeast, ...] = ("full", "partial", "any")
            for at, fit in enumerate(fits):
                expected = [hit.table for hit in hits if hit.fit in FITS[: at + 1]]
                assert kept(index.search(query, k=LOOKED_AT, order=order, fit=fit)) == expected
                assert kept(index.search(query, k=3, order=order, fit=fit)) == expected[:3]
            expected = [hit.table for hit in hits if hit.score >= middle]
            assert 0 < len(expected) < LOOKED_AT
            assert kept(index.search(query, k=LOOKED_AT, order=order, min_score=middle)) == expected
            assert kept(index.search(query, k=2, order=order, min_score=middle)) == expected[:2]
        for options, words in (
            ({"order": "best"}, "the order is one of aligned, generated, not best"),
            ({"fit": "none"}, "fit is one of any, partial, full, not none"),
            ({"min_score": 1.5}, "0 to 1, not 1.5"),
            ({"k": 0}, "at least one table"),
        ):
            with pytest.raises(ValueError, match=words):
                index.search(query, **options)


def test_an_index_with_labels_keeps_its_order() -> None:
    assert ChosenOptions.of(10, {}, labelled=True).order == "generated"
    assert ChosenOptions.of(10, {}, labelled=False).order == "aligned"
    assert ChosenOptions.of(10, {"order": "aligned"}, labelled=True).order == "aligned"
    assert ChosenOptions.of(10, {"order": None}, labelled=False).looked_at == LOOKED_AT
    assert ChosenOptions.of(10, {}, labelled=True).looked_at == 10
    assert ChosenOptions.of(10, {"fit": "full"}, labelled=True).looked_at == LOOKED_AT
    assert ChosenOptions.of(99, {}, labelled=False).looked_at == 99


def test_one_answer_alone_in_a_list_and_in_a_batch(index: Index) -> None:
    """And the query itself is never a hit, nor its rows under another name left out."""
    sources = [index.sources()[name] for name in index.tables()[::5]]
    tables = [index.read(source) for source in sources]
    for order in ("aligned", "generated"):
        alone = [index.search(source, k=100, order=order) for source in sources]
        assert index.search(sources, k=100, order=order) == alone
        assert index.search_as(sources, tables, 100, order=order) == alone
        assert [hits for _, hits in index.search_many(sources, 100, 1, order=order)] == alone
        for source, hits in zip(sources, alone, strict=True):
            assert source.name not in [hit.table for hit in hits]
            assert len(hits) == len(index) - 1
    as_content = index.search(tables[0], k=100)
    (itself,) = [hit for hit in as_content if hit.table == sources[0].name]
    assert (itself.fit, itself.columns.matched) == ("full", 4)
    others = {hit.table: hit for hit in index.search(sources[0], k=100)}
    for hit in as_content:
        if hit.table != sources[0].name:
            assert (hit.score, hit.fit, hit.columns) == (
                *(others[hit.table].score, others[hit.table].fit, others[hit.table].columns),
            )


def test_a_query_without_cells(index: Index) -> None:
    for query in (Table("none", [], 0), Table("empty", [Column("a", []), Column("b", [])], 0)):
        hits = index.search(query, k=5)
        assert (len(hits), best_fit(hits)) == (5, "none")
        assert {(hit.columns.matched, hit.columns.query, hit.columns.table) for hit in hits} == {(0, 0, 4)}
        assert index.search(query, k=5, fit="partial") == []
    assert best_fit([]) == "none"


# --- what fits, and when nothing does ---------------------------------------------------------------------

WORDS = {
    "carriers": "Lufthansa Delta United Iberia Qantas Finnair Emirates Swiss",
    "airports": "FRA ATL ORD MAD SYD HEL DXB ZRH LHR CDG JFK NRT",
    "first": "Silent Golden Broken Endless Midnight Crimson Hidden Last",
    "second": "River Empire Promise Summer Garden Witness Harbor Storm",
    "states": "Ohio Texas Utah Iowa Maine Idaho Nevada Oregon Kansas Florida Georgia Montana Alaska Hawaii",
    "capitals": "Columbus Austin Boise Augusta Salem Topeka Atlanta Helena Juneau Honolulu Denver Albany",
    "foods": "Mehl Butter Zucker Sahne Zwiebeln Kartoffeln Quark Eier Speck Lauch Paprika Petersilie",
    "people": "Keller Rossi Doyle Mori Olsen Novak",
}
CARRIERS, AIRPORTS, FIRST, SECOND, STATES, CAPITALS, FOODS, PEOPLE = (some.split() for some in WORDS.values())


def made(subject: str, seed: int, count: int = 60) -> list[list[str]]:
    """Rows of a subject as tables of the world have them, with a header."""
    chance = random.Random(f"{subject} {seed}")
    pick, number = chance.choice, chance.randint
    match subject:
        case "flights":
            header = ["carrier", "flight", "origin", "destination", "departure", "delay"]
            rows = [
                [
                    *(pick(CARRIERS), f"{pick('LDUIQ')}{pick('HLA')}{number(100, 9999)}"),
                    *(pick(AIRPORTS), pick(AIRPORTS)),
                    f"2019-{number(1, 12):02}-{number(1, 28):02} {number(0, 23):02}:{number(0, 59):02}",
                    str(number(-15, 180)),
                ]
                for _ in range(count)
            ]
        case "films":
            header = ["title", "director", "year", "rating", "minutes"]
            rows = [
                [
                    *(f"The {pick(FIRST)} {pick(SECOND)}", pick(PEOPLE), str(number(1950, 2020))),
                    *(f"{chance.uniform(4, 9):.1f}", str(number(80, 190))),
                ]
                for _ in range(count)
            ]
        case "states":
            header = ["state", "capital", "population", "area"]
            rows = [
                [pick(STATES), pick(CAPITALS), f"{number(500, 39000) * 1000:,}", f"{number(5, 600) * 1000}"]
                for _ in range(count)
            ]
        case "genes":
            header = ["gene", "strand", "sequence", "e_value"]
            rows = [
                [
                    *(f"{pick('ABCK')}{pick('RTD')}{pick('CNX')}{number(1, 20)}", pick("+-")),
                    *("".join(chance.choices("ACGT", k=40)), f"{chance.uniform(1, 9):.2f}e-{number(10, 80)}"),
                ]
                for _ in range(count)
            ]
        case _:
            header = ["Rezept", "Zutaten", "Zubereitung"]
            rows = [
                [
                    *(f"{pick(FOODS)}suppe mit {pick(FOODS)}", ", ".join(chance.sample(FOODS, 4))),
                    f"{pick(FOODS)} waschen, schneiden und {number(5, 60)} Minuten in {pick(FOODS)} kochen.",
                ]
                for _ in range(count)
            ]
    return [header, *rows]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    for subject in ("flights", "films", "states"):
        for seed in range(8):
            write_table(root / "lake" / f"{subject}_{seed}.parquet", made(subject, seed))
    gentus.build(root / "lake", root / "index", settings=QUICK, workers=1).close()
    return root / "index"


@pytest.mark.parametrize("subject", ["genes", "recipes"])
def test_nothing_fits(world: Path, tmp_path: Path, subject: str) -> None:
    query = write_table(tmp_path / "query.parquet", made(subject, 99))
    with gentus.open(world) as index:
        hits = index.search(query)
        assert (len(hits), best_fit(hits)) == (10, "none")
        assert index.search(query, fit="partial") == []


@pytest.mark.parametrize("subject", ["flights", "films", "states"])
def test_a_slice_fits_and_a_half_of_it_fits_in_part(world: Path, tmp_path: Path, subject: str) -> None:
    rows = made(subject, 99)
    width = len(rows[0])
    query = write_table(tmp_path / "query.parquet", rows)
    genes = made("genes", 5)
    foreign = [[*row, gene[0], gene[2]] for row, gene in zip(rows, genes, strict=True)]
    wider = write_table(tmp_path / "wider.parquet", foreign)
    with gentus.open(world) as index:
        hits = index.search(query, k=8)
        assert {hit.table.split("_")[0] for hit in hits} == {subject}
        assert {hit.fit for hit in hits} == {"full"}
        assert {(hit.columns.matched, hit.columns.query, hit.columns.table) for hit in hits} == {
            (width, width, width)
        }
        assert hits[0].columns.pairs == [(name, name) for name in rows[0]]
        assert min(hit.score for hit in hits) > 0.5
        (first, *_) = index.search(wider)
        assert (first.table.split("_")[0], first.fit) == (subject, "partial")
        assert (first.columns.matched, first.columns.query) == (width, width + 2)
        assert {name for name, _ in first.columns.pairs} == set(rows[0])
        assert index.search(wider, fit="full") == []
