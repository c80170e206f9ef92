"""What only the first rows of large tables tell: a plan shows it, and a run finds it again from all rows."""

from __future__ import annotations

from dataclasses import replace

from gentus.union.plan import UnionPlan


def as_sampled(plan: UnionPlan, before: UnionPlan) -> UnionPlan:
    """A plan with what it has found beyond an earlier one marked as found in the first rows."""
    columns = (
        new if old.type else replace(new, sampled=True)
        for new, old in zip(plan.columns, before.columns, strict=True)
    )
    query, *tables = (
        replace(
            new,
            columns=tuple(
                one if given.read else replace(one, sampled=True)
                for one, given in zip(new.columns, old.columns, strict=True)
            ),
        )
        for new, old in zip(plan.sources, before.sources, strict=True)
    )
    return replace(plan, columns=tuple(columns), query=query, tables=tuple(tables))


def without_samples(plan: UnionPlan) -> UnionPlan:
    """A plan without what only the first rows told."""
    columns = (replace(one, type=None, sampled=False) if one.sampled else one for one in plan.columns)
    query, *tables = (
        replace(
            table,
            columns=tuple(
                replace(one, read=None, sampled=False) if one.sampled else one for one in table.columns
            ),
        )
        for table in plan.sources
    )
    return replace(plan, columns=tuple(columns), query=query, tables=tuple(tables))
