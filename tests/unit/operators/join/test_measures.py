"""What a join measures of its inputs: rates, numbers of values and samples, of recent rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.join.measures import SAMPLE_ROWS, Measures
from watersmeet.operators.kernels.sketch import REGISTERS, estimated_values, note_values
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column

KEY = Code("s", Column("s", "k", pa.int64()))
SECOND = 1_000_000


def fed(measures: Measures, rate: int, values: int, seconds: range, seed: int = 1) -> Measures:
    rng = np.random.default_rng(seed)
    for second in seconds:
        times = np.sort(rng.integers(second * SECOND, (second + 1) * SECOND, rate))
        measures.saw("s", times, {KEY: rng.integers(0, values, rate)})
    return measures


def fresh(horizon_s: int = 5) -> Measures:
    return Measures({"s": (KEY,)}, {"s": horizon_s * SECOND})


@pytest.mark.parametrize("count", [10, 1_000, 50_000])
def test_the_sketch_counts_values_within_five_percent(count):
    registers = np.zeros(REGISTERS, np.uint8)
    note_values(np.repeat(np.arange(count) * 7919, 3), registers)
    assert estimated_values(registers) == pytest.approx(count, rel=0.05)


@pytest.mark.parametrize("rate", [10, 1_000, 20_000])
def test_the_rate_is_the_rows_of_a_second(rate):
    measured = fed(fresh(), rate, 100, range(20)).statistics({"s": 10**9})["s"]
    assert measured.rate == pytest.approx(rate, rel=0.1)
    assert measured.rows == pytest.approx(5 * rate, rel=0.1)


def test_rows_that_are_not_kept_do_not_count():
    assert fed(fresh(), 1_000, 100, range(20)).statistics({"s": 40})["s"].rows == 40


@pytest.mark.parametrize("values", [20, 2_000, 20_000])
def test_the_number_of_values_is_found_from_recent_rows(values):
    measured = fed(fresh(), 5_000, values, range(10)).statistics({"s": 10**9})["s"]
    assert measured.distinct[KEY] == pytest.approx(values, rel=0.15)


def test_keys_that_never_repeat_count_as_very_many():
    measures = fresh()
    for second in range(4):
        keys = np.arange(second * 1000, second * 1000 + 1000)
        measures.saw("s", second * SECOND + np.arange(1000) * 1000, {KEY: keys})
    assert measures.statistics({"s": 10**9})["s"].distinct[KEY] > 20_000


def test_what_was_long_ago_is_forgotten():
    measures = fed(fresh(2), 5_000, 3_000, range(10))
    measured = fed(measures, 50, 10, range(10, 25)).statistics({"s": 10**9})["s"]
    assert measured.rate == pytest.approx(50, rel=0.1)
    assert measured.distinct[KEY] == pytest.approx(10, rel=0.2)


def test_a_sample_holds_the_same_rows_for_every_code():
    other = Code("s", Column("s", "x", pa.int64()))
    measures = Measures({"s": (KEY, other)}, {"s": SECOND})
    for batch in range(40):
        keys = np.arange(batch * 100, batch * 100 + 100)
        measures.saw("s", keys * 1000, {KEY: keys, other: keys + 5})
    samples = measures.statistics({"s": 1})["s"].samples
    assert samples[KEY].size == SAMPLE_ROWS
    assert (samples[other] - samples[KEY] == 5).all()
