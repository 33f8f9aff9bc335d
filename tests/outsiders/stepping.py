"""TUMBLE, HOP and SESSION: windows with a start and an end."""

from __future__ import annotations

import random

from tests.outsiders.aggregates import draw_aggregates, named
from tests.outsiders.changing import where
from tests.outsiders.data import SECOND, Streams
from tests.outsiders.pairs import Case, Pair, case, either, listed, say
from tests.outsiders.windows import spell

BOUNDS = [Pair("u.window_start", "u.window_start"), Pair("u.window_end", "u.window_end")]


def tumbling(draw: random.Random, stream: str, alias: str = "u", size: int | None = None) -> Pair:
    size = size or draw.choice((1, 2, 7, 60)) * SECOND
    offset = draw.choice((0, 0, SECOND // 2, SECOND))
    start = f"(floor_div(t - {offset}, {size}) * {size} + {offset})"
    shift = f", OFFSET {spell(draw, offset)}" if offset else ""
    return Pair(
        f"TUMBLE({stream}, {spell(draw, size)}{shift}) AS {alias}",
        f"(SELECT *, make_timestamp({start}) AS window_start, make_timestamp({start} + {size}) AS window_end"
        f" FROM stream_{stream}) AS {alias}",
    )


def hopping(draw: random.Random, stream: str) -> Pair:
    slide = draw.choice((1, 2, 5)) * SECOND
    size = slide * draw.choice((1, 2, 4)) + draw.choice((0, 0, SECOND // 2))
    last = f"floor_div(t, {slide}) * {slide}"
    return Pair(
        f"HOP({stream}, {spell(draw, slide)}, {spell(draw, size)}) AS u",
        f"(SELECT z.*, make_timestamp(b) AS window_start, make_timestamp(b + {size}) AS window_end FROM"
        f" stream_{stream} AS z,"
        f" LATERAL (SELECT {last} - i * {slide} AS b FROM range(0, {size // slide + 2}) r(i)) WHERE b + {size}"
        " > t) AS u",
    )


def sessions(draw: random.Random, stream: str) -> tuple[Pair, str]:
    gap, by = draw.choice((1, 3, 20)) * SECOND, draw.choice(("", "k", "s"))
    over = f"OVER ({f'PARTITION BY {by} ' if by else ''}ORDER BY t, nth)"
    same = f"PARTITION BY {f'{by}, ' if by else ''}part"
    return Pair(
        f"SESSION({stream}, {spell(draw, gap)}{f' PARTITION BY {by}' if by else ''}) AS u",
        f"(SELECT *, make_timestamp(min(t) OVER ({same})) AS window_start, make_timestamp(max(t) OVER ({same})"
        f" + {gap}) AS window_end"
        f" FROM (SELECT *, sum(fresh) {over} AS part FROM (SELECT *, CASE WHEN t - lag(t) {over} < {gap} THEN 0"
        " ELSE 1 END AS fresh"
        f" FROM stream_{stream}))) AS u",
    ), by


def draw_groups(draw: random.Random, streams: Streams) -> Case:
    kind, stream = draw.choice(("tumble", "hop", "session")), draw.choice("abc")
    by = ""
    if kind == "session":
        rows, by = sessions(draw, stream)
    else:
        rows = tumbling(draw, stream) if kind == "tumble" else hopping(draw, stream)
    keys = ["u.window_start", "u.window_end"]
    keys += [f"u.{by}"] if by and draw.random() < 0.8 else ["u.k"] if draw.random() < 0.4 else []
    columns = named([*(Pair(key, key) for key in keys), *draw_aggregates(draw, ["u"], "u.t, u.nth")])
    text = say(
        "SELECT {columns} FROM {rows}{where} GROUP BY {keys}{having}",
        columns=listed(columns),
        rows=rows,
        where=where(draw, ["u"], 0.25),
        keys=", ".join(keys),
        having=draw.choice(("", "", " HAVING COUNT(*) > 1")),
    )
    return case("growing", text)


def draw_changes(draw: random.Random, streams: Streams) -> Case:
    """The changes of groups as rows come, instead of whole groups; windows that are over stay."""
    stream = draw.choice("abc")
    rows = tumbling(draw, stream) if draw.random() < 0.5 else hopping(draw, stream)
    so_far = Pair(rows.ours, rows.theirs.replace(f"stream_{stream}", f"(SELECT * FROM stream_{stream} WHERE t <= $T)"))
    columns = named([*BOUNDS, Pair("u.k", "u.k"), *draw_aggregates(draw, ["u"], "u.t, u.nth")])
    text = say(
        "SELECT {columns} FROM {rows}{where} GROUP BY u.window_start, u.window_end, u.k{options}",
        columns=listed(columns),
        rows=so_far,
        where=where(draw, ["u"], 0.25),
        options=Pair(" OPTIONS (emit = 'changes')", ""),
    )
    return case("changing", text)


def draw_rows(draw: random.Random, streams: Streams) -> Case:
    kind, stream = draw.choice(("tumble", "hop", "session")), draw.choice("abc")
    rows = (
        sessions(draw, stream)[0]
        if kind == "session"
        else tumbling(draw, stream)
        if kind == "tumble"
        else hopping(draw, stream)
    )
    return case(
        "growing",
        say(
            "SELECT u.k AS c0, u.x AS c1, u.window_start AS c2, u.window_end AS c3 FROM {rows}{w}",
            rows=rows,
            w=where(draw, ["u"]),
        ),
    )


def draw_join(draw: random.Random, streams: Streams) -> Case:
    size = draw.choice((2, 7, 60)) * SECOND
    shape = random.Random(draw.random())
    state = shape.getstate()
    u = tumbling(shape, draw.choice("ab"), "u", size)
    shape.setstate(state)
    v = tumbling(shape, draw.choice("bc"), "v", size)
    same = "u.window_start = v.window_start AND u.window_end = v.window_end"
    if draw.random() < 0.5:
        kind = draw.choice(("", "LEFT ", "SEMI ", "ANTI "))
        more = "" if kind in ("SEMI ", "ANTI ") else ", COUNT(v.k) AS c3, SUM(v.x) AS c4"
        text = say(
            "SELECT u.k AS c0, u.window_start AS c1, COUNT(*) AS c2{more} FROM {u} {kind}JOIN {v} ON u.k = v.k"
            " AND {same}"
            " GROUP BY u.k, u.window_start, u.window_end",
            more=more,
            u=u,
            v=v,
            kind=kind,
            same=same,
        )
    else:
        text = say(
            "SELECT u.k AS c0, u.x AS c1, v.x AS c2, u.window_end AS c3 FROM {u} JOIN {v} ON u.k = v.k AND {same}",
            u=u,
            v=v,
            same=same,
        )
    return case("growing", text)


def draw_top(draw: random.Random, streams: Streams) -> Case:
    """The first of each window that ends at one instant."""
    count = draw.choice((1, 2))
    text = either(
        "SELECT u.k AS c0, COUNT(*) AS c1, u.window_end AS c2 FROM {u} GROUP BY u.k, u.window_start,"
        " u.window_end ORDER BY c1 DESC LIMIT {count}",
        "SELECT c0, c1, c2 FROM (SELECT u.k AS c0, COUNT(*) AS c1, u.window_end AS c2 FROM {u} GROUP BY u.k,"
        " u.window_start, u.window_end)"
        " QUALIFY row_number() OVER (PARTITION BY c2 ORDER BY c1 DESC, c0 NULLS LAST) <= {count}",
        u=tumbling(draw, draw.choice("abc")),
        count=str(count),
    )
    return case("growing", text)


def draw_top_rows(draw: random.Random, streams: Streams) -> Case:
    ours = say(
        "SELECT x AS c0, k AS c1, window_end AS c2 FROM {u} QUALIFY RANK() OVER (PARTITION BY window_start,"
        " window_end ORDER BY x DESC{nulls}) <= 2",
        u=tumbling(draw, draw.choice("abc")),
        nulls=Pair("", " NULLS LAST"),
    )
    return case("growing", ours)


def draw_twice(draw: random.Random, streams: Streams) -> Case:
    """Groups of windows are a stream, and grouped again."""
    text = say(
        "SELECT MAX(n) AS c0, COUNT(*) AS c1, window_end AS c2 FROM"
        " (SELECT u.k, COUNT(*) AS n, u.window_end FROM {u} GROUP BY u.k, u.window_start, u.window_end) AS q"
        " GROUP BY window_end",
        u=tumbling(draw, draw.choice("abc")),
    )
    return case("growing", text)


FAMILY = (draw_groups,) * 4 + (draw_changes, draw_rows, draw_join, draw_join, draw_top, draw_top_rows, draw_twice)
