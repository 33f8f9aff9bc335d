"""`f(…) OVER (…)`: which rows a function looks at, in which order, and whether that is known for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import UnsupportedError
from watersmeet.model.types import comparable, is_instant, sql_type
from watersmeet.plan.expressions import Aggregate, Expression, Frame, Literal, OverCall, SortKey
from watersmeet.plan.functions import aggregate_name
from watersmeet.plan.over_functions import NEVER_CERTAIN, OFFSETS, OVER_FUNCTIONS, RANKINGS, over_type
from watersmeet.sql import literals
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.syntax import Duration, span_of

NamedWindows = Mapping[str, exp.Window]
ALL_BEFORE = Frame("range", None)
_MOST_ROWS = 10**18  # so that a sum of a few such numbers is still an int64
_FORM = "write ROWS BETWEEN 10 PRECEDING AND CURRENT ROW, or RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW"
_AHEAD = "LEAD(x) looks ahead; or let the rows in a window, and group them: FROM a [RANGE 1 HOUR] GROUP BY k"


@dataclass(frozen=True)
class OverBinder(ExpressionBinder):
    """Binds expressions of a clause in which OVER may stand. `windows` are those that WINDOW names."""

    windows: NamedWindows = field(default_factory=dict)

    def over(self, node: exp.Window) -> Expression:
        return _Calls(self).bind(node)


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
        partition = tuple(self._plain(part, "partitioned by") for part in window.args.get("partition_by") or ())
        order = window.args.get("order")
        keys = tuple(
            SortKey(self._plain(key.this, "ordered by"), bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
            for key in (order.expressions if order is not None else ())
        )
        frame = self._frame(window, keys)
        call = node.this
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) or (
            isinstance(call, exp.Anonymous)
            and any(isinstance(one, exp.IgnoreNulls | exp.RespectNulls) for one in call.expressions)
        ):
            raise self._error(
                "IGNORE NULLS and RESPECT NULLS are not supported: NULLs count as any other value",
                node,
                hint="FIRST(x) and LAST(x) pass over NULLs; or filter them out before",
                kind=UnsupportedError,
            )
        name = str(call.name).lower() if isinstance(call, exp.Anonymous) else ""
        made = OverCall("", (), pa.null(), partition, keys, frame)
        if name in NEVER_CERTAIN:
            raise self._error(
                f"{name.upper()} is not supported: it needs the whole partition, whose end is not known",
                node,
                hint="ROW_NUMBER, RANK and DENSE_RANK count from the beginning",
                kind=UnsupportedError,
            )
        if name in OVER_FUNCTIONS:
            return self._function(name, call, made, node)
        return self._aggregate(call, made, node)

    # -- what is called -------------------------------------------------------------------------------------

    def _function(self, name: str, call: exp.Anonymous, made: OverCall, node: exp.Window) -> OverCall:
        if not made.order_by:
            raise self._error(
                f"{name.upper()} needs ORDER BY in OVER: without one no row is the first",
                node,
                hint=f"write {name.upper()}({'' if name in RANKINGS else 'x'}) OVER (PARTITION BY k ORDER BY ts)",
            )
        nodes = list(call.expressions)
        offset = self._offset(name, nodes, node) if name in OFFSETS else 0
        args = [self.inside.bind(one) for one in (nodes[:1] + nodes[2:3] if name in OFFSETS else nodes)]
        try:
            if name in OFFSETS and len(nodes) > 3:
                raise TypeError(f"{name.upper()} takes 1 to 3 arguments, not {len(nodes)}")
            kind = over_type(name, [arg.type for arg in args])
            if len(args) == 2:
                args[1] = self._as_default(args[1], kind)
        except (TypeError, ValueError) as error:
            raise self._error(str(error), node) from None
        framed = made.frame if name not in (*RANKINGS, *OFFSETS) else ALL_BEFORE
        return replace(made, function=name, args=tuple(args), type=kind, frame=framed, offset=offset)

    def _offset(self, name: str, nodes: list[exp.Expr], node: exp.Window) -> int:
        if len(nodes) < 2:
            return 1
        given = self.inside.bind(nodes[1])
        if not isinstance(given, Literal) or not isinstance(given.value, int) or given.value < 0:
            raise self._error(
                f"the second argument of {name.upper()} says how many rows away: a constant of 0 or more",
                node,
                hint=f"write {name.upper()}(x, 2)",
            )
        return self._counted(given.value, node)

    def _counted(self, rows: int, node: exp.Window) -> int:
        if rows >= _MOST_ROWS:
            raise self._error(f"{rows} rows are more than this system can count", node)
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
        brought = self.around.scope.text.functions.get(str(named.name).lower())
        known = aggregate_name(str(named.name)) is not None or (brought is not None and brought.kind == "aggregate")
        if isinstance(call, exp.WithinGroup):
            bound = replace(self.around, aggregates=True).within(call, inside=self.inside)
        elif isinstance(named, exp.Anonymous) and known:
            bound = replace(self.around, aggregates=True).aggregate(named, only, inside=self.inside)
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

    def _plain(self, node: exp.Expr, word: str) -> Expression:
        bound = self.inside.bind(node)
        if pa.types.is_nested(bound.type):
            raise self._error(f"rows cannot be {word} a nested value, {sql_type(bound.type)}", node)
        return bound

    def _frame(self, node: exp.Window, keys: tuple[SortKey, ...]) -> Frame:
        spec = node.args.get("spec")
        if spec is None:
            return ALL_BEFORE if keys else replace(ALL_BEFORE, whole=True)
        unit = str(spec.args["kind"]).lower()
        if unit not in ("rows", "range") or spec.args.get("exclude") is not None:
            words = "EXCLUDE" if unit in ("rows", "range") else unit.upper()
            raise self._error(f"{words} in OVER is not supported", node, hint=_FORM, kind=UnsupportedError)
        ends = self._end(spec, node)
        start = self._start(spec, unit, keys, node)
        if ends == "last" and start is not None:
            raise self._error("a frame that ends with the last row begins with the first", node, hint=_AHEAD)
        if ends == "last":
            return replace(ALL_BEFORE, whole=True)
        if not keys:
            raise self._error(f"{unit.upper()} in OVER needs ORDER BY, to say which rows come before", node, hint=_FORM)
        return Frame("rows" if unit == "rows" else "range", start)

    def _end(self, spec: exp.WindowSpec, node: exp.Window) -> str:
        end, side = spec.args.get("end"), str(spec.args.get("end_side") or "").upper()
        if end is None or end == "CURRENT ROW":
            return "current"
        if end == "UNBOUNDED" and side == "FOLLOWING":
            return "last"
        raise self._error(
            "a frame ends with the current row"
            if side == "FOLLOWING"
            else "a frame that ends before the current row is not supported",
            node,
            hint=_AHEAD if side == "FOLLOWING" else "LAG(x, n) is the row n before; " + _FORM,
            kind=UnsupportedError,
        )

    def _start(self, spec: exp.WindowSpec, unit: str, keys: tuple[SortKey, ...], node: exp.Window) -> int | None:
        start, side = spec.args["start"], str(spec.args.get("start_side") or "").upper()
        if side == "FOLLOWING":
            raise self._error("a frame begins at or before the current row", node, hint=_AHEAD, kind=UnsupportedError)
        if start == "UNBOUNDED":
            return None
        if unit == "rows":
            given = Literal(0, pa.int64()) if start == "CURRENT ROW" else self.inside.bind(start)
            if not isinstance(given, Literal) or not pa.types.is_integer(given.type) or given.value < 0:
                raise self._error("ROWS needs a number of rows", node, hint=_FORM)
            return self._counted(int(given.value), node)
        if start != "CURRENT ROW" and not isinstance(start, Duration):
            raise self._error("RANGE needs an interval", node, hint=_FORM)
        if len(keys) != 1:
            raise self._error("RANGE with an interval needs one key of ORDER BY", node, hint="order by the time alone")
        if start != "CURRENT ROW" and not is_instant(keys[0].expression.type):
            kind = sql_type(keys[0].expression.type)
            raise self._error(f"RANGE with an interval goes by a time, and not by {kind}", node, hint=_FORM)
        size = 0 if start == "CURRENT ROW" else int(start.args["us"])
        if size < 0:
            raise self._error("RANGE needs an interval that is not negative", node, hint=_FORM)
        return size

    def _error(
        self, message: str, node: exp.Expr, *, hint: str | None = None, kind: type[UnsupportedError] | None = None
    ) -> Exception:
        return self.around.error(message, node, hint=hint, **({} if kind is None else {"kind": kind}))
