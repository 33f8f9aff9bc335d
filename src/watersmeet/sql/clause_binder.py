"""What binds the expressions of one clause, as those know it that bind a part of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import BindError, UnsupportedError
from watersmeet.model.types import is_instant, is_text, sql_type
from watersmeet.plan.expressions import Call, Expression, Literal
from watersmeet.plan.functions import check_cast, result_type
from watersmeet.plan.user_functions import UserFunction
from watersmeet.sql import literals
from watersmeet.sql.midnights import mixes_dates, warn_of_midnights, with_midnights
from watersmeet.sql.quotients import COMPARISONS, warn_of_quotients
from watersmeet.sql.scope import Scope
from watersmeet.sql.syntax import span_of

_ALIKE = ("eq", "ne", "lt", "le", "gt", "ge", "coalesce", "greatest", "least", "list_value")
_MEETING = (*_ALIKE, "in", "nullif")


@dataclass(frozen=True)
class ClauseBinder(ABC):
    """Binds expressions of one clause. `clause` names it in messages about what may not stand there."""

    scope: Scope
    clause: str
    aggregates: bool = False
    event_time: bool = True
    outputs: Mapping[str, Expression] = field(default_factory=dict)
    """What may be named besides columns, in lower case: those of the select list."""

    @abstractmethod
    def bind(self, node: exp.Expr) -> Expression: ...

    @property
    def own_functions(self) -> Mapping[str, UserFunction]:
        return self.scope.text.functions

    def bind_all(self, nodes: Sequence[exp.Expr]) -> list[Expression]:
        return [self.bind(node) for node in nodes]

    def condition(self, node: exp.Expr) -> Expression:
        bound = self.bind(node)
        # WHERE NULL is legal: a condition that never holds.
        if bound == literals.NULL:
            return Literal(None, pa.bool_())
        if not pa.types.is_boolean(bound.type):
            raise self.error(
                f"{self.clause} needs a condition, but this is {sql_type(bound.type)}",
                node,
                hint="compare it with something, for example = 1",
            )
        return bound

    def call(self, function: str, args: Sequence[Expression], node: exp.Expr) -> Expression:
        try:
            # Before the arguments are fitted, which makes a time of the date.
            if function == "eq":
                warn_of_midnights(*args)
            if function in COMPARISONS:
                warn_of_quotients(args, self.scope.text)
            if (constant := literals.computed(function, args)) is not None:
                return constant
            fitted = _fitted(function, list(args))
            if function in ("in", "nullif") and mixes_dates(fitted):
                return self._by_pairs(function, fitted, node)
            return typed_call(function, *fitted)
        except (TypeError, ValueError) as error:
            raise self.error(str(error), node) from None

    def converted(self, value: Expression, target: pa.DataType, node: exp.Expr) -> Expression:
        try:
            check_cast(value.type, target)
            if isinstance(value, Literal):
                return literals.cast(value, target)
        except (TypeError, ValueError) as error:
            raise self.error(str(error), node) from None
        return Call("cast", (value,), target)

    def error(
        self,
        message: str,
        node: exp.Expr,
        *,
        hint: str | None = None,
        kind: type[BindError | UnsupportedError] = BindError,
    ) -> Exception:
        return self.scope.text.error(message, span_of(node), hint=hint, kind=kind)

    def _by_pairs(self, function: str, args: list[Expression], node: exp.Expr) -> Expression:
        """IN and NULLIF between dates and times, where a date is another midnight for each it is compared with."""
        tests = [self.call("eq", [args[0], other], node) for other in args[1:]]
        if function == "nullif":
            return self.call("case", [tests[0], literals.NULL, args[0]], node)
        return tests[0] if len(tests) == 1 else self.call("or", tests, node)


def typed_call(function: str, *args: Expression) -> Expression:
    """A call of arguments that fit as they are."""
    return Call(function, args, result_type(function, [arg.type for arg in args]))


def _fitted(function: str, args: list[Expression]) -> list[Expression]:
    """The arguments of a function with the types in which they meet."""
    if function in _MEETING:
        met = literals.meet(args)
        # IN and NULLIF keep their dates here: each pair is compared by itself, by `_by_pairs`.
        return with_midnights(met) if function in _ALIKE else met
    if function == "case":
        # The results of a CASE meet each other; its conditions, in between, stay as they are.
        values = with_midnights(literals.meet([*args[1:-1:2], args[-1]]))
        pairs = [part for pair in zip(args[0:-1:2], values[:-1], strict=True) for part in pair]
        return [*pairs, values[-1]]
    if function == "date_diff":
        return [args[0], *with_midnights(literals.meet([*args[1:]]))]
    if function == "time_bucket" and len(args) > 1:
        return [_as_interval(args[0]), *literals.meet(args[1:])]
    if function in ("add", "subtract") and any(is_instant(a.type) or pa.types.is_duration(a.type) for a in args):
        return with_midnights([_as_interval(arg) for arg in args])
    return args


def _as_interval(arg: Expression) -> Expression:
    """A text constant added to a time or an interval is an interval."""
    if isinstance(arg, Literal) and is_text(arg.type):
        return literals.fitted(arg, pa.duration("us"))
    return arg
