"""What a plain join keeps, as checkpoints and savepoints note it, and whether one with other windows or columns could
go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.plan.identity import neutral_text
from watersmeet.plan.query import Plan

# By the names of inputs: how far back their rows reach, the codes that lie beside them, and their columns (None: there
# are no rows).
Kept = Mapping[str, Mapping[str, Any]]


def kept_of_join(plan: Plan, state: KeyedState) -> Kept | None:
    """None where it is no join that keeps rows as long as time lets them, and nothing else."""
    asked = _asked_of_join(plan)
    if asked is None or state.whole:
        return None
    rows = {alias: state.rows.get(f"window_stores.{alias}") for alias in asked}
    columns = {alias: None if one is None else one.data.schema.names for alias, one in rows.items()}
    return {alias: {**one, "columns": columns[alias]} for alias, one in asked.items()}


def kept_by(plan: Plan) -> Kept | None:
    """The same of a join that may have rows of all its streams."""
    return _asked_of_join(plan)


def could_go_on(kept: Kept | None, plan: Plan) -> bool:
    """Whether a join finds in these rows what it would have kept of them itself."""
    return kept is not None and has_all(kept, _asked_of_join(plan))


def has_all(kept: Kept | None, asked: Kept | None) -> bool:
    """Whether what one join keeps is all that another one would have kept of the same rows."""
    if kept is None or asked is None or kept.keys() != asked.keys():
        return False
    return all(_has_all(kept[alias], one) for alias, one in asked.items())


def _has_all(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    columns = kept["columns"]
    return kept["codes"] == asked["codes"] and (columns is None or set(asked["columns"]) <= set(columns))


def kept_since(kept: Kept | None, plan: Plan, watermark_us: int) -> dict[str, int]:
    """By the streams of a join of which it looks further back than another one did: from when on rows of these are
    there, that one having come to a watermark."""
    asked = None if kept is None else _asked_of_join(plan)
    if kept is None or asked is None or watermark_us <= BEGINNING_US:
        return {}
    streams = {leaf.name: leaf.stream.name for leaf in plan_query(plan).leaves}
    since: dict[str, int] = {}
    for alias, one in asked.items():
        if one["reach_us"] > kept[alias]["reach_us"]:
            since_us = watermark_us - kept[alias]["reach_us"]
            since[streams[alias]] = max(since_us, since.get(streams[alias], since_us))
    return since


def _asked_of_join(plan: Plan) -> dict[str, dict[str, Any]] | None:
    physical = plan_query(plan)
    node = physical.root
    if not isinstance(node, WindowJoinNode) or (node.shedding, node.spilling) != (None, None) or node.announced:
        return None
    leaves = {leaf.name: leaf for leaf in physical.leaves}
    if any(one.window is not None or one.reach_us >= FOREVER_US or one.stream.first for one in leaves.values()):
        return None
    layout = Layout(node.strategy, node.columns)
    return {
        alias: {
            "reach_us": leaf.reach_us,
            "codes": [neutral_text(code.expression) for code in layout.code_positions[alias]],
            "columns": sorted(layout.payload(alias)),
        }
        for alias, leaf in leaves.items()
        if alias in layout.looked_up
    }
