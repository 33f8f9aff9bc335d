"""Scripts of many queries over the same streams, most of them alike: joins of the same streams on the same keys under
other windows, questions after one value, groups, views that several of them read."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.outsiders import changing, expressions, mixtures, outer_joins, over, predicates, stepping, subqueries
from tests.outsiders.data import Row, Streams, draw_streams
from tests.outsiders.joins import join_of, start_of
from tests.outsiders.pairs import Case, Kind, Pair, case, say
from tests.outsiders.windows import any_window, range_window, source

ANY = (
    *changing.FAMILY, *changing.WHOLE, *outer_joins.FAMILY, *subqueries.FAMILY, *over.FAMILY, *stepping.FAMILY,
    *mixtures.FAMILY, *expressions.FAMILY,
)  # fmt: skip


@dataclass(frozen=True)
class Query:
    """A query of a script, and the views that stand before it."""

    case: Case
    views: tuple[str, ...] = ()


@dataclass(frozen=True)
class Script:
    number: int
    queries: tuple[Query, ...]
    streams: Streams

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for one in self.queries for name in one.case.streams)

    def text(self, queries: tuple[Query, ...] | None = None) -> str:
        """With its views, each once."""
        chosen = self.queries if queries is None else queries
        views = dict.fromkeys(view for one in chosen for view in one.views)
        return ";\n".join([*views, *(one.case.ours for one in chosen)])


def draw_script(number: int) -> Script:
    draw = random.Random(f"script {number}")
    streams = draw_streams(draw, draw.choice((8, 25, 25, 60)))
    theme = draw.choice((_Joins, _Joins, _Joins, _Alike, _Views, _Constants))(draw, streams)
    share = draw.choice((0.0, 0.0, 0.3, 0.6))
    count = draw.randint(2, 12)
    queries = [_any(draw, streams) if draw.random() < share else theme.query() for _ in range(count)]
    if draw.random() < 0.15:
        queries.append(draw.choice(queries))  # asked twice
    return Script(number, tuple(queries), streams)


def draw_joins(draw: random.Random, streams: Streams, count: int) -> tuple[Query, ...]:
    """Joins of which the first can do with less memory than it needs: those that say how to join cannot, and what waits
    for a step is kept beside."""
    theme = _Joins(draw, streams)
    theme.foreign = 0.0
    queries: list[Query] = []
    while len(queries) < count:
        one = theme.query()
        if not re.search(r"join = |invalidate = " + ("" if queries else r"|SLIDE|LANDMARK|LATCH"), one.case.ours):
            queries.append(one)
    return tuple(queries)


def _any(draw: random.Random, streams: Streams) -> Query:
    return Query(draw.choice(ANY)(draw, streams))


class _Joins:
    """Inner joins of the same two or three streams, mostly on the same keys and now and then with the same test."""

    def __init__(self, draw: random.Random, streams: Streams) -> None:
        self.draw, self.streams = draw, streams
        self.inputs = draw.sample("abc", 3)
        self.on = [predicates.between(draw, "u", "v", 0.85), predicates.between(draw, "u", "v", 0.7)]
        self.also = [predicates.between(draw, "v", "w", 0.85), predicates.between(draw, "u", "w", 0.85)]
        self.tests = [predicates.alone(draw, draw.choice("uv")) for _ in range(3)]
        self.foreign = draw.choice((0.0, 0.15))

    def query(self) -> Query:
        draw = self.draw
        if draw.random() < self.foreign:
            return Query(_group_of_join(draw, self.streams, self.inputs, self.on[0]))
        where = [draw.choice((self.on[0], self.on[0], self.on[1]))]
        inputs = self.inputs[:2]
        if draw.random() < 0.3:
            inputs = self.inputs
            where.append(draw.choice(self.also))
        if draw.random() < 0.5:
            where.append(draw.choice(self.tests))
        if draw.random() < 0.15:
            inputs = [inputs[1], inputs[0], *inputs[2:]]
        return Query(join_of(draw, self.streams, inputs, where))


def _group_of_join(draw: random.Random, streams: Streams, inputs: list[str], on: str) -> Case:
    windows = [any_window(draw, start_of(streams)) for _ in "uv"]
    text = say(
        "SELECT u.k AS c0, COUNT(*) AS c1, SUM(v.x) AS c2 FROM {u}, {v} WHERE {on} GROUP BY u.k",
        u=source(inputs[0], windows[0], "u"),
        v=source(inputs[1], windows[1], "v"),
        on=on,
    )
    return case("changing", text)


class _Alike:
    """One or two texts again and again, of other windows, streams or constants."""

    def __init__(self, draw: random.Random, streams: Streams) -> None:
        self.draw, self.streams = draw, streams
        self.templates = draw.sample(ANY, draw.randint(1, 2))

    def query(self) -> Query:
        return Query(self.draw.choice(self.templates)(self.draw, self.streams))


class _Views:
    """A few views, and queries over them: what a view lets through of a stream, and whole queries."""

    def __init__(self, draw: random.Random, streams: Streams) -> None:
        self.draw, self.streams = draw, streams
        self.parts = [(draw.choice("abc"), predicates.alone(draw, "z")) for _ in range(2)]
        self.joins = _Joins(draw, streams)
        drawn = [draw.choice(changing.FAMILY)(draw, streams) for _ in range(3)]
        self.wholes = [one for one in drawn if _may_be_a_view(one)][:2]

    def query(self) -> Query:
        draw = self.draw
        kind = draw.choice(("part", "part", "part", "whole", "plain"))
        if kind == "whole" and self.wholes:
            return self._of_whole(draw.randrange(len(self.wholes)))
        return self._of_parts() if kind != "plain" else self.joins.query()

    def _of_parts(self) -> Query:
        draw, at = self.draw, self.draw.randrange(len(self.parts))
        other = draw.choice((at, 1 - at))
        text = draw.choice(
            (
                "SELECT u.k AS c0, COUNT(*) AS c1, SUM(u.x) AS c2 FROM {u} GROUP BY u.k",
                "SELECT DISTINCT u.s AS c0 FROM {u}",
                "SELECT u.k AS c0, v.x AS c1, COUNT(*) AS c2 FROM {u}, {v} WHERE u.k = v.k GROUP BY u.k, v.x",
                "SELECT u.k AS c0 FROM {u} EXCEPT SELECT v.k AS c0 FROM {v}",
                "SELECT u.k AS c0, u.d AS c1, COUNT(v.x) AS c2 FROM {u} LEFT JOIN {v} ON u.k = v.k GROUP BY u.k, u.d",
            )
        )
        inputs = {"u": self._source(at, "u")} | ({"v": self._source(other, "v")} if "{v}" in text else {})
        views = tuple(self._view(one) for one in sorted({at, other} if "{v}" in text else {at}))
        return Query(case("changing", say(text, **inputs)), views)

    def _view(self, at: int) -> str:
        stream, test = self.parts[at]
        return f"CREATE OR REPLACE VIEW part_{at} AS SELECT k, x, y, f, d, s, ts FROM {stream} AS z WHERE {test}"

    def _source(self, at: int, alias: str) -> Pair:
        """The rows of a view in a window in time, which go by their own times."""
        stream, test = self.parts[at]
        window = range_window(self.draw)
        kept = replace(
            window, contents=window.contents.format(stream=f"(SELECT * FROM stream_{stream} z WHERE {test})")
        )
        over_stream = source(stream, kept, alias)
        return replace(over_stream, ours=f"part_{at} {window.text} AS {alias}")

    def _of_whole(self, at: int) -> Query:
        one = self.wholes[at]
        view = f"CREATE OR REPLACE VIEW whole_{at} AS {one.ours}"
        ours, theirs = f"whole_{at}", f"({one.theirs})"
        asked = self.draw.choice(("SELECT * FROM {q} AS q", "SELECT q.c0 FROM {q} AS q WHERE q.c0 IS NOT NULL"))
        pair = Pair(asked.format(q=ours), asked.format(q=theirs), one.relations)
        return Query(replace(case(one.kind, pair), streams=one.streams), (view,))


def _may_be_a_view(one: Case) -> bool:
    plain = not re.search(r"\b(OPTIONS|ISTREAM|DSTREAM|RSTREAM|EVERY|ORDER BY)\b", one.ours)
    return one.output == "log" and plain and " AS c0" in one.ours


class _Constants:
    """Each asks for values of its own, in streams or in joins of them."""

    def __init__(self, draw: random.Random, streams: Streams) -> None:
        self.draw, self.streams = draw, streams
        self.stream, self.other = draw.sample("abc", 2)
        self.column = draw.choice(("k", "k", "s", "x"))
        self.rest = draw.choice((0.0, 0.2))

    def query(self) -> Query:
        draw = self.draw
        if draw.random() < self.rest:
            return _any(draw, self.streams)
        asked = self._asked()
        if draw.random() < 0.4:
            on = draw.choice((f"u.{self.column} = v.{self.column}", "u.k = v.k"))
            return Query(join_of(draw, self.streams, [self.stream, self.other], [on, asked]))
        text = draw.choice(
            (
                "SELECT u.k AS c0, u.x AS c1, u.s AS c2 FROM {plain} WHERE {asked}",
                "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} WHERE {asked} GROUP BY u.k",
                "SELECT u.x AS c0, COUNT(*) AS c1, MAX(u.d) AS c2 FROM {u} WHERE {asked} GROUP BY u.x",
                "SELECT DISTINCT u.k AS c0, u.s AS c1 FROM {u} WHERE {asked}",
            )
        )
        kind: Kind = "growing" if "{plain}" in text else "changing"
        window = any_window(draw, start_of(self.streams))
        inputs = {
            "plain": source(self.stream, None, "u", ""),
            "u": source(self.stream, window, "u"),
        }
        used = {name: pair for name, pair in inputs.items() if f"{{{name}}}" in text}
        return Query(case(kind, say(text, asked=asked, **used)))

    def _asked(self) -> str:
        draw = self.draw
        values = [f"'{one}'" for one in ("", "a", "b", "ab", "Zürich")] if self.column == "s" else [*map(str, range(6))]
        some = draw.sample(values, draw.choice((1, 1, 2, 4)))
        column = f"u.{self.column}"
        asked = f"{column} = {some[0]}" if len(some) == 1 else f"{column} IN ({', '.join(some)})"
        return f"{asked} AND {predicates.alone(draw, 'u')}" if draw.random() < 0.2 else asked


def shrunk(script: Script, fails: Callable[[Script], bool]) -> Script:
    """The same with fewer queries and rows, as long as it fails."""
    smaller = True
    while smaller:
        smaller = False
        for at in range(len(script.queries)):
            fewer = replace(script, queries=script.queries[:at] + script.queries[at + 1 :])
            if fewer.queries and fails(fewer):
                script, smaller = fewer, True
                break
        for name in sorted(script.names):
            size = max(1, len(script.streams.rows[name]) // 2)
            while size:
                for fewer_rows in _without(script.streams.rows[name], size):
                    fewer = replace(script, streams=script.streams.replaced(name, fewer_rows))
                    if fails(fewer):
                        script, smaller = fewer, True
                        break
                else:
                    size //= 2
    return script


def _without(rows: list[Row], size: int) -> list[list[Row]]:
    return [rows[:begin] + rows[begin + size :] for begin in range(0, len(rows), size)]
