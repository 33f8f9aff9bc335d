"""Queries of a script that read the same streams, which Spark runs as one: each answers what it would alone, whatever
is killed, dropped or added."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.spark.test_run import add, bag, rows_of
from watersmeet.cli.commands import app
from watersmeet.errors import DataError, SetupError, SinkError
from watersmeet.hosts.spark.checkpoints.state import read_state, read_state_files
from watersmeet.hosts.spark.progress.running_query import RunningQuery
from watersmeet.hosts.spark.run import SparkRun
from watersmeet.hosts.spark.writing.sink_writer import SinkWriter
from watersmeet.runtime.run_settings import RunSettings

Answers = Mapping[str, Counter[tuple[object, ...]]]
STREAMS = """
CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='a', time='ts', maxFilesPerTrigger='1');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='b', time='ts', maxFilesPerTrigger='1');
CREATE STREAM c (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='c', time='ts', maxFilesPerTrigger='1');
"""
QUERIES = {
    "near": ("parquet", "SELECT a.k, a.ts AS at, b.ts AS bt FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"),
    "far": ("csv", "SELECT a.ts AS at, b.ts AS bt FROM a, b WHERE a.k = b.k AND a.k > 5 WINDOW = 4 SECONDS"),
    "counts": ("json", "SELECT k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY k"),
    "even": ("parquet", "SELECT k, ts FROM b WHERE k % 2 = 0"),
    "unmatched": ("csv", "SELECT b.k, c.ts AS ct FROM b LEFT JOIN c ON b.k = c.k WINDOW = 2 SECONDS"),
}
READ = {"csv": pa_csv.read_csv, "json": pa_json.read_json, "parquet": pq.read_table}


def script(
    names: Sequence[str] = tuple(QUERIES), options: str = "", queries: Mapping[str, tuple[str, str]] = QUERIES
) -> str:
    into = {name: f"sink='{queries[name][0]}', path='out/{name}', mode='append'" for name in names}
    return STREAMS + "\n".join(
        f"CREATE SINK {name} WITH ({into[name]}) AS {queries[name][1]} {options};" for name in names
    )


def run(spark: SparkSession, text: str, checkpoint: str | None = "ck", **more: object) -> list[RunningQuery]:
    settings = RunSettings(checkpoint=checkpoint, **{"available_now": True, "buckets": 2, **more})  # type: ignore[arg-type]
    return SparkRun(spark, text, settings).run()


def answers(names: Sequence[str] = tuple(QUERIES)) -> Answers:
    return {name: answer(name) for name in names}


def answer(name: str) -> Counter[tuple[object, ...]]:
    kind = QUERIES[name][0]
    if kind == "parquet":  # Spark's list of files says which of them count
        return bag(pq.read_table(f"out/{name}"))
    parts = [path for path in sorted(Path(f"out/{name}").glob("part-*")) if path.stat().st_size]
    return sum((bag(READ[kind](path)) for path in parts), Counter())


def arrive(number: int) -> None:
    for name in ("a", "b", "c"):
        add(Path(name), number, rows_of(20 * number, 20))


@pytest.fixture(scope="module")
def apart(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What each query answers by itself, over four files of each stream, the last of them flushed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("apart"))
        for number in range(4):
            arrive(number)
        run(spark, script(options="OPTIONS (share = 'no')"), flush=True)
        assert sorted(one.name for one in Path("ck").iterdir()) == sorted(QUERIES)
        return answers()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arrive(0)
    arrive(1)


def rest() -> None:
    arrive(2)
    arrive(3)


def test_each_query_answers_what_it_answers_alone_and_goes_on(spark, data, apart, caplog):
    with caplog.at_level(logging.INFO, logger="watersmeet"):
        first = run(spark, script())
    assert "b is read once for near, far, even and unmatched" in caplog.text
    assert "the rows of a and b are kept once for near and far" in caplog.text
    assert [one.name for one in Path("ck").iterdir()] == ["together-1"]
    assert len({one.query for one in first}) == 1
    rest()
    second = run(spark, script(), flush=True)
    assert answers() == apart
    for name, one, other in zip(QUERIES, first, second, strict=True):
        assert one.metrics.results + other.metrics.results == apart[name].total(), name
    by_name = dict(zip(QUERIES, first, strict=True))
    assert {name: one.metrics.rows_in for name, one in by_name.items()} == {
        "near": 80, "far": 80, "counts": 40, "even": 40, "unmatched": 80
    }  # fmt: skip
    assert sorted(by_name["near"].metrics.buckets) == sorted(by_name["far"].metrics.buckets)
    assert by_name["far"].metrics.kept_rows < by_name["near"].metrics.kept_rows + 20


def test_without_a_checkpoint_as_well(spark, data, apart):
    rest()
    run(spark, script(), checkpoint=None, flush=True)
    assert answers() == apart


@pytest.mark.parametrize("name", ["far", "counts"])
def test_a_sink_that_fails_ends_all_and_the_next_start_repeats_the_batch(spark, data, apart, monkeypatch, name):
    """Others had the batch by then, and pass over it."""
    commit, failing = SinkWriter._commit, [True]

    def fails(self: SinkWriter, number: int, answer: object) -> None:
        if self._name == name and number == 1 and failing:
            failing.clear()
            raise SinkError(f"{name} is full")
        commit(self, number, answer)  # type: ignore[arg-type]

    monkeypatch.setattr(SinkWriter, "_commit", fails)
    rest()
    with pytest.raises(SinkError, match=f"{name} is full"):
        run(spark, script())
    run(spark, script(), flush=True)
    assert answers() == apart


def test_a_batch_that_spark_did_not_commit_is_passed_over_by_all_sinks(spark, data, apart):
    rest()
    run(spark, script(), flush=True)
    newest = max(int(one.name) for one in Path("ck/together-1/commits").glob("[0-9]*"))
    for name in (str(newest), f".{newest}.crc"):  # as if it had been killed just before
        (Path("ck/together-1/commits") / name).unlink()
    run(spark, script(), flush=True)
    assert answers() == apart


def test_a_dropped_query_lets_go_of_what_it_kept_and_of_its_source(spark, data, apart, caplog):
    run(spark, script())
    kept = {one.query: one.names for one in read_state(spark, "ck/together-1").buckets}
    assert kept.keys() == {"near and far", "counts", "even", "unmatched"}
    assert kept["near and far"] == ("a", "b")
    rest()
    others = [name for name in QUERIES if name not in ("unmatched", "far")]
    run(spark, script(others), flush=True)
    assert "far and unmatched are no longer in the script, and their states are let go of" in caplog.text
    assert answers(others) == {name: apart[name] for name in others}
    offsets = max(Path("ck/together-1/offsets").glob("[0-9]*"), key=lambda one: int(one.name)).read_text()
    assert re.findall(r"^s_(\w+):", offsets, re.M) == ["a", "b"]
    noted = json.loads(Path("ck/together-1/watersmeet-together.json").read_text().splitlines()[0])
    assert sorted(noted["queries"]) == sorted(others)
    state = read_state(spark, "ck/together-1")
    assert {one.query for one in state.buckets} == {"near", "counts", "even"}
    assert read_state_files("ck/together-1") == state


def test_queries_come_and_go_beside_those_that_run_by_themselves(spark, data, apart, caplog):
    """One that was alone in its folder stays there; a bare SELECT is known by what it asks."""
    run(spark, script(["near"]))
    bare = "SELECT k FROM b WHERE k % 2 = 0;"
    run(spark, script(["near", "far"]) + bare)
    assert sorted(one.name for one in Path("ck").glob("*/")) == [
        "commits", "offsets", "state", "together-1"
    ]  # fmt: skip
    rest()
    (counted,) = run(spark, STREAMS + bare, flush=True)
    assert counted.metrics.rows_in == 40
    assert "far and the query that was alone are no longer in the script" in caplog.text
    assert not Path("ck/metadata").exists()
    with pytest.raises(SetupError, match="holds the checkpoints of several queries"):
        run(spark, script(["counts"]))


def test_an_added_query_starts_by_itself_from_the_beginning(spark, data, apart):
    first = [name for name in QUERIES if name != "near"]
    run(spark, script(first))
    rest()
    run(spark, script(), flush=True)
    assert answers() == apart
    assert sorted(one.name for one in Path("ck").iterdir()) == ["near", "together-1"]


def test_a_query_that_is_left_alone_goes_on_where_it_was(spark, data, apart):
    run(spark, script())
    rest()
    run(spark, script(["counts"]), flush=True)
    assert answer("counts") == apart["counts"]


def test_those_that_ran_apart_go_on_apart(spark, data, apart):
    run(spark, script(["near", "far"], "OPTIONS (share = 'no')"))
    rest()
    run(spark, script(["near", "far"]), flush=True)
    assert answers(["near", "far"]) == {name: apart[name] for name in ("near", "far")}
    assert sorted(one.name for one in Path("ck").iterdir()) == ["far", "near"]


def test_one_that_has_become_another_query_is_refused(spark, data):
    run(spark, script(["near", "counts"]))
    changed = {**QUERIES, "counts": ("json", "SELECT k, COUNT(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY k")}
    with pytest.raises(SetupError, match="of 'counts' and others, belongs to another query") as refused:
        run(spark, script(["near", "counts"], queries=changed))
    assert "with a new checkpoint" in str(refused.value)
    with pytest.raises(SetupError, match=r"near says share = 'no', but .*together-1 was begun with others"):
        run(spark, script(["near", "counts"], "OPTIONS (share = 'no')"))


def test_an_error_says_which_of_the_queries_it_is_of(spark, data):
    broken = {**QUERIES, "near": ("csv", "SELECT CAST('x' || CAST(k AS TEXT) AS BIGINT) AS x FROM a")}
    with pytest.raises(DataError, match=r"near: .*x0"):
        run(spark, script(["near", "counts"], queries=broken))


def test_a_batch_is_left_out_of_joins_that_keep_rows_once_only_together(spark, data, apart, monkeypatch):
    commit, failing = SinkWriter._commit, [True]

    def fails(self: SinkWriter, number: int, answer: object) -> None:
        if self._name == "far" and number == 1 and failing:
            failing.clear()
            raise SinkError("far is full")
        commit(self, number, answer)  # type: ignore[arg-type]

    monkeypatch.setattr(SinkWriter, "_commit", fails)
    rest()
    with pytest.raises(SinkError, match="far is full"):
        run(spark, script())
    with pytest.raises(SetupError, match="left out of near and far only together, as their rows are kept once") as no:
        run(spark, script(), skip_batches=["far:1"])
    assert "--skip-batch 'near:1' --skip-batch 'far:1'" in str(no.value)
    ended = run(spark, script(), flush=True, skip_batches=["near:1", "far:1"])
    skipped = {one.job.name: one.metrics.skipped_batch_rows for one in ended}
    assert skipped == {"near": 40, "far": 40, "counts": 0, "even": 0, "unmatched": 0}
    others = ["counts", "even", "unmatched"]
    assert answers(others) == {name: apart[name] for name in others}


def test_a_savepoint_is_taken_of_each_of_those_that_keep_rows_once(spark, data, apart):
    """Each goes on from there by itself, in another number of buckets."""
    declared = re.sub(
        r"source='parquet', path='(.)'(.*), maxFiles.*'1'", rf"source='files', path='file://{Path.cwd()}/\1'\2", STREAMS
    )
    text = declared.replace("source='files'", "source='files', format='parquet'") + "\n".join(
        f"CREATE SINK {name} WITH (sink='files', format='parquet', "
        f"path='file://{Path.cwd()}/out/{name}', mode='append') AS {QUERIES[name][1]};"
        for name in ("near", "far")
    )
    Path("script.sql").write_text(text)
    run(spark, text, script="script.sql")
    rest()
    taken = CliRunner().invoke(app, ["savepoint", "ck", "saved"])
    assert taken.exit_code == 0, taken.output
    run(spark, text, checkpoint="new", savepoint="saved", flush=True, buckets=3)
    for name in ("near", "far"):
        parts = (bag(pq.read_table(path)) for path in Path(f"out/{name}").glob("*.parquet"))
        assert sum(parts, Counter()) == apart[name]
    assert sorted(one.name for one in Path("new").iterdir()) == ["far", "near"]


def test_a_record_that_cannot_be_read_and_a_late_row_go_to_their_sinks_once(spark, data):
    for path in Path("a").iterdir():
        path.unlink()
    good = [{"k": k, "ts": f"1970-01-01 00:00:{k:02}"} for k in range(10, 30)]
    late = {"k": 1, "ts": "1970-01-01 00:00:02"}
    for number, lines in enumerate([good, [late, {"k": "x", "ts": "1970-01-01 00:00:31"}]]):
        Path(f"a/{number}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    streams = STREAMS.replace(
        "source='parquet', path='a'", "source='json', path='a', on_late='sink odd', on_bad='sink odd'"
    )
    odd = "CREATE SINK odd WITH (sink='json', path='out/odd');"
    text = odd + streams + script(["near", "far", "counts", "even"]).removeprefix(STREAMS)
    near, far, counts, _ = run(spark, text)
    found = [json.loads(line) for path in Path("out/odd").glob("part-*") for line in path.open()]
    assert sorted(
        (one["k"], one["reason"], one["_stream"] or one["stream"]) for one in found if one["k"] is not None
    ) == [(1, None, "a")]
    assert [one["reason"] for one in found if one["k"] is None] == ["wrong type"]
    assert len(found) == 2
    assert (counts.metrics.late_rows, counts.metrics.bad_rows) == (1, 1)
    assert near.metrics.bad_rows == far.metrics.bad_rows == 1


def test_twenty_queries_end_as_surely_as_one(spark, data, apart):
    rest()
    text = STREAMS + "\n".join(
        f"CREATE SINK q{n} WITH (sink='csv', path='out/q{n}') AS SELECT a.k, a.ts AS at, b.ts AS bt FROM a, b "
        f"WHERE a.k = b.k AND a.k >= {n} WINDOW = 1 SECOND;"
        for n in range(20)
    )
    ended = run(spark, text)
    assert len(ended) == 20
    expected = [sum(n for (k, *_), n in apart["near"].items() if k >= least) for least in range(20)]  # type: ignore[operator]
    assert [one.metrics.results for one in ended] == expected
    assert len({one.query for one in ended}) == 1
