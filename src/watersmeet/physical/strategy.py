"""How a join will run: what each stream keeps, and how a new row of each stream walks the others.

Kernels compare int64 codes. A code stands for an expression over one input; it is exact when equal codes mean
equal values and, except for hashes, smaller codes smaller values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.types import is_instant
from watersmeet.plan.expressions import Expression, to_text
from watersmeet.plan.identity import expression_text
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import Join

Values = npt.NDArray[np.int64]
Access = Literal["hash", "sorted", "scan"]
Order = Literal["lt", "le", "gt", "ge", "ne"]
MIRRORED: dict[Order, Order] = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


def is_exact(data_type: pa.DataType) -> bool:
    """Whether values of this type have an order-preserving int64 image; the others are hashed and verified."""
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_boolean(data_type)
        or is_instant(data_type)
        or pa.types.is_duration(data_type)
        or pa.types.is_time(data_type)
        # 10^18 is the largest power of ten below 2^63.
        or (pa.types.is_decimal(data_type) and data_type.precision <= 18)
    )


@dataclass(frozen=True)
class Code:
    """The int64 image of an expression over one input."""

    stream: str
    expression: Expression

    @property
    def exact(self) -> bool:
        return is_exact(self.expression.type)

    @property
    def word(self) -> str:
        """What it is called where it travels or is saved."""
        return _word(self.expression)

    def __str__(self) -> str:
        return to_text(self.expression)


# Asked for with every batch of rows, and long to write.
@cache
def _word(expression: Expression) -> str:
    return expression_text(expression)


@dataclass(frozen=True)
class ConditionStatistics:
    """What was measured of a condition that is tested on combinations: the share that passes, and in a sample that is
    taken for its sake how long the test of one takes."""

    passing: float
    ns: float | None = None


@dataclass(frozen=True)
class InputStatistics:
    """What was measured of one input while it flowed: rows a second of event time, rows kept, and of some codes the
    number of values and a sample; and of the conditions on combinations of which it is the last input in FROM.

    Samples of all codes of an input are of the same rows, in the same order.
    """

    rate: float
    rows: float
    distinct: Mapping[Code, float] = field(default_factory=dict)
    samples: Mapping[Code, Values] = field(default_factory=dict)
    tests: Mapping[Expression, ConditionStatistics] = field(default_factory=dict)


JoinStatistics = Mapping[str, InputStatistics]


@dataclass(frozen=True)
class Equality:
    """Two codes of different inputs that must be equal; `implied` ones follow from others by transitivity."""

    left: Code
    right: Code
    implied: bool = False


@dataclass(frozen=True)
class Comparison:
    """`own OPERATOR bound`, usable when `own`'s input is searched and `bound`'s row is already known."""

    own: Code
    operator: Order
    bound: Code


@dataclass(frozen=True)
class Step:
    """Find the matching rows of one input: through which index, and what their codes must satisfy.

    `equalities` pairs a code of a row already bound with the input's own; together the own ones are the key of
    a hash access. A sorted access runs over `sorted_by`. `then` are the conditions that combinations are tested on
    before they go on to the next step.
    """

    stream: str
    access: Access
    equalities: tuple[tuple[Code, Code], ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    sorted_by: Code | None = None
    then: tuple[Expression, ...] = ()

    @property
    def key(self) -> tuple[Code, ...]:
        return tuple(own for _, own in self.equalities)


@dataclass(frozen=True)
class Route:
    """The order in which a new row of `origin` visits the other inputs.

    A join that takes many new rows at a time may begin elsewhere, at `start`; the origin is then one of the steps.
    """

    origin: str
    steps: tuple[Step, ...]
    start: str = ""

    def __post_init__(self) -> None:
        if not self.start:
            object.__setattr__(self, "start", self.origin)

    @property
    def visits(self) -> tuple[str, ...]:
        return (self.start, *(step.stream for step in self.steps))


@dataclass(frozen=True)
class JoinStrategy:
    """Everything the join operator is built from. `filters` run before a row is stored; `residuals` are tested
    on combinations, on whole ones unless a step of a route says so; `verified` are equalities whose codes are hashes,
    tested on the real values of whole combinations.

    `measured` is what was seen of the inputs so far. `tests_early`: whether combinations may be tested on their way,
    for which the columns of all their rows must be there."""

    join: Join
    method: Method = field(default_factory=Method)
    filters: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    equalities: tuple[Equality, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    residuals: tuple[Expression, ...] = ()
    verified: tuple[Expression, ...] = ()
    rows_kept: Mapping[str, float | None] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    measured: JoinStatistics | None = None
    tests_early: bool = True

    @property
    def is_flexible(self) -> bool:
        """Whether routes may change while the join runs: it is the engine's own, with more than one order or index to
        choose from, and no order was asked for."""
        if self.method.is_classic or self.method.orders:
            return False
        # Two inputs have one order; only comparisons give an index besides to choose.
        return len(self.join.inputs) > 2 or (len(self.join.inputs) == 2 and bool(self.comparisons))

    def route(self, origin: str) -> Route:
        return next(route for route in self.routes if route.origin == origin)

    def stored_codes(self, stream: str) -> tuple[Code, ...]:
        """The codes a store must hold: those searched by, and those a later step compares with; all that any route
        may ask for if routes may change."""
        # Any route may come, and stores cannot make codes of rows whose columns they have let go.
        if self.is_flexible:
            return self._compared_codes(stream)
        codes: dict[Code, None] = {}
        for route in self.routes:
            for step in route.steps:
                own = [*step.key, *(c.own for c in step.comparisons), *([step.sorted_by] if step.sorted_by else [])]
                bound = [*(b for b, _ in step.equalities), *(c.bound for c in step.comparisons)]
                # A new row has its codes at hand, unless the route starts elsewhere and finds it in its store.
                reached = [code for code in bound if code.stream != route.origin or route.start != route.origin]
                codes.update(dict.fromkeys(code for code in (*own, *reached) if code.stream == stream))
        return tuple(codes)

    def probing_codes(self, stream: str) -> tuple[Code, ...]:
        """The codes of a new row that its own route compares with, or any route it may take."""
        if self.is_flexible:
            return self._compared_codes(stream)
        codes: dict[Code, None] = {}
        for route in self.routes:
            for step in route.steps if route.origin == stream else ():
                bound = [*(b for b, _ in step.equalities), *(c.bound for c in step.comparisons)]
                codes.update(dict.fromkeys(code for code in bound if code.stream == stream))
        return tuple(codes)

    def _compared_codes(self, stream: str) -> tuple[Code, ...]:
        pairs = [(e.left, e.right) for e in self.equalities] + [(c.own, c.bound) for c in self.comparisons]
        return tuple(dict.fromkeys(code for pair in pairs for code in pair if code.stream == stream))

    def hash_keys(self, stream: str) -> tuple[tuple[Code, ...], ...]:
        """The distinct keys by which a store is searched through a hash index."""
        steps = [step for route in self.routes for step in route.steps if step.stream == stream]
        return tuple(dict.fromkeys(step.key for step in steps if step.access == "hash"))

    def sorted_keys(self, stream: str) -> tuple[Code, ...]:
        steps = [step for route in self.routes for step in route.steps if step.stream == stream]
        return tuple(dict.fromkeys(step.sorted_by for step in steps if step.sorted_by is not None))
