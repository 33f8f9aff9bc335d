"""The rules, in the order they run. Each takes a strategy and returns a more decided one."""

from __future__ import annotations

from watersmeet.optimizer.check_method import check_method
from watersmeet.optimizer.choose_routes import choose_routes
from watersmeet.optimizer.choose_settings import choose_settings
from watersmeet.optimizer.classify_predicates import classify_predicates
from watersmeet.optimizer.close_equalities import close_equalities
from watersmeet.optimizer.estimate_rows import estimate_rows
from watersmeet.physical.strategy import JoinStatistics, JoinStrategy
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import Join

# Costs need all equalities, orders need the buckets, and only routes show whether every input has a key.
STAGES = (
    classify_predicates,
    close_equalities,
    estimate_rows,
    choose_settings,
    choose_routes,
    check_method,
)


def optimize(join: Join, method: Method | None = None, measured: JoinStatistics | None = None) -> JoinStrategy:
    """Decide how a join will run, by the method asked for, and by what was measured if it has run before."""
    strategy = JoinStrategy(join, method or Method(), measured=measured)
    for stage in STAGES:
        strategy = stage(strategy)
    return strategy
