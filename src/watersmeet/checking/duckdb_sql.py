"""A plan as plain SQL over whole tables, every answer at every instant at once.

A relation that changes becomes one with a column more, `#at`: the row is in it at that instant. Then GROUP BY k is
GROUP BY #at, k; EXCEPT, DISTINCT and joins carry `#at` along; and a window is a condition between a row's time and
`#at`. Nothing here knows how the engine or the reference go about it.

Every stream is a table `rows of …` of its rows in time, with `#time` in microseconds and `#row`, the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

import pyarrow as pa

from watersmeet.checking.duckdb_aggregates import aggregate_sql, sort_key_sql
from watersmeet.checking.duckdb_expressions import InexpressibleError, Translator, named, quoted
from watersmeet.checking.duckdb_over import over_sql
from watersmeet.checking.duckdb_windows import (
    AT,
    COPY,
    GONE,
    INSIDE,
    MOMENT,
    NET,
    NEXT,
    PLACE,
    ROW,
    SIGN,
    SINCE,
    TIME,
    begins,
    entries,
    in_hops,
    in_sessions,
    near_number,
    next_step,
    since_landmark,
    timed_rows,
)
from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.pace import Pace
from watersmeet.model.versions import DELETES
from watersmeet.model.windows import (
    Bound,
    Boundary,
    Choice,
    Each,
    Hop,
    Landmark,
    Range,
    RowsWindow,
    Session,
    Stepped,
    SteppedRows,
    moves_in_steps,
)
from watersmeet.plan.expressions import Aggregate, Expression, walk
from watersmeet.plan.nodes import (
    OP,
    AsOf,
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    TopK,
    View,
    schema_of,
)
from watersmeet.plan.shapes import comes_as_stored, growing_join, is_monotone, keeps_arrival, streams_together
from watersmeet.plan.walks import children, streams_below


@dataclass(frozen=True)
class Held:
    """FROM and WHERE of a join over what its windows hold, and how the instant is called there."""

    sources: str
    conditions: str
    at: str


@dataclass
class Script:
    """Writes the queries for one plan. `statements` make the tables they need, to be run in order."""

    boundary: Boundary
    statements: list[str] = field(default_factory=list)
    _made: dict[int, str] = field(default_factory=dict)

    # -- tables ---------------------------------------------------------------------------------------------

    def rows_of(self, relation: Stream | Table | Derived) -> str:
        """The name of the table with the rows of an input."""
        known = self._made.get(id(relation))
        if known is None:
            text = self._derived(relation) if isinstance(relation, Derived) else timed_rows(relation)
            known = self._make(f"rows of {relation.name}", text)
            self._made[id(relation)] = known
        return known

    def _make(self, name: str, text: str) -> str:
        # Numbered, as two subqueries may have the same name.
        table = quoted(f"{name} {len(self.statements)}")
        self.statements.append(f"CREATE OR REPLACE TEMP TABLE {table} AS {text}")
        return table

    def _derived(self, relation: Derived) -> str:
        growing = growing_join(relation.plan)
        if (growing is not None and keeps_arrival(growing.join)) or streams_together(relation.plan):
            text = self.combinations(relation.plan, arrived=True)
            return f"SELECT * EXCLUDE ({PLACE}), row_number() OVER (ORDER BY {TIME}, {PLACE}) AS {ROW} FROM ({text})"
        if is_monotone(relation.plan):
            text, selected = self.combinations(relation.plan), "*"
        else:
            text, selected = self.log(relation.plan), f"*, make_timestamp({TIME}) AS {quoted(relation.time)}"
            if relation.time in schema_of(relation.plan).names:
                # A window is complete just before its end, which is the time of what it gives.
                text = f"SELECT * REPLACE (epoch_us({quoted(relation.time)}) AS {TIME}) FROM ({text})"
                selected = "*"
        order = ", ".join([TIME, *_canonical(schema_of(relation.plan))])
        if isinstance(relation.plan, Changes) and relation.plan.kind == "log":  # what leaves is before what enters
            order = ", ".join([TIME, f"{quoted(OP)} DESC", *_canonical(schema_of(relation.plan.child))])
        # Rows of a subquery with equal times come in the order of their values, as the reference has it.
        return f"SELECT {selected}, row_number() OVER (ORDER BY {order}) AS {ROW} FROM ({text})"

    # -- instants -------------------------------------------------------------------------------------------

    def instants(self, node: Node) -> str:
        """A query for the instants, in a column `#at`, where the answer may change."""
        return f"SELECT DISTINCT {AT} FROM ({' UNION ALL '.join(dict.fromkeys(self._moments(node)))})"

    def _moments(self, node: Node) -> Iterator[str]:
        match node:
            case Join(inputs=inputs):
                for one in inputs:
                    yield from self._moments_of_input(one)
            case Changes(kind="rstream", every=Pace() as every):
                yield self._given_at(node, every)
            case GroupBy(child=join, keys=()):
                # It begins with the first row of any stream, also of one that a subquery makes others of.
                yield f"SELECT * FROM ({self._first_event(join)}) AS first ({AT}) WHERE {AT} IS NOT NULL"
                yield from self._moments(join)
            case _:
                for child in children(node):
                    yield from self._moments(child)

    def _moments_of_input(self, one: Input) -> Iterator[str]:
        match one.relation:
            case View(plan=node):
                yield from self._moments(node)
            case Stream() | Derived():
                rows = self.rows_of(one.relation)
                yield f"SELECT {TIME} AS {AT} FROM {rows}"
                if moves_in_steps(one.window):
                    for column in (SINCE, GONE):
                        yield f"SELECT {column} AS {AT} FROM {self._with_deaths(one)} WHERE {column} IS NOT NULL"
                if isinstance(one.window, Range):
                    # In a closed window a row is still there at its time plus the size.
                    gone_after = one.window.size_us + (self.boundary == "closed")
                    yield f"SELECT {TIME} + {gone_after} AS {AT} FROM {rows}"

    def _given_at(self, node: Node, every: Pace) -> str:
        ends = f"SELECT min({TIME}) AS low, max({TIME}) AS high FROM ({self._event_times(node)})"
        if every.unit == "us":
            # % has the sign of the dividend, so before 1970 it must be made positive first.
            past = f"((low - {every.offset_us}) % {every.every})"
            start = f"low + ({every.every} - {past}) % {every.every}"
            return f"SELECT unnest(range({start}, high + 1, {every.every})) AS {AT} FROM ({ends})"
        numbers = f"unnest(range({near_number('low', every)} - 2, {near_number('high', every)} + 3))"
        numbered = f"SELECT *, {numbers} AS {PLACE} FROM ({ends})"
        moments = f"SELECT low, high, {begins(PLACE, every)} AS {AT} FROM ({numbered})"
        return f"SELECT {AT} FROM ({moments}) WHERE {AT} BETWEEN low AND high"

    # -- what comes out -------------------------------------------------------------------------------------

    def log(self, node: Node) -> str:
        """The rows of ISTREAM, DSTREAM, RSTREAM or CHANGES, each with its instant as `#time`."""
        assert isinstance(node, Changes)
        columns = _columns(schema_of(node.child))
        instants = self._make(
            "instants", f"SELECT *, lead({AT}) OVER (ORDER BY {AT}) AS {NEXT} FROM ({self.instants(node)})"
        )
        now = self._make("answers", self.snapshot(node.child, instants))
        # What is complete is in the answer at one instant only, so that is all of it that enters.
        if node.kind in ("rstream", "complete"):
            return f"SELECT {columns}, {AT} AS {TIME} FROM {now}"
        # An answer holds until the next instant and is taken away there; what stays cancels with what comes.
        ended = f"SELECT {NEXT}, {columns}, -1 FROM {now} JOIN {instants} USING ({AT}) WHERE {NEXT} IS NOT NULL"
        both = f"SELECT {AT}, {columns}, 1 AS {SIGN} FROM {now} UNION ALL {ended}"
        net = f"SELECT {AT}, {columns}, CAST(sum({SIGN}) AS BIGINT) AS {NET} FROM ({both}) GROUP BY ALL"
        if node.kind == "log":
            signed = f"CASE WHEN {NET} > 0 THEN '+' ELSE '-' END AS {quoted(OP)}, {columns}"
            copies = f"SELECT {signed}, {AT} AS {TIME}, unnest(range(abs({NET}))) AS {COPY} FROM ({net})"
            return f"SELECT * EXCLUDE ({COPY}) FROM ({copies})"
        sign = 1 if node.kind == "istream" else -1
        # unnest makes as many copies of a row as changed.
        copies = f"SELECT {columns}, {AT} AS {TIME}, unnest(range({sign} * {NET})) AS {COPY} FROM ({net})"
        return f"SELECT * EXCLUDE ({COPY}) FROM ({copies} WHERE {sign} * {NET} > 0)"

    def combinations(self, node: Node, *, arrived: bool = False) -> str:
        """The rows of a plain join that only grows, each with the newest member's time as `#time`; with `arrived` those
        of a selection with their number as `#place`, of an as-of join with that of who looked for a partner."""
        if isinstance(node, Over):
            return self._over_stream(node)
        if branches := streams_together(node):
            return self._together(branches, arrived)
        found = growing_join(node)
        assert found is not None
        join = found.join
        if join.kind != "inner":
            return " UNION ALL ".join(self._with_those_alone(join, found.project, arrived))
        newest = _newest(join)
        sources = [f"{self._with_deaths(one)} AS {named(one.alias)}" for one in join.inputs]
        conditions = [*_conditions(join), *self._near(join, newest)]
        selected = f"{_selected(found.project, Translator(newest))}, {newest} AS {TIME}"
        if arrived:
            selected += f", {named(join.inputs[0].alias)}.{ROW} AS {PLACE}"
        return f"SELECT {selected} FROM {', '.join(sources)} WHERE {_all(conditions)}"

    def _together(self, branches: Sequence[Project | Over], arrived: bool) -> str:
        """UNION ALL of streams; with `arrived` from the first stream to the last, each in its own order."""
        texts = []
        names = branches[0].schema.names
        for number, one in enumerate(branches):
            own = arrived and comes_as_stored(one)
            text = self.combinations(one, arrived=own)
            shown = ", ".join(f"{quoted(n)} AS {quoted(name)}" for n, name in zip(one.schema.names, names, strict=True))
            order = PLACE if own else ", ".join(_canonical(one.schema))
            place = f", {number} AS {COPY}, row_number() OVER (ORDER BY {TIME}, {order}) AS {PLACE}" if arrived else ""
            texts.append(f"SELECT {shown}, {TIME}{place} FROM ({text})")
        both = " UNION ALL ".join(texts)
        if not arrived:
            return both
        place = f"row_number() OVER (ORDER BY {TIME}, {COPY}, {PLACE})"
        return f"SELECT * EXCLUDE ({COPY}) REPLACE ({place} AS {PLACE}) FROM ({both})"

    def _over_stream(self, node: Over) -> str:
        """OVER by event time: of one stream, whose rows of equal times go by arrival."""
        assert isinstance(node.child, Project)
        join = node.child.child
        assert isinstance(join, Join)
        (one,) = join.inputs
        assert not isinstance(one.relation, View)
        name = named(one.alias)
        over = Translator(f"{name}.{TIME}")
        rows = f"SELECT {_selected(node.child, over)}, {name}.{TIME}, {name}.{ROW} FROM {self.rows_of(one.relation)} "
        return over_sql(node, f"{rows} AS {name} WHERE {_all(list(_conditions(join)))}", [TIME, ROW], TIME)

    def _with_those_alone(self, join: Join, project: Project, arrived: bool) -> Iterator[str]:
        """An outer, semi or anti join that only grows: what matches, and what never does."""
        newest = _newest(join)
        rows = {one.alias: f"{self._with_deaths(one)} AS {named(one.alias)}" for one in join.inputs}
        matches = _all([*_conditions(join), *self._near(join, newest)])
        if join.asof is not None:
            yield from self._latest(join, project, rows, matches, arrived)
            return
        if join.kind in ("left", "full"):
            yield self._selected_from(join, project, ", ".join(rows.values()), matches, newest)
        certain = dict(join.certain)
        for alias in join.preserved:
            (other,) = (one.alias for one in join.inputs if one.alias != alias)
            # Of the other there is no row, so that its columns are NULL.
            alone = f"{rows[alias]} LEFT JOIN {rows[other]} ON false"
            partners = f"FROM {rows[other]} WHERE {matches}"
            if join.kind == "semi":
                first = f'LATERAL (SELECT min({newest}) AS "#first" {partners}) AS "#partner"'
                held = '"#partner"."#first"'
                yield self._selected_from(join, project, f"{rows[alias]}, {first}", f"{held} IS NOT NULL", held)
            else:
                at = Translator().sql(certain[alias])
                yield self._selected_from(join, project, alone, f"NOT EXISTS (SELECT 1 {partners})", at)

    def _latest(self, join: Join, project: Project, rows: dict[str, str], matches: str, arrived: bool) -> Iterator[str]:
        """Of the partners of a row the nearest in time, of equal times the greatest by all its columns. Of versions it
        is the last to arrive, which must be there and hold."""
        left, right = join.inputs
        assert join.asof is not None
        instant = f"({Translator().sql(join.asof.instant)})"
        theirs, back, ahead = f"{named(right.alias)}.{TIME}", join.asof.back_us, join.asof.ahead_us
        # When no other could be nearer any more; without a partner, when none could come.
        sure = f"if({theirs} >= {instant}, {theirs}, {_least(f'2 * {instant} - {theirs} - 1', instant, ahead)})"
        ends = instant if ahead is None else f"{instant} + {ahead}"
        at = f"greatest({named(left.alias)}.{TIME}, coalesce({sure if ahead != 0 else instant}, {ends}))"
        over = Translator(at)
        columns = [f"{named(right.alias)}.{quoted(name)} DESC NULLS FIRST" for name in right.schema.names]
        if right.has_versions:
            columns = [f"{named(right.alias)}.{ROW} DESC"]
        order = ", ".join([f"abs({theirs} - {instant})", theirs, *columns])
        first = f"row_number() OVER (PARTITION BY {named(left.alias)}.{ROW} ORDER BY {order}) = 1"
        chosen = _all([first, *_holding(right, join.asof, over)])
        kept = _all([chosen, *(over.sql(condition) for condition in join.where)])
        matches = _all(
            [
                matches,
                *([] if ahead is None else [f"{theirs} <= {instant} + {ahead}"]),
                *([] if back is None else [f"{theirs} >= {instant} - {back}"]),
            ]
        )
        then = "AND" if join.asof.key else "QUALIFY"
        if join.asof.key:
            # Each version holds until the next of its key.
            key = ", ".join(Translator().sql(column) for column in join.asof.key)
            until = f"lead({TIME}) OVER (PARTITION BY {key} ORDER BY {TIME}, {ROW}) AS {GONE}"
            rows[right.alias] = f"(SELECT *, {until} FROM {rows[right.alias]}) AS {named(right.alias)}"
            still = f"({named(right.alias)}.{GONE} IS NULL OR {instant} < {named(right.alias)}.{GONE})"
            chosen = _all([still, *_holding(right, join.asof, over)])
            kept = _all([chosen, *(over.sql(condition) for condition in join.where)])
        place = f", {named(left.alias)}.{ROW} AS {PLACE}" if arrived else ""
        selected = f"SELECT {_selected(project, over)}, {at} AS {TIME}{place}"
        yield f"{selected} FROM {', '.join(rows.values())} WHERE {matches} {then} {kept}"
        if join.kind == "asof_left":
            alone = f"{rows[left.alias]} LEFT JOIN {rows[right.alias]} ON false"
            found = f"SELECT {named(left.alias)}.{ROW} FROM {', '.join(rows.values())} WHERE {matches} {then} {chosen}"
            none = [f"{named(left.alias)}.{ROW} NOT IN ({found})", *(over.sql(condition) for condition in join.where)]
            yield f"{selected} FROM {alone} WHERE {_all(none)}"

    @staticmethod
    def _selected_from(join: Join, project: Project, sources: str, matches: str, at: str) -> str:
        over = Translator(at)
        kept = _all([matches, *(over.sql(condition) for condition in join.where)])
        return f"SELECT {_selected(project, over)}, {at} AS {TIME} FROM {sources} WHERE {kept}"

    def _near(self, join: Join, newest: str) -> Iterator[str]:
        for one in join.streams:
            name = named(one.alias)
            if moves_in_steps(one.window):
                yield f"({name}.{GONE} IS NULL OR {newest} < {name}.{GONE})"
            elif isinstance(one.window, Range):
                yield f"{newest} - {name}.{TIME} {'<' if self.boundary == 'half_open' else '<='} {one.window.size_us}"
            elif isinstance(one.window, RowsWindow):
                yield f"({name}.{GONE} IS NULL OR {newest} < {name}.{GONE})"

    # -- the answer at instants -----------------------------------------------------------------------------

    def snapshot(self, node: Node, instants: str) -> str:
        """The rows of an answer at each of the instants in a table: `#at` first, then its columns."""
        match node:
            case Project(child=Join() as join):
                held = self._held(join, instants)
                selected = _selected(node, Translator(_newest_shown(join)))
                return f"SELECT {held.at} AS {AT}, {selected} FROM {held.sources} WHERE {held.conditions}"
            case Project(child=GroupBy() as grouping):
                return self._grouped(node, grouping, instants)
            case Distinct(child=child):
                return f"SELECT DISTINCT * FROM ({self.snapshot(child, instants)})"
            case SetOperation(kind=kind, all=keep, left=left, right=right):
                sides = (self.snapshot(left, instants), self.snapshot(right, instants))
                return f"({sides[0]}) {kind.upper()} {'ALL' if keep else ''} ({sides[1]})"
            case TopK():
                return self._first(node, instants)
            case Over(child=child):
                rows = f"SELECT *, row_number() OVER () AS {ROW} FROM ({self.snapshot(child, instants)})"
                return over_sql(node, rows, [*_canonical(schema_of(child)), ROW], AT, apart=AT)
        raise InexpressibleError(type(node).__name__)

    def _held(self, join: Join, instants: str) -> Held:
        if join.kind != "inner":
            return self._held_by_two(join, instants)
        sources, conditions = [f"{instants} AS {MOMENT}"], list(_conditions(join))
        for one in join.inputs:
            name = named(one.alias)
            if isinstance(one.relation, View):
                sources.append(f"({self.snapshot(one.relation.plan, instants)}) AS {name}")
                conditions.append(f"{name}.{AT} = {MOMENT}.{AT}")
                continue
            sources.append(f"{self._with_deaths(one)} AS {name}")
            if isinstance(one.relation, Table):
                continue
            conditions.append(f"{name}.{SINCE if moves_in_steps(one.window) else TIME} <= {MOMENT}.{AT}")
            if isinstance(one.window, Range):
                within = "<" if self.boundary == "half_open" else "<="
                conditions.append(f"{MOMENT}.{AT} {within} {name}.{TIME} + {one.window.size_us}")
            elif isinstance(one.window, RowsWindow) or moves_in_steps(one.window):
                conditions.append(f"({name}.{GONE} IS NULL OR {MOMENT}.{AT} < {name}.{GONE})")
        return Held(", ".join(sources), _all(conditions), f"{MOMENT}.{AT}")

    def _held_by_two(self, join: Join, instants: str) -> Held:
        """Each side with the instants at which its rows are there; rows match at the same instant."""
        sides = []
        for one in join.inputs:
            name = named(one.alias)
            alone = replace(
                join, inputs=(one,), predicates=(), bounds=(), choices=(), kind="inner", where=(), certain=()
            )
            if one.is_table:
                held = Held(f"{instants} AS {MOMENT}, {self._with_deaths(one)} AS {name}", "true", f"{MOMENT}.{AT}")
            else:
                held = self._held(alone, instants)
            shown = f"{name}.* EXCLUDE ({AT})" if one.is_view else f"{name}.*"
            inside = f"SELECT {held.at} AS {AT}, {shown} FROM {held.sources} WHERE {held.conditions}"
            sides.append(f"({inside}) AS {name}")
        left, right = (f"{named(one.alias)}.{AT}" for one in join.inputs)
        matches = _all([f"{left} = {right}", *_conditions(join)])
        if join.kind in ("semi", "anti"):
            exists = f"EXISTS (SELECT 1 FROM {sides[1]} WHERE {matches})"
            return Held(sides[0], exists if join.kind == "semi" else f"NOT {exists}", left)
        word = {"left": "LEFT", "full": "FULL"}[join.kind]
        return Held(f"{sides[0]} {word} JOIN {sides[1]} ON {matches}", "true", f"coalesce({left}, {right})")

    def _with_deaths(self, one: Input) -> str:
        """The rows of an input; with `[ROWS n]` also the time of the n-th row after each, when it leaves."""
        assert not isinstance(one.relation, View)
        rows = self.rows_of(one.relation)
        if one.made:
            made = ", ".join(f"{Translator().output(e)} AS {quoted(name)}" for name, e in one.made)
            rows = f"(SELECT *, {made} FROM {rows} AS {named(one.alias)})"
        if isinstance(one.window, Stepped):
            gone = "NULL" if one.window.latches else next_step(f"{TIME} + {one.window.size_us}", one.window)
            return f"(SELECT *, {next_step(TIME, one.window)} AS {SINCE}, {gone} AS {GONE} FROM {rows})"
        if isinstance(one.window, Each):
            return entries(rows if one.window.within is None else self._counted(one, one.window.within), one.window)
        if isinstance(one.window, Landmark):
            return since_landmark(rows, one.window)
        if isinstance(one.window, Hop):
            return in_hops(rows, one.window)
        if isinstance(one.window, Session):
            return in_sessions(rows, one.window)
        if isinstance(one.window, SteppedRows):
            return self._in_blocks(rows, one.window)
        if not isinstance(one.window, RowsWindow):
            return rows
        same = "".join(f"{quoted(key)}, " for key in one.window.partition_by)
        partition = f"PARTITION BY {same[:-2]} " if same else ""
        order = f"{partition}ORDER BY {TIME}, {ROW}"
        return f"(SELECT *, lead({TIME}, {one.window.count}) OVER ({order}) AS {GONE} FROM {rows})"

    def _counted(self, one: Input, window: RowsWindow | SteppedRows) -> str:
        """The rows of a window that counts them, before they are taken apart."""
        rows = self._with_deaths(replace(one, window=window))
        return rows if isinstance(window, SteppedRows) else f"(SELECT *, {TIME} AS {SINCE} FROM {rows})"

    @staticmethod
    def _in_blocks(rows: str, window: SteppedRows) -> str:
        """`[ROWS n SLIDE m]`: rows enter with the last of their m, and leave with the last of those m of which one is
        the n-th after them. Those whose m are not complete are left out."""
        keys = ", ".join(map(quoted, window.partition_by))
        by = f"PARTITION BY {keys} " if keys else ""
        numbered = f"SELECT *, row_number() OVER ({by}ORDER BY {TIME}, {ROW}) - 1 AS {PLACE} FROM {rows}"
        block = f"PARTITION BY {keys + ', ' if keys else ''}{PLACE} // {window.slide}"
        ends = f"max({TIME}) OVER ({block}) AS {SINCE}, count(*) OVER ({block}) AS {COPY}"
        whole = f"SELECT * EXCLUDE ({COPY}) FROM (SELECT *, {ends} FROM ({numbered})) WHERE {COPY} = {window.slide}"
        gone = f"lead({SINCE}, {window.count}) OVER ({by}ORDER BY {PLACE})"
        return f"(SELECT * EXCLUDE ({PLACE}), {gone} AS {GONE} FROM ({whole}))"

    def _grouped(self, node: Project, grouping: GroupBy, instants: str) -> str:
        join = grouping.child
        held = self._held(join, instants)
        over_rows = Translator(_newest_shown(join))
        wanted = [e for _, e in node.columns] + ([] if grouping.having is None else [grouping.having])
        aggregates = list(dict.fromkeys(p for e in wanted for p in walk(e) if isinstance(p, Aggregate)))
        keys = {key: f'"#k{n}"' for n, key in enumerate(grouping.keys)}
        values = {call: f'"#x{n}"' for n, call in enumerate(aggregates) if call.args}
        inner = [f"{held.at} AS {AT}", *(f"{over_rows.sql(key)} AS {name}" for key, name in keys.items())]
        inner += [f"{over_rows.sql(call.args[0])} AS {name}" for call, name in values.items()]
        inner += [f'{text} AS "#o{n}"' for n, text in enumerate(_ages(join))]
        order = ", ".join(f'"#o{n}"' for n, _ in enumerate(_ages(join)))
        known: dict[Expression, str] = dict(keys)
        known.update((call, aggregate_sql(call, values.get(call, "*"), order)) for call in aggregates)
        over_groups = Translator(known=known)
        having = "" if grouping.having is None else f" HAVING {over_groups.sql(grouping.having)}"
        rows = f"SELECT {', '.join(inner)} FROM {held.sources} WHERE {held.conditions}"
        selected = _selected(node, over_groups)
        by = ", ".join([AT, *keys.values()])
        groups = f"SELECT {AT}, {selected} FROM {INSIDE} GROUP BY {by}{having}"
        if not keys:
            # What an aggregate is over nothing DuckDB knows itself; counted, as there may be none in the select list.
            nothing = f"SELECT count(*) AS {COPY}, {selected} FROM {INSIDE} WHERE false{having}"
            empty = f"{AT} >= ({self._first_event(join)}) AND {AT} NOT IN (SELECT {AT} FROM {INSIDE})"
            groups += f" UNION ALL SELECT {AT}, {_columns(node.schema)} FROM {instants}, ({nothing}) WHERE {empty}"
        return f"WITH {INSIDE} AS ({rows}) {groups}"

    def _first_event(self, join: Join) -> str:
        return f"SELECT min({TIME}) FROM ({self._event_times(join)})"

    def _event_times(self, node: Node) -> str:
        """Of all rows of all streams below, whatever becomes of them."""
        names = {one.name: self.rows_of(one) for one in streams_below(node)}
        return " UNION ALL ".join(f"SELECT {TIME} FROM {rows}" for rows in names.values())

    def _first(self, node: TopK, instants: str) -> str:
        keys = [sort_key_sql(key) for key in node.keys]
        schema = schema_of(node)
        order = ", ".join([*keys, *_canonical(schema)])
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {AT} ORDER BY {order}) AS {PLACE} FROM"
        child = self.snapshot(node.child, instants)
        last = "" if node.limit is None else f" AND {PLACE} <= {node.offset + node.limit}"
        return f"SELECT {AT}, {_columns(schema)} FROM ({ranked} ({child})) WHERE {PLACE} > {node.offset}{last}"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(map(quoted, schema.names))


def _canonical(schema: pa.Schema) -> list[str]:
    return [f"{quoted(name)} ASC NULLS LAST" for name in schema.names]


def _selected(node: Project, translator: Translator) -> str:
    return ", ".join(f"{translator.output(e)} AS {quoted(name)}" for name, e in node.columns)


def _least(later: str, instant: str, ahead_us: int | None) -> str:
    return later if ahead_us is None else f"least({later}, {instant} + {ahead_us})"


def _holding(one: Input, asof: AsOf, over: Translator) -> Iterator[str]:
    """What is asked of the version that was chosen."""
    versions = one.relation.versions if isinstance(one.relation, Stream) else None
    if versions is not None and versions.op is not None:
        words = ", ".join(f"'{word}'" for word in sorted(DELETES))
        yield f"lower({named(one.alias)}.{quoted(versions.op)}) NOT IN ({words})"
    yield from (f"({over.sql(condition)})" for condition in asof.holding)


def _all(conditions: Sequence[str]) -> str:
    return " AND ".join(conditions) or "true"


def _newest(join: Join, inputs: Sequence[Input] | None = None) -> str:
    times = [
        f"{named(one.alias)}.{SINCE if moves_in_steps(one.window) else TIME}"
        for one in inputs or join.inputs
        if one.time is not None
    ]
    return f"greatest({', '.join(times)})" if times else "NULL"


def _newest_shown(join: Join) -> str:
    """Of a semi or anti join only the first input is there to be selected from."""
    return _newest(join, join.inputs[:1] if join.kind in ("semi", "anti") else None)


def _ages(join: Join) -> list[str]:
    """What FIRST and LAST go by: the newest member's time, then time and arrival of each member."""
    each = [[f"{named(i.alias)}.{TIME}"] * (i.time is not None) + [f"{named(i.alias)}.{ROW}"] for i in join.inputs]
    return [] if join.views or join.kind != "inner" else [_newest(join), *(text for texts in each for text in texts)]


def _conditions(join: Join) -> Iterator[str]:
    translator = Translator(_newest(join))
    yield from (translator.sql(predicate) for predicate in join.predicates)
    yield from (_bound(bound) for bound in join.bounds)
    yield from (_choice(choice) for choice in join.choices)


def _bound(bound: Bound) -> str:
    return f"{named(bound.later)}.{TIME} - {named(bound.earlier)}.{TIME} <= {bound.at_most_us}"


def _choice(choice: Choice) -> str:
    return "(" + " OR ".join(f"({_all([_bound(b) for b in bounds])})" for bounds in choice.alternatives) + ")"
