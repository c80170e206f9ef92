"""Evidence against loops over a tiny vocabulary and against dense linear algebra."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from conftest import dense, sparse

from gentus.arrays import F32
from gentus.features.evidence import BLOCKS, NAMES, WIDTH, WIDTHS, Evidence, profiles
from gentus.features.extract import KINDS, TOKEN, Features, concatenate, featurize
from gentus.features.vocabulary import learn_vocabulary, singular_directions
from gentus.features.weights import load_vectors
from gentus.sparse import SparseRows
from gentus.table import Column, Table

WORDS = [
    "river",
    "lake",
    "sea",
    "pond",
    "brook",
    "stream",
    "spring",
    "well",
    "marsh",
    "delta",
    "canal",
    "moat",
]


def table(number: int) -> Table:
    random = np.random.default_rng(number)
    cells = [" ".join(random.choice(WORDS, random.integers(1, 4))) for _ in range(8)]
    dates = [f"{year}-0{month}" for year, month in random.integers(1, 9, (5, 2))]
    return Table("t", [Column(f"some {WORDS[number % 5]}", cells), Column("column_1", dates)], 8)


@pytest.fixture(scope="module")
def features() -> Features:
    empty = Table("t", [Column("nothing", [])], 2)
    return concatenate([featurize(one) for one in (table(0), empty, *map(table, range(1, 12)))])


@pytest.fixture(scope="module")
def evidence(features: Features) -> Evidence:
    return Evidence.fit(features, len(features))


def entries(features: Features, column: int) -> list[tuple[str, int, int]]:
    """(kind, id, count) of a column."""
    part = range(features.starts[column], features.starts[column + 1])
    found = []
    for at in part:
        ((kind, _),) = ((k, f) for k, (f, last) in KINDS.items() if f <= features.ids[at] < last)
        found.append((kind, int(features.ids[at]), int(features.counts[at])))
    return found


def tables_with(features: Features) -> dict[int, int]:
    """In how many tables each id is."""
    holders: dict[int, set[int]] = defaultdict(set)
    for number in range(len(features)):
        for column in range(features.tables[number], features.tables[number + 1]):
            for _, found, _ in entries(features, column):
                holders[found].add(number)
    return {found: len(tables) for found, tables in holders.items()}


def test_columns_are_the_sums_of_a_loop(features: Features, evidence: Evidence) -> None:
    raw = evidence.raw(features)
    assert raw.shape == (len(features.starts) - 1, WIDTH)
    frequency, tokens = tables_with(features), load_vectors()
    for column, found in enumerate(raw):
        expected = np.zeros(WIDTH)
        for kind, id_, count in entries(features, column):
            idf = round(16 * (math.log((1 + len(features)) / (1 + frequency[id_])) + 1)) / 16
            if kind == "tokens":
                row = tokens[id_ - TOKEN].astype(np.float64) - evidence.centre
            else:
                vocabulary = evidence.vocabularies[kind]
                (at,) = np.flatnonzero(vocabulary.ids == id_)
                row = vocabulary.rows[at].astype(np.float64) * vocabulary.scales[at]
            expected[BLOCKS[kind]] += (1 + math.log(count)) * idf * row
        expected[BLOCKS["profile"]] = profiles(features.profile[column : column + 1])[0]
        assert found == pytest.approx(expected, abs=1e-4)
    made_up = raw[1::2]  # `column_1` says nothing
    assert not made_up[:, [*range(BLOCKS[NAMES[0]].start, BLOCKS[NAMES[1]].stop)]].any()


def test_the_centre_is_the_mean_token(features: Features, evidence: Evidence) -> None:
    frequency, counts = tables_with(features), defaultdict[tuple[int, int], int](int)
    for number in range(len(features)):
        for column in range(features.tables[number], features.tables[number + 1]):
            for kind, id_, count in entries(features, column):
                if kind == "tokens":
                    counts[number, id_] += count
    total, mass = np.zeros(load_vectors().shape[1]), 0.0
    for (_, id_), count in counts.items():
        idf = round(16 * (math.log((1 + len(features)) / (1 + frequency[id_])) + 1)) / 16
        total += (1 + math.log(count)) * idf * load_vectors()[id_ - TOKEN]
        mass += (1 + math.log(count)) * idf
    assert evidence.centre == pytest.approx(total / mass, abs=2e-3)


def dense_tfidf(features: Features, kind: str, ids: list[int]) -> np.ndarray:
    """(T, V) TF-IDF over whole tables, in rows of length one."""
    matrix, frequency = np.zeros((len(features), len(ids))), tables_with(features)
    for number in range(len(features)):
        counts: dict[int, int] = defaultdict(int)
        for column in range(features.tables[number], features.tables[number + 1]):
            for of_kind, id_, count in entries(features, column):
                if of_kind == kind:
                    counts[id_] += count
        for id_, count in counts.items():
            idf = round(16 * (math.log((1 + len(features)) / (1 + frequency[id_])) + 1)) / 16
            matrix[number, ids.index(id_)] = (1 + math.log(count)) * idf
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(lengths > 0, lengths, 1)


@pytest.mark.parametrize("kind", ["words", "grams", "name words"])
def test_a_vocabulary_spans_the_singular_directions_of_tfidf(features: Features, kind: str) -> None:
    vocabulary = learn_vocabulary(features, kind, 1000, seed=0)
    ids = vocabulary.ids.tolist()
    assert ids == sorted(i for i in tables_with(features) if KINDS[kind][0] <= i < KINDS[kind][1])
    matrix = dense_tfidf(features, kind, ids)
    _, values, directions = np.linalg.svd(matrix, full_matrices=False)
    rank = int((values > 1e-6).sum())
    rows = vocabulary.rows * vocabulary.scales[:, None]
    assert rows.shape == (len(ids), WIDTHS[kind])
    # Similarities of tables are those of the matrix itself: all of its directions are kept.
    similarity = matrix @ directions[:rank].T @ directions[:rank] @ matrix.T
    assert matrix @ rows @ rows.T @ matrix.T == pytest.approx(similarity, abs=0.03)
    assert similarity == pytest.approx(matrix @ matrix.T)


def test_a_vocabulary_keeps_what_most_tables_have(features: Features) -> None:
    frequency = tables_with(features)
    of_kind = [i for i in frequency if KINDS["grams"][0] <= i < KINDS["grams"][1]]
    few = learn_vocabulary(features, "grams", 10, seed=0)
    assert len(few.ids) == 10
    assert sorted(-frequency[i] for i in few.ids.tolist()) == sorted(-frequency[i] for i in of_kind)[:10]


def random_matrix(rows: int, columns: int, seed: int, decay: float = 0.8) -> SparseRows:
    """With singular values far enough from each other that each direction can be told."""
    random = np.random.default_rng(seed)
    full = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < 0.3)
    left, values, right = np.linalg.svd(full, full_matrices=False)
    values = decay ** np.arange(len(values))
    return sparse((left * values @ right).astype(np.float32))


@pytest.mark.parametrize(("rows", "columns", "width"), [(30, 50, 8), (50, 30, 8), (12, 40, 12), (5, 3, 9)])
def test_singular_directions_are_those_of_a_dense_decomposition(rows: int, columns: int, width: int) -> None:
    matrix = random_matrix(rows, columns, seed=1)
    found = singular_directions(matrix, width, seed=0, rounds=3)
    expected = np.linalg.svd(dense(matrix).astype(np.float64))[2][:width].T
    width = min(width, rows, columns)
    assert found.shape == (columns, width)
    signs = np.sign((found * expected[:, :width]).sum(0))
    assert found * signs == pytest.approx(expected[:, :width], abs=2e-3)


def test_one_round_finds_the_leading_directions_of_a_larger_matrix() -> None:
    matrix = random_matrix(200, 300, seed=2)
    found = singular_directions(matrix, 10, seed=0)
    expected = np.linalg.svd(dense(matrix).astype(np.float64))[2][:10].T
    assert np.abs((found * expected).sum(0)) == pytest.approx(1, abs=1e-3)


def test_every_round_finds_more_where_singular_values_hardly_fall() -> None:
    matrix = random_matrix(200, 300, seed=2, decay=0.99)
    best = float((np.linalg.svd(dense(matrix))[1][:10] ** 2).sum())

    def share(rounds: int) -> float:
        found = singular_directions(matrix, 10, seed=0, rounds=rounds)
        assert found.T @ found == pytest.approx(np.eye(10), abs=1e-4)
        return float((np.asarray(matrix @ found) ** 2).sum()) / best

    shares = [share(rounds) for rounds in (0, 1, 3, 8)]
    assert shares[0] < 0.88 < shares[1] < shares[2] < shares[3] <= 1 + 1e-5
    assert shares[3] > 0.98


def test_copies_of_tables_make_no_directions_of_rounding_errors() -> None:
    some = random_matrix(10, 80, seed=3)
    found = singular_directions(sparse(np.vstack([dense(some)] * 3)), 30, seed=0)
    assert np.linalg.norm(found, axis=0) == pytest.approx([1] * 10 + [0] * 20, abs=1e-3)
    expected = np.linalg.svd(dense(some), full_matrices=False)[2]
    assert found @ found.T == pytest.approx(expected.T @ expected, abs=1e-3)


def test_nothing_has_no_directions() -> None:
    assert singular_directions(sparse(np.zeros((4, 6), np.float32)), 3, seed=0).shape == (6, 0)
    assert singular_directions(sparse(np.zeros((0, 6), np.float32)), 3, seed=0).shape == (6, 0)


@pytest.mark.parametrize("names", [True, False])
def test_stored_evidence_computes_the_same_to_the_last_bit(features: Features, names: bool) -> None:
    evidence = Evidence.fit(features, len(features), names)
    evidence.weights = np.linspace(0, 1, len(BLOCKS), dtype=np.float32)
    again = Evidence.restore(evidence.arrays())
    assert again.named == evidence.named == names
    assert again.report() == evidence.report()
    for made, expected in ((again.raw, evidence.raw), (again.columns, evidence.columns)):
        np.testing.assert_array_equal(made(features), expected(features), strict=True)


@pytest.mark.parametrize("name", ["words.idf", "grams.rows", "shapes.scales", "evidence.centre"])
def test_evidence_of_a_wrong_shape_is_refused(evidence: Evidence, name: str) -> None:
    stored = evidence.arrays()
    with pytest.raises(ValueError, match="shape"):
        Evidence.restore({**stored, name: stored[name][:-1]})
    with pytest.raises(ValueError, match="missing"):
        Evidence.restore({key: array for key, array in stored.items() if not key.startswith("words.")})


def test_a_column_says_the_same_alone_and_among_others(features: Features, evidence: Evidence) -> None:
    together, at = evidence.raw(features), 0
    for number in range(len(features)):
        alone: F32 = evidence.raw(features.one(number))
        np.testing.assert_array_equal(alone, together[at : at + len(alone)])
        at += len(alone)
