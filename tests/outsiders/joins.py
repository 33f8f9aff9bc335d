"""Plain joins under every form of window: what they give only grows."""

from __future__ import annotations

import random

from tests.outsiders import predicates
from tests.outsiders.data import SECOND, Streams, micros
from tests.outsiders.pairs import Case, Pair, case, either, listed, say
from tests.outsiders.windows import any_window, range_window, rows_window, source, span, spell

ALIASES = ("u", "v", "w", "z")


def start_of(streams: Streams) -> int:
    return min((micros(row["ts"]) for rows in streams.rows.values() for row in rows), default=0) // SECOND * SECOND


def select_list(draw: random.Random, aliases: list[str], instant: str | None) -> Pair:
    columns = [Pair(c, c) for c in (predicates.column(draw, draw.choice(aliases)) for _ in range(draw.randint(1, 4)))]
    if instant is not None and draw.random() < 0.3:
        columns.append(Pair("event_time()", f"make_timestamp({instant})"))
    if len(aliases) > 1 and draw.random() < 0.3:
        columns.append(Pair(f"{aliases[0]}.ts - {aliases[1]}.ts", f"{aliases[0]}.ts - {aliases[1]}.ts"))
    return listed([Pair(f"{one.ours} AS c{i}", f"{one.theirs} AS c{i}") for i, one in enumerate(columns)])


def conditions(draw: random.Random, aliases: list[str]) -> list[str]:
    found = [
        predicates.between(draw, draw.choice(aliases[:i]), aliases[i])
        for i in range(1, len(aliases))
        if draw.random() < 0.9
    ]
    found += [predicates.alone(draw, alias) for alias in aliases if draw.random() < 0.15]
    return found


def draw_join(draw: random.Random, streams: Streams) -> Case:
    aliases = list(ALIASES[: draw.choice((2, 2, 2, 3, 3, 4))])
    return join_of(draw, streams, [draw.choice("abc") for _ in aliases], conditions(draw, aliases))


def join_of(draw: random.Random, streams: Streams, inputs: list[str], where: list[str]) -> Case:
    """A join of these streams on these conditions, under any form of window."""
    aliases = list(ALIASES[: len(inputs)])
    half_open = draw.random() < 0.15
    form = draw.choice((own_windows, own_windows, one_window, chain, path, plain_bounds, mixed))
    sources, bounds, instant = form(draw, streams, aliases, inputs, half_open)
    ours_where = where + [bound.ours for bound in bounds if bound.ours and not _is_window(bound.ours)]
    ours_after = [bound.ours for bound in bounds if _is_window(bound.ours)]
    joined = either(
        "SELECT {list} FROM {sources}{where}{after}{options}",
        "SELECT {list} FROM {sources} WHERE {all}",
        list=select_list(draw, aliases, instant),
        sources=listed(sources),
        where=" WHERE " + " AND ".join(f"({one})" for one in ours_where) if ours_where else "",
        after=" " + " AND ".join(ours_after) if ours_after else "",
        all=" AND ".join(["true", *(f"({one})" for one in where), *(bound.theirs for bound in bounds)]),
        options=_options(draw, half_open, form is not own_windows),
    )
    return case("growing", joined)


def _options(draw: random.Random, half_open: bool, algorithms: bool) -> str:
    """What says how to join, and never what the answer is."""
    said = ["boundary = 'half_open'"] if half_open else []
    if draw.random() < 0.2:
        said.append(
            draw.choice(
                ("join = 'nested_loop'", "join = 'hybrid'", "join = 'naive'", "invalidate = 'probe'")
                if algorithms
                else ("join = 'own'",)
            )
        )
    return f" OPTIONS ({', '.join(said)})" if said else ""


def _is_window(text: str) -> bool:
    return text.startswith(("WINDOW", "DWINDOW"))


Drawn = tuple[list[Pair], list[Pair], str]


def _together(aliases: list[str]) -> tuple[Pair, str]:
    newest = f"greatest({', '.join(f'{alias}.lo' for alias in aliases)})"
    return Pair("", f"{newest} < least({', '.join(f'{alias}.hi' for alias in aliases)})"), newest


def own_windows(draw: random.Random, streams: Streams, aliases: list[str], inputs: list[str], half_open: bool) -> Drawn:
    windows = [any_window(draw, start_of(streams), half_open) for _ in aliases]
    together, newest = _together(aliases)
    return [source(s, w, alias, "") for s, w, alias in zip(inputs, windows, aliases, strict=True)], [together], newest


def _bare(aliases: list[str], inputs: list[str]) -> list[Pair]:
    return [source(s, None, alias, "") for s, alias in zip(inputs, aliases, strict=True)]


def _newest(aliases: list[str]) -> str:
    return f"greatest({', '.join(f'{alias}.t' for alias in aliases)})"


def _length(draw: random.Random) -> int:
    return draw.choice((SECOND // 2, SECOND, 3 * SECOND, 10 * SECOND, 50 * SECOND))


def one_window(draw: random.Random, streams: Streams, aliases: list[str], inputs: list[str], half_open: bool) -> Drawn:
    us, less = _length(draw), "<" if half_open else "<="
    oldest = f"least({', '.join(f'{alias}.t' for alias in aliases)})"
    return (
        _bare(aliases, inputs),
        [Pair(f"WINDOW = {spell(draw, us)}", f"{_newest(aliases)} - {oldest} {less} {us}")],
        _newest(aliases),
    )


def chain(draw: random.Random, streams: Streams, aliases: list[str], inputs: list[str], half_open: bool) -> Drawn:
    bounds = []
    for i in range(1, len(aliases)):
        u, v, us, less = draw.choice(aliases[:i]), aliases[i], _length(draw), "<" if half_open else "<="
        if draw.random() < 0.5:
            bounds.append(Pair(f"WINDOW ({u}, {v}) = {spell(draw, us)}", f"abs({u}.t - {v}.t) {less} {us}"))
        else:
            bounds.append(
                Pair(f"DWINDOW ({u}, {v}) = {spell(draw, us)}", f"{v}.t - {u}.t {less} {us} AND {v}.t >= {u}.t")
            )
    return _bare(aliases, inputs), bounds, _newest(aliases)


def path(draw: random.Random, streams: Streams, aliases: list[str], inputs: list[str], half_open: bool) -> Drawn:
    lengths = [_length(draw) for _ in aliases[1:]]
    less = "<" if half_open else "<="
    steps = list(zip(aliases, aliases[1:], lengths, strict=False))
    forth = " AND ".join(f"{v}.t >= {u}.t AND {v}.t - {u}.t {less} {us}" for u, v, us in steps)
    back = " AND ".join(f"{u}.t >= {v}.t AND {u}.t - {v}.t {less} {us}" for u, v, us in steps)
    written = f"WINDOW PATH ({', '.join(aliases)}) = ({', '.join(spell(draw, us) for us in lengths)})"
    return _bare(aliases, inputs), [Pair(written, f"(({forth}) OR ({back}))")], _newest(aliases)


def plain_bounds(
    draw: random.Random, streams: Streams, aliases: list[str], inputs: list[str], half_open: bool
) -> Drawn:
    bounds = []
    for i in range(1, len(aliases)):
        u, v, one, two = draw.choice(aliases[:i]), aliases[i], _length(draw), _length(draw)
        text = draw.choice(
            (
                f"{v}.ts BETWEEN {u}.ts - {span(one)} AND {u}.ts + {span(two)}",
                f"{v}.ts >= {u}.ts AND {v}.ts - {u}.ts < {span(one)}",
                f"{v}.ts > {u}.ts - {span(one)} AND {u}.ts > {v}.ts - {span(two)}",
                f"{v}.ts >= {u}.ts - {span(one)} AND {v}.ts <= {u}.ts",
            )
        )
        bounds.append(Pair(text, text))
    return _bare(aliases, inputs), bounds, _newest(aliases)


def mixed(draw: random.Random, streams: Streams, aliases: list[str], inputs: list[str], half_open: bool) -> Drawn:
    """Windows between pairs, and of some streams besides, by time or by rows."""
    _, bounds, newest = chain(draw, streams, aliases, inputs, half_open)
    windows = [draw.choice((None, range_window(draw, half_open), rows_window(draw))) for _ in aliases]
    inside = [Pair("", f"{alias}.lo <= {newest} AND {newest} < {alias}.hi") for alias in aliases]
    return [source(s, w, a, "") for s, w, a in zip(inputs, windows, aliases, strict=True)], [*bounds, *inside], newest


def draw_table_join(draw: random.Random, streams: Streams) -> Case:
    """With a static table, which needs no window."""
    keep = draw.choice(("JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"))
    outside = keep in ("SEMI JOIN", "ANTI JOIN")
    condition = draw.choice(("u.k = m.k", "u.s = m.name", "u.x = m.k AND u.d > m.rate", "u.k = m.k AND m.name <> ''"))
    text = say(
        "SELECT u.k AS c0, u.x AS c1, {more} FROM {u} {keep} names AS m ON {condition}",
        more="u.s AS c2" if outside else "m.name AS c2, m.rate AS c3, u.d * m.rate AS c4",
        u=source(draw.choice("abc"), None, "u", ""),
        keep=keep,
        condition=condition,
    )
    return case("growing", text)


FAMILY = (draw_join,) * 9 + (draw_table_join,)
