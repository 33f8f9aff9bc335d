"""Random expressions: the engine, the reference and DuckDB agree on every value, and on what is an error."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given

from tests.effort import random_cases
from tests.properties.expression_strategies import COLUMNS, TEMPLATES, Case, cases
from watersmeet.checking.duckdb_expressions import MACROS, InexpressibleError, Translator, named
from watersmeet.errors import DataError
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.evaluate import evaluate
from watersmeet.plan.expressions import Call, Expression
from watersmeet.plan.functions import FUNCTIONS
from watersmeet.plan.time_functions import PARTS
from watersmeet.reference.evaluate import Combination
from watersmeet.reference.evaluate import evaluate as evaluate_row
from watersmeet.reference.values import plain_column, present
from watersmeet.sql.bind import bind

ERROR = "an error"


def bound(sql: str, schema: pa.Schema) -> Expression:
    catalog = Catalog()
    catalog.add(Stream("a", schema, "ts"))
    ((_, expression),) = bind(f"SELECT {sql} AS v FROM a", catalog).root.columns
    return expression


def by_engine(expression: Expression, table: pa.Table) -> list[Any] | str:
    try:
        made = evaluate(expression, lambda column: table[column.name].combine_chunks(), len(table))
    except DataError:
        return ERROR
    made.validate(full=True)
    assert made.type == expression.type
    return list(made.to_pylist())


def by_reference(expression: Expression, table: pa.Table) -> list[Any] | str:
    columns = {name: plain_column(table[name].combine_chunks()) for name in table.schema.names}
    rows = [Combination({"a": {name: columns[name][k] for name in columns}}) for k in range(len(table))]
    try:
        return [present(evaluate_row(expression, row), expression.type) for row in rows]
    except DataError:
        return ERROR


def by_duckdb(expression: Expression, table: pa.Table) -> list[Any] | str | None:
    connection = database()
    connection.register("a", table)
    try:
        found = connection.sql(
            f"SELECT {Translator().output(expression)} AS v FROM a AS {named('a')}"
        ).to_arrow_table()["v"]
        return list(found.cast(expression.type).to_pylist())
    except InexpressibleError:
        return None
    except duckdb.CatalogException as error:
        pytest.fail(
            f"{error}: say in checking/duckdb_expressions.py how DuckDB writes it, or that it has nothing alike"
        )
    except duckdb.Error:
        return ERROR


_CONNECTIONS: list[Any] = []


def database() -> Any:
    if not _CONNECTIONS:
        _CONNECTIONS.append(duckdb.connect())
        for macro in MACROS:
            _CONNECTIONS[0].execute(macro)
        _CONNECTIONS[0].execute("SET ieee_floating_point_ops = false; SET error_on_division_by_zero = false")
    return _CONNECTIONS[0]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    return bool(left == right)


def agree(left: list[Any] | str, right: list[Any] | str) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    return all(same(a, b) for a, b in zip(left, right, strict=True))


def check(sql: str, table: pa.Table) -> None:
    """On the whole table, or row by row where an error in one row would hide the others."""
    expression = bound(sql, table.schema)
    ours, meant, theirs = by_engine(expression, table), by_reference(expression, table), by_duckdb(expression, table)
    assert agree(ours, meant), f"{sql}: the engine {ours}, the reference {meant}"
    assert theirs is None or agree(ours, theirs), f"{sql}: the engine {ours}, DuckDB {theirs}"
    if ours == ERROR and len(table) > 1:
        for row in range(len(table)):
            check(sql, table.slice(row, 1))


@random_cases(180)
@given(cases())
def test_everyone_agrees_on_random_expressions(case: Case) -> None:
    check(case.sql, case.table)


def one_table(rows: int) -> pa.Table:
    """Every value of every column, beside others each time."""
    chosen = random.Random(7)
    columns = {}
    for name, (_, kind, values) in COLUMNS.items():
        places = _shuffled(rows, chosen)
        columns[name] = pa.array([values[k] if k < len(values) else chosen.choice(values) for k in places], kind)
    return pa.table(columns)


def _shuffled(rows: int, chosen: random.Random) -> list[int]:
    places = list(range(rows))
    chosen.shuffle(places)
    return places


@pytest.mark.parametrize("kind", TEMPLATES)
def test_everyone_agrees_on_every_function(kind: str) -> None:
    table = one_table(24)
    for template in TEMPLATES[kind]:
        check(simplest(template), table)


def test_every_function_is_compared() -> None:
    table, called = one_table(1), set(PARTS)
    for known in TEMPLATES.values():
        for template in known:
            called |= {one.function for one in _calls(bound(simplest(template), table.schema))}
    # No column here is a struct; the others are what aggregates are made with.
    missing = set(FUNCTIONS) - called - {"field", "pack", "json_enclosed"}
    assert not missing, (
        f"the engine, the reference and DuckDB are not compared on {', '.join(sorted(missing))}, whose signatures do "
        "not say which arguments to try: write templates in tests/properties/expression_strategies.py"
    )


def _calls(expression: Expression) -> Iterator[Call]:
    if isinstance(expression, Call):
        yield expression
        for one in expression.args:
            yield from _calls(one)


def test_no_rows_is_not_special() -> None:
    empty = one_table(1).slice(0, 0)
    for known in TEMPLATES.values():
        for template in known:
            sql = simplest(template)
            assert by_engine(bound(sql, empty.schema), empty) in ([], ERROR), sql


def simplest(template: str) -> str:
    names = {kind: name for name, (kind, _, _) in reversed(COLUMNS.items())}
    words = {"pattern": "'a'", "format": "'%Y'", "unit": "day", "part": "year", "texts": "split(s, ',')"}
    return template.format(**names, **words)
