"""The rows around a row: final in the order of event time, changing over windows."""

from __future__ import annotations

import random

from tests.outsiders.changing import single, where
from tests.outsiders.data import SECOND, Streams
from tests.outsiders.pairs import Case, Pair, case, either, listed, say
from tests.outsiders.windows import source, span, spell

AGGREGATES = (
    "COUNT(*)",
    "COUNT(x)",
    "SUM(x)",
    "SUM(d)",
    "AVG(x)",
    "MIN(s)",
    "MAX(g)",
    "MIN(y)",
    "MEDIAN(x)",
    "STDDEV(x)",
    "BOOL_OR(x > 0)",
    "COUNT(DISTINCT s)",
    "SUM(DISTINCT x)",
    "SUM(x) FILTER (WHERE s <> '')",
    "COUNT(*) FILTER (WHERE x > 0)",
    "FIRST_VALUE(x)",
    "LAST_VALUE(s)",
)
IN_ORDER = (
    ("STRING_AGG(s, '-')", "STRING_AGG(s, '-' ORDER BY t, nth)", ""),
    ("STRING_AGG(s)", "STRING_AGG(s, ',' ORDER BY t, nth)", ""),
    ("MODE(x)", "first_mode(LIST(x ORDER BY t, nth) FILTER (WHERE x IS NOT NULL)", ")"),
    ("in_order(x)", "STRING_AGG(CAST(x AS VARCHAR) || ';', '' ORDER BY t, nth)", ""),
    ("ARG_MAX(s, x)", "(LIST(s ORDER BY x DESC, t, nth) FILTER (WHERE s IS NOT NULL AND x IS NOT NULL)", ")[1]"),
)
PLACES = (
    "ROW_NUMBER()",
    "LAG(x)",
    "LAG(s, 2)",
    "LAG(x, 1, -7)",
    "LEAD(x)",
    "LEAD(d, 2)",
    "LEAD(x, 1, 0)",
    "x - LAG(x)",
)
RANKS = ("RANK()", "DENSE_RANK()")
PARTITIONS = ("", "", "k", "s", "k, s", "x % 2")


def _over(parts: str, order: str, frame: str) -> str:
    return f"OVER ({f'PARTITION BY {parts} ' if parts else ''}ORDER BY {order}{frame})"


def _frame(draw: random.Random) -> tuple[str, str, bool]:
    """As we and as DuckDB write it, and whether rows of one time are told apart."""
    count, length = draw.choice((0, 1, 2, 5)), draw.choice((0, SECOND, 3 * SECOND, 30 * SECOND))
    return draw.choice(
        (
            (
                f" ROWS BETWEEN {count} PRECEDING AND CURRENT ROW",
                f" ROWS BETWEEN {count} PRECEDING AND CURRENT ROW",
                True,
            ),
            (f" ROWS {count} PRECEDING", f" ROWS {count} PRECEDING", True),
            (" ROWS UNBOUNDED PRECEDING", " ROWS UNBOUNDED PRECEDING", True),
            (
                f" RANGE BETWEEN {span(length)} PRECEDING AND CURRENT ROW",
                f" RANGE BETWEEN {length} PRECEDING AND CURRENT ROW",
                False,
            ),
            (
                f" RANGE BETWEEN {span(length)} PRECEDING AND {span(SECOND)} FOLLOWING",
                f" RANGE BETWEEN {length} PRECEDING AND {SECOND} FOLLOWING",
                False,
            ),
            *(
                (f" {words}", f" {words}", words.startswith("ROWS"))
                for words in (
                    f"ROWS BETWEEN {count} PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW",
                    f"ROWS BETWEEN UNBOUNDED PRECEDING AND {count} PRECEDING",
                    f"GROUPS BETWEEN {count} PRECEDING AND 1 FOLLOWING EXCLUDE TIES",
                )
            ),
            (" RANGE UNBOUNDED PRECEDING", " RANGE UNBOUNDED PRECEDING", False),
            ("", "", False),
        )
    )


def _column(draw: random.Random, parts: str) -> Pair:
    kind = draw.random()
    if kind < 0.25:
        name = draw.choice(PLACES)
        return Pair(f"{name} {_over(parts, 'ts', '')}", f"{name} {_over(parts, 't, nth', '')}")
    if kind < 0.35:
        name = draw.choice(RANKS)
        return Pair(f"{name} {_over(parts, 'ts', '')}", f"{name} {_over(parts, 't', '')}")
    ours, theirs, apart = _frame(draw)
    order = "t, nth" if apart else "t"
    if kind < 0.65:
        first, second, end = draw.choice(IN_ORDER)
        return Pair(f"{first} {_over(parts, 'ts', ours)}", f"{second} {_over(parts, order, theirs)}{end}")
    name = draw.choice(AGGREGATES)
    if not apart and name.startswith(("FIRST_VALUE", "LAST_VALUE")):
        name = "COUNT(*)"
    return Pair(f"{name} {_over(parts, 'ts', ours)}", f"{name} {_over(parts, order, theirs)}")


def draw_final(draw: random.Random, streams: Streams) -> Case:
    parts = [draw.choice(PARTITIONS) for _ in range(draw.randint(1, 3))]
    columns = [_column(draw, one) for one in parts]
    named = [Pair(f"{one.ours} AS c{i}", f"{one.theirs} AS c{i}") for i, one in enumerate(columns, 2)]
    text = say(
        "SELECT k AS c0, x AS c1, {columns} FROM {u}{where}",
        columns=listed(named),
        u=source(draw.choice("abc"), None, "u", ""),
        where=where(draw, ["u"], 0.2),
    )
    return case("growing", text)


def draw_qualify(draw: random.Random, streams: Streams) -> Case:
    parts, count = draw.choice(("k", "s", "k, s")), draw.choice((1, 2))
    text = say(
        "SELECT k AS c0, x AS c1, s AS c2 FROM {u} QUALIFY ROW_NUMBER() {over} {sign} {count}",
        u=source(draw.choice("abc"), None, "u", ""),
        over=Pair(_over(parts, "ts", ""), _over(parts, "t, nth", "")),
        sign=draw.choice(("=", "<=")),
        count=str(count),
    )
    return case("growing", text)


def draw_changing(draw: random.Random, streams: Streams) -> Case:
    """Over a window: rows with equal keys are in the order of the selected columns, then of what else is read."""
    parts, by, way = draw.choice(("", "k", "s")), draw.choice(("x", "d", "s")), draw.choice(("", " DESC"))
    name = draw.choice(("ROW_NUMBER()", "LAG(x)", "LEAD(x)", "RANK()", "DENSE_RANK()"))
    frame = ""
    if draw.random() < 0.4:
        name = draw.choice(("SUM(x)", "COUNT(*)", "MIN(x)", "MAX(d)"))
        frame = draw.choice(("", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING"))
    ranked = name in ("RANK()", "DENSE_RANK()") or (
        frame == "" and "(" in name and name[:3] in ("SUM", "COU", "MIN", "MAX")
    )
    ties = "" if ranked else ", k NULLS LAST, x NULLS LAST, s NULLS LAST, d NULLS LAST"
    text = say(
        "SELECT k AS c0, x AS c1, s AS c2, d AS c3, {name} {over} AS c4 FROM {u}{where}",
        name=name,
        over=Pair(_over(parts, f"{by}{way}", frame), _over(parts, f"{by}{way} NULLS LAST{ties}", frame)),
        u=single(draw, streams),
        where=where(draw, ["u"], 0.2),
    )
    return case("changing", text)


def draw_partition(draw: random.Random, streams: Streams) -> Case:
    """The whole partition."""
    name = draw.choice(("SUM(x)", "COUNT(*)", "AVG(x)", "MIN(s)", "MAX(y)", "MEDIAN(x)", "COUNT(DISTINCT s)"))
    parts = draw.choice(("", "PARTITION BY k", "PARTITION BY s, k"))
    text = say(
        "SELECT k AS c0, x AS c1, {name} OVER ({parts}) AS c2 FROM {u}{w}",
        name=name,
        parts=parts,
        u=single(draw, streams),
        w=where(draw, ["u"], 0.2),
    )
    return case("changing", text)


def draw_first_of_each(draw: random.Random, streams: Streams) -> Case:
    by, way, count = draw.choice(("x", "d", "s")), draw.choice(("", " DESC")), draw.choice((1, 2))
    rank = draw.choice(("ROW_NUMBER()", "RANK()", "DENSE_RANK()"))
    ties = ", k NULLS LAST, x NULLS LAST, s NULLS LAST, d NULLS LAST" if rank == "ROW_NUMBER()" else ""
    over = Pair(_over("k", f"{by}{way}", ""), _over("k", f"{by}{way} NULLS LAST{ties}", ""))
    form = draw.choice(
        (
            "SELECT k AS c0, x AS c1, s AS c2, d AS c3 FROM {u}{w} QUALIFY {rank} {over} <= {count}",
            "SELECT c0, c1, c2, c3 FROM (SELECT k AS c0, x AS c1, s AS c2, d AS c3, {rank} {over} AS place"
            " FROM {u}{w}) AS q WHERE place <= {count}",
        )
    )
    text = say(form, rank=rank, over=over, u=single(draw, streams), w=where(draw, ["u"], 0.2), count=str(count))
    return case("changing", text)


def draw_after_groups(draw: random.Random, streams: Streams) -> Case:
    text = either(
        "SELECT k AS c0, COUNT(*) AS c1, RANK() OVER (ORDER BY COUNT(*) DESC) AS c2 FROM {u} GROUP BY k",
        "SELECT k AS c0, COUNT(*) AS c1, RANK() OVER (ORDER BY COUNT(*) DESC) AS c2 FROM {u} GROUP BY k",
        u=single(draw, streams),
    )
    return case("changing", text)


def draw_over_join(draw: random.Random, streams: Streams) -> Case:
    """Over the rows of a join, in the order of the newest row of each."""
    at, us = "greatest(u.t, v.t)", draw.choice((1, 5)) * SECOND
    name = draw.choice(("COUNT(*)", "SUM(v.x)", "MAX(u.d)", "RANK()"))
    parts = draw.choice(("", "PARTITION BY u.k "))
    text = either(
        "SELECT u.k AS c0, v.x AS c1, {name} OVER ({parts}ORDER BY event_time()) AS c2 FROM {u}, {v} WHERE u.k"
        " = v.k WINDOW = {us}",
        "SELECT u.k AS c0, v.x AS c1, {name} OVER ({parts}ORDER BY {at}) AS c2 FROM {u}, {v} WHERE u.k = v.k"
        " AND abs(u.t - v.t) <= {plain}",
        name=name,
        parts=parts,
        at=at,
        u=source(draw.choice("ab"), None, "u", ""),
        v=source(draw.choice("bc"), None, "v", ""),
        us=spell(draw, us),
        plain=str(us),
    )
    return case("growing", text)


FAMILY = (
    (draw_over_join,)
    + (draw_final,) * 4
    + (draw_qualify, draw_changing, draw_changing, draw_partition, draw_first_of_each, draw_after_groups)
)
