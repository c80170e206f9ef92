"""What a lake says as a whole: views of columns, hubs that step back, circles that close."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from gentus.consensus import Consensus, ConsensusSettings, agree, column_views, towards, usual_weights
from gentus.encoder import lean
from gentus.evidence import BLOCKS, Evidence, block_weights, normalize
from gentus.features import concatenate, featurize
from gentus.table import Column, Table
from gentus.teacher import Columns, Graph, TeacherSettings, find_neighbours

CITIES = ("Lyon", "Kiel", "Graz", "Turin", "Porto", "Gent", "Brno", "Cork", "Bern", "Riga")
FISH = ("trout", "perch", "pike", "carp", "eel", "bream", "tench", "roach", "zander", "barbel")


def lake(tables: int = 24) -> Columns:
    random = np.random.default_rng(0)
    made = []
    for number in range(tables):
        words = CITIES if number % 2 else FISH
        years = [str(year) for year in random.integers(1900, 2000, 8)]
        parts = [Column("a", list(random.choice(words, 8))), Column("b", years)]
        made.append(Table("t", parts, 8))
    features = concatenate([featurize(table) for table in made])
    evidence = Evidence.fit([features])
    evidence.weights = usual_weights(evidence.weights)
    columns = evidence.columns(features)
    return Columns(columns, features.tables.astype(np.int64), features.places, features.numbers)


def random_graph(total: int, width: int, seed: int) -> Graph:
    random = np.random.default_rng(seed)
    symmetric = random.random((total, total))
    symmetric = (symmetric + symmetric.T) / 2
    np.fill_diagonal(symmetric, -1)
    ids = np.argsort(-symmetric, 1, kind="stable")[:, :width].astype(np.int32)
    return Graph(ids, np.take_along_axis(symmetric, ids, 1).astype(np.float32))


def slowly_agreed(graph: Graph, settings: ConsensusSettings) -> np.ndarray:
    """The same, pair by pair, as it is said in words: (T, T) scores."""
    total, width = graph.ids.shape
    kept, circle = min(settings.kept, width), min(settings.circle, width)
    usual = [graph.scores[table, :circle].mean() for table in range(total)]
    ranked = []
    for table in range(total):
        scored = [
            (score - settings.hubs * usual[other], other)
            for other, score in zip(graph.ids[table].tolist(), graph.scores[table].tolist(), strict=True)
        ]
        ranked.append(sorted(scored, key=lambda pair: -pair[0]))
    near = np.zeros((total, total))
    for table, found in enumerate(ranked):
        floor = found[kept][0] if kept < width else found[-1][0]
        for score, other in found[:kept]:
            near[table, other] = score - floor
    circles = [{other for _, other in found[:circle]} for found in ranked]
    shared = np.zeros((total, total))
    for one in range(total):
        for other in circles[one]:
            if one in circles[other]:
                first, second = circles[one] | {one}, circles[other] | {other}
                shared[one, other] = len(first & second) / len(first | second) / circle
    agreed = near + settings.spread / 2 * (shared @ near + near @ shared)
    np.fill_diagonal(agreed, 0)
    return agreed


@pytest.mark.parametrize(("total", "width", "seed"), [(30, 20, 0), (30, 29, 1), (8, 7, 2), (3, 2, 3)])
def test_agreement_is_that_of_the_slow_way(total: int, width: int, seed: int) -> None:
    settings = ConsensusSettings(hubs=0.3, circle=5, spread=1.5, kept=12)
    graph = random_graph(total, width, seed)
    agreed, slow = agree(graph, settings), slowly_agreed(graph, settings)
    assert agreed.ids.shape == (total, min(12, width))
    for table in range(total):
        best = np.sort(slow[table])[::-1][: agreed.ids.shape[1]]
        assert agreed.scores[table] == pytest.approx(best, abs=1e-5)
        assert slow[table, agreed.ids[table]] == pytest.approx(agreed.scores[table], abs=1e-5)
        assert table not in agreed.ids[table]
        assert len(set(agreed.ids[table].tolist())) == agreed.ids.shape[1]


def test_a_hub_steps_back() -> None:
    # Table 0 is a little nearer to everything than the true neighbours are: 1 and 2, 3 and 4, and so on.
    scores = np.full((11, 11), 0.1)
    for one in range(1, 11, 2):
        scores[one, one + 1] = scores[one + 1, one] = 0.6
    scores[0, :] = scores[:, 0] = 0.62
    np.fill_diagonal(scores, -1)
    ids = np.argsort(-scores, 1, kind="stable")[:, :10].astype(np.int32)
    graph = Graph(ids, np.take_along_axis(scores, ids, 1).astype(np.float32))
    assert (graph.ids[1:, 0] == 0).all()
    heard = agree(graph, ConsensusSettings(hubs=0.8, circle=4, spread=0.0))
    assert not (heard.ids[1:, 0] == 0).any()


def test_a_circle_closes() -> None:
    # 0 and 1 do not see each other's worth, but have the same three neighbours; 9 has none of them.
    scores = np.full((10, 10), 0.05)
    for hub in (2, 3, 4):
        for table in (0, 1, 2, 3, 4):
            scores[hub, table] = scores[table, hub] = 0.8
    scores[0, 9] = scores[9, 0] = 0.31
    scores[0, 1] = scores[1, 0] = 0.30
    np.fill_diagonal(scores, -1)
    ids = np.argsort(-scores, 1, kind="stable")[:, :9].astype(np.int32)
    graph = Graph(ids, np.take_along_axis(scores, ids, 1).astype(np.float32))
    quiet = agree(graph, ConsensusSettings(hubs=0.0, circle=4, spread=0.0))
    heard = agree(graph, ConsensusSettings(hubs=0.0, circle=4, spread=1.0))
    assert quiet.ids[0].tolist().index(9) < quiet.ids[0].tolist().index(1)
    assert heard.ids[0].tolist().index(1) < heard.ids[0].tolist().index(9)


def test_views_are_of_length_one_and_numbers_are_seen_as_numbers() -> None:
    columns = lake()
    settings = ConsensusSettings(directions=40)
    views = column_views(columns, settings, np.random.default_rng(0))
    assert views.shape == (len(columns.evidence), 40)
    assert np.linalg.norm(views, axis=1) == pytest.approx(1, abs=1e-5)
    # All directions, untempered, of columns that are text through and through: the evidence itself.
    text = Columns(columns.evidence, columns.starts, columns.places, np.zeros_like(columns.numbers))
    whole = ConsensusSettings(directions=10_000, tempered=0.0)
    plain = column_views(text, whole, np.random.default_rng(0))
    length = np.linalg.norm(columns.evidence, axis=1)
    cosine = columns.evidence @ columns.evidence.T / length / length[:, None]
    assert plain @ plain.T == pytest.approx(cosine, abs=1e-4)
    # Of columns of numbers the profile says more and the words say less.
    seen = column_views(columns, whole, np.random.default_rng(0))
    years = np.flatnonzero(columns.numbers > 0.9)
    profile = columns.evidence[:, BLOCKS["profile"]] @ columns.evidence[:, BLOCKS["profile"]].T
    profile /= block_weights(columns.evidence)[-1]
    pair = np.ix_(years[:5], years[5:10])
    assert np.abs((seen @ seen.T)[pair] - profile[pair]).mean() < np.abs(cosine[pair] - profile[pair]).mean()


def test_neighbours_by_consensus_are_of_the_same_subject() -> None:
    columns = lake()
    settings = ConsensusSettings(circle=6, kept=11)
    judge = Consensus(columns, settings, np.random.default_rng(0))
    graph = agree(find_neighbours(columns, TeacherSettings(candidates=20), judge), settings)
    subject = np.arange(24) % 2
    assert (subject[graph.ids[:, :8]] == subject[:, None]).mean() > 0.95


def test_usual_weights_are_weights() -> None:
    assert usual_weights(np.full(5, 0.2, np.float32)).sum() == pytest.approx(1)


def test_tables_lean_towards_their_neighbours_and_stay_of_length_one() -> None:
    random = np.random.default_rng(0)
    latents = normalize(random.normal(size=(5, 4)).astype(np.float32))
    near = sp.csr_matrix(np.array([[0, 1, 0, 0, 0], [1, 0, 3, 0, 0], *np.zeros((3, 5))], np.float32))
    leaned = lean(latents, towards(latents, near, 0.5))
    expected = latents[1] + 0.5 * (latents[0] + 3 * latents[2]) / 4
    assert np.allclose(leaned[1], expected / np.linalg.norm(expected), atol=1e-6)
    assert np.allclose(leaned[2:], latents[2:], atol=1e-6)  # without neighbours, nothing moves
    assert leaned[0] @ latents[1] > latents[0] @ latents[1]
