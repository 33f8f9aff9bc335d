"""Functions that users bring: found, typed, checked, and told by name and place where they go wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from watersmeet.plan.identity import identity_of
from watersmeet.reference.join import answer

NOON = datetime(2026, 1, 1, 12)
TABLE = pa.table(
    {
        "k": [1, -7, None], "x": [2.5, None, 0.5], "s": ["a", "b", None],
        "ts": [NOON + timedelta(seconds=second) for second in range(3)],
    }
)  # fmt: skip


def session_with(**functions: Any) -> wm.Session:
    session = wm.Session()
    session.stream("a", TABLE, time="ts")
    for name, given in functions.items():
        session.function(name, *given)
    return session


def column(session: wm.Session, expression: str) -> list[Any]:
    return list(session.sql(f"SELECT {expression} AS v FROM a").to_arrow()["v"].to_pylist())


def double(x: int) -> int:
    return pc.multiply(x, 2)


def test_a_function_is_called_with_whole_columns() -> None:
    seen: list[Any] = []

    def watched(x: pa.Array, y: pa.Array) -> pa.Array:
        seen.append((type(x), len(x), x.type, y.type))
        return pc.add(x, y)

    session = session_with(plus=(watched, ["DOUBLE", "DOUBLE"], "DOUBLE"))
    assert column(session, "plus(k, 1)") == [2.0, -6.0, None]
    assert seen == [(pa.DoubleArray, 3, pa.float64(), pa.float64())]


def test_types_come_from_annotations_or_are_said() -> None:
    def named(x: "BIGINT") -> "VARCHAR":  # type: ignore[name-defined]  # noqa: F821, UP037
        return pc.cast(x, pa.string())

    session = session_with(double=(double,), named=(named,), said=(double, [pa.int64()], pa.int64()))
    assert column(session, "double(k)") == column(session, "SAID(k)") == [2, -14, None]
    assert column(session, "named(k)") == ["1", "-7", None]


def test_what_numpy_and_scalars_give_is_taken() -> None:
    session = session_with(
        root=(lambda x: np.sqrt(pc.fill_null(x, 0.0).to_numpy()), ["DOUBLE"], "DOUBLE"),
        one=(lambda x: pa.scalar(1), ["DOUBLE"], "BIGINT"),
        none=(lambda x: pa.nulls(len(x)), ["DOUBLE"], "STRING"),
        small=(lambda x: pc.cast(x, pa.int32()), ["BIGINT"], "BIGINT"),
    )
    assert column(session, "one(x) + small(k)") == [2, -6, None]
    assert column(session, "none(x)") == [None] * 3
    assert column(session, "root(x)")[1:] == [0.0, pytest.approx(0.5**0.5)]


def test_it_may_stand_wherever_a_function_may() -> None:
    session = session_with(double=(double,))
    text = "SELECT double(k) AS d, SUM(double(k)) AS n FROM a [UNBOUNDED] WHERE double(k) < 9 GROUP BY double(k)"
    assert sorted(session.sql(text).final()["n"].to_pylist()) == [-14, 2]
    join = "SELECT l.k FROM a l, a r WHERE double(l.k) = r.k + r.k WINDOW = 9 SECONDS"
    assert sorted(session.sql(join).to_arrow()["k"].to_pylist()) == [-7, 1]
    assert session.explain(join).count("double(l.k)") > 0
    assert sorted(answer(session.sql(join).plan, {"a": TABLE})) == [(-7,), (1,)]


def test_a_guard_keeps_rows_from_it() -> None:
    def picky(x: int) -> int:
        if pc.any(pc.less(x, 0)).as_py():
            raise ValueError("below zero")
        return x

    session = session_with(picky=(picky,))
    assert column(session, "CASE WHEN k > 0 THEN picky(k) END") == [1, None, None]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda x: pa.array([1, 2]), "the function f returned 2 values for 3 rows"),
        (lambda x: pa.array(["a", "b", "c"]), "returned STRING, but it is declared to return BIGINT"),
        (lambda x: pa.array([1.5, 2, 3]), "which does not hold every value"),
        (lambda x: [1, 2, 3], "returned list, not an array of pyarrow"),
        (lambda x: None, "returned NoneType"),
        (lambda x: 1 / 0, "the function f raised ZeroDivisionError: division by zero"),
    ],
)
def test_what_goes_wrong_in_it_is_told_with_its_place(body: Any, said: str) -> None:
    session = session_with(f=(body, ["BIGINT"], "BIGINT"))
    with pytest.raises(wm.DataError) as caught:
        column(session, "k + f(k)")
    assert said in str(caught.value)
    assert f"\nline 1: SELECT k + f(k) AS v FROM a\n{' ' * 19}^^^^\n" in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("double(s)", "double needs BIGINT as argument 1, not STRING: double(BIGINT) -> BIGINT"),
        ("double(x)", "double needs BIGINT as argument 1, not DOUBLE"),
        ("double()", "double takes 1 argument, not 0"),
        ("doubel(k)", "did you mean DOUBLE?"),
    ],
)
def test_a_wrong_call_is_told_before_anything_runs(expression: str, said: str) -> None:
    with pytest.raises(wm.SqlError) as caught:
        session_with(double=(double,)).sql(f"SELECT {expression} FROM a")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("lower", double), "lower is a function of the language"),
        (("SUM", double), "SUM is a function of the language"),
        (("my function", double), "'my function' cannot be the name of a function"),
        (("f", 3), "3 cannot be"),
        (("f", lambda x: x), "the type of argument 1 of function f is not said"),
        (("f", double, ["NOPE"]), "is 'NOPE', which is no type"),
        (("f", double, ["BIGINT"], 7), "the type of the result of function f is 7"),
        (("double", double), "double is brought twice"),
    ],
)
def test_a_function_that_cannot_be_brought_is_refused(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(wm.CatalogError) as caught:
        session_with(double=(double,)).function(*given)
    assert said in str(caught.value)


def test_a_query_keeps_the_function_it_was_made_with() -> None:
    session = session_with(f=(double,))
    before = session.sql("SELECT f(k) AS v FROM a")
    session.function("f", lambda x: x, ["BIGINT"], "BIGINT", replace=True)
    assert before.to_arrow()["v"].to_pylist() == [2, -14, None]
    assert column(session, "f(k)") == [1, -7, None]


def test_it_can_be_forgotten() -> None:
    session = session_with(f=(double,))
    session.drop("F")
    with pytest.raises(wm.BindError, match="there is no function f"):
        session.sql("SELECT f(k) FROM a")
    with pytest.raises(wm.CatalogError, match="no stream, table, view or function 'f' to drop"):
        session.drop("f")


def test_rows_that_are_pushed_go_through_it() -> None:
    session = session_with(double=(double,))
    session.stream("p", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    with session.sql("SELECT double(k) AS v FROM p").start() as run:
        run.push("p", [{"k": 4, "ts": NOON}])
        run.finish()
        assert [row["v"] for batch in run for row in batch.to_pylist()] == [8]


def test_an_archive_refuses_what_its_text_does_not_hold(tmp_path: Path) -> None:
    session = session_with(double=(double,))
    join = "SELECT l.k FROM a l, a r WHERE double(l.k) = double(r.k) WINDOW = 9 SECONDS"
    query = session.sql(f"{join} OPTIONS (memory = '9 rows', archive = '{tmp_path / 'kept'}')")
    with pytest.raises(wm.UnsupportedError, match="double is a function that the text does not hold"):
        query.to_arrow()


def test_the_name_and_the_version_are_part_of_what_a_query_is_known_by() -> None:
    def identity(**how: Any) -> str:
        session = session_with()
        session.function("f", how.pop("body", double), **how)
        return identity_of(session.sql("SELECT f(k) AS v FROM a").plan)

    assert "v = user:f(a.k)::int64" in identity()
    assert identity() == identity(body=lambda x: x, arguments=["BIGINT"], returns="BIGINT")
    assert 'v = user:f@"2"(a.k)::int64' in identity(version="2")
