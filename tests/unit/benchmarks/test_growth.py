"""Curves of what a row costs."""

from __future__ import annotations

import pytest

from benchmarks.growth import CURVES, cost_ns, exponent, join


def test_a_power_is_told_by_its_exponent():
    assert exponent([1, 10, 100], [5.0, 5.0, 5.0]) == pytest.approx(0)
    assert exponent([1, 10, 100], [2.0, 20.0, 200.0]) == pytest.approx(1)
    assert exponent([1, 10, 100], [200.0, 20.0, 2.0]) == pytest.approx(-1)


def test_curves_ask_for_what_they_turn_up():
    case = CURVES["streams"][2](5)
    assert case.streams == 5
    assert "FROM a, b, c, d, e WHERE a.k = b.k" in case.text
    assert CURVES["threads"][2](2).text.endswith("OPTIONS (threads = 2)")


def test_a_row_costs_something_also_when_rows_may_be_late():
    assert min(cost_ns(join(1_000, 2_000, batch=500, lateness_us=100))) > 0
