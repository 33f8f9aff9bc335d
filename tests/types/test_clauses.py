"""Every type in every clause gives what the ranks of its values give in its place, or is refused when the query is
made: no error of Arrow, NumPy or a kernel, and none that only some rows would bring about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.types.clauses import NESTED, PLAIN
from tests.types.kinds import KINDS, OF_A, OF_B, UNKNOWN, Kind, stream
from watersmeet.model.zones import entering_type

HOLDERS = [name for name, kind in KINDS.items() if kind.is_nested]
# Of the types that operators see, one each: what comes in another layout has become one of these.
OF_EACH_TYPE = list({entering_type(kind.type): name for name, kind in reversed(KINDS.items())}.values())[::-1]


def clauses_of(name: str, one_of: int = 1) -> list[str]:
    """All clauses that a type may stand in, or of so many one, and for the next type another."""
    return list(NESTED if KINDS[name].is_nested else NESTED | PLAIN)[OF_EACH_TYPE.index(name) % one_of :: one_of]


def declared(kind: Kind, key: str) -> wm.Session:
    """Streams and tables whose rows are not in the order of their times; `n` has versions by that key."""
    session = wm.Session()
    a, b = stream(kind, OF_A), stream(kind, OF_B)
    session.stream("a", pa.concat_tables([a.slice(3), a.slice(0, 3)]), time="ts")
    session.stream("b", pa.concat_tables([b.slice(2), b.slice(0, 2)]), time="ts")
    session.table("t", b)
    if not kind.is_nested:
        session.table("n", stream(kind, [0, 1, 0, 1]), key=key, time="ts")
    return session


def answer(session: wm.Session, query: str, shown: Callable[[Any], Any]) -> Counter[str]:
    def rank(name: str, value: Any) -> Any:
        return shown(value) if name.startswith("out") and value is not None else value

    return Counter(
        repr([rank(name, value) for name, value in row.items()]) for row in session.sql(query).to_arrow().to_pylist()
    )


def compare(kind: Kind, clauses: Iterable[str]) -> None:
    session = declared(kind, "v")
    for clause in clauses:
        given = answer(session, (NESTED | PLAIN)[clause].format(v="v", w="w"), kind.rank)
        assert given == of_ranks(clause, kind.ranks), clause


@cache
def of_ranks(clause: str, ranks: tuple[int | None, ...]) -> Counter[str]:
    session = declared(Kind(pa.int64(), ranks, ranks), "r")
    return answer(session, (NESTED | PLAIN)[clause].format(v="r", w="q"), int)


@pytest.mark.parametrize("name", OF_EACH_TYPE)
@pytest.mark.parametrize("one_of", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_type_gives_in_every_clause_what_its_ranks_give(name: str, one_of: int) -> None:
    compare(KINDS[name], clauses_of(name, one_of))


@pytest.mark.parametrize("name", [name for name in KINDS if name not in OF_EACH_TYPE])
@pytest.mark.parametrize(
    "clauses", [("select", "key of a group", "join"), pytest.param(tuple(NESTED | PLAIN), marks=pytest.mark.soak)],
    ids=["few", "every"],
)  # fmt: skip
def test_so_does_every_layout_of_it(name: str, clauses: tuple[str, ...]) -> None:
    kind = KINDS[name]
    compare(kind, [clause for clause in clauses if clause in NESTED or not kind.is_nested])


@pytest.mark.parametrize("name", [name for name in HOLDERS if name in OF_EACH_TYPE])
def test_what_cannot_be_compared_is_refused_where_it_stands(name: str) -> None:
    session = declared(KINDS[name], "v")
    for clause, query in PLAIN.items():
        if clause == "versions":
            continue
        with pytest.raises(wm.errors.SqlError, match=r"\[\]|STRUCT|MAP") as told:
            session.sql(query.format(v="v", w="w"))
        assert told.value.span is not None, clause
    with pytest.raises(wm.errors.CatalogError, match="nested"):
        session.table("n", stream(KINDS[name], [0, 1]), key="v", time="ts")


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_type_that_no_query_reads_is_refused_where_its_stream_is_declared(name: str) -> None:
    kind = UNKNOWN[name]
    rows = stream(kind, OF_A)
    for declare in (
        lambda: wm.Session().stream("a", rows, time="ts"),
        lambda: wm.Session().stream("a", schema=rows.schema, time="ts"),
        lambda: wm.Session().table("a", rows),
    ):
        with pytest.raises(wm.errors.CatalogError) as told:
            declare()
        assert f"'a' has the Arrow type {kind.type}, which queries cannot read" in told.value.message
        assert "column 'v'" in told.value.message
    session = wm.Session()
    session.stream("a", rows.drop_columns(["v", "w"]), time="ts")
    assert session.sql("SELECT id FROM a").to_arrow().num_rows == len(OF_A)


def test_columns_of_the_many_types_that_one_value_may_have_are_compared() -> None:
    """A new column is seldom written by who wrote the old one."""
    alike = ("string", "large_string", "string_view", "dictionary of text", "run-end encoded text")
    for left in alike:
        for right in alike:
            session = wm.Session()
            session.stream("a", stream(KINDS[left], OF_A), time="ts")
            session.stream("b", stream(KINDS[right], OF_B), time="ts")
            join = "SELECT a.id, b.id AS other FROM a, b WHERE a.{v} = b.{v} WINDOW = 1 HOUR"
            assert answer(session, join.format(v="v"), int) == answer(session, join.format(v="r"), int)
