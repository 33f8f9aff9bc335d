"""A second opinion: a join plan written out as plain SQL and answered by DuckDB over whole tables.

Nothing of the reference is used. Event times are compared as microseconds (`epoch_us`), `[ROWS n]` by counting the
newer rows in a correlated subquery. The rows are those in time.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from watersmeet.checking.compare import surplus
from watersmeet.checking.recompute import DuckDB
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.types import is_instant, sql_type
from watersmeet.model.windows import Bound, Range, RowsWindow
from watersmeet.plan.expressions import Call, Column, EventTime, Expression, Literal
from watersmeet.plan.nodes import Changes, Input, Join, Project
from watersmeet.plan.query import Plan

EPOCH = datetime(1970, 1, 1)
_INFIX = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR",
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulo": "%", "concat": "||", "like": "LIKE",
}  # fmt: skip


def duckdb_answer(plan: Plan, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """The output rows of a join plan, given every stream's rows in time in arrival order, in DuckDB's words."""
    result = _database(tables).sql(plan_sql(plan)).to_arrow_table().cast(plan.schema)
    return list(zip(*(column.to_pylist() for column in result.columns), strict=True))


def duckdb_rows(plan: Plan, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """The rows of a plan whose answer only grows."""
    return DuckDB(plan, tables).combinations()


def duckdb_log(plan: Plan, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """The log of a plan whose answer changes: what DuckDB says at every instant, each compared with the one before."""
    oracle = DuckDB(plan, tables)
    log: list[tuple[Any, ...]] = []
    before: list[tuple[Any, ...]] = []
    for at_us, rows in oracle.answers(oracle.instants()):
        at = EPOCH + timedelta(microseconds=at_us)
        if plan.kind == "changes":
            log += [("-", at, *row) for row in surplus(before, rows)] + [
                ("+", at, *row) for row in surplus(rows, before)
            ]
            before = rows
        else:
            log += [(at, *row) for row in rows]
    return log


def duckdb_text_answer(sql: str, relations: Sequence[Stream | Table], tables: Mapping[str, pa.Table]) -> Any:
    """What a plain SQL text over `live_<name>` says, without any plan: rows as tuples."""
    parts = ", ".join(f"live_{relation.name.lower()} AS ({_live_rows(relation)})" for relation in relations)
    return _database(tables).execute(f"WITH {parts} {sql}").fetchall()


def _database(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    connection = _connection()
    for name, table in tables.items():
        numbered = table.append_column("_arrival", pa.array(range(len(table)), pa.int64()))
        connection.register(f"raw_{name.lower()}", numbered)
    return connection


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    connection.execute("SET ieee_floating_point_ops = false; SET error_on_division_by_zero = false")
    atexit.register(_connection.cache_clear)
    atexit.register(connection.close)
    return connection


def plan_sql(plan: Plan) -> str:
    """A Project(Join) plan as one plain SQL text."""
    root = plan.root.child if isinstance(plan.root, Changes) else plan.root
    assert isinstance(root, Project)
    join = root.child
    assert isinstance(join, Join)
    names = {i.relation.name.lower(): i.relation for i in join.inputs if isinstance(i.relation, Stream | Table)}
    parts = ",\n  ".join(f"live_{name} AS ({_live_rows(relation)})" for name, relation in names.items())
    selected = ", ".join(f'{_output(e, join)} AS "{name}"' for name, e in root.columns)
    sources = ", ".join(f'live_{i.relation.name.lower()} AS "{i.alias}"' for i in join.inputs)
    return f"WITH {parts}\nSELECT {selected}\nFROM {sources}\nWHERE {' AND '.join(_conditions(join))}"


def _live_rows(relation: Stream | Table) -> str:
    return f"SELECT * FROM raw_{relation.name.lower()}"


def _conditions(join: Join) -> list[str]:
    return [
        "true",
        *(expression_sql(p, join) for p in join.predicates),
        *(_bound(b, join) for b in join.bounds),
        *(_any_of([_all_of(alternative, join) for alternative in c.alternatives]) for c in join.choices),
        *(condition for one in join.streams for condition in _window(one, join)),
    ]


def _window(one: Input, join: Join) -> list[str]:
    match one.window:
        case Range(size_us=size):
            older = "<" if join.boundary == "half_open" else "<="
            others = [other for other in join.streams if other.alias != one.alias]
            return [f"{_time(other)} - {_time(one)} {older} {size}" for other in others]
        case RowsWindow(count=count, partition_by=keys):
            newest = _newest(join)
            same = "".join(f' AND r."{k}" IS NOT DISTINCT FROM "{one.alias}"."{k}"' for k in keys)
            later = f'(epoch_us(r."{one.time}"), r._arrival) > ({_time(one)}, "{one.alias}"._arrival)'
            newer = f'epoch_us(r."{one.time}") <= {newest} AND {later}{same}'
            return [f"(SELECT count(*) FROM live_{one.relation.name.lower()} AS r WHERE {newer}) < {count}"]
    return []


def _newest(join: Join) -> str:
    return f"greatest({', '.join(_time(one) for one in join.streams)})"


def _time(one: Input) -> str:
    return f'epoch_us("{one.alias}"."{one.time}")'


def _bound(bound: Bound, join: Join) -> str:
    return f"{_time(join.input(bound.later))} - {_time(join.input(bound.earlier))} <= {bound.at_most_us}"


def _all_of(bounds: Sequence[Bound], join: Join) -> str:
    return "(" + " AND ".join(_bound(b, join) for b in bounds) + ")"


def _any_of(alternatives: Sequence[str]) -> str:
    return "(" + " OR ".join(alternatives) + ")"


def _output(expression: Expression, join: Join) -> str:
    text = expression_sql(expression, join)
    if pa.types.is_timestamp(expression.type):
        return f"make_timestamp({text})"
    if pa.types.is_date(expression.type):
        return f"CAST(make_timestamp({text}) AS DATE)"
    if pa.types.is_duration(expression.type) or pa.types.is_null(expression.type):
        return text
    return f"CAST({text} AS {sql_type(expression.type)})"


def expression_sql(expression: Expression, join: Join) -> str:
    """An expression in DuckDB's SQL; instants and intervals become BIGINT microseconds."""
    match expression:
        case Column(stream=stream, name=name, type=kind):
            column = f'"{stream}"."{name}"'
            return f"epoch_us(CAST({column} AS TIMESTAMP))" if is_instant(kind) else column
        case Literal(value=value, type=kind):
            return _literal(value, kind)
        case EventTime():
            return _newest(join)
        case Call(function="cast", args=(midnight,)) if pa.types.is_date(midnight.type):
            assert expression.type == pa.timestamp("us")  # of a DATE that is compared with a time
            return expression_sql(midnight, join)
        case Call(function=function, args=args):
            return _call(function, [expression_sql(arg, join) for arg in args], expression.type)
    raise NotImplementedError(f"no plain SQL for {expression}")


def _literal(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "NULL"
    if pa.types.is_duration(kind):
        return f"CAST({value} AS BIGINT)"
    if is_instant(kind):
        return str(pa.scalar(value, kind).cast(pa.timestamp("us")).value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"CAST('{value}' AS {sql_type(kind)})"


def _call(function: str, args: list[str], kind: pa.DataType) -> str:
    match function:
        case "divide":
            return f"(CAST({args[0]} AS DOUBLE) / nullif(CAST({args[1]} AS DOUBLE), 0))"
        case "modulo":
            return f"({args[0]} % nullif({args[1]}, 0))"
        case "not":
            return f"(NOT {args[0]})"
        case "negate":
            return f"(-{args[0]})"
        case "is_null":
            return f"({args[0]} IS NULL)"
        case "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        case "cast":
            return f"CAST({args[0]} AS {sql_type(kind)})"
        case "case":
            whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[0:-1:2], args[1:-1:2], strict=True))
            return f"(CASE {whens} ELSE {args[-1]} END)"
    if function in _INFIX:
        return "(" + f" {_INFIX[function]} ".join(args) + ")"
    return f"{function}({', '.join(args)})"
