"""Random queries whose answers change: trees of windows, joins, groups, sets, views, derived streams and first rows.

Every part is written for given columns, so that any two of them fit into a set operation. Trees have at most four
levels of operators; streams are short, and times, keys and window edges coincide often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from hypothesis import strategies as st

from tests.properties.strategies import one_in, static_tables, streams
from tests.runners import Source

Kind = Literal["int", "text", "float", "decimal", "time", "bool"]
Columns = tuple[tuple[str, Kind], ...]

STREAMS = ("s0", "s1", "s2")
MOST_ROWS = 7
DEPTH = 4
BASE: Columns = (
    ("k", "int"), ("j + 0", "int"), ("s", "text"), ("f", "float"), ("d", "decimal"), ("w", "time"), ("ts", "time"),
    ("b", "bool"),
)  # fmt: skip
CONSTANTS: dict[Kind, str] = {
    "int": "CAST(1 AS BIGINT)", "text": "'c'", "float": "CAST(0.5 AS DOUBLE)", "decimal": "CAST(1.25 AS DECIMAL(6, 2))",
    "time": "TIMESTAMP '2024-01-01 00:00:02'", "bool": "TRUE",
}  # fmt: skip
SIMPLE = ("COUNT(*)", "COUNT({x})", "COUNT(DISTINCT {x})")
# What has the same value however it is computed; of floating numbers that is only what picks one of them.
EXACT: dict[Kind, tuple[str, ...]] = {
    "int": (
        "SUM({x})", "SUM(DISTINCT {x})", "MIN({x})", "MAX({x})", "FIRST({x})", "LAST({x})", "MODE({x})",
        "ARG_MAX({x}, {n})", "SUM({x}) FILTER (WHERE {n} > 0)", "LIST_SUM(ARRAY_AGG({x}))", "MODE({x} ORDER BY {n})",
        "ARG_MIN({x}, {n} ORDER BY {x} DESC)", "FIRST({x} ORDER BY {n} DESC NULLS FIRST)", "SUM({x} ORDER BY {n})",
        "BIT_XOR({x})", "BIT_AND({x})", "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY {x} DESC)",
    ),
    "text": (
        "MIN({x})", "MAX({x})", "FIRST({x})", "LAST({x})", "STRING_AGG({x}, '-')", "STRING_AGG(DISTINCT {x})",
        "MODE({x})", "ARG_MIN({x}, {n})", "STRING_AGG({x}) FILTER (WHERE {n} > 0)",
        "STRING_AGG({x}, '' ORDER BY {n} DESC) FILTER (WHERE {n} > 0)", "STRING_AGG(DISTINCT {x} ORDER BY {x} DESC)",
        "LAST({x} ORDER BY {n})", "JSON_AGG({x} ORDER BY {n})", "JSON_OBJECT_AGG({x}, {n})",
        "MODE() WITHIN GROUP (ORDER BY {x})", "QUANTILE_DISC({x}, 0.5)",
    ),
    "float": ("MIN({x})", "MAX({x})", "LAST({x})"),
    "decimal": ("MIN({x})", "MAX({x})", "FIRST({x})"),
    "time": ("MIN({x})", "MAX({x})", "LAST({x})"),
    "bool": ("MIN({x})", "MAX({x})", "FIRST({x})", "BOOL_AND({x})", "BOOL_OR({x})"),
}  # fmt: skip
# What goes by the order of rows in time.
BY_TIME = ("FIRST", "LAST", "MODE", "ARG_", "STRING_AGG", "JSON_", "ARRAY_AGG", "LIST_SUM")
# What is nested, as it stands, as nothing but a changing answer can have it.
NESTED = (
    "ARRAY_AGG({x})", "ARRAY_AGG({x} ORDER BY {n} DESC NULLS FIRST)", "ARRAY_AGG(DISTINCT {x} ORDER BY {x} DESC)",
    "ARRAY_AGG({x}) FILTER (WHERE {n} > 0)", "FIRST(STRUCT({x} AS v, {n} AS n))", "MAX([{x}, {x}])",
    "ARRAY_AGG(DISTINCT [{x}])", "LENGTH(MODE([{x}]))", "COUNT(DISTINCT STRUCT({x} AS v))", "TOPK({x}, 2)",
)  # fmt: skip
SHAPES = ("SKEWNESS({x})", "KURTOSIS({x})", "KURTOSIS_POP({x})", "COVAR_SAMP({x}, ({x}) % 3)", "CORR({x}, ABS({x}))")
EXACT_DOUBLES = ("AVG({x})", "AVG(DISTINCT {x})", "MEDIAN({x})")  # of integers
DOUBLES = ("AVG({x})", "AVG(DISTINCT {x})", "MEDIAN({x})", "PERCENTILE({x}, 0.25)", "STDDEV({x})", "VARIANCE({x})",
           "VAR_POP({x})", "STDDEV_POP({x})")  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What may be drawn. `counts`: ROWS windows and FIRST, LAST, whose answer depends on the order of arrival.
    `exact`: only aggregates that any two ways to compute them agree on to the last digit. `inputs`: how many entries
    FROM may have; `joined_by`: what may stand between their columns."""

    half_open: bool = False
    counts: bool = True
    exact: bool = False
    inputs: tuple[int, ...] = (1, 1, 2, 2)
    joined_by: tuple[str, ...] = ("=",)
    emits_changes: bool = False  # of groups of windows


@dataclass(frozen=True)
class From:
    """One entry of FROM: its text, and what can be selected of it."""

    sql: str
    columns: Columns
    is_view: bool = False
    partner: str | None = None  # a column that joins are made on
    time: str | None = None


@dataclass(frozen=True)
class Case:
    """A query without its options, and the sources it reads."""

    query: str
    sources: tuple[Source, ...]
    shape: Shape

    def sql(self, **options: str) -> str:
        chosen = {**({"boundary": "half_open"} if self.shape.half_open else {}), **options}
        chosen |= {"emit": "changes"} if self.shape.emits_changes else {}
        written = ", ".join(f"{name} = '{value}'" for name, value in chosen.items())
        return f"{self.query}\nOPTIONS ({written})" if written else self.query

    def __repr__(self) -> str:
        tables = [
            f"{s.name} (lateness {s.lateness}):\n{s.table.to_pandas().to_string() if len(s.table) else 'empty'}"
            for s in self.sources
            if s.name in self.query
        ]
        return "\n".join(["", self.sql(), *tables])


# ---- FROM -----------------------------------------------------------------------------------------------------------


@st.composite
def windows(draw: st.DrawFn, shape: Shape, keys: Sequence[str] = ("k", "s", "f")) -> str:
    least = 1 if shape.half_open else 0
    forms = [f"[RANGE {draw(st.integers(least, 4))} SECONDS]"] * 4 + ["[UNBOUNDED]"]
    forms += [] if shape.half_open else ["[NOW]"]
    # Steps that divide the length and steps that do not, shifted and not.
    size, slide = sorted(draw(st.tuples(st.integers(1, 8), st.integers(1, 8))), reverse=True)
    offset = draw(st.sampled_from(["", "", " OFFSET 300 MILLISECONDS", " OFFSET -1 SECOND"]))
    forms += [f"[RANGE {size * 500} MILLISECONDS SLIDE {slide * 500} MILLISECONDS{offset}]"] * 2
    # Before all rows, and among them.
    landmark = draw(st.sampled_from(["2023-12-31 23:59:59.700", "2024-01-01 00:00:01"]))
    forms += [f"[LANDMARK '{landmark}'{every}]" for every in ("", f" EVERY {size * 500} MILLISECONDS")]
    forms += [f"[LATCH {slide * 500} MILLISECONDS]"]
    if shape.counts:
        count, step = sorted(draw(st.tuples(st.integers(1, 3), st.integers(1, 3))), reverse=True)
        forms += [f"[ROWS {count} SLIDE {step}]"]
        forms += [f"[PARTITION BY {draw(st.sampled_from(keys))} ROWS {count} SLIDE {step}]"] if keys else []
        forms += [f"[ROWS {draw(st.integers(1, 3))}]"]
        forms += [f"[PARTITION BY {draw(st.sampled_from(keys))} ROWS {draw(st.integers(1, 2))}]"] if keys else []
    return draw(st.sampled_from(forms))


@st.composite
def window_functions(draw: st.DrawFn, shape: Shape, stream: str) -> str:
    """TUMBLE, HOP or SESSION, in our words or the standard's."""
    size, slide = sorted(draw(st.tuples(st.integers(1, 8), st.integers(1, 8))), reverse=True)
    whole = size // slide * slide  # of CUMULATE a multiple of its step
    standard = draw(st.booleans())
    lengths = [
        f"INTERVAL '{n * 500}' MILLISECONDS" if standard else f"{n * 500} MILLISECONDS" for n in (slide, size, whole)
    ]
    offset = draw(st.sampled_from(["", "", ", OFFSET 300 MILLISECONDS", ", -1 SECOND"]))
    word = draw(st.sampled_from(["TUMBLE", "HOP", "CUMULATE"] + ([] if shape.emits_changes else ["SESSION"])))
    key = draw(st.sampled_from(["", " PARTITION BY k", " PARTITION BY s, f"])) if word == "SESSION" else ""
    sizes = {
        "TUMBLE": lengths[1] + offset,
        "HOP": ", ".join(lengths[:2]) + offset,
        "CUMULATE": ", ".join([lengths[0], lengths[2]]) + offset,
        "SESSION": lengths[0],
    }[word]
    if standard:
        return f"TABLE({word}(TABLE {stream}{key}, DESCRIPTOR(ts), {sizes}))"
    return f"{word}({stream}, {sizes}{key})"


@st.composite
def window_groups(draw: st.DrawFn, columns: Columns, shape: Shape) -> str:
    """Groups of one window each, of one stream or of two that are joined by their windows."""
    function = draw(window_functions(shape, draw(st.sampled_from(STREAMS))))
    text, known = f"{function} AS a", [(f"a.{name}", kind) for name, kind in BASE]
    known += [("a.window_start", "time"), ("a.window_end", "time"), ("EPOCH_US(a.window_end) - EPOCH_US(a.ts)", "int")]
    if draw(one_in(4, True, False)):
        other = draw(window_functions(shape, draw(st.sampled_from(STREAMS))))
        equal = "a.window_start = b.window_start AND a.window_end = b.window_end"
        text = f"{text} JOIN {other} AS b ON a.k = b.k AND {equal}"
        known += [(f"b.{name}", kind) for name, kind in BASE]
    where = draw(st.sampled_from(["", "", " WHERE a.k > 0", " WHERE a.window_end > a.w"]))
    read = Sources(f"FROM {text}{where}", tuple(known), has_view=False)
    alone = [] if "SESSION" in function or " JOIN " in text else [["a.window_end"]]
    alone += [["a.window_start"]] if alone and "CUMULATE" not in function else []
    return draw(grouped(columns, read, shape, draw(st.sampled_from([["a.window_start", "a.window_end"], *alone]))))


@st.composite
def growing_sessions(draw: st.DrawFn, columns: Columns, shape: Shape) -> str:
    """Sessions as rows come: the groups are whole sessions, whose end moves on."""
    keys = draw(st.sampled_from([(), ("k",), ("s", "f")]))
    by = f" PARTITION BY {', '.join(keys)}" if keys else ""
    source = f"SESSION({draw(st.sampled_from(STREAMS))}, {draw(st.integers(1, 8)) * 500} MILLISECONDS{by}) AS a"
    known = [(f"a.{name}", kind) for name, kind in BASE]
    where = draw(st.sampled_from(["", " WHERE a.k > 0"])) if "k" in keys else ""
    read = Sources(f"FROM {source}{where}", tuple(known), has_view=False)
    shown = {"time": ["a.window_start", "a.window_end"], "int": ["EPOCH_US(a.window_end) - EPOCH_US(a.window_start)"]}
    listed = []
    for name, kind in columns:
        own = [*shown.get(kind, []), *(f"a.{key}" for key, its in BASE if key in keys and its == kind)]
        value = draw(st.sampled_from(own)) if own and draw(st.booleans()) else draw(aggregates(kind, read, shape))
        listed.append(f"{value} AS {name}")
    having = draw(
        st.sampled_from(["", "", " HAVING COUNT(*) > 1", " HAVING a.window_end - a.window_start > 2 SECONDS"])
    )
    grouped_by = ", ".join([*(f"a.{key}" for key in keys), "a.window_start", "a.window_end"])
    return f"SELECT {', '.join(listed)} {read.sql} GROUP BY {grouped_by}{having}"


def columns_of(kinds: Sequence[Kind]) -> Columns:
    return tuple((f"c{n}", kind) for n, kind in enumerate(kinds))


KINDS: st.SearchStrategy[list[Kind]] = st.lists(
    st.sampled_from(["int", "int", "text", "float", "decimal", "time", "bool"]), min_size=1, max_size=2
)


@st.composite
def entries(draw: st.DrawFn, alias: str, depth: int, shape: Shape) -> From:
    """A stream, now and then a table, and as long as depth remains a view or a derived stream."""
    form = draw(st.sampled_from(["stream"] + (["view", "derived", "windows", "together"] if depth > 1 else [])))
    if form == "stream":
        window = draw(windows(shape))
        return From(f"{draw(st.sampled_from(STREAMS))} {window} AS {alias}", BASE, partner="k", time="ts")
    inside = columns_of(draw(KINDS))
    partner = next((name for name, kind in inside if kind == "int"), None)
    if form == "windows" and not shape.emits_changes:
        body = draw(window_groups(inside, shape))
        if draw(st.booleans()):
            known = [*BASE, ("window_end", "time")]
            shown = [draw(st.sampled_from([e for e, known_kind in known if known_kind == kind])) for _, kind in inside]
            listed = [f"{e} AS {name}" for e, (name, _) in zip(shown, inside, strict=True)]
            function = draw(window_functions(shape, draw(st.sampled_from(STREAMS))))
            body = f"SELECT {', '.join(listed)} FROM {function}"
        window = draw(windows(shape, [name for name, _ in inside]))
        return From(f"({body}) {window} AS {alias}", inside, False, partner)
    if form == "together":
        timed = draw(st.booleans())
        body = draw(streams_together((*inside, *([("at", "time")] if timed else []))))
        window = draw(windows(shape, [name for name, _ in inside]))
        return From(f"({body}) {window} AS {alias}", inside, False, partner, "at" if timed else "_ts")
    if form == "view":
        return From(f"({draw(answers(depth - 1, inside, shape))}) AS {alias}", inside, True, partner)
    word = draw(st.sampled_from(["ISTREAM", "DSTREAM", "CHANGES", "RSTREAM"]))
    if word == "CHANGES":
        logged = f"CHANGES(({draw(answers(depth - 1, inside, shape))}))"
        window = draw(windows(shape, ["_op", *(name for name, _ in inside)]))
        return From(f"{logged} {window} AS {alias}", (*inside, ("_op", "text")), False, partner, "_ts")
    every = f" EVERY {draw(st.integers(1, 3))} SECONDS" if word == "RSTREAM" else ""
    body = with_word(draw(answers(depth - 1, inside, shape)), word)
    window = draw(windows(shape, [name for name, _ in inside]))
    # A plain join is a stream by itself, and its event time may be a column that was selected.
    return From(f"({body}{every}) {window} AS {alias}", inside, False, partner, None if word == "ISTREAM" else "_ts")


@st.composite
def streams_together(draw: st.DrawFn, columns: Columns) -> str:
    """UNION ALL of two or three streams without windows; a column `at` is their event time."""
    branches = []
    for _ in range(draw(st.integers(2, 3))):
        two = draw(one_in(4, True, False))
        kinds = {kind: [f"a.{e}" for e, known in BASE if known == kind and e != "ts"] for _, kind in columns}
        time = "event_time()" if two else "a.ts"
        listed = [f"{time if name == 'at' else draw(st.sampled_from(kinds[kind]))} AS {name}" for name, kind in columns]
        read = f"{draw(st.sampled_from(STREAMS))} AS a" + (f", {draw(st.sampled_from(STREAMS))} AS b" if two else "")
        where = draw(st.sampled_from(["", "", " WHERE a.k > 0"]))
        where += (" AND" if where else " WHERE") + " a.k = b.k AND ABS(a.ts - b.ts) < 2 SECONDS" if two else ""
        branches.append(f"SELECT {', '.join(listed)} FROM {read}{where}")
    return " UNION ALL ".join(branches)


def with_word(body: str, word: str) -> str:
    """The answer's changes: the word stands in the first SELECT."""
    return body.replace("SELECT", f"SELECT {word}", 1)


@dataclass(frozen=True)
class Sources:
    """FROM and WHERE, and what can be selected: expressions with their kinds."""

    sql: str
    columns: Columns
    has_view: bool
    is_plain: bool = True  # inner joins only

    def of_kind(self, kind: Kind) -> list[str]:
        return [text for text, known in self.columns if known == kind] or [CONSTANTS[kind]]


@st.composite
def sources(draw: st.DrawFn, depth: int, shape: Shape) -> Sources:
    """A few entries and sometimes a table, joined on a column or not at all."""
    outer = draw(one_in(4, True, False))
    number = draw(st.sampled_from([2, 2, 3] if outer else shape.inputs))
    aliases = "abc"[:number]
    found = [draw(entries(alias, depth, shape)) for alias in aliases]
    conditions: list[str] = []
    partners = [f"{alias}.{one.partner}" for alias, one in zip(aliases, found, strict=True) if one.partner]
    for left, right in pairwise(partners):
        if draw(one_in(4, False, True)):
            conditions.append(f"{left} {draw(st.sampled_from(shape.joined_by))} {right}")
    times = [f"{alias}.{one.time}" for alias, one in zip(aliases, found, strict=True) if one.time]
    if len(times) == 2 and draw(one_in(4, True, False)):
        a, b = times
        bounds = [f"{a} <= {b}", f"{b} - {a} <= INTERVAL 1 SECOND", f"ABS({a} - {b}) < 2 SECONDS", "WINDOW = 2 SECONDS"]
        conditions.append(draw(st.sampled_from(bounds)))
    texts = [one.sql for one in found]
    if partners and draw(one_in(8, True, False)):
        # A table that is read, or one that the query says itself.
        said = ("(VALUES (1), (NULL), (2), (2))", "generate_series(-1, 2)", "(SELECT 1 UNION ALL SELECT 2)")
        read = draw(st.sampled_from(["lookup", "lookup", *(f"{one} AS said (k)" for one in said)]))
        texts.append(read)
        conditions.append(f"{partners[0]} = {'lookup' if read == 'lookup' else 'said'}.k")
    if partners and draw(one_in(3, True, False)):
        conditions.append(f"{partners[0]} {draw(st.sampled_from(['> 0', 'IS NOT NULL', '<> 2', '> 99']))}")
    columns = tuple(
        (f"{alias}.{name}", kind) for alias, one in zip(aliases, found, strict=True) for name, kind in one.columns
    )
    if any(not one.is_view for one in found):
        columns += (("EPOCH_US(event_time()) % 5000000", "int"),)
    if outer:
        return draw(left_over(aliases, found, shape))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return Sources(f"FROM {', '.join(texts)}{where}", columns, any(one.is_view for one in found))


@st.composite
def left_over(draw: st.DrawFn, aliases: str, found: Sequence[From], shape: Shape) -> Sources:
    """The same entries, joined so that rows without a partner are given, or asked for."""
    sql, seen = found[0].sql, [(aliases[0], found[0])]
    for alias, one in zip(aliases[1:], found[1:], strict=True):
        kind = draw(st.sampled_from(["LEFT", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "INNER"]))
        conditions: list[str] = []
        for other, before in seen:
            if one.partner and before.partner and draw(one_in(4, False, True)):
                sign = draw(st.sampled_from(shape.joined_by))
                conditions.append(f"{other}.{before.partner} {sign} {alias}.{one.partner}")
            if one.time and before.time and draw(one_in(4, True, False)):
                a, b = f"{other}.{before.time}", f"{alias}.{one.time}"
                conditions.append(draw(st.sampled_from([f"{a} <= {b}", f"{b} - {a} <= INTERVAL 1 SECOND"])))
        if one.partner and draw(one_in(5, True, False)):
            conditions.append(f"{alias}.{one.partner} <> 2")
        sql = f"{sql} {kind} JOIN {one.sql} ON {' AND '.join(conditions) or 'TRUE'}"
        seen = seen if kind in ("SEMI", "ANTI") else [*seen, (alias, one)]
        if len(seen) > 1 and draw(one_in(4, True, False)):
            sql = f"({sql})"
    partners = [f"{alias}.{one.partner}" for alias, one in seen if one.partner]
    where = draw(st.sampled_from(["> 0", "IS NOT NULL", "IS NULL", "<> 2"])) if draw(one_in(3, True, False)) else None
    columns = tuple((f"{alias}.{name}", kind) for alias, one in seen for name, kind in one.columns)
    text = f"FROM {sql}" + (f" WHERE {draw(st.sampled_from(partners))} {where}" if where and partners else "")
    return Sources(text, columns, has_view=True, is_plain=False)


# ---- answers --------------------------------------------------------------------------------------------------------


@st.composite
def selects(draw: st.DrawFn, depth: int, columns: Columns, shape: Shape) -> str:
    """A plain SELECT over windows, or SELECT DISTINCT."""
    read = draw(sources(depth - 1, shape))
    listed = [f"{draw(st.sampled_from(read.of_kind(kind)))} AS {name}" for name, kind in columns]
    word = draw(st.sampled_from(["", "", "DISTINCT "]))
    # Rows without a partner are final, or change where a side has no end; in steps they are neither.
    if not read.is_plain and any(word in read.sql for word in ("SLIDE", "LANDMARK", "LATCH")):
        word = "DISTINCT "
    return f"SELECT {word}{', '.join(listed)} {read.sql}"


@st.composite
def groups(draw: st.DrawFn, depth: int, columns: Columns, shape: Shape) -> str:
    return draw(grouped(columns, draw(sources(depth - 1, shape)), shape))


@st.composite
def grouped(draw: st.DrawFn, columns: Columns, read: Sources, shape: Shape, always: Sequence[str] = ()) -> str:
    keys: list[str] = list(always)
    listed: list[str] = []
    as_a_whole = not always and draw(one_in(3, True, False))  # without GROUP BY
    for name, kind in columns:
        value = draw(st.sampled_from(read.of_kind(kind)))
        if not as_a_whole and draw(st.booleans()):
            keys.append(value)
        # Groups are told apart also by keys that nobody sees.
        shown = keys[-1:] == [value] and draw(one_in(4, False, True))
        listed.append(f"{value if shown else draw(aggregates(kind, read, shape))} AS {name}")
    listing = ", ".join(dict.fromkeys(keys))
    stepping = any(word in read.sql for word in ("TUMBLE(", "HOP(", "CUMULATE(", "SESSION("))
    forms = (
        [listing]
        if stepping
        else [listing, listing, listing, f"ROLLUP ({listing})", f"CUBE ({listing})", f"GROUPING SETS (({listing}), ())"]
    )
    group_by = f" GROUP BY {draw(st.sampled_from(forms))}" if keys else ""
    conditions = ("COUNT(*) > 1", "MAX({x}) >= 1 OR COUNT(*) = 1", "COUNT(*) = 0 OR MIN({x}) > 1")
    having = draw(st.sampled_from(["", "", "", *(f" HAVING {one}" for one in conditions)]))
    having = having.format(x=draw(st.sampled_from(read.of_kind("int"))))
    if not keys and not any("(" in text for text in listed):
        having = having or " HAVING COUNT(*) > 0"
    return f"SELECT {', '.join(listed)} {read.sql}{group_by}{having}"


@st.composite
def aggregates(draw: st.DrawFn, kind: Kind, read: Sources, shape: Shape) -> str:
    number = draw(st.sampled_from(read.of_kind("int")))
    value = draw(st.sampled_from(read.of_kind(kind)))
    choices = [text.format(x=value, n=number) for text in EXACT[kind]]
    if read.has_view or not shape.counts:
        choices = [text for text in choices if not text.startswith(BY_TIME)]
    if kind == "int":
        choices += [text.format(x=draw(st.sampled_from([text for text, _ in read.columns]))) for text in SIMPLE]
    if kind == "float":
        choices += [text.format(x=number) for text in EXACT_DOUBLES]
        if not shape.exact:
            choices += [text.format(x=draw(st.sampled_from([number, value]))) for text in DOUBLES]
            choices += [f"SUM({value})", f"ENTROPY({value})", *(text.format(x=number) for text in SHAPES)]
    return draw(st.sampled_from(choices))


@st.composite
def set_operations(draw: st.DrawFn, depth: int, columns: Columns, shape: Shape) -> str:
    word = draw(st.sampled_from(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]))
    left, right = (draw(answers(depth - 1, columns, shape)) for _ in "lr")
    return f"({left}) {word} ({right})"


@st.composite
def first_rows(draw: st.DrawFn, depth: int, columns: Columns, shape: Shape) -> str:
    body = draw(bodies(depth - 1, columns, shape))
    name = draw(st.sampled_from([name for name, _ in columns]))
    direction = draw(st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS LAST", " DESC NULLS FIRST"]))
    rows, start = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    most = [
        f"LIMIT {rows}", f"LIMIT {rows} OFFSET {start}", f"OFFSET {start} ROWS", f"FETCH FIRST {rows} ROWS WITH TIES",
        f"OFFSET {start} FETCH NEXT {rows} ROWS WITH TIES",
    ]  # fmt: skip
    return f"{body} ORDER BY {name}{direction} {draw(st.sampled_from(most))}"


@st.composite
def bodies(draw: st.DrawFn, depth: int, columns: Columns, shape: Shape) -> str:
    """An answer without ORDER BY, which may stand once."""
    forms = [selects, groups] + ([set_operations] * 2 if depth > 1 else [])
    return draw(draw(st.sampled_from(forms))(depth, columns, shape))


@st.composite
def answers(draw: st.DrawFn, depth: int, columns: Columns, shape: Shape) -> str:
    """Any answer with these columns, of at most so many levels."""
    if depth > 1 and draw(one_in(5, True, False)):
        return draw(first_rows(depth, columns, shape))
    return draw(bodies(depth, columns, shape))


@st.composite
def group_over_except_over_join(draw: st.DrawFn, columns: Columns, shape: Shape) -> str:
    """EXCEPT under GROUP BY over a join with unequal windows."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=3, unique=True))
    pairs = f"SELECT a.k AS c, b.s AS t FROM s0 [RANGE {sizes[0]} SECONDS] AS a, s1 [RANGE {sizes[1]} SECONDS] AS b"
    word = draw(st.sampled_from(["EXCEPT", "EXCEPT ALL"]))
    view = f"{pairs} WHERE a.k = b.k {word} SELECT k, s FROM s2 [RANGE {sizes[2]} SECONDS]"
    kinds = {"int": "COUNT(*)", "text": "MIN(t)", "float": "AVG(c)"}
    listed = [f"{kinds.get(kind, CONSTANTS[kind])} AS {name}" for name, kind in columns]
    return f"SELECT {', '.join(['c AS g', *listed])} FROM ({view}) AS v GROUP BY c"


@st.composite
def every_aggregate(draw: st.DrawFn, columns: Columns, shape: Shape) -> str:
    """All aggregates of one group side by side."""
    read = draw(sources(2, shape))
    values: dict[Kind, str] = {kind: draw(st.sampled_from(read.of_kind(kind))) for kind in EXACT}
    number = values["int"]
    texts = [text.format(x=values[kind], n=number) for kind, known in EXACT.items() for text in known]
    texts += [text.format(x=values["int"]) for text in (*EXACT_DOUBLES, "SUM(DISTINCT {x})")]
    texts += [text.format(x=value) for text in SIMPLE for value in values.values()]
    texts += [f"SUM({values['decimal']})", f"COUNT(DISTINCT {values['float']})"]
    if not shape.exact:
        numbers = [values[kind] for kind in ("int", "float", "decimal")]
        texts += [text.format(x=value) for text in DOUBLES for value in numbers]
        texts += [f"SUM({values['float']})", *(text.format(x=number) for text in SHAPES)]
    texts += [text.format(x=values[kind], n=number) for text in NESTED for kind in ("int", "text", "bool")]
    if read.has_view or not shape.counts:
        texts = [text for text in texts if not text.startswith(BY_TIME)]
    listed = [f"{text} AS x{n}" for n, text in enumerate(dict.fromkeys(texts))]
    lists = [f"[{one}, {number}]" for one in read.of_kind("int")]
    key = draw(st.sampled_from([None, *read.of_kind("int"), *read.of_kind("text"), *lists]))
    head, group_by = ("", "") if key is None else (f"{key} AS g, ", f" GROUP BY {key}")
    return f"SELECT {head}{', '.join(listed)} {read.sql}{group_by}"


# ---- cases ----------------------------------------------------------------------------------------------------------


@st.composite
def cases(
    draw: st.DrawFn,
    counts: bool = True,
    exact: bool = False,
    words: bool = True,
    wide: bool = False,
    late: bool = True,
) -> Case:
    """A whole query with its data; `words` allows ISTREAM, DSTREAM and RSTREAM around it, `late` rows too late; `wide`
    joins are of three, or by more than equality: those that have several ways to run."""
    shape = Shape(draw(one_in(4, True, False)), counts, exact)
    if wide:
        shape = replace(shape, inputs=(2, 3, 3, 3), joined_by=("=", "=", "<=", ">"))
    columns = columns_of(draw(KINDS))
    forms = [group_over_except_over_join, every_aggregate, window_groups]
    form = draw(st.sampled_from([None, None, None, None, *forms]))
    if form is window_groups:
        shape = replace(shape, emits_changes=draw(one_in(3, True, False)))
        if shape.emits_changes and draw(one_in(3, True, False)):
            form = growing_sessions
    depth = draw(st.sampled_from([1, 2, 3, 3, DEPTH, DEPTH]))
    query = draw(form(columns, shape)) if form else draw(answers(depth, columns, shape))
    word = draw(st.sampled_from([None, None, None, "ISTREAM", "DSTREAM", "RSTREAM"])) if words else None
    if form is window_groups and not shape.emits_changes and word != "ISTREAM":
        word = None  # each is given once
    if word is not None:
        query = with_word(query, word) + (f" EVERY {draw(st.integers(1, 3))} SECONDS" if word == "RSTREAM" else "")
    read = [draw(streams(name, MOST_ROWS, late)) for name in STREAMS if name in query]
    tables = [draw(static_tables("lookup"))] if "lookup" in query else []
    return Case(query, (*read, *tables), shape)


def in_order(case: Case) -> Case:
    """The same rows, each stream in the order of its times."""
    ordered = [s if s.time is None else replace(s, table=s.table.sort_by(s.time)) for s in case.sources]
    return replace(case, sources=tuple(ordered))
