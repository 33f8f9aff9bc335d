"""Scalar expressions, bound to streams and typed. Frozen values, compared by content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from math import isnan, nan
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import format_interval
from watersmeet.model.types import sql_type
from watersmeet.model.zones import moved
from watersmeet.plan.user_functions import UserFunction


@dataclass(frozen=True)
class Column:
    """A column of one input of the query, named by its alias."""

    stream: str
    name: str
    type: pa.DataType

    def __hash__(self) -> int:
        """Columns are looked up for every batch; a type takes long to hash, and tells hardly any two apart."""
        return hash((self.stream, self.name))


@dataclass(frozen=True)
class Literal:
    """A constant. Intervals are ints of microseconds with type duration('us')."""

    value: Any
    type: pa.DataType

    def __post_init__(self) -> None:
        # One and the same, so that an expression with it equals its like: no other NaN is equal to any.
        if isinstance(self.value, float) and isnan(self.value):
            object.__setattr__(self, "value", nan)


@dataclass(frozen=True)
class EventTime:
    """`event_time()`: the newest member's time."""

    type: pa.DataType = field(default_factory=lambda: pa.timestamp("us"))


@dataclass(frozen=True)
class Call:
    """A function or operator applied to arguments; plan.functions lists the names and their types.

    CASE is `case(condition, value, condition, value, …, otherwise)`; CAST is `cast(x)` with the target type.
    """

    function: str
    args: tuple[Expression, ...]
    type: pa.DataType
    user: UserFunction | None = None  # a function that a user has brought


@dataclass(frozen=True)
class Way:
    """Which way values go in an order. NULLs are last, upwards and downwards, unless they are first."""

    descending: bool = False
    nulls_first: bool = False


# Aggregates to which NULL is a value like any other.
WITH_NULLS = frozenset(("array_agg", "json_agg", "json_object_agg", "jsonb_object_agg", "map_agg"))
# All values of a group in an order: that of time, unless another is said.
IN_ORDER = frozenset(("string_agg", *WITH_NULLS))
# Their value depends on the order of rows in time.
BY_TIME = frozenset(("first", "last", "mode", "arg_min", "arg_max", *IN_ORDER))


@dataclass(frozen=True)
class Aggregate:
    """An aggregate call in a continuous query, e.g. COUNT(DISTINCT x).

    If `is_marked`, its first argument is `pack(whether the row counts, value, …, key, …)`, with a key of ORDER BY for
    each of `order_by`; rows that these do not tell apart go by time. `timeless`: there are none, or they are equal.
    """

    function: str
    args: tuple[Expression, ...]
    type: pa.DataType
    distinct: bool = False
    user: UserFunction | None = None
    order_by: tuple[Way, ...] = ()
    timeless: bool = False

    @property
    def is_marked(self) -> bool:
        return bool(self.order_by) or self.takes_nulls

    @property
    def takes_nulls(self) -> bool:
        """Whether rows count in which it is of NULL."""
        several = self.user is not None and len(self.user.arguments) > 1
        return several or self.function in WITH_NULLS


@dataclass(frozen=True)
class SortKey:
    """One key of ORDER BY. NULLs are last, upwards and downwards, unless they are first."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Frame:
    """The rows that a function of OVER looks at: from `start` to `end`, so many rows, microseconds, or groups of rows
    that ORDER BY does not tell apart, after the current one, and before it if negative. None: from the first, to the
    last. With `range` 0 means all that ORDER BY does not tell from the current one. `exclude`: who is left out."""

    unit: OneOf["rows", "range", "groups"]
    start: int | None
    end: int | None = 0
    exclude: OneOf["", "current row", "group", "ties"] = ""

    @property
    def whole(self) -> bool:
        return self.start is None and self.end is None and not self.exclude

    @property
    def ends_here(self) -> bool:
        """Whether rows enter it in turn, each when it is the current one."""
        begun = self.start is None or self.start <= 0
        return begun and self.end == 0 and not self.exclude and self.unit != "groups"

    @property
    def by_keys(self) -> bool:
        """Whether it is measured by the keys of ORDER BY."""
        return self.unit == "range" and (self.start is not None or self.end not in (None, 0))


@dataclass(frozen=True)
class OverCall:
    """`f(…) OVER (PARTITION BY … ORDER BY …)`: for a row, a value made of the rows around it. Aggregates go by their
    names in plan.functions, the others by those in plan.over_functions. `offset` is how many rows away LAG and LEAD
    look, which row of the frame NTH_VALUE is, how many parts NTILE makes; `by` says so where it differs from row to
    row. `ignores_nulls`: rows without a value do not count for that."""

    function: str
    args: tuple[Expression, ...]
    type: pa.DataType
    partition_by: tuple[Expression, ...]
    order_by: tuple[SortKey, ...]
    frame: Frame
    offset: int = 0
    distinct: bool = False
    user: UserFunction | None = None
    inside_by: tuple[Way, ...] = ()  # what ORDER BY inside the call says, see Aggregate
    by: Expression | None = None
    ignores_nulls: bool = False

    @property
    def aggregate(self) -> Aggregate:
        """What is made of the rows of a frame."""
        return Aggregate(self.function, self.args, self.type, self.distinct, self.user, self.inside_by)

    @property
    def parts(self) -> tuple[Expression, ...]:
        computed = () if self.by is None else (self.by,)
        return (*self.args, *computed, *self.partition_by, *(key.expression for key in self.order_by))

    def over(self, rewrite: Callable[[Expression], Expression]) -> OverCall:
        """The call with every part rewritten."""
        return replace(
            self,
            args=tuple(map(rewrite, self.args)),
            partition_by=tuple(map(rewrite, self.partition_by)),
            order_by=tuple(replace(key, expression=rewrite(key.expression)) for key in self.order_by),
            by=None if self.by is None else rewrite(self.by),
        )


Expression = Column | Literal | EventTime | Call | Aggregate | OverCall


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it, outermost first."""
    yield expression
    if isinstance(expression, Call | Aggregate | OverCall):
        for arg in expression.parts if isinstance(expression, OverCall) else expression.args:
            yield from walk(arg)


def replaced(expression: Expression, rewrite: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with every outermost part that `rewrite` answers replaced by its answer."""
    answer = rewrite(expression)
    if answer is not None:
        return answer
    if isinstance(expression, OverCall):
        return expression.over(lambda part: replaced(part, rewrite))
    if isinstance(expression, Call | Aggregate):
        return replace(expression, args=tuple(replaced(arg, rewrite) for arg in expression.args))
    return expression


def columns_of(expression: Expression) -> set[Column]:
    return {e for e in walk(expression) if isinstance(e, Column)}


def streams_of(expression: Expression) -> set[str]:
    """The inputs whose rows the value depends on."""
    return {column.stream for column in columns_of(expression)}


def uses_event_time(expression: Expression) -> bool:
    return any(isinstance(e, EventTime) for e in walk(expression))


def conjuncts(expression: Expression, word: str = "and") -> list[Expression]:
    """The parts that AND, or another word, joins together."""
    if isinstance(expression, Call) and expression.function == word:
        return [part for arg in expression.args for part in conjuncts(arg, word)]
    return [expression]


_INFIX = {
    "and": "AND", "or": "OR", "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulo": "%", "concat": "||", "like": "LIKE",
    "int_divide": "//", "bit_and": "&", "bit_or": "|",
    # Sums taken generously, and sums that stop at the limits: see optimizer.classify_predicates.
    "wide_add": "+~", "wide_subtract": "-~", "stopping_add": "+", "stopping_subtract": "-",
}  # fmt: skip


def to_text(expression: Expression) -> str:
    """The expression in SQL's words, for plans and messages."""
    match expression:
        case Column(stream=stream, name=name):
            return f"{stream}.{name}" if stream else name  # output columns belong to no stream
        case Literal(value=value, type=kind):
            return _literal_text(value, kind)
        case EventTime():
            return "event_time()"
        case Aggregate():
            return _aggregate_text(expression)
        case OverCall():
            return _over_text(expression)
        case Call():
            return _call_text(expression)


def sort_key_text(key: SortKey) -> str:
    return to_text(key.expression) + _way_text(key)


def _way_text(way: Way | SortKey) -> str:
    return " DESC" * way.descending + " NULLS FIRST" * way.nulls_first


def _aggregate_text(call: Aggregate) -> str:
    inside, only = _inside_text(call)
    return f"{called(call)}({'DISTINCT ' * call.distinct}{inside or '*'}){only}"


def _inside_text(call: Aggregate) -> tuple[str, str]:
    """What stands between the parentheses of an aggregate, and its FILTER behind them."""
    match call.args:
        case (Call(function="pack", args=(counts, *packed)), *others) if call.is_marked:
            values = packed[: len(packed) - len(call.order_by)]
            keys = zip(packed[len(values) :], call.order_by, strict=True)
            order = ", ".join(to_text(key) + _way_text(way) for key, way in keys)
            inside = ", ".join(map(to_text, [*values, *others])) + (f" ORDER BY {order}" if order else "")
            return inside, "" if counts == Literal(True, pa.bool_()) else f" FILTER (WHERE {to_text(counts)})"
        case (Call(function="pack", args=values), *others):
            return ", ".join(map(to_text, [*values, *others])), ""
    return ", ".join(map(to_text, call.args)), ""


def _over_text(call: OverCall) -> str:
    inside, only = _inside_text(call.aggregate)
    given = [inside] if inside else []
    if call.function in ("lag", "lead", "nth_value", "ntile"):
        given = [*map(to_text, call.args)]
        given.insert(1, str(call.offset) if call.by is None else to_text(call.by))
    elif not given and call.function == "count":
        given = ["*"]
    about = []
    if call.partition_by:
        about.append(f"PARTITION BY {', '.join(map(to_text, call.partition_by))}")
    if call.order_by:
        about.append(f"ORDER BY {', '.join(map(sort_key_text, call.order_by))}")
    about += [text] if (text := frame_text(call)) else []
    inside = f"{'DISTINCT ' * call.distinct}{', '.join(given)}{' IGNORE NULLS' * call.ignores_nulls}"
    return f"{called(call)}({inside}){only} OVER ({' '.join(about)})"


def frame_text(call: OverCall) -> str:
    """The frame in SQL's words, where it matters and is not what it would be anyway."""
    frame = call.frame
    if frame == Frame("range", None) or frame.whole:
        return ""
    unit = frame.unit.upper()
    left_out = f" EXCLUDE {frame.exclude.upper()}" if frame.exclude else ""
    since = _bound_text(frame, frame.start, "PRECEDING")
    if frame.end == 0 and since.endswith("PRECEDING"):
        return f"{unit} {since}{left_out}"
    return f"{unit} BETWEEN {since} AND {_bound_text(frame, frame.end, 'FOLLOWING')}{left_out}"


def _bound_text(frame: Frame, at: int | None, outermost: str) -> str:
    if at is None:
        return f"UNBOUNDED {outermost}"
    if at == 0:
        return "CURRENT ROW"
    size = f"INTERVAL '{format_interval(abs(at))}'" if frame.unit == "range" else str(abs(at))
    return f"{size} {'PRECEDING' if at < 0 else 'FOLLOWING'}"


def _literal_text(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "NULL"
    if pa.types.is_duration(kind):
        return f"INTERVAL '{format_interval(value)}'"
    if pa.types.is_timestamp(kind):
        return f"TIMESTAMP '{value}'" if kind.tz is None else f"TIMESTAMPTZ '{_in_zone(value, kind.tz)}'"
    if pa.types.is_date(kind):
        return f"DATE '{value}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def _in_zone(value: Any, zone: str) -> Any:
    try:
        return moved(value, zone)
    except (ValueError, AttributeError):  # beyond Python's years, or not made from text
        return value


def _call_text(call: Call) -> str:
    texts = [_operand(arg) for arg in call.args]
    if call.function in _INFIX:
        return f" {_INFIX[call.function]} ".join(texts)
    match call.function:
        case "not":
            return f"NOT {texts[0]}"
        case "negate":
            return f"-{texts[0]}"
        case "is_null":
            return f"{texts[0]} IS NULL"
        case "in":
            return f"{texts[0]} IN ({', '.join(map(to_text, call.args[1:]))})"
        case "cast" | "try_cast":
            return f"{call.function.upper()}({to_text(call.args[0])} AS {sql_type(call.type)})"
        case "case":
            return _case_text(call)
        case "bit_not":
            return f"~{texts[0]}"
        case "plus_months":
            return f"{texts[0]} + {_months_text(call.args[1])}"
        case "at_time_zone":
            return f"{texts[0]} AT TIME ZONE {texts[1]}"
        case "date_plus_days":
            return f"DATE_ADD({', '.join(map(to_text, call.args))})"
        case "field":
            return f"{texts[0]}.{call.args[1].value if isinstance(call.args[1], Literal) else texts[1]}"
        case "element":
            return f"{texts[0]}[{to_text(call.args[1])}]"
        case "slice":
            first, last = ("" if arg == Literal(None, pa.null()) else to_text(arg) for arg in call.args[1:])
            return f"{texts[0]}[{first}:{last}]"
    return f"{called(call)}({', '.join(map(to_text, call.args))})"


def _months_text(months: Expression) -> str:
    if isinstance(months, Literal) and months.value is not None:
        return f"INTERVAL '{months.value}' MONTH"
    return f"{to_text(months)} * INTERVAL '1' MONTH"


def called(call: Call | Aggregate | OverCall) -> str:
    """The name by which people know a function."""
    return call.function.upper() if call.user is None else call.user.name


def _operand(expression: Expression) -> str:
    text = to_text(expression)
    # Parentheses around every operator: what is printed need not know which binds tighter.
    return f"({text})" if isinstance(expression, Call) and expression.function in _INFIX else text


def _case_text(call: Call) -> str:
    pairs = zip(call.args[0:-1:2], call.args[1:-1:2], strict=True)
    whens = " ".join(f"WHEN {to_text(c)} THEN {to_text(v)}" for c, v in pairs)
    return f"CASE {whens} ELSE {to_text(call.args[-1])} END"


def goes_by_time(expression: Expression) -> bool:
    """Whether it is an aggregate whose value depends on the order of rows in time."""
    if not isinstance(expression, Aggregate) or expression.timeless:
        return False
    return expression.function in BY_TIME or expression.user is not None
