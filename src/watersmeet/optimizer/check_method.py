"""Whether the algorithm asked for can run the join; if not, a sentence that says why and what would do."""

from __future__ import annotations

from watersmeet.errors import OptionError
from watersmeet.physical.strategy import JoinStrategy, Route, Step


def check_method(strategy: JoinStrategy) -> JoinStrategy:
    """A hash join finds every input by a key."""
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
