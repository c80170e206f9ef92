"""Training of the generator, Algorithm 1 as a whole, and what an index is given."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from paper_models import SMALL, annotated, changed, lake, serializer, small_generator, vectors

from gentus.features.extract import featurize_all
from gentus.metrics import score
from gentus.paper.ablation import semantic
from gentus.paper.decode import generate
from gentus.paper.losses import l_ce, l_gen, l_pairwise, s_theta
from gentus.paper.offline import Lake, Offline, build_tree, hold_out, offline, training_key
from gentus.paper.records import View, aug, mine_hard_negatives, profile
from gentus.paper.retriever import load_model, save_model
from gentus.paper.settings import PaperSettings
from gentus.paper.train import CHECKPOINT, Progress, Records, generator_losses, train_generator
from gentus.table import Column, Table

CODES = np.random.default_rng(0).integers(0, 4, (12, 3), np.uint8)


def records(settings: PaperSettings) -> Records:
    """Records of the small lake with drawn identifiers; the generator has 4 codes and 3 suffixes."""
    model, tables, pairs = small_generator(), lake(), annotated()
    y, lengths = model.vocabulary.tok(
        CODES, semantic(CODES, np.zeros(12, np.float32), 4, np.random.default_rng(0)).suffixes
    )
    queries = np.unique(pairs[:, 0]).tolist()
    profiles = [profile(table, settings.records.profile) | {1} for table in tables]
    negatives = mine_hard_negatives(queries, profiles, pairs, len(tables), settings.records.n_neg)
    z, indexed = vectors(12, 8), np.arange(12)
    return Records(tables, serializer(model), pairs, indexed, negatives, y, lengths, z, settings.records, 0)


def trained(folder: Path, settings: PaperSettings, dropout: float = 0.0) -> bytes:
    """The bytes of a generator after a training in this folder, whose MAP depends on its weights."""
    folder.mkdir(exist_ok=True)
    model = small_generator(dropout=dropout)

    def evaluate() -> float:
        return abs(float(model.added.sum().detach())) % 1

    train_generator(model, records(settings), settings.train, folder, evaluate)
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())


# --- one step ----------------------------------------------------------------------------------------


def test_the_loss_of_a_batch() -> None:
    given, model = records(SMALL), small_generator()
    views = [View(0, 0, (1, 2), 7), View(3, 5, (4,)), View(6, 0, (6,)), View(9, 1, (10, 11), 2)]
    found = generator_losses(model, views, given, SMALL.train)
    scores: dict[tuple[int, int], torch.Tensor] = {}
    for at, view in enumerate(views):  # each target alone
        for table in (*view.targets, view.negative):
            sentence = given.serializer.ser(aug(given.tables[view.table], view.number, SMALL.records))
            y, length = given.y[[table]], given.lengths[[table]]
            log_p = model.log_p_theta(model.read([sentence]), torch.zeros(1, dtype=torch.long), y, length)
            scores[at, table] = s_theta(log_p, length)
    positive = [scores[at, table] for at, view in enumerate(views) for table in view.targets]
    ranked = [
        (scores[at, t], scores[at, v.negative])
        for at, v in enumerate(views)
        if v.negative >= 0
        for t in v.targets
    ]
    ce = l_ce(torch.cat(positive))
    above, below = (torch.cat(side) for side in zip(*ranked, strict=True))
    pairwise = l_pairwise(above, below, SMALL.train.gamma)
    assert len(above) == 4
    assert torch.allclose(found.ce, ce, atol=1e-5)
    assert torch.allclose(found.pairwise, pairwise, atol=1e-5)
    assert torch.allclose(found.total, l_gen(ce, pairwise, SMALL.train.lambda_r), atol=1e-5)


# --- the loop ----------------------------------------------------------------------------------------


class KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_killed_training_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropout: float
) -> None:
    settings = changed("train", epochs=4, regression=0.3)  # 8 steps
    straight = trained(tmp_path / "straight", settings, dropout=dropout)
    real = torch.optim.AdamW.step
    for killed_after in (1, 4, 7):
        steps: list[int] = []

        def step(self: torch.optim.AdamW, most: int = killed_after, done: list[int] = steps) -> None:
            done.append(1)
            if len(done) > most:
                raise KilledError
            real(self)

        with monkeypatch.context() as patched:
            patched.setattr(torch.optim.AdamW, "step", step)
            with pytest.raises(KilledError):
                trained(tmp_path / f"{killed_after}", settings, dropout=dropout)
        assert trained(tmp_path / f"{killed_after}", settings, dropout=dropout) == straight


CONSTANTS = {
    "gamma": 5.0,
    "lambda_r": 0.5,
    "rate": 2e-3,
    "added_rate": 2.0,
    "betas": (0.9, 0.999),
    "warmup": 5,
    "clip": 0.1,
    "regression": 0.3,
    "positives": 1,
    "indexing": 3,
    "views": 3,
}


def test_every_constant_changes_the_generator(tmp_path: Path) -> None:
    usual = trained(tmp_path / "usual", SMALL)
    assert trained(tmp_path / "again", SMALL) == usual
    for name, value in CONSTANTS.items():
        assert trained(tmp_path / name, changed("train", **{name: value})) != usual, name


def test_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    settings, model, seen = changed("train", epochs=4), small_generator(), []
    maps = iter([0.1, 0.7, 0.3, 0.2])

    def evaluate() -> float:
        seen.append(model.added.detach().clone())
        return next(maps)

    reports: list[Progress] = []
    best = train_generator(model, records(settings), settings.train, tmp_path, evaluate, reports.append)
    assert best == 0.7
    assert torch.equal(model.added, seen[1])
    assert not torch.equal(seen[1], seen[2])
    assert [report.map for report in reports] == [0.1, 0.7, 0.3, 0.2]
    assert reports[-1].share == 1
    assert reports[0].seconds_left > 0


def test_by_time_the_clock_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr(time, "monotonic", clock)
    settings = changed("train", minutes=1.0)
    reports: list[Progress] = []

    def stop(progress: Progress) -> None:
        reports.append(progress)
        if progress.seconds > 25:
            raise KilledError

    with pytest.raises(KilledError):
        train_generator(small_generator(), records(settings), settings.train, tmp_path, lambda: 0.0, stop)
    before = reports[-1]
    model = small_generator()
    train_generator(model, records(settings), settings.train, tmp_path, lambda: 0.0, reports.append)
    after = reports[reports.index(before) + 1]
    assert after.step > before.step - 5
    assert before.seconds - 8 < after.seconds < before.seconds + 16
    assert 60 <= reports[-1].seconds < 70


def test_another_training_does_not_go_on_with_this_ones_checkpoint(tmp_path: Path) -> None:
    train_generator(small_generator(), records(SMALL), SMALL.train, tmp_path, lambda: 0.0)
    assert (tmp_path / CHECKPOINT).exists()
    steps: list[int] = []
    other, given = small_generator(seed=1), replace(records(SMALL), key="another")
    train_generator(other, given, SMALL.train, tmp_path, lambda: 0.0, lambda p: steps.append(p.step))
    assert len(steps) == SMALL.train.epochs


def test_the_key_of_a_training_depends_on_all_that_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, pairs, z = lake(), annotated(), vectors()
    found = semantic(CODES, np.zeros(12, np.float32), 4, np.random.default_rng(0))
    other = [*tables[:-1], Table(tables[-1].name, [Column("", ["another"])], 9)]
    keys = {
        training_key(SMALL, pairs, found, z, tables),
        training_key(changed("train", gamma=0.3), pairs, found, z, tables),
        training_key(SMALL, pairs[1:], found, z, tables),
        training_key(SMALL, pairs, found._replace(codes=CODES[::-1]), z, tables),
        training_key(SMALL, pairs, found, -z, tables),
        training_key(SMALL, pairs, found, z, other),
    }
    assert len(keys) == 6
    assert training_key(changed("train", save_seconds=9.0), pairs, found, z, tables) in keys
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"another loss")
    assert training_key(SMALL, pairs, found, z, tables) not in keys


WORKER = """
import sys
import time
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from paper_models import SMALL
from test_paper_train import trained
import torch
torch.set_num_threads(1)
print(trained(Path(sys.argv[2]), SMALL)[:64].hex(), flush=True)
"""


@pytest.mark.slow
def test_two_processes_have_the_same_weights(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20_000 + os.getpid() % 20_000)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, here, str(tmp_path / "both")],
            env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"} | address,
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    first, second = (process.communicate(timeout=300)[0] for process in running)
    assert first == second != ""


# --- Algorithm 1 -------------------------------------------------------------------------------------


def test_held_out_queries_are_in_no_pair() -> None:
    pairs = np.array([(0, 1), (1, 2), (2, 0), (3, 1), (4, 5), (4, 0)], np.int64)
    settings = changed("train", held_out=0.4)
    for seed in range(8):
        train, held_out = hold_out(pairs, settings, np.random.default_rng(seed))
        assert len(held_out) == 2
        assert not set(held_out) & set(train.ravel().tolist())
        assert all(found == pairs[pairs[:, 0] == query, 1].tolist() for query, found in held_out.items())


def learnt(folder: Path, settings: PaperSettings, with_vectors: bool) -> Offline:
    folder.mkdir()
    return offline(Lake(lake(), 12, annotated()), settings, folder, vectors() if with_vectors else None)


@pytest.mark.parametrize("with_vectors", [True, False])
def test_the_offline_stage_and_what_is_stored(
    tmp_path: Path, tiny_t5_tied: Path, tiny_bert: Path, with_vectors: bool
) -> None:
    settings = replace(SMALL, t5=str(tiny_t5_tied), bert=str(tiny_bert), train=replace(SMALL.train, epochs=2))
    made = learnt(tmp_path / "training", settings, with_vectors)
    assert len(made.trie) == 12
    if with_vectors:  # those of the closed form are tested in an index
        return
    save_model(tmp_path / "model.safetensors", made, settings, None)
    retriever = load_model(tmp_path / "model.safetensors", made.trie)
    features = featurize_all(lake())
    (expected,) = generate(made.g_theta, [made.serializer.ser(lake()[4])], made.trie, 100)
    found = retriever.rank(retriever.encode(lake(), features)[4], 3, None, {4})
    assert [row for row, _ in found] == expected.rows[:4].tolist()  # one more, as one of them is the query
    assert np.allclose([score for _, score in found], expected.scores[:4])
    codes, _ = retriever.codes(lake(), features)
    assert (codes == made.identifiers.codes).all()  # new tables are coded as those of the build were
    sent = pickle.loads(pickle.dumps(retriever.portable()))  # as to another process
    for ours, theirs in zip(retriever.encode(lake(), features), sent(lake(), features), strict=True):
        assert (ours == theirs).all()


def test_an_inserted_table_can_be_generated(tmp_path: Path, tiny_t5_tied: Path) -> None:
    made = learnt(tmp_path / "training", replace(SMALL, t5=str(tiny_t5_tied)), True)
    codes, suffixes = made.identifiers.codes, made.identifiers.suffixes
    # A table with the codes of one that was unique: that one keeps its identifier, without a suffix.
    unique = int(np.flatnonzero(suffixes == 0)[0])
    grown = made.identifiers._replace(
        codes=np.concatenate([codes, codes[[unique]]]),
        suffixes=np.append(suffixes, 1).astype(np.int32),
        reachable=np.ones(13, bool),
    )
    trie = build_tree(grown)
    (found,) = generate(made.g_theta, [made.serializer.ser(Table("q", [], 0))], trie, 100)
    assert sorted(trie.table(found.rows).tolist()) == list(range(13))


@pytest.mark.slow
def test_it_learns_what_is_annotated(tmp_path: Path, tiny_t5_tied: Path) -> None:
    settings = replace(SMALL, t5=str(tiny_t5_tied), train=replace(SMALL.train, epochs=150, rate=5e-3))
    made = learnt(tmp_path / "training", settings, True)
    sentences = [made.serializer.ser(lake()[query]) for query in (0, 3, 6, 9)]
    found = generate(made.g_theta, sentences, made.trie, 12)
    ranked = {
        query: made.trie.table(one.rows).tolist() for query, one in zip((0, 3, 6, 9), found, strict=True)
    }
    truth = {query: [query + 1, query + 2] for query in (0, 3, 6, 9)}
    assert score(ranked, truth, 2).map > 0.9


def test_settings_are_read_back() -> None:
    import msgspec

    stored = json.loads(msgspec.json.encode(SMALL))
    assert msgspec.convert(stored, PaperSettings) == SMALL
