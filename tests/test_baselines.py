"""The research baselines: on small lakes, each alone, and the pieces they share."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from gentus.features import weights
from gentus.features.extract import concatenate
from gentus.table import Column, Table
from gentus_bench import methods
from gentus_bench.baselines import (
    D3L,
    LIFTus,
    Reports,
    Retriever,
    Santos,
    Sato,
    Sherlock,
    Starmie,
    StarmieStatic,
    Tactus,
    TactusStatic,
    TfidfWords,
    serving_mb,
    word_pieces,
)
from gentus_bench.baselines.ann import Neighbours
from gentus_bench.baselines.columns import gather, unit
from gentus_bench.baselines.contrast import (
    ContrastSettings,
    Reader,
    choose,
    drop_columns,
    encode,
    make_encoder,
)
from gentus_bench.baselines.formats import informative_words, pattern
from gentus_bench.baselines.hashed import GRAM, PIECE, SHAPE, WORD, featurize
from gentus_bench.baselines.hashed_evidence import (
    BLOCKS,
    HASHED_WIDTH,
    WIDTH,
    Evidence,
    normalize,
    projection,
)
from gentus_bench.baselines.matching import cosine, matched_weight, soft_jaccard, top_tables, weight_alone
from gentus_bench.baselines.minhash import MinHash, Postings, bands, hashes, jaccard
from gentus_bench.baselines.model_reader import ModelReader, varied_texts
from gentus_bench.baselines.numbers import kolmogorov_smirnov, number, quantiles
from gentus_bench.baselines.sato import smooth
from gentus_bench.baselines.starmie import dropping, train
from gentus_bench.baselines.static_reader import StaticReader
from gentus_bench.baselines.tactus import adaptive_pool, halves
from gentus_bench.baselines.tokens import chance
from gentus_bench.ours import IndexFolder

pytestmark = pytest.mark.skipif(
    not all(find_spec(one) for one in ("usearch", "sklearn", "transformers", weights.MINILM.module)),
    reason="needs usearch, scikit-learn, transformers and the MiniLM weights",
)

SUBJECTS = {
    "cities": ("Berlin Vienna Lisbon Madrid Rome Oslo Dublin Prague Athens Warsaw", "north south coast", 5),
    "fish": ("salmon trout carp pike eel perch herring cod tuna bass", "river lake sea pond brook", 40),
    "metals": ("iron copper zinc nickel silver gold cobalt tin lead titanium", "ore alloy wire sheet", 9000),
    "films": ("Vertigo Alien Casablanca Psycho Rocky Jaws Amadeus Fargo Heat", "drama thriller comedy", 1900),
}
QUICK = ContrastSettings(fewest_steps=5, most_steps=5, tables=8)

Make = Callable[..., Any]


def quick(method: Make, **options: Any) -> Any:
    return method(settings=QUICK, **options) if method in CONTRASTIVE else method(**options)


CONTRASTIVE: list[Make] = [Starmie, StarmieStatic, Tactus, TactusStatic]
ALL: list[Make] = [Sherlock, Sato, LIFTus, Santos, D3L, *CONTRASTIVE]
each = pytest.mark.parametrize("method", ALL)


def make(subject: str, seed: int, rows: int = 12, header: str = "c") -> Table:
    chance = random.Random(f"{subject} {seed}")
    names, kinds, size = SUBJECTS[subject]
    columns = [
        [chance.choice(names.split()) for _ in range(rows)],
        [chance.choice(kinds.split()) for _ in range(rows)],
        [f"{chance.uniform(size, 2 * size):.1f}" for _ in range(rows)],
    ]
    return table(f"{subject}_{seed}", columns, header)


def table(name: str, columns: list[list[str]], header: str = "c") -> Table:
    return Table(name, [Column(f"{header}{i}", cells) for i, cells in enumerate(columns)], len(columns[0]))


LAKE = [make(subject, seed) for subject in SUBJECTS for seed in range(5)]
ODD = [
    table("empty_column", [[], ["salmon", "trout"]]),
    table("nothing", [[], []]),
    table("one", [["salmon"]]),
    table("numbers", [["1", "2", "3"], ["0.5", "0.7", "1e3"]]),
    table("signs", [["\u3042\u3044", "\U0001f41f", "\ufffd"], ["-", "--", "?"]]),
    table("wide", [[f"v{i}", f"w{i}"] for i in range(60)]),
]


@cache
def fitted(method: Make) -> Any:
    retriever = quick(method, seed=3)
    retriever.fit(iter([*LAKE, *ODD]))
    return retriever


@each
def test_each_finds_the_tables_that_fit(method: Make) -> None:
    retriever = fitted(method)
    for subject in SUBJECTS:
        found = retriever.search(make(subject, 77), 4)
        assert [name.split("_")[0] for name in found] == [subject] * 4
    assert retriever.search(LAKE[7], 1) == [LAKE[7].name]
    assert len(retriever.search(LAKE[7], 100)) <= len(LAKE) + len(ODD)


@pytest.mark.slow
@each
def test_each_is_deterministic_and_sees_no_column_names(method: Make) -> None:
    query = make("fish", 78)
    renamed = make("fish", 78, header="city metal film ")
    again = quick(method, seed=3)
    again.fit([*(make(*_parts(one), header="name of fish ") for one in LAKE), *ODD])
    ranking = fitted(method).search(query, 20)
    assert len(ranking) >= 5
    assert ranking == again.search(query, 20) == again.search(renamed, 20)


def _parts(one: Table) -> tuple[str, int]:
    subject, seed = one.name.split("_")
    return subject, int(seed)


@each
def test_each_survives_odd_tables(method: Make) -> None:
    odd, retriever = ODD, fitted(method)
    names = {one.name for one in (*LAKE, *odd)}
    for query in (*odd, table("unknown", [["qqqqxyz", "zzzzvbn"], ["\u0416\u0416\u0416", "xxkcdq"]])):
        found = retriever.search(query, 30)
        assert len(found) == len(set(found))
        assert set(found) <= names
        assert "nothing" not in found
    assert retriever.search(table("q", [[], []]), 5) == []
    if method is not Santos:  # which has no semantics of numbers
        assert retriever.search(odd[3], 1) == ["numbers"]
    facts = retriever.facts()
    assert isinstance(retriever, Reports)
    assert facts["bytes_per_table"] > 100
    assert facts["note"]


@each
def test_each_takes_an_empty_or_tiny_lake(method: Make) -> None:
    for lake in ([], [table("nothing", [[]])], [table("one", [["salmon", "trout"]])]):
        retriever = quick(method)
        retriever.fit(lake)
        found = retriever.search(table("q", [["salmon", "trout"]]), 5)
        assert found == (["one"] if lake and lake[0].name == "one" else [])
        assert retriever.facts()["bytes_per_table"] >= 0


def test_all_are_methods_of_the_bench(tmp_path: Any) -> None:
    lake = methods.Lake(tmp_path, None, None, IndexFolder(tmp_path))
    names = []
    keys = (
        "sherlock",
        "sato",
        "starmie",
        "starmie-static",
        "liftus",
        "tactus",
        "tactus-static",
        "santos",
        "d3l",
    )
    for key in keys:
        retriever: Retriever | None = methods.METHODS[key](lake)
        assert retriever is not None
        names.append(retriever.name)
    assert names == [
        "Sherlock-type",
        "SATO-type",
        "Starmie-type",
        "Starmie-type, static vectors",
        "LIFTus-type",
        "TACTUS-type",
        "TACTUS-type, static vectors",
        "SANTOS-type",
        "D3L-type",
    ]


def test_d3l_sees_names_if_told_to() -> None:
    lake = [table("a", [["x1", "x2"]], "weight"), table("b", [["x1", "x2"]], "height")]
    for header, answer in (("weight", "a"), ("height", "b")):
        told = D3L(headers=True)
        told.fit(lake)
        assert told.search(table("q", [["x1", "x2"]], header), 1) == [answer]
    told = D3L()
    told.fit(lake)
    assert told.search(table("q", [["x1", "x2"]], "height"), 2) == ["a", "b"]


def test_santos_knows_which_values_stand_in_one_row() -> None:
    people, places = [f"person {i}" for i in range(8)], [f"place {i}" for i in range(8)]
    born = table("born", [people, places])
    moved = table("moved", [people, places[3:] + places[:3]])
    retriever = Santos()
    retriever.fit([moved, born])
    assert retriever.search(table("q", [people[:5], places[:5]]), 2) == ["born", "moved"]
    assert retriever.search(table("q", [places[:5], people[:5]]), 2) == ["born", "moved"]


@pytest.mark.parametrize("shape", [(1, 1), (2, 4), (4, 3), (5, 5)])
def test_matching_is_the_best_of_all(shape: tuple[int, int]) -> None:
    chance = np.random.default_rng(0)
    for _ in range(20):
        similarity = chance.random(shape, np.float32)
        small, large = sorted(shape)
        tall = similarity if shape[0] == small else similarity.T
        every = (
            sum(tall[i, j] for i, j in enumerate(p)) for p in itertools.permutations(range(large), small)
        )
        assert matched_weight(similarity) == pytest.approx(max(every), abs=1e-5)


@pytest.mark.parametrize("score", [weight_alone, soft_jaccard, cosine])
def test_bounds_change_nothing(score: Any) -> None:
    chance = np.random.default_rng(1)
    for k in (1, 5, 200):
        counts = chance.integers(1, 7, 150)
        similarity = chance.random((4, counts.sum()), np.float32) ** 4
        similarity[similarity < 0.3] = 0
        offsets = chance.random(150) / 10
        ends = np.cumsum(counts)
        weights = np.array(
            [matched_weight(similarity[:, e - c : e]) for e, c in zip(ends, counts, strict=True)]
        )
        exact = score(weights, 4, counts) + offsets
        places, scores = top_tables(similarity, counts, k, score, offsets)
        np.testing.assert_allclose(scores, np.sort(exact)[::-1][:k], atol=1e-6)
        np.testing.assert_allclose(exact[places], scores, atol=1e-6)


PRIME = 0x9E3779B97F4A7C15
ALL_BITS = (1 << 64) - 1


def mixed(x: int) -> int:
    """The finaliser of SplitMix64."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL_BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL_BITS
    return x ^ (x >> 31)


def bucket(hashed: int) -> int:
    return mixed(hashed & ALL_BITS) >> 48


def word_id(word: str) -> int:
    return WORD + bucket(sum(mixed(ord(letter)) * PRIME**place for place, letter in enumerate(word)))


def gram_id(gram: str) -> int:
    hashed = len(gram)
    for letter in gram:
        hashed = hashed * PRIME + mixed(ord(letter))
    return GRAM + bucket(hashed)


def shape_id(cell: str) -> int:
    shape = cell
    for run, sign in ((r"\s+", " "), ("[A-Z]+", "A"), ("[a-z]+", "a"), (r"\d", "0")):
        shape = re.sub(run, sign, shape)
    hashed = 0
    for byte in shape.encode():
        hashed = hashed * PRIME + byte + 1
    return SHAPE + bucket(hashed)


def counted_by_hand(cells: list[str]) -> Counter[int]:
    """How often each id occurs in a column of ASCII cells, each shorter than 33 characters."""
    values = list(dict.fromkeys(cells))
    found: Counter[int] = Counter()
    for value in values:
        found.update(map(word_id, re.findall(r"\w+", value.lower())))
        for word in value.lower().split():
            padded = f" {word} "
            found.update(gram_id(padded[i : i + n]) for n in (3, 4) for i in range(len(padded) - n + 1))
        found[shape_id(value)] += 1
    pieces = word_pieces.load_tokenizer().encode(" ".join(values), add_special_tokens=False).ids
    found.update(PIECE + piece for piece in pieces)
    return found


def test_counts_of_baselines_are_as_by_hand() -> None:
    columns = [
        ["Salmon  trout", "salmon", "the carp, the eel", "salmon"],
        [],
        ["2020-01-31", "12 May 1999", "$1,200.50", "x"],
        ["b"],
    ]
    features = featurize(table("t", columns))
    filled = [cells for cells in columns if cells]
    assert features.tables.tolist() == [0, 3]
    assert features.positions.tolist() == [[0, 3], [2, 1], [3, 0]]
    for column, cells in enumerate(filled):
        part = slice(features.starts[column], features.starts[column + 1])
        expected = sorted(counted_by_hand(cells).items())
        assert list(zip(features.ids[part].tolist(), features.counts[part].tolist(), strict=True)) == expected
    published = (word_id("salmon"), gram_id(" sal"), shape_id("Salmon"))
    assert published == (24_065, 120_512, 142_849)
    assert set(published) <= set(featurize(table("t", [["Salmon"]])).ids.tolist())


def test_counts_of_baselines_do_not_depend_on_names_or_stop_at_empty_tables() -> None:
    one, other = (featurize(table("t", [["salmon"], ["2"]], header)) for header in ("fish", "year of "))
    np.testing.assert_array_equal(one.ids, other.ids)
    nothing = featurize(table("t", [[], []]))
    assert (len(nothing), len(nothing.ids), len(nothing.profile)) == (1, 0, 0)


def test_vectors_of_baselines_are_sums_of_signed_ids_in_blocks_of_length_one() -> None:
    features = concatenate([featurize(one) for one in LAKE])
    evidence = Evidence.fit([features])
    blocks = evidence.blocks(features)
    assert blocks.shape == (3 * len(LAKE), WIDTH)
    for block in BLOCKS.values():
        np.testing.assert_allclose(np.linalg.norm(blocks[:, block], axis=1), 1, atol=1e-5)
    dimension, sign = projection()
    for column in (0, 7):
        sums = np.zeros((1, HASHED_WIDTH), np.float32)
        for at in range(features.starts[column], features.starts[column + 1]):
            of = int(features.ids[at])
            if of < PIECE:
                weight = (1 + np.log(float(features.counts[at]))) * evidence.idf[of]
                sums[0, dimension[of]] += sign[of] * weight
        for kind in ("words", "grams", "shapes"):
            expected = normalize(sums[:, BLOCKS[kind]].copy())[0]
            np.testing.assert_allclose(blocks[column, BLOCKS[kind]], expected, atol=1e-5)


def test_rare_words_of_baselines_are_those_of_few_tables_not_of_few_columns() -> None:
    lake = [table("t", [["zebra"], ["zebra"]]), *(table("t", [["horse"]]) for _ in range(9))]
    idf = Evidence.fit([concatenate([featurize(one) for one in lake])]).idf
    assert idf[word_id("zebra")] == pytest.approx(np.log(11 / 2) + 1, abs=1 / 16)
    assert idf[word_id("horse")] == pytest.approx(np.log(11 / 10) + 1, abs=1 / 16)


def test_minhash_estimates_jaccard() -> None:
    values = hashes(f"value {i}" for i in range(3000))
    sketch = MinHash(512, seed=5)
    sets = [values[:1000], values[500:1500], values[900:1100], values[2000:], values[:0]]
    estimates = jaccard(sketch.signatures(sets), sketch.signatures(sets))
    for i, j in itertools.product(range(4), repeat=2):
        a, b = set(sets[i].tolist()), set(sets[j].tolist())
        assert estimates[i, j] == pytest.approx(len(a & b) / len(a | b), abs=0.07)
    assert not estimates[4].any()
    np.testing.assert_array_equal(sketch.signatures(sets), MinHash(512, seed=5).signatures(sets))


def test_bands_find_similar_sets() -> None:
    values = hashes(f"value {i}" for i in range(4000))
    sets = [values[:100], values[10:110], *(values[i : i + 100] for i in range(200, 4000, 100))]
    keys = bands(MinHash(128).signatures(sets), 4)
    lists = Postings(keys.ravel(), np.repeat(np.arange(len(sets)), keys.shape[1]))
    found = lists.lookup(keys[0])[1]
    assert set(found.tolist()) == {0, 1}
    assert lists.lookup(hashes(["not there"]))[1].tolist() == []


def test_the_graph_finds_what_a_scan_finds() -> None:
    chance = np.random.default_rng(2)
    rows = unit(chance.normal(size=(3000, 16)).astype(np.float32))
    rows[1000:2000] = rows[0]  # as lakes repeat columns
    index = Neighbours(rows)
    queries = unit(chance.normal(size=(4, 16)).astype(np.float32))
    found = index.nearest(queries, 50)
    exact = np.unique(np.argsort(-(queries @ rows.T), axis=1)[:, :50])
    assert len(np.intersect1d(found, exact)) >= 0.95 * len(exact)
    assert set(range(1000, 2000)) <= set(index.nearest(rows[:1], 1).tolist())
    assert 16 * 2 * 2000 < index.nbytes < 16 * 2 * 2000 + 400 * 2000
    assert len(index.nearest(queries, 5000)) == 3000


def test_numbers_and_their_distributions() -> None:
    assert number("$1,200.5") == 1200.5
    assert number("12%") == 12
    assert np.isnan([number(text) for text in ("nan", "infinity", "a1", "1-2", "")]).all()
    assert quantiles(["a", "b", "1"]) is None
    chance = np.random.default_rng(3)
    from scipy.stats import ks_2samp

    own = np.sort(chance.integers(0, 9, 33)).astype(np.float32)
    theirs = np.sort(chance.normal(4, 3, (5, 33)).round(), axis=1).astype(np.float32)
    expected = [ks_2samp(own, row).statistic for row in theirs]
    np.testing.assert_allclose(kolmogorov_smirnov(own, theirs), expected, atol=1e-6)


def test_formats_and_informative_words() -> None:
    assert pattern("12 May 1999") == pattern("3 June 2004")
    assert pattern("AB-12") != pattern("12-AB")
    column = Column("c", ["Oak Street", "Elm Street", "Oak Street", "Ash Street"])
    assert informative_words(column) == {"oak", "elm", "ash"}


def test_neighbours_decide_an_unsure_type() -> None:
    types = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]], np.float32)
    potentials = np.array([[0, 2, -2], [0, 0, 0], [0, 0, 0]], np.float32)
    smoothed = smooth(types, np.array([True, False, False]), potentials)
    np.testing.assert_allclose(smoothed.sum(1), 1, atol=1e-6)
    assert smoothed[1, 1] > 0.8
    np.testing.assert_allclose(smoothed[2], types[2], atol=1e-6)  # another table


@pytest.mark.parametrize("make_reader", [ModelReader, StaticReader])
def test_the_contrast_is_learned_and_batches_do_not_matter(make_reader: Callable[[], Reader]) -> None:
    lake = gather(LAKE, features=False)
    settings = ContrastSettings(fewest_steps=20, most_steps=20, tables=12)
    reader = make_reader()
    lessons = reader.fit(lake, dropping(0.5), settings, 0)
    encoder = make_encoder(reader.width, settings, 0)
    losses = train(encoder, reader, lessons, settings, 0)
    again = train(encoder, reader, lessons, settings, 0)  # the same views, seen by what has learned
    assert np.mean(again) < 0.95 * np.mean(losses)
    together = encode(encoder, lessons.plain, lake.starts)
    alone = encode(encoder, lessons.plain, lake.starts, most=1)
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("make_reader", [ModelReader, StaticReader])
def test_an_untrained_encoder_passes_on_what_enters(make_reader: Callable[[], Reader]) -> None:
    lake = gather([table("a", [["salmon"], ["river"]]), table("b", [["salmon"]])], features=False)
    reader = make_reader()
    lessons = reader.fit(lake, halves, QUICK, 0)
    columns, _ = encode(make_encoder(reader.width, QUICK, 0), lessons.plain, lake.starts)
    np.testing.assert_allclose(columns[0], columns[2], atol=1e-5)  # no context yet
    entering = lessons.plain(np.arange(3)).detach().numpy()
    np.testing.assert_allclose(columns, unit(entering), atol=1e-5)
    np.testing.assert_allclose(reader.read([["river"]])(np.array([0])).detach()[0], entering[1], atol=1e-2)


@pytest.mark.parametrize("method", [Starmie, Tactus])
def test_language_model_variants_find_the_slices_of_a_table(method: Make) -> None:
    slices = []
    for subject in SUBJECTS:
        whole = make(subject, 5, rows=48)
        for part in range(4):
            rows = [column.cells[part::4] for column in whole.columns]
            slices.append(table(f"{subject}_{part}", rows))
    retriever = quick(method)
    retriever.fit(slices)
    for query in slices[::5]:
        found = retriever.search(query, 4)
        assert found[0] == query.name
        assert {name.split("_")[0] for name in found} == {query.name.split("_")[0]}


def test_halves_are_complementary_but_for_a_little() -> None:
    first, second = (keep(np.arange(10_000)) for keep in halves(np.random.default_rng(0)))
    assert (first | second).all()
    assert (first & second).mean() == pytest.approx(0.1, abs=0.02)
    assert first.mean() == pytest.approx(0.55, abs=0.02)
    first, second = (keep(np.arange(10_000)) for keep in dropping(0.5)(np.random.default_rng(0)))
    assert first.mean() != second.mean()
    assert min(first.mean(), second.mean()) >= 0.48


def test_varied_texts_are_parts_of_their_columns_and_never_empty() -> None:
    values = [f"v{i}" for i in range(24)]
    lake = gather([table("a", [values, ["alone"]]), table("b", [values])], features=False)
    random = np.random.default_rng(0)
    texts = varied_texts(lake, [np.array([0, 1]), np.array([2])], halves, 2, random)
    assert [len(variant) for variant in texts] == [3] * 4
    assert all(variant[1] == "alone" for variant in texts)
    for one, other in (texts[:2], texts[2:]):
        for column in (0, 2):
            assert set(one[column].split()) | set(other[column].split()) == set(values)
            assert len(one[column].split()) < 24
    assert len({variant[column] for variant in texts for column in (0, 2)}) == 8  # each table draws anew


def test_a_language_model_reads_views_of_a_sample() -> None:
    lake = gather(LAKE, features=False)
    lessons = ModelReader().fit(lake, halves, ContrastSettings(sample=7, widest=2), 3)
    assert len(lessons.tables) == len(lessons.columns) == 7
    for one, columns in zip(lessons.tables, lessons.columns, strict=True):
        assert len(columns) == 2
        assert set(columns) <= set(lake.of(one))
    columns = np.concatenate(lessons.columns)
    first, second = (view(columns) for view in lessons.draw(np.random.default_rng(0)))
    assert first.shape == second.shape == (14, 384)
    assert (first != second).any()
    plain = lessons.plain(columns)
    alike = (unit(first.numpy()) * unit(plain.numpy())).sum(1)
    others = (unit(first.numpy()) * unit(plain.numpy()[::-1])).sum(1)
    assert alike.mean() > others.mean() + 0.3


def test_columns_are_chosen_in_order_and_never_all_dropped() -> None:
    random = np.random.default_rng(0)
    columns = np.arange(40, 60)
    some = choose(columns, 5, random)
    assert len(some) == len(set(some)) == 5
    assert (np.diff(some) > 0).all()
    assert choose(columns, 20, random) is columns
    assert len(drop_columns(columns, 0.5, random)) < 20
    assert drop_columns(columns, 1.0, random).tolist() == columns.tolist()


def test_a_pool_holds_what_stands_out() -> None:
    scores = np.array([0.1] * 90 + [0.9] * 10, np.float32)
    assert adaptive_pool(scores, 5).tolist() == list(range(90, 100))
    assert len(adaptive_pool(scores, 20)) == 20
    assert len(adaptive_pool(scores[:3], 20)) == 3


def test_chance_is_even_and_by_value() -> None:
    drawn = chance(np.arange(10_000), 4)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.02)
    assert chance(np.array([17]), 4)[0] == drawn[17]
    assert chance(np.array([17]), 5)[0] != drawn[17]


def test_serving_memory_is_counted_once_and_whole() -> None:
    import torch
    from scipy import sparse

    class Slotted:
        __slots__ = ("rows",)

    mebi = 1 << 20
    array = np.zeros(mebi, np.uint8)
    assert serving_mb(array) == 1
    assert serving_mb([array, array, {"again": array[5:9]}, torch.from_numpy(array)]) == pytest.approx(
        1, abs=1e-2
    )
    assert serving_mb(array[:3]) == 1  # for that is what it keeps in memory
    slotted = Slotted()
    slotted.rows = (array, np.ones(mebi, np.uint8))  # type: ignore[attr-defined]
    assert serving_mb(slotted, array) == pytest.approx(2, abs=1e-2)
    matrix = sparse.csr_matrix(np.eye(1000, dtype=np.float32))
    assert serving_mb(matrix) == pytest.approx((4000 + 4000 + 4004) / mebi, abs=2e-3)
    assert serving_mb(torch.nn.Linear(1024, 512)) == pytest.approx(2, abs=0.05)
    assert serving_mb({"x" * mebi: ["y" * mebi]}) == pytest.approx(2, abs=1e-2)
    graph = Neighbours(unit(np.random.default_rng(0).normal(size=(500, 256)).astype(np.float32)))
    assert serving_mb(graph) > (500 * 256 * (4 + 2)) / mebi  # rows, and in the graph halves of them
    assert serving_mb(word_pieces.load_vectors()) == pytest.approx(30_522 * 384 * 4 / mebi)
    assert serving_mb(np, test_serving_memory_is_counted_once_and_whole, Slotted) == 0  # code is no data


@pytest.mark.parametrize("method", [TfidfWords, LIFTus, Santos, D3L, Starmie, TactusStatic])
def test_serving_memory_grows_with_the_lake(method: Make) -> None:
    few = quick(method)
    few.fit(LAKE[:8])
    few.search(LAKE[0], 3)
    many = fitted(method) if method in ALL else method()
    if method not in ALL:
        many.fit(LAKE)
    many.search(LAKE[0], 3)
    sizes = [one.facts()["serving_mb"] for one in (few, many)]
    assert 0 < sizes[0] < sizes[1]
    if method is Starmie:
        assert sizes[0] > 85  # the language model
    elif method in (LIFTus, D3L):
        assert sizes[0] > 44  # static vectors
    elif method in (TfidfWords, Santos):
        assert sizes[1] < 10
