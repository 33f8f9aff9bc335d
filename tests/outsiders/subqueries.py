"""Subqueries in answers that change: values, EXISTS and IN, views, WITH, streams with windows of their own."""

from __future__ import annotations

import random

from tests.outsiders import predicates
from tests.outsiders.aggregates import OTHER, SAME, draw_aggregates, named
from tests.outsiders.changing import joined, single, where
from tests.outsiders.data import Streams
from tests.outsiders.pairs import Case, Pair, case, either, listed, say
from tests.outsiders.windows import source, spell

VALUES = tuple(one for one in SAME if one.count("(") == 1 and "{p}ts" not in one)


def _value(draw: random.Random, streams: Streams, correlated: bool) -> Pair:
    """A query that is one value."""
    if draw.random() < 0.8:
        ours = theirs = draw.choice(VALUES).format(p="v.")
    else:
        ours, theirs = (text.format(p="v.") for text in draw.choice(OTHER))
    inside = [draw.choice(("v.k = u.k", "v.s = u.s", "v.x = u.k"))] if correlated else []
    inside += [predicates.alone(draw, "v")] if draw.random() < 0.3 else []
    return say(
        "(SELECT {aggregate} FROM {v}{where})",
        aggregate=Pair(ours, theirs),
        v=single(draw, streams, "v"),
        where=" WHERE " + " AND ".join(f"({one})" for one in inside) if inside else "",
    )


def draw_value_selected(draw: random.Random, streams: Streams) -> Case:
    """Beside each row of a window. The answer is a bag."""
    text = say(
        "SELECT u.k AS c0, u.x AS c1, {value} AS c2 FROM {u}{where}",
        value=_value(draw, streams, draw.random() < 0.6),
        u=single(draw, streams),
        where=where(draw, ["u"]),
    )
    return case("changing", text)


def draw_value_compared(draw: random.Random, streams: Streams) -> Case:
    inner = draw.choice(("AVG(v.x)", "MAX(v.x)", "MIN(v.x)", "COUNT(*)", "SUM(v.x)", "MEDIAN(v.x)"))
    inside = draw.choice(("", " WHERE v.k = u.k", " WHERE v.s = u.s AND v.x > 0"))
    text = say(
        "SELECT u.k AS c0, u.x AS c1 FROM {u} WHERE u.x {sign} (SELECT {inner} FROM {v}{inside})",
        u=single(draw, streams),
        sign=draw.choice((">", "<=", "=", "<>")),
        inner=inner,
        v=single(draw, streams, "v"),
        inside=inside,
    )
    return case("changing", text)


def draw_value_having(draw: random.Random, streams: Streams) -> Case:
    text = say(
        "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} GROUP BY u.k HAVING COUNT(*) {sign} (SELECT {inner} FROM {v})",
        u=single(draw, streams),
        sign=draw.choice((">", "<=", "=")),
        inner=draw.choice(("COUNT(*)", "MAX(v.x)", "COUNT(DISTINCT v.k)")),
        v=single(draw, streams, "v"),
    )
    return case("changing", text)


def draw_exists(draw: random.Random, streams: Streams) -> Case:
    form = draw.choice(("EXISTS", "NOT EXISTS", "IN", "NOT IN", "OR", "CASE"))
    v = single(draw, streams, "v")
    on = predicates.between(draw, "u", "v", 0.9)
    column = draw.choice(("k", "x", "s"))
    match form:
        case "EXISTS" | "NOT EXISTS":
            condition = say("{form} (SELECT 1 FROM {v} WHERE {on})", form=form, v=v, on=on)
        case "IN" | "NOT IN":
            condition = say(
                "u.{c} {form} (SELECT v.{c} FROM {v}{where})", c=column, form=form, v=v, where=where(draw, ["v"])
            )
        case "OR":
            condition = say("u.x > 2 OR EXISTS (SELECT 1 FROM {v} WHERE {on})", v=v, on="v.k = u.k")
        case _:
            condition = say(
                "CASE WHEN u.k IN (SELECT v.k FROM {v} WHERE v.k IS NOT NULL) THEN u.x > 0 ELSE u.x < 3 END", v=v
            )
    if draw.random() < 0.5:
        return case(
            "changing",
            say(
                "SELECT u.k AS c0, COUNT(*) AS c1, SUM(u.x) AS c2 FROM {u} WHERE {c} GROUP BY u.k",
                u=single(draw, streams),
                c=condition,
            ),
        )
    return case(
        "changing", say("SELECT DISTINCT u.k AS c0, u.x AS c1 FROM {u} WHERE {c}", u=single(draw, streams), c=condition)
    )


def draw_view(draw: random.Random, streams: Streams) -> Case:
    """A query over an answer that changes."""
    kind = draw.choice(("groups", "sets", "distinct"))
    if kind == "groups":
        inner = say(
            "SELECT u.k, COUNT(*) AS n, SUM(u.x) AS x FROM {u}{where} GROUP BY u.k",
            u=single(draw, streams),
            where=where(draw, ["u"]),
        )
    elif kind == "sets":
        word = draw.choice(("EXCEPT", "UNION ALL", "INTERSECT ALL", "UNION"))
        inner = say(
            "SELECT k, x, 1 AS n FROM {u} " + word + " SELECT k, x, 1 AS n FROM {v}",
            u=single(draw, streams),
            v=single(draw, streams, "v"),
        )
    else:
        inner = say("SELECT DISTINCT k, x, x % 2 AS n FROM {u}", u=single(draw, streams))
    outer = draw.choice(
        (
            "SELECT n AS c0, COUNT(*) AS c1, MAX(x) AS c2 FROM {q} GROUP BY n",
            "SELECT q.k AS c0, q.n AS c1, w.x AS c2 FROM {q}, {w} WHERE q.k = w.k",
            "SELECT q.k AS c0, COUNT(*) AS c1, SUM(w.x) AS c2 FROM {q} LEFT JOIN {w} ON q.k = w.k GROUP BY q.k",
            "SELECT DISTINCT q.n AS c0 FROM {q} WHERE q.x > 0",
            "SELECT k AS c0, x AS c1 FROM {q} ORDER BY x DESC NULLS LAST, k NULLS LAST LIMIT 2",
        )
    )
    w = single(draw, streams, "w")
    if draw.random() < 0.5:
        return case(
            "changing", say(outer, q=say("({inner}) AS q", inner=inner), **({"w": w} if "{w}" in outer else {}))
        )
    named_query = say("WITH q AS ({inner}) ", inner=inner)
    return case("changing", say("{with_q}" + outer, with_q=named_query, q="q", **({"w": w} if "{w}" in outer else {})))


def draw_stream(draw: random.Random, streams: Streams) -> Case:
    """A plain join is a stream, which may have a window of its own: its time is that of the newest row."""
    us = draw.choice((1, 3, 10)) * 1_000_000
    length = draw.choice((2, 20)) * 1_000_000
    inner = either(
        "(SELECT ISTREAM p.k AS k, r.x AS x, r.d AS d FROM {p}, {r} WHERE p.k = r.k WINDOW = {us}) [RANGE"
        " {length}] AS u",
        "(SELECT p.k AS k, r.x AS x, r.d AS d FROM {p}, {r} WHERE p.k = r.k AND abs(p.t - r.t) <= {plain_us}"
        " AND greatest(p.t, r.t) <= $T AND $T <= greatest(p.t, r.t) + {plain}) AS u",
        p=source(draw.choice("abc"), None, "p", ""),
        r=source(draw.choice("abc"), None, "r", ""),
        us=spell(draw, us),
        plain_us=str(us),
        length=spell(draw, length),
        plain=str(length),
    )
    text = say(
        "SELECT {columns} FROM {inner} GROUP BY u.k",
        columns=listed(
            named(
                [
                    Pair("u.k", "u.k"),
                    Pair("COUNT(*)", "COUNT(*)"),
                    Pair("SUM(u.x)", "SUM(u.x)"),
                    Pair("MAX(u.d)", "MAX(u.d)"),
                ]
            )
        ),
        inner=inner,
    )
    return case("changing", text)


def draw_semi(draw: random.Random, streams: Streams) -> Case:
    """SEMI and ANTI joins below groups."""
    rows = say(
        "{u} {kind} JOIN {v} ON {on}",
        u=single(draw, streams),
        kind=draw.choice(("SEMI", "ANTI")),
        v=single(draw, streams, "v"),
        on=predicates.between(draw, "u", "v", 0.9),
    )
    columns = listed(named([Pair("u.k", "u.k"), *draw_aggregates(draw, ["u"], None)]))
    return case("changing", say("SELECT {columns} FROM {rows} GROUP BY u.k", columns=columns, rows=rows))


def draw_rows_of_a_view(draw: random.Random, streams: Streams) -> Case:
    """A filter over windows alone, in a subquery, then grouped."""
    rows, aliases, _ = joined(draw, streams)
    inner = say(
        "(SELECT {a}.k AS k, {a}.x AS x FROM {rows}{where}) AS q", a=aliases[-1], rows=rows, where=where(draw, aliases)
    )
    return case(
        "changing", say("SELECT q.k AS c0, COUNT(*) AS c1, AVG(q.x) AS c2 FROM {inner} GROUP BY q.k", inner=inner)
    )


FAMILY = (
    draw_value_selected,
    draw_value_compared,
    draw_value_having,
    draw_exists,
    draw_exists,
    draw_view,
    draw_view,
    draw_stream,
    draw_semi,
    draw_rows_of_a_view,
)
