"""Bucket ids land where Spark's hash says, and a grid brings the members of every combination together once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.plans import golden_catalog
from tests.properties.strategies import cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import Source, bound_plan
from watersmeet.hosts.spark.exchange.messages import MemoryNeeds, decode
from watersmeet.hosts.spark.exchange.pack import Packing
from watersmeet.hosts.spark.exchange.placement import Placement
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.ids import balanced_ids, guard_of, murmur3_of_int, slot_of
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import OWN, job_of
from watersmeet.hosts.spark.packets import from_packet
from watersmeet.model.catalog import Catalog, Statistics, Stream
from watersmeet.model.time import normalize_time_column, times_of
from watersmeet.operators.contract import Rows
from watersmeet.physical.nodes import SelectNode
from watersmeet.plan.nodes import Input
from watersmeet.sql import bind

INTS = [0, 1, 2, 7, 42, 1000, 65_536, 2**31 - 1, -1, -2, -(2**31), 123_456_789]
KEYED = "SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c WHERE {} WINDOW = 3 SECONDS"


def test_our_hash_is_sparks(spark):
    frame = spark.createDataFrame([(i,) for i in [*INTS, *range(500)]], "x int").selectExpr("x", "hash(x) AS h")
    assert {row.x: row.h for row in frame.collect()} == {i: murmur3_of_int(i) for i in [*INTS, *range(500)]}


@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 7, 8, 16, 60])
def test_ids_are_distinct_and_take_every_remainder_once(buckets):
    ids = balanced_ids(buckets)
    assert len(set(ids)) == buckets
    assert sorted(murmur3_of_int(i) % buckets for i in ids) == list(range(buckets))


def test_ids_are_fixed_because_checkpoints_hold_them():
    assert (balanced_ids(1), balanced_ids(2), balanced_ids(4)) == ([0], [2, 0], [12, 6, 2, 0])


def test_spark_gives_every_partition_as_many_buckets(spark):
    ids = balanced_ids(8)
    rows = spark.createDataFrame([(i,) for i in ids], "bucket int").repartition(4, "bucket")
    assert Counter(row.p for row in rows.selectExpr("spark_partition_id() AS p").collect()) == dict.fromkeys(
        range(4), 2
    )


# ---- the grid -------------------------------------------------------------------------------------------------------


def timed_rows(source: Source, one: Input, job: SparkJob) -> Rows:
    """A stream's rows with the columns the query needs, and each row's position."""
    schema = job.row_schema(one)
    table = source.table.select(schema.names).combine_chunks()
    data = table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], schema)
    return Rows(data, times_of(normalize_time_column(data.column(one.time))))


def whereabouts(source: Source, one: Input, job: SparkJob) -> dict[int, list[int]]:
    """The buckets in which each row takes part in joins, by its id."""
    found: dict[int, list[int]] = {}
    placing = Placement(job, one)
    for part in placing.parts(placing.placed(timed_rows(source, one, job))):
        own = part.rows.column(OWN).to_pylist() if OWN in part.rows.schema.names else [True] * part.rows.num_rows
        for i, mine in zip(part.rows.column("id").to_pylist(), own, strict=True):
            if mine:
                found.setdefault(i, []).append(part.bucket)
    return found


def equalities_hold(job: SparkJob, members: dict[str, dict[str, Any]]) -> bool:
    """Whether rows agree on the keys that the grid places them by, as rows of one combination do."""
    for dimension in job.partitioning.dimensions:
        values = {members[alias][getattr(code.expression, "name", "")] for alias, code in dimension.keys.items()}
        if len(values) > 1 or None in values:
            return False
    return True


def assert_each_combination_has_one_bucket(sql: str, sources: list[Source], buckets: int) -> SparkJob:
    job = job_of(bound_plan(sql, sources), {}, buckets)
    by_name = {source.name: source for source in sources}
    inputs = job.join.streams
    places = {one.alias: whereabouts(by_name[one.relation.name], one, job) for one in inputs}
    rows = {one.alias: by_name[one.relation.name].table.to_pylist() for one in inputs}
    for chosen in product(*(rows[one.alias] for one in inputs)):
        members = dict(zip((one.alias for one in inputs), chosen, strict=True))
        if equalities_hold(job, members):
            shared = [set(places[alias].get(row["id"], ())) for alias, row in members.items()]
            assert len(set.intersection(*shared)) == 1
    for one in inputs:
        assert all(len(set(at)) == len(at) == job.partitioning.copies(one.alias) for at in places[one.alias].values())
    return job


def keyed_streams(seed: int, rows: int = 12) -> list[Source]:
    random = np.random.default_rng(seed)

    def table() -> pa.Table:
        keys = {name: random.integers(0, 5, rows) for name in "xyz"}
        times = pa.array(np.sort(random.integers(0, 20_000_000, rows)), pa.timestamp("us"))
        return pa.table({"id": pa.array(range(rows), pa.int64()), "ts": times, **keys})

    return [Source(name, table()) for name in "abc"]


SHAPES = {
    "a common key": ("a.x = b.x AND b.x = c.x", 4),
    "another key per pair, a grid": ("a.x = b.x AND b.y = c.y", 4),
    "another key per pair, eight buckets": ("a.x = b.x AND b.y = c.y", 8),
    "a cycle of keys": ("a.x = b.x AND b.y = c.y AND c.z = a.z", 8),
    "one pair has a key": ("a.x = b.x", 6),
    "no equality": ("a.x < b.x AND b.y <> c.y", 6),
    "a prime number of buckets": ("a.x = b.x AND b.y = c.y", 5),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_combination_meets_in_exactly_one_bucket(shape, seed):
    condition, buckets = SHAPES[shape]
    job = assert_each_combination_has_one_bucket(KEYED.format(condition), keyed_streams(seed), buckets)
    assert job.partitioning.buckets == buckets


def test_a_common_key_needs_no_copies():
    job = job_of(bound_plan(KEYED.format("a.x = b.x AND b.x = c.x"), keyed_streams(0)), {}, 4)
    assert [job.partitioning.copies(alias) for alias in "abc"] == [1, 1, 1]


def test_different_keys_make_a_square_grid_of_four():
    job = job_of(bound_plan(KEYED.format("a.x = b.x AND b.y = c.y"), keyed_streams(0)), {}, 4)
    assert sorted(dimension.size for dimension in job.partitioning.dimensions) in ([2, 2], [4])
    assert job.partitioning.buckets == 4


@pytest.mark.parametrize("window", ["[ROWS 3]", "[PARTITION BY x ROWS 2]", "[PARTITION BY z ROWS 2]"])
def test_count_windows_keep_every_combination_in_one_bucket(window):
    sql = f"""SELECT a.id AS a, b.id AS b, c.id AS c FROM a {window}, b [RANGE 3 SECONDS], c [RANGE 3 SECONDS]
              WHERE a.x = b.x AND b.y = c.y"""
    assert_each_combination_has_one_bucket(sql, keyed_streams(5), 4)


COUNTS = {
    "weighed by key": ("", "a.x = b.x AND b.x = c.x", 4),
    "a grid": ("", "a.x = b.x AND b.y = c.y", 8),
    "fragments": ("", "a.x < b.x AND b.y <> c.y", 6),
    "rows that every bucket counts": ("[ROWS 3]", "a.x = b.x AND b.x = c.x", 4),
}


@pytest.mark.parametrize("name", COUNTS)
def test_all_buckets_are_told_how_many_rows_each_of_them_gets(name):
    window, condition, buckets = COUNTS[name]
    sql = f"""SELECT a.id AS a, b.id AS b, c.id AS c FROM a {window or "[RANGE 3 SECONDS]"}, b [RANGE 3 SECONDS],
              c [RANGE 3 SECONDS] WHERE {condition} OPTIONS (memory = '100 rows')"""
    sources = keyed_streams(6, rows=40)
    job = job_of(bound_plan(sql, sources), {}, buckets)
    assert job.sharing is not None
    for number, (one, source) in enumerate(zip(job.streams, sources, strict=True)):
        at = Counter(bucket for places in whereabouts(source, one, job).values() for bucket in places)
        batch = Packing(JobGroup((job,)), source.name).packets(source.table.to_batches(), 0).to_pandas()
        told = batch[batch["input"] == MemoryNeeds.kind]
        assert sorted(told["bucket"]) == sorted(job.bucket_ids)
        for payload in told["payload"]:
            came = decode(MemoryNeeds, payload).came
            by_bucket = came.counts.reshape(-1, buckets).sum(axis=0)
            assert (came.stream, came.rows) == (number, 40)
            assert by_bucket.tolist() == [at[bucket] for bucket in range(buckets)]


@random_cases(40)
@given(cases(most_streams=4), st.sampled_from([1, 2, 3, 4, 6, 8]))
def test_random_queries_have_a_partitioning_of_the_asked_size(case, buckets):
    refuse_contradictions(case)
    job = job_of(bound_plan(case.sql, case.sources), {}, buckets)
    assert job.partitioning.buckets in (1, buckets)
    assert len(job.bucket_ids) == job.partitioning.buckets


def test_hints_that_spread_rows_differently_make_another_checkpoint():
    """Where rows lie in the state follows from the grid, which may follow from rates."""

    def job(fast: str) -> SparkJob:
        catalog = Catalog()
        schema = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("ts", pa.timestamp("us"))])
        for name in "abc":
            rate = 1000.0 if name == fast else 1.0
            catalog.add(Stream(name, schema, "ts", statistics=Statistics(rows_per_second=rate)))
        sql = "SELECT a.x FROM a, b, c WHERE a.x = b.x AND b.y = c.y WINDOW = 1 SECOND"
        return job_of(bind(sql, catalog), {}, 2)

    assert job("a").partitioning != job("c").partitioning
    assert job("a").fingerprint != job("c").fingerprint
    assert job("a").fingerprint == job("a").fingerprint


def test_a_query_runs_without_state_only_if_its_operator_says_that_rows_are_answered_one_by_one(monkeypatch) -> None:
    """An operator that counts, in the place of one that selects, must not be made anew for every piece of a batch."""
    plan = bind("SELECT a.k FROM a WHERE a.x > 1", golden_catalog())
    assert job_of(plan, {}, 2).is_stateless
    assert len(job_of(plan, {}, 2).bucket_ids) == 2
    assert not type("Counting", (SelectNode,), {}, word="counting").row_by_row
    monkeypatch.setattr(SelectNode, "row_by_row", False)
    assert not job_of(plan, {}, 2).is_stateless
    assert len(job_of(plan, {}, 2).bucket_ids) == 1


# ---- several queries together ---------------------------------------------------------------------------------------


TOGETHER = [
    *(f"SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x AND a.y = {n} WINDOW = 3 SECONDS" for n in range(5)),
    *(f"SELECT id FROM a WHERE z IN ({n}, {n + 3})" for n in range(2)),
    *(f"SELECT y, COUNT(*) AS n FROM a [RANGE {n} SECONDS] GROUP BY y" for n in (2, 3)),
    "SELECT p.id AS p, q.id AS q FROM a AS p, a AS q WHERE p.x = q.y WINDOW = 2 SECONDS",
    "SELECT a.id AS a, b.id AS b FROM a [ROWS 3], b [ROWS 3] WHERE a.x = b.x",
    "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x = b.x WINDOW = 3 SECONDS OPTIONS (memory = '100 rows')",
]


@pytest.mark.parametrize("buckets", [1, 3])
def test_each_of_several_queries_gets_the_packets_that_it_gets_alone(buckets):
    """Those that ask for values too, of which there are enough for an index."""
    sources = keyed_streams(8, rows=200)
    jobs = [job_of(bound_plan(sql, sources), {}, buckets) for sql in TOGETHER]
    group = JobGroup(tuple(replace(job, slot=slot) for slot, job in enumerate(jobs)))
    for source in sources[:2]:
        batches = source.table.to_batches(max_chunksize=70)
        together = Packing(group, source.name).packets(batches, 5).to_pylist()
        for job in group.jobs:
            mine = [one for one in together if slot_of(one["bucket"]) == job.slot]
            alone = replace(job, slot=0)
            reads = any(one.relation.name == source.name for one in job.streams)
            its = Packing(JobGroup((alone,)), source.name).packets(batches, 5).to_pylist() if reads else []
            by_id = dict(zip(job.bucket_ids, alone.bucket_ids, strict=True)) | {job.guard: alone.guard}
            assert Counter(map(_read, its)) == Counter(_read({**one, "bucket": by_id[one["bucket"]]}) for one in mine)


def _read(packet: dict[str, Any]) -> tuple[object, ...]:
    payload = packet["payload"]
    if packet["input"] >= 0:
        payload = str([batch.to_pylist() for batch in from_packet(payload)])
    return packet["bucket"], packet["input"], packet["part"], packet["primary"], payload


def test_slots_share_no_ids():
    keys = [key for slot in range(50) for key in (*balanced_ids(64, slot), guard_of(slot))]
    assert len(set(keys)) == len(keys)
    assert [slot_of(key) for key in keys] == [slot for slot in range(50) for _ in range(65)]
