"""An index, opened: search a table, ask what it is made of. Nothing here imports torch."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from safetensors.numpy import load_file, save

from gentus.catalogue import Catalogue
from gentus.codes import Codebooks, format_sid
from gentus.decode import Decoder
from gentus.encoder import Encoder, EncoderSettings, parameter_shapes
from gentus.evidence import EVIDENCE, Evidence
from gentus.lake import Limits, Source, from_frame, read, read_path
from gentus.store import IndexFolderError, Layout, read_config, write_file
from gentus.table import Table
from gentus.trie import Trie

if TYPE_CHECKING:
    from gentus.generator import Generator

Query: TypeAlias = Any  # a path, a Table or Source, or a polars, pandas or Arrow table
LEAST_BEAM = 100


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer."""

    rank: int
    table: str  # its name in the lake
    score: float  # 1 for the same content, 0 for unrelated
    sid: str  # its identifier
    path: str
    prior: float | None = None  # the part of the score that the latent space gives; with a generator only
    generator: float | None = None  # and the part that the generator gives

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Index:
    """A finished index folder. Open as many as you like, in as many processes as you like."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.layout = Layout(Path(path))
        self.config = read_config(self.layout)
        while True:
            try:
                self._load()
                break
            except IndexFolderError:
                latest = read_config(self.layout)
                if latest["generation"] == self.config["generation"]:
                    raise
                self.config = latest  # a build switched over between the two reads
        self.layout = Layout(self.layout.root.absolute())  # the working folder may change

    def _load(self) -> None:
        layout, config = self.layout, self.config
        damaged = f"Build the index again: gentus index {config['lake']} -o {layout.root}"
        file = layout.config
        try:
            generation = int(config["generation"])
            self.limits = Limits(**config["settings"]["limits"])
            settings = EncoderSettings(**config["settings"]["encoder"])
            file = layout.model(generation)
            self.encoder, codebooks = load_model(file, settings)
            self._generator: Generator | None = None
            file = layout.trie(generation)
            self.decoder = Decoder(Trie.load(file), codebooks)
            if self.decoder.trie.codes.shape[1] != codebooks.levels:
                raise ValueError(f"its identifiers do not have {codebooks.levels} codes")
            file = layout.catalogue
            self.catalogue = Catalogue(file)
        except Exception as error:
            missing = "" if file.exists() else "missing or "
            raise IndexFolderError(f"{file} is {missing}damaged: {error}. {damaged}") from error

    def close(self) -> None:
        """Close the catalogue; the index cannot be searched any more."""
        self.catalogue.close()

    def __enter__(self) -> Index:
        """For `with`: closes at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the catalogue."""
        self.close()

    def __len__(self) -> int:
        """How many tables can be found."""
        return len(self.decoder.trie)

    def __repr__(self) -> str:
        """What this is, at a glance."""
        return f"<gentus.Index {self.layout.root}: {len(self):,} tables>"

    def search(self, query: Query | Sequence[Query], k: int = 10, beam: int | None = None) -> Any:
        """Tables whose rows could be appended to the query's, best first.

        A query is a path, or a polars, pandas or Arrow table; a list of queries gives a list of answers.
        """
        if isinstance(query, list | tuple):
            return [self.search(one, k, beam) for one in query]
        return self._search(query, k, beam)

    def _search(self, query: Query, k: int, beam: int | None) -> list[Hit]:
        if k < 1:
            raise ValueError(f"k is {k}; ask for at least one table")
        table = self.read(query)
        found = self._decode(table, beam or max(2 * k, LEAST_BEAM))
        trie = self.decoder.trie
        itself = self._itself(query)
        chosen = [hit for hit in found[: k + len(itself)] if int(trie.tables[hit[0]]) not in itself][:k]
        names = self.catalogue.names(int(trie.tables[row]) for row, *_ in chosen)
        hits: list[Hit] = []
        for row, score, *parts in chosen:
            table_id = int(trie.tables[row])
            if table_id in names:  # else it has left the lake since this index was opened
                name, path = names[table_id]
                sid = format_sid(trie.codes[row], int(trie.suffixes[row]))
                hits.append(Hit(len(hits) + 1, name, round(score, 6), sid, path, *parts))
        return hits

    def _decode(self, table: Table, beam: int) -> list[tuple[Any, ...]]:
        """(row, score, parts of the score ..) of what is found, best first."""
        self._prepare()
        hidden, latent = self.encoder.read(table)
        generator = self.generator
        if generator is None:
            rows, left = self.decoder.search(latent, beam)
            return [(row, 1 - rest / 2) for row, rest in zip(rows.tolist(), left.tolist(), strict=True)]
        from gentus.answer import decode, query_inputs

        inputs = query_inputs(generator, table, hidden, latent)
        weight: float | None = self.config["generator"]["weight"]
        softmax = self.config["settings"]["generation"]["softmax"]
        (found,) = decode(generator, inputs, self.decoder.trie, self.decoder.codebooks, weight, beam, softmax)
        if weight is None:
            scores = zip(found.rows.tolist(), found.scores.tolist(), strict=True)
            return [(row, score, None, round(score, 6)) for row, score in scores]
        # Both parts on the scale of the score: 1 is the same content, and nothing to doubt.
        prior, said = 1 + found.prior / 2, weight / 2 * found.generator
        parts = (found.rows, prior + said, prior, said)
        return [
            (row, score, round(own, 6), round(its, 6))
            for row, score, own, its in zip(*(part.tolist() for part in parts), strict=True)
        ]

    @property
    def generator(self) -> Generator | None:
        """The generator, loaded when it is first needed; None where the prior alone ranks."""
        if self._generator is None and (self.config["generator"] or {}).get("shipped"):
            from gentus.generator import Generator

            self._generator = Generator.load(self.layout.generator(int(self.config["generation"])))
        return self._generator

    def _prepare(self) -> None:
        """Load the language model that reads columns, if this index was made with one."""
        checkpoint = self.config["settings"]["bert"]
        if checkpoint is not None and self.encoder.states is None:
            from gentus.bert import BertColumns

            self.encoder.states = BertColumns.load(checkpoint).states

    def read(self, query: Query) -> Table:
        """A query as the pipeline sees it."""
        if isinstance(query, Table):
            return query
        if isinstance(query, Source):
            return read(query, self.limits)
        if isinstance(query, str | os.PathLike):
            return read_path(Path(query), self.limits)
        return from_frame(query, "query", self.limits)

    def _itself(self, query: Query) -> set[int]:
        """The tables of the lake that the query is, whatever it is called: it is never its own answer."""
        if isinstance(query, Source):
            return self.catalogue.ids_at(query.path, query.part)
        if isinstance(query, str | os.PathLike):
            return self.catalogue.ids_at(query)  # a file that could be read is one table
        return set()

    def sources(self) -> dict[str, Source]:
        """All tables that can be found, by name; each of them can be a query."""
        return self.catalogue.sources()

    def tables(self) -> list[str]:
        """Names of all tables that can be found."""
        return self.catalogue.table_names()

    def skipped(self) -> list[tuple[str, str]]:
        """(name, reason) of what could not be read."""
        return self.catalogue.skipped()

    def info(self) -> dict[str, Any]:
        """What the index is made of, how large it is, and how healthy its identifiers are."""
        generation = int(self.config["generation"])
        tables = len(self)
        trie = sum(path.stat().st_size for path in self.layout.trie(generation).iterdir())
        model = self.layout.model(generation).stat().st_size
        folder = self.layout.generator(generation)
        shipped = sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
        cache = sum(path.stat().st_size for path in self.layout.cache.glob("*.npz"))
        return {
            "index": str(self.layout.root),
            "lake": self.config["lake"],
            "tables": tables,
            "skipped": len(self.skipped()),
            "levels": self.config["levels"],
            "codes": self.config["codes"],
            "labels": self.config["labels"],
            "generator": self.config["generator"],
            "encoder": self.config["settings"]["bert"] or "hybrid",
            "identifiers": self.config["settings"]["identifiers"],
            "evidence_weights": self.config["evidence_weights"],
            "health": self.config["health"],
            "bytes": {
                "trie": trie,
                "model": model,
                "generator": shipped,
                "catalogue": self.layout.catalogue.stat().st_size,
                "cache": cache,
            },
            "bytes_per_table": round(trie / tables, 1),
            "bytes_per_table_with_model": round((trie + model + shipped) / tables, 1),
            "format": self.config["format"],
            "version": self.config["version"],
        }


def skipped(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(name, reason) of what could not be read, of an index that need not be finished."""
    layout = Layout(Path(path))
    if not layout.catalogue.is_file():
        read_config(layout)  # which says what is wrong
    try:
        catalogue = Catalogue(layout.catalogue)
        try:
            return catalogue.skipped()
        finally:
            catalogue.close()
    except sqlite3.Error as error:
        raise IndexFolderError(
            f"{layout.catalogue} is missing or damaged: {error}. "
            f"Build the index again: gentus index LAKE -o {layout.root}"
        ) from error


def save_model(path: Path, encoder: Encoder, codebooks: Codebooks) -> None:
    """Write everything learnt: half precision, IDF as a byte; the fit has rounded them already."""
    evidence = encoder.evidence
    arrays = {
        "evidence.idf": np.rint(evidence.idf * 16).astype(np.uint8),
        "evidence.centre": evidence.centre.astype(np.float16),
        "evidence.weights": evidence.weights,
        "codebooks": codebooks.words.astype(np.float16),
        **{name: array.astype(np.float16) for name, array in encoder.weights.items()},
    }
    write_file(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def load_model(path: Path, settings: EncoderSettings) -> tuple[Encoder, Codebooks]:
    """Read what `save_model` wrote, checking every shape."""
    arrays = load_file(path)
    shapes = parameter_shapes(settings)
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            raise ValueError(f"{path.name} does not hold {name} of shape {shape}")
    if len(arrays["evidence.weights"]) != len(EVIDENCE):
        raise ValueError(f"{path.name} does not weigh {', '.join(EVIDENCE)}")
    evidence = Evidence(
        np.asarray(arrays["evidence.idf"] / 16, np.float32),
        arrays["evidence.centre"].astype(np.float32),
        arrays["evidence.weights"],
    )
    weights = {name: arrays[name].astype(np.float32) for name in shapes}
    return Encoder(evidence, settings, weights), Codebooks(arrays["codebooks"].astype(np.float32))
