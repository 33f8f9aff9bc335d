"""What a person is told of a plan: how it runs, what that should cost and, on a sample, what it does cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from watersmeet.dataclass import dataclass
from watersmeet.explain.data import explain_data
from watersmeet.explain.drawing import plan_svg, plan_tree
from watersmeet.explain.joins import ExplainedJoin, explained_joins, join_of_the_answer
from watersmeet.explain.text import explain
from watersmeet.optimizer.choose_join import ends_by_itself
from watersmeet.optimizer.drop_alone import drop_alone
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical.estimate import MemoryEstimate
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.pictures.draw_tree import tree_data
from watersmeet.pictures.page import Shown, fragment, page
from watersmeet.plan.explaining import Explaining
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import planned_here
from watersmeet.runtime.host import Host
from watersmeet.runtime.shared_parts import Shared

if TYPE_CHECKING:
    from watersmeet.explain.analyze import Analysis


class ShownPlan(str):
    """What EXPLAIN says, in the format that was asked for. It is text in every way, but shown as it is, not quoted."""

    _picture: Callable[[], str] | None

    __slots__ = ("_picture",)

    @classmethod
    def of(cls, text: str, picture: Callable[[], str] | None = None) -> ShownPlan:
        """picture: makes a piece of HTML that shows the same, when somebody looks."""
        made = cls(text)
        made._picture = picture
        return made

    def __repr__(self) -> str:
        return str(self).rstrip("\n")

    def _repr_html_(self) -> str | None:
        """For notebooks."""
        return None if self._picture is None else self._picture()


def explained(plan: Plan, how: Explaining, host: Host, shared: Shared | None = None) -> ShownPlan:
    """A plan with what it should cost, where it runs and, analyzed, what a sample showed. shared: what it
    has in common with other queries."""
    # Of the plan as it was given: a sample runs in this process, on other sources.
    layout = host.layout(plan)
    analysis = None
    if how.analyze:
        from watersmeet.explain.analyze import analyze

        plan = host.sampled(plan, how.sample_rows)
        analysis = analyze(plan, how.sample_rows)
    plan = drop_alone(plan)  # what is told is how it runs
    with plan.pointing_at_options():
        # A sample is measured on the engine's own join.
        here = host.name == "local"
        to_the_end = here and not how.analyze and ends_by_itself(plan)
        physical = planned_here(plan, to_the_end=to_the_end) if here else plan_query(plan)
        joins = explained_joins(physical, () if analysis is None else analysis.measured)
        memory = memory_estimate(joins)
    known = _Known(plan, physical, joins, memory, layout, analysis, shared)
    match how.format:
        case "json":
            return ShownPlan.of(known.json(host.name))
        case "svg":
            return ShownPlan.of(known.svg(), known.fragment)
        case "html":
            name = " ".join(plan.sql.split())
            return ShownPlan.of(page("how the query runs", [Shown(name, known.svg(), known.text())]), known.fragment)
    return ShownPlan.of(known.text(), known.fragment)


@dataclass(frozen=True)
class _Known:
    """All that there is to tell of a plan."""

    plan: Plan
    physical: PhysicalPlan
    joins: tuple[ExplainedJoin, ...]
    memory: MemoryEstimate | None
    layout: str
    analysis: Analysis | None
    shared: Shared | None

    def json(self, host: str) -> str:
        described = explain_data(self.plan, self.physical, self.joins, self.memory, self.shared)
        shown = {} if self.analysis is None else {"measured": self.analysis.as_dict()}
        where = {host: self.layout.splitlines()} if self.layout else {}
        drawing = {"drawing": tree_data(plan_tree(self.plan, self.joins))}
        return json.dumps({**described, **shown, **where, **drawing}, indent=2, default=str)

    def text(self) -> str:
        analysis = self.analysis
        beside = None if self.memory is None else (self.memory, None if analysis is None else analysis.recall)
        text = explain(self.plan, self.joins, self.physical, beside, self.shared)
        if analysis is not None:
            from watersmeet.explain.analyze import analysis_text

            answered = join_of_the_answer(self.plan, self.joins)
            text += analysis_text(analysis, None if answered is None else answered.estimate)
        return text + self.layout

    def svg(self) -> str:
        return plan_svg(self.plan, self.joins, self.physical, self.layout, self.memory)

    def fragment(self) -> str:
        return fragment(self.svg(), self.text())


def memory_estimate(joins: Sequence[ExplainedJoin]) -> MemoryEstimate | None:
    """What a bound on the memory of a join should cost, if there is one."""
    for one in joins:
        if isinstance(one.node, WindowJoinNode) and one.node.shedding is not None:
            from watersmeet.explain.expected_recall import expect_recall

            return expect_recall(one.strategy, one.node.columns, one.node.shedding)
    return None
