"""All tables of an index: the list, the map and the prefix tree. Made once per state of the index."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gentus.arrays import F32
from gentus.identifiers.codebooks import Codebooks
from gentus.index.catalogue.catalogue import Catalogue
from gentus.index.index import Index
from gentus.index.listing import TableList

EXAMPLES = 3
FEW = 50  # a node with at most so many tables lists them


@dataclass(slots=True)
class Overview:
    """The list of N tables, with what its map and tree need."""

    tables: TableList
    codebooks: Codebooks
    _order: NDArray[np.int64] | None = field(default=None, init=False)
    _map: dict[int, tuple[bytes, bytes]] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, index: Index) -> Overview:
        """Read the catalogue."""
        # On the connection of the index, this transaction could meet that of a refresh in another thread.
        with closing(Catalogue(index.layout.catalogue)) as catalogue:
            codebooks = index.decoder.codebooks
            return cls(TableList.load(catalogue, codebooks.levels, index.limits.rows), codebooks)

    def __len__(self) -> int:
        """How many tables there are."""
        return len(self.tables)

    def page(self, words: str, offset: int, limit: int) -> dict[str, Any]:
        """A page of the tables whose names contain all words."""
        found = self.tables.matching(words)
        shown = self.tables.entries(found[offset : offset + limit])
        return {"total": len(found), "offset": offset, "tables": [one.to_dict() for one in shown]}

    # --- the tree ---------------------------------------------------------------------------------------

    @property
    def order(self) -> NDArray[np.int64]:
        """(N,) tables sorted by identifier."""
        if self._order is None:
            self._order = np.lexsort((self.tables.suffixes, *self.tables.codes.T[::-1]))
        return self._order

    def descendants(self, prefix: list[int]) -> NDArray[np.int64]:
        """The tables whose identifiers begin with a prefix, sorted by identifier."""
        found = self.order
        for level, code in enumerate(prefix):
            column = self.tables.codes[found, level].astype(np.int64)
            found = found[np.searchsorted(column, code) : np.searchsorted(column, code, "right")]
        return found

    def tree(self, prefix: list[int]) -> dict[str, Any]:
        """The codes that follow a prefix, and the tables below it."""
        found = self.descendants(prefix)
        children: list[dict[str, Any]] = []
        if len(prefix) < self.tables.codes.shape[1] and len(found):
            codes, first, counts = np.unique(
                self.tables.codes[found, len(prefix)], return_index=True, return_counts=True
            )
            for code, begin, count in zip(codes.tolist(), first.tolist(), counts.tolist(), strict=True):
                some = found[begin : begin + min(count, EXAMPLES)].tolist()
                examples = [self.tables.names[at] for at in some]
                children.append({"code": code, "tables": count, "examples": examples})
        children.sort(key=lambda child: (-child["tables"], child["code"]))
        below = [self.tables.names[at] for at in found.tolist()] if len(found) <= FEW else []
        return {"prefix": prefix, "tables": len(found), "children": children, "below": below}

    # --- the map ----------------------------------------------------------------------------------------

    def map(self, most: int) -> tuple[bytes, bytes]:
        """Tables as points, at most `most` of them: JSON, plain and compressed by gzip."""
        if most not in self._map:
            chosen = np.arange(len(self))
            if len(self) > most:
                chosen = np.arange(most) * len(self) // most
            flat = project_2d(self.codebooks.decode(self.tables.codes[chosen]))
            points = flat.astype(np.float64).round(4).tolist()
            first = self.tables.codes[chosen, 0].tolist()
            document = {
                "total": len(self),
                "points": [[x, y, code] for (x, y), code in zip(points, first, strict=True)],
                "names": [self.tables.names[at] for at in chosen.tolist()],
            }
            text = json.dumps(document, separators=(",", ":")).encode()
            self._map[most] = text, gzip.compress(text, 5)
        return self._map[most]


def project_2d(vectors: F32) -> F32:
    """(N, 2) the first two principal components, scaled to -1..1, with a fixed choice of signs."""
    if not len(vectors):
        return np.zeros((0, 2), np.float32)
    centred = vectors - vectors.mean(0)
    _, components = np.linalg.eigh(centred.T @ centred)
    main = components[:, ::-1][:, :2]
    main = main * np.sign(main[np.abs(main).argmax(0), np.arange(main.shape[1])])
    flat = centred @ main
    if flat.shape[1] < 2:
        flat = np.hstack([flat, np.zeros((len(flat), 1))])
    return np.asarray(flat / np.maximum(np.abs(flat).max(), 1e-9), np.float32)
