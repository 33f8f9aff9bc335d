"""What a plan means, as recorded: checkpoints and archives are known by it, so that it must not change by the way."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from tests.plans import FOLDER, golden_catalog
from watersmeet.model.arrival import Arrival
from watersmeet.model.catalog import Catalog, Statistics, Stream, Table
from watersmeet.model.side_sink import SideSink
from watersmeet.model.time_reading import TimeReading
from watersmeet.model.windows import Bound, Window
from watersmeet.plan.expressions import Expression
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.nodes import Derived, Input, Node, SortKey, View
from watersmeet.plan.options import names_for
from watersmeet.sql import bind

CATALOG = golden_catalog()
QUERIES = sorted(FOLDER.glob("identity_*.sql"))
# Set to rewrite the golden texts; the diff is then for review.
REWRITE = bool(os.environ.get("WATERSMEET_REWRITE"))
KINDS = (*get_args(Node), *get_args(Expression), *get_args(Window), Stream, Table, Derived, View, Input, SortKey, Bound)
JOIN = "SELECT a.x, b.x AS y FROM a, b WHERE a.k = b.k AND a.x < b.x WINDOW = 1 SECOND"
COUNTS = (
    "SELECT a.k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] WHERE a.x > 1 AND a.s = 'y' GROUP BY a.k HAVING COUNT(*) > 1"
)


def identity(sql: str, catalog: Catalog = CATALOG) -> str:
    return identity_of(bind(sql, catalog))


def name_of(path: Path) -> str:
    return path.stem.removeprefix("identity_")


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_a_plan_has_the_identity_that_is_recorded(path: Path) -> None:
    found = identity(path.read_text())
    golden = path.with_suffix(".txt")
    if REWRITE:
        golden.write_text(found)
    assert found == golden.read_text()


def test_the_recorded_queries_differ_in_meaning_but_for_what_they_may_keep() -> None:
    by_identity: dict[str, list[str]] = {}
    for path in QUERIES:
        by_identity.setdefault(identity(path.read_text()), []).append(name_of(path))
    assert [names for names in by_identity.values() if len(names) > 1] == [["bounded_memory", "join"]]


def test_the_recorded_queries_are_of_every_kind() -> None:
    """A new kind of node, expression or window gets a word of its own, and a query here."""
    texts = "".join(path.with_suffix(".txt").read_text() for path in QUERIES)
    words = ["select", "join,", "group by", "distinct\n", "union all", "except\n", "first 3 by", "rstream", "view",
             "event_time()", "within", "[range", "[rows", "[unbounded]", "half_open", "count(distinct"]  # fmt: skip
    assert [word for word in words if word not in texts] == []


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_names_of_classes_are_no_part_of_an_identity(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(path.read_text())
    names = {kind: (kind.__name__, kind.__qualname__) for kind in KINDS}
    try:
        for number, kind in enumerate(KINDS):
            kind.__name__ = kind.__qualname__ = f"Renamed{number}"
            monkeypatch.setattr(kind, "__repr__", lambda _: "something else")
        after = identity(path.read_text())
    finally:
        for kind, (name, qualified) in names.items():
            kind.__name__, kind.__qualname__ = name, qualified
    assert after == before


@pytest.mark.parametrize(
    "other",
    [
        "select A.x,B.x as y from A,B where A.k=B.k and A.x<B.x window=1000 milliseconds -- the same",
        JOIN.replace("a.k = b.k AND a.x < b.x", "a.x < b.x AND a.k = b.k"),
        JOIN.replace("a.k = b.k", "b.k = a.k").replace("a.x < b.x", "b.x > a.x"),
        JOIN.replace("a.k = b.k", "a.k = b.k AND a.k = b.k"),
        JOIN.replace("WINDOW =", "WINDOW (a, b) ="),
        JOIN.replace("WINDOW = 1 SECOND", "WINDOW (b, a) = 1 SECOND AND WINDOW = 1 MINUTE"),
        JOIN.replace(" WINDOW = 1 SECOND", " AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 1 SECOND"),
        *(f"{JOIN} OPTIONS ({options})" for options in (
            "join = 'hash', buckets = 'a:5, b:7'", "join = 'nested_loop', refresh = '5 seconds'", "order = 'b, a'",
            "memory = '10 rows', shed = 'life', archive = 'here'", "memory = '10 rows', max_lag = '1 second'",
        )),
    ],
)  # fmt: skip
def test_how_a_join_is_written_and_run_is_no_part_of_its_identity(other: str) -> None:
    assert identity(other) == identity(JOIN)


@pytest.mark.parametrize(
    "other",
    [
        COUNTS.replace("a.x > 1 AND a.s = 'y'", "'y' = a.s AND 1 < a.x"),
        COUNTS.replace("a.k, COUNT", "k, COUNT").replace("GROUP BY a.k", "GROUP BY K"),
        COUNTS.replace("3 SECONDS", "3000 MILLISECONDS"),
        COUNTS + " OPTIONS (pipeline = 'nta')",
    ],
)
def test_how_a_changing_answer_is_written_and_run_is_no_part_of_its_identity(other: str) -> None:
    assert identity(other) == identity(COUNTS)


def test_conditions_within_conditions_have_no_order() -> None:
    sql = "SELECT a.k FROM a WHERE NOT (a.x = 1 OR (a.x = 2 AND a.k = 3) OR a.k = 4)"
    assert identity(sql) == identity(
        sql.replace("a.x = 1 OR (a.x = 2 AND a.k = 3)", "(3 = a.k AND a.x = 2) OR a.x = 1")
    )
    assert identity(sql) != identity(sql.replace("a.x = 1 OR (a.x = 2 AND a.k = 3)", "a.x = 1 OR a.x = 2 OR a.k = 3"))


HINTS = {
    "statistics": {"statistics": Statistics(rows_per_second=77.0, rows=12, distinct={"k": 5.0})},
    "lateness_us": {"lateness_us": 5_000_000},
    "source": {"source": object()},
    "arrival": {"arrival": Arrival(idle_us=5_000_000)},
    "rounding": {"rounding": "down"},
    "reading": {"reading": TimeReading("ts", unit="ms")},
    "bad_to": {"bad_to": SideSink("bad")},
    "late_to": {"late_to": SideSink("late")},
    "is_pushed": {"is_pushed": True},
}


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_what_is_known_of_a_stream_is_no_part_of_an_identity(path: Path, hint: str) -> None:
    catalog = Catalog()
    for name in CATALOG.names():
        found = CATALOG.find(name)
        assert found is not None
        catalog.add(replace(found, **HINTS[hint]) if isinstance(found, Stream) else found)
    assert identity(path.read_text(), catalog) == identity(path.read_text())


def test_every_field_of_a_stream_is_a_hint_or_part_of_the_identity() -> None:
    """A new field must be put on one side or the other."""
    known = {*HINTS, "name", "schema", "time", "versions", "arrivals", "first"}
    assert {field.name for field in fields(Stream)} == known


@pytest.mark.parametrize(
    "other",
    [
        JOIN.replace("AS y", "AS z"),
        JOIN.replace("AS y", "AS Y"),
        JOIN.replace("a.x, b.x AS y", "b.x AS y, a.x"),
        JOIN.replace("1 SECOND", "2 SECONDS"),
        JOIN.replace("WINDOW =", "DWINDOW (a, b) ="),
        JOIN.replace("a.x < b.x", "a.x <= b.x"),
        JOIN.replace("a.x < b.x", "b.x < a.x"),
        JOIN.replace("FROM a, b", "FROM b, a"),
        JOIN.replace("FROM a, b", "FROM a, c AS b"),
        JOIN.replace("SELECT", "SELECT DISTINCT").replace("FROM a, b", "FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND]"),
    ],
)
def test_another_question_has_another_identity(other: str) -> None:
    assert identity(other) != identity(JOIN)


TUMBLED = "SELECT k, window_end, COUNT(*) AS n FROM TUMBLE(a, 9 SECONDS) GROUP BY k, window_start, window_end"
MEANING = {"boundary": (JOIN, "half_open"), "timezone": (JOIN, "Europe/Paris"), "emit": (TUMBLED, "changes")}


@pytest.mark.parametrize("option", names_for("meaning"))
def test_an_option_that_changes_the_meaning_changes_the_identity(option: str) -> None:
    assert option in MEANING, f"name a query whose meaning {option} changes, as checkpoints must tell them apart"
    sql, value = MEANING[option]
    assert identity(f"{sql} OPTIONS ({option} = '{value}')") != identity(sql)


def test_constants_of_different_types_are_told_apart() -> None:
    constants = ["1", "1.5", "'1'", "CAST(NULL AS INT)", "TRUE",
                 "'true'", "DATE '2024-05-01'", "TIMESTAMP '2024-05-01'",
                 "INTERVAL 1 SECOND", "CAST(1 AS INT)", "CAST(1 AS BIGINT) + 0",
                 "'a\"b'", "'a\\b'", "1e300"]  # fmt: skip
    found = [identity(f"SELECT {constant} AS x FROM a") for constant in constants]
    assert len(set(found)) == len(constants)


def test_the_sum_is_recorded_too() -> None:
    """It is what stands in checkpoints and archives."""
    assert sum_of(identity(JOIN)) == "3933c387df67e0b763c784d12001ac02"
