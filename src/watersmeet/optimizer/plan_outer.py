"""Outer, semi and anti joins that only grow: what finds the matches, and what each side is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa

from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import is_counted, moves_in_steps
from watersmeet.optimizer.plan_join import plan_join
from watersmeet.optimizer.read_inputs import columns_read
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.hidden import FOUND_AT, PASSES, SERIAL, serial_column
from watersmeet.physical.nodes import (
    AsofJoinNode,
    Columns,
    LastOfEach,
    LeafNode,
    LookedUp,
    OuterJoinNode,
    SelectNode,
    WindowJoinNode,
)
from watersmeet.plan.asof_conditions import asof_conditions
from watersmeet.plan.expressions import Call, Column, EventTime, Expression
from watersmeet.plan.nodes import Derived, Input, Join, Project


def runs_alone(node: object) -> bool:
    """Whether a part of a query is joins that only grow, of streams and static tables, and nothing else. A subquery may
    call its streams what others are called; then rows could not be pushed under those names."""
    if not isinstance(node, Project) or not _only_grows(node):
        return False
    names = [one.alias.lower() for one in streams_of(node)]
    return len(set(names)) == len(names)


def _only_grows(project: Project) -> bool:
    return isinstance(project.child, Join) and all(map(_stands_alone, project.child.inputs))


def has_sides(project: Project) -> bool:
    """Whether there is an outer, semi or anti join in it, or one between what such joins give."""
    join = project.child
    assert isinstance(join, Join)
    inside = [one.relation.plan for one in join.inputs if isinstance(one.relation, Derived)]
    return join.kind != "inner" or any(isinstance(plan, Project) and has_sides(plan) for plan in inside)


def _stands_alone(one: Input) -> bool:
    # Rows that are counted, or wait for steps, need all others of their time, which a tree of operators sees to.
    if moves_in_steps(one.window) or is_counted(one.window):
        return False
    if isinstance(one.relation, Derived):
        return isinstance(one.relation.plan, Project) and _only_grows(one.relation.plan)
    return isinstance(one.relation, Stream | Table)


def plan_growing(project: Project) -> SelectNode | WindowJoinNode | OuterJoinNode | AsofJoinNode:
    """A join that only grows, its sides joined first."""
    join = project.child
    assert isinstance(join, Join)
    if join.kind == "inner" and not any(isinstance(one.relation, Derived) for one in join.inputs):
        node = plan_join(project)
        assert isinstance(node, SelectNode | WindowJoinNode)
        return node
    sides = [one for one in join.inputs if isinstance(one.relation, Derived)]
    return plan_outer(project, join, sides) if join.asof is None else plan_asof(project, join, sides)


def plan_asof(project: Project, join: Join, sides: Sequence[Input] = ()) -> AsofJoinNode:
    planned = [plan_growing(_project(one)) for one in sides]
    return AsofJoinNode(
        join,
        project.columns,
        tuple(planned),
        tuple(one.alias for one in sides),
        _streams_of_sides(sides),
        remembered_us(project, sides),
        _looked_up(project, sides),
    )


def _streams_of_sides(sides: Sequence[Input]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(leaf.alias for leaf in streams_of(_project(one))) for one in sides)


def plan_outer(project: Project, join: Join, sides: Sequence[Input] = ()) -> OuterJoinNode:
    """`sides`: those of its inputs that are joined first, by operators of its own."""
    planned = tuple(plan_growing(_project(one)) for one in sides)
    numbered = replace(
        join, kind="inner", where=(), certain=(), inputs=tuple(_numbered(one, join) for one in join.inputs)
    )
    asked = () if join.kind == "anti" else project.columns
    hidden: Columns = tuple((serial_column(alias), Column(alias, SERIAL, pa.int64())) for alias in join.preserved)
    if join.where and join.kind != "anti":
        hidden += ((PASSES, reduce(_and, join.where)),)
    if join.kind == "semi":
        hidden += ((FOUND_AT, EventTime()),)
    shown = (*asked, *hidden)
    # A query around one side only selects from it.
    alone = len(join.inputs) == 1
    joining = SelectNode(optimize(numbered), shown) if alone else WindowJoinNode(optimize(numbered), shown)
    return OuterJoinNode(
        join,
        joining,
        project.columns,
        planned,
        tuple(one.alias for one in sides),
        _streams_of_sides(sides),
        remembered_us(project, sides),
        _looked_up(project, sides),
    )


def _looked_up(project: Project, sides: Sequence[Input]) -> tuple[LookedUp, ...]:
    join = project.child
    assert isinstance(join, Join)
    # Inputs that are no sides come from elsewhere, which sees to their rows.
    if len(sides) < sum(isinstance(one.relation, Derived) for one in join.inputs):
        return ()
    leaves = growing_leaves(project)
    return tuple(
        LookedUp(leaf.name, leaf.reach_us, leaf.window) for leaf in leaves if isinstance(leaf.window, LastOfEach)
    )


def _project(one: Input) -> Project:
    assert isinstance(one.relation, Derived)
    assert isinstance(one.relation.plan, Project)
    return one.relation.plan


def _numbered(one: Input, join: Join) -> Input:
    """An input as the join inside sees it: rows that are kept carry their numbers, and a side is a stream."""
    if one.is_table:
        return one
    schema = one.schema.append(pa.field(SERIAL, pa.int64())) if one.alias in join.preserved else one.schema
    if isinstance(one.relation, Stream):
        return replace(one, relation=replace(one.relation, schema=schema))
    assert one.time is not None
    return replace(one, relation=Stream(one.relation.name, schema, one.time))


def _and(left: Expression, right: Expression) -> Expression:
    return Call("and", (left, right), pa.bool_())


def streams_of(project: Project) -> list[Input]:
    """The streams below a join that only grows, from left to right."""
    join = project.child
    assert isinstance(join, Join)
    found: list[Input] = []
    for one in join.streams:
        found += streams_of(_project(one)) if isinstance(one.relation, Derived) else [one]
    return found


def remembered_us(project: Project, sides: Sequence[Input] | None = None) -> int:
    """For how long after its time a row may decide about others: at every join it may reach a partner that is so much
    later, which may itself be asked for that much later still."""
    join = project.child
    assert isinstance(join, Join)
    here = sum(max((limit for limit in row), default=0) + 1 for row in join.windows.limits)
    if join.asof is not None:
        # What is looked up beyond that is kept by its keys.
        oldest = 0 if join.asof.within_us is None else max(0, join.asof.within_us + join.asof.behind_us)
        until = FOREVER_US if join.asof.until_us is None else max(0, join.asof.until_us)
        here = until + oldest + 2
    if sides is None:
        sides = [one for one in join.inputs if isinstance(one.relation, Derived)]
    below = [remembered_us(_project(one)) for one in sides]
    return min(FOREVER_US, here + sum(below) + 1)


def growing_leaves(project: Project, outer_us: int = 0) -> tuple[LeafNode, ...]:
    """Where rows enter, each stream under its alias, if what they make matters for so long."""
    kept = min(FOREVER_US, remembered_us(project) + outer_us)
    return tuple(_leaves(project, project.columns, kept))


def looked_up_leaf(name: str, one: Input, join: Join, columns: frozenset[str], kept_us: int) -> LeafNode:
    """The stream in which an as-of join looks for partners, for rows that matter for so long."""
    assert isinstance(one.relation, Stream)
    assert join.asof is not None
    if join.asof.within_us is not None:
        return LeafNode(name, one.relation, columns, kept_us)
    found, versions = asof_conditions(join.predicates, one.alias), one.relation.versions
    keys = join.asof.key or tuple(key for _, key in found.equal)
    last = LastOfEach(keys, found.right_only, None if versions is None else versions.op, versions is not None)
    # Rows that have come may ask for what was before their time.
    reach_us = min(FOREVER_US, kept_us + join.asof.behind_us - min(0, join.asof.up_to_us))
    return LeafNode(name, one.relation, columns, reach_us, last)


def asked_of_partners(join: Join) -> tuple[Expression, ...]:
    """What an as-of join reads besides its conditions."""
    if join.asof is None:
        return ()
    one = join.inputs[1]
    names = one.schema.names
    if isinstance(one.relation, Stream) and one.relation.versions is not None:
        # The greatest of equal times is told by all columns, a version by the one that may delete it.
        names = [one.relation.versions.op or one.relation.time]
    columns = (Column(one.alias, name, one.schema.field(name).type) for name in names)
    return (join.asof.instant, *join.asof.holding, *join.asof.key, *columns)


def _leaves(project: Project, columns: Columns, kept_us: int) -> list[LeafNode]:
    join = project.child
    assert isinstance(join, Join)
    more = (*join.where, *(e for _, e in join.certain), *asked_of_partners(join))
    read = (*columns, *((f"__{i}", e) for i, e in enumerate(more)))
    found: list[LeafNode] = []
    for one in join.streams:
        if isinstance(one.relation, Derived):
            inside = _project(one)
            found += _leaves(inside, inside.columns, kept_us)
        else:
            assert isinstance(one.relation, Stream)
            here = columns_read(one, join, read)
            if join.asof is not None and one is join.inputs[1]:
                found.append(looked_up_leaf(one.alias, one, join, here, kept_us))
            else:
                found.append(LeafNode(one.alias, one.relation, here, kept_us))
    return found
