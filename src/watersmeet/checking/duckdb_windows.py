"""Rows as SQL has them: of a stream with their times and their order, and in their windows with the instants at which
they enter and leave."""

from __future__ import annotations

from watersmeet.checking.duckdb_expressions import Translator, quoted, typed
from watersmeet.model.catalog import Deduplication, Stream, Table
from watersmeet.model.pace import Pace
from watersmeet.model.windows import WINDOW_COLUMNS, Each, Hop, Landmark, Session, Stepped
from watersmeet.plan.constants import Constants, Listed, Selected

# Names that no column of a stream is likely to have; MOMENT is the table of instants.
AT, TIME, ROW, GONE, MOMENT = '"#at"', '"#time"', '"#row"', '"#gone"', '"#moment"'
SINCE = '"#since"'  # when a row enters a window that moves in steps
SAME, TAKEN = '"#same"', '"#taken"'
INSIDE = '"#inside"'  # the rows of groups
NET, SIGN, COPY, NEXT, PLACE = '"#net"', '"#sign"', '"#copy"', '"#next"', '"#place"'


def raw_name(relation: Stream | Table) -> str:
    """The table that holds what arrived, in a column more the order: `#row`."""
    return f"all of {relation.name}"


def timed_rows(relation: Stream | Table) -> str:
    if isinstance(relation, Constants):
        # Numbered, as rows that are read are.
        return f"SELECT *, row_number() OVER () AS {ROW} FROM ({' UNION ALL '.join(map(_said, relation.parts))})"
    raw = quoted(raw_name(relation))
    if isinstance(relation, Table):
        return f"SELECT * FROM {raw}"
    rows = f"SELECT *, epoch_us({quoted(relation.time)}) AS {TIME} FROM {raw}"
    return rows if relation.first is None else _first_rows(rows, relation.first)


def _said(part: Selected) -> str:
    """What a query says itself."""
    over = Translator()
    if isinstance(part.of, Listed):
        rows = ", ".join(f"({', '.join(['0', *map(over.output, row)])})" for row in part.of.rows)
        of = f"(VALUES {rows}) AS {INSIDE} ({', '.join([COPY, *map(quoted, part.of.names)])})"
    else:
        ends = ", ".join(map(over.sql, (part.of.start, part.of.stop, part.of.step)))
        made = typed(f"unnest({'generate_series' if part.of.inclusive else 'range'}({ends}))", part.of.type)
        of = f"(SELECT {made} AS {quoted(*part.of.names)})"
    selected = ", ".join(f"{over.output(e)} AS {quoted(name)}" for name, e in part.columns)
    return f"SELECT {selected} FROM {of} WHERE {' AND '.join(map(over.sql, part.where)) or 'true'}"


def _first_rows(rows: str, rule: Deduplication) -> str:
    """The first of each key by arrival, and then again and again the next one that is not near any taken before."""
    keyed = f"SELECT *, struct_pack({', '.join(f'k{n} := {quoted(k)}' for n, k in enumerate(rule.keys))}) AS {SAME}"
    near = f"len([t for t in g.{TAKEN} if abs(t - r.{TIME}) <= {rule.within_us}]) > 0"
    following = (
        f"SELECT g.{SAME}, r.{ROW} AS {PLACE}, list_append(g.{TAKEN}, r.{TIME}) AS {TAKEN} FROM g JOIN keyed r "
        f"ON r.{SAME} IS NOT DISTINCT FROM g.{SAME} AND r.{ROW} > g.{PLACE} AND NOT ({near})"
    )
    nearest = f"SELECT * FROM ({following}) QUALIFY row_number() OVER (PARTITION BY {SAME} ORDER BY {PLACE}) = 1"
    firsts = f"SELECT {SAME}, min({ROW}) AS {PLACE}, [arg_min({TIME}, {ROW})] AS {TAKEN} FROM keyed GROUP BY {SAME}"
    return (
        f"WITH RECURSIVE keyed AS ({keyed} FROM ({rows})), g AS ({firsts} UNION ALL {nearest}) "
        f"SELECT * EXCLUDE ({SAME}) FROM keyed WHERE {ROW} IN (SELECT {PLACE} FROM g)"
    )


def entries(rows: str, window: Each) -> str:
    made = (f"unnest({quoted(window.column)})", f"generate_subscripts({quoted(window.column)}, 1)")
    columns = ", ".join(f"{text} AS {quoted(name)}" for text, name in zip(made, window.names, strict=False))
    if window.within is None:
        return f"(SELECT *, {columns}, {TIME} AS {SINCE}, {TIME} + 1 AS {GONE} FROM {rows})"
    # Numbered anew, so that the entries of a row have their order too.
    numbered = f"row_number() OVER (ORDER BY {ROW}, {PLACE}) AS {ROW}"
    entries = f"SELECT *, {columns}, {made[1]} AS {PLACE} FROM {rows}"
    return f"(SELECT * EXCLUDE ({PLACE}) REPLACE ({numbered}) FROM ({entries}))"


def since_landmark(rows: str, window: Landmark) -> str:
    gone = "NULL"
    if window.every_us is not None:
        past = f"({TIME} - {window.since_us}) // {window.every_us}"
        gone = f"({past} + 1) * {window.every_us} + {window.since_us}"
    return f"(SELECT *, {TIME} AS {SINCE}, {gone} AS {GONE} FROM {rows} WHERE {TIME} >= {window.since_us})"


def in_hops(rows: str, window: Hop) -> str:
    """A copy of each row for each window that holds its time."""
    if window.calendar is not None:
        return _in_calendar_windows(rows, window, window.calendar)
    if window.cumulates:
        start = f"({TIME} - (({TIME} - {window.offset_us}) % {window.size_us} + {window.size_us}) % {window.size_us})"
        first = f"({TIME} - ({TIME} - {start}) % {window.slide_us} + {window.slide_us})"
        ends = f"unnest(range({first}, {start} + {window.size_us} + 1, {window.slide_us}))"
    else:
        start = f"{NEXT} - {window.size_us}"
        ends = f"unnest(range({next_step(f'{TIME} + 1', window)}, {TIME} + {window.size_us} + 1, {window.slide_us}))"
    columns = _window_columns(start, NEXT, window.zone)
    lives = f"{TIME} AS {SINCE}, NULL AS {GONE}" if window.at_once else f"{NEXT} - 1 AS {SINCE}, {NEXT} AS {GONE}"
    return f"(SELECT * EXCLUDE ({NEXT}), {columns}, {lives} FROM (SELECT *, {ends} AS {NEXT} FROM {rows}))"


def _in_calendar_windows(rows: str, window: Hop, pace: Pace) -> str:
    """All windows that may hold the time by what clocks show, and of them those that do."""
    near = near_number(TIME, pace)
    numbered = f"SELECT *, unnest(range({near} - {window.steps + 1}, {near} + 2)) AS {PLACE} FROM {rows}"
    bounds = (f"{begins(PLACE, pace)} AS {SIGN}", f"{begins(f'({PLACE} + {window.steps})', pace)} AS {NEXT}")
    columns = _window_columns(SIGN, NEXT, window.zone)
    lives = f"{TIME} AS {SINCE}, NULL AS {GONE}" if window.at_once else f"{NEXT} - 1 AS {SINCE}, {NEXT} AS {GONE}"
    held = f"SELECT *, {', '.join(bounds)} FROM ({numbered})"
    shown_columns = f"* EXCLUDE ({NEXT}, {PLACE}, {SIGN})"
    return f"(SELECT {shown_columns}, {columns}, {lives} FROM ({held}) WHERE {SIGN} <= {TIME} AND {TIME} < {NEXT})"


def near_number(time: str, pace: Pace) -> str:
    """Which of the days or months it is, as clocks show it; around a change of clocks one of those beside it."""
    shown = time if pace.zone is None else f"wm_shown({time}, '{pace.zone}')"
    since = f"date_diff('{pace.unit}', TIMESTAMP '1970-01-01', make_timestamp({shown} - {pace.offset_us}))"
    return f"CAST(floor({since} / {pace.every}) AS BIGINT)"


def begins(number: str, pace: Pace) -> str:
    midnight = f"epoch_us(TIMESTAMP '1970-01-01' + to_{pace.unit}s(CAST({number} * {pace.every} AS INTEGER)))"
    reading = f"({midnight} + {pace.offset_us})"
    return reading if pace.zone is None else f"wm_first({reading}, '{pace.zone}', true)"


def in_sessions(rows: str, window: Session) -> str:
    keys = ", ".join(map(quoted, window.partition_by))
    by = f"PARTITION BY {keys} " if keys else ""
    order = f"OVER ({by}ORDER BY {TIME}, {ROW})"
    begins = f"coalesce({TIME} - lag({TIME}) {order} >= {window.gap_us}, true)"
    numbered = f"SELECT *, sum(CAST({NEXT} AS INT)) {order} AS {PLACE} FROM (SELECT *, {begins} AS {NEXT} FROM {rows})"
    whole = f"OVER (PARTITION BY {keys + ', ' if keys else ''}{PLACE})"
    last = TIME if window.at_once else f"max({TIME}) {whole}"
    ends = f"SELECT *, min({TIME}) {whole} AS {SIGN}, {last} + {window.gap_us} AS {NET} FROM ({numbered})"
    columns = _window_columns(SIGN, NET, window.zone)
    shown = f"* EXCLUDE ({NEXT}, {PLACE}, {SIGN}, {NET})"
    lives = f"{TIME} AS {SINCE}, NULL AS {GONE}" if window.at_once else f"{NET} - 1 AS {SINCE}, {NET} AS {GONE}"
    return f"(SELECT {shown}, {columns}, {lives} FROM ({ends}))"


def _window_columns(start: str, end: str, zone: str | None) -> str:
    kind = "TIMESTAMP" if zone is None else "TIMESTAMPTZ"
    # The sessions of checks are in UTC.
    texts = zip((start, end), WINDOW_COLUMNS, strict=True)
    return ", ".join(f"CAST(make_timestamp({time}) AS {kind}) AS {name}" for time, name in texts)


def next_step(time: str, window: Stepped | Hop) -> str:
    """The first step at or after a time: a multiple of the slide, shifted by the offset; of HOP the end of a window."""
    one = window.ends_us if isinstance(window, Hop) else window.offset_us
    past = f"({time} - {one})"
    # % has the sign of the dividend, so before 1970 it must be made positive first.
    return f"({time} + ({window.slide_us} - {past} % {window.slide_us}) % {window.slide_us})"
