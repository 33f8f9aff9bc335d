"""Keys with so many rows that one place would have too many: of which stream their rows are dealt out.

Every combination must still have one place. So of each key the rows of one stream are dealt out, and those of the
others are copied to where they may lie. That gives each row of the answer once where each is made of one row of that
stream: of an inner join that is any of them, of an outer join only the side whose rows are kept without a partner, as
every copy of another would stay without one somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from watersmeet.model.casts.reading import read
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.types import sql_type
from watersmeet.model.windows import RowsWindow, Session, SteppedRows
from watersmeet.operators.partition_key import key_codes
from watersmeet.optimizer.describe import Description
from watersmeet.physical.nodes import LeafNode, WindowJoinNode
from watersmeet.physical.partitioning import Dimension, SpreadKeys
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column
from watersmeet.plan.nodes import Derived, Input, Join, Node, Project, View
from watersmeet.plan.query import Plan
from watersmeet.plan.spread import HINT
from watersmeet.plan.walks import streams_below

LEAVE_OUT = "leave it out: all rows of a key then lie together"


def spread_along(plan: Plan, physical: PhysicalPlan, dimensions: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """The dimensions with the keys that the query wants spread, in that along which rows are placed by key."""
    if plan.options.spread is None or not dimensions:
        return dimensions
    keyed = [one for one in dimensions if one.keys]
    if len(keyed) != 1:
        why = (
            "rows are placed by several keys" if keyed else "no key says where rows lie, so that they are spread anyway"
        )
        raise plan.options.wrong("spread", f"names values of a key, and here {why}", LEAVE_OUT)
    spread = spread_keys(plan, physical, keyed[0].keys)
    return tuple(replace(one, spread=spread) if one is keyed[0] else one for one in dimensions)


def spread_keys(plan: Plan, physical: PhysicalPlan, keys: Mapping[str, Code]) -> SpreadKeys:
    """What is dealt out where rows are placed by such keys."""
    said = plan.options.spread
    assert said is not None
    split = _split(plan, physical, keys)
    kind = keys[split].expression.type
    try:
        values = read(pa.array(said.values), kind).checked(pa.array(said.values))
    except pa.ArrowInvalid as error:
        raise plan.options.wrong(
            "spread", f"is not of the key, which is {keys[split]}, a {sql_type(kind)}: {error}", HINT
        ) from None
    data = pa.RecordBatch.from_arrays([values], ["key"])
    codes = key_codes(Code("", Column("", "key", values.type)), data)
    return SpreadKeys(split, tuple(sorted(map(int, codes))))


def _split(plan: Plan, physical: PhysicalPlan, keys: Mapping[str, Code]) -> str:
    """The stream whose rows are dealt out: the one that is said, else the largest of those that may be."""
    options, possible = plan.options, [name for name in _splittable(plan, physical) if name in keys]
    assert options.spread is not None
    if not possible:
        raise options.wrong("spread", f"cannot be done here: {_why_none(plan, physical)}", LEAVE_OUT)
    wanted = options.spread.split
    if wanted is None:
        return max(possible, key=lambda name: _rate(physical, name))
    found = next((name for name in possible if name.lower() == wanted.lower()), None)
    if found is None:
        raise options.wrong(
            "spread",
            f"would deal out rows of {wanted}, and of this query those of {' or '.join(possible)} can be",
            f"write spread = '{possible[0]}: …': rows that are counted, or have no partner where it is not their side "
            "that is kept, must lie together",
        )
    return found


def _rate(physical: PhysicalPlan, name: str) -> float:
    """Of equally large ones the first counts."""
    if isinstance(physical.root, WindowJoinNode):
        return Description(physical.strategy).rates[name]
    statistics = physical.leaf(name).stream.statistics
    return (statistics.rows_per_second if statistics is not None else None) or 0.0


def _why_none(plan: Plan, physical: PhysicalPlan) -> str:
    if _counts(physical):
        return "a window counts rows, which must lie together"
    if plan.kind != "rows" or not isinstance(plan.root, Project) or not isinstance(plan.root.child, Join):
        return "rows of a key are grouped or compared with each other, and must lie together"
    return "each stream has rows that are given without a partner, or are known by their keys, and must lie together"


def _counts(physical: PhysicalPlan) -> bool:
    return any(isinstance(leaf.window, RowsWindow | SteppedRows | Session) for leaf in physical.leaves)


def _splittable(plan: Plan, physical: PhysicalPlan) -> list[str]:
    """The streams of which every row of the answer is made of one row, by the names that rows are pushed under."""
    if plan.kind != "rows" or _counts(physical) or plan.method.is_classic:
        return []
    return _of_node(plan.root, iter(physical.leaves))


def _of_node(node: Node, leaves: Iterator[LeafNode]) -> list[str]:
    """From left to right is the order of the leaves."""
    if isinstance(node, Project) and isinstance(node.child, Join):
        return _of_join(node.child, leaves)
    for _ in streams_below(node):
        next(leaves)
    return []


def _of_join(join: Join, leaves: Iterator[LeafNode]) -> list[str]:
    found = [_of_input(one, leaves) for one in join.inputs]
    if join.kind == "inner":
        return [name for names in found for name in names]
    kept = join.inputs[0].alias
    return found[0] if {kept, *join.preserved} == {kept} else []


def _of_input(one: Input, leaves: Iterator[LeafNode]) -> list[str]:
    match one.relation:
        case Stream() as stream:
            leaf = next(leaves)
            return [] if stream.versions is not None or stream.first is not None else [leaf.name]
        case Table():
            return []
        case Derived(plan=node):
            return _of_node(node, leaves)
        case View(plan=node):
            _of_node(node, leaves)
            return []
    raise TypeError(type(one.relation).__name__)
