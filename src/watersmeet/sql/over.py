"""`f(…) OVER (…)`: which rows a function looks at, in which order, and whether that is known for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsupportedError
from watersmeet.model.types import comparable, is_instant, sql_type
from watersmeet.plan.expressions import Aggregate, Expression, Frame, Literal, OverCall, SortKey
from watersmeet.plan.over_functions import FRAMELESS, NUMBERED, OFFSETS, OVER_FUNCTIONS, VALUES, over_type
from watersmeet.sql import literals
from watersmeet.sql.aggregate_calls import AggregateCalls, made_of_aggregates, names_aggregate, without_word_on_nulls
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.syntax import Duration, span_of

NamedWindows = Mapping[str, exp.Window]
ALL_BEFORE, ALL = Frame("range", None), Frame("range", None, None)
_MOST_ROWS = 10**18  # so that a sum of a few such numbers is still an int64
_FORM = "write ROWS BETWEEN 10 PRECEDING AND CURRENT ROW, or RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW"


@dataclass(frozen=True)
class OverBinder(ExpressionBinder):
    """Binds expressions of a clause in which OVER may stand. `windows` are those that WINDOW names."""

    windows: NamedWindows = field(default_factory=dict)

    def over(self, node: exp.Window) -> Expression:
        call, only = node.this, None
        if isinstance(call, exp.Filter):
            call, only = call.this, call.expression.this
        if (made := made_of_aggregates(call, only, self.own_functions)) is not None:
            return self.bind(made.transform(lambda part: self._over_the_same(part, node)))
        return _Calls(self).bind(node)

    def _over_the_same(self, part: exp.Expr, node: exp.Window) -> exp.Expr:
        """An aggregate, with its FILTER, over the rows that OVER says of what it is a part of."""
        is_inside = isinstance(part.parent, exp.Filter | exp.Window)
        named = part.this if isinstance(part, exp.Filter) else part
        if is_inside or not names_aggregate(named, self.own_functions):
            return part
        window = node.copy()
        window.set("this", part.copy())
        return window


class _Calls:
    """Binds the functions of OVER in one clause, whose other expressions `around` binds."""

    def __init__(self, around: OverBinder) -> None:
        self.around = around
        self.inside = ExpressionBinder(
            around.scope, "OVER (…)", around.aggregates, around.event_time, outputs=around.outputs
        )
        self.named = around.windows

    def bind(self, node: exp.Window) -> OverCall:
        window = self._resolved(node)
        partition = tuple(self.inside.bind(part) for part in window.args.get("partition_by") or ())
        order = window.args.get("order")
        keys = tuple(
            SortKey(self.inside.bind(key.this), bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
            for key in (order.expressions if order is not None else ())
        )
        frame = self._frame(window, keys)
        call, ignores = without_word_on_nulls(node.this)
        name = str(call.name).lower() if isinstance(call, exp.Anonymous) else ""
        made = OverCall("", (), pa.null(), partition, keys, frame)
        if ignores is not None and name not in (*OFFSETS, *VALUES, "first", "last"):
            raise self._error(
                "IGNORE NULLS and RESPECT NULLS go with LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE",
                node,
                hint="aggregates such as SUM(x) pass over NULLs anyway",
            )
        # FIRST and LAST are the aggregates: they pass over NULLs.
        if ignores is False and name in ("first", "last"):
            name += "_value"
        elif ignores and name in ("first_value", "last_value"):
            name = name.removesuffix("_value")
            call = call.copy()
            call.set("this", name)
        if isinstance(call, exp.Anonymous) and name in OVER_FUNCTIONS:
            return self._function(name, call, replace(made, ignores_nulls=bool(ignores)), node)
        return self._aggregate(call, made, node)

    # -- what is called -------------------------------------------------------------------------------------

    def _function(self, name: str, call: exp.Anonymous, made: OverCall, node: exp.Window) -> OverCall:
        if not made.order_by:
            raise self._error(
                f"{name.upper()} needs ORDER BY in OVER: without one no row is the first",
                node,
                hint=f"write {name.upper()}({_example(name)}) OVER (PARTITION BY k ORDER BY ts)",
            )
        nodes = list(call.expressions)
        place = 0 if name == "ntile" else 1
        number = nodes.pop(place) if name in NUMBERED and len(nodes) > place else None
        args = [self.inside.bind(one) for one in nodes]
        try:
            if name in OFFSETS and len(nodes) > 2:
                raise TypeError(f"{name.upper()} takes 1 to 3 arguments, not {len(nodes) + 1}")
            kind = over_type(name, [arg.type for arg in args])
            if len(args) == 2:
                args[1] = self._as_default(args[1], kind)
        except (TypeError, ValueError) as error:
            raise self._error(str(error), node) from None
        framed = ALL_BEFORE if name in FRAMELESS else made.frame
        made = replace(made, function=name, args=tuple(args), type=kind, frame=framed)
        return self._numbered(made, number, node) if name in NUMBERED else made

    def _numbered(self, made: OverCall, number: exp.Expr | None, node: exp.Window) -> OverCall:
        """With how many rows away it looks, or which row it is, or how many parts there are."""
        name = made.function
        if number is None and name in OFFSETS:
            return replace(made, offset=1)
        given = Literal(None, pa.null()) if number is None else self.inside.bind(number)
        if not pa.types.is_integer(given.type) or (isinstance(given, Literal) and given.value is None):
            raise self._error(f"{name.upper()} needs a whole number", node, hint=_numbers(name))
        if not isinstance(given, Literal):
            if name == "ntile":
                raise self._error("NTILE needs a constant: all rows are in equal parts", node, hint=_numbers(name))
            return replace(made, by=given)
        offset = self._counted(int(given.value), node)
        if name not in OFFSETS:
            if offset < 1:
                raise self._error(f"{name.upper()} counts from 1, not from {offset}", node, hint=_numbers(name))
            return replace(made, offset=offset)
        # A negative one looks the other way; the current row is no other one, whatever it holds.
        other = name if offset >= 0 else OFFSETS[1 - OFFSETS.index(name)]
        return replace(made, function=other, offset=abs(offset), ignores_nulls=made.ignores_nulls and offset != 0)

    def _counted(self, rows: int, node: exp.Window) -> int:
        if abs(rows) >= _MOST_ROWS:
            raise self._error(f"{abs(rows)} rows are more than this system can count", node)
        return rows

    @staticmethod
    def _as_default(given: Expression, kind: pa.DataType) -> Expression:
        given = literals.fitted(given, kind) if isinstance(given, Literal) else given
        if isinstance(given, Literal) and (given.value is None or comparable(given.type, kind)):
            return literals.cast(given, kind)
        if given.type != kind:
            raise TypeError(
                f"the third argument stands in for the first and must have its type, {sql_type(kind)}, not "
                f"{sql_type(given.type)}; write CAST(… AS {sql_type(kind)})"
            )
        return given

    def _aggregate(self, call: exp.Expr, made: OverCall, node: exp.Window) -> OverCall:
        only = None
        named = call
        if isinstance(call, exp.Filter):
            named, only = call.this, call.expression.this
        aggregates = AggregateCalls(replace(self.around, aggregates=True), self.inside, over=True)
        if isinstance(named, exp.WithinGroup):
            bound = aggregates.within(named, only)
        elif names_aggregate(named, self.around.own_functions):
            bound = aggregates.bind(named, only)
        elif str(named.name).lower() in OVER_FUNCTIONS:
            raise self._error("FILTER (WHERE …) goes with an aggregate", node, hint="filter before: FROM a WHERE x > 1")
        else:
            hint = "the others are aggregates such as SUM(x); write COUNT(*) FILTER (WHERE …) OVER (…)"
            functions = ", ".join(one.upper() for one in OVER_FUNCTIONS)
            words = self.around.scope.text.piece(span_of(named))
            raise self._error(f"{words} does not go with OVER", node, hint=f"{functions} do; {hint}")
        assert isinstance(bound, Aggregate)
        return replace(
            made, function=bound.function, args=bound.args, type=bound.type, distinct=bound.distinct, user=bound.user,
            inside_by=bound.order_by,
        )  # fmt: skip

    # -- the rows around ------------------------------------------------------------------------------------

    def _resolved(self, node: exp.Window) -> exp.Window:
        """With what WINDOW w AS (…) says."""
        alias = node.args.get("alias")
        if alias is None:
            return node
        base = self.named.get(alias.name.lower())
        if base is None:
            known = ", ".join(self.named)
            raise self._error(
                f"there is no window {alias.name}",
                node,
                hint=f"known are {known}" if known else "write WINDOW w AS (PARTITION BY k ORDER BY ts) after WHERE",
            )
        base = self._resolved(base)
        if node.args.get("partition_by") or (node.args.get("order") and base.args.get("order")):
            raise self._error(f"the window {alias.name} says its partition and order already", node)
        parts = {key: node.args.get(key) or base.args.get(key) for key in ("partition_by", "order", "spec")}
        return exp.Window(this=node.this, **parts)

    def _frame(self, node: exp.Window, keys: tuple[SortKey, ...]) -> Frame:
        spec = node.args.get("spec")
        if spec is None:
            return ALL_BEFORE if keys else ALL
        unit = str(spec.args["kind"]).lower()
        start, end = self._bound(spec, "start", unit, node), self._bound(spec, "end", unit, node)
        self._check_sides(spec, node)
        exclude = "" if spec.args.get("exclude") is None else str(spec.args["exclude"].name).lower()
        frame = _simplest(Frame(unit, start, end, "" if exclude == "no others" else exclude))  # type: ignore[arg-type]
        if frame.whole:
            return ALL
        if not keys:
            raise self._error(f"{unit.upper()} in OVER needs ORDER BY, to say which rows come before", node, hint=_FORM)
        if {start, end} <= {None, 0}:
            by_time = len(keys) == 1 and is_instant(keys[0].expression.type)
            # All of one key are a group, whatever the key is; of times it is known how long they matter.
            return replace(frame, unit="groups") if frame.by_keys and not by_time else frame
        return self._timed(frame, keys, node) if unit == "range" else frame

    def _bound(self, spec: exp.WindowSpec, which: str, unit: str, node: exp.Window) -> int | None:
        given, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "").upper()
        if given is None or given == "CURRENT ROW":
            return 0
        if given == "UNBOUNDED":
            if side != ("PRECEDING" if which == "start" else "FOLLOWING"):
                raise self._error(f"a frame does not {_verb(which)} with UNBOUNDED {side}", node, hint=_FORM)
            return None
        if not side:
            raise self._error(f"say on which side: PRECEDING or FOLLOWING, in {unit.upper()}", node, hint=_FORM)
        if unit == "range":
            if not isinstance(given, Duration):
                raise self._error("RANGE needs an interval", node, hint=_FORM)
            size = int(given.args["us"])
            if size < 0:
                raise self._error("RANGE needs an interval that is not negative", node, hint=_FORM)
        else:
            bound = self.inside.bind(given)
            if not isinstance(bound, Literal) or not pa.types.is_integer(bound.type) or bound.value < 0:
                raise self._error(f"{unit.upper()} needs a number of {unit}", node, hint=_FORM)
            size = self._counted(int(bound.value), node)
        return -size if side == "PRECEDING" else size

    def _check_sides(self, spec: exp.WindowSpec, node: exp.Window) -> None:
        """What other systems refuse, too: words in the wrong order. A frame may be empty all the same."""
        order = ("PRECEDING", "", "FOLLOWING")
        first, last = (order.index(str(spec.args.get(side) or "").upper()) for side in ("start_side", "end_side"))
        if first > last and spec.args.get("end") is None:
            raise self._error(
                "a frame that begins after the current row does not end with it",
                node,
                hint="write BETWEEN CURRENT ROW AND 2 FOLLOWING",
            )
        if first > last:
            raise self._error(
                "a frame ends before it begins", node, hint="write BETWEEN 5 PRECEDING AND 2 PRECEDING, the first first"
            )

    def _timed(self, frame: Frame, keys: tuple[SortKey, ...], node: exp.Window) -> Frame:
        if len(keys) != 1:
            raise self._error("RANGE with an interval needs one key of ORDER BY", node, hint="order by the time alone")
        kind = keys[0].expression.type
        if not is_instant(kind):
            raise self._error(f"RANGE with an interval goes by a time, and not by {sql_type(kind)}", node, hint=_FORM)
        return frame

    def _error(
        self, message: str, node: exp.Expr, *, hint: str | None = None, kind: type[UnsupportedError] | None = None
    ) -> Exception:
        return self.around.error(message, node, hint=hint, **({} if kind is None else {"kind": kind}))


def _example(name: str) -> str:
    """Arguments for a function, to be shown."""
    if name in ("ntile", "nth_value"):
        return "4" if name == "ntile" else "x, 2"
    return "x" if name in (*OFFSETS, *VALUES) else ""


def _numbers(name: str) -> str:
    return f"write {name.upper()}({'x, 2' if name in OFFSETS else _example(name)})"


def _verb(which: str) -> str:
    return "begin" if which == "start" else "end"


def _simplest(frame: Frame) -> Frame:
    """The same rows in the fewest words: what is left out at an edge is not in the frame in the first place."""
    if frame.unit == "groups" and frame.start is None and frame.end in (None, 0) and frame.exclude != "group":
        frame = replace(frame, unit="range")
    by_groups = frame.unit == "groups" or not (frame.by_keys or frame.unit == "rows")
    if frame.end == 0 and frame.exclude == "current row" and frame.unit == "rows":
        return replace(frame, end=-1, exclude="")
    if frame.end == 0 and frame.exclude == "group" and by_groups:
        return replace(frame, unit="groups", end=-1, exclude="")
    return frame
