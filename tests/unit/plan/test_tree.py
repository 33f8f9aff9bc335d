"""Plans are walked and rewritten in one way: every part is reached, and what is not changed stays the same object."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.plans import FOLDER, golden_catalog
from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.expressions import Column, Literal, replaced, to_text
from watersmeet.plan.identity import identity_of
from watersmeet.plan.nodes import Join, Node
from watersmeet.plan.rewrite import transform, with_children, with_relations
from watersmeet.plan.walks import children, inputs_below, nodes_below, relations_below
from watersmeet.sql import bind

CATALOG = golden_catalog()
QUERIES = sorted(FOLDER.glob("identity_*.sql"))
NESTED = """SELECT d.k, COUNT(*) AS n
FROM (SELECT ISTREAM a.k FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS) [RANGE 1 HOUR] d,
     (SELECT c.k FROM c [ROWS 2] EXCEPT SELECT DISTINCT dim.k FROM dim, a [NOW]) v
WHERE d.k = v.k GROUP BY d.k"""


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_every_kind_of_plan_is_rebuilt_from_its_children(path: Path) -> None:
    plan = bind(path.read_text(), CATALOG)
    assert transform(plan.root, lambda node: node) is plan.root
    copied = transform(plan.root, lambda node: replace(node))
    assert copied == plan.root
    assert copied is not plan.root
    assert identity_of(replace(plan, root=copied)) == identity_of(plan)


def test_children_come_in_the_order_they_are_written_in() -> None:
    root = bind(NESTED, CATALOG).root
    kinds = [type(node).__name__ for node in nodes_below(root)]
    assert kinds == [
        "Project", "GroupBy", "Join",  # of the query
        "Project", "Join",  # d
        "SetOperation", "Project", "Join", "Distinct", "Project", "Join",  # v
    ]  # fmt: skip
    assert [type(node).__name__ for node in nodes_below(root, into_subqueries=False)] == kinds[:3]
    assert [one.alias for one in inputs_below(root)] == ["d", "a", "b", "v", "c", "dim", "a"]
    assert [one.name for one in relations_below(root)] == ["a", "b", "c", "dim", "a"]


def test_a_transformation_reaches_subqueries_and_sees_children_before_parents() -> None:
    seen: list[Node] = []

    def note(node: Node) -> Node:
        seen.append(node)
        return node

    root = bind(NESTED, CATALOG).root
    transform(root, note)
    assert set(map(id, seen)) == set(map(id, nodes_below(root)))
    assert all(seen.index(child) < seen.index(node) for node in seen for child in children(node))


def test_relations_are_changed_everywhere() -> None:
    def late(one: Stream | Table) -> Stream | Table:
        return replace(one, lateness_us=7) if isinstance(one, Stream) else one

    changed = with_relations(bind(NESTED, CATALOG).root, late)
    assert [one.lateness_us for one in relations_below(changed) if isinstance(one, Stream)] == [7, 7, 7, 7]


def test_other_children_take_the_places_of_the_old() -> None:
    root = bind("SELECT k FROM a [NOW] UNION SELECT k FROM b [NOW]", CATALOG).root
    left, right = children(root)
    assert children(with_children(root, [right, left])) == (right, left)


def test_parts_of_expressions_are_replaced_outermost_first() -> None:
    predicate = bind("SELECT a.k FROM a WHERE a.x + 1 > a.k + a.x", CATALOG).root.child.predicates[0]
    zero = replaced(predicate, lambda e: Literal(0, e.type) if isinstance(e, Column) and e.name == "x" else None)
    assert to_text(zero) == "(0 + 1) > (a.k + 0)"
    assert replaced(predicate, lambda e: None) == predicate


@pytest.mark.parametrize(
    ("sql", "plain", "grows"),
    [
        ("SELECT a.k FROM a", True, True),
        ("SELECT a.k FROM a, b, dim WHERE a.k = b.k AND b.k = dim.k WINDOW (a, b) = 1 SECOND", True, True),
        ("SELECT d.k FROM (SELECT ISTREAM a.k FROM a [NOW]) d", False, True),
        ("SELECT d.k FROM (SELECT DISTINCT a.k FROM a [NOW]) d", False, False),
        ("SELECT DISTINCT a.k FROM a [NOW]", False, False),
        ("SELECT COUNT(*) AS n FROM a [NOW]", False, False),
    ],
)
def test_what_a_plain_join_is(sql: str, plain: bool, grows: bool) -> None:
    plan = bind(sql, CATALOG)
    assert (plan.plain_join is not None) == plain
    assert (plan.kind == "rows") == grows
    if plan.plain_join is not None:
        assert isinstance(plan.plain_join.join, Join)
        assert plan.plain_join.project is plan.root
