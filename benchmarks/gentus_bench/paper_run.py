"""The paper's generator alone on one lake: MAP with and without the tree, as training goes on.

`python -m gentus_bench.paper_run DATA/tus_tidy --labels groundtruth_train_unseen.csv --minutes 15`
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from gentus.arrays import F32, I64
from gentus.lake import Source, read, scan
from gentus.metrics import load_groundtruth, score
from gentus.paper import train
from gentus.paper.decode import Masked, beam_width, generate, generate_freely
from gentus.paper.offline import Lake, Offline, encode_tables, latents, offline
from gentus.paper.settings import PaperSettings
from gentus.paper.train import Progress
from gentus.table import Table

IDENTIFIERS = ("semantic", "ordinary", "no-suffix", "random", "atomic")


def main() -> None:
    """Train on one lake, and print a line of JSON an epoch and one at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake", type=Path)
    parser.add_argument("--labels", default="groundtruth_train_unseen.csv")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--identifiers", choices=IDENTIFIERS, default="semantic")
    parser.add_argument("--vectors", type=Path, help="table vectors (.npy); made there if missing")
    parser.add_argument("--folder", type=Path, help="for the checkpoint; a training there goes on")
    parser.add_argument("--dev-queries", type=int, default=60)
    parser.add_argument(
        "--cpu", action="store_true", help="count processor time, on a machine that others use"
    )
    parser.add_argument("--set", nargs="*", default=[], metavar="PART.NAME=VALUE")
    asked = parser.parse_args()
    if asked.cpu:
        train.time.monotonic = time.process_time  # type: ignore[attr-defined]
    settings = changed(PaperSettings(), [*asked.set, f"train.minutes={asked.minutes}"])
    if asked.identifiers == "ordinary":
        settings = replace(settings, sid=replace(settings.sid, lambda_u=0.0))
    else:
        settings = replace(settings, identifiers=asked.identifiers)
    tables = [read(source) for source in scan(asked.lake / "datalake") if isinstance(source, Source)]
    at = {table.name: number for number, table in enumerate(tables)}
    began = time.monotonic()
    if asked.vectors is None or not asked.vectors.exists():
        vectors = encode_tables(tables, settings)[1]
        if asked.vectors is not None:
            np.save(asked.vectors, vectors)
    else:
        vectors = np.load(asked.vectors)
    say(encoded=time.monotonic() - began, tables=len(tables))
    pairs = positions(load_groundtruth(asked.lake / asked.labels), at)
    dev = load_groundtruth(asked.lake / "groundtruth_dev.csv")
    truth = {
        at[query]: [at[one] for one in found if one in at] for query, found in dev.items() if query in at
    }
    truth = dict(list(truth.items())[: asked.dev_queries])
    folder = asked.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    made = offline(Lake(tables, len(tables), pairs), settings, folder, vectors, told)
    say(latents=of_latents(made, vectors, truth), **measured(made, tables, truth))


def told(progress: Progress) -> None:
    """One line an epoch."""
    say(**{name: round(value, 4) for name, value in progress._asdict().items()})


def say(**values: Any) -> None:
    """One line of JSON."""
    print(json.dumps(values), flush=True)


def positions(truth: dict[str, list[str]], at: dict[str, int]) -> I64:
    """(n, 2) annotated pairs by position."""
    pairs = [(at[q], at[t]) for q, found in truth.items() for t in found if q in at and t in at]
    return np.array(pairs, np.int64).reshape(-1, 2)


def of_latents(made: Offline, vectors: F32, truth: dict[int, list[int]], k: int = 20) -> float:
    """MAP of the latents that identifiers come from."""
    z = latents(made.q_omega, vectors)
    ranked = {query: np.argsort(-(z @ z[query]), kind="stable")[: k + 1].tolist() for query in truth}
    return score(ranked, truth, k).map


def measured(
    made: Offline, tables: Sequence[Table], truth: dict[int, list[int]], k: int = 20
) -> dict[str, float]:
    """MAP with the tree, logits masked before and after the softmax, and without it; share of invalid."""
    sentences = [made.serializer.ser(tables[query]) for query in truth]
    results: dict[str, float] = {}
    masks: tuple[Masked, ...] = ("before", "after")
    for masked in masks:
        began = time.monotonic()
        found = generate(made.g_theta, sentences, made.trie, beam_width(k), masked)
        ranked = {query: made.trie.table(one.rows).tolist() for query, one in zip(truth, found, strict=True)}
        results[f"map masked {masked}"] = score(ranked, truth, k).map
        results[f"ms masked {masked}"] = 1000 * (time.monotonic() - began) / len(truth)
    y, lengths = made.g_theta.vocabulary.tok(made.identifiers.codes, made.identifiers.suffixes)
    tokens = (y + made.g_theta.vocabulary.text).tolist()
    phi = {
        tuple(row[: length - 1]): table
        for table, (row, length) in enumerate(zip(tokens, lengths.tolist(), strict=True))
        if made.identifiers.reachable[table]
    }
    free, invalid = {}, []
    for query, found_ in zip(
        truth,
        generate_freely(made.g_theta, sentences, made.identifiers.codes.shape[1], beam_width(k)),
        strict=True,
    ):
        free[query] = [phi[one] for one in found_ if one in phi]
        invalid += [one not in phi for one in found_[:k]]
    results["map without the tree"] = score(free, truth, k).map
    results["invalid"] = float(np.mean(invalid))
    return results


def changed(settings: Any, assignments: Sequence[str]) -> Any:
    """Settings with `part.name=value` set."""
    for one in assignments:
        path, _, value = one.partition("=")
        settings = _set(settings, path.split("."), value)
    return settings


def _set(settings: Any, path: Sequence[str], value: str) -> Any:
    if path[0] not in {field.name for field in fields(settings)}:
        raise SystemExit(f"there is no setting {path[0]!r}")
    if len(path) > 1:
        return replace(settings, **{path[0]: _set(getattr(settings, path[0]), path[1:], value)})
    known = getattr(settings, path[0])
    if known is None or value == "None":
        return replace(settings, **{path[0]: None if value == "None" else float(value)})
    return replace(settings, **{path[0]: type(known)(value)})


if __name__ == "__main__":
    main()
