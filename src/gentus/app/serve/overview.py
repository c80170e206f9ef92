"""All tables of an index: the list, the map and the prefix tree. Made once per state of the index."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gentus.app.serve.families import Families, State, reference
from gentus.arrays import F32
from gentus.identifiers.codebooks import Codebooks
from gentus.index.catalogue.catalogue import Catalogue
from gentus.index.index import Index
from gentus.index.listing import TableList

if TYPE_CHECKING:
    from gentus.index.groups import Group

EXAMPLES = 3
NO_FAMILIES = Families()
FEW = 50  # a node with at most so many tables lists them


@dataclass(slots=True)
class Overview:
    """The list of N tables, with what its map and tree need."""

    tables: TableList
    codebooks: Codebooks
    _order: NDArray[np.int64] | None = field(default=None, init=False)
    _ids: tuple[Families, NDArray[np.int64]] | None = field(default=None, init=False)
    _places: dict[int, tuple[NDArray[np.int64], list[list[float]]]] = field(default_factory=dict, init=False)
    _map: dict[int, tuple[tuple[int, State], bytes, bytes]] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, index: Index) -> Overview:
        """Read the catalogue."""
        # On the connection of the index, a refresh in another thread would wait for this transaction.
        with closing(Catalogue(index.layout.catalogue)) as catalogue:
            codebooks = index.decoder.codebooks
            return cls(TableList.load(catalogue, index.limits.rows), codebooks)

    def __len__(self) -> int:
        """How many tables there are."""
        return len(self.tables)

    def page(self, words: str, offset: int, limit: int, families: Families = NO_FAMILIES) -> dict[str, Any]:
        """A page of the tables whose names contain all words."""
        found = self.tables.matching(words)
        shown = self._entries(found[offset : offset + limit], families)
        return {"total": len(found), "offset": offset, "tables": shown}

    def family(self, group: Group | None, offset: int, limit: int, families: Families) -> dict[str, Any]:
        """A page of the tables of a family."""
        names = group.tables[offset : offset + limit] if group else []
        found = (self.tables.position(name) for name in names)
        shown = self._entries([at for at in found if at is not None], families)
        return {"group": reference(group), "offset": offset, "tables": shown}

    def _entries(self, positions: Sequence[int], families: Families) -> list[dict[str, Any]]:
        shown = self.tables.entries(positions)
        return [one.to_dict() | {"group": reference(families.of(one.name))} for one in shown]

    def family_ids(self, families: Families) -> NDArray[np.int64]:
        """(N,) the id of the family of each table, 0 for none."""
        if self._ids is None or self._ids[0] is not families:
            ids = np.fromiter(map(families.id_of, self.tables.names), np.int64, len(self))
            self._ids = families, ids
        return self._ids[1]

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

    def tree(self, prefix: list[int], families: Families) -> dict[str, Any]:
        """The codes that follow a prefix, each with its largest family, and the tables below it."""
        found = self.descendants(prefix)
        ids = self.family_ids(families)
        children: list[dict[str, Any]] = []
        if len(prefix) < self.tables.codes.shape[1] and len(found):
            codes, first, counts = np.unique(
                self.tables.codes[found, len(prefix)], return_index=True, return_counts=True
            )
            for code, begin, count in zip(codes.tolist(), first.tolist(), counts.tolist(), strict=True):
                some = found[begin : begin + min(count, EXAMPLES)].tolist()
                examples = [self.tables.names[at] for at in some]
                family = _most_frequent(ids[found[begin : begin + count]], families)
                children.append({"code": code, "tables": count, "group": family, "examples": examples})
        children.sort(key=lambda child: (-child["tables"], child["code"]))
        below = [self.tables.names[at] for at in found.tolist()] if len(found) <= FEW else []
        return {"prefix": prefix, "tables": len(found), "children": children, "below": below}

    # --- the map ----------------------------------------------------------------------------------------

    def map(self, most: int, families: Families, state: State) -> tuple[bytes, bytes]:
        """Tables as points, at most `most` of them: JSON, plain and compressed by gzip."""
        known = self._map.get(most)
        if known is None or known[0] != (id(families), state):
            chosen, points = self._points(most)
            ids = self.family_ids(families)[chosen].tolist()
            document = {
                "state": state,
                "total": len(self),
                "points": [[x, y, family] for (x, y), family in zip(points, ids, strict=True)],
                "names": [self.tables.names[at] for at in chosen.tolist()],
            }
            text = json.dumps(document, separators=(",", ":")).encode()
            known = self._map[most] = (id(families), state), text, gzip.compress(text, 5)
        return known[1:]

    def _points(self, most: int) -> tuple[NDArray[np.int64], list[list[float]]]:
        """Which tables are on the map, and where."""
        if most not in self._places:
            chosen = np.arange(len(self))
            if len(self) > most:
                chosen = np.arange(most) * len(self) // most
            flat = project_2d(self.codebooks.decode(self.tables.codes[chosen]))
            self._places[most] = chosen, flat.astype(np.float64).round(4).tolist()
        return self._places[most]


def _most_frequent(ids: NDArray[np.int64], families: Families) -> dict[str, Any] | None:
    """The family that most of some tables are in, with how many of them; None if none is in one."""
    found, counts = np.unique(ids[ids > 0], return_counts=True)
    if not len(found):
        return None
    best = int(counts.argmax())
    return (reference(families.groups[found[best] - 1]) or {}) | {"size": int(counts[best])}


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
