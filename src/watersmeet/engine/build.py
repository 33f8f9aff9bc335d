"""A plan as operators, or a clear word on why it cannot run yet."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.errors import UnsupportedError
from watersmeet.model.windows import Rows as RowsWindow
from watersmeet.operators.classic.classic_join import ClassicJoin
from watersmeet.operators.contract import Operator
from watersmeet.operators.select import CountedSelect, Select
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.operators.window_join import WindowJoin
from watersmeet.optimizer.stages import optimize
from watersmeet.plan.nodes import Changes, Derived, Distinct, GroupBy, Join, Node, Plan, Project, SetOperation, TopK

_NOT_YET = {
    Changes: "DSTREAM, RSTREAM and ISTREAM over a changing answer",
    Distinct: "SELECT DISTINCT over windows",
    GroupBy: "GROUP BY and aggregates over windows",
    SetOperation: "UNION, EXCEPT and INTERSECT over windows",
    TopK: "ORDER BY … LIMIT over windows",
}


def runnable_join(plan: Plan) -> tuple[Join, Project]:
    """The join and the select list of a plan that this engine can run; raises UnsupportedError for others."""
    plan.options.require_runnable()
    root = plan.root
    if not isinstance(root, Project) or not isinstance(root.child, Join):
        raise _not_yet(root.child if isinstance(root, Project) else root)
    for one in root.child.inputs:
        if isinstance(one.relation, Derived):
            raise _refusal(f"a query inside FROM ({one.alias})")
    return root.child, root


def _not_yet(node: Node) -> UnsupportedError:
    return _refusal(_NOT_YET.get(type(node), type(node).__name__))


def _refusal(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}: the query is understood and checked, but cannot run yet",
        hint="joins of streams and tables under any window run today; continuous answers come next",
    )


def build(plan: Plan, *, refresh_at_push: bool = False) -> Operator:
    """The operator that answers a plan. With `refresh_at_push` a lazy join is refreshed whenever rows are pushed
    and time advances, not at moments of event time: for a host that has moments of its own."""
    join, project = runnable_join(plan)
    method = plan.method
    if refresh_at_push and method.is_lazy:
        method = replace(method, at_every_push=True)
    aliases = [one.alias for one in join.streams]
    counts_rows = any(isinstance(one.window, RowsWindow) for one in join.streams)
    if len(join.inputs) > 1:
        strategy = optimize(join, method)
        if method.is_classic:
            return InTimeOrder(ClassicJoin(strategy, project.columns), aliases)
        joining = WindowJoin(strategy, project.columns)
        return InTimeOrder(joining, aliases) if counts_rows else joining
    window = join.inputs[0].window
    if isinstance(window, RowsWindow):
        return InTimeOrder(CountedSelect(aliases[0], window, join.predicates, project.columns), aliases)
    return Select(join.predicates, project.columns)


def table_join_of(operator: Operator) -> WindowJoin | ClassicJoin | None:
    """The join inside an operator, which static tables are loaded into."""
    inner = operator.inner if isinstance(operator, InTimeOrder) else operator
    return inner if isinstance(inner, WindowJoin | ClassicJoin) else None
