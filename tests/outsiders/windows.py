"""Every form of window, and from when until when DuckDB is told that it holds a row."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

from tests.outsiders.data import SECOND, moment
from tests.outsiders.pairs import Pair

NEVER = 4_000_000_000_000_000_000  # later than everything
LENGTHS = (SECOND // 2, SECOND, 2 * SECOND, 5 * SECOND, 12 * SECOND, 60 * SECOND)


@dataclass(frozen=True)
class Window:
    text: str
    contents: str  # SQL over {stream}, whose rows have their time `t` and number of arrival `nth`
    kind: str  # range, steps, rows or unbounded


def spell(draw: random.Random, us: int) -> str:
    """An interval as the language writes it."""
    if us % SECOND == 0:
        seconds = us // SECOND
        words = [f"{seconds} SECONDS", f"INTERVAL '{seconds}' SECOND", f"'{seconds} seconds'"]
        if seconds % 60 == 0:
            words.append(f"{seconds // 60} MINUTES")
        return draw.choice(words)
    return f"{us // 1000} MILLISECONDS" if us % 1000 == 0 else f"{us} MICROSECONDS"


def span(us: int) -> str:
    """An interval in an expression, of both languages."""
    return f"INTERVAL '{us // SECOND}' SECOND" if us % SECOND == 0 else f"INTERVAL '{us // 1000}' MILLISECOND"


def range_window(draw: random.Random, half_open: bool = False, length: int | None = None) -> Window:
    us = draw.choice(LENGTHS) if length is None else length
    if length is None and not half_open and draw.random() < 0.08:
        return Window("[NOW]", "SELECT *, t AS lo, t + 1 AS hi FROM {stream}", "range")
    text = f"[RANGE {spell(draw, us)}]"
    return Window(text, f"SELECT *, t AS lo, t + {us + (not half_open)} AS hi FROM {{stream}}", "range")


def unbounded_window(draw: random.Random) -> Window:
    return Window(
        draw.choice(("[UNBOUNDED]", "[RANGE UNBOUNDED]")),
        f"SELECT *, t AS lo, {NEVER} AS hi FROM {{stream}}",
        "unbounded",
    )


def sliding_window(draw: random.Random) -> Window:
    step = draw.choice((SECOND, 2 * SECOND, 3 * SECOND, 10 * SECOND))
    length = step * draw.choice((1, 2, 5)) + draw.choice((0, 0, SECOND // 2))
    offset = draw.choice((0, 0, SECOND, SECOND // 2))
    text = (
        f"[RANGE {spell(draw, length)} SLIDE {spell(draw, step)}{f' OFFSET {spell(draw, offset)}' if offset else ''}]"
    )
    enters = f"-floor_div({offset} - t, {step}) * {step} + {offset}"  # the first step at or after the row
    leaves = f"-floor_div({offset} - t - {length}, {step}) * {step} + {offset}"
    return Window(text, f"SELECT *, {enters} AS lo, {leaves} AS hi FROM {{stream}}", "steps")


def rows_window(draw: random.Random) -> Window:
    count, by = draw.choice((1, 2, 3, 7)), draw.choice(("", "", "k", "k, s"))
    text = f"[PARTITION BY {by} ROWS {count}]" if by else f"[ROWS {count}]"
    over = f"OVER ({f'PARTITION BY {by} ' if by else ''}ORDER BY t, nth)"
    hi = f"coalesce(lead(t, {count}) {over}, {NEVER})"
    return Window(text, f"SELECT * FROM (SELECT *, t AS lo, {hi} AS hi FROM {{stream}}) WHERE lo < hi", "rows")


def stepping_rows_window(draw: random.Random) -> Window:
    step = draw.choice((1, 2, 3))
    count, by = step * draw.choice((1, 2)) + draw.choice((0, 1)), draw.choice(("", "k"))
    text = f"[{f'PARTITION BY {by} ' if by else ''}ROWS {count} SLIDE {step}]"
    numbered = (
        f"SELECT *, row_number() OVER ({f'PARTITION BY {by} ' if by else ''}ORDER BY t, nth) AS r FROM {{stream}}"
    )
    same = f"AND p.{by} IS NOT DISTINCT FROM z.{by}" if by else ""
    enters = f"(SELECT p.t FROM z p WHERE p.r = (z.r + {step - 1}) // {step} * {step} {same})"
    leaves = f"(SELECT p.t FROM z p WHERE p.r = (z.r + {count + step - 1}) // {step} * {step} {same})"
    timed = f"WITH z AS ({numbered}) SELECT z.*, {enters} AS lo, coalesce({leaves}, {NEVER}) AS hi FROM z"
    return Window(text, f"SELECT * FROM ({timed}) WHERE lo < hi", "steps")


def landmark_window(draw: random.Random, start: int) -> Window:
    at = start + draw.choice((-10, 0, 2, 30)) * SECOND
    written = f"LANDMARK '{moment(at).isoformat(' ')}'"
    if draw.random() < 0.5:
        return Window(f"[{written}]", f"SELECT *, t AS lo, {NEVER} AS hi FROM {{stream}} WHERE t >= {at}", "unbounded")
    every = draw.choice((2, 5, 60)) * SECOND
    hi = f"{at} + (floor_div(t - {at}, {every}) + 1) * {every}"
    return Window(
        f"[{written} EVERY {spell(draw, every)}]",
        f"SELECT *, t AS lo, {hi} AS hi FROM {{stream}} WHERE t >= {at}",
        "steps",
    )


def latching_window(draw: random.Random) -> Window:
    step = draw.choice((2, 5, 60)) * SECOND
    enters = f"-floor_div(-t, {step}) * {step}"
    return Window(f"[LATCH {spell(draw, step)}]", f"SELECT *, {enters} AS lo, {NEVER} AS hi FROM {{stream}}", "steps")


def any_window(draw: random.Random, start: int, half_open: bool = False) -> Window:
    kind = draw.choice(("range", "range", "range", "slide", "rows", "rows", "step", "landmark", "latch", "unbounded"))
    match kind:
        case "range":
            return range_window(draw, half_open)
        case "slide":
            return sliding_window(draw)
        case "rows":
            return rows_window(draw)
        case "step":
            return stepping_rows_window(draw)
        case "landmark":
            return landmark_window(draw, start)
        case "latch":
            return latching_window(draw)
    return unbounded_window(draw)


def source(stream: str, window: Window | None, alias: str, at: str = "$T") -> Pair:
    """A stream with its window in FROM; at an instant, or with `at` empty all rows with their lo and hi."""
    contents = (window.contents if window else f"SELECT *, t AS lo, {NEVER} AS hi FROM {{stream}}").format(
        stream=f"stream_{stream}"
    )
    name = "held_" + hashlib.md5(contents.encode()).hexdigest()[:8]
    ours = f"{stream} {window.text} AS {alias}" if window else f"{stream} AS {alias}"
    theirs = f"(SELECT * FROM {name} WHERE lo <= {at} AND {at} < hi) AS {alias}" if at else f"{name} AS {alias}"
    return Pair(ours, theirs, ((name, contents),))
