"""Random queries with OVER, and the same as plain SQL over whole tables, written from what was drawn alone."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.plain_sql import said_by_duckdb
from tests.properties.strategies import one_in, streams
from tests.runners import Bag, Source, bag_of

PARTITIONS = ((), ("k",), ("k",), ("k", "s"), ("j % 2",), ("f",), ("b",))
TIES = ((), (), (), ("j",), ("s", "k"))
WAYS = ("", "", " DESC", " NULLS FIRST", " DESC NULLS FIRST")
ROWS_FRAMES = (
    "ROWS BETWEEN {n} PRECEDING AND CURRENT ROW", "ROWS {n} PRECEDING", "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN {n} PRECEDING AND {m} PRECEDING", "ROWS BETWEEN UNBOUNDED PRECEDING AND {n} PRECEDING",
    "ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW", "ROWS {n} PRECEDING EXCLUDE CURRENT ROW",
)  # fmt: skip
ROWS_AHEAD = (
    "ROWS BETWEEN {n} PRECEDING AND {m} FOLLOWING", "ROWS BETWEEN {n} FOLLOWING AND {m} FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND {n} FOLLOWING",
    "ROWS BETWEEN {n} PRECEDING AND {m} FOLLOWING EXCLUDE CURRENT ROW",
)  # fmt: skip
RANGE_FRAMES = (
    "RANGE BETWEEN INTERVAL '{n}' SECOND PRECEDING AND CURRENT ROW", "RANGE INTERVAL '{n}' SECOND PRECEDING",
    "RANGE BETWEEN INTERVAL '{n}' SECOND PRECEDING AND INTERVAL '{m}' SECOND PRECEDING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '{n}' SECOND PRECEDING",
    "RANGE BETWEEN INTERVAL '{n}' SECOND PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
    "RANGE INTERVAL '{n}' SECOND PRECEDING EXCLUDE TIES",
)  # fmt: skip
RANGE_AHEAD = (
    "RANGE BETWEEN INTERVAL '{n}' SECOND PRECEDING AND INTERVAL '{m}' SECOND FOLLOWING",
    "RANGE BETWEEN INTERVAL '{n}' SECOND FOLLOWING AND INTERVAL '{m}' SECOND FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '{n}' SECOND FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND INTERVAL '{n}' SECOND FOLLOWING EXCLUDE GROUP",
)  # fmt: skip
GROUPS_FRAMES = (
    "", "RANGE UNBOUNDED PRECEDING", "GROUPS {n} PRECEDING", "GROUPS BETWEEN {n} PRECEDING AND {m} PRECEDING",
    "GROUPS UNBOUNDED PRECEDING", "GROUPS {n} PRECEDING EXCLUDE TIES", "RANGE UNBOUNDED PRECEDING EXCLUDE GROUP",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW", "GROUPS CURRENT ROW",
)  # fmt: skip
GROUPS_AHEAD = (
    "GROUPS BETWEEN {n} PRECEDING AND {m} FOLLOWING", "GROUPS BETWEEN UNBOUNDED PRECEDING AND {n} FOLLOWING",
    "GROUPS BETWEEN {n} PRECEDING AND {m} FOLLOWING EXCLUDE GROUP",
    "GROUPS BETWEEN {n} FOLLOWING AND {m} FOLLOWING",
)  # fmt: skip
# Of rows that are all there, besides.
WHOLE_FRAMES = (
    "ROWS BETWEEN {n} PRECEDING AND UNBOUNDED FOLLOWING", "ROWS BETWEEN {n} FOLLOWING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "GROUPS BETWEEN {n} FOLLOWING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP",
)  # fmt: skip
# What any two ways to compute agree on to the last digit.
AGGREGATES = (
    "COUNT(*)", "COUNT(s)", "SUM(j)", "SUM(d)", "AVG(j)", "MIN(j)", "MAX(s)", "MIN(f)", "MAX(w)", "COUNT(DISTINCT k)",
    "SUM(j) FILTER (WHERE k > 0)", "MEDIAN(j)", "BOOL_OR(b)",
    "BIT_XOR(j)", "QUANTILE_DISC(s, 0.4)",
)  # fmt: skip
# Those of all values in order: DuckDB is told the order, as rows of one time have none of their own in it.
COLLECTED = {
    "STRING_AGG(s)": "string_agg(s, ',' ORDER BY {place})", "STRING_AGG(s, '-')": "string_agg(s, '-' ORDER BY {place})",
    "STRING_AGG(DISTINCT s)": "string_agg(DISTINCT s, ',' ORDER BY s)", "MODE(s)": "mode(s ORDER BY {place})",
    "MODE(j)": "mode(j ORDER BY {place})", "STRING_AGG(s) FILTER (WHERE k > 0)":
    "string_agg(s, ',' ORDER BY {place}) FILTER (WHERE k > 0)",
    "STRING_AGG(s, '' ORDER BY j DESC)": "string_agg(s, '' ORDER BY j DESC NULLS LAST, {place})",
}  # fmt: skip
OF_ONES_OWN = {"path(s)": "string_agg(s, '>' ORDER BY {place})"}
VALUES = ("j", "s", "f", "d", "w", "b", "k")
SHARES = ("NTILE(2)", "NTILE(3)", "PERCENT_RANK()", "CUME_DIST()")


@dataclass(frozen=True)
class Call:
    """A function in our words and in DuckDB's, for which rows of equal keys are told apart by `place_N`."""

    ours: str
    theirs: str
    place: str


@dataclass(frozen=True)
class OverCase:
    sql: str
    plain_sql: str
    sources: tuple[Source, ...]

    def by_duckdb(self) -> Bag:
        return bag_of(said_by_duckdb(self.plain_sql, {source.name: source.table for source in self.sources}))

    def __repr__(self) -> str:
        tables = [f"{s.name} (lateness {s.lateness}):\n{s.table.to_pandas().to_string()}" for s in self.sources]
        return "\n".join(["", self.sql, *tables])


@st.composite
def calls(draw: st.DrawFn, number: int, *, ahead: bool = True, kind: str | None = None) -> Call:
    """kind: of which functions; any if it is not said. "collected" are those of all values in order, "own" too an
    aggregate of one's own, which the SQL of checks cannot say."""
    keys = draw(st.sampled_from(PARTITIONS if kind is None else ((), ("k",))))
    ties = [f"{key}{draw(st.sampled_from(WAYS))}" for key in draw(st.sampled_from(TIES))]
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    by_keys = f"{partition}ORDER BY {', '.join(['ts', *ties])}"
    place = f"row_number() OVER ({by_keys}, arrival) AS place_{number}"
    by_place = f"{partition}ORDER BY place_{number}"
    kind = kind or draw(st.sampled_from(("rank", "offset", "aggregate", "aggregate", "collected", "value")))
    if kind == "rank":
        function = draw(st.sampled_from(("ROW_NUMBER()", "RANK()", "DENSE_RANK()")))
        theirs = by_place if function == "ROW_NUMBER()" else by_keys
        return Call(f"{function} OVER ({by_keys})", f"{function} OVER ({theirs})", place)
    if kind == "offset":
        value = draw(st.sampled_from(VALUES))
        more = draw(st.sampled_from(("", "", ", 2", ", 0", ", 3")))
        more += draw(st.sampled_from(("", f", {value}"))) if more else ""
        more += draw(st.sampled_from(("", " IGNORE NULLS", " RESPECT NULLS")))
        function = draw(st.sampled_from(("LAG", "LEAD"))) if ahead else "LAG"
        return Call(
            f"{function}({value}{more}) OVER ({by_keys})", f"{function}({value}{more}) OVER ({by_place})", place
        )
    by_rows = draw(st.booleans())
    frames = [*ROWS_FRAMES, *(ROWS_AHEAD if ahead else ())]
    if not by_rows:
        frames = [*GROUPS_FRAMES, *(GROUPS_AHEAD if ahead else ())]
        frames += [] if ties else [*RANGE_FRAMES, *(RANGE_AHEAD if ahead else ())]
    frame = draw(st.sampled_from(frames)).format(n=draw(st.integers(0, 4)), m=draw(st.integers(0, 3)))
    within = f"({by_keys} {frame})"
    theirs = f"({by_place} {frame})" if by_rows else within
    if kind == "aggregate":
        function = draw(st.sampled_from(AGGREGATES))
        return Call(f"{function} OVER {within}", f"{function} OVER {theirs}", place)
    if kind in ("collected", "own"):
        function, said = draw(st.sampled_from([*COLLECTED.items(), *(OF_ONES_OWN.items() if kind == "own" else ())]))
        said = said.format(place=f"place_{number}")
        return Call(f"{function} OVER {within}", f"{said} OVER {theirs}", place)
    value, function = draw(st.sampled_from(VALUES)), draw(st.sampled_from(("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")))
    ignoring = draw(st.booleans())
    counted = f" FILTER (WHERE {value} IS NOT NULL)" if ignoring else ""
    nth = draw(st.integers(1, 3))
    given = f"{value}, {nth}" if function == "NTH_VALUE" else value
    said = draw(st.sampled_from((f"({given}) IGNORE NULLS", f"({given} IGNORE NULLS)"))) if ignoring else f"({given})"
    rows = f"(list(struct_pack(v := {value}) ORDER BY place_{number}){counted} OVER {theirs})"
    which = {"FIRST_VALUE": "1", "LAST_VALUE": "-1"}.get(function, str(nth))
    return Call(f"{function}{said} OVER {within}", f"struct_extract({rows}[{which}], 'v')", place)


@st.composite
def over_cases(draw: st.DrawFn, late: bool = False, *, ahead: bool = True, kind: str | None = None) -> OverCase:
    """OVER by event time over a stream, with WHERE, expressions, QUALIFY and a query around it."""
    source = draw(streams("s0", 12, late))
    drawn = [draw(calls(number, ahead=ahead, kind=kind)) for number in range(draw(st.sampled_from([1, 1, 2, 3])))]
    shown = [one.ours for one in drawn], [one.theirs for one in drawn]
    where = draw(st.sampled_from(["", "", " WHERE k IS NOT NULL", " WHERE j > 0"]))
    ours = ", ".join(f"{text} AS v{n}" for n, text in enumerate(shown[0]))
    theirs = ", ".join(f"{text} AS v{n}" for n, text in enumerate(shown[1]))
    places = ", ".join(one.place for one in drawn)
    numbered = "(SELECT *, row_number() OVER () AS arrival FROM s0)"
    placed = f"(SELECT *, {places} FROM {numbered}{where})"
    columns = draw(st.sampled_from(["id, ts", "id, k", "s"]))
    keep = draw(st.sampled_from(["", "", "v0 IS NOT NULL", "v0 IS NULL OR id > 2"]))
    plain = f"SELECT {columns}, id AS i, {theirs} FROM {placed}"
    selected = f"SELECT {columns}, id AS i, {ours} FROM s0{where}"
    wanted = "*" if draw(st.booleans()) else "i, v0"
    if keep:
        keep = keep.replace("id", "i")
        plain = f"SELECT * FROM ({plain}) WHERE {keep}"
    around = draw(st.booleans())
    if around:
        selected = f"SELECT {wanted} FROM ({selected}) AS q" + (f" WHERE {keep}" if keep else "")
        plain = f"SELECT {wanted} FROM ({plain})"
    elif keep:
        selected += f" QUALIFY {keep.replace('i > 2', 'id > 2')}"
    return OverCase(selected, plain, (source,))


WINDOWS = ("[RANGE {n} SECONDS]", "[RANGE {n} SECONDS]", "[ROWS {m}]", "[PARTITION BY k ROWS {m}]", "[UNBOUNDED]",
           "[RANGE 4 SECONDS SLIDE 2 SECONDS]")  # fmt: skip
FROMS = (
    "s0 {a}", "s0 {a}", "s0 {a}", "(SELECT k, j, s, f, d, w, b, ts, id FROM s0 {a}) AS s0",
    "(SELECT k, MAX(j) AS j, MAX(s) AS s, MIN(f) AS f, SUM(d) AS d, MAX(w) AS w, BOOL_OR(b) AS b, MAX(ts) AS ts, "
    "COUNT(*) AS id FROM s0 {a} GROUP BY k) AS s0",
)  # fmt: skip
ORDERS = ("j", "j DESC", "ts", "ts DESC", "s, j DESC NULLS FIRST", "f", "w NULLS FIRST", "w", "b DESC, ts")


@st.composite
def changing_calls(draw: st.DrawFn, partition: str, order: str) -> str:
    """A function over rows that come and go; all of a query have one partition and order."""
    kind = draw(st.sampled_from(("rank", "rank", "offset", "aggregate", "aggregate", "whole", "value")))
    if kind == "whole" or not order:
        function = draw(st.sampled_from((*AGGREGATES, *COLLECTED)))
        return (
            f"{function} OVER ({partition})"
            if not order
            else f"{function} OVER ({partition} ORDER BY {order} "
            + ("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)")
        )
    within = f"{partition} ORDER BY {order}"
    if kind == "rank":
        return f"{draw(st.sampled_from(('ROW_NUMBER()', 'RANK()', 'DENSE_RANK()', *SHARES)))} OVER ({within})"
    value = draw(st.sampled_from(VALUES))
    if kind == "offset":
        more = draw(st.sampled_from(("", ", 2", ", 0", f", 1, {value}", ", k", f", j % 3, {value}", ", -1")))
        more += draw(st.sampled_from(("", "", " IGNORE NULLS")))
        return f"{draw(st.sampled_from(('LAG', 'LEAD')))}({value}{more}) OVER ({within})"
    by_time = order.split()[0] in ("ts", "w") and "," not in order
    frames = (*GROUPS_FRAMES, *GROUPS_AHEAD, *ROWS_FRAMES, *ROWS_AHEAD, *WHOLE_FRAMES)
    frames += (*RANGE_FRAMES, *RANGE_AHEAD) if by_time else ()
    frame = draw(st.sampled_from(frames)).format(n=draw(st.integers(0, 3)), m=draw(st.integers(0, 2)))
    function = draw(st.sampled_from((*AGGREGATES, *COLLECTED)))
    if kind != "aggregate":
        function = draw(st.sampled_from(("FIRST_VALUE({})", "LAST_VALUE({})", "NTH_VALUE({}, 2)", "NTH_VALUE({}, k)")))
        function = function.format(value) + draw(st.sampled_from(("", " IGNORE NULLS")))
    return f"{function} OVER ({within} {frame})"


@st.composite
def changing_cases(draw: st.DrawFn, late: bool = False) -> OverCase:
    """OVER in an answer that changes, with WHERE, QUALIFY or a query around it; often the first rows of a partition."""
    window = draw(st.sampled_from(WINDOWS)).format(n=draw(st.integers(0, 4)), m=draw(st.integers(1, 4)))
    rows = draw(st.sampled_from(FROMS)).format(a=window)
    keys = draw(st.sampled_from(PARTITIONS))
    partition = f"PARTITION BY {', '.join(keys)}" if keys else ""
    order = draw(st.sampled_from(("", *ORDERS, *ORDERS)))
    drawn = [draw(changing_calls(partition, order)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    if draw(one_in(3, True, False)):
        other = draw(st.sampled_from(PARTITIONS))
        by = f"PARTITION BY {', '.join(other)}" if other else ""
        drawn.append(draw(changing_calls(by, draw(st.sampled_from(ORDERS)))))
    shown = ", ".join(f"{text} AS v{n}" for n, text in enumerate(drawn))
    where = draw(st.sampled_from(["", "", " WHERE j > 0"]))
    columns = draw(st.sampled_from(["id, ts", "id, k", "s"]))
    ranked = "RANK()" in drawn[0] or "ROW_NUMBER()" in drawn[0]
    tests = ["v0 <= 1", "v0 < 3", "v0 = 2", "v0 <= 2 AND j > 0"] if ranked else ["v0 IS NOT NULL"]
    keep = draw(st.sampled_from(["", *tests]))
    sql = f"SELECT {columns}, j, {shown} FROM {rows}{where}"
    if keep and draw(st.booleans()):
        sql = f"SELECT * FROM ({sql}) AS q WHERE {keep}"
    elif keep:
        sql += f" QUALIFY {keep}"
    return OverCase(sql, "", (draw(streams("s0", 8, late)),))


RIGHT = "(SELECT id AS id2, k AS k2, ts AS ts2 FROM s1) AS r"
STREAMED = (
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n, LAG(j) OVER (ORDER BY ts) AS o FROM s0) AS s0",
    "(SELECT k, j, s, f, d, w, b, id FROM s0 WHERE j > 0) AS s0",
    f"s0, {RIGHT} WHERE s0.k = r.k2 WINDOW = 2 SECONDS",
    f"s0 LEFT JOIN {RIGHT} ON s0.k = r.k2 AND ABS(r.ts2 - s0.ts) <= 1 SECONDS",
    f"s0 SEMI JOIN {RIGHT} ON s0.k = r.k2 AND ABS(r.ts2 - s0.ts) <= 1 SECONDS",
    "(SELECT s0.k, s0.j, s0.s, s0.f, s0.d, s0.w, s0.b, s0.id FROM s0, s1 WHERE s0.j = s1.j WINDOW = 1 SECONDS) AS s0",
    "(SELECT ISTREAM DISTINCT k, j, s, f, d, w, b, j AS id FROM s0 [RANGE 2 SECONDS]) AS s0",
)


@st.composite
def over_many_cases(draw: st.DrawFn, late: bool = False, *, ahead: bool = True) -> OverCase:
    """OVER by event time over joins and over the rows of other queries, those with OVER among them."""
    rows = draw(st.sampled_from(STREAMED))
    drawn = [draw(calls(number, ahead=ahead)).ours for number in range(draw(st.sampled_from([1, 1, 2])))]
    shown = ", ".join(f"{text} AS v{n}" for n, text in enumerate(drawn)).replace("ORDER BY ts", "ORDER BY event_time()")
    keep = draw(st.sampled_from(["", "", " QUALIFY v0 IS NOT NULL"]))
    sources = tuple(draw(streams(name, 7, late)) for name in ("s0", "s1") if name in rows)
    return OverCase(f"SELECT k, j, id, {shown} FROM {rows}{keep}", "", sources)


FILLS = {
    "LOCF({x})": "p_{x}", "": "p_{x}", "KEEPNULL({x})": "NULL", "CONSTANT({x}, 7)": "7",
    "INTERPOLATE({x})": "p_{x} + ((CAST({x} AS DOUBLE) - p_{x}) * epoch_us(moment - p_t)) / epoch_us(t - p_t)",
}  # fmt: skip
OF_ROWS = ("s0", "ts", "SELECT *, ts AS t, row_number() OVER () AS arrival FROM s0")
OF_GROUPS = (
    "(SELECT k, window_start, window_end, MAX(j) AS j, MAX(f) AS f FROM TUMBLE(s0, 1 SECOND) GROUP BY k, window_start)",
    "window_start",
    "SELECT k, time_bucket(INTERVAL 1 SECOND, ts) AS t, max(j) AS j, max(f) AS f, 0 AS arrival FROM s0 GROUP BY 1, 2",
)


@st.composite
def gap_cases(draw: st.DrawFn, late: bool = False) -> OverCase:
    """Rows, or groups of windows, between which every step has a row."""
    read, time, rows = draw(st.sampled_from((OF_ROWS, OF_GROUPS)))
    step = draw(st.sampled_from((1, 2, 5))) if read == "s0" else 1
    keys = draw(st.sampled_from((["k"], ["k"], ["k", "b"], []))) if read == "s0" else ["k"]
    fills = {x: draw(st.sampled_from([how for how in FILLS if x == "f" or "INTER" not in how])) for x in ("j", "f")}
    said = "".join(f", {how.format(x=x)}" for x, how in fills.items() if how)
    by = f" PARTITION BY {', '.join(keys)}" if keys else ""
    shown = "".join(f"{key}, " for key in keys)
    interval = f"INTERVAL '{step}' SECOND"
    ours = f"SELECT {shown}{time} AS t, j, f FROM GAP_FILL({read}, {time}, {interval}{said}{by}) AS g"
    before = f"({by} ORDER BY t, arrival)"
    lags = ", ".join(f"lag({x}) OVER {before} AS p_{x}" for x in ("t", "j", "f"))
    steps = f"generate_series(p_t + {interval}, t - INTERVAL 1 MICROSECOND, {interval})"
    made = ", ".join(f"{how.format(x=x)} AS {x}" for x, how in ((x, FILLS[how]) for x, how in fills.items()))
    plain = (
        f"WITH r AS ({rows}), g AS (SELECT *, {lags} FROM r) SELECT {shown}t, j, f FROM g UNION ALL "
        f"SELECT {shown}moment AS t, {made} FROM (SELECT *, unnest({steps}) AS moment FROM g)"
    )
    return OverCase(ours, plain, (draw(streams("s0", 9, late)),))


WINDOWED = ("TUMBLE(s0, 2 SECONDS)", "HOP(s0, 1 SECONDS, 2 SECONDS)", "SESSION(s0, 1 SECONDS PARTITION BY k)")
GROUPED = (
    "(SELECT k, MAX(j) AS j, MAX(s) AS s, MIN(f) AS f, SUM(d) AS d, MAX(w) AS w, BOOL_OR(b) AS b, COUNT(*) AS id, "
    "MAX(ts) AS ts, window_start, window_end FROM {} GROUP BY k, window_start, window_end) AS g"
)  # fmt: skip


@st.composite
def complete_cases(draw: st.DrawFn, late: bool = False) -> OverCase:
    """OVER within windows that are given once, of their rows or of their groups."""
    rows = draw(st.sampled_from(WINDOWED))
    rows = rows if draw(st.booleans()) else GROUPED.format(rows)
    windows = ["window_start, window_end"] + ([] if "SESSION" in rows else ["window_start", "window_end"])
    partition = f"PARTITION BY {draw(st.sampled_from(windows))}{draw(st.sampled_from(['', ', k', ', s']))}"
    order = draw(st.sampled_from(("", *ORDERS)))
    call = draw(changing_calls(partition, order))
    keep = draw(st.sampled_from(["", " QUALIFY v0 <= 1"])) if "RANK()" in call or "NUMBER()" in call else ""
    sql = f"SELECT id, k, window_end, {call} AS v0 FROM {rows}{keep}"
    return OverCase(sql, "", (draw(streams("s0", 9, late)),))
