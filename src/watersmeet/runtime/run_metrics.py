"""The metrics of a run in this process, from its clocks and its operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.contract import Operator
from watersmeet.runtime.clock import QueryClock
from watersmeet.runtime.metrics import Metrics, counted


def bring_up_to_date(
    metrics: Metrics, clock: QueryClock, operator: Operator, is_at_hand: Callable[[str], bool]
) -> None:
    """is_at_hand: whether rows of a stream have come that are not answered yet."""
    count_rows(metrics, clock)
    slowest = clock.slowest
    metrics.held_back_by, metrics.still_for_s = clock.held_back_by, clock.still_for_s(clock.wall.real_us())
    metrics.waits_for_rows = slowest is not None and not is_at_hand(slowest.stream.name)
    metrics.set(counted(operator.counters))
    if operator.delays is not None:
        metrics.delays = dict(operator.delays)
    metrics.set(held_by(operator))
    metrics.work_by_bucket, metrics.rows_by_key = dict(operator.work_by_part), dict(operator.rows_by_key)
    if operator.bounded is not None:
        metrics.memory_rows, metrics.memory_bytes = operator.bounded.memory.rows, operator.bounded.memory.size
    metrics.state_bytes = operator.state_bytes
    metrics.watermark_us = clock.watermark_us


def count_rows(metrics: Metrics, clock: QueryClock) -> None:
    """What came of each stream, and what of it was left out."""
    clocks = clock.clocks
    metrics.rows_in = sum(one.came for one in clocks.values())
    metrics.rows_by_stream = {name: one.came for name, one in clocks.items()}
    metrics.newest_by_stream = {name: one.newest_us for name, one in clocks.items() if one.newest_us > BEGINNING_US}
    metrics.skipped_rows = sum(one.skipped_rows for one in clocks.values())
    metrics.skipped_by_stream = {name: one.skipped_rows for name, one in clocks.items() if one.skipped_rows}
    metrics.bad_rows = sum(one.bad.count for one in clocks.values())
    metrics.bad_by_stream = {name: one.bad.count for name, one in clocks.items() if one.bad.count}
    metrics.bad_by_reason = {
        f"{name}: {reason}": rows for name, one in clocks.items() for reason, rows in one.bad.by_reason.items()
    }
    metrics.first_bad = {name: one.bad.first for name, one in clocks.items() if one.bad.first}
    metrics.left_out_by_stream = {name: one.left_out for name, one in clocks.items() if one.left_out}
    metrics.late_rows = sum(one.late_rows for one in clocks.values())
    metrics.late_by_stream = {name: one.late_rows for name, one in clocks.items()}
    for one in clocks.values():
        for name, value in one.late.lateness.items():
            getattr(metrics, name)[one.stream.name] = value
    metrics.future_rows = {name: one.future_rows for name, one in clocks.items() if one.future_rows}


def held_by(operator: Operator) -> dict[str, Any]:
    """What an operator holds now, by the names of the metrics; on both hosts."""
    windows = operator.held_by_input
    return {
        "kept_rows": operator.kept_rows,
        "window_rows": sum(rows for rows, _ in windows.values()),
        "window_rows_by_input": {name: rows for name, (rows, _) in windows.items()},
        "window_bytes_by_input": {name: size for name, (_, size) in windows.items()},
    }
