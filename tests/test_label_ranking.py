"""A ranking learnt from labels: walks in the annotated graph, the listwise fit, no leak of annotations."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from conftest import SUBJECTS, closed_form, dense, rows_of, subject_of, write_pairs, write_table
from typer.testing import CliRunner

import gentus
from gentus.align.column_summary import SUMMARY, summarise
from gentus.align.second_look import QueryColumns
from gentus.align.signatures import Signatures, hash_values, sign_tables
from gentus.align.verdict import look_weights
from gentus.app.cli import main as cli
from gentus.features.evidence import Blocks, Evidence, learn_blocks
from gentus.features.extract import featurize, featurize_all
from gentus.index import fit_ranker
from gentus.index.candidates import FEATURES, CandidateFinder, Candidates
from gentus.index.candidates import rows_of as rows_in_tree
from gentus.index.fit_ranker import RankedQuery, fit_ranking
from gentus.index.index import Index
from gentus.index.queries import Query, encoded
from gentus.index.second_look import LOOKED_AT
from gentus.index.stages_ranked import POSITION_WEIGHTS
from gentus.lake import LakeNotFoundError
from gentus.neighbours import listwise
from gentus.neighbours.labels import Labels
from gentus.neighbours.listwise import Lists, Listwise, learn_listwise
from gentus.progress import Progress
from gentus.retrieval.walk import LEAST, TEMPERATURE, WALK_FEATURES, WALKS, AnnotatedGraph, Walked
from gentus.settings import SpaceSettings
from gentus.table import Column, Table

GROUPS = 12  # of tables that annotations alone hold together
EACH = 6


# --- walks -------------------------------------------------------------------------------------------


def some_pairs(random: np.random.Generator, tables: int = 30, count: int = 80) -> np.ndarray:
    """(P, 2) annotated pairs of tables with ids that are not consecutive."""
    pairs = random.integers(0, tables, (count, 2))
    return np.asarray(7 * pairs[pairs[:, 0] != pairs[:, 1]] + 3)


def test_walks_are_products_of_step_matrices() -> None:
    random = np.random.default_rng(0)
    pairs = some_pairs(random)
    graph = AnnotatedGraph.of(np.concatenate([pairs, pairs[:5]]))  # a pair twice counts once
    place = {int(table): at for at, table in enumerate(graph.tables)}
    matrix = np.zeros((len(place), len(place)))
    for query, table in pairs.tolist():
        matrix[place[query], place[table]] = 1
    steps = {
        name: one / np.maximum(one.sum(1, keepdims=True), 1) for name, one in (("F", matrix), ("B", matrix.T))
    }
    tables, scores = graph.tables[[4, 9, 2]], np.array([0.9, 0.88, 0.8], np.float32)
    own = int(graph.tables[11])  # the query, which walks do not start from
    walked = Walked.of(graph, np.append(own, tables), np.append(np.float32(1), scores), {own})
    share = np.exp(scores.astype(float) / TEMPERATURE)
    start = np.zeros(len(place))
    start[[4, 9, 2]] = share / share.sum()
    expected = []
    for name in WALKS:
        mass = start
        for step in name:
            mass = mass @ steps[step]
        expected.append(np.log(mass + LEAST))
    found = walked.features(graph.tables)
    np.testing.assert_allclose(found[:, : len(expected)], np.array(expected).T, atol=1e-4)
    np.testing.assert_allclose(found[:, -3], np.log1p(matrix.sum(0)), rtol=1e-5)
    assert found.shape == (len(graph.tables), len(WALK_FEATURES))


def test_a_table_without_annotations_is_reached_by_similarity_alone() -> None:
    graph = AnnotatedGraph.of(np.array([[1, 2], [3, 2]]))
    walked = Walked.of(graph, np.array([50, 1]), np.array([0.9, 0.9], np.float32), set())
    found = walked.features(np.array([50, 2, 60]))
    assert found[0, 0] == pytest.approx(np.log(0.5 + LEAST), abs=1e-5)
    assert (found[2] == walked.features(np.array([61]))[0]).all()
    assert found[1, 1] > found[2, 1]
    assert 2 in walked.best(5)


def test_a_query_is_left_out_of_the_graph_on_either_side() -> None:
    pairs = some_pairs(np.random.default_rng(1))
    left_out = np.unique(pairs[:, 0])[:4]
    assert np.isin(pairs[:, 1], left_out).any()
    graph = AnnotatedGraph.of(pairs).without(left_out)
    kept = AnnotatedGraph.of(pairs[~np.isin(pairs, left_out).any(1)])
    some = np.isin(graph.tables, kept.tables)
    for name in ("forward", "backward"):
        matrix = dense(getattr(graph, name))
        np.testing.assert_allclose(matrix[np.ix_(some, some)], dense(getattr(kept, name)), rtol=1e-6)
        assert not matrix[~some].any()


def test_a_graph_is_restored_and_a_broken_one_refused() -> None:
    graph = AnnotatedGraph.of(some_pairs(np.random.default_rng(2)))
    again = AnnotatedGraph.restore(graph.arrays())
    assert (dense(again.forward) == dense(graph.forward)).all()
    assert (dense(again.backward) == dense(graph.backward)).all()
    for name in ("labels.tables", "labels.starts", "labels.columns"):
        broken = graph.arrays()
        broken[name] = broken[name][::-1].copy() if name != "labels.columns" else broken[name] + 1000
        with pytest.raises(ValueError, match="labels"):
            AnnotatedGraph.restore(broken)


# --- the listwise fit --------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_loss() -> None:
    random = np.random.default_rng(0)
    lists = Lists.of(
        [random.normal(size=(n, 3)).astype(np.float32) for n in (4, 6)],
        [np.arange(n) < right for n, right in ((4, 1), (6, 3))],
    )
    now = {
        "hidden": random.normal(size=(3, 5)),
        "bias": random.normal(size=5),
        "output": random.normal(size=5),
    }

    def loss(weights: dict[str, np.ndarray]) -> float:
        total = 0.0
        for row, inside in enumerate(lists.inside):
            z = lists.features[row, inside] @ weights["hidden"] + weights["bias"]
            scores = z / (1 + np.exp(-z)) @ weights["output"]
            log = scores - np.log(np.exp(scores).sum())
            right = lists.relevant[row, inside]
            total -= (right / right.sum()) @ log
        return total / len(lists.inside)

    found = listwise._gradient(lists.features, lists.relevant, lists.inside, now)
    for name, array in now.items():
        for at in np.ndindex(array.shape):
            moved = [{**now, name: array.copy()} for _ in range(2)]
            moved[0][name][at] += 1e-4
            moved[1][name][at] -= 1e-4
            expected = (loss(moved[0]) - loss(moved[1])) / 2e-4
            assert found[name][at] == pytest.approx(expected, abs=2e-3)


def test_what_counts_is_learnt_and_features_that_are_not_used_change_nothing() -> None:
    random = np.random.default_rng(0)
    features = [random.normal(size=(20, 4)).astype(np.float32) for _ in range(60)]
    relevant = [np.abs(some[:, 1]) < 0.3 for some in features]  # no linear function of it
    lists = Lists.of(features[:40], relevant[:40])
    learnt = learn_listwise(lists, np.array([True, True, False, True]), np.random.default_rng(1))
    first = [
        right[learnt.scores(some).argmax()] for some, right in zip(features[40:], relevant[40:], strict=True)
    ]
    assert np.mean(first) > 0.8
    changed = features[0].copy()
    changed[:, 2] += 5
    assert (learnt.scores(changed) == learnt.scores(features[0])).all()
    again = Listwise.restore(learnt.arrays(), 4)
    assert (again.scores(changed) == learnt.scores(changed)).all()
    with pytest.raises(ValueError, match="ranker"):
        Listwise.restore(learnt.arrays(), 5)


# --- whole builds ------------------------------------------------------------------------------------


def group_of(name: str) -> int:
    return int(Path(name).stem.split("_")[1]) % GROUPS


def rows_of_group(number: int) -> list[list[str]]:
    """Rows of a table of a group; a group has tables of two kinds, which share no word."""
    words = f"{'abcdefghijkl'[number % GROUPS]}{'xy'[number // GROUPS % 2]}"
    random = np.random.default_rng(number)
    cells = [[f"{words}{'pqr'[column]}{random.integers(6)}" for column in range(3)] for _ in range(12)]
    return [["name", "kind", "place"], *cells]


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of groups; which two kinds of tables belong together, only annotations say."""
    root = tmp_path_factory.mktemp("grouped") / "lake"
    for number in range(GROUPS * EACH):
        write_table(root / f"fish_{number}.csv", rows_of_group(number))
    return root


def pairs_of(lake: Path) -> list[tuple[str, str]]:
    """Every two tables of a group."""
    names = sorted(path.name for path in lake.iterdir())
    return [(a, b) for a in names for b in names if a != b and group_of(a) == group_of(b)]


@pytest.fixture(scope="module")
def labels(grouped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("labels") / "labels.csv", pairs_of(grouped))


@pytest.fixture(scope="module")
def ranked(grouped: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranked") / "index"
    gentus.build(grouped, folder, labels, workers=1).close()
    return folder


def test_annotations_rank_where_similarity_cannot(ranked: Path, grouped: Path) -> None:
    with gentus.open(ranked) as index:
        facts = index.info()
        figures, chosen = facts["labels"]["validation_map"], facts["labels"]["ranking"]["chosen"]
        assert "walk" in chosen
        assert figures[chosen] > figures["none"] + 0.3
        for name in facts["labels"]["validation_queries"]:
            hits = index.search(grouped / name, k=EACH - 1)
            assert [group_of(hit.table) for hit in hits].count(group_of(name)) >= EACH - 2
            scores = [hit.generated for hit in hits]
            assert scores == sorted(scores, reverse=True)
    shown = CliRunner().invoke(cli.app, ["info", str(ranked)]).stdout
    assert chosen in shown


def test_removed_tables_leave_the_answers_and_added_ones_enter(
    grouped: Path, labels: Path, tmp_path: Path
) -> None:
    with gentus.build(grouped, tmp_path / "index", labels, workers=1) as index:
        query, gone = grouped / "fish_0.csv", f"fish_{GROUPS}.csv"
        assert gone in [hit.table for hit in index.search(query, k=EACH - 1)]
        index.remove([gone])
        hits = index.search(query, k=GROUPS * EACH)
        assert gone not in [hit.table for hit in hits]
        assert [group_of(hit.table) for hit in hits[: EACH - 2]].count(0) == EACH - 2  # walks pass through it
        index.add([write_table(tmp_path / "new_1.csv", rows_of_group(0))])
        assert any(hit.table.endswith("new_1.csv") for hit in index.search(query, k=GROUPS * EACH))
        before = [hit.table for hit in index.search(query, k=9)]
    with gentus.open(tmp_path / "index") as again:
        assert [hit.table for hit in again.search(query, k=9)] == before


def validation_features(index: Index, shift: int) -> np.ndarray:
    """Features by which validation queries are ranked; their annotations, either way, depend on `shift`."""
    ids, half = index.catalogue.tables.ids(), GROUPS * EACH // 2
    at = [ids[f"fish_{number}.csv"] for number in range(2 * half)]
    training = [
        (at[head], at[half + (head + step) % half]) for head in range(0, half, 2) for step in range(4)
    ]
    held = [(at[head], at[half + (head + shift) % half]) for head in range(1, half, 2)]
    labels = Labels(np.array(training), np.array(held), np.array(held)[:, ::-1])
    graph = AnnotatedGraph.of(labels.every)
    rows = rows_in_tree(index.decoder.trie, graph.tables)
    finder = CandidateFinder(index.decoder, index.catalogue, graph, rows, False, columns=False)
    contents = encoded(
        [index.read(f"fish_{number}.csv") for number in range(half)], closed_form(index).encode
    )
    queries = {table: Query(one, None, {table}) for table, one in zip(at, contents, strict=False)}
    seen: list[list[RankedQuery]] = []

    def spy(_: object, queries: list[RankedQuery], **others: object) -> np.ndarray:
        seen.append(queries)
        return np.ones(1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_ranker, "ALTERNATIVES", fit_ranker.ALTERNATIVES[:1])
        patch.setattr(fit_ranker, "_precisions", spy)
        patch.setattr(fit_ranker, "FEW", 0)
        fit_ranking(finder, queries, labels, 0, Progress())
    assert [one.table for one in seen[0]] == sorted(query for query, _ in held)
    return np.concatenate([one.candidates.features for one in seen[0]])


def test_nothing_learnt_is_judged_as_a_search_without_labels_orders(
    ranked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gentus.open(ranked) as index:
        ids, graph = index.catalogue.tables.ids(), AnnotatedGraph.of(np.zeros((0, 2), np.int64))
        feedback = closed_form(index).feedback
        finder = CandidateFinder(index.decoder, index.catalogue, graph, np.zeros(0, np.int64), True, feedback)
        name = "fish_3.csv"
        (content,) = encoded([index.read(name)], closed_form(index).encode)
        query = Query(content, None, {ids[name]})
        monkeypatch.setattr("gentus.index.answer.rank_by_labels", lambda *_: pytest.fail("labels were used"))
        plain = replace(index._snapshot, ranking=None)
        monkeypatch.setattr(index, "_snapshot", plain)
        found = [ids[hit.table] for hit in index.search(name, k=LOOKED_AT, order="aligned")]
        assert fit_ranker._aligned(finder, query).tolist() == found
        generated = [ids[hit.table] for hit in index.search(name, k=30, order="generated")]
        assert generated != found


def test_candidates_that_are_held_out_are_not_learnt_from(ranked: Path) -> None:
    features = np.arange(3 * len(FEATURES), dtype=np.float32).reshape(3, -1)
    one = RankedQuery(5, cast(Query, None), Candidates(np.arange(3), np.array([7, 8, 9]), features))
    lists = fit_ranker._lists([one], {5: [7, 8]}, np.array([8, 1]))
    assert lists.features[0].tolist() == features[[0, 2]].tolist()
    assert lists.relevant.tolist() == [[1, 0]]


@pytest.fixture(scope="module")
def beside(grouped: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A lake, queries that are not in it, and labels of these."""
    root = tmp_path_factory.mktemp("beside")
    for file in grouped.iterdir():
        inside = int(file.stem.split("_")[1]) >= 3 * GROUPS
        target = root / ("lake" if inside else "queries") / file.name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(file, target)
    names = {part: sorted(path.name for path in (root / part).iterdir()) for part in ("lake", "queries")}
    pairs = [(q, c) for q in names["queries"] for c in names["lake"] if group_of(q) == group_of(c)]
    return root / "lake", root / "queries", write_pairs(root / "labels.csv", pairs)


def test_queries_outside_the_lake_can_have_labels(beside: tuple[Path, Path, Path], tmp_path: Path) -> None:
    lake, queries, labels = beside
    folder = tmp_path / "index"
    gentus.build(lake, folder, labels, queries=queries, workers=1).close()
    for _ in range(2):
        with gentus.open(folder) as index:
            report = index.config.report.labels
            assert report is not None
            assert report.ranking is not None
            assert (report.pairs, report.pairs_outside_the_lake) == (3 * GROUPS * 3, 0)
            assert report.ranking.unreadable == []
            assert report.validation_map[report.ranking.chosen] > report.validation_map["none"] + 0.2
            right = [
                group_of(hit.table) == group_of(name)
                for name in report.validation_queries
                for hit in index.search(queries / name, k=3)
            ]
            assert sum(right) >= 0.7 * len(right)  # without labels a third
        gentus.refit(folder, workers=1).close()  # with the labels and queries of the build
    shutil.rmtree(queries)
    with pytest.raises(LakeNotFoundError, match=r"no folder .*queries"):
        gentus.refit(folder, workers=1)


def test_labels_of_queries_that_are_elsewhere_say_what_to_give(
    beside: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    lake, _, labels = beside
    with pytest.raises(
        ValueError, match=r"their queries, such as fish_0\.csv, are not in .*--queries FOLDER"
    ):
        gentus.build(lake, tmp_path / "index", labels)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"are neither in .* nor in .*empty\.$"):
        gentus.build(lake, tmp_path / "index", labels, queries=tmp_path / "empty")
    with pytest.raises(ValueError, match="there are no labels"):
        gentus.build(lake, tmp_path / "index", queries=tmp_path / "empty")
    other = write_pairs(tmp_path / "other.csv", [("a.csv", "b.csv")])
    with pytest.raises(ValueError, match=r"1 pairs names a candidate in .* They name b\.csv; the lake has"):
        gentus.build(lake, tmp_path / "index", other)
    assert not (tmp_path / "index").exists()


def test_a_value_that_training_never_showed_counts_as_the_nearest_that_it_did() -> None:
    random = np.random.default_rng(4)
    features = random.normal(size=(40, 60, 3)).astype(np.float32)
    features[..., 2] = -6.9  # a walk that leads nowhere ...
    features[0, 0, 2] = -6.8  # ... but for one candidate, which is right
    relevant = features[..., 0] == features[..., 0].max(1, keepdims=True)
    relevant[0], relevant[0, 0] = False, True
    learnt = learn_listwise(Lists.of(list(features), list(relevant)), np.ones(3, bool), random)
    given = np.array([[1, 0, -6.9], [0, 0, -6.9], [9e9, 0, -6.9]], np.float32)
    plain, other = learnt.scores(given), learnt.scores(given + np.array([0, 0, 6.9], np.float32))
    assert (plain == other).all()
    assert plain[0] > plain[1]
    assert plain[2] == learnt.scores(np.array([[learnt.bounds[1, 0], 0, -6.9]], np.float32))[0]


def test_few_validation_queries_choose_together_with_training_queries(
    ranked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[int] = []
    judged: list[int] = []
    learn, judge = learn_listwise, fit_ranker._precisions

    def learn_spy(lists: Lists, *given: object, **others: object) -> Listwise:
        learnt.append(len(lists.features))
        return learn(lists, *given, **others)  # type: ignore[arg-type]

    def judge_spy(listwise: Listwise | None, queries: list[RankedQuery], **others: object) -> np.ndarray:
        judged.append(len(queries))
        return judge(listwise, queries, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(fit_ranker, "learn_listwise", learn_spy)
    monkeypatch.setattr(fit_ranker, "_precisions", judge_spy)
    with gentus.open(ranked) as index:
        ids = index.catalogue.tables.ids()
        at = [ids[f"fish_{number}.csv"] for number in range(10)]
        labels = Labels(
            np.array([(at[0], at[6]), (at[1], at[7]), (at[2], at[8])]), np.array([(at[3], at[9])])
        )
        graph = AnnotatedGraph.of(np.concatenate([labels.pairs, labels.validation]))
        rows = rows_in_tree(index.decoder.trie, graph.tables)
        finder = CandidateFinder(index.decoder, index.catalogue, graph, rows, False, columns=False)
        contents = encoded(
            [index.read(f"fish_{number}.csv") for number in range(4)], closed_form(index).encode
        )
        queries = {table: Query(one, None, {table}) for table, one in zip(at, contents, strict=False)}
        fitted = fit_ranking(finder, queries, labels, 0, Progress())
    assert learnt == [3, 2, 2, 2] * 3  # all training queries, then each of three parts left out
    assert judged == [4, *[1, 1, 1, 1] * 3]
    assert fitted.training_queries == 3


def test_labels_say_how_much_positions_count(tmp_path: Path) -> None:
    """Tables of the same words, which only the order of their columns tells apart."""
    kinds = [SUBJECTS[subject][0].split() for subject in ("fish", "birds", "metals", "films")]
    random = np.random.default_rng(0)
    orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]]
    names = [f"{group}_{number}.csv" for group in range(len(orders)) for number in range(16)]
    for name in names:
        order = orders[int(name[0])]
        cells = [[str(random.choice(kinds[kind])) for kind in order] for _ in range(8)]
        write_table(tmp_path / "lake" / name, [["a", "b", "c", "d"], *cells])
    pairs = [(one, other) for one in names for other in names if one[0] == other[0] and one != other]
    plain = gentus.build(tmp_path / "lake", tmp_path / "plain", names=False)
    labelled = gentus.build(
        tmp_path / "lake", tmp_path / "index", write_pairs(tmp_path / "pairs.csv", pairs), names=False
    )
    with plain, labelled:
        before, after = closed_form(plain).encoder, closed_form(labelled).encoder
        weights = [round(factor * before.order, 3) for factor, _ in POSITION_WEIGHTS]
        widths = (width for _, width in POSITION_WEIGHTS)
        assert (after.order, after.width) in zip(weights, widths, strict=True)
        assert after.order > before.order > 0
        query = tmp_path / "lake" / names[0]
        assert all(hit.table[0] == "0" for hit in labelled.search(query, k=10))
    with gentus.open(tmp_path / "index") as again:  # the weights are saved
        saved = closed_form(again).encoder
        assert (saved.order, saved.width) == (after.order, after.width)


def test_a_validation_query_is_not_ranked_by_its_own_annotations(
    ranked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is annotated with, its features are the same; if its annotations leaked, they were not."""
    with gentus.open(ranked) as index:
        assert (validation_features(index, 1) == validation_features(index, 9)).all()
        monkeypatch.setattr(fit_ranker, "_of_graph", lambda finder, graph: finder)  # the leak
        leaking = validation_features(index, 1), validation_features(index, 9)
        assert leaking[0].shape != leaking[1].shape or (leaking[0] != leaking[1]).any()


def test_a_training_query_is_not_described_by_its_own_annotations(
    ranked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No graph that a labelled query is searched with has a step from it or to it."""
    searched: list[int] = []
    search = CandidateFinder.search

    def spy(self: CandidateFinder, query: Query, beam: int, count: int = 100) -> Candidates:
        (table,) = query.self_ids
        at, known = self.graph.find(np.array([table]))
        for steps in (self.graph.forward, self.graph.backward):
            assert not known[0] or not np.diff(steps.starts)[at[0]]
        searched.append(table)
        return search(self, query, beam, count)

    monkeypatch.setattr(CandidateFinder, "search", spy)
    with gentus.open(ranked) as index:
        validation_features(index, 1)
        assert len(set(searched)) == GROUPS * EACH // 2
        monkeypatch.setattr(fit_ranker, "_of_graph", lambda finder, graph: finder)
        with pytest.raises(AssertionError):
            validation_features(index, 1)


def test_an_evaluation_shows_the_index_nothing_of_its_truth(
    ranked: Path, grouped: Path, tmp_path: Path
) -> None:
    """The answers are the same whatever truth they are compared with."""
    queries = [f"fish_{number}.csv" for number in range(6)]
    truths = [
        [(query, f"fish_{number + shift * GROUPS}.csv") for number, query in enumerate(queries)]
        for shift in (1, 2)
    ]
    answers = []
    for number, truth in enumerate(truths):
        file = write_pairs(tmp_path / f"{number}.csv", truth)
        before = [
            [hit.table for hit in gentus.open(ranked).search(grouped / query, k=5)] for query in queries
        ]
        arguments = ["eval", str(ranked), "--groundtruth", str(file), "-k", "5", "--json"]
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["queries"] == len(queries)
        after = [[hit.table for hit in gentus.open(ranked).search(grouped / query, k=5)] for query in queries]
        assert before == after
        answers.append(after)
    assert answers[0] == answers[1]


def test_labels_that_add_nothing_leave_the_ranking_of_the_lake(lake: Path, tmp_path: Path) -> None:
    names = [str(path.relative_to(lake)) for path in sorted(lake.rglob("*")) if path.is_file()]
    pairs = [(a, b) for a in names for b in names if a != b and subject_of(a) == subject_of(b)]
    labels = write_pairs(tmp_path / "labels.csv", pairs)
    with gentus.build(lake, tmp_path / "index", labels, workers=1) as index:
        report = index.info()["labels"]
        assert report["validation_map"]["none"] > 0.9
        for subject in SUBJECTS:
            query = write_table(tmp_path / f"{subject}_query.csv", rows_of(subject, 99))
            assert {subject_of(hit.table) for hit in index.search(query, k=4)} == {subject}


def test_a_summary_does_not_depend_on_other_tables(ranked: Path, grouped: Path) -> None:
    with gentus.open(ranked) as index:
        stored = index.catalogue.signatures.of(index.catalogue.tables.ids().values())
        tables = [one.signatures for one in stored.values()]
        query = QueryColumns.stored(next(iter(stored.values())).names, tables[0])
        together = summarise(query, tables, look_weights(), names=False)
        assert together.shape == (len(tables), len(SUMMARY))
        alone = np.concatenate([summarise(query, [one], look_weights(), names=False) for one in tables])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert summarise(query, [tables[0][:0]], look_weights(), names=False).shape == (1, len(SUMMARY))
        assert len(FEATURES) == len(set(FEATURES))
        ids = np.array(sorted(stored))
        rows = rows_in_tree(index.decoder.trie, np.append(ids, 10**6))
        assert (index.decoder.trie.table(rows[:-1]) == ids).all()
        assert rows[-1] == -1


def test_empty_columns_count_in_positions_and_widths() -> None:
    """A table's width and the positions of its columns are those that its header has."""

    def signed(*columns: list[str]) -> tuple[Table, Signatures]:
        table = Table("t", [Column(f"c{at}", cells) for at, cells in enumerate(columns)], 3)
        return table, sign_tables([table], featurize(table), [hash_values(table)])[0]

    fish, years, empty = ["trout", "salmon", "pike"], ["1990", "1991", "1992"], list[str]()
    table, own = signed(fish, years)
    query = QueryColumns.of(table, own, hash_values(table))
    others = [signed(fish, years)[1], signed(fish, empty, years)[1], signed(fish, years, empty)[1]]
    found = summarise(query, others, look_weights(), names=False)
    named = {name: found[:, at] for at, name in enumerate(SUMMARY)}
    assert named["same number of columns"].tolist() == [1, 0, 0]
    assert named["similar number of filled columns"].tolist() == [0, 0, 0]
    assert named["similar number of columns"][0] == 0 > named["similar number of columns"][1]
    assert named["containment, same position"].tolist() == pytest.approx([1, 0.5, 1])
    encoded_widths = learn_some_blocks().encode(featurize(signed(empty, fish, empty)[0])).widths
    assert encoded_widths.tolist() == [3]


def learn_some_blocks() -> Blocks:
    """Blocks of a lake of some fish."""
    tables = [
        Table(f"t{at}", [Column("fish", [f"fish {at}", f"pike {number}"])], 2)
        for at in range(30)
        for number in range(2)
    ]
    features = featurize_all(tables)
    return learn_blocks(Evidence.fit(features, len(tables), names=False), features, SpaceSettings())


def test_the_choice_is_the_cheapest_within_the_noise() -> None:
    def chosen(**figures: list[float]) -> str:
        found = {tuple(name.split("_")): (None, np.array(each)) for name, each in figures.items()}
        return "+".join(fit_ranker._chosen(found, 1).parts)

    assert chosen(none=[0.1, 0.5, 0.4], prior_walk=[0.6, 0.9, 0.9]) == "prior+walk"
    assert chosen(none=[0.1, 0.5, 0.4], prior_walk=[0.9, 0.4, 0.1]) == "none"
