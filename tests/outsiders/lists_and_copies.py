"""Lists taken apart under every window, and copies left out."""

from __future__ import annotations

import random

from tests.outsiders.changing import single, where
from tests.outsiders.data import SECOND, Streams
from tests.outsiders.pairs import Case, Pair, case, either, say
from tests.outsiders.windows import range_window, source, spell

ENTRIES = Pair("UNNEST(u.l) AS e (item)", "(SELECT unnest(u.l) AS item) AS e")
NUMBERED = Pair(
    "UNNEST(u.l) WITH ORDINALITY AS e (item, n)",
    "(SELECT unnest(u.l) AS item, unnest(range(1, len(u.l) + 1)) AS n) AS e",
)
WORDS = Pair("UNNEST(SPLIT(u.s, ' ')) AS e (item)", "(SELECT unnest(string_split(u.s, ' ')) AS item) AS e")


def draw_entries(draw: random.Random, streams: Streams) -> Case:
    entries = draw.choice((ENTRIES, NUMBERED, WORDS))
    more = ", n AS c2" if entries is NUMBERED else ""
    text = either(
        "SELECT u.k AS c0, item AS c1{more} FROM {u} CROSS JOIN {e}{w}",
        "SELECT u.k AS c0, item AS c1{more} FROM {u}, LATERAL {e}{w}",
        u=source(draw.choice("abc"), None, "u", ""),
        e=entries,
        more=more,
        w=where(draw, ["u"], 0.3),
    )
    return case("growing", text)


def draw_entries_selected(draw: random.Random, streams: Streams) -> Case:
    lists = draw.choice(("u.l", "[u.k, u.x, NULL]", "ARRAY[1, u.k]", "string_split(u.s, ' ')"))
    text = say(
        "SELECT u.k AS c0, unnest({lists}) AS c1, u.x AS c2 FROM {u}{w}",
        lists=lists,
        u=source(draw.choice("abc"), None, "u", ""),
        w=where(draw, ["u"], 0.3),
    )
    return case("growing", text)


def draw_entries_grouped(draw: random.Random, streams: Streams) -> Case:
    entries = draw.choice((ENTRIES, NUMBERED, WORDS))
    text = either(
        "SELECT item AS c0, COUNT(*) AS c1, SUM(u.x) AS c2, MAX(u.s) AS c3 FROM {u}, {e}{w} GROUP BY item",
        "SELECT item AS c0, COUNT(*) AS c1, SUM(u.x) AS c2, MAX(u.s) AS c3 FROM {u}, LATERAL {e}{w} GROUP BY item",
        u=single(draw, streams),
        e=entries,
        w=where(draw, ["u"], 0.3),
    )
    return case("changing", text)


def draw_entries_joined(draw: random.Random, streams: Streams) -> Case:
    text = either(
        "SELECT DISTINCT u.k AS c0, item AS c1, v.x AS c2 FROM {u} CROSS JOIN {e} JOIN {v} ON item = v.k",
        "SELECT DISTINCT u.k AS c0, item AS c1, v.x AS c2 FROM {u}, LATERAL {e}, {v} WHERE item = v.k",
        u=single(draw, streams),
        e=ENTRIES,
        v=single(draw, streams, "v"),
    )
    return case("changing", text)


def _kept(stream: str, by: str, distance: int) -> str:
    """What DEDUPLICATE takes of rows that come in the order of event time: of each key the first, and then always the
    first that is far enough from the one taken before."""
    key = f"z.{by} IS NOT DISTINCT FROM p.{by}"
    return (
        f"(WITH RECURSIVE taken AS (SELECT * FROM stream_{stream}"
        f" QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY t, nth) = 1"
        f" UNION ALL SELECT z.* FROM taken AS p JOIN stream_{stream} AS z ON {key} AND z.t > p.t + {distance}"
        f" QUALIFY row_number() OVER (PARTITION BY z.{by} ORDER BY z.t, z.nth) = 1) SELECT * FROM taken)"
    )


def draw_copies(draw: random.Random, streams: Streams) -> Case:
    if streams.lateness_us:  # what is kept goes by arrival, which is the order of time only without lateness
        return draw_entries(draw, streams)
    stream, by = draw.choice("abc"), draw.choice(("k", "s", "x"))
    distance = draw.choice((0, 1, 5, 60)) * SECOND
    u, left = f"DEDUPLICATE({stream}, {spell(draw, distance)} PARTITION BY {by})", _kept(stream, by, distance)
    if draw.random() < 0.5:
        rows = Pair(f"{u} AS u", f"{left} AS u")
        return case(
            "growing", say("SELECT k AS c0, x AS c1, s AS c2, ts AS c3 FROM {u}{w}", u=rows, w=where(draw, ["u"]))
        )
    window = range_window(draw)
    contents = window.contents.format(stream=left)
    rows = Pair(
        f"{u} {window.text} AS u",
        "(SELECT * FROM held_once WHERE lo <= $T AND $T < hi) AS u",
        (("held_once", contents),),
    )
    return case("changing", say("SELECT u.k AS c0, COUNT(*) AS c1, SUM(u.x) AS c2 FROM {u} GROUP BY u.k", u=rows))


FAMILY = (draw_entries, draw_entries_grouped, draw_entries_grouped, draw_entries_joined, draw_copies, draw_copies)
