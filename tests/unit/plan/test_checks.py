"""A node that exists makes sense: what does not is refused when it is made, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.plans import golden_catalog
from watersmeet.errors import PlanError
from watersmeet.model.windows import Bound, RowsWindow
from watersmeet.plan.expressions import Aggregate, Column
from watersmeet.plan.nodes import (
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Project,
    SetOperation,
    SortKey,
    TopK,
)
from watersmeet.sql import bind


def selected(sql: str) -> tuple[Project, Join]:
    plain = bind(sql, golden_catalog()).plain_join
    assert plain is not None
    return plain.project, plain.join


PROJECT, JOIN = selected("SELECT a.k, b.s FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND")
K, STRANGE = Column("a", "k", pa.int64()), Column("c", "k", pa.int64())
COUNT = Aggregate("count", (), pa.int64())
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a column of nowhere": (lambda: Project(JOIN, (("x", STRANGE),)), "the select list uses c.k, which no input"),
    "an unknown column": (lambda: Project(JOIN, (("x", replace(K, name="y")),)), "uses a.y, which no input"),
    "a name twice": (lambda: Project(JOIN, (("x", K), ("x", K))), "each with a name of its own"),
    "no columns": (lambda: Project(JOIN, ()), "a select list needs columns"),
    "an aggregate of rows": (lambda: Project(JOIN, (("x", COUNT),)), "cannot hold COUNT"),
    "a select list of another": (lambda: replace(PROJECT, child=PROJECT), "goes over a join or over groups"),
    "groups of nowhere": (lambda: GroupBy(JOIN, (STRANGE,)), "a key of GROUP BY uses c.k"),
    "groups by an aggregate": (lambda: GroupBy(JOIN, (COUNT,)), "a key of GROUP BY is over rows"),
    "groups of an answer": (lambda: GroupBy(PROJECT, ()), "GROUP BY goes over a join"),  # type: ignore[arg-type]
    "HAVING of nowhere": (lambda: GroupBy(JOIN, (), STRANGE), "HAVING uses c.k"),
    "DISTINCT of a join": (lambda: Distinct(JOIN), "no output columns of their own"),
    "a union of different types": (
        lambda: SetOperation("union", True, PROJECT, Project(JOIN, (("k", K),))),
        "UNION joins answers with the same types, not int64, string and int64",
    ),
    "an order by what is not selected": (lambda: TopK(PROJECT, (SortKey(K),), 3), "k is none of them"),
    "the first none": (lambda: TopK(PROJECT, (SortKey(Column("", "k", pa.int64())),), 0), "must be 1 or more"),
    "RSTREAM at no time": (lambda: Changes("rstream", PROJECT), "is sent every so often"),
    "ISTREAM from time to time": (lambda: Changes("istream", PROJECT, 5), "is sent every so often"),
    "a stream without times": (lambda: Derived("d", PROJECT, PROJECT.schema, "k"), "k is no column of d with times"),
    "a condition of nowhere": (lambda: replace(JOIN, predicates=(STRANGE,)), "a condition uses c.k"),
    "a condition on groups": (lambda: replace(JOIN, predicates=(COUNT,)), "a condition is over rows"),
    "an alias twice": (lambda: replace(JOIN, inputs=(JOIN.inputs[0], JOIN.inputs[0])), "have one alias: a, a"),
    "a window of nowhere": (lambda: replace(JOIN, bounds=(Bound("a", "z", 1, ""),)), "a window bounds z"),
    "rows counted by nothing": (lambda: Input("a", JOIN.inputs[0].relation, RowsWindow(3, ("y",))), "are counted by y"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_node_that_makes_no_sense_is_not_made(name: str) -> None:
    make, words = WRONG[name]
    with pytest.raises(PlanError, match=words):
        make()
