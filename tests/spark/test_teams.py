"""Joins that keep their rows once on Spark: each answers and counts what it does in a slot of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.effort import EFFORT
from tests.runners import Source
from tests.spark.simulation import LOSSES, Pieces, another_node, another_worker
from tests.spark.together import Together, as_teams, jobs_of
from watersmeet.errors import DataError, WatersmeetError
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.checkpoints.savepoints import contents_of
from watersmeet.hosts.spark.checkpoints.state_files import Kept, Stage, by_query
from watersmeet.hosts.spark.jobs.ids import slot_of
from watersmeet.hosts.spark.jobs.job import AtStart, SparkJob
from watersmeet.hosts.spark.jobs.team import TeamJob, TeamMember, teams_among
from watersmeet.model.arrival import Arrival
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.join.team import Team
from watersmeet.runtime.savepoints.contents import StreamPlace
from watersmeet.runtime.savepoints.folder import Savepoint, writing_savepoint

NEAR = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
FAR = "SELECT y.id AS y, x.t AS t, x.v FROM b AS y, a AS x WHERE y.k = x.k AND x.v > 3 WINDOW = 4 SECONDS"
APART = "SELECT a.id AS a, b.v FROM a, b WHERE a.k = b.k AND a.v <= b.v DWINDOW (a, b) = 2 SECONDS"
THREE = {"near": NEAR, "far": FAR, "apart": APART}


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> Iterator[None]:
    warm_state._at_hand.clear()
    yield
    warm_state._at_hand.clear()


def streams(seed: int, names: str = "ab", rows: int = 60, late_us: int = 3_000_000) -> list[Source]:
    """Disordered, some rows later than they may be, and some keys NULL."""
    random = np.random.default_rng(seed)

    def table() -> pa.Table:
        times = np.sort(random.integers(0, 20_000, rows)) * 1000
        order = np.argsort(times + random.integers(0, late_us, rows), kind="stable")
        keys = [None if random.random() < 0.05 else int(k) for k in random.integers(0, 4, rows)]
        return pa.table(
            {
                "id": np.arange(rows),
                "ts": pa.array(times[order], pa.timestamp("us")),
                "k": pa.array(keys, pa.int64()),
                "v": random.integers(0, 10, rows),
                "t": pa.array([f"t{n}" for n in random.integers(0, 5, rows)]),
            }
        )

    return [Source(name, table(), "ts", "1 second") for name in names]


def pieces_of(sources: Sequence[Source], seed: int, batches: int = 7) -> Pieces:
    """Of any sizes, also of no rows."""
    random = np.random.default_rng(seed)
    found = {}
    for one in sources:
        ends = [0, *sorted(random.integers(0, one.table.num_rows, batches - 1).tolist()), one.table.num_rows]
        found[one.name] = [one.table.slice(start, end - start) for start, end in pairwise(ends)]
    return found


def apart(queries: Mapping[str, str], sources: Sequence[Source], pieces: Pieces, buckets: int = 2) -> Together:
    run = Together(jobs_of(queries, sources, buckets), sources)
    run.run_all(pieces)
    return run


def check_alike(run: Together, alone: Together, *, rebuilt: bool = False) -> None:
    """rebuilt: from its rows, once, which do not tell how many had left that were behind younger ones."""
    assert run.answers == {slot: alone.answer_of(slot) for slot in run.queries}
    for slot in run.queries:
        one, other = run.counts_of(slot), alone.counts_of(slot)
        if rebuilt:
            assert one.pop("expired_rows") == pytest.approx(other.pop("expired_rows"), abs=10)
        assert one == other, slot


def by_bucket(held: list[dict[str, object]]) -> list[str]:
    return sorted(repr(sorted(one.items(), key=lambda item: item[0])) for one in held)


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("lost", LOSSES)
def test_each_join_answers_and_counts_what_it_does_alone(lost, buckets):
    sources = streams(1)
    pieces = pieces_of(sources, 1)
    alone = apart(THREE, sources, pieces, buckets)
    jobs = as_teams(jobs_of(THREE, sources, buckets))
    assert [len(job.queries) for job in jobs] == [3]
    run = Together(jobs, sources, between_batches=LOSSES[lost])
    run.run_all(pieces)
    check_alike(run, alone)
    assert all(alone.answers.values())
    assert alone.counts_of(0)["late_rows"] > alone.counts_of(1)["late_rows"] > 0
    for slot in range(3):
        assert by_bucket(run.held_of(slot)) == by_bucket(alone.held_of(slot))
    assert 0 < run.rows_kept < alone.rows_kept


def test_rows_lie_once_in_the_windows_of_a_bucket():
    """Also after these were saved and loaded elsewhere."""
    sources = streams(2)
    pieces = pieces_of(sources, 2)
    run = Together(as_teams(jobs_of(THREE, sources, 1)), sources, between_batches=another_worker)
    run.run_all({name: parts[:-1] for name, parts in pieces.items()})
    run.between_batches = lambda: None
    run.run_all({name: parts[-1:] for name, parts in pieces.items()})
    (warm,) = warm_state._at_hand.values()
    assert isinstance(warm.operator, Team)
    for stream in "ab":
        (window,) = warm.operator.windows[stream]
        assert len(window.views) == 3
        stores = {id(join.stores[warm.operator.called[name][stream]]) for name, join in warm.operator.joins.items()}
        assert stores == {id(window.store)}


def test_copies_that_are_kept_warm_are_used():
    sources = streams(2)
    pieces = pieces_of(sources, 2)
    run = Together(as_teams(jobs_of(THREE, sources, 2)), sources, between_batches=another_worker)
    run.run_all(pieces)
    told = run.told_of(1)
    assert sum(one["counts"].get("cache_misses", 0) for one in told) == 0
    assert sum(one["counts"].get("cache_hits", 0) for one in told) > 8
    check_alike(run, apart(THREE, sources, pieces))


@pytest.mark.parametrize("lost", LOSSES)
def test_a_batch_that_dies_at_any_call_to_the_state_changes_nothing(lost):
    sources = streams(3, rows=30)
    pieces = pieces_of(sources, 3, 4)
    jobs = as_teams(jobs_of(THREE, sources, 1))
    run = Together(jobs, sources, crash_everywhere=True, after_crash=LOSSES[lost])
    run.run_all(pieces)
    assert run.crashes > 20
    check_alike(run, apart(THREE, sources, pieces, 1))


def left(run: Together, slots: Sequence[int]) -> list[SparkJob]:
    """The jobs of a run without other queries."""
    made: list[SparkJob] = []
    for job in run.group.jobs:
        members = [query for query in job.queries if query.slot in slots]
        if members:
            made.append(TeamJob.of(members, job.slot) if isinstance(job, TeamJob) else job)
    return made


@pytest.mark.parametrize("slots", [[0, 2], [1], [0]])
@pytest.mark.parametrize("lost", LOSSES)
def test_one_that_is_dropped_leaves_the_others_as_they_are_and_the_log_has_only_their_rows(slots, lost):
    sources = streams(4, rows=90)
    pieces = pieces_of(sources, 4, 9)
    alone = apart(THREE, sources, pieces)
    run = Together(as_teams(jobs_of(THREE, sources, 2)), sources)
    before = {name: parts[:5] for name, parts in pieces.items()}
    run.run_all(before)
    run.start(left(run, slots))
    LOSSES[lost]()
    run.run_all({name: parts[5:6] for name, parts in pieces.items()})
    fresh = Together(as_teams(jobs_of(THREE, sources, 2)), sources)
    fresh.start(left(fresh, slots))
    fresh.run_all({name: parts[:6] for name, parts in pieces.items()})
    assert run.rows_kept <= fresh.rows_kept
    run.run_all({name: parts[6:] for name, parts in pieces.items()})
    check_alike(run, alone, rebuilt=True)


def test_a_team_goes_by_its_own_guard():
    sources = streams(5)
    pieces = pieces_of(sources, 5)
    jobs = as_teams(jobs_of(THREE, sources, 2))
    run = Together(jobs, sources)
    run.run_all({name: parts[:2] for name, parts in pieces.items()})
    others = {**THREE, "near": NEAR.replace("1 SECOND", "3 SECONDS")}
    run.start(as_teams(jobs_of(others, sources, 2)))
    with pytest.raises(DataError, match="this checkpoint belongs to another query"):
        run.run_all({name: parts[2:] for name, parts in pieces.items()})
    run.start(left(Together(jobs, sources), [0, 1]))
    run.run_all({name: parts[2:4] for name, parts in pieces.items()})
    run.start(jobs)  # one that is gone does not come back
    with pytest.raises(DataError, match="this checkpoint belongs to another query"):
        run.run_all({name: parts[4:] for name, parts in pieces.items()})


def test_all_that_is_kept_goes_with_the_last_of_them():
    sources = streams(6)
    pieces = pieces_of(sources, 6)
    counts = {**THREE, "counts": "SELECT COUNT(*) AS n FROM a [RANGE 2 SECONDS]"}
    run = Together(as_teams(jobs_of(counts, sources, 2)), sources)
    run.run_all({name: parts[:3] for name, parts in pieces.items()})
    team, count = run.group.jobs
    assert isinstance(team, TeamJob)
    run.start([count], [*team.bucket_ids, team.guard])
    run.run_all({name: parts[3:4] for name, parts in pieces.items()})
    assert run.keys_kept == {count.guard, *count.bucket_ids}


def test_an_error_says_whose_it_is():
    sources = streams(7)
    broken = {**THREE, "broken": "SELECT CAST(a.t AS BIGINT) AS t FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"}
    run = Together(as_teams(jobs_of(broken, sources, 2)), sources)
    assert len(run.group.jobs) == 1
    with pytest.raises(WatersmeetError, match=r"^broken: .*'t\d'"):
        run.run_all(pieces_of(sources, 7))


def test_a_late_row_that_is_refused_is_so_for_those_that_look_at_it():
    sources = [replace(one, arrival=Arrival(on_late="error")) for one in streams(7, late_us=9_000_000)]
    one = {name: sql.replace("a.k = b.k", "a.k = b.k AND a.v > 99 AND b.v > 99") for name, sql in THREE.items()}
    queries = {"none": one["near"], "far": FAR}
    run = Together(as_teams(jobs_of(queries, sources, 2)), sources)
    assert len(run.group.jobs) == 1
    with pytest.raises(WatersmeetError, match=r"^far: .* late"):
        run.run_all(pieces_of(sources, 7))


def test_a_batch_is_left_out_of_all_of_them():
    sources = streams(8)
    pieces = pieces_of(sources, 8)
    jobs = [replace(job, start=AtStart(frozenset([None]), query=job.start.query)) for job in jobs_of(THREE, sources, 2)]  # type: ignore[list-item]
    run, alone = Together(as_teams(jobs), sources), Together(jobs, sources)
    for one in (run, alone):
        one.run_all(pieces)
    check_alike(run, alone)
    assert run.counts_of(0)["rows_in"] == 120
    assert not any(run.answers.values())


NOT_IN_A_TEAM = {
    "another key": "SELECT a.id FROM a, b WHERE a.v = b.v WINDOW = 1 SECOND",
    "no key": "SELECT a.id FROM a, b WHERE a.k < b.k WINDOW = 1 SECOND",
    "rows": "SELECT a.id FROM a [ROWS 3], b [RANGE 1 SECOND] WHERE a.k = b.k",
    "more streams": "SELECT a.id FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 1 SECOND",
    "twice": "SELECT x.id FROM a AS x, a AS y, b WHERE x.k = y.k AND y.k = b.k WINDOW = 1 SECOND",
    "memory": "SELECT a.id FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND OPTIONS (memory = '100 rows')",
    "changes": "SELECT k, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY k",
    "a selection": "SELECT id FROM a WHERE v > 3",
    "outer": "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WINDOW = 1 SECOND",
}


@pytest.mark.parametrize("name", NOT_IN_A_TEAM)
def test_whose_rows_are_not_the_same_keeps_its_own(name):
    sources = streams(9, "abc")
    queries = {name: NOT_IN_A_TEAM[name], **THREE}
    jobs = jobs_of(queries, sources, 2)
    assert [[job.start.query for job in team] for team in teams_among(jobs)] == [list(THREE)]
    pieces = pieces_of(sources, 9)
    run = Together(as_teams(jobs), sources)
    run.run_all(pieces)
    check_alike(run, apart(queries, sources, pieces))


def test_those_that_ask_for_values_are_given_their_rows_alone():
    sources = streams(10)
    asking = {f"at{n}": NEAR.replace("WINDOW", f"AND a.v = {n} WINDOW") for n in range(9)}
    jobs = jobs_of({**THREE, **asking}, sources, 2)
    assert [[job.start.query for job in team] for team in teams_among(jobs)] == [list(THREE)]
    few = jobs_of({**THREE, "at1": asking["at1"]}, sources, 2)
    assert [len(team) for team in teams_among(few)] == [4]


@pytest.mark.parametrize("slot", [0, 1, 2])
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_savepoint_has_of_each_what_it_has_alone(slot, buckets, tmp_path):
    """It goes on from there in another number of buckets, by itself."""
    sources = streams(11, rows=90)
    pieces = pieces_of(sources, 11, 9)
    alone = apart(THREE, sources, pieces)
    run = Together(as_teams(jobs_of(THREE, sources, 2)), sources)
    run.run_all({name: parts[:5] for name, parts in pieces.items()})
    (team,) = run.group.jobs
    job = run.queries[slot]
    places = {one.name: StreamPlace(None, None, BEGINNING_US, FOREVER_US) for one in sources}
    held = stage_of(run, team.slot)
    with writing_savepoint(tmp_path / "saved") as savepoint:
        found = contents_of(TeamMember.of(job, team.slot), held, places, "a run", 5, run.now_ms * 1000)
        savepoint.add("query", found)
    begun = (str(tmp_path / "saved"), "query", Savepoint(tmp_path / "saved").mark)
    (one,) = jobs_of({"one": list(THREE.values())[slot]}, sources, buckets)
    rest = Together([replace(one, start=replace(one.start, begun=begun))], sources)
    rest.now_ms = run.now_ms
    rest.run_all({name: parts[5:] for name, parts in pieces.items()})
    assert sum((run.answer_of(slot), rest.answer_of(0)), Counter()) == alone.answer_of(slot)
    assert rest.answer_of(0)
    half = apart(THREE, sources, {name: parts[:5] for name, parts in pieces.items()})
    same = contents_of(job_alone(half, slot), stage_of(half, slot), places, "a run", 5, half.now_ms * 1000)
    assert (found.moment, found.streams, found.asked) == (same.moment, same.streams, same.asked)
    assert (found.key, found.state.rows.keys()) == (same.key, same.state.rows.keys())


def stage_of(run: Together, slot: int) -> Stage:
    held = run.state.variables
    kept = [Kept(key[0], meta[0], bytes(meta[2])) for key, meta in held["meta"].items() if slot_of(key[0]) == slot]
    packets = {(key[0], *at): rows[0] for key, log in held["segments"].items() for at, rows in log.items()}
    return by_query(kept, packets)[0]


def job_alone(run: Together, slot: int) -> SparkJob:
    return next(job for job in run.group.jobs if job.slot == slot)


def keys_without(run: Together, slots: Sequence[int]) -> list[int]:
    """Those of jobs of which no query is left."""
    over = [job for job in run.group.jobs if not any(query.slot in slots for query in job.queries)]
    return [key for job in over for key in (*job.bucket_ids, job.guard)]


def random_queries(random: np.random.Generator, names: str) -> dict[str, str]:
    """Joins of the same streams: under other names, in another order, with windows, conditions and columns of their
    own."""
    found = {}
    for number in range(int(random.integers(2, 13))):
        order = random.permutation(list(names)).tolist()
        called = {name: name if random.random() < 0.5 else f"{name}_{number}" for name in order}
        said = [called[name] for name in names]
        keys = [f"{one}.k = {other}.k" for one, other in pairwise(said)]
        some = [
            f"{said[0]}.v > {random.integers(0, 10)}",
            f"{said[1]}.v <= {random.integers(0, 10)}",
            f"{said[0]}.v < {said[1]}.v",
            f"{said[1]}.t <> 't{random.integers(0, 5)}'",
            f"{said[0]}.t = {said[1]}.t",
            f"{said[0]}.k + 1 > {random.integers(0, 4)}",
        ]
        where = keys + [one for one in some if random.random() < 0.3]
        columns = [f"{one}.{column}" for one in said for column in ("id", "t", "v", "k") if random.random() < 0.5]
        columns = [f"{one} AS c{place}" for place, one in enumerate(columns or [f"{said[0]}.id"])]
        window = f"WINDOW = {random.integers(0, 5000)} MILLISECONDS"
        if random.random() < 0.3:
            pairs = pairwise(said)
            window = " AND ".join(f"DWINDOW ({x}, {y}) = {random.integers(1, 5000)} MILLISECONDS" for x, y in pairs)
        sources = ", ".join(name if called[name] == name else f"{name} AS {called[name]}" for name in order)
        found[f"q{number}"] = f"SELECT {', '.join(columns)} FROM {sources} WHERE {' AND '.join(where)} {window}"
    return found


@pytest.mark.parametrize("seed", range(12 * EFFORT))
def test_random_joins_answer_what_they_do_apart(seed):
    random = np.random.default_rng(seed)
    names = "ab" if random.random() < 0.6 else "abc"
    sources = streams(seed, names, int(random.integers(20, 120)))
    queries = random_queries(random, names)
    buckets, batches = int(random.integers(1, 4)), int(random.integers(2, 9))
    pieces = pieces_of(sources, seed, batches)
    alone = apart(queries, sources, pieces, buckets)
    jobs = as_teams(jobs_of(queries, sources, buckets))
    assert any(isinstance(job, TeamJob) for job in jobs)
    lose = [*LOSSES.values()]
    run = Together(jobs, sources, between_batches=lambda: lose[random.integers(len(lose))]())
    for number in range(batches):
        run.batch({name: parts[number] for name, parts in pieces.items() if number < len(parts)})
        if random.random() < 0.15 and len(run.queries) > 1:
            stay = sorted(random.permutation(list(run.queries))[1:].tolist())
            gone = [
                key for job in run.group.jobs if not {q.slot for q in job.queries} & {*stay} for key in job.bucket_ids
            ]
            run.start(left(run, stay), gone)
    check_alike(run, alone, rebuilt=True)
    another_node()
