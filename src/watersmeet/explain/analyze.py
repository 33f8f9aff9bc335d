"""EXPLAIN ANALYZE: run a query over the first rows of its inputs and put what was measured beside what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from watersmeet.explain.audit import Audit
from watersmeet.hosts.local.run import LocalRun
from watersmeet.model.time import UNITS_US
from watersmeet.model.wording import aligned, short, time_a_second
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.optimizer.stages import optimize
from watersmeet.physical.estimate import JoinEstimate
from watersmeet.physical.statistics import JoinStatistics
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.nodes import Plan
from watersmeet.runtime.build import built_join, is_plain_join, runnable_join
from watersmeet.runtime.metrics import Metrics

SAMPLE_ROWS = 100_000
BATCH_ROWS = 1 << 13


@dataclass(frozen=True)
class Analysis:
    """What a run over a sample showed. `carried` holds, by origin, the combinations after each step per new row;
    `scanned` the rows that an algorithm of the papers looked at; `strategy` is how the join runs best, given what was
    measured. `recall` is what bounded memory left of the answer, if it is bounded."""

    rows_in: int
    event_seconds: float
    seconds: float
    kernel_seconds: float
    results: int
    arrived: Mapping[str, int] = field(default_factory=dict)
    carried: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    strategy: JoinStrategy | None = None
    scanned: int | None = None
    recall: float | None = None

    def as_dict(self) -> dict[str, Any]:
        told = {name: value for name, value in vars(self).items() if name != "strategy"}
        return {**told, "carried": {origin: list(steps) for origin, steps in self.carried.items()}}


def analyze(plan: Plan, sample_rows: int = SAMPLE_ROWS) -> Analysis:
    """Run the query until it has read about so many rows."""
    run = LocalRun(plan, batch_rows=_batch_rows(sample_rows))
    analysis = _timed(run, sample_rows)
    if not is_plain_join(plan) or len(runnable_join(plan)[0].inputs) < 2:
        return analysis
    _, _, measured = _audited(plan, sample_rows, None)
    audit, strategy, _ = _audited(plan, sample_rows, measured)
    carried = {
        origin: tuple(count / max(audit.arrived[origin], 1) for count in counts)
        for origin, counts in audit.carried.items()
    }
    work = run.metrics.work
    return replace(
        analysis,
        arrived=audit.arrived,
        carried=carried,
        strategy=strategy,
        scanned=int(work["scanned"]) if "scanned" in work else None,
    )


def _batch_rows(sample_rows: int) -> int:
    """So few that a small sample has rows of every stream."""
    return max(1, min(BATCH_ROWS, sample_rows // 16))


def _audited(
    plan: Plan, sample_rows: int, measured: JoinStatistics | None
) -> tuple[Audit, JoinStrategy, JoinStatistics]:
    """The engine's own join over the same rows, on the routes that suit what was measured before; and what is measured
    now, with the most rows that were held."""
    join, project = runnable_join(plan)
    strategy = optimize(join, plan.method, measured)
    own = strategy if not plan.method.is_classic else optimize(join, None, measured)
    joining = WindowJoin(own, project.columns, keeping=Audit, measured=True)
    built = built_join(join, InTimeOrder(joining, [one.alias for one in join.streams]))
    _timed(LocalRun(plan, batch_rows=_batch_rows(sample_rows), built=built), sample_rows)
    audit = joining.keeping
    assert isinstance(audit, Audit)
    assert joining.measures is not None
    return audit, strategy, joining.measures.statistics(audit.most_held)


def _timed(run: LocalRun, sample_rows: int) -> Analysis:

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


def _span_s(run: LocalRun) -> float:
    """As far as all streams have come."""
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
    rows.append(["results", _told(expected[0]), short(results), _ratio(expected[0], results)])
    if analysis.kernel_seconds:
        rows.append(["busy", _time(expected[1]), time_a_second(busy), _ratio(expected[1], busy)])
    if analysis.scanned is not None:
        compared = analysis.scanned / span
        rows.append(["comparisons", _told(expected[2]), short(compared), _ratio(expected[2], compared)])
    return rows


def _told(number: float | None) -> str:
    return "-" if number is None else short(number)


def _time(ns: float | None) -> str:
    return "-" if ns is None else time_a_second(ns)


def _ratio(expected: float | None, measured: float) -> str:
    return short(expected / measured) if expected is not None and measured else "-"
