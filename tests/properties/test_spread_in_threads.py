"""Keys that are spread over threads: the answer, what is counted and what is kept are those of one thread, and state
moves between any numbers of threads with any keys spread."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import watersmeet as wm
from tests.durable.test_floods import Numbered
from tests.durable.test_savepoints import Answers, answered, push
from tests.durable.test_savepoints import session as to_save
from tests.effort import random_cases
from tests.partitions import answered_at_once, answered_in_threads
from tests.properties.outer_strategies import OuterCase, asof_cases, outer_cases
from tests.properties.strategies import DOMAINS, Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.relays import Batch, Relay, counts, goes_on_as_if_nothing_had_happened, shown
from tests.runners import Source, bound_plan
from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.hosts.local.durable import batch_loop
from watersmeet.hosts.local.skew import skew_text
from watersmeet.operators import partitioned
from watersmeet.operators.partitioned import Partitioned
from watersmeet.optimizer.choose_partition_key import choose_partition_key
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.plan.spread import Spread

few = random_cases(40)
TEXTS = {column: [str(value) for value in dict.fromkeys(DOMAINS[column]) if value is not None] for column in "kjs"}
NEAR = "ABS(a.ts - b.ts) <= 100 MILLISECONDS"
SOON = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 3 MILLISECONDS"
QUERIES = {
    "join": "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 200 MILLISECONDS",
    "join with filters": "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k AND a.id % 3 = 0 AND b.id % 2 = 0 "
    "WINDOW = 200 MILLISECONDS",
    "one more stream": "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.id < c.id "
    "WINDOW = 15 MILLISECONDS",
    "left join": f"SELECT a.id AS x, b.id AS y FROM a LEFT JOIN b ON a.k = b.k AND {NEAR}",
    "semi join": f"SELECT a.id AS x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND {SOON})",
    "anti join": f"SELECT a.id AS x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND {SOON})",
    "left join of a join": "SELECT j.x, b.id AS y FROM (SELECT a.k, a.id AS x FROM a, c "
    f"WHERE a.k = c.k WINDOW = 20 MILLISECONDS) j LEFT JOIN b ON j.k = b.k AND {NEAR.replace('a.ts', 'j._ts')}",
    "as of": "SELECT a.id AS x, b.id AS y FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts",
}
COPIES_ARE_KEPT = ("left join of a join", "as of")  # of what is no window of the query itself, as on Spark


@pytest.fixture(autouse=True)
def _every_row_is_worth_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "WORTH_A_THREAD", 1)


def skewed(seed: int, rows: int = 3000, others: int = 200) -> pa.Table:
    """Half of the rows have one key; a few have none."""
    random = np.random.default_rng(seed)
    keys = np.where(random.random(rows) < 0.5, 17, random.integers(0, others, rows))
    times = np.sort(random.integers(0, 10_000_000, rows))
    values = {"id": np.arange(rows), "k": pa.array(keys, mask=random.random(rows) < 0.01)}
    return pa.table({**values, "ts": pa.array(times, pa.timestamp("us"))})


def session() -> wm.Session:
    made = wm.Session()
    for seed, name in enumerate("abc"):
        made.stream(name, skewed(seed), time="ts")
    return made


def relay(sql: str, spread: str | None = None, threads: int = 1) -> Relay:
    sources = [Source(name, skewed(seed, 900), "ts") for seed, name in enumerate("abc")]
    read = [one for one in sources if re.search(rf"\b{one.name}\.", sql)]
    made = Relay(bound_plan(sql, read), read)
    return spread_in(made, threads, None if spread is None else Spread.parse(spread))


def spread_in(one: Relay, threads: int, spread: Spread | None) -> Relay:
    return replace(one, plan=replace(one.plan, options=one.plan.options.but(threads=threads, spread=spread)))


def bag(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.to_pylist()))


# ---- the answer, and how even the work is ---------------------------------------------------------------------------


@pytest.mark.parametrize("spread", ["17", "a: 17, 3"])
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_and_what_is_counted_are_those_of_one_thread(name: str, spread: str) -> None:
    one = session().sql(QUERIES[name])
    several = session().sql(f"{QUERIES[name]} OPTIONS (threads = 3, spread = '{spread}')")
    expected, found = one.to_arrow(), several.to_arrow()
    assert found.num_rows
    assert bag(found) == bag(expected)
    counted = ("rows_in", "results", "stored_rows", "late_rows", *(() if "of" in name else ("expired_rows",)))
    assert [several.metrics()[word] for word in counted] == [one.metrics()[word] for word in counted]


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_a_spread_key_gives_no_thread_more_than_its_share(threads: int) -> None:
    def fullest(options: str) -> float:
        over = relay(QUERIES["join"])
        plan = bound_plan(f"{QUERIES['join']} OPTIONS (threads = {threads}{options})", over.sources)
        made = replace(over, plan=plan).fresh()
        assert isinstance(made, Partitioned)
        for batch in over.batches(5):
            shown(made.take(*batch))
        results = [one.counters.results for one in made.operators]
        return max(results) * threads / sum(results)

    assert fullest("") > 1.6 * threads / 2
    assert fullest(", spread = 'a: 17'") < 1.2


@pytest.mark.parametrize("threads", [2, 4])
def test_a_skewed_join_without_an_equality_is_even_over_its_threads(threads: int) -> None:
    query = session().sql(
        f"SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k <= b.k WINDOW = 20 MILLISECONDS OPTIONS (threads = {threads})"
    )
    query.to_arrow()
    work = list(query.metrics()["work_by_bucket"].values())
    assert len(work) == threads
    assert max(work) < 1.15 * sum(work) / threads


def test_in_one_thread_it_changes_nothing() -> None:
    alone = session().sql(f"{QUERIES['join']} OPTIONS (spread = '17')")
    assert str(alone.explain()).startswith("select: a.id as x")
    assert bag(alone.to_arrow()) == bag(session().sql(QUERIES["join"]).to_arrow())


@few
@given(cases(), st.data())
def test_random_inner_joins(case: Case, data: st.DataObject) -> None:
    refuse_contradictions(case)
    assume(any(len(source.table) for source in case.sources if source.time is not None))
    answers_as_one_thread_does(Relay(bound_plan(case.sql, case.sources), case.sources), data)


@few
@given(st.one_of(outer_cases(), asof_cases()), st.data())
def test_random_joins_of_which_one_side_is_kept(case: OuterCase, data: st.DataObject) -> None:
    assume(any(len(source.table) for source in case.sources))
    answers_as_one_thread_does(Relay(bound_plan(case.sql, case.sources), case.sources), data)


def answers_as_one_thread_does(one: Relay, data: st.DataObject) -> None:
    """Whatever keys are spread; and when state moves between threads that have others."""
    placed = [spread_in(one, data.draw(st.sampled_from([2, 3, 5])), drawn(one, data)) for _ in range(2)]
    try:
        assume(all(getattr(made.physical.root, "spread", None) is not None for made in placed))
    except OptionError:
        assume(False)
    batches = list(one.batches(4))
    expected = answered_at_once(one, batches)
    assert answered_in_threads(placed[0], batches, placed[0].plan.options.threads) == expected
    assert moving(one, [placed[0], one, placed[1], placed[0]], batches) == expected


def drawn(one: Relay, data: st.DataObject) -> Spread:
    key = choose_partition_key(one.plan, plan_query(one.plan))
    names = set() if key is None else {getattr(code.expression, "name", "") for code in key.codes.values()}
    assume(names and names <= {*TEXTS})
    return Spread(tuple(data.draw(st.lists(st.sampled_from(TEXTS[min(names)]), min_size=1, unique=True))))


def moving(one: Relay, ways: Sequence[Relay], batches: Sequence[Batch]) -> list[Counter[str]]:
    """Each batch is answered by another operator, which holds what the one before held."""
    key = choose_partition_key(one.plan, plan_query(one.plan))
    assert key is not None
    operator, found = one.fresh(), []
    for batch, way in zip(batches, ways, strict=False):
        before, operator = operator, way.fresh()
        operator.take_over(before.keyed_state(key))
        found.append(Counter(shown(operator.take(*batch))))
    return found


# ---- what is held, saved and moved ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_threads_with_spread_keys_are_saved_and_loaded(name: str) -> None:
    made = relay(QUERIES[name], "17", 2)
    assert getattr(made.physical.root, "spread", None) is not None
    goes_on_as_if_nothing_had_happened(made)


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_held_and_counted_moves_with_the_rows(name: str) -> None:
    """From one thread to three with a key spread, to two with others, and back, as if nothing had happened."""
    one = relay(QUERIES[name])
    key = choose_partition_key(one.plan, plan_query(one.plan))
    assert key is not None
    ways = [one, relay(QUERIES[name], "17", 3), relay(QUERIES[name], "3, 5", 2), relay(QUERIES[name], "17", 3), one]
    alone, operator = one.fresh(), one.fresh()
    for batch, way in zip(one.batches(5), ways, strict=True):
        before, operator = operator, way.fresh()
        operator.take_over(before.keyed_state(key))
        assert Counter(shown(operator.take(*batch))) == Counter(shown(alone.take(*batch)))
        told, expected = counts(operator), counts(alone)
        if name not in COPIES_ARE_KEPT:
            assert operator.kept_rows == alone.kept_rows
            assert told == expected
            windows = {alias: rows for alias, (rows, _) in operator.held_by_input.items()}
            assert windows == {alias: rows for alias, (rows, _) in alone.held_by_input.items()}
        assert (told["results"], told["stored_rows"]) == (expected["results"], expected["stored_rows"])


LIVES = ((2, "17"), (3, "17"), (3, "a: 17, 3"), (1, "17"), (2, None), (2, "b: 17"))
MOST = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 200 MILLISECONDS"


def pushed(sql: str, threads: int, spread: str | None) -> wm.Query:
    made = wm.Session()
    for name in "ab":
        made.stream(name, schema={"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
    said = "" if spread is None else f", spread = '{spread}'"
    return made.sql(f"{sql} OPTIONS (threads = {threads}{said})")


@pytest.mark.parametrize("name", ["join", "left join", "as of"])
def test_a_checkpoint_goes_on_with_any_keys_spread_over_any_number_of_threads(name: str, tmp_path: Path) -> None:
    sql = QUERIES[name]
    lives = LIVES if name == "join" else tuple((many, said) for many, said in LIVES if said != "b: 17")

    def lived(lives: Sequence[tuple[int, str | None]]) -> Counter[str]:
        at, folder, sink = 0, tmp_path / str(len(lives)), Numbered(0)
        for threads, spread in lives:
            with pushed(sql, threads, spread).start(checkpoint=folder, sink=lambda _: sink) as run:
                for _ in range(30 // len(lives)):
                    for seed, stream in enumerate("ab"):
                        run.push(stream, skewed(seed).slice(at, 100))
                    at += 100
                run.stop()
        return Counter(map(repr, sink.rows))

    assert lived(lives) == lived(((1, None),))


@pytest.mark.parametrize("fails_at", [1, 2, 4])
@pytest.mark.parametrize("now", [(3, "17"), (2, "b: 17"), (2, None), (1, "17")])
def test_a_batch_that_was_cut_short_is_repeated_as_its_rows_were_placed(
    fails_at: int, now: tuple[int, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start that goes on spreads other keys, over other threads, and half of the answers are there already."""
    monkeypatch.setattr(batch_loop, "PART_ROWS", 1000)
    expected = session().sql(MOST).to_arrow()
    sink = Numbered(fails_at)
    try:
        with pushed(MOST, 2, "17").start(checkpoint=tmp_path, sink=lambda _: sink, commit_every="0 s") as run:
            for seed, stream in enumerate("ab"):
                run.push(stream, skewed(seed))
            run.stop()
    except OSError:
        pass
    sink.left = 0
    with pushed(MOST, *now).start(checkpoint=tmp_path, sink=lambda _: sink) as run:
        for stream in "ab":
            run.end(stream)
        run.stop()
    assert Counter(map(repr, sink.rows)) == bag(expected)


@pytest.mark.parametrize("sql", [
    "SELECT a.k, a.x, b.y FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE",
    "SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS",
    "SELECT a.k, a.x, b.y FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts",
])  # fmt: skip
def test_a_savepoint_goes_on_with_other_keys_spread(sql: str, tmp_path: Path) -> None:
    def query(options: str) -> Any:
        return to_save().sql(f"{sql} {options}")

    whole = answered(query(""), tmp_path / "whole", range(100))
    found, before = Answers(), None
    for number, options in enumerate(
        [
            "(threads = 2, spread = '0, 2')",
            "(threads = 3, spread = '1')",
            "(threads = 1)",
            "(threads = 3)",
            "(threads = 2, spread = 'a: 0')",
        ]
    ):
        made = query(f"OPTIONS {options}")
        after = tmp_path / f"savepoint-{number}"
        with made.start(checkpoint=tmp_path / str(number), savepoint=before, on_answer=found) as run:
            push(run, made, range(20 * number, 20 * number + 20))
            run.savepoint(after)
        before = after
    with query("").start(checkpoint=tmp_path / "last", savepoint=before, on_answer=found) as run:
        run.flush()
    assert found.rows == whole


# ---- what is said ---------------------------------------------------------------------------------------------------


def test_explain_says_whose_rows_are_dealt_out() -> None:
    told = session().sql(f"{MOST} OPTIONS (threads = 4, spread = 'b: 17, 3')").explain()
    words = " ".join(str(told).split())
    assert "spread: rows of b with the keys '17' and '3' are dealt out over 4 threads, and those of a copied" in words


REFUSED = {
    f"{MOST} OPTIONS (spread = 'a: x')": "option spread = 'a: x' is not of the key, which is a.k, a BIGINT: ",
    f"{MOST} OPTIONS (spread = 'c: 17')": "would deal out rows of c, and of this query those of a or b can be",
    f"{MOST} OPTIONS (spread = ' , ')": "option spread = ' , ' names no key",
    f"SELECT a.id AS x FROM a FULL JOIN b ON a.k = b.k AND {NEAR} OPTIONS (spread = '17')": (
        "cannot be done here: each stream has rows that are given without a partner"
    ),
    f"SELECT a.id AS x FROM a LEFT JOIN b ON a.k = b.k AND {NEAR} OPTIONS (spread = 'b: 17')": (
        "would deal out rows of b, and of this query those of a can be"
    ),
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
def test_what_cannot_be_spread_says_why_as_on_spark(sql: str) -> None:
    with pytest.raises(WatersmeetError) as refused:
        session().sql(sql.replace("OPTIONS (", "OPTIONS (threads = 2, ")).to_arrow()
    assert REFUSED[sql] in str(refused.value)
    assert refused.value.hint


def test_a_run_tells_its_fullest_thread_and_the_keys_that_would_be_spread() -> None:
    def ran(options: str) -> tuple[wm.Query, str | None]:
        query = session().sql(f"{MOST} OPTIONS (threads = 4{options})")
        query.to_arrow()
        return query, skew_text(query.plan, query._metrics)

    alone, told = ran("")
    assert sum(alone.metrics()["work_by_bucket"].values()) == 6000 + alone.metrics()["results"]
    assert told is not None
    option = re.search(r"OPTIONS \(spread = '(.*)'\)", told)
    assert told.startswith("fullest thread: ")
    assert option is not None
    assert option[1] in ("a: 17", "b: 17")
    spread, none = ran(f", spread = '{option[1]}'")
    assert none is None
    work = list(spread.metrics()["work_by_bucket"].values())
    assert max(work) < 1.2 * sum(work) / len(work)
