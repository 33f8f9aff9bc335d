"""The TPC-H queries as their files have them, and what DuckDB says of the same rows: their text but for the windows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.plain_sql import said_by_duckdb
from watersmeet.lab.workloads import WORKLOADS
from watersmeet.model.time import times_of

FOLDER = Path(__file__).parents[2] / "examples" / "tpch"
QUERIES = [f"q{number}" for number in range(1, 23)]
ROWS = 2000  # of which every query finds some
Tables = Mapping[str, pa.Table]
Rows = list[tuple[Any, ...]]


def script_of(query: str, window: str = "UNBOUNDED") -> str:
    return (FOLDER / f"{query}.sql").read_text(encoding="utf-8").replace("[UNBOUNDED]", f"[{window}]")


@cache
def tables() -> dict[str, pa.Table]:
    return WORKLOADS["tpch"].all_made({"rows": str(ROWS)})


def published(query: str) -> str:
    """The query alone; a view of the same script is a query of WITH."""
    text = undeclared(script_of(query)).replace(" [UNBOUNDED]", "")
    return re.sub(r"create view (.*?) as\n(.*?);", r"with \1 as (\2)", text, flags=re.DOTALL)


def undeclared(script: str) -> str:
    """A script without its CREATE STREAM and CREATE TABLE."""
    return re.sub(r"^(--|CREATE (STREAM|TABLE) ).*\n", "", script, flags=re.MULTILINE)


def answer_by_duckdb(query: str, made: Tables) -> Rows:
    return listed(said_by_duckdb(published(query), made))


def listed(table: pa.Table) -> Rows:
    """Rows in their order, by position; of numbers the digits that any order of sums has."""
    columns = (column.to_pylist() for column in table.columns)
    return [tuple(map(_plain, row)) for row in zip(*columns, strict=True)]


def as_bag(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int) or not hasattr(value, "__float__") else _short(value)


def _short(value: Any) -> float:
    return float(f"{float(value):.9g}")


def streams(made: Tables) -> list[str]:
    return [name for name, table in made.items() if "ts" in table.schema.names]


def times_us() -> tuple[int, int]:
    """The first and the last time of any stream."""
    times = [times_of(tables()[name]["ts"].combine_chunks()) for name in streams(tables())]
    return min(int(one.min()) for one in times), max(int(one.max()) for one in times)


def in_windows(made: Tables, at_us: int, size_us: int) -> dict[str, pa.Table]:
    """The tables with the rows of streams that are in windows of a size at an instant."""
    first, last = (pa.scalar(us, pa.timestamp("us")) for us in (at_us - size_us, at_us))
    there = dict(made)
    for name in streams(made):
        times = made[name]["ts"]
        there[name] = made[name].filter(pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last)))
    return there
