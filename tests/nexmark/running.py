"""The Nexmark queries as their files have them, over small streams, and what DuckDB says of the same rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.nexmark.expected import FIVE_S, GROWING, expected_sql
from tests.plain_sql import said_by_duckdb
from watersmeet.lab.workloads import nexmark, nexmark_side_input
from watersmeet.model.time import times_of
from watersmeet.plan.query import Plan
from watersmeet.runtime.final import final_answer

FOLDER = Path(__file__).parents[2] / "examples" / "nexmark"
QUERIES = sorted((path.stem for path in FOLDER.glob("q*.sql")), key=lambda name: int(re.findall(r"\d+", name)[0]))
WINDOWED, RANKED = "_windowed", "_ranked"
Tables = Mapping[str, pa.Table]
Rows = Counter[tuple[Any, ...]]


def script_of(query: str) -> str:
    return (FOLDER / f"{query}.sql").read_text(encoding="utf-8")


@cache
def tables(rows: int, rate: float, seed: int = 1) -> dict[str, pa.Table]:
    return {**nexmark(rows=rows, rate=rate, seed=seed), "side_input": nexmark_side_input()}


def answer_by_duckdb(query: str, made: Tables) -> Rows:
    """The answer, or where it changes what it is at the end."""
    return bag(said_by_duckdb(*_asked(query, made)))


def count_by_duckdb(query: str, made: Tables) -> int:
    """How many rows that are."""
    sql, used = _asked(query, made)
    return int(said_by_duckdb(f"SELECT count(*) AS n FROM ({sql})", used)["n"][0].as_py())


def _asked(query: str, made: Tables) -> tuple[str, Tables]:
    query = query.removesuffix(RANKED)
    base = query.removesuffix(WINDOWED)
    within_us = GROWING.get(base) if base != query else None
    if base != query and within_us is None:
        made = in_windows(made, used_by(query), FIVE_S)
    return expected_sql(base, within_us), made


def used_by(query: str) -> list[str]:
    return re.findall(r"CREATE STREAM (\w+)", script_of(query))


def last_us(made: Tables, streams: list[str]) -> int:
    return max(int(times_of(made[name]["ts"].combine_chunks()).max()) for name in streams)


def in_windows(made: Tables, streams: list[str], size_us: int) -> dict[str, pa.Table]:
    """The rows that are in windows of a size at the last event."""
    start = pa.scalar(last_us(made, streams) - size_us, pa.timestamp("us"))
    return {name: made[name].filter(pc.greater_equal(made[name]["ts"], start)) for name in streams}


def at_the_end(answer: pa.Table, plan: Plan, made: Tables, streams: list[str]) -> Rows:
    """What an answer is after the last event; rows that stay are all of it."""
    return bag(answer if plan.kind == "rows" else final_answer(answer, plan, last_us(made, streams)))


def bag(table: pa.Table) -> Rows:
    """Rows by position, whatever their columns are called; of floats the digits that any order of sums has."""
    columns = (column.to_pylist() for column in table.columns)
    return Counter(tuple(map(_plain, row)) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return float(f"{value:.9g}") if isinstance(value, float) else value
