"""Rows without a partner, rows that have one, and the latest partner: plain joins, final where their sides end."""

from __future__ import annotations

import random

from tests.outsiders import predicates
from tests.outsiders.data import SECOND, Streams
from tests.outsiders.pairs import Case, Pair, case, either, say
from tests.outsiders.windows import range_window, rows_window, source, span, unbounded_window

GREATEST = (
    "v.k DESC NULLS FIRST, v.x DESC NULLS FIRST, v.y DESC NULLS FIRST, v.f DESC NULLS FIRST, v.g"
    " DESC NULLS FIRST, v.d DESC NULLS FIRST, v.s DESC NULLS FIRST, v.l DESC NULLS FIRST"
)
BEST = f"v.t DESC, {GREATEST}"
LENGTHS = (0, SECOND // 2, 2 * SECOND, 10 * SECOND)


def bounded(draw: random.Random, u: str, v: str) -> tuple[str, int, int]:
    """How much earlier and later than u a row of v may be."""
    before, after = draw.choice(LENGTHS), draw.choice(LENGTHS)
    forms = [f"{v}.ts BETWEEN {u}.ts - {span(before)} AND {u}.ts + {span(after)}"]
    if before == 0:
        forms.append(f"{v}.ts >= {u}.ts AND {v}.ts - {u}.ts <= {span(after)}")
    if before == after:
        forms.append(f"ABS({u}.ts - {v}.ts) <= {span(after)}")
    return draw.choice(forms), before, after


def _matching(draw: random.Random, u: str, v: str) -> str:
    equal = predicates.between(draw, u, v, 0.85)
    also = f" AND {predicates.alone(draw, draw.choice((u, v)))}" if draw.random() < 0.2 else ""
    return f"({equal}){also}"


def draw_two(draw: random.Random, streams: Streams) -> Case:
    kind = draw.choice(("LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
    bound, before, after = bounded(draw, "u", "v")
    on = (
        f"{_matching(draw, 'u', 'v')} AND"
        f" {bound.replace('ABS(u.ts - v.ts) <= ' + span(after), f'abs(u.t - v.t) <= {after}')}"
    )
    columns = ["u.k", "u.x", "u.s"] if kind in ("SEMI", "ANTI") else ["u.k", "u.x", "v.x", "v.s", "COALESCE(u.x, v.x)"]
    listed = ", ".join(f"{one} AS c{i}" for i, one in enumerate(columns))
    certain = (
        f"CASE WHEN u.t IS NULL THEN v.t + {before} + 1 WHEN v.t IS NULL THEN u.t + {after} + 1 ELSE"
        " greatest(u.t, v.t) END"
    )
    timed = kind in ("LEFT", "RIGHT", "FULL") and draw.random() < 0.5
    where = (
        " WHERE " + draw.choice(("u.x IS NULL OR u.x > 0", "u.k > 0", "u.s IS NOT NULL")) if draw.random() < 0.3 else ""
    )
    text = either(
        "SELECT {listed}{time} FROM {u} {kind} JOIN {v} ON {ours}{where}",
        "SELECT {listed}{time} FROM {u} {kind} JOIN {v} ON {theirs}{where}",
        listed=listed,
        time=Pair(", event_time() AS c9", f", make_timestamp({certain}) AS c9") if timed else "",
        u=source(draw.choice("ab"), None, "u", ""),
        v=source(draw.choice("bc"), None, "v", ""),
        kind=kind,
        ours=on.replace(f"abs(u.t - v.t) <= {after}", f"ABS(u.ts - v.ts) <= {span(after)}"),
        theirs=on,
        where=where,
    )
    return case("growing", text)


def draw_windowed(draw: random.Random, streams: Streams) -> Case:
    """Each stream has its own window: a partner is at most that much newer."""
    kind = draw.choice(("LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
    columns = "u.k AS c0, u.x AS c1" if kind in ("SEMI", "ANTI") else "u.k AS c0, u.x AS c1, v.x AS c2, v.d AS c3"
    text = either(
        "SELECT {columns} FROM {u} {kind} JOIN {v} ON {on}",
        "SELECT {columns} FROM {u} {kind} JOIN {v} ON {on} AND greatest(u.lo, v.lo) < least(u.hi, v.hi)",
        columns=columns,
        u=source(draw.choice("ab"), range_window(draw), "u", ""),
        v=source(draw.choice("bc"), range_window(draw), "v", ""),
        kind=kind,
        on=_matching(draw, "u", "v"),
    )
    return case("growing", text)


def draw_endless(draw: random.Random, streams: Streams) -> Case:
    """A side without an end in time: rows that have no partner yet come, and go when one comes."""
    kind = draw.choice(("LEFT", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "EXISTS", "NOT IN"))
    kept, other = (
        draw.choice((unbounded_window, rows_window)),
        draw.choice((unbounded_window, rows_window, range_window)),
    )
    u, v = (other, kept) if kind == "RIGHT" else (kept, other)
    asked = {
        "EXISTS": "SELECT {columns} FROM {u} WHERE EXISTS (SELECT 1 FROM {v} WHERE {on})",
        "NOT IN": "SELECT {columns} FROM {u} WHERE u.k NOT IN (SELECT v.k FROM {v} WHERE v.x > 1)",
    }
    columns = "u.k AS c0, u.x AS c1" + (", v.x AS c2, v.d AS c3" if kind in ("LEFT", "RIGHT", "FULL") else "")
    text = say(
        asked.get(kind, "SELECT {columns} FROM {u} {kind} JOIN {v} ON {on}{where}"),
        columns=columns,
        u=source(draw.choice("ab"), u(draw), "u"),
        v=source(draw.choice("bc"), v(draw), "v"),
        kind=kind,
        on=_matching(draw, "u", "v"),
        where=draw.choice(("", "", " WHERE v.x > 1", " WHERE v.x IS NULL OR u.x > 1")) if ", v." in columns else "",
    )
    return case("changing", text)


def draw_three(draw: random.Random, streams: Streams) -> Case:
    """One after the other, or nested in parentheses."""
    one, two = draw.choice(("LEFT", "INNER")), draw.choice(("LEFT", "LEFT", "INNER", "SEMI", "ANTI"))
    first, second = _simple_bound(draw, "u", "v"), _simple_bound(draw, "u", "w")
    columns = "u.k AS c0, u.x AS c1, v.x AS c2, v.s AS c3" + (
        "" if two in ("SEMI", "ANTI") else ", w.x AS c4, w.d AS c5"
    )
    sources = {name: source(draw.choice("abc"), None, name, "") for name in "uvw"}
    if draw.random() < 0.35:
        inner = _simple_bound(draw, "v", "w")
        text = say(
            "SELECT u.k AS c0, u.x AS c1, v.x AS c2, w.x AS c3 FROM {u} LEFT JOIN ({v} {one} JOIN {w} ON"
            " {inner}) ON {first}",
            one=one,
            inner=f"{_matching(draw, 'v', 'w')} AND {inner}",
            first=f"{_matching(draw, 'u', 'v')} AND {first}",
            **sources,
        )
    else:
        text = say(
            "SELECT {columns} FROM {u} {one} JOIN {v} ON {first} {two} JOIN {w} ON {second}",
            columns=columns,
            one=one,
            two=two,
            first=f"{_matching(draw, 'u', 'v')} AND {first}",
            second=f"{_matching(draw, 'u', 'w')} AND {second}",
            **sources,
        )
    return case("growing", text)


def _simple_bound(draw: random.Random, u: str, v: str) -> str:
    return f"{v}.ts BETWEEN {u}.ts - {span(draw.choice(LENGTHS))} AND {u}.ts + {span(draw.choice(LENGTHS))}"


def draw_exists(draw: random.Random, streams: Streams) -> Case:
    bound = _simple_bound(draw, "u", "v")
    form = draw.choice(("EXISTS", "NOT EXISTS", "IN", "NOT IN"))
    column = draw.choice(("k", "x", "s", "d"))
    also = f" AND {predicates.alone(draw, 'v')}" if draw.random() < 0.3 else ""
    if form in ("EXISTS", "NOT EXISTS"):
        text = say(
            "{form} (SELECT 1 FROM {v} WHERE {on}{also})",
            form=form,
            v=source(draw.choice("bc"), None, "v", ""),
            on=f"{_matching(draw, 'u', 'v')} AND {bound}",
            also=also,
        )
    else:
        found = (
            f"(u.{column} = v.{column}{f' OR u.{column} IS NULL OR v.{column} IS NULL' if form == 'NOT IN' else ''})"
        )
        text = either(
            "u.{column} {form} (SELECT v.{column} FROM {v} WHERE {bound}{also})",
            "{exists} (SELECT 1 FROM {v} WHERE {bound}{also} AND {found})",
            column=column,
            form=form,
            exists="NOT EXISTS" if form == "NOT IN" else "EXISTS",
            v=source(draw.choice("bc"), None, "v", ""),
            bound=bound,
            also=also,
            found=found,
        )
    where = f" AND {predicates.alone(draw, 'u')}" if draw.random() < 0.3 else ""
    u = source(draw.choice("ab"), None, "u", "")
    return case(
        "growing",
        say("SELECT u.k AS c0, u.x AS c1, u.d AS c2 FROM {u} WHERE {text}{where}", u=u, text=text, where=where),
    )


def draw_asof(draw: random.Random, streams: Streams) -> Case:
    left = draw.random() < 0.5
    oldest = draw.choice((None, None, SECOND, 10 * SECOND))
    equal = draw.choice(("u.k = v.k", "u.s = v.s", "u.k = v.k AND u.s = v.s", "u.x = v.k"))
    also = " AND v.x > 0" if draw.random() < 0.2 else ""
    bound = f" AND v.ts >= u.ts - {span(oldest)}" if oldest else ""
    text = either(
        "SELECT u.k AS c0, u.x AS c1, v.x AS c2, v.y AS c3, v.ts AS c4{time} FROM {u} ASOF {left}JOIN {v} ON"
        " {equal} AND v.ts <= u.ts{bound}{also}",
        "SELECT u.k AS c0, u.x AS c1, v.x AS c2, v.y AS c3, v.ts AS c4{time} FROM {u} {left}JOIN LATERAL"
        " (SELECT * FROM {v} WHERE {equal} AND v.ts <= u.ts{bound}{also} ORDER BY {best} LIMIT 1) AS v ON true",
        time=Pair(", event_time() AS c5", ", u.ts AS c5") if draw.random() < 0.4 else "",
        u=source(draw.choice("ab"), None, "u", ""),
        v=source(draw.choice("bc"), None, "v", ""),
        left="LEFT " if left else "",
        equal=equal,
        bound=bound,
        also=also,
        best=BEST,
    )
    return case("growing", text)


def draw_asof_ahead(draw: random.Random, streams: Streams) -> Case:
    """The first partner from a time on, or the nearest; without one a row comes when none can come any more."""
    left, after = draw.random() < 0.5, draw.choice((None, 0, SECOND, 10 * SECOND))
    after = SECOND if left and after is None else after
    bound = "" if after is None else f" AND v.ts <= u.ts + {span(after)}"
    if draw.random() < 0.5:
        on, theirs = " AND v.ts >= u.ts", f"v.t, {GREATEST}"
        sure = "coalesce(v.ts, u.ts + to_microseconds({after}))"
    else:
        oldest = draw.choice((None, SECOND // 2, 20 * SECOND))
        bound += "" if oldest is None else f" AND v.ts >= u.ts - {span(oldest)}"
        on, theirs = Pair(" AND NEAREST(v.ts, u.ts)", ""), f"abs(v.t - u.t), v.t, {GREATEST}"
        sure = (
            "CASE WHEN v.ts >= u.ts THEN v.ts ELSE coalesce(least(u.ts + (u.ts - v.ts) - to_microseconds(1),"
            " u.ts + to_microseconds({after})), u.ts + to_microseconds({after})) END"
        )
    far = 10**15 if after is None else after
    text = either(
        "SELECT u.k AS c0, u.x AS c1, v.x AS c2, v.ts AS c3{time} FROM {u} ASOF {left}JOIN {v} ON u.k = v.k{on}{bound}",
        "SELECT u.k AS c0, u.x AS c1, v.x AS c2, v.ts AS c3{time} FROM {u} {left}JOIN LATERAL"
        " (SELECT * FROM {v} WHERE u.k = v.k{on}{bound} ORDER BY {best} LIMIT 1) AS v ON true",
        time=Pair(", event_time() AS c4", f", {sure.format(after=far)} AS c4") if draw.random() < 0.5 else "",
        u=source(draw.choice("ab"), None, "u", ""),
        v=source(draw.choice("bc"), None, "v", ""),
        left="LEFT " if left else "",
        on=on,
        bound=bound,
        best=theirs,
    )
    return case("growing", text)


def draw_asof_groups(draw: random.Random, streams: Streams) -> Case:
    """In an answer that changes a row enters with its partner, and leaves with its window."""
    left = "LEFT " if draw.random() < 0.5 else ""
    oldest = draw.choice((None, 2 * SECOND, 20 * SECOND))
    bound = f" AND v.ts >= u.ts - {span(oldest)}" if oldest else ""
    text = either(
        "SELECT u.k AS c0, COUNT(*) AS c1, SUM(v.x) AS c2, COUNT(v.ts) AS c3 FROM {u} ASOF {left}JOIN {v} ON"
        " u.k = v.k AND v.ts <= u.ts{bound} GROUP BY u.k",
        "SELECT u.k AS c0, COUNT(*) AS c1, SUM(v.x) AS c2, COUNT(v.ts) AS c3 FROM {u} {left}JOIN LATERAL"
        " (SELECT * FROM {v}"
        " WHERE u.k = v.k AND v.ts <= u.ts{bound} ORDER BY {best} LIMIT 1) AS v ON true GROUP BY u.k",
        u=source(draw.choice("ab"), range_window(draw), "u"),
        v=source(draw.choice("bc"), None, "v", ""),
        left=left,
        bound=bound,
        best=BEST,
    )
    return case("changing", text)


def draw_using(draw: random.Random, streams: Streams) -> Case:
    kind = draw.choice(("", "LEFT ", "RIGHT ", "FULL "))
    keys = draw.choice(("k", "k, s"))
    text = either(
        "SELECT k AS c0, u.x AS c1, v.x AS c2 FROM {u} {kind}JOIN {v} USING ({keys})",
        "SELECT k AS c0, u.x AS c1, v.x AS c2 FROM (SELECT * FROM {u}) u {kind}JOIN {v} ON {on} AND"
        " greatest(u.lo, v.lo) < least(u.hi, v.hi)",
        u=source(draw.choice("ab"), range_window(draw), "u", ""),
        v=source(draw.choice("bc"), range_window(draw), "v", ""),
        kind=kind,
        keys=keys,
        on=" AND ".join(f"u.{key} = v.{key}" for key in keys.split(", ")),
    )
    kept = {"": "u.k", "LEFT ": "u.k", "RIGHT ": "v.k", "FULL ": "COALESCE(u.k, v.k)"}[kind]
    return case(
        "growing", Pair(text.ours, text.theirs.replace("SELECT k AS c0", f"SELECT {kept} AS c0", 1), text.relations)
    )


FAMILY = (
    draw_two,
    draw_two,
    draw_windowed,
    draw_endless,
    draw_three,
    draw_exists,
    draw_exists,
    draw_asof,
    draw_asof_ahead,
    draw_asof_groups,
    draw_using,
)
