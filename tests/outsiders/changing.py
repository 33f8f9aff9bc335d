"""Groups, DISTINCT, sets and the first of an order over windows: answers that change."""

from __future__ import annotations

import random
import re

from tests.outsiders import predicates
from tests.outsiders.aggregates import draw_aggregates, named
from tests.outsiders.data import SECOND, Streams
from tests.outsiders.joins import start_of
from tests.outsiders.pairs import Case, Pair, case, either, listed, say
from tests.outsiders.windows import any_window, source, spell

KEYS = ("k", "s", "x % 3", "d", "g", "x > 1", "k, s", "COALESCE(k, -1)", "DATE_TRUNC('minute', ts)")


def single(draw: random.Random, streams: Streams, alias: str = "u", stream: str | None = None) -> Pair:
    return source(stream or draw.choice("abc"), any_window(draw, start_of(streams)), alias)


def where(draw: random.Random, aliases: list[str], share: float = 0.3) -> str:
    found = [predicates.alone(draw, alias) for alias in aliases if draw.random() < share]
    return " WHERE " + " AND ".join(f"({one})" for one in found) if found else ""


def joined(draw: random.Random, streams: Streams, by_time: bool = False) -> tuple[Pair, list[str], str | None]:
    """A source of rows: one window, or a join of several; with the order in which FIRST and others see its rows."""
    if draw.random() < 0.5:
        return single(draw, streams), ["u"], "u.lo, u.t, u.nth"
    aliases = ["u", "v"] if draw.random() < 0.8 else ["u", "v", "w"]
    drawn = [any_window(draw, start_of(streams)) for _ in aliases]
    sources = [source(draw.choice("abc"), window, alias) for window, alias in zip(drawn, aliases, strict=True)]
    kinds = [draw.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")) for _ in aliases[1:]]
    text, parts = "{u}", {"u": sources[0]}
    for i, kind in enumerate(kinds, 1):
        on = predicates.between(draw, aliases[i - 1], aliases[i], 0.6 if kind == "JOIN" else 1.0)
        text += f" {kind} {{{aliases[i]}}} ON {on}"
        parts[aliases[i]] = sources[i]
    ordered = all(kind == "JOIN" for kind in kinds)
    times = f"greatest({', '.join(f'{a}.lo' for a in aliases)}), {', '.join(f'{a}.t, {a}.nth' for a in aliases)}"
    return say(text, **parts), aliases, times if ordered else None


def _key(draw: random.Random, aliases: list[str]) -> str:
    alias, text = draw.choice(aliases), draw.choice(KEYS)
    for name in ("k", "s", "x", "d", "g", "ts"):
        text = _qualified(text, name, alias)
    return text


def _qualified(text: str, name: str, alias: str) -> str:
    return re.sub(rf"(?<![\w.'(]){name}(?![\w(.'])|(?<=\(){name}(?![\w(.'])", f"{alias}.{name}", text)


def draw_groups(draw: random.Random, streams: Streams) -> Case:
    rows, aliases, order = joined(draw, streams)
    keys = [one.strip() for one in _key(draw, aliases).split(", ")] if draw.random() < 0.7 else [f"{aliases[0]}.k"]
    keys = [",".join(keys)] if "(" in ",".join(keys) else keys
    columns = named([*(Pair(key, key) for key in keys), *draw_aggregates(draw, aliases, order)])
    text = say(
        "SELECT {columns} FROM {rows}{where} GROUP BY {keys}{having}",
        columns=listed(columns),
        rows=rows,
        where=where(draw, aliases, 0.2),
        keys=", ".join(keys),
        having=draw.choice(("", "", " HAVING COUNT(*) > 1", f" HAVING SUM({aliases[0]}.x) > 0 OR COUNT(*) = 1")),
    )
    return case("changing", text)


def _since_first(pair: Pair, streams: frozenset[str]) -> Pair:
    """An aggregate without GROUP BY has a row from the first row of any of its streams on; over none at all only as
    the final answer."""
    times = " UNION ALL ".join(f"SELECT t FROM stream_{name}" for name in sorted(streams))
    return Pair(
        pair.ours,
        f"SELECT * FROM ({pair.theirs}) WHERE $T >= coalesce((SELECT min(t) FROM ({times})), $NONE)",
        pair.relations,
    )


def draw_whole(draw: random.Random, streams: Streams) -> Case:
    rows, aliases, order = joined(draw, streams)
    text = say(
        "SELECT {columns} FROM {rows}{where}{having}",
        columns=listed(named(draw_aggregates(draw, aliases, order))),
        rows=rows,
        where=where(draw, aliases, 0.2),
        having=draw.choice(("", "", " HAVING COUNT(*) > 1")),
    )
    return case("changing", _since_first(text, case("changing", text).streams))


def draw_grouping_sets(draw: random.Random, streams: Streams) -> Case:
    how = draw.choice(
        ("ROLLUP (u.k, u.s)", "CUBE (u.k, u.s)", "GROUPING SETS ((u.k, u.s), (u.k))", "u.k, ROLLUP (u.s)")
    )
    text = say(
        "SELECT u.k AS c0, u.s AS c1, GROUPING(u.s) AS c2, {columns} FROM {rows} GROUP BY {how}{having}",
        columns=listed(named(draw_aggregates(draw, ["u"], None), 3)),
        rows=single(draw, streams),
        how=how,
        # The group of everything is there over nothing too: what that means is a matter of its own.
        having=" HAVING COUNT(*) > 0",
    )
    return case("changing", text)


def draw_distinct(draw: random.Random, streams: Streams) -> Case:
    rows, aliases, _ = joined(draw, streams)
    columns = [predicates.column(draw, draw.choice(aliases)) for _ in range(draw.randint(1, 2))]
    columns = [one for one in columns if not one.endswith(".l")] or [f"{aliases[0]}.k"]
    text = say(
        "SELECT DISTINCT {columns} FROM {rows}{where}",
        columns=", ".join(f"{one} AS c{i}" for i, one in enumerate(columns)),
        rows=rows,
        where=where(draw, aliases),
    )
    return case("changing", text)


def draw_sets(draw: random.Random, streams: Streams) -> Case:
    columns = draw.choice(("k", "k, s", "x", "d", "g", "s", "x % 2, k"))
    names = ", ".join(f"{one} AS c{i}" for i, one in enumerate(columns.split(", ")))
    parts = [
        say(
            "SELECT " + draw.choice(("", "", "DISTINCT ")) + names + " FROM {rows}{where}",
            rows=single(draw, streams),
            where=where(draw, ["u"]),
        )
        for _ in range(draw.choice((2, 2, 3)))
    ]
    words = [
        draw.choice(("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")) for _ in parts[1:]
    ]
    text = say("{a} " + words[0] + " {b}", a=parts[0], b=parts[1])
    if len(parts) == 3:
        text = say("({a}) " + words[1] + " {b}", a=text, b=parts[2])
    return case("changing", text)


def draw_top(draw: random.Random, streams: Streams) -> Case:
    """The first of an order: equal keys go by all columns from left to right."""
    columns = draw.sample(["k", "x", "f", "g", "d", "s", "y"], draw.randint(1, 3))
    by = draw.choice(columns)
    way = draw.choice(("", " DESC", " NULLS FIRST", " DESC NULLS FIRST"))
    limit = draw.choice(("LIMIT 1", "LIMIT 2", "LIMIT 5", "LIMIT 2 OFFSET 1", "LIMIT 3 OFFSET 4", "OFFSET 2"))
    nulls = "" if "NULLS" in way else " NULLS LAST"
    ties = ", ".join(f"{one} NULLS LAST" for one in columns)
    every = draw.choice((0, 0, 1, 5)) * SECOND
    text = either(
        "SELECT {stream}{columns} FROM {rows}{where} ORDER BY {by}{way} {limit}{every}",
        "SELECT {columns} FROM {rows}{where} ORDER BY {by}{way}{nulls}, {ties} {limit}",
        stream="RSTREAM " if every else "",
        columns=", ".join(columns),
        rows=single(draw, streams),
        where=where(draw, ["u"]),
        by=by,
        way=way,
        nulls=nulls,
        ties=ties,
        limit=limit,
        every=f" EVERY {spell(draw, every)}" if every else "",
    )
    if every and _long(streams, every):
        return draw_top(draw, streams)
    return case("changing", text, str(every) if every else "log", ordered=True)


def draw_one_of_each(draw: random.Random, streams: Streams) -> Case:
    """DISTINCT ON: of equal ones the first by all columns."""
    keys = draw.choice(("k", "s", "k, s"))
    columns = ", ".join(dict.fromkeys([*keys.split(", "), *draw.sample(["x", "f", "d", "y"], draw.randint(1, 2))]))
    by, way = columns.split(", ")[-1], draw.choice(("", " DESC", " DESC NULLS FIRST"))
    first = ", ".join(f"{one} NULLS LAST" for one in keys.split(", "))
    text = either(
        "SELECT DISTINCT ON ({keys}) {columns} FROM {rows}{where} ORDER BY {keys}, {by}{way}",
        "SELECT DISTINCT ON ({keys}) {columns} FROM {rows}{where} ORDER BY {first}, {by}{way}{nulls}, {ties}",
        keys=keys,
        columns=columns,
        rows=single(draw, streams),
        where=where(draw, ["u"]),
        by=by,
        way=way,
        nulls="" if "NULLS" in way else " NULLS LAST",
        first=first,
        ties=", ".join(f"{one} NULLS LAST" for one in columns.split(", ")),
    )
    return case("changing", text, ordered=True)


def draw_ties(draw: random.Random, streams: Streams) -> Case:
    """WITH TIES, which DuckDB says by ranks; and where no rows are left out, only the order of the whole."""
    columns = draw.sample(["k", "x", "f", "d", "s", "y"], draw.randint(1, 3))
    by, limit = columns[0], draw.choice((1, 2, 4))
    ties = draw.choice((True, True, False))
    text = either(
        "SELECT {distinct}{columns} FROM {rows}{where} ORDER BY {by}{limit}",
        "SELECT {distinct}{columns} FROM {rows}{where}{ranked} ORDER BY {keys}",
        distinct="" if ties else "DISTINCT ",
        columns=", ".join(columns),
        rows=single(draw, streams),
        where=where(draw, ["u"]),
        by=by,
        limit=f" FETCH FIRST {limit} ROWS WITH TIES" if ties else "",
        ranked=f" QUALIFY RANK() OVER (ORDER BY {by} NULLS LAST) <= {limit}" if ties else "",
        keys=", ".join(f"{one} NULLS LAST" for one in columns),
    )
    return case("changing", text, ordered=True)


def _long(streams: Streams, every: int) -> bool:
    times = [row["ts"] for rows in streams.rows.values() for row in rows]
    return bool(times) and (max(times) - min(times)).total_seconds() * SECOND / every > 150


def draw_output(draw: random.Random, streams: Streams) -> Case:
    """ISTREAM, DSTREAM and RSTREAM of groups."""
    word = draw.choice(("ISTREAM", "DSTREAM", "RSTREAM"))
    every = draw.choice((1, 3, 10, 60)) * SECOND
    if word == "RSTREAM" and _long(streams, every):
        word = "ISTREAM"
    rows, aliases, order = joined(draw, streams)
    columns = listed(named([Pair(f"{aliases[0]}.k", f"{aliases[0]}.k"), *draw_aggregates(draw, aliases, order)]))
    text = either(
        "SELECT {word} {columns} FROM {rows}{where} GROUP BY {key}{every}",
        "SELECT {columns} FROM {rows}{where} GROUP BY {key}",
        word=word,
        columns=columns,
        rows=rows,
        where=where(draw, aliases),
        key=f"{aliases[0]}.k",
        every=f" EVERY {spell(draw, every)}" if word == "RSTREAM" else "",
    )
    return case("changing", text, str(every) if word == "RSTREAM" else word.lower())


WHOLE = (draw_whole,)
FAMILY = (
    draw_groups, draw_groups, draw_groups, draw_grouping_sets, draw_distinct, draw_sets, draw_top, draw_output,
    draw_one_of_each, draw_ties,
)  # fmt: skip
