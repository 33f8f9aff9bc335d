"""The algorithms by the name that the option `join` gives them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from watersmeet.errors import UnsupportedError
from watersmeet.papers.joins.contract import Algorithm
from watersmeet.papers.joins.description import describe
from watersmeet.papers.joins.h02 import CLASSES, Name, make_h02
from watersmeet.papers.joins.loops import Loops
from watersmeet.papers.joins.periods import Windows
from watersmeet.physical.strategy import JoinStrategy
from watersmeet.plan.method import LOOPS

Maker = Callable[[JoinStrategy], Algorithm]


def _h02(name: Name, strategy: JoinStrategy) -> Algorithm:
    method = strategy.method
    place = {one.alias: i for i, one in enumerate(strategy.join.inputs)}
    return make_h02(
        name,
        describe(strategy),
        windows=cast(Windows, method.windows),
        order=None if method.chain is None else [place[alias] for alias in method.chain],
        buckets=next(iter(method.buckets.values()), None),
    )


# One entry per value of `join`; a name that plan.options knows and that is not here is refused.
ALGORITHMS: dict[str, Maker] = {
    **dict.fromkeys(LOOPS, Loops),
    **{name: partial(_h02, name) for name in CLASSES},
}


def make_algorithm(strategy: JoinStrategy) -> Algorithm:
    """A fresh algorithm for a join, by its method."""
    name = strategy.method.algorithm
    maker = ALGORITHMS.get(name)
    if maker is None:
        raise UnsupportedError(
            f"option join = {name!r} is understood but cannot run yet", hint=f"there are {', '.join(ALGORITHMS)}"
        )
    return maker(strategy)
