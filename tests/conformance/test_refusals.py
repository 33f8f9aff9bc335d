"""Every refusal that the random tests expect, once on purpose: the query is refused in those words, and only so."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from tests.conformance import refusals
from tests.conformance.refusals import refusal
from tests.runners import Source, bound_plan
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.plan.query import Plan
from watersmeet.runtime.build import build

ROWS = pa.table({"k": pa.array([], pa.int64()), "x": pa.array([], pa.int64()), "ts": pa.array([], pa.timestamp("us"))})
SOURCES = [*(Source(name, ROWS) for name in "abc"), Source("dim", ROWS.drop_columns("ts"), time=None)]
KEYED = "a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 1 SECOND"
PAIRS = "a, b, c WHERE a.k = b.k AND b.x = c.x WINDOW = 1 SECOND"
TABLE = "a, b, dim WHERE a.k = b.k AND a.k = dim.k WINDOW (a, b) = 1 SECOND"
REFUSED = [
    (refusals.NO_KEY, "a, b WHERE a.k < b.k WINDOW = 1 SECOND", "join = 'hash'"),
    (refusals.NO_KEY, PAIRS, "join = 'hash', order = 'a, c, b'"),
    (refusals.NO_KEY, PAIRS, "join = 'hash', order = 'a: a,b,c; b: b,c,a; c: c,a,b'"),
    (refusals.NOT_CONNECTED, "a, b, c WHERE a.k = b.k WINDOW = 1 SECOND", "join = 'hw'"),
    (refusals.NOT_CONNECTED, "a, b WHERE a.k <= b.k WINDOW = 1 SECOND", "join = 'xjoin'"),
    (refusals.TABLE_IN_PIPELINE, TABLE, "join = 'hw'"),
    (refusals.TABLE_IN_PIPELINE, TABLE, "join = 'nlw'"),
    (refusals.TABLE_IN_MERGE, TABLE, "join = 'merge'"),
    (refusals.ROWS_IN_MERGE, "a [ROWS 3], b [RANGE 1 SECOND] WHERE a.k = b.k", "join = 'merge'"),
    (refusals.ENDLESS_MERGE, "a [UNBOUNDED], b [RANGE 1 SECOND] WHERE a.k = b.k", "join = 'merge'"),
]
ANSWERED = [
    (KEYED, "join = 'hash', order = 'a, c, b'"), (PAIRS, "join = 'hash'"), (PAIRS, "join = 'hash', order = 'b, a, c'"),
    (PAIRS, "join = 'hw'"), (TABLE, "join = 'hash', order = 'a, b'"), (TABLE, "join = 'w_join'"),
    (KEYED, "join = 'merge'"),
]  # fmt: skip


def asked(sources: str, options: str) -> Plan:
    return bound_plan(f"SELECT a.k AS k FROM {sources} OPTIONS ({options})", SOURCES)


@pytest.mark.parametrize(("why", "sources", "options"), REFUSED)
def test_what_is_refused_is_refused_in_the_words_that_are_expected(why: str, sources: str, options: str) -> None:
    plan = asked(sources, options)
    assert refusal(plan, options) == why
    with pytest.raises((OptionError, UnsupportedError), match=re.escape(why)):
        build(plan)


@pytest.mark.parametrize(("sources", "options"), ANSWERED)
def test_what_is_not_refused_is_built(sources: str, options: str) -> None:
    plan = asked(sources, options)
    assert refusal(plan, options) is None
    build(plan)


def test_no_refusal_is_expected_that_never_comes() -> None:
    assert {why for why, _, _ in REFUSED} == set(refusals.ALL)
