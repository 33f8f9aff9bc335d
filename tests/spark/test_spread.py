"""Keys that are spread over buckets: the answer, what is counted, and what moves are those of one bucket."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.durable.test_savepoints import Answers, answered, push, session
from tests.effort import random_cases
from tests.properties.outer_strategies import OuterCase, asof_cases, outer_cases
from tests.properties.strategies import DOMAINS, Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import Source, bound_plan, by_duckdb, by_reference
from tests.spark.harness import by_spark_streaming, never_late
from tests.spark.pieces import splits
from tests.spark.simulation import LOSSES, Simulation, reports_in
from tests.spark.test_continuous import UNSHRUNK
from tests.spark.test_moves import Leg, in_buckets
from watersmeet.errors import OptionError
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.processor import OUTPUT_BYTES
from watersmeet.hosts.spark.host import partitioning_text
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import in_stages, job_of
from watersmeet.hosts.spark.progress.skew import skew_text
from watersmeet.operators.join.program import OUTPUT_ROWS
from watersmeet.plan.query import Plan
from watersmeet.plan.spread import Spread
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.skew import LEAST_WORK
from watersmeet.runtime.skew import fullest as fullest_of

few = random_cases(40, phases=UNSHRUNK)
PAIR = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
TEXTS = {column: [str(value) for value in dict.fromkeys(DOMAINS[column]) if value is not None] for column in "kjs"}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def skewed(seed: int, rows: int = 300, others: int = 20, share: float = 0.5) -> pa.Table:
    """Half of the rows have one key, unless it is said."""
    random = np.random.default_rng(seed)
    keys = np.where(random.random(rows) < share, 17, random.integers(0, others, rows))
    times = np.sort(random.integers(0, 20_000_000, rows))
    return pa.table({"id": np.arange(rows), "k": keys, "ts": pa.array(times, pa.timestamp("us"))})


def sources(names: str = "ab") -> list[Source]:
    return [Source(name, skewed(seed), "ts") for seed, name in enumerate(names)]


def in_pieces(source: Source, pieces: int = 6) -> list[pa.Table]:
    edges = np.linspace(0, len(source.table), pieces + 1).astype(int)
    return [source.table.slice(start, end - start) for start, end in pairwise(edges)]


def run(sql: str, over: Sequence[Source], buckets: int) -> Simulation:
    made = Simulation(sql, over, buckets)
    made.run({source.name: in_pieces(source) for source in over})
    return made


# ---- placement ------------------------------------------------------------------------------------------------------


def fullest(simulation: Simulation) -> float:
    """How many rows of the split stream came to the fullest bucket, by how many to each in the mean."""
    batches = simulation.admitted["a"]
    by_bucket = Counter[int]()
    for number, batch in enumerate(batches):
        by_bucket[number % simulation.job.partitioning.buckets] += batch.num_rows
    return max(by_bucket.values()) * simulation.job.partitioning.buckets / sum(by_bucket.values())


@pytest.mark.parametrize("buckets", [2, 3, 4])
def test_a_spread_key_gives_no_bucket_more_than_its_share(buckets: int) -> None:
    over = [Source(name, skewed(seed, 3000, 1000), "ts") for seed, name in enumerate("ab")]
    assert fullest(run(PAIR, over, buckets)) > 1.4
    assert fullest(run(f"{PAIR} OPTIONS (spread = 'a: 17')", over, buckets)) < 1.2


@pytest.mark.parametrize("spread", ["17", "b: 17, 3", '"5", 17, 17, 1000'])
@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_the_answer_and_what_is_counted_are_those_of_one_bucket(spread: str, buckets: int) -> None:
    """Rows that come in, and are kept, once, whatever copies of them there are."""
    alone, spread_out = run(PAIR, sources(), 1), run(f"{PAIR} OPTIONS (spread = '{spread}')", sources(), buckets)
    assert spread_out.answer() == alone.answer() == by_duckdb(PAIR, sources())
    for name in ("rows_in", "stored_rows", "expired_rows", "results", "late_rows"):
        assert spread_out.counted(name) == alone.counted(name)
    assert kept(spread_out) == kept(alone)


THETA = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k < b.k WINDOW = 1 SECOND"


def test_rows_of_a_join_without_an_equality_are_dealt_out_anyway_and_counted_once() -> None:
    alone, in_four = run(THETA, sources(), 1), run(THETA, sources(), 4)
    assert partitioning_text(in_four.job).splitlines()[:3] == [
        "on Spark: 4 buckets (no equality: fragments of one stream meet copies of the others)",
        "  grid: 2 fragments of a x 2 fragments of b",
        "  copies: a x2, b x2",
    ]
    assert in_four.answer() == alone.answer() == by_duckdb(THETA, sources())
    for name in ("stored_rows", "expired_rows", "results"):
        assert in_four.counted(name) == alone.counted(name)
    assert kept(in_four) == kept(alone)
    assert fullest_of(told_by(in_four)) is None


@pytest.mark.parametrize("buckets", [2, 4, 6])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_skewed_join_without_an_equality_is_even_over_its_grid(share: float, buckets: int) -> None:
    """One value that half of all rows have, or nearly all, is met or not wherever its rows lie."""
    over = [Source(name, skewed(seed, 2000, 1000, share), "ts") for seed, name in enumerate("ab")]
    found = run(THETA.replace("<", "<="), over, buckets)
    work = told_by(found).work_by_bucket
    assert sum(work.values()) > LEAST_WORK
    assert len(work) == found.job.partitioning.buckets == buckets
    assert max(work.values()) < 1.15 * sum(work.values()) / buckets


def test_rows_windows_of_all_keys_are_counted_everywhere_and_their_rows_joined_in_one_bucket_each() -> None:
    sql = "SELECT a.id AS x, b.id AS y FROM a [ROWS 50], b [ROWS 50] WHERE a.k <= b.k"
    over = [Source(name, skewed(seed, 1000), "ts") for seed, name in enumerate("ab")]
    alone, found = run(sql, over, 1), run(sql, over, 4)
    assert found.job.partitioning.announced == ("a", "b")
    assert found.answer() == alone.answer()
    refused = job(f"{sql} OPTIONS (spread = '17')", "ab")
    with pytest.raises(OptionError, match="no key says where rows lie, so that they are spread anyway"):
        _ = refused.partitioning


def kept(simulation: Simulation) -> Counter[str]:
    """The rows that all buckets hold, by window and together."""
    found = Counter[str]()
    for report in simulation.reports().values():
        found.update({"kept": report["kept_rows"], "windows": report.get("window_rows", 0)})
        found.update(report.get("window_rows_by_input", {}))
    return found


def test_late_rows_of_a_spread_key_are_counted_once() -> None:
    late = pa.concat_tables([skewed(0), skewed(0).slice(0, 40)])
    over = [Source("a", late, "ts"), Source("b", pa.concat_tables([skewed(1), skewed(1).slice(0, 40)]), "ts")]
    alone, spread = run(PAIR, over, 1), run(f"{PAIR} OPTIONS (spread = '17')", over, 4)
    assert spread.counted("late_rows") == alone.counted("late_rows") == 80
    assert spread.answer() == alone.answer()


def test_spark_gives_the_answer_of_duckdb_with_a_key_spread(spark, tmp_path: Path) -> None:
    pieces = {source.name: in_pieces(source) for source in sources()}
    found = by_spark_streaming(spark, f"{PAIR} OPTIONS (spread = 'b: 17')", sources(), pieces, tmp_path, 3)
    assert found == by_duckdb(PAIR, sources())


@few
@given(cases(), st.data())
def test_inner_joins_give_the_same_with_keys_spread_whatever_crashes(case: Case, data: st.DataObject) -> None:
    refuse_contradictions(case)
    plan = spread_plan(bound_plan(case.sql, never_late(case.sources)), data)
    assert crashing(plan, case, data).answer() == by_reference(case.sql, never_late(case.sources))


@few
@given(st.one_of(outer_cases(), asof_cases()), st.data())
def test_other_joins_give_the_same_with_keys_of_the_side_that_is_kept_spread(
    case: OuterCase, data: st.DataObject
) -> None:
    plan = spread_plan(bound_plan(case.sql, never_late(case.sources)), data)
    assert crashing(plan, case, data).answer() == by_reference(case.sql, never_late(case.sources))


def spread_plan(plan: Plan, data: st.DataObject) -> Plan:
    """The plan with some keys spread, if they can be."""
    keys = [key for one in job_of(plan, {}, 2).partitioning.dimensions for key in one.keys.values()]
    names = {getattr(key.expression, "name", "") for key in keys}
    assume(names and names <= {*TEXTS})
    values = data.draw(st.lists(st.sampled_from(TEXTS[min(names)]), min_size=1, unique=True))
    made = replace(plan, options=plan.options.but(spread=Spread(tuple(values))))
    try:
        assume(any(one.spread is not None for one in job_of(made, {}, 2).partitioning.dimensions))
    except OptionError:
        assume(False)
    return made


def crashing(plan: Plan, case: Case | OuterCase, data: st.DataObject) -> Simulation:
    """A run to the end of its streams whose worker dies now and then."""
    crash_at, lost = (
        data.draw(st.lists(st.integers(1, 120), max_size=4)),
        data.draw(st.sampled_from([*LOSSES.values()])),
    )
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(memory_folder.WARM_DIR, folder)
        warm_state._at_hand.clear()
        buckets = data.draw(st.sampled_from([2, 3, 4]))
        made = Simulation("", case.sources, buckets, crash_at, after_crash=lost, plan=plan)
        made.run(data.draw(splits(case)))
        made.batch({}, ended=sorted({one.relation.name for one in made.job.streams}))
    return made


# ---- savepoints -----------------------------------------------------------------------------------------------------

MOVED = {
    "join": "SELECT a.k, a.x, b.y FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE",
    "join by text": "SELECT a.k, a.x, b.y FROM a, b WHERE a.x = b.x DWINDOW (a, b) = 1 MINUTE",
    "outer join": "SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k "
    "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS",
    "as of": "SELECT a.k, a.x, b.y FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts",
}
KEYS = {"join by text": ("w0, w3", "w0", "a: w1, w2")}
LEGS: dict[str, Sequence[tuple[Leg, int | None]]] = {
    "spread, one place, spread otherwise": (
        ((4, range(35)), 0), ((0, range(35, 60)), None), ((3, range(60, 90)), 1), ((0, range(90, 120)), None),
    ),
    "one bucket, spread, several buckets, more keys": (
        ((1, range(40)), None), ((4, range(40, 60)), 2), ((4, range(60, 85)), None), ((4, range(85, 120)), 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("legs", LEGS)
@pytest.mark.parametrize("name", MOVED)
def test_a_run_with_spread_keys_moves_to_one_without_and_back(name: str, legs: str, tmp_path: Path) -> None:
    def query(spread: int | None):
        said = "" if spread is None else f" OPTIONS (spread = '{KEYS.get(name, ('0, 2', '1', 'a: 0'))[spread]}')"
        return session().sql(MOVED[name] + said)

    whole = answered(query(None), tmp_path / "whole", range(120))
    found, before = Answers(), None
    for number, ((buckets, numbers), spread) in enumerate(LEGS[legs]):
        after = tmp_path / f"savepoint-{number}"
        if buckets:
            in_buckets(query(spread), buckets, numbers, before, after, found)
        else:
            with query(spread).start(checkpoint=tmp_path / f"{number}", savepoint=before, on_answer=found) as run:
                push(run, query(spread), numbers)
                run.savepoint(after)
        before = after
    with query(0).start(checkpoint=tmp_path / "last", savepoint=before, on_answer=found) as run:
        run.flush()
    assert found.rows == whole


# ---- what is told while it runs -------------------------------------------------------------------------------------


def told_by(simulation: Simulation) -> Metrics:
    """As it adds up over buckets and batches."""
    metrics = Metrics(rows_by_stream={"a": 3000, "b": 3000})
    for report in map(json.loads, reports_in(simulation.frames)):
        metrics.add({name: report[name] for name in ("work_by_bucket", "rows_by_key") if name in report})
    metrics.window_rows_by_input = {"a": 300, "b": 310}
    return metrics


def test_a_run_tells_its_fullest_bucket_and_the_keys_that_would_be_spread() -> None:
    over = [Source(name, skewed(seed, 3000, 1000), "ts") for seed, name in enumerate("ab")]
    alone, spread = run(PAIR, over, 4), run(f"{PAIR} OPTIONS (spread = 'a: 17')", over, 4)
    metrics = told_by(alone)
    true = {f"{name}: 17": (source.table["k"].to_numpy() == 17).sum() for name, source in zip("ab", over, strict=True)}
    assert metrics.rows_by_key == {name: pytest.approx(rows, rel=0.05) for name, rows in true.items()}
    assert sum(metrics.work_by_bucket.values()) == 6000 + alone.counted("results")
    assert fullest_of(told_by(spread)) is None
    told = skew_text(alone.job.plan, metrics)
    assert told == (
        "fullest bucket: 4.0 times the mean of 4; keys with many rows: 17 (51% of b and 51% of a: a row of b meets "
        "about 153)\n  hint: begin it, or go on from a savepoint, with OPTIONS (spread = 'b: 17')"
    )


def test_where_rows_of_a_key_must_lie_together_that_is_said() -> None:
    over = [Source("a", skewed(0, 6000, 1000), "ts")]
    grouped = run("SELECT k, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k", over, 4)
    told = skew_text(grouped.job.plan, told_by(grouped))
    assert told is not None
    assert told.endswith(
        "they stay in one bucket: rows of a key are grouped or compared with each other, and must lie together"
    )


def test_a_full_join_stays_in_one_bucket_and_says_so() -> None:
    over = [Source(name, skewed(seed, 6000, 1000), "ts") for seed, name in enumerate("ab")]
    sql = "SELECT a.id AS x FROM a FULL JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MILLISECONDS"
    full = run(sql, over, 4)
    told = skew_text(full.job.plan, told_by(full))
    assert told is not None
    assert told.endswith(
        "they stay in one bucket: each stream has rows that are given without a partner, or are known by their keys, "
        "and must lie together"
    )


def test_a_row_that_meets_a_million_gives_its_results_in_pieces() -> None:
    """Of the join, and of the bucket."""
    times = pa.array(np.full(1_000_000, 5_000_000), pa.timestamp("us"))
    many = pa.table({"id": np.arange(1_000_000), "k": np.full(1_000_000, 17), "ts": times})
    one = many.slice(0, 1)
    simulation = Simulation(PAIR, [Source("a", many, "ts"), Source("b", one, "ts")], 2)
    simulation.batch({"a": many})
    before = len(simulation.frames)
    simulation.batch({"b": one})
    assert simulation.counted("results") == 1_000_000
    frames = [frame for frame in simulation.frames[before:] if frame["payload"].notna().any()]
    assert len(frames) > 0
    assert max(frame["payload"].dropna().map(len).sum() for frame in frames) < 2 * OUTPUT_BYTES
    operator = simulation.job.make_operator()
    rows = {one.alias: simulation.job.layout(one) for one in simulation.job.streams}
    for _ in operator.push("a", rows["a"].rows(in_layout(simulation.job, "a", many))):
        raise AssertionError("nobody is there yet")
    blocks = [block.num_rows for block in operator.push("b", rows["b"].rows(in_layout(simulation.job, "b", one)))]
    assert sum(blocks) == 1_000_000
    assert max(blocks) <= OUTPUT_ROWS


def in_layout(job: SparkJob, alias: str, table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch.select(job.layout(job.join.input(alias)).schema.names)


# ---- what can be spread, and what is said ---------------------------------------------------------------------------


def job(sql: str, names: str = "abc", buckets: int = 4) -> SparkJob:
    return job_of(bound_plan(sql, sources(names)), {}, buckets)


def test_explain_says_whose_rows_are_dealt_out() -> None:
    dealt = "rows of b with the keys '17' and '3' are dealt out over 4 buckets, and those of a copied there"
    assert f"  spread: {dealt}\n" in partitioning_text(job(f"{PAIR} OPTIONS (spread = 'b: 17, 3')", "ab"))
    alone = partitioning_text(job(f"{PAIR} OPTIONS (spread = '17')", "ab", 1))
    assert "  spread: nothing, as one bucket has all keys\n" in alone


def test_keys_of_the_join_below_a_group_by_are_spread_in_its_stage() -> None:
    counted = "SELECT a.id, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k GROUP BY a.id"
    staged = in_stages(bound_plan(f"{counted} OPTIONS (spread = 'b: 17')", sources()))
    assert staged is not None
    (join,) = staged.joins.values()
    assert "  spread: rows of b with the keys '17' are dealt out" in partitioning_text(job_of(join, {}, 4))
    assert "spread" not in partitioning_text(job_of(staged.plan, {}, 4))


REFUSED = {
    f"{PAIR} OPTIONS (spread = 'x')": "option spread = 'x' is not of the key, which is a.k, a BIGINT: ",
    f"{PAIR} OPTIONS (spread = 'c: 17')": "would deal out rows of c, and of this query those of a or b can be",
    f"{PAIR} OPTIONS (spread = ' , ')": "option spread = ' , ' names no key",
    "SELECT a.id AS x FROM a FULL JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND "
    "OPTIONS (spread = '17')": "cannot be done here: each stream has rows that are given without a partner",
    "SELECT a.id AS x FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND "
    "OPTIONS (spread = 'b: 17')": "would deal out rows of b, and of this query those of a can be",
    "SELECT a.id AS x, b.id AS y FROM a [PARTITION BY k ROWS 3], b [RANGE 2 SECONDS] WHERE a.k = b.k "
    "OPTIONS (spread = '17')": "cannot be done here: a window counts rows, which must lie together",
    "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k < b.k WINDOW = 1 SECOND OPTIONS (spread = '17')": (
        "names values of a key, and here no key says where rows lie, so that they are spread anyway"
    ),
    "SELECT k, COUNT(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY k OPTIONS (spread = '17')": (
        "cannot be done here: rows of a key are grouped or compared with each other, and must lie together"
    ),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_spread_says_why(sql: str) -> None:
    with pytest.raises(OptionError) as refused:
        _ = job(sql, "ab").partitioning
    assert REFUSED[sql] in str(refused.value)
    assert refused.value.hint
