"""Queries of a script that look at the same streams: what is read once, and what is each query's own."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.unit.cli.test_commands import call
from watersmeet.hosts.local.printing import HeldRows
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.hosts.local.run_job import Delivery, Kept, executions, run_together
from watersmeet.plan.identity import identity_of
from watersmeet.runtime.changes import options_of
from watersmeet.runtime.script import Job, read_script
from watersmeet.runtime.sharing import answered_together, fed_together, shared_words
from watersmeet.runtime.watched import Board

NOON = dt.datetime(2026, 1, 1, 12)


def table(*rows: tuple[float, int]) -> pa.Table:
    times = pa.array([NOON + dt.timedelta(seconds=at) for at, _ in rows], pa.timestamp("us"))
    return pa.table({"ts": times, "k": pa.array([k for _, k in rows], pa.int64())})


def answers(outcomes: list[wm.Outcome], column: str = "k") -> list[list[Any]]:
    return [one.answer[column].to_pylist() for one in outcomes if one.answer is not None]


# ---- who is fed together ---------------------------------------------------------------------------------------------


def groups(queries: str, **how: str) -> list[list[str]]:
    said = "".join(f", {name} = '{value}'" for name, value in how.items())
    streams = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) WITH (source = 'parquet', path = '{name}.parquet', "
        f"time = 'ts'{said});"
        for name in "abcd"
    )
    return [[job.name for job in group] for group in fed_together(jobs_of(streams + queries))]


def jobs_of(script: str) -> list[Job]:
    return read_script(script, open_sources=False, explain=True)


PAIR = "SELECT {0}.k FROM {0}, {1} WHERE {0}.k = {1}.k WINDOW = 1 SECOND"
AB, BC, CD = PAIR.format("a", "b"), PAIR.format("b", "c"), PAIR.format("c", "d")


@pytest.mark.parametrize(
    ("queries", "found"),
    [
        ("SELECT k FROM a; SELECT k FROM a", [["query 1", "query 2"]]),
        ("SELECT k FROM a; SELECT k FROM b", [["query 1"], ["query 2"]]),
        (f"{AB}; {CD}; {BC}", [["query 1", "query 2", "query 3"]]),
        ("SELECT k FROM a; SELECT k FROM b; SELECT k FROM a", [["query 1", "query 3"], ["query 2"]]),
        ("SELECT k FROM a; SELECT k FROM a OPTIONS (share = 'no')", [["query 1"], ["query 2"]]),
        (f"SELECT k FROM a; {AB} OPTIONS (memory = '10 rows')", [["query 1"], ["query 2"]]),
        ("SELECT k FROM a; EXPLAIN SELECT k FROM a; SELECT k FROM a", [["query 1", "query 2"], ["plan 1"]]),
    ],
)
def test_queries_are_fed_together_that_look_at_the_same_streams(queries: str, found: list[list[str]]) -> None:
    assert groups(queries) == found


def test_a_query_that_does_not_look_at_a_stream_does_not_wait_for_it_as_one_must_that_drifts() -> None:
    queries = f"{AB}; SELECT k FROM a; {AB}; {BC}"
    assert groups(queries, max_drift="1 minute") == [["query 1", "query 3"], ["query 2"], ["query 4"]]


def test_what_is_read_once_is_told() -> None:
    (group,) = fed_together(
        jobs_of(
            "CREATE STREAM a (ts TIMESTAMP, k BIGINT) WITH (source = 'parquet', path = 'a.parquet', time = 'ts');"
            + ";".join(["SELECT k FROM a"] * 9)
        )
    )
    assert shared_words(group) == [
        "a is read once for 9 queries",
        "9 queries ask the same and are answered once",
    ]
    assert shared_words(group[:2]) == [
        "a is read once for query 1 and query 2",
        "query 1 and query 2 ask the same and are answered once",
    ]
    assert shared_words(group[:1]) == []


# ---- read once -------------------------------------------------------------------------------------------------------


def test_rows_that_flow_past_once_are_for_all_queries() -> None:
    session = wm.Session()
    session.stream("a", table((0, 1), (1, 2)).to_reader(), time="ts")
    assert answers(session.run("SELECT k FROM a; SELECT k FROM a WHERE k > 1")) == [[1, 2], [2]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


BESIDE = """
CREATE SINK beside WITH (sink = 'json', path = 'beside.json');
CREATE STREAM a (ts TIMESTAMP, k BIGINT) WITH
  (source = 'json', path = 'a.json', time = 'ts', on_bad = 'sink beside', on_null = 'skip');
"""


@pytest.mark.filterwarnings("ignore:bad_rows", "ignore:skipped_rows")
@pytest.mark.parametrize(("share", "times"), [("yes", 1), ("no", 2)])
def test_a_bad_record_is_counted_by_each_query_and_goes_to_its_sink_once(folder: Path, share: str, times: int) -> None:
    (folder / "a.json").write_text(
        '{"ts": "2026-01-01 12:00:00", "k": 1}\n{"k": \n{"ts": "2026-01-01 12:00:01", "k": 2}\n'
    )
    queries = ";".join([f"SELECT k FROM a OPTIONS (share = '{share}')"] * 2)
    found = wm.Session().run(BESIDE + queries)
    assert answers(found) == [[1, 2], [1, 2]]
    assert [one.metrics["bad_rows"] for one in found] == [1, 1]
    assert len((folder / "beside.json").read_text().splitlines()) == times


@pytest.mark.filterwarnings("ignore:bad_rows")
def test_text_that_a_query_does_not_look_at_leaves_none_of_its_rows_out() -> None:
    words = pa.array([b"u", b"\xff", b"v"], pa.binary()).view(pa.string())
    session = wm.Session()
    rows = table((0, 1), (1, 2), (2, 3)).append_column("word", words)
    session.stream("a", rows, time="ts", on_bad="skip")
    found = session.run("SELECT k FROM a; SELECT k, word FROM a; SELECT k FROM a WHERE k > 1")
    assert answers(found) == [[1, 2, 3], [1, 3], [2, 3]]
    assert [one.metrics.get("bad_rows", 0) for one in found] == [0, 1, 0]


def test_a_row_that_is_late_for_any_query_goes_to_its_sink_once(folder: Path) -> None:
    # Alone a's rows at 1 s and 2 s are late. Beside b, which has come no further than 0 s, they are not; b ends then.
    rows = {"a": [(0, 1), (5, 2), (1, 3), (2, 4), (9, 5), (3, 6)], "b": [(0, 1), (7, 1)]}
    for name, found in rows.items():
        lines = [{"ts": str(NOON + dt.timedelta(seconds=at)), "k": k} for at, k in found]
        (folder / f"{name}.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    declared = "CREATE SINK late WITH (sink = 'json', path = 'late.json');" + "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) WITH (source = 'json', path = '{name}.json', time = 'ts', "
        "read = 'arrival', lateness = '0 seconds', on_late = 'sink late');"
        for name in rows
    )
    alone = "SELECT k FROM a"
    both = "SELECT a.k FROM a, b WINDOW = 1 HOUR"
    jobs = jobs_of(f"{declared} {alone}; {both}; {alone}")
    with pytest.warns() as told:
        found = wm.Session().run(f"{declared} {alone}; {both}; {alone}")
    assert len(jobs) == 3
    numbers = [one.metrics["late_rows"] for one in found]
    assert numbers[0] == numbers[2] == 3
    assert numbers[1] < 3
    late = [json.loads(line)["k"] for line in (folder / "late.json").read_text().splitlines()]
    assert sorted(late) == [3, 4, 6]
    assert {str(one.message).split(": ")[1] for one in told if "late_rows" in str(one.message)} >= {
        "query 1 and query 3",
    }


def test_wherever_a_query_stands_in_a_script_it_may_stop_reading_by_itself() -> None:
    session = wm.Session()
    session.stream("a", table((0, 1), (1, 2)), time="ts")
    session.stream("b", table((0, 2)), time="ts")
    queries = ["SELECT k FROM a", "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS", "SELECT k FROM b"]
    assert answers(session.run(";".join(queries))) == [[1, 2], [2], [2]]


# ---- those that fail -------------------------------------------------------------------------------------------------


DECLARED = "CREATE STREAM {0} (ts TIMESTAMP, k BIGINT) WITH (source = 'parquet', path = '{0}.parquet', time = 'ts');"
SINK = "CREATE SINK {0} WITH (sink = 'parquet', path = '{0}.parquet') AS "


@pytest.fixture
def two(folder: Path) -> Path:
    for name in "ab":
        pa_parquet.write_table(table(*((at, at % 5) for at in range(20))), folder / f"{name}.parquet")
    return folder


def test_a_query_that_fails_stops_alone(two: Path) -> None:
    broken = "SELECT CAST('no number ' || CAST(k AS STRING) AS BIGINT) AS n FROM a"
    queries = {"first": "SELECT k FROM a", "broken": broken, "last": "SELECT k + 1 AS k FROM a"}
    script = DECLARED.format("a") + "".join(f"{SINK.format(name)} {query};" for name, query in queries.items())
    with pytest.raises(wm.WatersmeetError, match="is not a BIGINT") as failed:
        wm.Session().run(script)
    assert failed.value.__notes__ == ["broken failed; first and last ended well"]
    assert pa_parquet.read_table("first.parquet").num_rows == pa_parquet.read_table("last.parquet").num_rows == 20
    assert sorted(one.name for one in two.iterdir()) == ["a.parquet", "b.parquet", "first.parquet", "last.parquet"]


def test_what_fails_at_once_with_a_few_rows_is_a_query_s_own_too() -> None:
    session = wm.Session()
    rows = table((0, 1), (1, 2)).append_column("v", pa.array(["7", "x"]))
    session.stream("a", rows, time="ts")
    session.stream("b", table((0, 1), (1, 2)), time="ts")
    broken = "SELECT a.k FROM a, b WHERE a.k = b.k AND CAST(a.v AS BIGINT) > 3 DWINDOW (a, b) = 5 SECONDS"
    runs = [PulledExecution(session.sql(text).plan) for text in (broken, "SELECT k FROM a")]
    given = [block["k"].to_pylist() for run, block in Pull(runs).answers() if run is runs[1] and block is not None]
    assert [run.failure is None for run in runs] == [False, True]
    assert given == [[1, 2]]


def test_a_sink_that_fails_stops_its_query_alone(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (two / "taken.parquet").mkdir()
    (two / "taken.parquet" / "other.parquet").write_bytes(b"")
    script = (
        DECLARED.format("a") + SINK.format("taken") + "SELECT k FROM a;"
        + SINK.format("well") + "SELECT k FROM a WHERE k = 1"
    )  # fmt: skip
    (two / "script.sql").write_text(script)
    assert call("run", "--engine", "local", "script.sql") == 1
    told = capsys.readouterr().err
    assert "a is read once for taken and well" in told
    assert "well done: 20 rows in, 4 results" in told
    assert "taken failed; well ended well" in told
    assert pa_parquet.read_table("well.parquet").num_rows == 4


def test_what_is_wrong_with_a_stream_ends_those_that_look_at_it(two: Path) -> None:
    (two / "b.parquet").write_bytes(b"no parquet")
    script = DECLARED.format("a") + DECLARED.format("b") + SINK.format("only_a") + "SELECT k FROM a;" + AB
    with pytest.raises(wm.SourceError, match=r"b\.parquet"):
        wm.Session().run(script)
    jobs = read_script(
        DECLARED.format("a") + DECLARED.format("b") + f"SELECT k FROM a; {AB}; SELECT k FROM b", open_sources=False
    )
    assert [[job.name for job in group] for group in fed_together(jobs)] == [["query 1", "query 2", "query 3"]]


def test_reading_that_fails_ends_only_those_that_look_at_the_stream() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from table((0, 1)).to_batches()
        raise OSError("the line is dead")

    session = wm.Session()
    session.stream("a", table((0, 1), (1, 2)), time="ts")
    session.stream("b", broken(), time="ts")
    runs = [PulledExecution(session.sql(text).plan) for text in ("SELECT k FROM a", AB, "SELECT k FROM b")]
    given = [
        (runs.index(run), None if block is None else block["k"].to_pylist()) for run, block in Pull(runs).answers()
    ]
    assert [run.failure is None for run in runs] == [True, False, False]
    assert runs[1].failure is runs[2].failure
    assert [block for number, block in given if number == 0][-2:] == [[1, 2], None]


def test_nothing_is_asked_of_a_query_whose_sink_has_failed() -> None:
    session = wm.Session()
    session.stream("a", table((0, 1), (1, 2)), time="ts")
    runs = [
        PulledExecution(session.sql(text).plan, batch_rows=1)
        for text in ("SELECT k FROM a", "SELECT DISTINCT k FROM a [NOW]")
    ]
    pull, given = Pull(runs), []
    for run, block in pull.answers():
        given.append((runs.index(run), None if block is None else block.num_rows))
        if run is runs[1] and block is not None:
            pull.fail(run, OSError("the disk is full"))
    assert [number for number, rows in given if rows is None] == [1, 0]
    assert sum(number == 1 for number, _ in given) == 2
    assert isinstance(runs[1].failure, OSError)


def test_whether_a_query_shares_is_no_part_of_what_a_checkpoint_is_of() -> None:
    session = wm.Session()
    session.stream("a", table((0, 1)), time="ts")
    alone, shared = (session.sql(f"SELECT k FROM a OPTIONS (share = '{share}')").plan for share in ("no", "yes"))
    assert identity_of(alone) == identity_of(shared)
    assert options_of(alone) == options_of(shared) == {}


# ---- stopped ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1000, 3, 1000), (3, 1000, 3)])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM TUMBLE(s, 1 MINUTE) GROUP BY k, window_start",
        "SELECT k, SUM(k) AS n FROM s [ROWS 5] GROUP BY k",
        "SELECT DISTINCT k FROM s [RANGE 1 MINUTE]",
        "SELECT k FROM s [RANGE 1 MINUTE] ORDER BY k LIMIT 2",
        "SELECT s.k, r.k AS q FROM s [RANGE 5 SECONDS] LEFT JOIN s [RANGE 5 SECONDS] r ON s.k = r.k",
        "SELECT s.k, r.k AS q FROM s [RANGE 5 SECONDS], s r [ROWS 5] WHERE s.k = r.k",
    ],
)
def test_pieces_of_few_rows_and_of_many_have_the_same_columns(query: str, sizes: tuple[int, ...]) -> None:
    """Rows that wait for others are put together, whatever pieces they came in."""

    def rows() -> pa.RecordBatchReader:
        count = sum(sizes)
        times = pa.array([1_000_000 * n for n in range(count)], pa.timestamp("us"))
        whole = pa.record_batch({"k": [n % 3 for n in range(count)], "u": list(range(count)), "ts": times})
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        batches = [whole.slice(start, size) for start, size in zip(starts, sizes, strict=True)]
        return pa.RecordBatchReader.from_batches(whole.schema, batches)

    found = []
    for script in (f"{query}; SELECT u FROM s", query):
        session = wm.Session()
        session.stream("s", rows(), time="ts", lateness="20 seconds")
        found.append(session.run(script)[0].answer)
    assert found[0] == found[1]


def test_a_stop_ends_all_queries_after_the_batch_in_hand() -> None:
    def endless() -> Iterator[pa.RecordBatch]:
        for at in range(1_000_000):
            yield from table((at, at)).to_batches()

    session = wm.Session()
    session.stream("a", endless(), time="ts", lateness="0 seconds")
    runs = [PulledExecution(session.sql(text).plan) for text in ("SELECT k FROM a", "SELECT k AS n FROM a")]
    rows = {id(run): 0 for run in runs}
    pull = Pull(runs)
    for run, block in pull.answers():
        rows[id(run)] += 0 if block is None else block.num_rows
        if rows[id(runs[0])] == 3:
            runs[1].request_stop()
    assert [run.failure for run in runs] == [None, None]
    assert list(rows.values()) == [3, 3]


# ---- printed ---------------------------------------------------------------------------------------------------------


def test_rows_of_one_query_are_printed_after_those_of_the_other(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = ["SELECT k AS one FROM a WHERE k = 1", "SELECT k AS other FROM a WHERE k = 2", "SELECT k AS third FROM b"]
    (two / "script.sql").write_text(DECLARED.format("a") + DECLARED.format("b") + ";".join([*queries, AB]))
    assert call("run", "--engine", "local", "--batch-rows", "3", "--quiet", "script.sql") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:10] == ["one", *"1111", "other", *"2222"]
    assert shown[10] == "third"
    assert len(shown) == 10 + 21 + 1 + pairs(two)


def pairs(folder: Path) -> int:
    session = wm.Session()
    for name in "ab":
        session.stream(name, pa_parquet.read_table(folder / f"{name}.parquet"), time="ts")
    return session.sql(AB).to_arrow().num_rows


def test_many_rows_that_wait_to_be_printed_wait_on_disk() -> None:
    batches = table(*((at, at) for at in range(30))).to_batches(max_chunksize=4)
    held = HeldRows(batches[0].schema, most_bytes=100)
    for batch in batches:
        held.add(batch)
    assert pa.Table.from_batches(held.take())["k"].to_pylist() == list(range(30))
    assert list(held.take()) == []


# ---- answered once ---------------------------------------------------------------------------------------------------


def test_queries_that_ask_the_same_are_answered_once_into_each_sink(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = {"one": AB, "other": AB, "third": AB.replace("1 SECOND", "2 SECONDS")}
    script = DECLARED.format("a") + DECLARED.format("b")
    script += "".join(f"{SINK.format(name)} {query};" for name, query in queries.items())
    (two / "script.sql").write_text(script)
    assert call("run", "--engine", "local", "script.sql") == 0
    told = capsys.readouterr().err
    assert "one and other ask the same and are answered once" in told
    assert "one done" in told
    assert "other done" in told
    found = {name: pa_parquet.read_table(f"{name}.parquet") for name in queries}
    assert found["one"].equals(found["other"])
    assert found["one"].num_rows == pairs(two)
    assert found["third"].num_rows >= found["one"].num_rows


def test_of_queries_that_ask_the_same_each_has_a_sink_that_may_fail_alone(two: Path) -> None:
    (two / "taken.parquet").mkdir()
    (two / "taken.parquet" / "other.parquet").write_bytes(b"")
    script = DECLARED.format("a") + "".join(f"{SINK.format(name)} SELECT k FROM a;" for name in ("taken", "well"))
    with pytest.raises(wm.WatersmeetError, match="taken") as failed:
        wm.Session().run(script)
    assert failed.value.__notes__ == ["taken failed; well ended well"]
    assert pa_parquet.read_table("well.parquet").num_rows == 20


@pytest.mark.parametrize("option", ["share = 'no'", "timezone = 'Europe/Berlin'", "pipeline = 'nta'"])
def test_a_query_that_is_to_run_otherwise_is_another(option: str) -> None:
    asked = "SELECT DISTINCT k FROM a [RANGE 1 SECOND]"
    group = jobs_of(DECLARED.format("a") + f"{asked}; {asked} OPTIONS ({option}); {asked}")
    assert [[job.name for job in alike] for alike in answered_together(group)] == [["query 1", "query 3"], ["query 2"]]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("k = 2 AND word = 'x'", "word = 'x' AND k = 2", True),
        ("CAST(word AS BIGINT) > 3 AND k = 2", "k = 2 AND CAST(word AS BIGINT) > 3", False),
    ],
)
def test_who_is_tested_first_matters_where_a_test_may_fail(one: str, other: str, *, alike: bool) -> None:
    declared = DECLARED.format("a").replace("k BIGINT", "k BIGINT, word TEXT")
    group = jobs_of(f"{declared} SELECT k FROM a WHERE {one}; SELECT k FROM a WHERE {other}")
    assert (len(answered_together(group)) == 1) is alike


def test_a_stop_keeps_what_each_of_them_was_given() -> None:
    session = wm.Session()
    session.stream("a", table(*((at, at) for at in range(5))), time="ts")
    jobs = [Job(name, session.sql("SELECT k FROM a").plan, {"sink": "console"}) for name in ("one", "other")]
    runs = executions(jobs, 1)
    assert runs["one"] is runs["other"]
    kept = {job.name: Kept(job) for job in jobs}
    deliveries = [Delivery(job, runs[job.name], instead=kept[job.name]) for job in jobs]
    told: list[int] = []
    runs["one"].on_progress = lambda metrics: told.append(metrics.results)
    taken = kept["other"].write
    kept["other"].write = lambda batch: (taken(batch), runs["one"].request_stop())  # type: ignore[method-assign, assign]
    run_together(deliveries)
    assert [one.table()["k"].to_pylist() for one in kept.values()] == [[0], [0]]
    assert told[-1] == 1


@pytest.mark.parametrize("final", [True, False])
def test_the_answer_at_the_end_goes_into_each_sink(two: Path, *, final: bool) -> None:
    asked = "SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k"
    script = DECLARED.format("a") + "".join(f"{SINK.format(name)} {asked};" for name in ("one", "other"))
    script += SINK.format("third") + "SELECT k FROM a WHERE k = 1"
    (two / "script.sql").write_text(script)
    assert call("run", "--engine", "local", "--quiet", *(["--final"] if final else []), "script.sql") == 0
    found = [pa_parquet.read_table(f"{name}.parquet") for name in ("one", "other")]
    assert found[0].equals(found[1])
    if final:
        assert sorted(found[0].to_pylist(), key=lambda row: row["k"]) == [{"k": k, "n": 4} for k in range(5)]
    else:
        assert found[0].num_rows > 20


def test_each_query_that_is_watched_has_its_board() -> None:
    session = wm.Session()
    session.stream("a", table(*((at, at) for at in range(5))), time="ts")
    jobs = [Job(name, session.sql("SELECT k FROM a").plan, {"sink": "console"}) for name in ("one", "other")]
    runs, boards = executions(jobs), {job.name: Board(job.plan, adds_up=True) for job in jobs}
    run_together([Delivery(job, runs[job.name], board=boards[job.name], instead=Kept(job)) for job in jobs])
    for board in boards.values():
        assert board.state == "ended"
        assert board.metrics()["results"] == 5
