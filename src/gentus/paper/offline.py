"""The offline stage (section 5): Algorithm 1, and what it returns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from gentus.arrays import F32, I64
from gentus.metrics import score
from gentus.paper.ablation import ASSIGNED, Identifiers
from gentus.paper.checkpoints import SCRATCH, best_device, create_t5, fast_bfloat16, load_bert, load_t5
from gentus.paper.decode import beam_width, generate
from gentus.paper.encoder import ColumnStates, Encoder, Pooling
from gentus.paper.generator import Generator, extend_tokenizer
from gentus.paper.quantizer import Quantizer, train_quantizer
from gentus.paper.records import mine_hard_negatives, profile, symmetrize
from gentus.paper.serialize import Serializer
from gentus.paper.settings import PaperSettings
from gentus.paper.train import Progress, Records, train_generator
from gentus.retrieval.trie import Trie, build_trie
from gentus.table import Table

K_HELD_OUT = 20  # of MAP@k on held-out queries


@dataclass(frozen=True, slots=True)
class Offline:
    """What Algorithm 1 returns: F_η, Q_ω, G_θ, the identifiers, and the tree."""

    f_eta: Encoder | None  # None: the table vectors were given
    q_omega: Quantizer
    g_theta: Generator
    serializer: Serializer  # ser, for the generator
    identifiers: Identifiers  # S_D; the mapping is by position
    errors: F32  # (N,) ||z - z_hat||^2 of the tables
    trie: Trie
    held_out: dict[int, list[int]]  # the answers of queries that nothing was learnt from, by position
    map: float  # of the generator alone on these


class Lake(NamedTuple):
    """D and its annotations. Queries that are not in it are the tables after the first N."""

    tables: Sequence[Table]  # (N + Q,)
    N: int
    pairs: I64  # (n, 2) (q, T⁺) as positions among the tables


def encode_tables(tables: Sequence[Table], settings: PaperSettings) -> tuple[Encoder, F32]:
    """F_η, standardised over the lake, and (N, D) its table embeddings E."""
    states = ColumnStates(load_bert(settings.bert, download=settings.download), settings.encoder)
    eta, h_cols = Pooling(states.width), states.h_cols(tables)
    eta.standardise(h_cols)
    return Encoder(states, eta), eta.vectors(h_cols)


def offline(
    lake: Lake,
    settings: PaperSettings,
    folder: Path,
    e: F32 | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Offline:
    """Algorithm 1: from a lake and annotated pairs to identifiers and a generator.

    `e` are table vectors from elsewhere, in place of F_η's. Queries of the lake by which the checkpoint is
    chosen are held out, with all pairs that name them.
    """
    random, tables, D = np.random.default_rng(settings.seed), lake.tables, lake.tables[: lake.N]  # noqa: N806
    train, held_out = hold_out(lake.pairs, settings, random)
    f_eta, E = (None, e) if e is not None else encode_tables(D, settings)  # noqa: N806  # 1
    P_train = symmetrize(train[train[:, 0] < lake.N])  # noqa: N806  # 2
    q_omega = train_quantizer(E, P_train, settings.sid, settings.seed)  # 3, 4
    base, errors = q_omega.encode(E)  # 5 to 8
    identifiers = ASSIGNED[settings.identifiers](base, errors, settings.sid.K, random)  # 9 to 11
    queries = np.unique(train[:, 0]).tolist()
    profiles = [profile(table, settings.records.profile) for table in tables]
    N = mine_hard_negatives(queries, profiles, train, lake.N, settings.records.n_neg)  # noqa: N806  # 12
    g_theta, serializer = create_generator(identifiers, settings)
    trie = build_tree(identifiers)  # 18
    y, lengths = g_theta.vocabulary.tok(identifiers.codes, identifiers.suffixes)
    indexed = np.arange(lake.N) if settings.records.indexed == "all" else np.unique(train[:, 1])
    z = latents(q_omega, E)
    key = training_key(settings, train, identifiers, z, tables)
    every = (tables, serializer, train, indexed, N, y, lengths, z)
    records = Records(*every, settings.records, settings.seed, key)  # 13 to 15
    sentences = {query: serializer.ser(tables[query]) for query in held_out}

    def evaluate() -> float:
        if not sentences:
            return 0.0
        found = generate(g_theta, list(sentences.values()), trie, beam_width(K_HELD_OUT))
        ranked = {query: trie.table(one.rows).tolist() for query, one in zip(sentences, found, strict=True)}
        return score(ranked, held_out, K_HELD_OUT).map

    best = train_generator(g_theta, records, settings.train, folder, evaluate, report)  # 16, 17
    return Offline(f_eta, q_omega, g_theta, serializer, identifiers, errors, trie, held_out, best)  # 19


def hold_out(
    pairs: I64, settings: PaperSettings, random: np.random.Generator
) -> tuple[I64, dict[int, list[int]]]:
    """Pairs to learn from, and the answers of held-out queries, which none of these pairs names."""
    queries = np.unique(pairs[:, 0])
    count = min(int(len(queries) * settings.train.held_out), settings.train.most_held_out)
    held_out = np.sort(random.permutation(queries)[:count])
    truth = {int(query): pairs[pairs[:, 0] == query, 1].tolist() for query in held_out}
    return pairs[~np.isin(pairs, held_out).any(1)], truth


def create_generator(identifiers: Identifiers, settings: PaperSettings) -> tuple[Generator, Serializer]:
    """G_θ^(0), from scratch or a checkpoint, with its extended vocabulary, and `ser` for it."""
    torch.manual_seed(settings.seed)
    if settings.t5 == SCRATCH:
        base = create_t5(settings.scratch)
    else:
        base = load_t5(settings.t5, download=settings.download, dropout=settings.scratch.dropout)
    suffixes = 2 * int(identifiers.suffixes.max(initial=0)) + 8  # with room for tables that are added later
    vocabulary = extend_tokenizer(len(base.text), base.eos, base.start, identifiers.K, suffixes)
    model = Generator(base.t5, base.text, vocabulary, frozen=base.frozen).to(best_device())
    model.mixed = fast_bfloat16(model.device)
    last = (base.eos,)
    return model, Serializer(base.pieces, vocabulary.col, vocabulary.val, (), last, settings.text)


def build_tree(identifiers: Identifiers) -> Trie:
    """The prefix tree of the identifiers that lead to a table."""
    some = np.flatnonzero(identifiers.reachable)
    return build_trie(identifiers.codes[some], identifiers.suffixes[some], some)


@torch.inference_mode()
def latents(q_omega: Quantizer, e: F32) -> F32:
    """(N, d) z of table embeddings."""
    return np.asarray(q_omega.z(torch.from_numpy(e)).numpy(), np.float32)


def training_key(
    settings: PaperSettings, pairs: I64, identifiers: Identifiers, z: F32, tables: Sequence[Table]
) -> str:
    """What a training depends on: settings, data, and the code of this package."""
    kept = replace(settings, train=replace(settings.train, save_seconds=0.0))
    digest = hashlib.sha256(repr(kept).encode())
    for array in (pairs, identifiers.codes, identifiers.suffixes, z):
        digest.update(np.ascontiguousarray(array).tobytes())
    for table in tables:
        cells = (cell for column in table.columns for cell in column.cells)
        digest.update("\0".join([table.name, *cells]).encode("utf-8", "surrogatepass"))
    for module in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()
