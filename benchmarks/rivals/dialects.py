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
    return ", ".join(f"{name}.id AS {column}" for name, column in zip(query.streams, "xyz", strict=False))
