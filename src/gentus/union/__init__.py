"""Tables under one another: plan which column goes where, bring values to one type, write the rows."""

from gentus.union.errors import PlanError
from gentus.union.plan import OutputColumn, Placement, PlannedTable, Reading, UnionPlan
from gentus.union.union import Union

__all__ = ["OutputColumn", "Placement", "PlanError", "PlannedTable", "Reading", "Union", "UnionPlan"]
