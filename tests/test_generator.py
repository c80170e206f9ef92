"""The generator and its training, on tasks and on a T5 that fit into a test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_serialize import sentence_pieces
from torch import Tensor
from transformers import T5Model

from gentus.errors import CheckpointError
from gentus.generator.model import Generator, Inputs
from gentus.generator.session import DecodingSession
from gentus.generator.training import Batch, Epochs, RunOptions, TrainingReport, batch_loss, train
from gentus.identifiers.semantic_ids import assign_suffixes
from gentus.retrieval.generate import Decoding, generate, paths
from gentus.retrieval.trie import build_trie
from gentus.settings import GeneratorSettings, TrainingSettings
from gentus.table import Column, Table

LEVELS, CODES, LATENT, SUFFIXES, STATES = 3, 8, 6, 2, 5
END = CODES + SUFFIXES
SMALL = GeneratorSettings(width=32, layers=2, heads=2, feedforward=48)
SIZES = [6, 1, 3]  # columns of the queries

Modes = list[GeneratorSettings]


@pytest.fixture(scope="module")
def modes(tiny_t5: Path) -> Modes:
    text = replace(SMALL, input="text", checkpoint=str(tiny_t5))
    return [SMALL, replace(SMALL, output="tokens"), text, replace(text, output="tokens")]


def codewords() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(LEVELS, CODES, LATENT) * 0.5 ** torch.arange(LEVELS)[:, None, None]


def make(settings: GeneratorSettings = SMALL, opinion: float = 0.0) -> Generator:
    """A generator that says something, unless it is to be untrained."""
    generator = Generator.create(settings, codewords(), SUFFIXES, STATES)
    torch.manual_seed(2)
    if opinion and settings.output == "codebooks":
        for parameter in (
            generator.to_latent.weight,
            generator.to_suffix.weight,
            generator.bias,
            generator.gain,
        ):
            torch.nn.init.normal_(parameter, mean=0.1, std=opinion)
    return generator


def queries(generator: Generator, sizes: list[int] = SIZES, seed: int = 0) -> Inputs:
    random = np.random.default_rng(seed)
    latents = random.normal(size=(len(sizes), LATENT)).astype(np.float32)
    if generator.settings.input == "columns":
        states = [random.normal(size=(size, STATES)).astype(np.float32) for size in sizes]
        return Inputs.of_columns(states, latents)
    cells = [[random.choice(["ab", "cde", "f"]) for _ in range(3)] for _ in range(max(sizes))]
    columns = [Column(f"c{i}", cell) for i, cell in enumerate(cells)]
    serializer = generator.serializer()
    serials = [serializer.one(Table("t", columns[:size], 3)) for size in sizes]
    return Inputs.of_text(serials, latents)


def targets(count: int = 9, seed: int = 0) -> Tensor:
    """Identifiers, some with a suffix."""
    random = np.random.default_rng(seed)
    rows = np.full((count, LEVELS + 2), -1)
    rows[:, :LEVELS] = random.integers(0, CODES, (count, LEVELS))
    rows[:, LEVELS] = END
    rows[::2, LEVELS] = random.integers(CODES, END, len(rows[::2]))
    rows[::2, LEVELS + 1] = END
    return torch.from_numpy(rows)


def allowed(symbols: Tensor, seed: int = 0) -> Tensor:
    """Some valid symbols at every place, the target's among them."""
    random = np.random.default_rng(seed)
    valid = torch.from_numpy(random.random((*symbols.shape, END + 1)) < 0.4)
    return valid.scatter(2, symbols.clamp_min(0)[:, :, None], True) & (symbols >= 0)[:, :, None]


OWNER = torch.tensor([2, 0, 0, 1, 2, 0, 2, 2, 0])


# --- the generator ------------------------------------------------------------------------------------


def test_untrained_it_has_no_opinion() -> None:
    generator, symbols = make(), targets()
    valid = allowed(symbols)
    valid[3, 1] = False  # nothing is valid: nothing is said
    found = generator.score(generator.encode(queries(generator)), OWNER, symbols, valid)
    expected = torch.where(valid.any(2), -valid.sum(2).clamp_min(1).log(), 0.0)
    assert torch.allclose(found, expected, atol=1e-6)


def test_the_residual_has_its_say() -> None:
    """With a gain, an untrained generator prefers codewords by their distance to what is left."""
    generator = make()
    torch.nn.init.constant_(generator.gain, 1 / 16)
    memory, symbols = generator.encode(queries(generator)), targets()
    logits = generator.logits(memory, OWNER, symbols)
    words, rest = codewords(), memory.latents[OWNER].clone()
    for level in range(LEVELS):
        scale = words[level].square().sum(1).mean()
        distance = (rest[:, None] - words[level]).square().sum(2) / scale
        expected = (rest.square().sum(1, keepdim=True) / scale - distance) / 2
        assert torch.allclose(logits[:, level, :CODES], expected, atol=1e-4)
        rest -= words[level, symbols[:, level]]


@pytest.mark.parametrize("mode", range(4))
def test_steps_say_what_whole_targets_say(modes: Modes, mode: int) -> None:
    """Also where beams change places, are dropped and multiplied."""
    generator = make(modes[mode], opinion=0.5)
    random = np.random.default_rng(3)
    for sizes in (SIZES, [4]):
        with torch.no_grad():
            memory = generator.encode(queries(generator, sizes))
        session = DecodingSession(generator, memory)
        found, owner = session.begin(), torch.arange(len(sizes))
        said = torch.zeros(len(sizes), 0, dtype=torch.long)
        for place in range(LEVELS + 2):
            with torch.no_grad():
                whole = generator.logits(memory, owner, torch.nn.functional.pad(said, (0, 1), value=-1))
            assert np.allclose(found, whole[:, -1], atol=1e-4)
            assert torch.equal(session.owner, owner)
            if place == LEVELS + 1:
                break
            parent = torch.from_numpy(random.integers(0, len(owner), (7, 2, 5)[place % 3]))
            low, high = (0, CODES) if place < LEVELS else (CODES, END)
            symbols = torch.from_numpy(random.integers(low, high, len(parent)))
            found = session.step(parent.numpy(), symbols.numpy())
            owner, said = owner[parent], torch.cat([said[parent], symbols[:, None]], 1)


def test_beam_search_sums_what_targets_score() -> None:
    """What leads the beams is what is trained: the same log-probabilities of the same symbols."""
    random = np.random.default_rng(4)
    codes = random.integers(0, 3, (40, LEVELS)).astype(np.uint8)
    trie = build_trie(codes, assign_suffixes(codes, np.zeros(40, np.float32)), np.arange(40))
    suffixes = trie.highest_suffix
    generator = Generator.create(SMALL, codewords(), suffixes, STATES)
    for parameter in (generator.to_latent.weight, generator.to_suffix.weight):
        torch.nn.init.normal_(parameter)
    with torch.no_grad():
        memory = generator.encode(queries(generator))
        session = DecodingSession(generator, memory)
        for owner, found in enumerate(generate(session, trie, 3, CODES, Decoding(40))):
            right = paths(trie, found.rows, CODES, suffixes)
            symbols, valid = torch.from_numpy(right.symbols), torch.from_numpy(right.valid)
            scores = generator.score(memory, torch.full((40,), owner), symbols, valid).sum(1)
            assert np.allclose(scores.numpy(), found.generator, atol=1e-4)


def test_a_session_begins_and_ends() -> None:
    generator = make()
    session = DecodingSession(generator, generator.encode(queries(generator)))
    one = np.zeros(1, np.int64)
    with pytest.raises(RuntimeError, match="begin first"):
        session.step(one, one)
    session.begin()
    assert session.step(one[:0], one[:0]).shape == (0, END + 1)
    with pytest.raises(RuntimeError, match="begins once"):
        session.begin()


@pytest.mark.parametrize("mode", [1, 3])
def test_the_decoder_is_that_of_transformers(modes: Modes, mode: int) -> None:
    generator, symbols = make(modes[mode]), targets(3)
    inputs = queries(generator)
    rows = torch.nn.functional.pad(
        symbols[:, :-1].clamp_min(0) + generator.first, (1, 0), value=generator.start
    )
    with torch.no_grad():
        found = generator.logits(generator.encode(inputs), torch.arange(3), symbols)
        given: dict[str, Tensor] = {"input_ids": inputs.content, "attention_mask": inputs.mask}
        if mode == 1:
            unit = torch.nn.functional.rms_norm
            latent = generator.read_latent(unit(inputs.latents, (LATENT,), eps=1e-6))
            columns = generator.read_column(unit(inputs.content, (STATES,), eps=1e-6))
            mask = torch.nn.functional.pad(inputs.mask, (1, 0), value=True)
            given = {"inputs_embeds": torch.cat([latent[:, None], columns], 1), "attention_mask": mask}
        hidden = generator.t5(**given, decoder_input_ids=rows).last_hidden_state
    embedding = generator.t5.shared.weight[generator.first : generator.first + END + 1]
    expected = hidden @ embedding.T / math.sqrt(hidden.shape[2])
    counted = symbols >= 0
    assert torch.allclose(found[counted], expected[counted], atol=1e-4)


def test_padding_changes_nothing(modes: Modes) -> None:
    for settings in modes:
        generator = make(settings, opinion=0.5)
        inputs = queries(generator)
        together = generator.logits(generator.encode(inputs), torch.arange(3), targets(3))
        for i, size in enumerate(inputs.mask.sum(1).tolist()):
            one = Inputs(
                inputs.content[i : i + 1, :size], inputs.mask[i : i + 1, :size], inputs.latents[i : i + 1]
            )
            alone = generator.logits(
                generator.encode(one), torch.zeros(1, dtype=torch.long), targets(3)[i : i + 1]
            )
            assert torch.allclose(together[i], alone[0], atol=1e-4)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="text needs a checkpoint"):
        GeneratorSettings(input="text")
    with pytest.raises(ValueError, match="multiple of the heads"):
        GeneratorSettings(width=30)
    with pytest.raises(ValueError, match="output is"):
        GeneratorSettings(output="words")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reads column states"):
        make().serializer()
    with pytest.raises(ValueError, match="precision"):
        TrainingSettings(precision="int8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        TrainingSettings(epochs=0)


# --- a T5 from a checkpoint ---------------------------------------------------------------------------


def test_a_checkpoint_keeps_its_weights_and_grows(modes: Modes, tiny_t5: Path) -> None:
    generator = make(modes[3])
    old = T5Model.from_pretrained(tiny_t5)
    known, tokens = len(old.shared.weight), len(sentence_pieces())
    assert generator.first == known + 1  # one row to spare for [COL], one more for [VAL]
    assert len(generator.t5.shared.weight) == generator.first + END + 1
    assert torch.equal(generator.t5.shared.weight[:tokens], old.shared.weight[:tokens])
    new = dict(generator.t5.named_parameters())
    for name, weight in old.named_parameters():
        assert name == "shared.weight" or torch.equal(weight, new[name]), name
    assert generator.t5.encoder.embed_tokens.weight is generator.t5.shared.weight
    assert len(generator.t5.shared.weight[tokens:].unique(dim=0)) == END + 3
    assert generator.serializer().added == []  # they are known by now


def test_a_checkpoint_that_cannot_be_had(modes: Modes, tiny_t5: Path, tmp_path: Path) -> None:
    text = modes[2]
    with pytest.raises(CheckpointError, match="hf download nobody/has-this"):
        make(replace(text, checkpoint="nobody/has-this"))
    with pytest.raises(CheckpointError, match="as it is not a folder with"):
        make(replace(text, checkpoint=str(tmp_path)))
    sentence_pieces().save_pretrained(tmp_path)
    t5 = T5Model.from_pretrained(tiny_t5)
    t5.config.save_pretrained(tmp_path)
    torch.save(t5.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):  # pickle is not read
        make(replace(text, checkpoint=str(tmp_path)))
    t5.encoder.save_pretrained(tmp_path)
    t5.config.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="not a T5, encoder and decoder"):
        make(replace(text, checkpoint=str(tmp_path)))


# --- training -----------------------------------------------------------------------------------------


def task(generator: Generator, count: int = 8) -> Callable[[int], Iterable[Batch]]:
    """Two kinds of queries, told apart by their columns or words, each with an identifier of its own."""
    answers = targets(2)

    def batches(epoch: int) -> Iterable[Batch]:
        for number in range(count):
            random = np.random.default_rng((epoch, number))
            kinds = random.integers(0, 2, 8)
            latents = random.normal(size=(8, LATENT)).astype(np.float32)
            if generator.settings.input == "columns":
                states = [random.normal(2 * k - 1, 0.5, (3, STATES)).astype(np.float32) for k in kinds]
                inputs = Inputs.of_columns(states, latents)
            else:
                serializer = generator.serializer()
                cells = [[f"{'ab'[kind]}{random.choice(list('xyz'))}"] for kind in kinds]
                serials = [serializer.one(Table("t", [Column("c", cell)], 1)) for cell in cells]
                inputs = Inputs.of_text(serials, latents)
            kind = torch.from_numpy(kinds)
            owner = torch.arange(8)
            negatives = (answers[1 - kind], None, owner)
            yield Batch(inputs, owner, answers[kind], None, torch.ones(8), *negatives)

    return batches


def accuracy(generator: Generator, batches: Callable[[int], Iterable[Batch]]) -> Callable[[], float]:
    """The mean probability of right answers."""

    @torch.no_grad()
    def validate() -> float:
        (batch,) = list(batches(99))[:1]
        memory = generator.encode(batch.inputs)
        return float(generator.score(memory, batch.owner, batch.symbols).sum(1).exp().mean())

    return validate


def fit(
    generator: Generator,
    folder: Path | None = None,
    time_budget: float | None = None,
    stop_at: int = 10**6,
    fingerprint: str = "",
    **settings: float,
) -> TrainingReport:
    """Train on the task; `stop_at` is the batch before which the process is killed, as it were."""
    batches, seen = task(generator), 0

    def counted(epoch: int) -> Iterable[Batch]:
        nonlocal seen
        for batch in batches(epoch):
            if seen == stop_at:
                raise KeyboardInterrupt
            seen += 1
            yield batch

    chosen = replace(TrainingSettings(epochs=3, rate=5e-3, checkpoint_seconds=0), **settings)  # type: ignore[arg-type]
    validate = accuracy(generator, batches)
    options = RunOptions(folder, fingerprint, time_budget)
    return train(generator, Epochs(counted, 8), validate, chosen, options)


@pytest.mark.parametrize("mode", range(4))
def test_it_learns(modes: Modes, mode: int) -> None:
    generator = make(modes[mode])
    report = fit(generator, epochs=8, rate=2e-2)
    assert report.scores[0] < 0.1
    assert report.best == max(report.scores) > 0.7
    assert report.losses[-1] < report.losses[0]
    assert accuracy(generator, task(generator))() == pytest.approx(report.best, abs=1e-6)  # the best is kept
    assert not generator.training


def test_the_loss_is_that_of_the_paper() -> None:
    generator = make(opinion=0.5)
    symbols, negatives = targets(), targets(5, seed=1)
    of = torch.tensor([8, 0, 3, 3, 4])
    weight = torch.rand(9)
    inputs, valid, negative_valid = queries(generator), allowed(symbols), allowed(negatives, 1)
    memory = generator.encode(inputs)

    def score(owner: int, target: Tensor, valid: Tensor) -> float:
        target, valid = target[target >= 0], valid[target >= 0]
        logits = generator.logits(memory, torch.tensor([owner]), target[None])[0]
        terms = [logits[t, s] - logits[t, valid[t]].logsumexp(0) for t, s in enumerate(target)]
        return torch.stack(terms).mean().item()

    scores = [score(int(o), s, v) for o, s, v in zip(OWNER, symbols, valid, strict=True)]
    entropy = -np.average(scores, weights=weight)
    below = [score(int(OWNER[i]), s, v) for i, s, v in zip(of, negatives, negative_valid, strict=True)]
    gaps = [scores[i] - s for i, s in zip(of, below, strict=True)]
    margin = float(np.median(gaps))  # some keep it, some do not
    ranking = np.mean([max(0.0, margin - gap) for gap in gaps])
    batch = Batch(inputs, OWNER, symbols, valid, weight, negatives, negative_valid, of)
    assert batch_loss(generator, batch, margin, 0.3).item() == pytest.approx(
        entropy + 0.3 * ranking, abs=1e-5
    )


@pytest.mark.parametrize("stop_at", [3, 19])
def test_a_killed_run_goes_on(tmp_path: Path, stop_at: int) -> None:
    whole, parts = make(), make()
    expected = fit(whole, accumulate=3)
    with pytest.raises(KeyboardInterrupt):
        fit(parts, tmp_path, stop_at=stop_at, accumulate=3)
    assert (tmp_path / "training.safetensors").is_file()
    parts = make()  # another process
    found = fit(parts, tmp_path, accumulate=3)
    for name, weight in whole.named_parameters():
        assert torch.equal(weight, dict(parts.named_parameters())[name]), name
    assert (found.losses, found.scores, found.steps) == (expected.losses, expected.scores, expected.steps)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", [{"fingerprint": "b"}, {"rate": 1e-3}, "damaged"])
def test_a_checkpoint_of_something_else_is_replaced(tmp_path: Path, other: dict[str, str] | str) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(make(), tmp_path, stop_at=4, fingerprint="a", epochs=1)
    if isinstance(other, str):
        (tmp_path / "training.safetensors").write_bytes(b"nothing")
        other = {}
    options = {"fingerprint": "a", "epochs": 1} | other
    expected, found = fit(make(), **options), fit(make(), tmp_path, **options)  # type: ignore[arg-type]
    assert found.losses == expected.losses
    assert list(tmp_path.iterdir()) == []


def test_a_time_budget_is_kept() -> None:
    report = fit(make(), time_budget=0.7, epochs=10_000, patience=10_000)
    assert report.stopped == "time"
    assert report.seconds < 2
    assert len(report.scores) == len(report.losses) + 1


def test_it_stops_when_nothing_gets_better() -> None:
    generator = make()
    scores = iter([0.5, 0.1, 0.3, 0.2, 0.25, 0.9])
    batches = task(generator, 1)
    before = [p.clone() for p in generator.parameters()]
    report = train(generator, Epochs(batches, 1), lambda: next(scores), TrainingSettings(patience=2))
    assert report.stopped == "patience"
    assert report.scores == [0.5, 0.1, 0.3, 0.2, 0.25]
    assert report.best_epoch == 0  # training made it worse
    assert all(torch.equal(a, b.cpu()) for a, b in zip(before, generator.parameters(), strict=True))


def test_training_says_what_is_wrong() -> None:
    generator = make()
    (batch,) = task(generator, 1)(0)
    valid = allowed(batch.symbols).scatter(2, batch.symbols.clamp_min(0)[:, :, None], False)
    with pytest.raises(FloatingPointError, match="valid symbols"):
        train(generator, Epochs(lambda epoch: [replace(batch, valid=valid)], 1), lambda: 0.0)
    with pytest.raises(ValueError, match="no batches"):
        train(generator, Epochs(lambda epoch: [], 1), lambda: 0.0)


def test_a_sharp_start_is_the_distance_to_the_codewords() -> None:
    generator = Generator.create(SMALL, codewords(), SUFFIXES, STATES).start_as_prior(4.0)
    inputs = queries(generator)
    logits = torch.from_numpy(DecodingSession(generator, generator.encode(inputs)).begin()[:, :CODES])
    distance = ((inputs.latents[:, None] - codewords()[0]) ** 2).sum(2)
    assert torch.allclose(logits.log_softmax(1), (-2 * distance).log_softmax(1), atol=1e-4)
