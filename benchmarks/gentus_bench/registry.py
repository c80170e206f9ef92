"""All experiments, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from gentus_bench.experiment import Experiment

_ALL = """
quality | Quality and costs of every system | data lake method k seeds minutes | Tables 1-3, Figures 5-8
timing | Search times of several systems side by side, in one process | data lake method |
pool | MAP by the size of the candidate pool, from the rankings of `quality` | data lake minutes | Table 4
incremental | Learn from half a lake, add the rest in five steps | data lake method minutes | Figure 9
beam | Quality and time by beam width, on the indexes of `quality` | data lake minutes | Figure 10
identifiers | Kinds of identifiers for the paper's generator | data lake k seeds minutes | Table 5
unconstrained | The paper's generator with the prefix tree and without it | data lake minutes | Table 6
updates | Adding tables to indexes, and readers beside a writer | index data |
alignment | Precision and recall of column alignment, beside valentine's matchers | data lake method |
verdict | Which tables fit, or that none does, by weights learnt on the other lakes | data lake k |
groups | Families of unionable tables against the groups of the ground truth | data lake |
headers | First rows called data, and headerless files that are missed, beside DuckDB | data lake |
reading | Files per second of sampled reading, beside another checkout | data lake |
readers | Dialect, header and cells of delimited text, beside DuckDB and others | data lake method |
union | Memory and time of a union of large tables | |
union_speed | A union beside DuckDB alone, for the same result | |
union_wide | Plan and union of tables of thousands of columns | |
fidelity | Every cell of a self-union beside its source, over folders of files | data lake |
serving | Throughput and latency of the server under many clients | index queries k |
batch | Queries per second, in one process and on all cores | index queries k |
roofline | FLOPs and bytes of every part of a search, against the machine's best | index queries k |
cold | Time of `gentus search` in a new process | index queries |
scale | Prefix trees of up to ten million identifiers, and searches in them | index |
large | A lake of a million tables, made, indexed and searched | data |
engines | One lake built by every engine: time, and equal identifiers | data |
"""
EXPERIMENTS = {
    one.name: one
    for one in (Experiment(*map(str.strip, line.split("|"))) for line in _ALL.strip().splitlines())
}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Experiments by name."""
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        raise ValueError(f"unknown experiment {', '.join(unknown)}; known are {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name] for name in names]
