"""The same questions in the words of each engine. All windows are closed: rows exactly so far apart still meet."""

from __future__ import annotations

from datetime import timedelta

from benchmarks.rivals.load import Query


def ours(query: Query) -> str:
    size = f"{query.window_us // 1_000} MILLISECONDS"
    if query.groups:
        return f"SELECT k, COUNT(*) AS n, SUM(id) AS total FROM a [RANGE {size}] GROUP BY k"
    first, *others = query.streams
    same = " AND ".join(f"{first}.k = {name}.k" for name in others)
    return f"SELECT {_ids(query)}, event_time() AS t FROM {', '.join(query.streams)} WHERE {same} WINDOW = {size}"


def esper(query: Query) -> str:
    """Its windows leave out rows that are exactly as old as they are long, so they are a microsecond longer."""
    window = f"#time({query.window_us + 1} microseconds)"
    if query.groups:
        return f"select k, count(*) as n, sum(id) as total from a{window} group by k"
    first, *others = query.streams
    tables = ", ".join(f"{name}{window} as {name}" for name in query.streams)
    return f"select {_ids(query)} from {tables} where {' and '.join(f'{first}.k = {name}.k' for name in others)}"


def flink(query: Query) -> str:
    """Its time counts milliseconds; each stands for a microsecond of ours, so that none are lost."""
    size = f"INTERVAL '{timedelta(milliseconds=query.window_us)}' HOUR TO SECOND"
    if query.groups:
        over = f"OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN {size} PRECEDING AND CURRENT ROW)"
        return f"SELECT id, k, COUNT(*) {over} AS n, SUM(id) {over} AS total FROM a"
    first, *others = query.streams
    conditions = [f"{first}.k = {name}.k" for name in others] + [
        f"{y}.ts BETWEEN {x}.ts - {size} AND {x}.ts + {size}"
        for i, x in enumerate(query.streams)
        for y in query.streams[i + 1 :]
    ]
    return f"SELECT {_ids(query)} FROM {', '.join(query.streams)} WHERE {' AND '.join(conditions)}"


def _ids(query: Query) -> str:
    return ", ".join(f"{name}.id AS {column}" for name, column in zip(query.streams, "xyzw", strict=False))


def _hopping(window_ms: int, slide_ms: int) -> str:
    """In the words that Flink and we share."""
    slide, size = (f"INTERVAL '{ms // 1_000}' SECOND" for ms in (slide_ms, window_ms))
    return f"TABLE(HOP(TABLE a, DESCRIPTOR(ts), {slide}, {size}))"


def windows_of_ours(query: str, streams: str, window_ms: int, slide_ms: int) -> str:
    """The queries of `benchmarks.peers`. The first ten are told by their changes."""
    if query == "top 10":
        window = f"[RANGE {window_ms} MILLISECONDS SLIDE {slide_ms} MILLISECONDS]"
        return f"SELECT id, v FROM a {window} ORDER BY v DESC LIMIT 10"
    if query in ("GROUP BY", "DISTINCT"):
        values = "COUNT(*) AS n, SUM(v) AS total, " if query == "GROUP BY" else ""
        hopping = _hopping(window_ms, slide_ms)
        return f"SELECT k, {values}window_end FROM {hopping} GROUP BY k, window_start, window_end"
    return ours(Query(query, streams, window_ms * 1_000))


def windows_of_flink(query: str, streams: str, window_ms: int, slide_ms: int) -> str:
    hopping = _hopping(window_ms, slide_ms)
    if query == "GROUP BY":
        return (
            f"SELECT window_end, k, COUNT(*) AS n, SUM(v) AS total FROM {hopping} GROUP BY k, window_start, window_end"
        )
    if query == "DISTINCT":
        return f"SELECT window_end, k FROM {hopping} GROUP BY k, window_start, window_end"
    if query == "top 10":
        ranked = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS r"
        return f"SELECT window_end, id, v FROM (SELECT *, {ranked} FROM {hopping}) WHERE r <= 10"
    return flink(Query(query, streams, window_ms))


def windows_of_esper(query: str, streams: str, window_ms: int, slide_ms: int) -> str:
    """What is in a window is told whenever its clock has gone one slide further."""
    window, every = f"#time({window_ms + 1} milliseconds)", f"output snapshot every {slide_ms} milliseconds"
    if query == "GROUP BY":
        return f"select k, count(*) as n, sum(v) as total from a{window} group by k {every}"
    if query == "DISTINCT":
        return f"select k from a{window} group by k having count(*) > 0 {every}"
    if query == "top 10":
        return f"select id, v from a{window} {every} order by v desc limit 10"
    return esper(Query(query, streams, window_ms)).replace("microseconds", "milliseconds")
