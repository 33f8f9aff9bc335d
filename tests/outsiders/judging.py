"""Whether what watersmeet gives is what DuckDB says: at instants of an answer that changes, else all of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.outsiders.comparing import Rows, difference, plain_rows
from tests.outsiders.data import Row, Streams, micros
from tests.outsiders.expectations import Oracle, times
from tests.outsiders.pairs import Case
from tests.outsiders.running import answer


class DisagreementError(AssertionError):
    pass


def judge(case: Case, streams: Streams, mode: str, draw: random.Random, looks: int = 10) -> None:
    oracle = Oracle(case, streams)
    if case.kind == "growing":
        judge_given(case, oracle, answer(case, streams, mode, draw), draw)
        return

    def watch(rows: list[Row], instant: int | None) -> None:
        at = max(times(case, streams), default=0) if instant is None else instant
        _same(f"run.answer() at {at}", plain_rows(oracle.at(at)), _values(rows))

    if mode == "final" and case.output == "log":
        last = max(times(case, streams), default=0)
        expected, got = plain_rows(oracle.at(last, final=True)), _values(answer(case, streams, mode, draw))
        _same("final()", expected, got)
        if case.ordered and expected != got:
            raise DisagreementError(f"the order of final(): {expected} is expected, {got} came")
        return
    judge_given(case, oracle, answer(case, streams, mode, draw, watch if case.output == "log" else None), draw, looks)


def judge_given(case: Case, oracle: Oracle, given: list[Row], draw: random.Random, looks: int = 10) -> None:
    """All rows that a query gave, in the order in which it gave them."""
    if case.kind == "growing":
        _same("the answer", plain_rows(oracle.rows(case.theirs)), _values(given))
    else:
        _OUTPUTS.get(case.output, _judge_snapshots)(case, oracle, given, draw, looks)


def _judge_log(case: Case, oracle: Oracle, given: list[Row], draw: random.Random, looks: int) -> None:
    _well_formed(given)
    instants = oracle.instants()
    near = sorted({at + d for at in instants for d in (-1, 0)} | {0})
    for at in sorted(draw.sample(near, min(looks, len(near)))) + near[-1:]:
        _same(f"the answer at {at}", plain_rows(oracle.at(at)), _summed(given, at))


def _summed(log: list[Row], instant: int) -> Rows:
    total: Counter[Any] = Counter()
    for row in log:
        if micros(row["_ts"]) <= instant:
            total[plain_rows([_payload(row)])[0]] += 1 if row["_op"] == "+" else -1
    if any(count < 0 for count in total.values()):
        raise DisagreementError(f"more left than had entered by {instant}: {[row for row in total if total[row] < 0]}")
    return list(total.elements())


def _payload(row: Row) -> list[Any]:
    return [value for name, value in row.items() if name not in ("_op", "_ts")]


def _well_formed(log: list[Row]) -> None:
    """In the order of instants, at each first what leaves, and no row that does both."""
    order = [(row["_ts"], row["_op"] == "+") for row in log]
    if order != sorted(order):
        raise DisagreementError("the log is not in order")
    at_once: dict[Any, set[str]] = {}
    for row in log:
        at_once.setdefault((row["_ts"], plain_rows([_payload(row)])[0]), set()).add(row["_op"])
    both = [row for row, ops in at_once.items() if len(ops) == 2]
    if both:
        raise DisagreementError(f"leaves and enters at one instant: {both}")


def _judge_changes(sign: int) -> Callable[[Case, Oracle, list[Row], random.Random, int], None]:
    def judge_them(case: Case, oracle: Oracle, given: list[Row], draw: random.Random, looks: int) -> None:
        expected: Rows = []
        before: Counter[Any] = Counter()
        for at in oracle.instants():
            now = Counter(plain_rows(oracle.at(at)))
            expected += [(at, *row) for row in ((now - before) if sign > 0 else (before - now)).elements()]
            before = now
        _same("the changes", expected, _timed(given))

    return judge_them


def _judge_snapshots(case: Case, oracle: Oracle, given: list[Row], draw: random.Random, looks: int) -> None:
    every, at = int(case.output), times(case, oracle.streams)
    first, last = min(at, default=0), max(at, default=-1)
    steps = range(-(-first // every) * every, last + 1, every) if at else ()
    wanted = [(step, row) for step in steps for row in plain_rows(oracle.at(step))]
    _same("all answers", [(step, *row) for step, row in wanted], _timed(given))
    if case.ordered and [(step, *row) for step, row in wanted] != _timed(given):
        raise DisagreementError(f"the order of the answers: {wanted} is expected")


def _timed(rows: list[Row]) -> Rows:
    return [(micros(row["_ts"]), *plain_rows([_payload(row)])[0]) for row in rows]


def _values(rows: list[Row]) -> Rows:
    return plain_rows(row.values() for row in rows)


def _same(what: str, expected: Rows, got: Rows) -> None:
    missing, extra = difference(expected, got)
    if missing or extra:
        raise DisagreementError(
            f"{what} differs\n  expected and missing: {missing[:8]}\n  came and not expected: {extra[:8]}"
        )


_OUTPUTS = {"log": _judge_log, "istream": _judge_changes(1), "dstream": _judge_changes(-1)}
