"""What a papers' algorithm must know of a join, in numbers: limits between inputs, constraints, predicates.

Inputs are numbered by their place in FROM. Static tables take part without limits on time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, product
from typing import Literal

from watersmeet.dataclass import dataclass
from watersmeet.errors import WindowError
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import Bound, Matrix, RowsWindow, close
from watersmeet.papers.joins.shelf import shelf_codes
from watersmeet.physical.strategy import MIRRORED, Code, Comparison, JoinStrategy
from watersmeet.plan.nodes import Join

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge"]


@dataclass(frozen=True)
class TimeConstraint:
    """`t_later - t_earlier <= at_most_us`, as it was written."""

    earlier: int
    later: int
    at_most_us: int


@dataclass(frozen=True)
class TimeAlternative:
    """One way to satisfy the windows: the constraints as written, and what they imply for every ordered pair.

    `limits[u][v]` bounds `t_v - t_u`; FOREVER_US where nothing does.
    """

    limits: Matrix
    constraints: tuple[TimeConstraint, ...]


@dataclass(frozen=True)
class Predicate:
    """`code left_code of input left OPERATOR code right_code of input right`; codes are numbered as on the shelf."""

    left: int
    left_code: int
    operator: Operator
    right: int
    right_code: int


@dataclass(frozen=True)
class JoinDescription:
    """A join of `inputs` inputs. `counted` ones have ROWS windows, `static` ones are tables."""

    inputs: int
    alternatives: tuple[TimeAlternative, ...]
    predicates: tuple[Predicate, ...] = ()
    counted: tuple[int, ...] = ()
    static: tuple[int, ...] = ()

    @property
    def limits(self) -> Matrix:
        """The loosest limits over the alternatives: what every member must satisfy to be of any use."""
        places = range(self.inputs)
        return tuple(tuple(max(one.limits[u][v] for one in self.alternatives) for v in places) for u in places)

    @property
    def reach_us(self) -> tuple[int, ...]:
        """How long after its own time a row of each input can still meet another."""
        return tuple(max((d for v, d in enumerate(row) if v != u), default=0) for u, row in enumerate(self.limits))


def describe(strategy: JoinStrategy, codes: Mapping[str, Sequence[Code]] | None = None) -> JoinDescription:
    """The join of a strategy; `codes` says which codes the shelf holds of each input, `shelf_codes` by default."""
    join = strategy.join
    place = {one.alias: i for i, one in enumerate(join.inputs)}
    codes = codes or {alias: shelf_codes(strategy, alias) for alias in place}
    position = {code: (place[alias], i) for alias in place for i, code in enumerate(codes[alias])}

    def predicate(left: Code, operator: Operator, right: Code) -> Predicate:
        return Predicate(*position[left], operator, *position[right])

    equalities = [predicate(one.left, "eq", one.right) for one in strategy.equalities]
    comparisons = [predicate(c.own, c.operator, c.bound) for c in _without_mirrored(strategy.comparisons)]
    return JoinDescription(
        len(join.inputs),
        _alternatives(join, place),
        (*equalities, *comparisons),
        tuple(place[i.alias] for i in join.streams if isinstance(i.window, RowsWindow)),
        tuple(place[i.alias] for i in join.inputs if i.is_table),
    )


def _without_mirrored(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Each comparison once: `a < b` and `b > a` say the same."""
    kept: dict[Comparison, None] = {}
    for one in comparisons:
        if Comparison(one.bound, MIRRORED[one.operator], one.own) not in kept:
            kept[one] = None
    return list(kept)


def _alternatives(join: Join, place: Mapping[str, int]) -> tuple[TimeAlternative, ...]:
    """The directions of the WINDOW PATHs, in all combinations that make sense, in the order they were written."""
    streams = [one.alias for one in join.streams]
    wanted = set(join.windows.alternatives)
    found: dict[Matrix, TimeAlternative] = {}
    for chosen in product(*(choice.alternatives for choice in join.choices)):
        bounds = (*join.all_bounds, *chain(*chosen))
        try:
            (matrix,) = close(streams, bounds).alternatives
        except WindowError:
            continue
        if matrix in wanted:
            # Two choices may close to the same limits, and one that closes to a contradiction is no alternative.
            found.setdefault(matrix, _alternative(matrix, bounds, [place[s] for s in streams], place))
    return tuple(found.values())


def _alternative(
    matrix: Matrix, bounds: Sequence[Bound], places: Sequence[int], place: Mapping[str, int]
) -> TimeAlternative:
    limits = [[0 if u == v else FOREVER_US for v in range(len(place))] for u in range(len(place))]
    for u, row in zip(places, matrix, strict=True):
        for v, limit in zip(places, row, strict=True):
            limits[u][v] = limit
    constraints = (TimeConstraint(place[b.earlier], place[b.later], b.at_most_us) for b in bounds)
    return TimeAlternative(tuple(map(tuple, limits)), tuple(dict.fromkeys(constraints)))
