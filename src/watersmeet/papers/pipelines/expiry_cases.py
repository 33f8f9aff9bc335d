"""H04's four cases (section 4.1): what an operator of a continuous query outputs for a tuple that enters or leaves.

Case 1: in⁺ makes out⁺. Case 2: in⁺ makes out⁻. Case 3: in⁻ makes out⁺. Case 4: in⁻ makes out⁻.
"""

from __future__ import annotations

from watersmeet.plan.nodes import Distinct, GroupBy, Join, Node, SetOperation
from watersmeet.plan.walks import nodes_below

SELECT, W_JOIN, W_UNION = "Select", "W-Join", "W-Union"
W_DISTINCT, W_AGGREGATE, W_GROUP_BY = "W-Distinct", "W-Aggregate", "W-Group-By"
W_INTERSECT, W_MINUS = "W-Intersect", "W-Minus"
CASES: dict[str, tuple[int, ...]] = {
    SELECT: (1, 4),
    W_JOIN: (1, 4),
    W_UNION: (1, 4),
    W_DISTINCT: (1, 3, 4),
    W_AGGREGATE: (1, 3, 4),
    W_GROUP_BY: (1, 3, 4),
    W_INTERSECT: (1, 3, 4),
    W_MINUS: (1, 2, 3, 4),
}
_SETS = {"union": W_UNION, "intersect": W_INTERSECT, "except": W_MINUS}


def expiry_cases(root: Node) -> list[tuple[str, tuple[int, ...]]]:
    """The operators of a plan as H04 names them, from the answer down, each with its cases."""
    named = (name for node in nodes_below(root, into_subqueries=False) for name in _names(node))
    return [(name, CASES[name]) for name in named]


def _names(node: Node) -> list[str]:
    match node:
        case Join(inputs=inputs):
            return [W_JOIN if len(inputs) > 1 else SELECT]
        case Distinct():
            return [W_DISTINCT]
        case GroupBy(keys=keys):
            return [W_GROUP_BY if keys else W_AGGREGATE]
        case SetOperation(kind=kind, all=keeps_all):
            return [_SETS[kind]] if keeps_all else [W_DISTINCT, _SETS[kind]]
    return []
