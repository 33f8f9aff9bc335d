"""The rules, in the order they run. Each takes a strategy and returns a more decided one."""

from __future__ import annotations

from watersmeet.optimizer.choose_routes import choose_routes
from watersmeet.optimizer.classify_predicates import classify_predicates
from watersmeet.optimizer.close_equalities import close_equalities
from watersmeet.optimizer.estimate import estimate_rows
from watersmeet.plan.nodes import Join
from watersmeet.plan.strategy import JoinStrategy

STAGES = (
    classify_predicates,
    close_equalities,
    estimate_rows,
    choose_routes,
)


def optimize(join: Join) -> JoinStrategy:
    """Decide how a join will run."""
    strategy = JoinStrategy(join)
    for stage in STAGES:
        strategy = stage(strategy)
    return strategy
