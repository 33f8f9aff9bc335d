"""How two queries differ is told in words: what was, and what is; and the rule says what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

import watersmeet as wm
from watersmeet.plan.difference import differences
from watersmeet.plan.identity import identity_of
from watersmeet.plan.query import Plan
from watersmeet.runtime.changes import Held, changes, verdict_of, with_new_columns

JOIN = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 5 MINUTES"
GROUPS = "SELECT k, COUNT(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k"


def plan_of(query: str, **more: Any) -> Plan:
    session = wm.Session()
    session.stream("a", schema={"id": "BIGINT", "k": "BIGINT", **more, "ts": "TIMESTAMP"}, time="ts")
    session.stream("b", schema={"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    return session.sql(query).plan


def told(was: str, now: str) -> list[str]:
    return [str(one) for one in differences(identity_of(plan_of(was)), identity_of(plan_of(now)))]


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (JOIN, JOIN.replace("a.k = b.k", "b.k = a.k"), []),
        (
            JOIN,
            JOIN.replace("5 M", "8 M"),
            [
                "window wider: a at most 5 min after b, b at most 5 min after a; "
                "now a at most 8 min after b, b at most 8 min after a"
            ],
        ),
        (
            JOIN,
            JOIN.replace("WINDOW", "DWINDOW (a, b)"),
            ["window narrower: a at most 5 min after b; now a not after b"],
        ),
        (
            JOIN,
            JOIN.replace("a.id AS x, b.id AS y", "b.id AS y, a.id AS x, a.k"),
            ["column added: k = a.k", "order of columns: x, y; now y, x"],
        ),
        (JOIN, JOIN.replace(", b.id AS y", ""), ["column dropped: y = b.id"]),
        (JOIN, JOIN.replace("b.id AS y", "a.k AS y"), ["column changed: y = b.id; now a.k"]),
        (JOIN, JOIN.replace("WHERE", "WHERE a.id > 3 AND"), ["condition added: where lt(3::int64, a.id)"]),
        (GROUPS, GROUPS.replace("1 M", "2 M"), ["window wider: a [range 1 min]; now a [range 2 min]"]),
        (GROUPS, GROUPS.replace("[RANGE 1 MINUTE]", "[ROWS 9]"), ["window changed: a [range 1 min]; now a [rows 9]"]),
        (GROUPS, f"{GROUPS} HAVING COUNT(*) > 2", ["condition added: having lt(2::int64, count()::int64)"]),
        (
            GROUPS,
            GROUPS.replace("GROUP BY k", "GROUP BY k, id"),
            ["query changed: group by a.k; now group by a.k, a.id"],
        ),
        (
            GROUPS,
            f"{GROUPS} OPTIONS (timezone = 'Europe/Berlin')",
            ["query changed: timezone UTC; now timezone Europe/Berlin"],
        ),
    ],
)
def test_what_has_changed_is_told_in_words(was: str, now: str, expected: list[str]) -> None:
    assert told(was, now) == expected


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [
        (JOIN, f"{JOIN} OPTIONS (threads = 2)", "goes on"),
        (JOIN, JOIN.replace("5 M", "3 M"), "replace"),
        (JOIN, f"{JOIN} OPTIONS (memory = '100 rows')", "replace"),
        (JOIN, GROUPS, "refused"),
        (GROUPS, GROUPS.replace("COUNT(*) AS n", "COUNT(*) AS n, MAX(id) AS most"), "refused"),
        (GROUPS, GROUPS.replace("1 M", "2 M"), "replace"),
    ],
)
def test_the_rule_says_what_becomes_of_it(was: str, now: str, verdict: str) -> None:
    assert verdict_of(changes(Held.of(plan_of(was)), plan_of(now))) == verdict


@pytest.mark.parametrize(
    ("query", "verdict"),
    [(JOIN, "goes on"), (JOIN.replace("a.id AS x", "a.note AS x"), "refused"), ("SELECT * FROM a", "refused")],
)
def test_a_column_of_a_stream_matters_to_who_looks_at_it(query: str, verdict: str) -> None:
    held = Held.of(plan_of(query.replace("a.note", "a.id")))
    found = changes(held, plan_of(query, note="VARCHAR"))
    assert verdict_of(found) == verdict
    assert with_new_columns(found) == {"a"}


def test_a_column_of_another_type_is_refused_with_both() -> None:
    held = Held.of(plan_of(JOIN, note="DECIMAL(10, 2)"))
    (one,) = changes(held, plan_of(JOIN, note="DECIMAL(10, 3)"))
    assert (one.was, one.now) == ("note decimal128(10, 2) of a", "note decimal128(10, 3) of a")
    assert one.verdict == "refused"
