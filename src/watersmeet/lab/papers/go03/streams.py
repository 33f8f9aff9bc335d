"""The streams of GO03's tables and figures, and what runs joins over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from watersmeet.lab.experiment import Scale
from watersmeet.lab.papers.measuring import MeasuredStretch, after
from watersmeet.lab.workloads.go03 import go03, iterations_per_unit
from watersmeet.optimizer.cost.inputs import StreamRate

Settings = Mapping[Scale, Mapping[str, Any]]
Streams = tuple[StreamRate, ...]

PAPER = "GO03"


def numbered(*given: tuple[float, float, float]) -> Streams:
    """Streams s1, s2, … with their λ, T and v."""
    return tuple(StreamRate(f"s{i}", *one) for i, one in enumerate(given, start=1))


TABLE_5 = numbered((10, 100, 500), (1, 100, 50), (1, 200, 40), (3, 100, 5))
TABLE_6 = numbered((100, 100, 200), (1, 100, 200), (1, 100, 20), (3, 100, 2))
TABLE_7 = numbered((11, 100, 200), (10, 100, 100), (1, 100, 65), (1, 100, 20))
ALIKE = numbered(*[(1, 100, 50)] * 7)
FAST_FOURTH = numbered((1, 100, 50), (1, 100, 50), (1, 100, 50), (10, 100, 50))
HUNDREDFOLD_FOURTH = numbered((1, 100, 50), (1, 100, 50), (1, 100, 50), (100, 100, 50))
MUCH_FASTER_FOURTH = numbered((1, 100, 50), (1, 100, 50), (1, 100, 50), (50, 100, 50))


def join_sql(streams: Sequence[StreamRate], options: str, columns: str = "s1.attr") -> str:
    unit = iterations_per_unit(streams)
    # The generator makes a row each microsecond, so T units are T·Σλ of them (AMB-09).
    sources = ", ".join(f"{one.name} [RANGE {int(one.window * unit)} MICROSECONDS]" for one in streams)
    equal = " AND ".join(f"{one.name}.attr = {other.name}.attr" for one, other in pairwise(streams))
    return f"SELECT {columns} FROM {sources} WHERE {equal} OPTIONS ({options})"


def every(streams: Sequence[StreamRate], interval: float) -> str:
    """Re-execution, and with it expiration, once in so many units of time."""
    return f"refresh = '{round(interval * iterations_per_unit(streams))} microseconds'"


def in_order(order: Sequence[str]) -> str:
    return f"order = '{', '.join(order)}'"


def in_orders(orders: Mapping[str, Sequence[str]]) -> str:
    return "order = '" + "; ".join(f"{origin}: {', '.join(order)}" for origin, order in orders.items()) + "'"


def full_after(streams: Sequence[StreamRate]) -> int:
    """Units of time until all windows are full."""
    return int(max(one.window for one in streams))


def rows_for(streams: Sequence[StreamRate], units: int, seed: int) -> dict[str, pa.Table]:
    return go03(streams, full_after(streams) + units, seed)


def run(streams: Sequence[StreamRate], options: str, rows: Mapping[str, pa.Table]) -> MeasuredStretch:
    """What a join does once its windows are full."""
    return after(join_sql(streams, options), rows, full_after(streams) * iterations_per_unit(streams))
