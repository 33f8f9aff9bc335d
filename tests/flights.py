"""Tasks over real data: the first flights that left New York in 2013, and the weather there.

Each task is a question in our language, and beside it what it means as plain SQL over the whole tables, written by
hand, for DuckDB. The oracle of an answer that changes gives it at each of the `instants`: put against all at which it
may change that makes the log, against the last event the final answer. Nothing of the project's own translation for
DuckDB (`check/`) is used here: a misreading there must not hide one in the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from tests.plain_sql import said_by_duckdb
from watersmeet.lab.workloads.flights import flights

FLIGHTS = 2000  # until the morning of the third of January
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """A question over `streams`, and its answer in plain SQL.

    instants: for an answer that changes, the SQL of all instants at which it may.
    order: for an ordered answer, what the rows at one instant are ordered by.
    """

    name: str
    streams: tuple[str, ...]
    sql: str
    oracle: str
    instants: str | None = None
    order: str | None = None

    @property
    def changes(self) -> bool:
        return self.instants is not None

    def __str__(self) -> str:
        return self.name


# ---- the rows -------------------------------------------------------------------------------------------------------


@cache
def tables() -> dict[str, pa.Table]:
    """The streams of all tasks, in time order.

    Flights are planned to the minute, and many to the same one. Where the last n rows are asked for, equal times would
    leave it to the order of arrival which those are; in `*_queue` flights of one minute leave one second after another.
    """
    found = flights(FLIGHTS)
    parts = " UNION ALL ".join(f"SELECT '{one.upper()}' AS origin, * FROM {one}" for one in ("ewr", "jfk", "lga"))
    queues = {one: f"SELECT '{one.upper()}' AS origin, * FROM {one}" for one in ("ewr", "lga")} | {"city": parts}
    return found | {f"{name}_queue": said_by_duckdb(_QUEUE.format(rows=rows), found) for name, rows in queues.items()}


_QUEUE = """
SELECT origin, carrier, flight, dest, dep_delay,
       ts + (row_number() OVER (PARTITION BY ts ORDER BY origin, carrier, flight) - 1) * INTERVAL 1 SECOND AS ts
FROM ({rows}) ORDER BY ts
"""


def streams_of(task: Task) -> dict[str, pa.Table]:
    return {name: tables()[name] for name in task.streams}


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    """The same rows in no order at all."""
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


# ---- the truth ------------------------------------------------------------------------------------------------------


@cache
def expected_rows(task: Task) -> Counter[Row]:
    """The answer of a join: a bag of rows."""
    return Counter(_rows(said_by_duckdb(task.oracle, tables())))


@cache
def expected_log(task: Task) -> Counter[Row]:
    """All changes of an answer, each with its sign and instant."""
    return Counter(_rows(said_by_duckdb(_LOG.format(instants=task.instants, answers=task.oracle), tables())))


@cache
def expected_at(task: Task, instant: datetime) -> list[Row]:
    """The answer at one instant, in its order if it has one."""
    return _rows(said_by_duckdb(_AT.format(instant=instant, answers=task.oracle, order=task.order or "ALL"), tables()))


def last_event(task: Task) -> datetime:
    found: datetime = max(table["ts"].to_pylist()[-1] for table in streams_of(task).values())
    return found


def sampled_instants(task: Task, count: int = 12) -> list[datetime]:
    """Some of the instants at which the answer may change, from the first to the last."""
    changes = f"SELECT DISTINCT instant FROM ({task.instants}) ORDER BY instant"
    every = [instant for (instant,) in _rows(said_by_duckdb(changes, tables()))]
    return every[:: -(-len(every) // count)] + every[-1:]


# What is there and was not there at the instant before has come; what was there and is not any more has gone.
_LOG = """
WITH instants AS MATERIALIZED (SELECT instant, row_number() OVER (ORDER BY instant) AS place
                               FROM (SELECT DISTINCT instant FROM ({instants}))),
     answers AS MATERIALIZED (SELECT i.place, a.* EXCLUDE (instant) FROM ({answers}) a JOIN instants i USING (instant)),
     before AS (SELECT * REPLACE (place + 1 AS place) FROM answers),
     come AS (SELECT * FROM answers EXCEPT ALL SELECT * FROM before),
     gone AS (SELECT * FROM before EXCEPT ALL SELECT * FROM answers)
SELECT '+' AS op, i.instant, c.* EXCLUDE (place) FROM come c JOIN instants i USING (place)
UNION ALL
SELECT '-' AS op, i.instant, g.* EXCLUDE (place) FROM gone g JOIN instants i USING (place)
"""
_AT = """
WITH instants AS (SELECT TIMESTAMP '{instant}' AS instant)
SELECT * EXCLUDE (instant) FROM ({answers}) ORDER BY {order}
"""


# ---- what an answer says --------------------------------------------------------------------------------------------


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def given_rows(table: pa.Table) -> list[Row]:
    """The rows of an answer, as they come; an instant of a zone as the UTC reading it stands for."""
    return [tuple(_reading(value) for value in row) for row in _rows(table)]


def _reading(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def given_bag(table: pa.Table) -> Counter[Row]:
    return Counter(given_rows(table))


def summed(log: Counter[Row], until: datetime) -> Counter[Row]:
    """What the changes up to an instant add up to."""
    total: Counter[Row] = Counter()
    for (op, at, *row), copies in log.items():
        if at <= until:
            total[tuple(row)] += copies if op == "+" else -copies
    assert all(copies >= 0 for copies in total.values()), "a row left that was not there"
    return +total


def declared(task: Task, source: str) -> str:
    """The CREATE STREAM statements of a task; `source` has a place for the name."""
    return "\n".join(
        f"CREATE STREAM {name} ({columns_of(name)}) WITH ({source.format(name=name)}, time='ts');"
        for name in task.streams
    )


def columns_of(name: str) -> str:
    kinds = {pa.string(): "STRING", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.timestamp("us"): "TIMESTAMP"}
    return ", ".join(f"{field.name} {kinds[field.type]}" for field in tables()[name].schema)


# ---- joins ----------------------------------------------------------------------------------------------------------

SAME_CARRIER = Task(
    "the same carrier leaves two airports within ten minutes",
    ("ewr", "lga"),
    """
    SELECT e.carrier, e.flight, l.flight AS other, e.ts AS at, l.ts AS other_at
    FROM ewr e, lga l
    WHERE e.carrier = l.carrier
    WINDOW = 10 MINUTES
    """,
    """
    SELECT e.carrier, e.flight, l.flight, e.ts, l.ts
    FROM ewr e JOIN lga l ON e.carrier = l.carrier
    WHERE l.ts BETWEEN e.ts - INTERVAL 10 MINUTE AND e.ts + INTERVAL 10 MINUTE
    """,
)

SAME_AIRCRAFT = Task(
    "an aircraft leaves from one airport and within a day from another",
    ("jfk", "lga"),
    """
    SELECT j.tailnum, j.dest, l.dest AS then_to, l.ts AS then_at
    FROM jfk j, lga l
    WHERE j.tailnum = l.tailnum
    DWINDOW (j, l) = 1 DAY
    """,
    """
    SELECT j.tailnum, j.dest, l.dest, l.ts
    FROM jfk j JOIN lga l ON j.tailnum = l.tailnum
    WHERE l.ts >= j.ts AND l.ts <= j.ts + INTERVAL 24 HOUR
    """,
)

SAME_DESTINATION = Task(
    "flights to one destination leave all three airports within three hours",
    ("ewr", "jfk", "lga"),
    """
    SELECT e.dest, e.flight AS e, j.flight AS j, l.flight AS l, event_time() AS complete
    FROM ewr e, jfk j, lga l
    WHERE e.dest = j.dest AND j.dest = l.dest
    WINDOW = 3 HOURS
    """,
    """
    SELECT e.dest, e.flight, j.flight, l.flight, greatest(e.ts, j.ts, l.ts)
    FROM ewr e JOIN jfk j ON e.dest = j.dest JOIN lga l ON l.dest = e.dest
    WHERE greatest(e.ts, j.ts, l.ts) - least(e.ts, j.ts, l.ts) <= INTERVAL 3 HOUR
    """,
)

CARRIER_THEN_DESTINATION = Task(
    "three airports by different columns and windows",
    ("ewr", "jfk", "lga"),
    """
    SELECT e.flight AS e, j.flight AS j, l.flight AS l, j.ts
    FROM ewr e, jfk j, lga l
    WHERE e.carrier = j.carrier AND j.dest = l.dest AND e.dep_delay > l.dep_delay
    WINDOW (e, j) = 30 MINUTES AND DWINDOW (j, l) = 3 HOURS
    """,
    """
    SELECT e.flight, j.flight, l.flight, j.ts
    FROM ewr e, jfk j, lga l
    WHERE e.carrier = j.carrier AND j.dest = l.dest AND e.dep_delay > l.dep_delay
      AND e.ts - j.ts <= INTERVAL 30 MINUTE AND j.ts - e.ts <= INTERVAL 30 MINUTE
      AND l.ts >= j.ts AND l.ts - j.ts <= INTERVAL 3 HOUR
    """,
)

WEATHER_BEFORE = Task(
    "flights with the weather of the hour before",
    ("jfk", "weather"),
    """
    SELECT f.carrier, f.flight, f.ts, f.dep_delay, w.ts AS observed, w.temp, w.wind_speed, w.pressure
    FROM jfk f JOIN weather w ON w.origin = 'JFK' AND w.ts < f.ts AND w.ts >= f.ts - INTERVAL 1 HOUR
    """,
    """
    SELECT f.carrier, f.flight, f.ts, f.dep_delay, w.ts, w.temp, w.wind_speed, w.pressure
    FROM jfk f, weather w
    WHERE w.origin = 'JFK' AND f.ts > w.ts AND f.ts <= w.ts + INTERVAL 1 HOUR
    """,
)

LAST_FIVE = Task(
    "a flight among the last five of one airport beside the last half hour of another",
    ("ewr_queue", "lga_queue"),
    """
    SELECT e.flight, e.ts, l.flight AS other, l.ts AS other_at
    FROM ewr_queue e [ROWS 5], lga_queue l [RANGE 30 MINUTES]
    WHERE e.dest = l.dest OR e.carrier = l.carrier
    """,
    """
    SELECT e.flight, e.ts, l.flight, l.ts
    FROM ewr_queue e, lga_queue l
    WHERE (e.dest = l.dest OR e.carrier = l.carrier) AND e.ts - l.ts <= INTERVAL 30 MINUTE
      AND (SELECT count(*) FROM ewr_queue newer
           WHERE newer.ts > e.ts AND newer.ts <= greatest(e.ts, l.ts)) < 5
    """,
)

LAST_OF_BOTH = Task(
    "the last three flights to each destination meet the last ten of the other airport",
    ("ewr_queue", "lga_queue"),
    """
    SELECT e.dest, e.flight, l.flight AS other
    FROM ewr_queue e [PARTITION BY dest ROWS 3], lga_queue l [ROWS 10]
    WHERE e.dest = l.dest
    """,
    """
    SELECT e.dest, e.flight, l.flight
    FROM (SELECT dest, flight, ts, lead(ts, 3) OVER (PARTITION BY dest ORDER BY ts) AS gone FROM ewr_queue) e,
         (SELECT dest, flight, ts, lead(ts, 10) OVER (ORDER BY ts) AS gone FROM lga_queue) l
    WHERE e.dest = l.dest
      AND greatest(e.ts, l.ts) < coalesce(e.gone, TIMESTAMP '9999-01-01')
      AND greatest(e.ts, l.ts) < coalesce(l.gone, TIMESTAMP '9999-01-01')
    """,
)

# ---- answers that change --------------------------------------------------------------------------------------------

SLIDING_AVERAGE = Task(
    "the mean delay of each carrier over three hours",
    ("jfk",),
    "SELECT carrier, COUNT(*) AS n, AVG(dep_delay) AS mean FROM jfk [RANGE 3 HOURS] GROUP BY carrier",
    """
    SELECT i.instant, f.carrier, count(*) AS n, avg(f.dep_delay) AS mean
    FROM instants i JOIN jfk f ON f.ts <= i.instant AND i.instant <= f.ts + INTERVAL 3 HOUR
    GROUP BY i.instant, f.carrier
    """,
    instants="SELECT ts AS instant FROM jfk UNION SELECT ts + INTERVAL 3 HOUR + INTERVAL 1 MICROSECOND FROM jfk",
)

WORST_DESTINATIONS = Task(
    "the five destinations with the longest mean delay",
    ("ewr",),
    """
    SELECT dest, AVG(arr_delay) AS mean, COUNT(*) AS n
    FROM ewr [RANGE 6 HOURS] GROUP BY dest
    ORDER BY mean DESC LIMIT 5
    """,
    """
    SELECT i.instant, f.dest, avg(f.arr_delay) AS mean, count(*) AS n
    FROM instants i JOIN ewr f ON f.ts <= i.instant AND i.instant <= f.ts + INTERVAL 6 HOUR
    GROUP BY i.instant, f.dest
    QUALIFY row_number() OVER (PARTITION BY i.instant ORDER BY mean DESC NULLS LAST, dest, n) <= 5
    """,
    instants="SELECT ts AS instant FROM ewr UNION SELECT ts + INTERVAL 6 HOUR + INTERVAL 1 MICROSECOND FROM ewr",
    order="mean DESC NULLS LAST, dest",
)

BUSIEST_CARRIERS = Task(
    "the five carriers with the most departures from all airports, the slower first",
    ("ewr", "jfk", "lga"),
    """
    SELECT carrier, COUNT(*) AS n, SUM(dep_delay) AS minutes
    FROM (SELECT carrier, dep_delay FROM ewr [RANGE 2 HOURS]
          UNION ALL SELECT carrier, dep_delay FROM jfk [RANGE 2 HOURS]
          UNION ALL SELECT carrier, dep_delay FROM lga [RANGE 2 HOURS]) AS leaving
    GROUP BY carrier
    ORDER BY n DESC, minutes DESC LIMIT 5
    """,
    """
    SELECT i.instant, f.carrier, count(*) AS n, sum(f.dep_delay)::BIGINT AS minutes
    FROM instants i
    JOIN (SELECT carrier, dep_delay, ts FROM ewr UNION ALL SELECT carrier, dep_delay, ts FROM jfk
          UNION ALL SELECT carrier, dep_delay, ts FROM lga) f
      ON f.ts <= i.instant AND i.instant <= f.ts + INTERVAL 2 HOUR
    GROUP BY i.instant, f.carrier
    QUALIFY row_number() OVER (PARTITION BY i.instant ORDER BY n DESC, minutes DESC NULLS LAST, carrier) <= 5
    """,
    instants="""
    SELECT unnest([ts, ts + INTERVAL 2 HOUR + INTERVAL 1 MICROSECOND]) AS instant
    FROM (SELECT ts FROM ewr UNION SELECT ts FROM jfk UNION SELECT ts FROM lga)
    """,
    order="n DESC, minutes DESC NULLS LAST, carrier",
)

ONLY_FROM_NEWARK = Task(
    "destinations from one airport and not from another",
    ("ewr", "jfk"),
    "SELECT dest FROM ewr [RANGE 2 HOURS] EXCEPT SELECT dest FROM jfk [RANGE 4 HOURS]",
    """
    SELECT DISTINCT i.instant, e.dest
    FROM instants i JOIN ewr e ON i.instant BETWEEN e.ts AND e.ts + INTERVAL 2 HOUR
    WHERE NOT EXISTS (FROM jfk j WHERE j.dest = e.dest AND i.instant BETWEEN j.ts AND j.ts + INTERVAL 4 HOUR)
    """,
    instants="""
    SELECT unnest([ts, ts + INTERVAL 2 HOUR + INTERVAL 1 MICROSECOND]) AS instant FROM ewr
    UNION SELECT unnest([ts, ts + INTERVAL 4 HOUR + INTERVAL 1 MICROSECOND]) FROM jfk
    """,
)

MORE_FROM_NEWARK = Task(
    "as many flights as leave one airport for a destination beyond those of another",
    ("ewr", "jfk"),
    "SELECT dest FROM ewr [RANGE 5 HOURS] EXCEPT ALL SELECT dest FROM jfk [RANGE 5 HOURS]",
    """
    SELECT instant, dest FROM (
        SELECT instant, dest, sum(sign) AS more
        FROM instants
        JOIN (SELECT dest, ts, 1 AS sign FROM ewr UNION ALL SELECT dest, ts, -1 FROM jfk)
          ON instant BETWEEN ts AND ts + INTERVAL 5 HOUR
        GROUP BY instant, dest
    ), range(more::BIGINT)
    WHERE more > 0
    """,
    instants="""
    SELECT unnest([ts, ts + INTERVAL 5 HOUR + INTERVAL 1 MICROSECOND]) AS instant
    FROM (SELECT ts FROM ewr UNION SELECT ts FROM jfk)
    """,
)

LAST_TEN = Task(
    "the last ten departures of each carrier",
    ("city_queue",),
    """
    SELECT carrier, COUNT(*) AS n, AVG(dep_delay) AS mean, MAX(dep_delay) AS worst, COUNT(DISTINCT dest) AS places
    FROM city_queue [PARTITION BY carrier ROWS 10] GROUP BY carrier
    """,
    """
    SELECT i.instant, carrier, count(*) AS n, avg(dep_delay) AS mean, max(dep_delay) AS worst,
           count(DISTINCT dest) AS places
    FROM instants i
    JOIN (SELECT *, lead(ts, 10) OVER (PARTITION BY carrier ORDER BY ts) AS gone FROM city_queue) f
      ON f.ts <= i.instant AND (f.gone IS NULL OR i.instant < f.gone)
    GROUP BY i.instant, carrier
    """,
    instants="SELECT ts AS instant FROM city_queue",
)

JOINS: Sequence[Task] = (
    SAME_CARRIER,
    SAME_AIRCRAFT,
    SAME_DESTINATION,
    CARRIER_THEN_DESTINATION,
    WEATHER_BEFORE,
    LAST_FIVE,
    LAST_OF_BOTH,
)
CHANGING: Sequence[Task] = (
    SLIDING_AVERAGE,
    WORST_DESTINATIONS,
    BUSIEST_CARRIERS,
    ONLY_FROM_NEWARK,
    MORE_FROM_NEWARK,
    LAST_TEN,
)
TASKS: Sequence[Task] = (*JOINS, *CHANGING)
