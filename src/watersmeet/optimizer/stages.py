"""The rules, in the order they run. Each takes a strategy and returns a more decided one."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.errors import OptionError
from watersmeet.optimizer.choose_routes import choose_routes
from watersmeet.optimizer.classify_predicates import classify_predicates
from watersmeet.optimizer.close_equalities import close_equalities
from watersmeet.optimizer.describe import Description
from watersmeet.physical.strategy import JoinStatistics, JoinStrategy, Route, Step
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import Join
from watersmeet.plan.published import CHOOSE_SETTINGS, load


def check_method(strategy: JoinStrategy) -> JoinStrategy:
    """Refuse an algorithm that cannot run the join: a hash join finds every input by a key."""
    if strategy.method.kind.needs_keys:
        for route in strategy.routes:
            for d, step in enumerate(route.steps):
                if not step.equalities:
                    raise _no_key(strategy.method.algorithm, route, d, step)
    return strategy


def _no_key(algorithm: str, route: Route, d: int, step: Step) -> OptionError:
    known = " and ".join(route.visits[: d + 1])
    return OptionError(
        f"option join = {algorithm!r} needs an equality for every input, but a new row of {route.origin} that knows "
        f"{known} finds {step.stream} by none",
        hint="use join = 'hybrid', which scans where there is no equality, or join = 'nested_loop'",
        option="join",
    )


def choose_settings(strategy: JoinStrategy) -> JoinStrategy:
    """What a query leaves open of the papers' hash joins."""
    method = strategy.method
    if method.bucket_budget is None and not method.expires_at_best:
        return strategy
    chosen: JoinStrategy = load(CHOOSE_SETTINGS)(strategy)
    return chosen


def estimate_rows(strategy: JoinStrategy) -> JoinStrategy:
    """How many rows each store will hold, for EXPLAIN; nothing is assumed here."""
    return replace(strategy, rows_kept=Description(strategy).known_rows)


# Costs need all equalities, orders need the buckets, and only routes show whether every input has a key.
STAGES = (
    classify_predicates,
    close_equalities,
    estimate_rows,
    choose_settings,
    choose_routes,
    check_method,
)


def optimize(
    join: Join, method: Method | None = None, measured: JoinStatistics | None = None, *, tests_early: bool = True
) -> JoinStrategy:
    """Decide how a join will run, by the method asked for, and by what was measured if it has run before; with
    `tests_early` combinations may be tested on their way."""
    strategy = JoinStrategy(join, method or Method(), measured=measured, tests_early=tests_early)
    for stage in STAGES:
        strategy = stage(strategy)
    return strategy
