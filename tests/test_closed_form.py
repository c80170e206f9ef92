"""The closed form: it solves its eigenproblem, trusts names as far as they deserve it, and finds tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import QUICK, SUBJECTS, closed_form, dense, rows_of, sparse, subject_of, write_table

import gentus
from gentus.arrays import F32, half
from gentus.embed.closed_form import ClosedForm, learn_space, normalized_affinity
from gentus.embed.smoothing import smooth, smooth_new
from gentus.features.evidence import (
    BLOCKS,
    NAMES,
    Blocks,
    Evidence,
    learn_blocks,
    name_agreement,
    normalize,
    unit_blocks,
)
from gentus.features.extract import Features, concatenate, featurize
from gentus.identifiers.semantic_ids import format_sid
from gentus.index.index import Index
from gentus.neighbours.graph import Neighbours, find_neighbours
from gentus.settings import GraphSettings, SpaceSettings
from gentus.sparse import SparseRows
from gentus.table import Column, Table

# What columns of a subject may be called.
CALLED = {
    "cities": ("city", "region", "inhabitants", "census year"),
    "fish": ("species", "waters", "weight", "year caught"),
    "films": ("title", "genre", "budget", "released"),
    "metals": ("metal", "form", "price", "quoted"),
    "birds": ("bird", "habitat", "wingspan", "sighted"),
    "tools": ("tool", "kept where", "cost", "bought"),
}


def table(subject: str, number: int, names: tuple[str, ...] | None = None) -> Table:
    header, *rows = rows_of(subject, number)
    parts = zip(names or header, zip(*rows, strict=True), strict=True)
    return Table(f"{subject}_{number}", [Column(name, list(cells)) for name, cells in parts], len(rows))


def lake(called: str = "right", slices: int = 6) -> Features:
    """Tables of six subjects whose names of columns are right, those of any subject, or none at all."""
    random = np.random.default_rng(0)

    def choice(subject: str) -> tuple[str, ...]:
        if called == "none":
            return ("column_1", "column_2", "column_3", "column_4")
        return CALLED[subject if called == "right" else str(random.choice(list(CALLED)))]

    return concatenate([featurize(table(s, n, choice(s))) for s in SUBJECTS for n in range(slices)])


def learnt(features: Features, names: bool = True) -> tuple[Blocks, F32, Neighbours]:
    """Blocks of a lake, and its neighbour graph."""
    blocks = learn_blocks(Evidence.fit(features, len(features), names), features, SpaceSettings())
    encoded = blocks.encode(features)
    graph = find_neighbours(encoded.blocks, encoded.columns, encoded.starts, GraphSettings())
    return blocks, encoded.vectors(graph.order), graph


@pytest.fixture(scope="module")
def named() -> tuple[Blocks, F32, Neighbours]:
    return learnt(lake())


# --- blocks ---------------------------------------------------------------------------------------------


def test_blocks_of_a_table_are_sums_over_its_columns() -> None:
    features = lake(slices=2)
    blocks = learn_blocks(Evidence.fit(features, len(features)), features, SpaceSettings())
    encoded = blocks.encode(features)
    raw = blocks.evidence.raw(features)
    weights = {"words": 0.3, "grams": 0.3, "tokens": 0.3, "profile": 0.1}
    weights |= dict.fromkeys(NAMES, 0.5 * blocks.name_trust)
    assert blocks.name_trust > 0
    for number, found in enumerate(encoded.blocks):
        own = slice(features.tables[number], features.tables[number + 1])
        parts = []
        for kind, weight in weights.items():
            total = raw[own, BLOCKS[kind]].astype(np.float64).sum(0)
            parts.append((weight / sum(weights.values())) ** 0.5 * total / np.linalg.norm(total))
        mean = encoded.columns[own].astype(np.float64).sum(0)
        parts.append(mean / np.linalg.norm(mean))
        assert found == pytest.approx(np.concatenate(parts), abs=1e-4)
    assert np.linalg.norm(encoded.columns, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("whitening", [0.0, 0.4, 1.0])
def test_columns_are_whitened_as_far_as_is_asked(whitening: float) -> None:
    features = lake(slices=3)
    evidence = Evidence.fit(features, len(features), names=False)
    unit = unit_blocks(evidence.raw(features))
    values = np.sort(np.linalg.eigvalsh(0.2 * unit.T @ unit / len(unit)))[::-1][:20]  # every kind weighs 0.2
    blocks = learn_blocks(evidence, features, SpaceSettings(columns=20, whitening=whitening))
    columns = unit @ blocks.basis
    expected = values[0] ** whitening * values ** (1 - whitening)
    assert columns.T @ columns / len(unit) == pytest.approx(np.diag(expected), rel=0.01, abs=5e-4)


def test_a_table_without_columns_has_blocks_and_latents_of_zeros(
    named: tuple[Blocks, F32, Neighbours],
) -> None:
    blocks, known, graph = named
    space = learn_space(blocks, known, graph, SpaceSettings())
    nothing = Table("nothing", [Column("empty", [])], 3)
    full = table("fish", 77)
    mixed = concatenate([featurize(one) for one in (nothing, full, nothing)])
    for empty in (0, 2):
        assert not blocks.encode(mixed).blocks[empty].any()
        assert not space.encode(mixed)[empty].any()
    assert space.encode(mixed)[1] == pytest.approx(space.encode(featurize(full))[0], abs=1e-5)
    assert not space.encode(featurize(nothing)).any()
    assert blocks.encode(featurize(nothing)).columns.shape == (0, blocks.basis.shape[1])


# --- names ----------------------------------------------------------------------------------------------


def trust_of(called: str) -> float:
    features = lake(called)
    return name_agreement(Evidence.fit(features, len(features)).raw(features), features)


def test_names_are_trusted_as_far_as_they_agree_with_cells() -> None:
    assert trust_of("right") > 0.8
    assert trust_of("shuffled") < 0.2
    assert trust_of("none") == 0


def test_names_that_are_not_trusted_have_no_blocks() -> None:
    features = lake("none")
    blocks = learn_blocks(Evidence.fit(features, len(features)), features, SpaceSettings())
    assert blocks.name_trust == 0
    assert not blocks.name_blocks()
    assert not blocks.basis[BLOCKS[NAMES[0]]].any()
    assert not blocks.basis[BLOCKS[NAMES[1]]].any()


def test_a_table_without_names_is_as_usual_and_not_unlike_all_others(
    named: tuple[Blocks, F32, Neighbours],
) -> None:
    blocks, known, graph = named
    space = learn_space(blocks, known, graph, SpaceSettings())
    subjects = np.repeat(np.arange(len(SUBJECTS)), 6)
    latents = space.latents(known)
    for number, subject in enumerate(SUBJECTS):
        anonymous = featurize(table(subject, 50, ("column_1", "column_2", "column_3", "column_4")))
        best = np.argsort(-(latents @ space.encode(anonymous)[0]))[:5]
        assert (subjects[best] == number).all()
        own = blocks.encode(anonymous).vectors(space.order)[0]
        assert [own[part].any() for part in blocks.name_blocks()] == [False, False]
        usual = own.copy()
        for part in blocks.name_blocks():
            usual[part] = space.centre[part]
        np.testing.assert_array_equal(space.latents(own[None]), space.latents(usual[None]))


# --- the eigenproblem -----------------------------------------------------------------------------------


def problem(known: F32, graph: SparseRows, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """X'AX, symmetric, and X'X + ridge, of centred blocks: densely, and A by its definition."""
    centred = known.astype(np.float64) - known.mean(0, dtype=np.float64)
    full = dense(graph).astype(np.float64)
    rows = full / full.sum(1, keepdims=True)
    both = (rows + rows.T) / 2
    degree = both.sum(1)
    affinity = both / np.sqrt(np.outer(degree, degree))
    assert dense(normalized_affinity(graph)) == pytest.approx(affinity, abs=1e-7)  # in single precision
    spread = centred.T @ centred
    return centred.T @ affinity @ centred, spread + ridge * np.trace(spread) * np.eye(len(spread))


def orthonormal(directions: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The same span, with W' spread W = I."""
    root = np.linalg.cholesky(directions.T @ spread @ directions)
    return np.asarray(np.linalg.solve(root, directions.T).T)


@pytest.mark.parametrize(("tables", "width"), [(60, 20), (40, 70)])
def test_the_space_solves_the_generalised_eigenproblem(
    named: tuple[Blocks, F32, Neighbours], tables: int, width: int
) -> None:
    random = np.random.default_rng(0)
    known = normalize(random.normal(size=(tables, width)).astype(np.float32))
    similar = known @ known.T + 0.3 * random.random((tables, tables))
    graph = sparse(np.where(similar > 0.4, similar, 0).astype(np.float32))
    how = SpaceSettings(latent=6)
    found = learn_space(named[0], known, Neighbours(graph, 0.0), how).projection.astype(np.float64)
    near, spread = problem(known, graph, how.ridge)
    metric = found.T @ spread @ found
    scale = np.sqrt(np.diag(metric))
    assert metric / np.outer(scale, scale) == pytest.approx(np.eye(6), abs=5e-3)  # half precision
    directions = found / scale
    values = np.diag(directions.T @ near @ directions)
    assert directions.T @ near @ directions == pytest.approx(np.diag(values), abs=5e-3)
    assert (np.diff(values) <= 1e-4).all()
    assert scale**2 / scale[0] ** 2 == pytest.approx(values / values[0], rel=0.01)  # roots of eigenvalues
    everything = np.linalg.eigvals(np.linalg.solve(spread, near)).real
    assert values == pytest.approx(np.sort(everything)[::-1][:6], abs=2e-3)

    def objective(some: np.ndarray) -> float:
        made = orthonormal(some, spread)
        return float(np.trace(made.T @ near @ made))

    best = objective(directions)
    assert best == pytest.approx(float(values.sum()), abs=2e-3)
    for _ in range(20):
        other = random.normal(size=directions.shape)
        assert objective(other) < best
        moved = directions + 0.3 * other * np.linalg.norm(directions) / np.linalg.norm(other)
        assert objective(moved) < best + 1e-6


def test_signs_do_not_depend_on_the_library(named: tuple[Blocks, F32, Neighbours]) -> None:
    projection = learn_space(*named, SpaceSettings(latent=12)).projection
    assert (projection[np.abs(projection).argmax(0), np.arange(12)] > 0).all()


def test_latents_bring_neighbours_together(named: tuple[Blocks, F32, Neighbours]) -> None:
    latents = learn_space(*named, SpaceSettings()).latents(named[1])
    assert np.linalg.norm(latents, axis=1) == pytest.approx(1, abs=1e-5)
    subjects = np.repeat(np.arange(len(SUBJECTS)), 6)
    similarity = latents @ latents.T
    np.fill_diagonal(similarity, -1)
    assert (subjects[np.argsort(-similarity, 1)[:, :5]] == subjects[:, None]).mean() > 0.95


def test_without_a_graph_similarities_stay_as_they_are() -> None:
    features = lake(slices=2)
    blocks = learn_blocks(Evidence.fit(features, len(features)), features, SpaceSettings())
    known = blocks.encode(features).blocks
    space = learn_space(blocks, known, None, SpaceSettings())
    unit = normalize(known.copy())
    latents = space.latents(known)
    assert latents @ latents.T == pytest.approx(unit @ unit.T, abs=5e-3)


@pytest.mark.parametrize("names", [True, False])
def test_a_stored_space_gives_the_same_latents_to_the_last_bit(names: bool) -> None:
    features = lake()
    space = learn_space(*learnt(features, names), SpaceSettings())
    again = ClosedForm.restore(space.arrays())
    np.testing.assert_array_equal(again.encode(features), space.encode(features), strict=True)
    features = featurize(table("fish", 3))
    columns, expected = (one.blocks.encode(features).columns for one in (again, space))
    np.testing.assert_array_equal(columns, expected)
    assert again.name_trust == space.name_trust
    assert (space.name_trust is None) == (not names)
    for name in ("closed_form.basis", "closed_form.centre", "closed_form.projection"):
        stored = space.arrays()
        with pytest.raises(ValueError, match="fit"):
            ClosedForm.restore({**stored, name: stored[name][:-1]})


def test_tables_are_smoothed_with_their_neighbours_and_stay_of_length_one() -> None:
    latents = normalize(np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32))
    shares = [[0, 1, 0, 0, 0], [0.25, 0, 0.75, 0, 0], *np.zeros((3, 5))]
    smoothed = smooth(latents, sparse(np.array(shares, np.float32)), 0.5)
    expected = latents[1] + 0.5 * (0.25 * latents[0] + 0.75 * latents[2])
    assert smoothed[1] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)
    assert smoothed[2:] == pytest.approx(latents[2:], abs=1e-6)  # without neighbours, nothing moves
    assert smoothed[0] @ latents[1] > latents[0] @ latents[1]


def test_half_precision_is_a_fixed_point() -> None:
    values = half(np.random.default_rng(0).normal(size=100))
    np.testing.assert_array_equal(half(values), values)


# --- indexes --------------------------------------------------------------------------------------------


def named_lake(root: Path) -> Path:
    for subject in SUBJECTS:
        for number in range(6):
            rows = rows_of(subject, number)
            write_table(root / f"{subject}_{number}.csv", [list(CALLED[subject]), *rows[1:]])
    return root


@pytest.fixture(scope="module")
def named_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    gentus.build(named_lake(folder / "lake"), folder / "index", settings=QUICK, workers=1).close()
    return folder / "index"


def found_subjects(index: Index, query: Path) -> list[str]:
    return [subject_of(hit.table) for hit in index.search(query, k=4)]


def test_a_query_without_names_finds_its_tables_in_an_index_with_names(
    named_index: Path, tmp_path: Path
) -> None:
    with gentus.open(named_index) as index:
        assert (index.config.report.names or 0) > 0.5
        assert index.config.report.vocabularies["name words"] > 0
        for subject in SUBJECTS:
            _, *rows = rows_of(subject, 70)
            made_up = write_table(tmp_path / f"{subject}.csv", [[f"column_{i}" for i in range(4)], *rows])
            headerless = write_table(tmp_path / f"{subject}_headerless.csv", rows)
            named = write_table(tmp_path / f"{subject}_named.csv", [list(CALLED[subject]), *rows])
            for query in (made_up, headerless, named):
                assert found_subjects(index, query) == [subject] * 4


def test_columns_count_by_position_as_far_as_the_lake_keeps_their_order(tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    def lake_of(kept: bool) -> Path:
        for subject in SUBJECTS:
            for number in range(6):
                order = np.arange(4) if kept else random.permutation(4)
                rows = [[row[at] for at in order] for row in rows_of(subject, number)]
                write_table(tmp_path / str(kept) / f"{subject}_{number}.csv", rows)
        return tmp_path / str(kept)

    for kept in (True, False):
        with gentus.build(lake_of(kept), tmp_path / f"{kept}.index", settings=QUICK, workers=1) as index:
            assert (index.info()["order"] > 0.8) == kept
            assert kept or index.info()["order"] < 0.2
            for subject in SUBJECTS:
                for order in ([0, 1, 2, 3], [2, 3, 1, 0]):  # found in another order too
                    rows = [[row[at] for at in order] for row in rows_of(subject, 70)]
                    query = write_table(tmp_path / "query.csv", rows)
                    assert found_subjects(index, query) == [subject] * 4


def test_a_table_is_encoded_alike_alone_and_among_others(named: tuple[Blocks, F32, Neighbours]) -> None:
    space = learn_space(*named, SpaceSettings())
    features = lake()
    several = concatenate([features, featurize(table("fish", 0, CALLED["fish"])), features])
    together = space.encode(several)
    for number in range(len(several)):
        np.testing.assert_array_equal(space.encode(several.one(number))[0], together[number])


def test_a_query_without_cells_is_answered(named_index: Path) -> None:
    empty = Table("empty", [Column("species", []), Column("waters", [])], 2)
    with gentus.open(named_index) as index:
        (hits,) = index.search_as([empty], [empty], 3)
        assert len(hits) == 3
        assert np.isfinite([hit.score for hit in hits]).all()


def test_lakes_of_very_few_tables(tmp_path: Path) -> None:
    for count in (1, 2, 3, 19, 20, 21):
        folder = tmp_path / str(count)
        for number in range(count):
            subject = list(SUBJECTS)[number % 3]
            write_table(folder / "lake" / f"{subject}_{number}.csv", rows_of(subject, number))
        with gentus.build(folder / "lake", folder / "index", settings=QUICK, workers=1) as index:
            assert len(index) == count
            query = write_table(tmp_path / "q.csv", rows_of("cities", 60))
            hits = index.search(query)
            assert len(hits) == min(count, 10)
            assert subject_of(hits[0].table) == "cities"


def test_a_new_table_is_smoothed_with_its_nearest_anchors() -> None:
    random = np.random.default_rng(0)
    anchors, latents = (normalize(random.standard_normal((n, 8)).astype(np.float32)) for n in (40, 5))
    latents[4] = 0  # of a table without columns
    moved = smooth_new(latents, anchors)
    for latent, found in zip(latents[:4], moved, strict=False):
        near = sorted(((float(latent @ anchor), anchor) for anchor in anchors), key=lambda pair: -pair[0])
        mean = sum(max(similarity, 0) ** 4 * anchor for similarity, anchor in near[:15]) / 15
        expected = latent + mean
        assert found == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    assert not moved[4].any()
    assert smooth_new(latents, anchors[:3]).shape == latents.shape


def test_a_table_that_comes_later_is_coded_by_the_model_alone(named_index: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(named_index, tmp_path / "index")
    new = write_table(tmp_path / "fish_new.csv", [list(CALLED["fish"]), *rows_of("fish", 71)[1:]])
    with gentus.open(copied) as index:
        (name,) = index.add([new]).added
        encoder = closed_form(index).encoder
        latent = encoder.smooth(encoder.encode(featurize(index.read(new))))
        (hit,) = (
            hit
            for hit in index.search(write_table(tmp_path / "q.csv", rows_of("fish", 60)))
            if hit.table == name
        )
        assert hit.sid.split("+")[0] == format_sid(index.decoder.codebooks.encode(latent)[0], 0)


def test_names_can_be_left_out(tmp_path: Path) -> None:
    lake = named_lake(tmp_path / "lake")
    with gentus.build(lake, tmp_path / "index", settings=QUICK, names=False, workers=1) as index:
        assert index.config.report.names is None
        assert not set(NAMES) & index.config.report.vocabularies.keys()
        _, *rows = rows_of("fish", 70)
        plain = write_table(tmp_path / "plain.csv", [["column_1", "column_2", "column_3", "column_4"], *rows])
        renamed = write_table(tmp_path / "renamed.csv", [list(CALLED["films"]), *rows])
        first, second = (
            [
                (hit.table, hit.score, hit.generated, hit.fit, hit.columns.counts())
                for hit in index.search(one)
            ]
            for one in (plain, renamed)
        )
        assert first == second
        assert index.info()["names"] is None


def test_blas_threads_come_back_when_the_last_has_left() -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    from gentus.threads import one_blas_thread

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2, "blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}  # one is still inside
        second.__exit__(None, None, None)
        assert threads() == {2}
