"""A tree of joins as plan nodes: each join of two sides, of which one that is itself joined stands as a subquery.

In an answer that changes such a side is a view. In a join that only grows it is a stream: its rows carry the times of
their members, between which the conditions say exactly who matches; between the rows themselves stand bounds that are
wide enough for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import count

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import WindowError
from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US
from watersmeet.model.versions import Versions
from watersmeet.model.windows import (
    WINDOW_COLUMNS,
    Bound,
    Boundary,
    Hop,
    Landmark,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    Unbounded,
    Window,
    counting,
    is_counted,
    moves_in_steps,
)
from watersmeet.plan.asof_conditions import asof_conditions
from watersmeet.plan.expressions import (
    Call,
    Column,
    EventTime,
    Expression,
    Literal,
    columns_of,
    replaced,
    walk,
)
from watersmeet.plan.nodes import AsOf, Derived, Input, Join, JoinKind, Project, View
from watersmeet.sql.asof_reach import asof_reach, asof_time, check_each_row_counts, enriched_stream, refused_asof
from watersmeet.sql.clause_binder import typed_call
from watersmeet.sql.enriching import (
    compared_column,
    enriched_first,
    is_asof,
    looked_up,
    with_bare,
)
from watersmeet.sql.join_tree import Group, Leaf, Outer
from watersmeet.sql.scope import HIDDEN_TIME, Scope, event_time_type
from watersmeet.sql.spans import Shape, certain_after, crossing_bounds, ranges_between, reach, shapes_of
from watersmeet.sql.syntax import Span
from watersmeet.sql.windows import Conditions, make_join

NEWEST = "newest"
# Windows from which a row goes by its own time alone.
_BY_TIME = (Range, Stepped, Hop, Landmark, Unbounded, type(None))
Mapped = Callable[[Expression], Expression]


@dataclass(frozen=True)
class Made:
    """A join, and what expressions over the entries of FROM are over its inputs."""

    join: Join
    over: Mapped


@dataclass(frozen=True)
class Side:
    """One input of a join, the columns of FROM that it carries under other names, and the one with its newest time."""

    input: Input
    places: Mapping[Column, Column]
    newest: Column | None = None


class JoinBuilder:
    def __init__(self, scope: Scope, boundary: Boundary, places: dict[str, Span], *, changing: bool) -> None:
        self.scope = scope
        self.boundary: Boundary = boundary
        self.places = places
        self.changing = changing
        self._numbers = count(1)
        self._after: Sequence[Bound] = ()  # bounds of WHERE, which come after outer joins

    # ---- the whole FROM ---------------------------------------------------------------------------------------------

    def whole(self, tree: Group, where: Conditions, asked: Sequence[Expression]) -> Made:
        """`where` comes after the joins, except that between the members of an inner join it is a condition of it."""
        self._after = where.bounds
        if self.changing:
            tree = enriched_first(tree)
        if isinstance(tree.only, Outer):
            after = [*where.predicates, *self._as_predicates(where.bounds, tree.visible)]
            return self._filtered(tree.only, after, asked)
        joined, unsure = with_where(tree, where)
        joined.found.predicates.extend(self._as_predicates(unsure.bounds, tree.visible))
        return self._group(joined, asked)

    def _filtered(self, outer: Outer, after: list[Expression], asked: Sequence[Expression]) -> Made:
        if not after:
            return self._outer(outer, asked)
        if self.changing:
            side = self._side(Group((outer,)), [*asked, *after])
            over = _over([side])
            return Made(Join((side.input,), tuple(map(over, after)), boundary=self.boundary), over)
        made = self._outer(outer, [*asked, *after])
        return Made(replace(made.join, where=tuple(map(made.over, after))), made.over)

    # ---- groups and outer joins -------------------------------------------------------------------------------------

    def _group(self, group: Group, asked: Sequence[Expression]) -> Made:
        """Members that meet all at once; those that are joins themselves as one input each."""
        found = group.found
        if group.is_flat:
            return Made(self._made(group.visible, found), lambda expression: expression)
        crossing = [*found.bounds, *(() if self.changing else ranges_between(group.members, self.boundary))]
        tests = [
            *found.predicates,
            *self._as_predicates(_not_of_leaves(crossing, group), group.everything, group.nullable),
        ]
        sides = [self._side(Group((member,)), [*asked, *tests]) for member in group.members]
        over = _over(sides)
        inputs = tuple(self._bare(side.input, nested=True) for side in sides)
        bounds = (
            [b for b in crossing if _is_of_leaves(b, group)] if self.changing else self._wide(group, inputs, crossing)
        )
        join = self._made(inputs, Conditions(list(map(over, tests)), bounds, [], found.places))
        return Made(join, over)

    def _outer(self, outer: Outer, asked: Sequence[Expression]) -> Made:
        nested = outer.left.only is None or outer.right.only is None
        nested = nested or isinstance(outer.left.only, Outer) or isinstance(outer.right.only, Outer)
        found = outer.found
        crossing = crossing_bounds(outer, self.boundary)
        tests = list(found.predicates)
        if nested:
            said = found.bounds if self.changing else crossing
            tests += self._as_predicates(said, outer.everything, outer.left.nullable | outer.right.nullable)
        if is_asof(outer):
            if not self.changing:
                return self._asof(outer, asked)
            side = self._enriched(outer, asked)
            return Made(Join((side.input,), boundary=self.boundary), _over([side]))
        if not self.changing:
            self._check_windows(outer)
        sides = [self._side(side, [*asked, *tests]) for side in (outer.left, outer.right)]
        over = _over(sides)
        inputs = tuple(self._bare(side.input, nested=nested) for side in sides)
        bounds = [] if nested else list(found.bounds)
        certain: tuple[tuple[str, Expression], ...] = ()
        if not self.changing:
            left, right = shapes_of(outer.left, self.boundary), shapes_of(outer.right, self.boundary)
            if nested:
                bounds = self._pair(outer, inputs, left, right, crossing)
            certain = self._certain(outer, inputs, left, right, crossing, over)
        conditions = Conditions(list(map(over, tests)), bounds, [], found.places)
        return Made(self._made(inputs, conditions, kind=outer.kind, certain=certain), over)

    def _asof(self, outer: Outer, asked: Sequence[Expression]) -> Made:
        """The bounds between the sides say which partners count, and from them or NEAREST follows which of these."""
        right = outer.right.only
        if not self.changing:
            check_each_row_counts(outer, self.scope.text)
        if isinstance(right, Leaf) and right.input.is_view:
            raise refused_asof(
                outer,
                self.scope.text,
                f"looks for rows by their time, and those of {right.input.alias}, an answer that changes, have none",
                f"write SELECT ISTREAM … in {right.input.alias} to take its rows as they appear, each with that time",
            )
        if not isinstance(right, Leaf) or right.input.time is None:
            raise refused_asof(outer, self.scope.text, "looks for rows of a stream, which stands on its right side")
        if right.input.window is not None and not isinstance(right.input.window, Range | Unbounded):
            raise refused_asof(
                outer, self.scope.text, f"looks for the latest row of {right.input.alias} within a time, not a number"
            )
        name, first = right.input.alias, asof_time(outer, self.scope.text)
        versions = right.input.relation.versions if isinstance(right.input.relation, Stream) else None
        # Each version holds until the next, whatever windows there are.
        crossing = crossing_bounds(outer, self.boundary) if versions is None else outer.found.bounds
        reach = asof_reach(outer, first, right.input, crossing, self.scope.text)
        up_to, within, until = reach.up_to_us, reach.within_us, reach.until_us
        predicates, holding, key = list(outer.found.predicates), list[Expression](), tuple[Expression, ...]()
        if versions is not None:
            predicates, holding, key = self._of_key(outer, right.input, versions)
        elif asof_conditions(predicates, name).others:
            raise refused_asof(
                outer, self.scope.text, "compares the sides for equality; other conditions go into WHERE"
            )
        side = self._side(outer.left, [*asked, *predicates, *holding])
        over = _over([side])
        behind = max(shape.behind[first.alias] for shape in shapes_of(outer.left, self.boundary))
        if behind >= FOREVER_US and not isinstance(first.window, Unbounded):
            raise refused_asof(
                outer,
                self.scope.text,
                f"goes by the time of {first.alias}, and nothing bounds how much later it may be asked for, so rows of "
                f"{name} could never be forgotten",
                f"say how old a row of {first.alias} may be, or go by the time of another stream",
            )
        # A row of the left side may be later than the stream whose time counts: by that one's own time it is told.
        instant = typed_call("add", _microseconds(over(_time_of(first))), Literal(up_to, pa.int64()))
        bounds = [] if until is None else [Bound(side.input.alias, name, until, "")]
        bounds += [] if within is None else [Bound(name, side.input.alias, min(within + behind, FOREVER_US), "")]
        looked_up = replace(right.input, window=Unbounded() if within is None else None)
        conditions = Conditions(list(map(over, predicates)), bounds, [], outer.found.places)
        asking = self._bare(side.input, nested=True)
        inputs = (asking if until is not None else replace(asking, window=Unbounded()), looked_up)
        ahead = None if until is None else until - up_to
        asof = AsOf(instant, up_to, within, behind, tuple(map(over, holding)), ahead, key)
        return Made(self._made(inputs, conditions, outer.kind, asof=asof), over)

    def _enriched(self, outer: Outer, asked: Sequence[Expression]) -> Side:
        """In an answer that changes: the stream with its partners, in the window that it has."""
        leaf = enriched_stream(outer, self.scope.text)
        window = leaf.input.window
        windows = WINDOW_COLUMNS if isinstance(window, Hop | Session) else ()
        of_window = {_column(leaf.input, name): name for name in windows}
        counted_by = {_column(leaf.input, name) for name in getattr(window, "partition_by", ())}
        if isinstance(window, RowsWindow | SteppedRows | Session):
            window = replace(window, partition_by=tuple(f"{leaf.input.alias}.{n}" for n in window.partition_by))
        bare = with_bare(outer, Leaf(replace(leaf.input, window=None)))
        # Windows that count rows, or end when none come, go by all rows: those without a partner leave after it.
        partners = self._inner_partners(outer) if not isinstance(window, _BY_TIME) else []
        if partners:
            bare = _all_left(bare)
        visible = {one.alias for one in outer.visible}
        carried = {c for e in asked for c in columns_of(e) if c.stream in visible and c not in of_window}
        columns = sorted(carried | counted_by | set(partners), key=lambda c: (c.stream, c.name))
        inside = JoinBuilder(self.scope, self.boundary, self.places, changing=False)
        inside._numbers = self._numbers
        made = inside._asof(bare, columns)
        name = f"#{next(self._numbers)}"
        time = EventTime(event_time_type(outer.visible, self.scope.zone))
        listed = tuple((f"{c.stream}.{c.name}", made.over(c)) for c in columns)
        project = Project(made.join, (*listed, (HIDDEN_TIME, time)))
        stream = Input(name, Derived(name, project, project.schema, HIDDEN_TIME), window)
        places = {c: Column(name, f"{c.stream}.{c.name}", c.type) for c in columns}
        places |= {c: Column(name, column, c.type) for c, column in of_window.items()}
        newest = Column(name, HIDDEN_TIME, time.type)
        return self._with_partners(Side(stream, places, newest), partners) if partners else Side(stream, places, newest)

    def _inner_partners(self, outer: Outer) -> list[Column]:
        """A column of each stream without whose row a row of the chain is not given; it is NULL in no row of it."""
        only = outer.left.only
        below = self._inner_partners(only) if isinstance(only, Outer) else []
        return [*below, *([_time_of(outer.right.visible[0])] if outer.kind == "asof" else [])]

    def _with_partners(self, side: Side, partners: Sequence[Column]) -> Side:
        there = [typed_call("not", typed_call("is_null", side.places[partner])) for partner in partners]
        name = f"#{next(self._numbers)}"
        kept = {**side.places, side.newest: side.newest} if side.newest is not None else side.places
        columns = tuple((column.name, column) for column in kept.values())
        project = Project(Join((side.input,), tuple(there), boundary=self.boundary), columns)
        places = {c: Column(name, column.name, c.type) for c, column in side.places.items()}
        newest = None if side.newest is None else Column(name, side.newest.name, side.newest.type)
        return Side(Input(name, View(name, project, project.schema)), places, newest)

    def _of_key(
        self, outer: Outer, one: Input, versions: Versions
    ) -> tuple[list[Expression], list[Expression], tuple[Expression, ...]]:
        """The conditions by which a version is chosen, those that are asked of it then, and its key, if not every
        column of that is compared."""
        key: dict[str, Expression] = {}
        holding: list[Expression] = self._as_predicates(outer.within, outer.everything)
        for predicate in outer.found.predicates:
            column = compared_column(predicate, one.alias)
            if column is not None and column in versions.key and column not in key:
                key[column] = predicate
        if set(key) >= set(versions.key):
            chosen = list(key.values())
            return chosen, [*(p for p in outer.found.predicates if p not in chosen), *holding], ()
        # What is asked of a version alone it need not fulfil to take the place of the one before it.
        found = [(p, asof_conditions([p], one.alias)) for p in outer.found.predicates]
        compared = [predicate for predicate, about in found if about.equal or about.left_only]
        others = [predicate for predicate, about in found if not (about.equal or about.left_only)]
        return compared, [*others, *holding], tuple(_column(one, name) for name in versions.key)

    def _made(
        self,
        inputs: tuple[Input, ...],
        found: Conditions,
        kind: JoinKind = "inner",
        certain: tuple[tuple[str, Expression], ...] = (),
        asof: AsOf | None = None,
    ) -> Join:
        seen = replace(self.scope, inputs=inputs)
        places = self.places | {one.alias: self._everywhere for one in inputs if one.alias not in self.places}
        return make_join(seen, found, self.boundary, places, kind, certain, asof)

    @property
    def _everywhere(self) -> Span:
        return (min(s for s, _ in self.places.values()), max(e for _, e in self.places.values()))

    # ---- sides ------------------------------------------------------------------------------------------------------

    def _side(self, group: Group, asked: Sequence[Expression]) -> Side:
        only = group.only
        if isinstance(only, Leaf):
            return Side(only.input, {}, None if only.input.time is None else _time_of(only.input))
        if self.changing and isinstance(only, Outer) and is_asof(only):
            return self._enriched(only, asked)
        mine = {one.alias: one for one in group.visible}
        carried = sorted(
            {c for e in asked for c in columns_of(e) if c.stream in mine} | (set() if self.changing else _times(group)),
            key=lambda c: (c.stream, c.name),
        )
        made = self._outer(only, carried) if isinstance(only, Outer) else self._group(group, carried)
        name = f"#{next(self._numbers)}"
        columns = tuple((f"{c.stream}.{c.name}", made.over(c)) for c in carried)
        places = {c: Column(name, f"{c.stream}.{c.name}", c.type) for c in carried}
        if not self.changing:
            time = EventTime(event_time_type(group.visible, self.scope.zone))
            project = Project(made.join, (*columns, (HIDDEN_TIME, time)))
            return Side(Input(name, Derived(name, project, project.schema, HIDDEN_TIME)), places)
        newest = None
        if any(isinstance(part, EventTime) for e in asked for part in walk(e)) and _timed(group.visible):
            time = EventTime(event_time_type(group.visible, self.scope.zone))
            columns, newest = (*columns, (NEWEST, made.over(time))), Column(name, NEWEST, time.type)
        if not columns:  # a select list has columns
            columns = (("there", Literal(True, pa.bool_())),)
        project = Project(made.join, columns)
        return Side(Input(name, View(name, project, project.schema)), places, newest)

    def _bare(self, one: Input, *, nested: bool) -> Input:
        """Beside a row that came of a join, [RANGE] is told by conditions between the members."""
        return replace(one, window=None) if nested and not self.changing and isinstance(one.window, Range) else one

    # ---- time -------------------------------------------------------------------------------------------------------

    def _as_predicates(
        self, bounds: Iterable[Bound], inputs: Iterable[Input], optional: Iterable[str] = ()
    ) -> list[Expression]:
        """Bounds as conditions on the times of members; of the `optional` ones, where they are not there, they say
        nothing."""
        times = {one.alias: _time_of(one) for one in inputs if one.time is not None}
        made = []
        for bound in bounds:
            later, earlier = times[bound.later], times[bound.earlier]
            apart = typed_call("subtract", _microseconds(later), _microseconds(earlier))
            test = typed_call("le", apart, Literal(bound.at_most_us, pa.int64()))
            missing = [typed_call("is_null", time) for time in (later, earlier) if time.stream in optional]
            made.append(typed_call("or", *missing, test) if missing else test)
        return made

    def _pair(
        self, outer: Outer, inputs: tuple[Input, ...], left: list[Shape], right: list[Shape], crossing: Iterable[Bound]
    ) -> list[Bound]:
        """Bounds between the rows of two sides that hold for all of them."""
        crossing = tuple(crossing)
        if any(one.time is None for one in inputs):
            return []
        (one, other), (mine, theirs) = inputs, (outer.left, outer.right)
        ways = ((one, other, mine, theirs, left, right), (other, one, theirs, mine, right, left))
        found = []
        for u, v, here, there, from_, to in ways:
            size = reach(outer, from_, to, crossing)
            if size < FOREVER_US:
                found.append(Bound(u.alias, v.alias, size, ""))
            elif not isinstance(u.window, Unbounded):
                raise self._unbounded(here, there, outer.span)
        return found

    def _unbounded(self, here: Group, there: Group, span: Span) -> Exception:
        names, others = (
            " and ".join(one.alias for one in side.visible if one.time is not None) for side in (here, there)
        )
        return self.scope.text.error(
            f"rows of {names} could never be forgotten: nothing bounds how much later than them a row of {others} may "
            f"be, whoever of them has no partner",
            span,
            hint="add a bound to ON, between streams that are there in any case; or give the streams windows, as in "
            f"{names.split()[0]} [RANGE 1 MINUTE]",
            kind=WindowError,
        )

    def _wide(self, group: Group, inputs: tuple[Input, ...], crossing: Iterable[Bound]) -> list[Bound]:
        """The same between the members of a group, by pairs."""
        crossing = tuple(crossing)
        shapes = [shapes_of(member, self.boundary) for member in group.members]
        found = []
        for i, one in enumerate(inputs):
            for j, other in enumerate(inputs):
                if i != j and one.time is not None and other.time is not None:
                    pair = Outer("left", Group((group.members[i],)), Group((group.members[j],)), Conditions(), (0, 1))
                    # Through the others of the group, too: everything that is there together has bounds.
                    size = reach(pair, shapes[i], shapes[j], crossing)
                    if size < FOREVER_US:
                        found.append(Bound(one.alias, other.alias, size, ""))
                    elif not isinstance(one.window, Unbounded) and len(inputs) == 2:
                        raise self._unbounded(pair.left, pair.right, self._everywhere)
        return found

    def _certain(
        self,
        outer: Outer,
        inputs: tuple[Input, ...],
        left: list[Shape],
        right: list[Shape],
        crossing: Iterable[Bound],
        over: Mapped,
    ) -> tuple[tuple[str, Expression], ...]:
        crossing = tuple(crossing)
        ways = [(inputs[0], outer.left, left, right)]
        ways += [(inputs[1], outer.right, right, left)] if outer.kind == "full" else []
        return tuple(
            (one.alias, self._instant(outer, one, side, mine, theirs, crossing, over))
            for one, side, mine, theirs in ways
        )

    def _instant(
        self,
        outer: Outer,
        one: Input,
        side: Group,
        mine: list[Shape],
        theirs: list[Shape],
        crossing: tuple[Bound, ...],
        over: Mapped,
    ) -> Expression:
        """Microseconds since 1970 at which a row of one side has no partner for certain."""
        if one.time is None:  # a static table, which is refused as a side that is kept
            return Literal(0, pa.int64())
        own = _microseconds(_time_of(one))
        times = {each.alias: _microseconds(over(_time_of(each))) for each in side.visible if each.time is not None}
        found: Expression | None = None
        for shape in mine:
            instants = [
                self._first(way, times, outer, shape, theirs) for way in certain_after(outer, shape, theirs, crossing)
            ]
            after = reduce(partial(typed_call, "greatest"), instants, own)
            if found is None:
                found = after
                continue
            here = [typed_call("not", typed_call("is_null", times[name])) for name in shape.behind]
            missing = [typed_call("is_null", times[name]) for name in times if name not in shape.behind]
            found = typed_call("case", reduce(partial(typed_call, "and"), [*here, *missing]), after, found)
        return own if found is None else found

    def _first(
        self, way: dict[str, int], times: dict[str, Expression], outer: Outer, shape: Shape, theirs: list[Shape]
    ) -> Expression:
        known = {name: us for name, us in way.items() if us < FOREVER_US}
        if not known:
            raise self._never_certain(outer, next(iter(shape.behind)), next(n for one in theirs for n in one.behind))
        parts = [typed_call("add", times[name], Literal(us + 1, pa.int64())) for name, us in known.items()]
        return reduce(partial(typed_call, "least"), parts)

    def _never_certain(self, outer: Outer, kept: str, late: str) -> Exception:
        times = {one.alias: f"{one.alias}.{one.time}" for one in outer.everything}
        after = next((one.written for one in self._after if (one.earlier, one.later) == (kept, late)), None)
        if after is not None:
            return self.scope.text.error(
                f"nothing in ON bounds how much later than {kept} a row of {late} may be, so it is never certain that "
                f"a row of {kept} has no partner; WHERE comes after the join",
                outer.span,
                hint=f"move {after} from WHERE to ON; rows of {kept} without a partner are given then, too",
                kind=WindowError,
            )
        return self.scope.text.error(
            f"nothing bounds how much later than {kept} a row of {late} may be, so it is never certain that a row of "
            f"{kept} has no partner",
            outer.span,
            hint=f"bound it, as in {times[late]} BETWEEN {times[kept]} AND {times[kept]} + INTERVAL 1 MINUTE, or by "
            f"{kept} [RANGE 1 MINUTE]; or write {kept} [UNBOUNDED] and give all others windows, for an answer that "
            f"changes, in which rows without a partner come and go",
            kind=WindowError,
        )

    def _check_windows(self, outer: Outer) -> None:
        for one in (*outer.left.everything, *outer.right.everything):
            if _moves(one.window):
                raise self.scope.text.error(
                    f"the window of {one.alias} moves in steps, and rows without a partner come and go with them",
                    self.places.get(one.alias, outer.span),
                    hint=f"write {one.alias} [RANGE 1 MINUTE]; or ask for an answer that changes: "
                    "SELECT … FROM (SELECT … LEFT JOIN …) AS j",
                    kind=WindowError,
                )
            if is_counted(one.window):
                raise self.scope.text.error(
                    f"{one.alias} counts rows, and whether a row will have a partner in it is never certain",
                    self.places.get(one.alias, outer.span),
                    hint=f"write {one.alias} [RANGE 1 MINUTE]; or give all streams windows, for an answer that "
                    "changes, in which rows without a partner come and go",
                    kind=WindowError,
                )


def is_never_certain(outer: Outer, boundary: Boundary) -> bool:
    """Whether a side has no end in time, so that a row may find a partner however late. Windows that move in steps are
    not judged here."""
    passed_over = looked_up(outer.left) | looked_up(outer.right)
    windows = [one.window for one in outer.everything if one.alias not in passed_over]
    landmarks = [one for one in windows if _never_forgets(one)]
    if is_asof(outer) or any(_moves(one) for one in windows if one not in landmarks):
        return False
    if landmarks or any(map(is_counted, windows)):
        return True
    if not any(isinstance(one, Unbounded) for one in windows):
        return False
    left, right = shapes_of(outer.left, boundary), shapes_of(outer.right, boundary)
    crossing = crossing_bounds(outer, boundary)
    ways = [way for shape in left for way in certain_after(outer, shape, right, crossing)]
    if outer.kind == "full":
        ways += [way for shape in right for way in certain_after(outer, shape, left, crossing)]
    return any(all(us >= FOREVER_US for us in way.values()) for way in ways)


def _never_forgets(window: Window | None) -> bool:
    return (isinstance(window, Landmark) and window.every_us is None) or (
        isinstance(window, Stepped) and window.latches
    )


def _moves(window: Window | None) -> bool:
    """In steps, and not only because rows are taken apart that were counted."""
    return moves_in_steps(window) and not isinstance(counting(window), RowsWindow)


def _all_left(outer: Outer) -> Outer:
    """The chain with the rows that have no partner."""
    only = outer.left.only
    left = Group((_all_left(only),)) if isinstance(only, Outer) else outer.left
    return replace(outer, kind="asof_left", left=left)


def with_where(group: Group, where: Conditions) -> tuple[Group, Conditions]:
    """An inner join with the conditions of WHERE, and those that come after it: bounds on rows that may be missing."""
    found = group.found
    unsure = [b for b in where.bounds if {b.earlier, b.later} & group.nullable]
    sure = [b for b in where.bounds if b not in unsure]
    joined = Conditions(
        [*found.predicates, *where.predicates],
        [*found.bounds, *sure],
        [*found.choices, *where.choices],
        {**found.places, **where.places},
    )
    return Group(group.members, joined), Conditions(bounds=unsure, places=dict(where.places))


def _over(sides: Sequence[Side]) -> Mapped:
    """The same over the sides of a join. A view has no event time, so the newest one is told by columns there."""
    places = {old: new for side in sides for old, new in side.places.items()}
    newest = [side.newest for side in sides if side.newest is not None]
    by_columns = any(side.input.is_view for side in sides)

    def elsewhere(part: Expression) -> Expression | None:
        if isinstance(part, EventTime) and by_columns and newest:
            return Call("greatest", tuple(newest), part.type) if len(newest) > 1 else newest[0]
        return places.get(part) if isinstance(part, Column) else None

    return lambda expression: replaced(expression, elsewhere)


def _times(group: Group) -> set[Column]:
    return {_time_of(one) for one in group.visible if one.time is not None}


def _timed(inputs: Iterable[Input]) -> bool:
    return any(one.time is not None for one in inputs)


def _time_of(one: Input) -> Column:
    assert one.time is not None
    return _column(one, one.time)


def _column(one: Input, name: str) -> Column:
    return Column(one.alias, name, one.schema.field(name).type)


def _microseconds(time: Expression) -> Expression:
    return typed_call("epoch_us", time)


def _is_of_leaves(bound: Bound, group: Group) -> bool:
    leaves = {member.input.alias for member in group.members if isinstance(member, Leaf)}
    return {bound.earlier, bound.later} <= leaves


def _not_of_leaves(bounds: Iterable[Bound], group: Group) -> list[Bound]:
    return [bound for bound in bounds if not _is_of_leaves(bound, group)]
