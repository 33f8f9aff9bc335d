"""Window constraints and conditions between streams, sorted into bounds, choices and predicates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.errors import WindowError
from watersmeet.model.windows import (
    Bound,
    Boundary,
    Choice,
    Range,
    directed_window,
    pair_window,
    path_window,
    range_words,
    single_window,
)
from watersmeet.plan.expressions import Expression, Literal, conjuncts, streams_of
from watersmeet.plan.nodes import AsOf, Input, Join, JoinKind
from watersmeet.sql.expressions import ExpressionBinder
from watersmeet.sql.scope import Scope
from watersmeet.sql.syntax import Constraint, Name, Span, WindowCondition, span_of
from watersmeet.sql.time_bounds import shifted_time, time_bounds
from watersmeet.sql.window_groups import bounds_of_equal_windows

NEAREST = "nearest"


@dataclass(frozen=True)
class NearestTime:
    """`NEAREST(b.ts, a.ts + …)`: of rows of one stream that is wanted whose time is nearest to that of another, so much
    later."""

    ends: tuple[str, str]
    apart_us: int

    def shift_us(self, alias: str) -> int:
        """What is added to the time of a stream, to which the other is to be near."""
        return self.apart_us if alias == self.ends[1] else -self.apart_us


@dataclass
class Conditions:
    """What WHERE, ON and the WINDOW constraints of one SELECT amount to; `places` is where each was written."""

    predicates: list[Expression] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)
    tied: list[frozenset[str]] = field(default_factory=list)  # the inputs that each condition is about
    nearest: list[NearestTime] = field(default_factory=list)  # of an as-of join


def bind_conditions(
    written: Iterable[exp.Expr],
    constraints: Iterable[Constraint],
    scope: Scope,
    boundary: Boundary,
    *,
    as_of: bool = False,
) -> Conditions:
    """as_of: those of an as-of join, which may ask for the nearest."""
    found = Conditions()
    for constraint in constraints:
        _add_constraint(found, constraint, scope, boundary)
    for condition in written:
        for part in conjuncts_of(condition):
            if isinstance(part, WindowCondition):
                _add_constraint(found, part.args["constraint"], scope, boundary)
            elif as_of and isinstance(part, exp.Anonymous) and part.name.lower() == NEAREST:
                found.nearest.append(_nearest(part, scope))
            else:
                _add_condition(found, part, scope)
    return found


def conjuncts_of(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.And):
        return conjuncts_of(node.this) + conjuncts_of(node.expression)
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.And | exp.Paren | WindowCondition):
        return conjuncts_of(node.this)
    return [node]


def _nearest(call: exp.Anonymous, scope: Scope) -> NearestTime:
    binder = ExpressionBinder(scope, "ON", event_time=False)
    times = [shifted_time(binder.bind(one), scope) for one in call.expressions]
    match times:
        case [(one, earlier_us), (other, later_us)] if one != other:
            return NearestTime((one, other), later_us - earlier_us)
    raise scope.text.error(
        "NEAREST takes the event times of two streams, the one that is looked for and the one it is to be near",
        span_of(call) or (0, 1),
        hint="write ASOF JOIN b ON a.k = b.k AND NEAREST(b.ts, a.ts)",
        kind=WindowError,
    )


def _add_condition(found: Conditions, node: exp.Expr, scope: Scope) -> None:
    bound = ExpressionBinder(scope, "WHERE or ON", event_time=False).condition(node)
    span = span_of(node)
    words = scope.text.piece(span)
    # Split once more: BETWEEN has become two comparisons, of which each may be a bound.
    found.tied.append(frozenset(streams_of(bound)))
    for part in conjuncts(bound):
        bounds = time_bounds(part, scope, words)
        if bounds is not None:
            found.bounds += bounds
            # By its words, which are what errors about windows tell; the first of equal ones is pointed at.
            found.places.setdefault(words, span or (0, 1))
        # `ON TRUE` says nothing.
        elif not (isinstance(part, Literal) and part.value is True):
            found.predicates.append(part)
            implied = bounds_of_equal_windows(part, scope, words)
            if implied:
                found.bounds += implied
                found.places.setdefault(words, span or (0, 1))


def _add_constraint(found: Conditions, constraint: Constraint, scope: Scope, boundary: Boundary) -> None:
    try:
        made = _constraint_bounds(constraint, scope, boundary)
    except WindowError as error:
        raise error.at(scope.text.sql, constraint.span) from None
    if isinstance(made, Choice):
        found.choices.append(made)
        written = made.alternatives[0][0].written
    else:
        found.bounds += made
        written = made[0].written
    found.places.setdefault(written, constraint.span)


def _constraint_bounds(constraint: Constraint, scope: Scope, boundary: Boundary) -> tuple[Bound, ...] | Choice:
    names = _streams(constraint, scope)
    size = constraint.sizes_us[0]
    match constraint.kind:
        case "all":
            return single_window(names, size, boundary)
        case "pair":
            return pair_window(names[0], names[1], size, boundary)
        case "directed":
            return directed_window(names[0], names[1], size, boundary)
        case "path":
            return path_window(names, constraint.sizes_us, boundary)


def _streams(constraint: Constraint, scope: Scope) -> list[str]:
    if constraint.kind == "all":
        # Tables and answers that change have no event time.
        names = [one.alias for one in scope.inputs if one.time is not None and not one.has_versions]
        if len(names) < 2:
            raise WindowError(
                "WINDOW = … bounds how far apart two streams may be, and here is only one",
                hint=f"write {(names or ['a'])[0]} [RANGE …] for a window over it",
            )
        return names
    names = [_stream(name, scope) for name in constraint.streams]
    _check_count(constraint, names)
    return names


def _stream(name: Name, scope: Scope) -> str:
    one = scope.input(name)
    if one.is_table:
        raise scope.text.error(f"{name.text} is a static table and has no event time", name.span, kind=WindowError)
    if one.has_versions:
        raise scope.text.error(
            f"{name.text} is a table with versions, each of which holds until the next",
            name.span,
            hint="leave it out of the constraint; WHERE can say how old a version may be",
            kind=WindowError,
        )
    if one.is_view:
        raise scope.text.error(
            f"{name.text} is an answer that changes, and its rows have no event time",
            name.span,
            hint="write SELECT ISTREAM … in it to take its rows as they appear, each with that time",
            kind=WindowError,
        )
    return one.alias


def _check_count(constraint: Constraint, names: list[str]) -> None:
    if len(set(names)) < len(names):
        if constraint.kind == "path":
            again = next(name for i, name in enumerate(names) if name in names[:i])
            # One row cannot be passed twice: 0 <= c - b and 0 <= b - c leave only equal times (H02's ABCBCD).
            raise WindowError(
                f"the path comes back to {again}, which is one row of each combination and has one time",
                hint=f"give the row of the second visit a name of its own: FROM …, {again} AS {again}2, and write that "
                "in the path",
            )
        raise WindowError("a stream stands twice in one constraint; name different streams")
    if constraint.kind != "path" and len(names) != 2:
        word = "DWINDOW" if constraint.kind == "directed" else "WINDOW"
        raise WindowError(
            f"{word} takes two streams, not {len(names)}",
            hint=f"write {word} (A, B) = 5 SECONDS, one constraint a pair joined by AND",
        )
    if constraint.kind == "path" and (len(names) < 2 or len(constraint.sizes_us) != len(names) - 1):
        raise WindowError(
            f"WINDOW PATH over {len(names)} streams needs {max(1, len(names) - 1)} sizes, "
            f"not {len(constraint.sizes_us)}",
            hint="write WINDOW PATH (A, B, C) = (5 SECONDS, 10 SECONDS): one size a step",
        )


def make_join(
    scope: Scope,
    found: Conditions,
    boundary: Boundary,
    places: dict[str, Span],
    kind: JoinKind = "inner",
    certain: tuple[tuple[str, Expression], ...] = (),
    asof: AsOf | None = None,
) -> Join:
    """The join, with what it finds wrong pointed at in the text; `places` are the sources' spans by alias."""
    try:
        return Join(
            scope.inputs,
            tuple(found.predicates),
            tuple(found.bounds),
            tuple(found.choices),
            boundary,
            kind,
            certain=certain,
            asof=asof,
        )
    except WindowError as error:
        raise error.at(scope.text.sql, _place(error, scope.inputs, found, places)) from None


def _place(error: WindowError, inputs: tuple[Input, ...], found: Conditions, places: dict[str, Span]) -> Span:
    """Where that stands which the error is about: an input, the first of the constraints at fault, or all of FROM."""
    if error.alias is not None:
        return places[error.alias]
    # [RANGE …] is no condition: it stands with its stream.
    ranges = {range_words(one.alias, one.window): places[one.alias] for one in inputs if isinstance(one.window, Range)}
    for written, span in [*found.places.items(), *ranges.items()]:
        if written in error.written:
            return span
    return (min(s for s, _ in places.values()), max(e for _, e in places.values()))
