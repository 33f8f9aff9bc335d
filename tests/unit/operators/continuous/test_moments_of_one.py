"""Aggregates of one column that have one state: what each says alone, to the last bit, whatever came and went."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.histories import History, aggregated, history, run, same
from tests.unit.operators.continuous.test_aggregates import MAKERS, some
from watersmeet.operators.continuous.aggregates import Aggregator, Cells, make_aggregators
from watersmeet.operators.continuous.aggregates.contract import BySlots
from watersmeet.operators.saving import Saved, load_state, state_of
from watersmeet.plan.expressions import Aggregate, Column

FUNCTIONS = ("count", "avg", "sum", "stddev", "var_pop", "variance", "stddev_pop", "avg", "max")


class Together:
    STATE = ("aggregators",)

    def __init__(self, aggregates: list[Aggregate]) -> None:
        self.aggregators: list[Aggregator] = make_aggregators([(one, "x") for one in aggregates], fifo=False)


def of_groups(together: Together, past: History, kind: pa.DataType, first: int, last: int) -> list[list[object]]:
    """What each says after cells from the first to before the last."""
    ends = past.cells()
    piece = slice(int(ends[first - 1]) if first else 0, int(ends[last - 1]))
    values = pa.array([past.values[row] for row in past.rows[piece]], kind)
    cells = Cells(past.groups[piece].copy(), past.diffs[piece].copy(), ends[first:last] - piece.start)
    found = []
    for one in together.aggregators:
        one.grow(int(past.groups[: piece.stop].max()) + 1)
        found.append(one.apply(cells, values, past.rows[piece].copy()).to_pylist())
    return found


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("given", ["mixed", "one value"])
def test_each_says_what_it_says_alone(kind: str, given: str) -> None:
    data_type, make = MAKERS[kind]
    values = some(make, 300, 5) if given == "mixed" else 300 * some(make, 30, 5)[3:4]
    aggregates = [aggregated(function, data_type) for function in FUNCTIONS]
    past = history(values, groups=3, window=60, fifo=False, seed=5)
    alone = [run(one, past, fifo=False) for one in aggregates]
    cells = past.cells().size
    for cuts in ([], [1, cells // 3, cells // 2]):
        together = Together(aggregates)
        said: list[list[object]] = [[] for _ in aggregates]
        for first, last in pairwise([0, *cuts, cells]):
            for mine, more in zip(said, of_groups(together, past, data_type, first, last), strict=True):
                mine += more
            saved, together = state_of(together).to_bytes(), Together(aggregates)
            load_state(together, Saved.from_bytes(saved))
        for mine, expected in zip(said, alone, strict=True):
            same(mine, expected)


def test_what_each_saved_alone_is_loaded_together() -> None:
    kind = pa.float64()
    aggregates = [aggregated(function, kind) for function in ("avg", "stddev", "count")]
    past = history(some(MAKERS["any floats"][1], 200, 3), groups=4, window=50, fifo=False, seed=3)
    cells = past.cells().size
    apart = Together([])
    apart.aggregators = [one for a in aggregates for one in Together([a]).aggregators]
    of_groups(apart, past, kind, 0, cells // 2)
    together = Together(aggregates)
    load_state(together, Saved.from_bytes(state_of(apart).to_bytes()))
    expected = of_groups(apart, past, kind, cells // 2, cells)
    for mine, other in zip(of_groups(together, past, kind, cells // 2, cells), expected, strict=True):
        same(mine, other)


def test_groups_are_handed_over() -> None:
    kind = pa.float64()
    aggregates = [aggregated(function, kind) for function in ("avg", "stddev", "count")]
    past = history(some(MAKERS["any floats"][1], 200, 4), groups=4, window=50, fifo=False, seed=4)
    cells = past.cells().size
    giving, taking = Together(aggregates), Together(aggregates)
    of_groups(giving, past, kind, 0, cells // 2)
    groups = np.arange(4)
    for one, other in zip(giving.aggregators, taking.aggregators, strict=True):
        assert isinstance(one, BySlots)
        assert isinstance(other, BySlots)
        other.grow(4)
        other.take_over(groups, one.shares(groups))
    expected = of_groups(giving, past, kind, cells // 2, cells)
    for mine, other_way in zip(of_groups(taking, past, kind, cells // 2, cells), expected, strict=True):
        same(mine, other_way)


def test_they_hold_their_sums_once() -> None:
    one, all_of_it = (Together([aggregated(name, pa.int64()) for name in names]) for names in
                      (("stddev",), ("avg", "stddev", "var_pop", "count")))  # fmt: skip
    for each in (one, all_of_it):
        for aggregator in each.aggregators:
            aggregator.grow(1_000)
    assert sum(each.nbytes for each in all_of_it.aggregators) == one.aggregators[0].nbytes


@pytest.mark.parametrize("function", ["stddev", "avg", "count"])
def test_nothing_has_no_moments(function: str) -> None:
    values = pa.nulls(2)
    one, _ = make_aggregators(
        [(Aggregate(name, (Column("s", "x", pa.null()),), pa.float64()), "x") for name in (function, "variance")],
        fifo=True,
    )
    one.grow(1)
    cells = Cells(np.zeros(2, np.int64), np.ones(2, np.int64), np.array([1, 2]))
    expected = [0, 0] if function == "count" else [None, None]
    assert one.apply(cells, values, np.arange(2)).to_pylist() == expected
