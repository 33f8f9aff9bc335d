"""The papers' join algorithms inside the stateful stage: micro-batches, warm copies and crashes change no answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.methods import methods, streams_and_tables, with_options
from tests.conformance.test_random_queries import answers, instead_of
from tests.properties.strategies import cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import Source, bag_of, bound_plan, by_reference
from tests.spark.harness import cut, expected_of, with_sentinels
from tests.spark.pieces import splits
from tests.spark.simulation import LOSSES, Pieces, Simulation, another_node, reports_in
from tests.spark.test_processor import disordered, few
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.stateless import stateless_answer
from watersmeet.hosts.spark.host import partitioning_text
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.hosts.spark.packets import to_packet
from watersmeet.papers.joins.contract import Work

TIMED = """SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
           WHERE a.x = b.x AND b.x = c.x WINDOW = 4 SECONDS OPTIONS ({})"""
COUNTED = """SELECT a.id AS a, b.id AS b, c.id AS c FROM a [ROWS 6], b [RANGE 3 SECONDS], c [PARTITION BY x ROWS 2]
             WHERE a.x = b.x AND b.x = c.x OPTIONS ({})"""
METHODS = [
    "join = 'nested_loop'",
    "join = 'hash', buckets = 3",
    "join = 'hash', buckets = 3, refresh = '2 seconds'",
    "join = 'nested_loop', refresh = '1 hour', order = 'a: b,a,c; b: c,a,b; c: a,b,c'",
]

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def six_batches() -> tuple[list[Source], Pieces, Pieces]:
    """The streams in pieces, and the same with a row that ends each, as rows wait for the watermark."""
    sources = disordered(0)
    pieces: Pieces = {source.name: cut(source.table, [3, 6, 2, 5]) for source in sources}
    return sources, pieces, with_sentinels(sources, pieces)


@pytest.mark.parametrize("options", METHODS)
@pytest.mark.parametrize("query", [TIMED, COUNTED], ids=["time", "rows"])
def test_micro_batches_add_up_to_the_answer(query: str, options: str) -> None:
    sources, pieces, ended = six_batches()
    sql = query.format(options)
    expected = expected_of(sql, sources, pieces)
    assert expected
    assert Simulation(sql, sources, 2).run(ended) == expected
    assert Simulation(sql, sources, 2, between_batches=another_node).run(ended) == expected
    for lost in LOSSES.values():
        assert Simulation(sql, sources, 2, range(5, 400, 31), after_crash=lost).run(ended) == expected


@pytest.mark.parametrize("join", ["w_join", "nlw", "hw', turns = 'round_robin"])
def test_what_needs_no_order_is_answered_in_its_batch_though_a_stream_is_silent(join: str) -> None:
    sources, pieces, _ = six_batches()
    pieces = {**pieces, "c": pieces["c"][:1]}  # nothing comes of c after the first batch
    sql = TIMED.format(f"join = '{join}'")
    expected = expected_of(sql, sources, pieces)
    assert expected
    run = Simulation(sql, sources, 2, between_batches=another_node)
    assert not run.job.waits
    assert run.run(pieces) == expected
    for lost in LOSSES.values():
        assert Simulation(sql, sources, 2, range(5, 400, 31), after_crash=lost).run(pieces) == expected


def test_the_work_of_all_buckets_is_told() -> None:
    sources, pieces, _ = six_batches()
    run = Simulation(TIMED.format("join = 'hash', buckets = 3"), sources, 2, between_batches=another_node)
    found = run.run(pieces)
    texts = reports_in(run.frames)
    work = [told["work"] for told in map(json.loads, texts) if "work" in told]  # buckets also tell what waits
    assert sum(one["results"] for one in work) == found.total() > 0
    assert sum(one["inserted"] for one in work) == run.counted("stored_rows") > 0
    assert sum(one["attribute_comparisons"] for one in work) > 0
    assert all(set(one) == set(Work().as_dict()) for one in work)


def test_a_refresh_on_spark_is_the_trigger_and_the_plan_says_so() -> None:
    sources, _, _ = six_batches()
    lazy = job_of(bound_plan(TIMED.format("refresh = '2 seconds'"), sources), {}, 2)
    eager = job_of(bound_plan(TIMED.format("join = 'hash'"), sources), {}, 2)
    assert "joined at every trigger" in partitioning_text(lazy)
    assert "trigger" not in partitioning_text(eager)


def test_a_stream_that_joins_only_static_tables_needs_no_state() -> None:
    (stream, *_), _, _ = six_batches()
    table = Source("t", pa.table({"x": [0, 1, 1], "name": ["no", "one", "uno"]}), time=None)
    sql = "SELECT a.id, t.name FROM a, t WHERE a.x = t.x OPTIONS (join = 'hash', refresh = '2 seconds')"
    plan = bound_plan(sql, [stream, table])
    job = job_of(plan, {"t": to_packet(table.table.to_batches(), table.table.schema)}, 2)
    found = pa.Table.from_batches(stateless_answer(job)(iter(stream.table.to_batches(5))))
    in_time = [Source("a", stream.table, "ts", "1 hour"), table]  # here Spark has seen to late rows
    assert bag_of(found) == by_reference(sql, in_time)


@few
@given(cases(most_streams=3, least_streams=2), st.data())
def test_random_queries_under_random_algorithms_survive_random_crashes(case, data):
    refuse_contradictions(case)
    streams, tables = streams_and_tables(case)
    asked = data.draw(methods(streams, tables))
    asked = asked if answers(case, asked) else instead_of(asked)
    sql = with_options(case, asked).sql
    pieces = data.draw(splits(case))
    crash_at = data.draw(st.lists(st.integers(1, 120), max_size=4))
    lost = data.draw(st.sampled_from(list(LOSSES.values())))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(memory_folder.WARM_DIR, folder)
        warm_state._at_hand.clear()
        run = Simulation(sql, case.sources, data.draw(st.sampled_from([1, 2, 4])), crash_at, after_crash=lost)
        # Where nothing waits for the watermark, sentinels would meet each other.
        answer = run.run(with_sentinels(case.sources, pieces) if run.job.waits else pieces)
    assert answer == expected_of(sql, case.sources, pieces)
