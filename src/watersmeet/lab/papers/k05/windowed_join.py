"""What the figures of K05 have in common: two streams of even pace, windows of 30 s, the last 30 s measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from watersmeet.lab.experiment import Scale
from watersmeet.lab.papers.measuring import MeasuredStretch, Repeated, after, repeated
from watersmeet.lab.workloads.steady import SECOND_US, steady
from watersmeet.papers.orders.cost_k05 import UnitCosts

Settings = Mapping[Scale, Mapping[str, Any]]

PAPER = "K05"
WINDOW_S, BATCH_S = 30, 60
MEASURED_S = BATCH_S - WINDOW_S
STRATEGIES = {
    "probe": "probe time",
    "probe_insert": "probe and insert time",
    "probe_all": "probe all buckets",
    "all": "optimal",
}
SCANS_ONLY = UnitCosts(invalidate=0, insert=0, scan=1)
GENERATED = "generated: two streams of even pace, join values drawn uniformly"
UNKNOWN_RATES = "the paper gives no rates; these are what its statements can be seen at"


def join_sql(options: str) -> str:
    sources = f"a [RANGE {WINDOW_S} SECONDS], b [RANGE {WINDOW_S} SECONDS]"
    return f"SELECT a.ts FROM {sources} WHERE a.attr = b.attr OPTIONS (boundary = 'half_open', {options})"


WNL = "join = 'nested_loop'"


def whj(buckets: int, invalidate: str = "probe_insert") -> str:
    return f"join = 'hash', buckets = {buckets}, invalidate = '{invalidate}'"


def second_half(
    options: str, rates: tuple[float, float], values: int, seed: int, *, matching: bool = True
) -> MeasuredStretch:
    """What a join does in the last 30 s. Without `matching` the rows meet in the same buckets, but none is equal."""
    tables = steady(dict(zip("ab", rates, strict=True)), BATCH_S, values, seed)
    if not matching:
        # Beyond the values of a, but with the same remainders as long as buckets divide the number of values.
        never = tables["b"]["attr"].to_numpy() + values
        tables["b"] = tables["b"].set_column(1, "attr", [never])
    return after(join_sql(options), tables, WINDOW_S * SECOND_US)


def timed_and_counted(
    options: Mapping[str, str],
    rates: tuple[float, float],
    values: int,
    seed: int,
    repeats: int,
    *,
    matching: bool = True,
) -> tuple[dict[str, Repeated], dict[str, MeasuredStretch]]:
    """Seconds and the counts by name; the counts are the same every time."""
    counted: dict[str, MeasuredStretch] = {}

    def once(name: str) -> float:
        counted[name] = second_half(options[name], rates, values, seed, matching=matching)
        return counted[name].seconds

    return repeated({name: partial(once, name) for name in options}, repeats), counted
