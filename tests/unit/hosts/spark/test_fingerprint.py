"""A checkpoint belongs to what a query asks: not to what is known of its inputs, nor to how it is spelt."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from watersmeet.model.catalog import Catalog, Statistics, Stream, Table
from watersmeet.plan.query import Plan
from watersmeet.sql import bind

pytest.importorskip("pyspark")
from watersmeet.archive.description import fingerprint_of as archive_fingerprint
from watersmeet.hosts.spark.checkpoints.checkpoint import Owner
from watersmeet.hosts.spark.jobs.fingerprint import STATE_FORMAT, refusal
from watersmeet.hosts.spark.jobs.kinds import job_of

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.timestamp("us"))])
PLAIN = Stream("a", SCHEMA, "ts")
JOIN = "SELECT a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
COUNTS = "SELECT a.k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY a.k"
JOINED = """SELECT a.k, SUM(b.x) AS s FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS], names n
WHERE a.k = b.k AND a.x = n.x GROUP BY a.k HAVING COUNT(*) > 1"""
VIEWS = "SELECT DISTINCT d.k FROM (SELECT k, MAX(x) AS x FROM a [RANGE 1 MINUTE] GROUP BY k) d"
SETS = "SELECT k FROM a [RANGE 1 SECOND] EXCEPT ALL SELECT k FROM b [RANGE 1 SECOND]"
QUERIES = {"join": JOIN, "counts": COUNTS, "joined": JOINED, "views": VIEWS, "sets": SETS}
HINTS = {
    "rate": {"statistics": Statistics(rows_per_second=77.0)},
    "rows": {"statistics": Statistics(rows=12)},
    "distinct": {"statistics": Statistics(distinct={"k": 5.0})},
    "lateness": {"lateness_us": 5_000_000},
    "source": {"source": object()},
}


def fingerprint(sql: str, stream: Stream = PLAIN) -> str:
    return job_of(plan(sql, stream), {}, 4).fingerprint


def plan(sql: str, stream: Stream = PLAIN) -> Plan:
    catalog = Catalog()
    for name in ("a", "b"):
        catalog.add(replace(stream, name=name))
    catalog.add(Table("names", pa.schema([("x", pa.int64())])))
    return bind(sql, catalog)


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("query", QUERIES)
def test_what_is_known_of_a_stream_leaves_the_checkpoint_its_own(query: str, hint: str) -> None:
    assert fingerprint(QUERIES[query], replace(PLAIN, **HINTS[hint])) == fingerprint(QUERIES[query])


@pytest.mark.parametrize(
    "other",
    [
        "select a.k,count( * ) as n from a [range 3 seconds] group by a.k",
        "SELECT A.k, COUNT(*) AS n FROM A [RANGE 3000 MILLISECONDS] GROUP BY A.k -- the same",
        "SELECT k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY k",
    ],
)
def test_spelling_leaves_the_checkpoint_its_own(other: str) -> None:
    assert fingerprint(other) == fingerprint(COUNTS)


@pytest.mark.parametrize(
    "other",
    [
        COUNTS.replace("3 SECONDS", "4 SECONDS"),
        COUNTS.replace("COUNT(*)", "SUM(a.x)"),
        COUNTS.replace("AS n", "AS m"),
        COUNTS.replace("a.k", "a.x"),
        COUNTS.replace("FROM a ", "FROM b a "),
        COUNTS.replace("GROUP BY", "WHERE a.x > 5 GROUP BY"),
        COUNTS + " HAVING COUNT(*) > 1",
        COUNTS.replace("SELECT", "SELECT ISTREAM"),
        COUNTS + " OPTIONS (boundary = 'half_open')",
    ],
)
def test_another_question_makes_another_checkpoint(other: str) -> None:
    assert fingerprint(other) != fingerprint(COUNTS)


def test_checkpoints_of_plain_joins_stay_valid_from_version_to_version() -> None:
    assert fingerprint(JOIN) == "6-dde794fc3fb5dd0d65bca64f4ac7b1d2"


def test_what_differs_from_the_owner_of_a_checkpoint_is_told() -> None:
    held = Owner.of(plan(JOIN), 4)
    assert Owner.of(plan(JOIN), 2).differs_from(held) == "was made with 4 buckets, and this run has 2"
    wider = replace(PLAIN, schema=SCHEMA.append(pa.field("z", pa.string())))
    assert "was made when 'a' had the columns k int64, x int64, " in Owner.of(plan(JOIN, wider), 4).differs_from(held)
    assert Owner.of(plan(COUNTS), 4).differs_from(held) == f"belongs to another query:\n{JOIN}"


@pytest.mark.parametrize(
    ("state", "format"), [("cd0384fadb90e95871fab7f770c58b13", "3 or before"), ("4-ab", "4"), ("99-ab", "99")]
)
def test_a_checkpoint_of_another_format_is_told_with_who_wrote_it(state: str, format: str) -> None:
    why, hint = refusal(state)
    assert why == f"holds state of format {format}, and this version of watersmeet reads format {STATE_FORMAT}"
    assert "the version of watersmeet that wrote it" in hint
    held = replace(Owner.of(plan(JOIN), 4), states=[state], version="9.8")
    assert Owner.of(plan(JOIN), 4).differs_from(held) == f"{why}, written by watersmeet 9.8"
    assert Owner.of(plan(JOIN), 2).differs_from(replace(held, version="")) == why


def test_what_a_bounded_join_may_keep_belongs_to_its_checkpoint_and_not_to_its_archive() -> None:
    bounded = [f"{JOIN} OPTIONS (memory = '{memory}', shed = '{policy}')"
               for memory, policy in [("10 rows", "prob"), ("20 rows", "prob"), ("10 rows", "life")]]  # fmt: skip
    assert len({fingerprint(JOIN), *map(fingerprint, bounded)}) == 4
    assert {archive_fingerprint(plan(sql)) for sql in bounded} == {archive_fingerprint(plan(JOIN))}


def test_every_stage_of_a_query_with_state_is_its_owner() -> None:
    assert Owner.of(plan(JOIN), 4).states == [fingerprint(JOIN)]
    assert len(Owner.of(plan("SELECT a.x, COUNT(*) AS n FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k "
                             "GROUP BY a.x"), 4).states) == 2  # fmt: skip
    assert Owner.of(plan("SELECT a.x FROM a WHERE a.k = 1"), 4).states == []
