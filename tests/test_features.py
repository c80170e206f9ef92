"""Features against slow, obvious references."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gentus.features.evidence import BLOCKS, WIDTH, Evidence, normalize, unit_blocks
from gentus.features.extract import (
    GRAM,
    KINDS,
    NAME,
    PROFILE,
    SHAPE,
    TOKEN,
    Features,
    concatenate,
    featurize,
    featurize_all,
)
from gentus.features.weights import load_tokenizer
from gentus.features.wide import FIRST, MORE, searched_columns
from gentus.table import Column, Table


def table(*columns: list[str]) -> Table:
    return Table("t", [Column(f"c{i}", cells) for i, cells in enumerate(columns)], max(map(len, columns)))


def named_table(*columns: tuple[str, list[str]]) -> Table:
    return Table("t", [Column(name, cells) for name, cells in columns], max(len(c) for _, c in columns))


def kind_counts(features: Features, column: int, low: int, high: int) -> list[int]:
    part = slice(features.starts[column], features.starts[column + 1])
    ids, counts = features.ids[part], features.counts[part]
    return sorted(counts[(ids >= low) & (ids < high)].tolist())


def words_of(cells: list[str]) -> list[str]:
    return re.findall(r"\w+", "\n".join(dict.fromkeys(cells)).lower())


def grams_of(cells: list[str]) -> list[str]:
    found = []
    for cell in dict.fromkeys(cells):
        for word in cell.lower().split():
            padded = f" {word} "
            for size in (3, 4):
                found += [padded[i : i + size] for i in range(len(padded) - size + 1)]
    return found


WORDS = st.text(st.sampled_from("abcXYZ019-_.é"), min_size=1, max_size=7)
CELLS = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=3))
def test_words_and_grams_are_counted_as_by_hand(columns: list[list[str]]) -> None:
    features = featurize(table(*columns))
    for i, cells in enumerate(columns):
        for low, high, reference in ((0, GRAM, words_of(cells)), (GRAM, SHAPE, grams_of(cells))):
            counts = sorted(min(reference.count(x), 255) for x in set(reference))
            found = kind_counts(features, i, low, high)
            assert found == counts  # hashes of 29 bits hardly ever meet


def test_tokens_are_the_tokenizers() -> None:
    cells = ["Barack Obama", "unionability"]
    features = featurize(table(cells))
    found = [int(id) - TOKEN for id in features.ids if TOKEN <= id < NAME]
    ids = load_tokenizer().encode(" ".join(cells).lower(), add_special_tokens=False).ids
    assert found == sorted(set(ids))


def test_names_are_counted_apart_from_cells_and_made_up_ones_not_at_all() -> None:
    features = featurize(
        named_table(("birthDate", ["x"]), ("Birth date", ["x"]), ("column_1", ["x"]), ("", ["x"]))
    )
    words, grams = KINDS["name words"], KINDS["name grams"]
    assert [kind_counts(features, i, *words) for i in range(4)] == [[1, 1], [1, 1], [], []]
    reference = grams_of(["birth date"])
    assert kind_counts(features, 0, *grams) == sorted(reference.count(x) for x in set(reference))
    first, second, third, fourth = (
        features.ids[features.starts[i] : features.starts[i + 1]].tolist() for i in range(4)
    )
    assert first == second != third == fourth
    cells = featurize(named_table(("c0", ["birth date"])))  # the same words, as another kind
    low, high = words[0], KINDS["name grams"][1]
    shifted = [int(id) + NAME for id in cells.ids if id < SHAPE]
    assert shifted == [id for id in first if low <= id < high]


def test_same_text_has_the_same_ids_wherever_it_stands() -> None:
    alone = featurize(table(["harbour bridge"]))
    later = featurize(table(["x" * 300, "y z"], ["12", "13"], ["harbour bridge"]))
    part = slice(later.starts[2], later.starts[3])
    assert np.array_equal(alone.ids, later.ids[part])
    assert np.array_equal(alone.counts, later.counts[part])
    assert np.allclose(alone.profile[0], later.profile[2])


def test_a_table_without_cells_has_no_columns() -> None:
    features = featurize(Table("t", [Column("a", [])], 3))
    assert len(features) == 1
    assert features.profile.shape == (0, PROFILE)


def test_concatenate_and_take_are_inverse() -> None:
    parts = [featurize(table([w, w + "s"], ["1", "2"])) for w in ("ant", "bee", "cat")]
    whole = concatenate(parts)
    assert len(whole) == 3
    for i, part in enumerate(parts):
        again = whole.take([i])
        for name in ("tables", "starts", "ids", "counts", "profile"):
            assert np.array_equal(getattr(again, name), getattr(part, name))


def test_evidence_blocks_have_length_one_and_weights_make_a_mean() -> None:
    features = concatenate([featurize(named_table(("a name", [f"name {i}", f"two {i}"]))) for i in range(8)])
    evidence = Evidence.fit(features, len(features))
    blocks = unit_blocks(evidence.raw(features))
    assert blocks.shape == (8, WIDTH)
    for block in BLOCKS.values():
        assert np.allclose(np.linalg.norm(blocks[:, block], axis=1), 1, atol=1e-5)
    weighted = evidence.columns(features)
    mean = np.mean([blocks[0, b] @ blocks[1, b] for b in BLOCKS.values()])
    assert np.isclose(weighted[0] @ weighted[1], mean, atol=1e-5)
    assert np.isclose(weighted[0] @ weighted[0], 1, atol=1e-5)


def test_idf_counts_tables_not_columns() -> None:
    rare = featurize(table(["zebra"], ["zebra"]))
    common = [featurize(table(["horse"])) for _ in range(9)]
    evidence = Evidence.fit(concatenate([rare, *common]), 10)
    zebra = featurize(table(["zebra"])).ids[0]
    horse = featurize(table(["horse"])).ids[0]
    words = evidence.vocabularies["words"]
    idf = dict(zip(words.ids.tolist(), words.idf.tolist(), strict=True))
    assert abs(idf[zebra] - (np.log(11 / 2) + 1)) < 1 / 16
    assert abs(idf[horse] - (np.log(11 / 10) + 1)) < 1 / 16


def test_normalize_leaves_zero_rows() -> None:
    assert np.array_equal(normalize(np.zeros((2, 3), np.float32)), np.zeros((2, 3), np.float32))


def test_tables_together_have_the_features_that_each_has_alone() -> None:
    some = [
        table(["Oslo", "Rome", "Oslo"], ["1,200", "7", "-3.5"], []),
        table([], []),
        table(["é ü", "x" * 300, "2020-01-01"]),
        table(*[[f"{n} word", "same"] for n in range(40)]),
    ]
    together, alone = featurize_all(some), concatenate([featurize(one) for one in some])
    for name in Features.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name), strict=True)
    assert len(featurize_all([])) == 0


def test_very_wide_tables_are_known_by_some_of_their_columns() -> None:
    """Those that are compared one by one, and others of all parts of the table; the same each time."""
    usual = table(*([f"{at}"] for at in range(FIRST + MORE)))
    assert searched_columns(usual) is usual
    wide = table(*([f"{at}"] if at % 3 else [] for at in range(3000)))
    some = searched_columns(wide)
    filled = [column for column in wide.columns if column.cells]
    assert some.columns[:FIRST] == filled[:FIRST]
    assert len(some.columns) == FIRST + MORE
    assert all(column.cells for column in some.columns)
    places = [filled.index(column) for column in some.columns]
    assert places == sorted(set(places))
    assert max(np.diff(places)) < 10
    assert len(filled) - places[-1] < 10
    assert searched_columns(some) is some
