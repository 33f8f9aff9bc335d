"""What DuckDB computes only nearly, and whether that may show."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.checking.duckdb_expressions import InexpressibleError
from watersmeet.plan.expressions import Aggregate, Call, Column, Expression, OverCall, walk
from watersmeet.plan.nodes import Changes, GroupBy, Node, Over, Project
from watersmeet.plan.walks import nodes_below

_ROUGH = (
    "sum", "avg", "median", "percentile", "stddev", "variance", "stddev_pop", "var_pop", "covar_pop", "covar_samp",
    "skewness", "kurtosis", "kurtosis_pop", "entropy",
)  # fmt: skip
_ARITHMETIC = ("add", "subtract", "multiply", "divide", "negate", "abs")


def refuse_rough_values(root: Node) -> bool:
    """Whether values are shown that DuckDB computes only nearly: floating sums and what is made of them. That is
    harmless in the select list at the top. Elsewhere a condition, a group or a set could come out differently, and
    DuckDB is not asked."""
    found = False
    # RSTREAM shows its answer as it is, and so do windows that are given once; the other words compare it with the one
    # before.
    top = root.child if isinstance(root, Changes) and root.kind in ("rstream", "complete") else root
    for node in nodes_below(root):
        for expression in _expressions(node):
            shown = node is top and isinstance(node, Project) and _is_arithmetic(expression)
            if isinstance(node, Over) and node is top:
                shown = _is_shown(node, expression)
            rough = next((part for part in walk(expression) if _is_rough(part)), None)
            if rough is not None and not shown:
                assert isinstance(rough, Aggregate | OverCall)
                raise InexpressibleError(f"{rough.function.upper()} of inexact numbers below other operators")
            found = found or rough is not None
    return found


def _is_rough(part: Expression) -> bool:
    if not isinstance(part, Aggregate | OverCall) or part.function not in _ROUGH:
        return False
    whole = pa.types.is_integer(part.args[0].type) or pa.types.is_duration(part.args[0].type)
    return not (whole and part.function in ("sum", "avg", "median")) and not (
        pa.types.is_decimal(part.args[0].type) and part.function == "sum"
    )


def _is_shown(node: Over, call: Expression) -> bool:
    """Whether what a function of OVER gives is only shown, or computed with: no condition goes by it."""
    name = next(name for name, known in node.calls if known == call)
    kept = () if node.keep is None else walk(node.keep)
    used = [e for _, e in node.columns if any(isinstance(p, Column) and p.name == name for p in walk(e))]
    return not any(isinstance(p, Column) and p.name == name for p in kept) and all(map(_is_arithmetic, used))


def _is_arithmetic(expression: Expression) -> bool:
    return not isinstance(expression, Call) or (
        expression.function in _ARITHMETIC and all(map(_is_arithmetic, expression.args))
    )


def _expressions(node: Node) -> Iterator[Expression]:
    match node:
        case Project(columns=columns):
            yield from (expression for _, expression in columns)
        case GroupBy(having=having) if having is not None:
            yield having
        case Over(calls=calls):
            yield from (call for _, call in calls)
