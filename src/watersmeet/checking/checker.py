"""A query is run, its answer recomputed in another way at every instant, and both are compared."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.checking.compare import key_of, same_rows
from watersmeet.checking.duckdb_expressions import InexpressibleError
from watersmeet.checking.inputs import load, without
from watersmeet.checking.recompute import DuckDB, Oracle, Reference, Row, Tables, need_duckdb, rows_of
from watersmeet.checking.report import Difference, Report
from watersmeet.errors import OptionError
from watersmeet.model.time import times_of
from watersmeet.model.windows import Each
from watersmeet.operators.contract import Positions
from watersmeet.plan.nodes import AT, OP, Join, Node, Over, View
from watersmeet.plan.query import Plan, log_columns
from watersmeet.plan.walks import children
from watersmeet.session import Query

Progress = Callable[[int, int], None]


def check(
    query: Query,
    *,
    sample: int | None = None,
    run: Callable[[Query], pa.Table] | None = None,
    on_progress: Progress | None = None,
) -> Report:
    """Run a query over its inputs, which must end, and compare its answer with one recomputed by DuckDB.

    An answer that changes is compared at every instant at which it may; the report holds the first that differs. What
    DuckDB cannot be asked is recomputed by the reference, which is slower. Inputs that end are read in time order, so
    none of their rows is late; of a stream with read='arrival' the answer is recomputed over the rows that were not.

    sample: take only so many rows of each stream, the first.
    run: how the query is run; by default where it was declared.
    on_progress: called with the number of instants compared so far and of all.
    """
    if sample is not None and sample < 1:
        raise OptionError(f"a sample of {sample} rows shows nothing", hint="give sample = 1000, or leave it out")
    need_duckdb()
    # Read once, for both: inputs that flow cannot be read again.
    tables = load(query.plan, sample)
    given, late = _run(query.over(tables), run)
    tables = without(tables, late)
    try:
        report = _compared(query.plan, tables, given, DuckDB(query.plan, tables), None, on_progress)
    except InexpressibleError as error:
        report = _compared(query.plan, tables, given, Reference(query.plan, tables), str(error), on_progress)
    counted = {name: sum(map(len, rows)) for name, rows in late.items()}
    return replace(report, late=counted, shared=shared_readings(query.plan))


def _run(query: Query, run: Callable[[Query], pa.Table] | None) -> tuple[pa.Table, dict[str, list[Positions]]]:
    """The answer, and the numbers of the rows that came too late for it, by stream."""
    late: dict[str, list[Positions]] = {}
    if run is not None:
        return run(query), late
    if not query.in_arrival_order:
        return query.to_arrow(), late
    batches = query.batches(on_late_rows=lambda name, rows: late.setdefault(name, []).append(rows))
    return pa.Table.from_batches(batches, schema=query.schema), late


def _compared(
    plan: Plan, tables: Tables, given: pa.Table, oracle: Oracle, instead: str | None, on_progress: Progress | None
) -> Report:
    report = Report(oracle.name, {name: table.num_rows for name, table in tables.items()}, 0, 0, instead)
    if plan.kind == "rows":
        return _compared_as_a_whole(report, plan, given, oracle, Reference(plan, tables))
    return _compared_by_instant(report, _EngineAnswers(plan, given), oracle, Reference(plan, tables), on_progress)


def _compared_as_a_whole(report: Report, plan: Plan, given: pa.Table, oracle: Oracle, exact: Reference) -> Report:
    engine, expected = rows_of(given), oracle.combinations()
    settled = 0
    # Sums that are off by their last digits are no difference: the reference, which is exact, decides.
    if oracle.rough and not same_rows(engine, expected):
        expected, settled = exact.combinations(), 1
    equal = same_rows(engine, expected)
    wrong = None if equal else Difference(None, 0, tuple(plan.schema.names), tuple(engine), tuple(expected))
    return replace(report, rows=len(expected), settled=settled, difference=wrong)


def _compared_by_instant(
    report: Report, engine: _EngineAnswers, oracle: Oracle, exact: Reference, on_progress: Progress | None
) -> Report:
    # Also where the engine said something, in case it should not have.
    at = sorted({*oracle.instants(), *engine.instants})
    compared, settled, wrong = 0, 0, None
    for number, (at_us, expected) in enumerate(oracle.answers(at), start=1):
        found = engine.at(at_us)
        # Sums that are off by their last digits are no difference: the reference, which is exact, decides.
        if not same_rows(found, expected) and oracle.rough:
            expected, settled = exact.answer_at(at_us), settled + 1
        if not same_rows(found, expected):
            wrong = Difference(at_us, number, tuple(exact.plan.schema.names), tuple(found), tuple(expected))
            break
        compared += len(expected)
        if on_progress is not None:
            on_progress(number, len(at))
    return replace(report, instants=len(at), rows=compared, settled=settled, difference=wrong)


class _EngineAnswers:
    """What the engine said, by instant; a change log is summed up. Instants are asked for in order."""

    def __init__(self, plan: Plan, given: pa.Table) -> None:
        given = given.sort_by([(AT, "ascending")])
        self._summed = plan.kind == "changes"
        self._times: list[int] = times_of(given[AT].combine_chunks()).tolist()
        self._ops = given[OP].to_pylist() if self._summed else []
        self._rows = rows_of(given.drop_columns(list(log_columns(plan.kind))))
        self._next = 0
        self._times_in: Counter[Row] = Counter()
        self._row_of: dict[Row, Row] = {}

    @property
    def instants(self) -> Sequence[int]:
        return self._times

    def at(self, at_us: int) -> list[Row]:
        # Instants come in order, so each row is looked at once.
        start, self._next = self._next, bisect_right(self._times, at_us)
        if not self._summed:
            return self._rows[start : self._next]
        for k in range(start, self._next):
            key = key_of(self._rows[k])
            self._row_of.setdefault(key, self._rows[k])
            self._times_in[key] += 1 if self._ops[k] == "+" else -1
            if not self._times_in[key]:
                del self._times_in[key], self._row_of[key]
        return [row for key, times in self._times_in.items() for row in _listed(self._row_of[key], times)]


def _listed(row: Row, times: int) -> list[Row]:
    """A row as often as it is in the answer; one that was taken away before it was there is shown as such."""
    return [row] * times if times > 0 else [("taken away before it was there", *row[1:])] * -times


def shared_readings(plan: Plan) -> tuple[str, ...]:
    """What a check cannot show, as both answers go by it: the words whose meaning was settled when the query was read,
    before anything was computed."""
    return tuple(dict.fromkeys(word for node in _everything(plan.root) for word in _words(node)))


def _everything(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _everything(child)


def _words(node: Node) -> Iterator[str]:
    if isinstance(node, Over):
        yield "OVER"
    if not isinstance(node, Join):
        return
    if node.kind in ("semi", "anti"):
        yield "EXISTS and IN as joins"
    if node.asof is not None:
        yield "ASOF JOIN"
    for one in node.inputs:
        if isinstance(one.window, Each):
            yield "UNNEST"
        if isinstance(one.relation, View) and one.relation.name.startswith("subquery"):
            yield "subqueries as joins"
