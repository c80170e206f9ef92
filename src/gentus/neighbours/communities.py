"""Communities of a weighted graph by label propagation: groups of any size, without their number.

Every node takes the label that most of the weight around it has, until none changes. Markov clustering is
better on groups of twenty, but takes those of hundreds to pieces (docs/EXPERIMENTS.md).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from gentus.arrays import F32, I32, I64
from gentus.sparse import SparseRows

_ROUNDS = 50  # times the number of nodes that are looked at, at most: nodes may take turns forever


def symmetric_graph(ids: I32, weights: F32) -> SparseRows:
    """(T, T) edges of tables and their (T, n) neighbours, with the larger of the two weights of a pair."""
    total, width = ids.shape
    edges = np.flatnonzero(weights)
    owners, others, both = edges // width, ids.ravel()[edges], np.tile(weights.ravel()[edges], 2)
    places = np.concatenate([owners, others]), np.concatenate([others, owners])
    return SparseRows.of_entries(both, *places, (total, total), np.maximum)


def propagate_labels(graph: SparseRows) -> I64:
    """(T,) a label for every node; nodes with the same one are a community. The same for the same graph."""
    total = len(graph)
    starts, neighbours = graph.starts.tolist(), graph.columns.tolist()
    weights = graph.values.astype(np.float64).tolist()
    labels = list(range(total))
    waiting, queued = deque(range(total)), [True] * total
    for _ in range(_ROUNDS * total):
        if not waiting:
            break
        node = waiting.popleft()
        queued[node] = False
        begin, end = starts[node], starts[node + 1]
        votes = {labels[node]: 1e-9}  # of equals, the label that it has
        for other, weight in zip(neighbours[begin:end], weights[begin:end], strict=True):
            label = labels[other]
            votes[label] = votes.get(label, 0.0) + weight
        best = max(votes, key=votes.__getitem__)
        if best != labels[node]:
            labels[node] = best
            for other in neighbours[begin:end]:
                if not queued[other] and labels[other] != best:
                    queued[other] = True
                    waiting.append(other)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
