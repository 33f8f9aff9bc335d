"""The offline optimum over a sample: what no policy can exceed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.door import Door
from watersmeet.operators.join.layout import Layout
from watersmeet.papers.shedding.arrivals import Arrivals
from watersmeet.papers.shedding.optimum import optimum_curve
from watersmeet.physical.strategy import JoinStrategy

# Rows times memory that the optimum is worked out for: about five seconds.
MOST_WORK = 30_000_000


def why_none(strategy: JoinStrategy) -> str | None:
    """Why the optimum cannot be worked out for a join, if it cannot."""
    join = strategy.join
    if len(join.inputs) != 2 or len(join.streams) != 2:
        return "it is known for joins of two streams only"
    if not strategy.equalities or strategy.comparisons or strategy.residuals:
        return "it is known for joins by equality only"
    if any(isinstance(one.window, RowsWindow) for one in join.streams):
        return "it is known for windows in time, not in rows"
    limits = _limits(strategy)
    if max(limits) >= FOREVER_US or min(limits) < 0:
        return "it is known for windows that begin at once and end"
    return None


def _limits(strategy: JoinStrategy) -> tuple[int, int]:
    """How long a row of either stream meets the other's."""
    windows = strategy.join.windows
    first, second = (windows.streams.index(one.alias) for one in strategy.join.streams)
    return int(windows.limits[first][second]), int(windows.limits[second][first])


def arrivals_of(strategy: JoinStrategy, rows: Sequence[Rows]) -> Arrivals:
    """The rows of both streams that can match at all, by time, with their keys numbered."""
    door = Door(Layout(strategy, ()))
    aliases = [one.alias for one in strategy.join.streams]
    times, streams, keys = [], [], []
    for number, (alias, given) in enumerate(zip(aliases, rows, strict=True)):
        admitted = door.admit(alias, given)
        own = [code for e in strategy.equalities for code in (e.left, e.right) if code.stream == alias]
        times.append(admitted.rows.times)
        streams.append(np.full(len(admitted), number))
        keys.append(np.stack([admitted.codes[code] for code in own], axis=1))
    when = np.concatenate(times)
    order = np.argsort(when, kind="stable")
    # Equalities name a code of each side in the same order, so equal rows of codes are equal keys.
    _, numbers = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    first, second = _limits(strategy)
    # Arrivals meet below an age, limits are closed: in whole microseconds that is one more.
    return Arrivals(when[order], np.concatenate(streams)[order], numbers.ravel()[order], (first + 1, second + 1))


def ceilings(
    arrivals: Arrivals, allocation: Literal["fixed", "variable"], sizes: Sequence[int], exact: int
) -> dict[int, float]:
    """The optimum for each memory in rows. Sizes that would take too long are left out."""
    known = [size for size in sizes if size * len(arrivals) <= MOST_WORK]
    if not known:
        return {}
    curve = optimum_curve(arrivals, max(known), allocation)
    return {size: min(1.0, float(curve[size]) / exact) if exact else 1.0 for size in known}
