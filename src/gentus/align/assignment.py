"""Optimal one-to-one assignment (the linear sum assignment problem), in NumPy."""

from __future__ import annotations

import numpy as np

from gentus.arrays import F64, I64


def assign(scores: F64) -> tuple[I64, I64]:
    """Rows and columns of the min(q, t) pairs with the largest sum of (q, t) scores, in the order of rows.

    Every row is added by the shortest augmenting path (Crouse, On implementing 2D rectangular assignment
    algorithms, 2016). Of equally good columns it takes the first that is free.
    """
    if scores.shape[0] > scores.shape[1]:
        columns, rows = assign(scores.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    return np.arange(len(scores)), _Assignment(-scores).solve()


class _Assignment:
    """Rows with their columns so far, and the dual variables that prove them optimal."""

    def __init__(self, costs: F64) -> None:
        self.costs = costs  # (q, t), q <= t
        self.row_duals, self.column_duals = np.zeros(costs.shape[0]), np.zeros(costs.shape[1])
        self.row_of = np.full(costs.shape[1], -1)
        self.column_of = np.full(costs.shape[0], -1)

    def solve(self) -> I64:
        """(q,) the column of every row."""
        for row in range(len(self.costs)):
            self._add(row)
        return self.column_of

    def _add(self, row: int) -> None:
        """Give one more row its column, moving others along the shortest augmenting path."""
        open_ = np.ones(len(self.row_of), bool)  # columns that the path has not reached
        distances = np.full(len(self.row_of), np.inf)
        before = np.full(len(self.row_of), -1)  # the row from which each column is reached
        reached, length, here = [row], 0.0, row
        while True:
            through = length + self.costs[here] - self.row_duals[here] - self.column_duals
            nearer = open_ & (through < distances)
            distances[nearer] = through[nearer]
            before[nearer] = here
            left = np.where(open_, distances, np.inf)
            length = float(left.min())
            nearest = np.flatnonzero(left == length)
            free = nearest[self.row_of[nearest] < 0]
            column = int(free[0] if len(free) else nearest[-1])
            open_[column] = False
            if self.row_of[column] < 0:
                break
            here = int(self.row_of[column])
            reached.append(here)
        others = np.array(reached[1:], np.int64)
        self.row_duals[row] += length
        self.row_duals[others] += length - distances[self.column_of[others]]
        self.column_duals[~open_] -= length - distances[~open_]
        self._augment(row, column, before.tolist())

    def _augment(self, row: int, column: int, before: list[int]) -> None:
        """Assign the last column of the path to the row before it, and so on back to its first row."""
        while True:
            previous = before[column]
            self.row_of[column] = previous
            column, self.column_of[previous] = int(self.column_of[previous]), column
            if previous == row:
                return
