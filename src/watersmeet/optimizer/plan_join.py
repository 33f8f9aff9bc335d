"""A plain join, or one stream alone: rows that never leave the answer."""

from __future__ import annotations

from watersmeet.model.windows import RowsWindow
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.nodes import (
    AsTheyComeNode,
    ClassicJoinNode,
    InTimeOrderNode,
    PlainNode,
    SelectNode,
    WindowJoinNode,
)
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import Join, Project
from watersmeet.plan.shedding import Shedding
from watersmeet.plan.spilling import Spilling


def plan_join(
    project: Project,
    method: Method | None = None,
    shedding: Shedding | None = None,
    spilling: Spilling | None = None,
) -> PlainNode:
    join = project.child
    assert isinstance(join, Join)
    # A row that lost its memory has no columns to test.
    strategy = optimize(join, method, tests_early=shedding is None)
    node: SelectNode | ClassicJoinNode | WindowJoinNode
    if len(join.inputs) == 1:
        node = SelectNode(strategy, project.columns)
    elif strategy.method.is_classic:
        node = ClassicJoinNode(strategy, project.columns)
    else:
        node = WindowJoinNode(strategy, project.columns, shedding, spilling=spilling)
    # ROWS windows count rows in time order, and most of the papers' algorithms take them so.
    counts_rows = any(isinstance(one.window, RowsWindow) for one in join.streams)
    kind, turns = strategy.method.kind, strategy.method.turns == "round_robin"
    if isinstance(node, ClassicJoinNode) and (kind.any_order or (kind.in_turns and turns)) and not counts_rows:
        return AsTheyComeNode(node)
    return InTimeOrderNode(node) if counts_rows or isinstance(node, ClassicJoinNode) else node
