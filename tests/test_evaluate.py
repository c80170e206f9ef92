from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gentus.metrics import check, load_groundtruth, score


def reference(
    rankings: Mapping[str, Sequence[str]], truth: Mapping[str, Sequence[str]], k: int
) -> dict[str, float]:
    """The definitions, word by word and as slow as they read."""
    tops: dict[str, list[str]] = {}
    answers: dict[str, set[str]] = {}
    for query in truth:
        wanted = {name for name in truth[query] if name != query}
        if not wanted:
            continue
        answers[query] = wanted
        top: list[str] = []
        for name in rankings.get(query, []):
            if name != query and name not in top:
                top.append(name)
        tops[query] = top[:k]

    def precision(query: str, depth: int) -> float:
        return len([name for name in tops[query][:depth] if name in answers[query]]) / depth

    def gain(query: str) -> float:
        return sum(precision(query, i + 1) for i, name in enumerate(tops[query]) if name in answers[query])

    def mean(numbers: list[float]) -> float:
        return sum(numbers) / len(numbers)

    prefixes = []
    for depth in range(1, k + 1):
        enough = [query for query in answers if len(answers[query]) >= depth]
        if enough:
            prefixes.append(mean([precision(query, depth) for query in enough]))
    return {
        "map": mean([gain(query) / min(k, len(answers[query])) for query in answers]),
        "map_full": mean([gain(query) / len(answers[query]) for query in answers]),
        "map_prefix": mean(prefixes),
        "precision": mean([precision(query, k) for query in answers]),
        "recall": mean([precision(query, k) * k / len(answers[query]) for query in answers]),
    }


names = st.sampled_from(list("abcdefgh"))
lists = st.lists(names, max_size=12)


@given(
    rankings=st.dictionaries(names, lists),
    truth=st.dictionaries(names, lists, min_size=1).filter(lambda t: any(set(c) - {q} for q, c in t.items())),
    k=st.integers(1, 12),
)
def test_score_agrees_with_the_slow_reference(
    rankings: dict[str, list[str]], truth: dict[str, list[str]], k: int
) -> None:
    found = score(rankings, truth, k).to_dict()
    for name, value in reference(rankings, truth, k).items():
        assert found[name] == pytest.approx(value), name


def test_score_by_hand() -> None:
    # q: answer, miss, answer -> AP sum 1/1 + 2/3; r: only one answer, found second -> 1/2
    truth = {"q": ["a", "b", "c", "d"], "r": ["a"]}
    got = score({"q": ["a", "x", "b"], "r": ["x", "a", "y"]}, truth, 3)
    assert got.queries == 2
    assert got.map == pytest.approx(((1 + 2 / 3) / 3 + 1 / 2) / 2)
    assert got.map_full == pytest.approx(((1 + 2 / 3) / 4 + 1 / 2) / 2)
    assert got.map_prefix == pytest.approx(((1 + 0) / 2 + 1 / 2 + 2 / 3) / 3)  # r counts at k'=1 only
    assert got.precision == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert got.recall == pytest.approx((2 / 4 + 1) / 2)


def test_a_perfect_ranking_has_map_one_even_where_k_is_below_the_answers() -> None:
    got = score({"q": ["a", "b"]}, {"q": ["a", "b", "c", "d"]}, 2)
    assert (got.map, got.map_full, got.map_prefix, got.precision, got.recall) == (1.0, 0.5, 1.0, 1.0, 0.5)


def test_the_query_itself_and_repeats_take_no_place() -> None:
    assert score({"q": ["q", "a", "a", "b"]}, {"q": ["a", "b", "q"]}, 2).map == 1.0


def test_a_query_without_a_ranking_counts_as_zero() -> None:
    assert score({"q": ["a"]}, {"q": ["a"], "r": ["a"]}, 1).map == 0.5


def test_times_and_json() -> None:
    got = score({"q": ["a"]}, {"q": ["a"]}, 1, milliseconds=[1.0, 2.0, 3.0])
    assert json.loads(json.dumps(got.to_dict()))["ms_p50"] == 2.0
    assert score({"q": ["a"]}, {"q": ["a"]}, 1).to_dict()["ms_p95"] is None


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        score({}, {"q": ["a"]}, 0)
    with pytest.raises(ValueError, match="no query with an answer"):
        score({}, {"q": ["q"]}, 3)


@pytest.mark.parametrize(
    "header", ["query_table,candidate_table\n", "Query_Table,CANDIDATE_TABLE\r\n", "\ufeff", ""]
)
def test_groundtruth_with_and_without_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "truth.csv"
    path.write_text(
        header + 'q.csv,a.csv\nq.csv,q.csv\nq.csv,a.csv\n\n"q, too.csv",b.csv\nself.csv,self.csv\n'
    )
    assert load_groundtruth(path) == {"q.csv": ["a.csv"], "q, too.csv": ["b.csv"]}


def test_groundtruth_with_further_columns(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    path.write_text("candidate_table,score,query_table\na.csv,1,q.csv\n")
    assert load_groundtruth(path) == {"q.csv": ["a.csv"]}


@pytest.mark.parametrize("line", ["q.csv", "q.csv,a.csv,b.csv", "q.csv,", ",a.csv"])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "truth.csv"
    path.write_text(f"query_table,candidate_table\nq.csv,a.csv\n{line}\n")
    with pytest.raises(ValueError, match=r"truth\.csv, line 3"):
        load_groundtruth(path)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    path.write_bytes(b"query_table,candidate_table\nq\xff.csv,a.csv\n")
    with pytest.raises(ValueError, match=r"truth\.csv"):
        load_groundtruth(path)


def test_check_says_what_is_missing() -> None:
    truth = {"q": ["a", "gone"], "lost": ["a"]}
    got = check(truth, ["a", "b"], ["q"])
    assert (got.missing_queries, got.missing_candidates, got.missing_pairs) == (["lost"], ["gone"], 2)
    assert not got.ok
    assert "query tables missing: 1 of 2 (lost)" in got.summary()
    assert "candidate tables not in the lake: 1 (gone)" in got.summary()
    assert "Of 3 pairs, 2 can never be found" in got.summary()


def test_check_of_a_fitting_ground_truth() -> None:
    got = check({"q": ["a"]}, ["q", "a"])
    assert got.ok
    assert got.summary() == "Every table of the ground truth is there (1 queries, 1 pairs)."
