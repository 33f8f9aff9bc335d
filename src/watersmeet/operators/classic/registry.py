"""The algorithms by the name that the option `join` gives them."""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.errors import UnsupportedError
from watersmeet.operators.classic.contract import Algorithm
from watersmeet.operators.classic.loops import Loops
from watersmeet.plan.strategy import JoinStrategy

Maker = Callable[[JoinStrategy], Algorithm]

# One entry per value of `join`; a name that plan.options knows and that is not here is refused.
ALGORITHMS: dict[str, Maker] = {"nested_loop": Loops, "hash": Loops, "hybrid": Loops, "naive": Loops}


def make_algorithm(strategy: JoinStrategy) -> Algorithm:
    """A fresh algorithm for a join, by its method."""
    name = strategy.method.algorithm
    maker = ALGORITHMS.get(name)
    if maker is None:
        raise UnsupportedError(
            f"option join = {name!r} is understood but cannot run yet", hint=f"there are {', '.join(ALGORITHMS)}"
        )
    return maker(strategy)
