"""The joins of a query, each with how it runs and what that should cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from watersmeet.dataclass import dataclass
from watersmeet.model.windows import Window, moves_in_steps
from watersmeet.optimizer.estimate_join import estimate_join
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.estimate import JoinEstimate
from watersmeet.physical.nodes import FromManyNode, FromMatchedNode, JoinNode, OuterJoinNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import JoinStatistics, JoinStrategy
from watersmeet.plan.expressions import Expression
from watersmeet.plan.nodes import Input, Join, Project
from watersmeet.plan.query import Plan


@dataclass(frozen=True)
class ExplainedJoin:
    """A join as it was written, what finds its combinations, and what lets them go below a changing answer; how it
    runs, which is not as planned if more was measured since, and what that should cost. `otherwise`: by which other
    conditions there are partners, too."""

    join: Join
    node: JoinNode
    holder: FromManyNode | None
    strategy: JoinStrategy
    estimate: JoinEstimate | None
    otherwise: tuple[Expression, ...] = ()

    @property
    def views(self) -> frozenset[str]:
        """The inputs whose rows leave when another answer says so, whatever window the operator gives them."""
        return frozenset(one.alias for one in self.join.views)

    def window_of(self, one: Input) -> Window | None:
        """The window of an input of the operator as it was written, which may move in steps."""
        written = {each.alias: each.window for each in self.join.inputs}.get(one.alias)
        return written if moves_in_steps(written) else one.window

    @property
    def title(self) -> str:
        return f"the join of {', '.join(one.alias for one in self.join.inputs)}"


def explained_joins(
    physical: PhysicalPlan, measured: Sequence[JoinStatistics | None] = ()
) -> tuple[ExplainedJoin, ...]:
    """All of them, those of subqueries after what they stand in; streams that are read alone outside a changing answer
    too. `measured` is what was seen of the inputs of each, in the order of `physical.joins`."""
    # Without an analysis nothing was measured, and the list is empty.
    seen = {id(node): one for node, one in zip(physical.joins, measured, strict=False) if one is not None}
    others = {id(node.combinations): _other_conditions(node) for node in _matched(physical)}
    return tuple(
        replace(_explained(join, node, holder, seen.get(id(node))), otherwise=others.get(id(holder), ()))
        for join, node, holder in _found(physical)
    )


def _matched(physical: PhysicalPlan) -> Iterator[FromMatchedNode]:
    return (node for node in physical.nodes if isinstance(node, FromMatchedNode))


def _other_conditions(node: FromMatchedNode) -> tuple[Expression, ...]:
    first = node.combinations.joining.strategy.join.predicates
    return tuple(e for one in node.otherwise for e in one.strategy.join.predicates if e not in first)


def join_of_the_answer(plan: Plan, joins: Sequence[ExplainedJoin]) -> ExplainedJoin | None:
    """The join whose combinations are the rows of the answer, if that is what the query asks for."""
    inside = plan.root.child if isinstance(plan.root, Project) and plan.kind == "rows" else None
    # By identity: an equal join may stand in a subquery too.
    return next((one for one in joins if one.join is inside), None)


def _found(physical: PhysicalPlan) -> Iterator[tuple[Join, JoinNode, FromManyNode | None]]:
    # Those inside a FROM are told with it, once.
    held = {id(node.joining) for node in physical.nodes if isinstance(node, FromManyNode | OuterJoinNode)}
    held |= {id(one) for node in _matched(physical) for one in node.otherwise}
    for node in physical.nodes:
        if isinstance(node, FromManyNode):
            yield node.join, node.joining, node
        elif isinstance(node, OuterJoinNode):
            yield node.join, node.joining, None
        elif isinstance(node, JoinNode) and id(node) not in held:
            yield node.strategy.join, node, None


def _by_what_was_measured(planned: JoinStrategy, measured: JoinStatistics) -> JoinStrategy:
    return optimize(planned.join, planned.method, measured, tests_early=planned.tests_early)


def _explained(
    join: Join, node: JoinNode, holder: FromManyNode | None, measured: JoinStatistics | None
) -> ExplainedJoin:
    planned = node.strategy
    # Planned anew by what was measured, as a running join would do.
    strategy = planned if measured is None else _by_what_was_measured(planned, measured)
    return ExplainedJoin(join, node, holder, strategy, estimate_join(strategy, node.columns))
