"""Aggregates that rows enter and leave again: exact, and the same whatever the history."""

from watersmeet.operators.continuous.aggregates.contract import Aggregator, Cells, Int64s
from watersmeet.operators.continuous.aggregates.make import counts_up_and_down, make_aggregator, make_aggregators

__all__ = ["Aggregator", "Cells", "Int64s", "counts_up_and_down", "make_aggregator", "make_aggregators"]
