"""The teacher, the network and the quantizer on lakes whose truth is known by construction."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gentus.arrays import F32
from gentus.embed.encoder import Encoder
from gentus.embed.training import (
    BatchSampler,
    Network,
    Objective,
    learn_latent,
    principal_basis,
    union_contrast,
)
from gentus.features.evidence import WIDTH, Evidence
from gentus.features.extract import Features, concatenate, featurize
from gentus.identifiers.quantizer import learn_codes
from gentus.neighbours.graph import Graph
from gentus.neighbours.matching import Columns, assign_columns, mutual_pairs, score_neighbours
from gentus.settings import EncoderSettings, LatentSettings, QuantizerSettings, TeacherSettings
from gentus.table import Column, Table

SUBJECTS = 6
SLICES = 8


@pytest.fixture(scope="module")
def lake() -> tuple[Features, Evidence, F32, np.ndarray]:
    """Six subjects, eight tables each, drawn from the words and ranges of the subject."""
    random = np.random.default_rng(0)
    tables = []
    for subject in range(SUBJECTS):
        names = [
            f"{'abcdefgh'[subject] * 3}{word}"
            for word in ("ton", "ville", "berg", "stadt", "ford", "by", "wick")
        ]
        for _ in range(SLICES):
            rows = 12
            parts = [
                Column("name", [names[i] for i in random.integers(0, len(names), rows)]),
                Column("size", [str(int(x)) for x in random.normal(10 ** (subject + 1), 10**subject, rows)]),
                Column("code", [f"{'UVWXYZ'[subject]}{i:03d}" for i in random.integers(0, 999, rows)]),
            ]
            tables.append(Table("t", parts, rows))
    features = concatenate([featurize(t) for t in tables])
    evidence = Evidence.fit(features, len(features), names=False)
    columns = evidence.columns(features)
    return features, evidence, columns, features.tables.astype(np.int64)


def same_subject(graph: Graph) -> float:
    subject = np.arange(SUBJECTS * SLICES) // SLICES
    return float((subject[graph.ids[:, : SLICES - 1]] == subject[:, None]).mean())


def test_matching_is_optimal() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        similarity = random.normal(size=(3, 4)).astype(np.float32)
        best = max(sum(similarity[i, p[i]] for i in range(3)) for p in permutations(range(4), 3))
        assert assign_columns(similarity, np.array([4]))[0] == pytest.approx(best / 12**0.5, rel=1e-5)


def test_matching_scores_each_candidate_alone() -> None:
    random = np.random.default_rng(2)
    similarity = random.normal(size=(3, 9)).astype(np.float32)
    together = assign_columns(similarity, np.array([2, 3, 4]))
    alone = [assign_columns(similarity[:, a:b], np.array([b - a]))[0] for a, b in ((0, 2), (2, 5), (5, 9))]
    assert np.allclose(together, alone)


def test_neighbours_are_of_the_same_subject(lake: tuple[Features, Evidence, F32, np.ndarray]) -> None:
    features, _, columns, starts = lake
    graph = score_neighbours(Columns(columns, starts, features.positions), TeacherSettings(candidates=30))
    assert same_subject(graph) > 0.95
    assert not (graph.ids == np.arange(len(graph.ids))[:, None]).any()
    assert (np.diff(graph.scores, axis=1) <= 1e-6).all()


def test_mutual_pairs_are_mutual() -> None:
    graph = Graph(np.array([[1], [0], [0]], np.int32), np.ones((3, 1), np.float32))
    assert mutual_pairs(graph, 1).tolist() == [[0, 1], [1, 0]]


def test_union_contrast_is_the_papers_formula() -> None:
    torch.manual_seed(0)
    latents = torch.nn.functional.normalize(torch.randn(5, 4), dim=1)
    pairs = torch.zeros(5, 5, dtype=torch.bool)
    pairs[0, 1] = pairs[1, 0] = pairs[0, 2] = True
    expected = []
    for i in range(5):
        positives = [j for j in range(5) if pairs[i, j]]
        if positives:
            total = sum(float(torch.exp(latents[i] @ latents[a] / 0.1)) for a in range(5) if a != i)
            logs = [float(latents[i] @ latents[j] / 0.1) - np.log(total) for j in positives]
            expected.append(-np.mean(logs))
    assert float(union_contrast(latents, pairs, 0.1)) == pytest.approx(np.mean(expected), rel=1e-4)


def test_codes_keep_the_subjects_apart_and_numpy_agrees_with_torch(
    lake: tuple[Features, Evidence, F32, np.ndarray],
) -> None:
    features, evidence, columns, starts = lake
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    total = len(starts) - 1
    graph = score_neighbours(Columns(columns, starts, features.positions), TeacherSettings(candidates=20))
    pairs = mutual_pairs(graph)
    positive = sp.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), (total, total))
    settings = LatentSettings(basis=64, seeds=16, per_seed=4, neighbours=10)
    basis = principal_basis(columns, 64, random)
    batches = BatchSampler(columns @ basis, starts, graph, Objective(positive), settings, random)
    sizes = EncoderSettings(hidden=32, heads=4, embedding=32, latent=16, inputs=WIDTH)
    network = Network(sizes, 64)
    learn_latent(network, batches, 60)
    codebooks = learn_codes(
        network, batches, QuantizerSettings(steps=20), (4, 8), torch.Generator().manual_seed(0)
    )
    encoder = Encoder(evidence, sizes, network.export(basis))
    latents = encoder.encode(features)
    inputs, owner = batches.gather(np.arange(total))
    with torch.no_grad():
        _, reference = network(inputs, owner, total)
    assert np.allclose(latents, reference.numpy(), atol=0.02)  # weights are stored in half precision
    coded = codebooks.decode(codebooks.encode(latents))
    distance = ((latents[:, None] - coded[None]) ** 2).sum(2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, 1)[:, : SLICES - 1]
    subject = np.arange(total) // SLICES
    assert (subject[nearest] == subject[:, None]).mean() > 0.9
