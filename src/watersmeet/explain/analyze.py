"""EXPLAIN ANALYZE: run a query over the first rows of its inputs and put what was measured beside what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from time import perf_counter
from typing import Any, ClassVar

from watersmeet.dataclass import dataclass
from watersmeet.explain.audit import Audit
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.model.time import UNITS_US
from watersmeet.model.wording import aligned, short, time_a_second
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.estimate import JoinEstimate
from watersmeet.physical.nodes import WindowJoinNode
from watersmeet.physical.strategy import JoinStatistics, JoinStrategy
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import build_plan, built_join
from watersmeet.runtime.metrics import Metrics

SAMPLE_ROWS = 100_000
BATCH_ROWS = 1 << 13


@dataclass(frozen=True)
class Analysis:
    """What a run over a sample showed. `carried` holds, by origin, the combinations after each step per new row;
    `scanned` the rows that an algorithm of the papers looked at; `measured` is what was seen of the inputs of each
    join, in the order of `PhysicalPlan.joins`. `recall` is what bounded memory left of the answer, if it is bounded."""

    rows_in: int
    event_seconds: float
    seconds: float
    kernel_seconds: float
    results: int
    arrived: Mapping[str, int] = field(default_factory=dict)
    carried: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    measured: tuple[JoinStatistics | None, ...] = ()
    scanned: int | None = None
    recall: float | None = None

    def as_dict(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "measured"}
        return {**fields, "carried": {origin: list(steps) for origin, steps in self.carried.items()}}


def analyze(plan: Plan, sample_rows: int = SAMPLE_ROWS) -> Analysis:
    """Run the query until it has read about so many rows."""
    if plan.plain_join is None:
        return _watched(plan, sample_rows)
    run = PulledExecution(plan, batch_rows=_batch_rows(sample_rows))
    analysis = _timed(run, sample_rows)
    if len(plan.plain_join.join.inputs) < 2:
        return analysis
    # Three runs over the same rows: one for the time it takes, one to measure the inputs, and one to count on the
    # routes which follow from that, as those are the ones that EXPLAIN shows.
    _, measured = _audited(plan, sample_rows, None)
    audit, _ = _audited(plan, sample_rows, measured)
    carried = {
        origin: tuple(count / max(audit.arrived[origin], 1) for count in counts)
        for origin, counts in audit.carried.items()
    }
    work = run.metrics.work
    return replace(
        analysis,
        arrived=audit.arrived,
        carried=carried,
        measured=(measured,),
        scanned=int(work["scanned"]) if "scanned" in work else None,
    )


def _batch_rows(sample_rows: int) -> int:
    """So few that a small sample has rows of every stream."""
    return max(1, min(BATCH_ROWS, sample_rows // 16))


class Watching:
    """A planner that never has better routes: for it a join measures its inputs, whether it may change its routes or
    not."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def __init__(self, strategy: JoinStrategy) -> None:
        self.strategy = strategy

    def consider(self, measured: JoinStatistics, at_us: int) -> None:
        return None


def _watched(plan: Plan, sample_rows: int) -> Analysis:
    """Any other query as it is, with the inputs of all the joins inside it measured."""
    physical = plan_query(plan)
    built = build_plan(physical, lambda node: Watching(node.strategy))
    for join in built.joins:
        if join.measures is not None:
            join.measures.tell_of_all_rows()
    run = PulledExecution(plan, batch_rows=_batch_rows(sample_rows), built=built)
    most_held = [dict.fromkeys(join.stores, 0) for join in built.joins]

    def note_rows_held() -> None:
        for held, join in zip(most_held, built.joins, strict=True):
            held.update({alias: max(held[alias], len(store)) for alias, store in join.stores.items()})

    run.on_step = note_rows_held
    analysis = _timed(run, sample_rows)
    seen = (_seen(join, held) for join, held in zip(built.joins, most_held, strict=True))
    # built.joins has the window joins alone, in the same order; the others keep their places.
    return replace(
        analysis, measured=tuple(next(seen) if isinstance(node, WindowJoinNode) else None for node in physical.joins)
    )


def _seen(join: WindowJoin, most_held: Mapping[str, int]) -> JoinStatistics | None:
    """With the most rows that were held: at the end of the input windows are empty."""
    if join.measures is None or not join.measures.rows_seen:
        return None
    return join.measures.statistics(most_held)


def _audited(plan: Plan, sample_rows: int, measured: JoinStatistics | None) -> tuple[Audit, JoinStatistics]:
    """The engine's own join over the same rows, on the routes that suit what was measured before; and what is measured
    now, with the most rows that were held."""
    plain = plan.plain_join
    assert plain is not None
    # Whatever algorithm was asked for: how many combinations go on does not depend on it.
    own = optimize(plain.join, None if plan.method.is_classic else plan.method, measured)
    joining = WindowJoin(own, plain.columns, keeping=Audit, measured=True)
    assert joining.measures is not None
    joining.measures.tell_of_all_rows()
    # Audit counts what a row finds among those before it, so rows must come in order.
    built = built_join(plain.join, InTimeOrder(joining, [one.alias for one in plain.join.streams]))
    _timed(PulledExecution(plan, batch_rows=_batch_rows(sample_rows), built=built), sample_rows)
    audit = joining.keeping
    assert isinstance(audit, Audit)
    return audit, joining.measures.statistics(audit.most_held)


def _timed(run: PulledExecution, sample_rows: int) -> Analysis:

    def stop_when_enough(metrics: Metrics) -> None:
        if metrics.rows_in >= sample_rows:
            run.request_stop()

    run.on_progress = stop_when_enough
    started = perf_counter()
    for _ in run.batches():
        pass
    seconds = perf_counter() - started
    metrics = run.metrics
    recall = metrics.recall if run.plan.shedding is not None else None
    return Analysis(metrics.rows_in, _span_s(run), seconds, metrics.kernel_seconds, metrics.results, recall=recall)


def _span_s(run: PulledExecution) -> float:
    """As far as all streams have come."""
    # A stream that is ahead has rows whose partners have not been read.
    return max(run.common_event_us - run.first_event_us, 0) / UNITS_US["second"]


def analysis_text(analysis: Analysis, estimate: JoinEstimate | None) -> str:
    """A table for people: measured beside expected."""
    lines = [
        f"measured over {analysis.rows_in:,} rows, {short(analysis.event_seconds)} s of event time, "
        f"run in {short(analysis.seconds)} s",
    ]
    if estimate is not None and analysis.carried:
        lines += [f"  {line}" for line in aligned(_steps(analysis, estimate), left=2)]
    lines += [f"  {line}" for line in aligned(_totals(analysis, estimate), left=1)]
    return "\n".join(lines) + "\n"


def _steps(analysis: Analysis, estimate: JoinEstimate) -> list[list[str]]:
    rows = [["of", "visits", "go on, expected", "measured", "ratio"]]
    for route in estimate.routes:
        measured = analysis.carried.get(route.origin, ())
        # Another number of steps is another route: there is nothing to put beside it.
        if len(measured) == len(route.steps):
            for i, (step, seen) in enumerate(zip(route.steps, measured, strict=True)):
                origin = "" if i else route.origin
                rows.append([origin, step.stream, short(step.carried), short(seen), _ratio(step.carried, seen)])
    return rows


def _totals(analysis: Analysis, estimate: JoinEstimate | None) -> list[list[str]]:
    span = analysis.event_seconds or 1.0
    rows = [["a second of event time", "expected", "measured", "ratio"]]
    results = analysis.results / span
    busy = analysis.kernel_seconds * 1e9 / span
    expected = [None, None, None] if estimate is None else [estimate.results, estimate.busy_ns, estimate.comparisons]
    rows.append(["results", _number_text(expected[0]), short(results), _ratio(expected[0], results)])
    if analysis.kernel_seconds:
        rows.append(["busy", _time(expected[1]), time_a_second(busy), _ratio(expected[1], busy)])
    if analysis.scanned is not None:
        compared = analysis.scanned / span
        rows.append(["comparisons", _number_text(expected[2]), short(compared), _ratio(expected[2], compared)])
    return rows


def _number_text(number: float | None) -> str:
    return "-" if number is None else short(number)


def _time(ns: float | None) -> str:
    return "-" if ns is None else time_a_second(ns)


def _ratio(expected: float | None, measured: float) -> str:
    return short(expected / measured) if expected is not None and measured else "-"
