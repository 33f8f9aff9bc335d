"""`watersmeet replace` over a checkpoint on Spark: what is in a sink is what the one query gave of the first rows, and
the other of the rest, whatever was killed on the way."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from watersmeet.cli.commands import app
from watersmeet.errors import RunError, SetupError
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.hosts.spark.checkpoints import replacing
from watersmeet.hosts.spark.checkpoints.checkpoint import CommittedBatches
from watersmeet.hosts.spark.run import OnBatch, QueryError, SparkRun
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

pytestmark = pytest.mark.slow

Queries = Mapping[str, str]
Bags = dict[str, Counter[str]]
BEFORE = {
    "wider": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS",
    "narrower": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS",
    "shown": "SELECT a.k, a.x FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS",
    "unmatched": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 6 SECONDS",
    "counted": "SELECT a.k, a.x, b.x AS y FROM a [PARTITION BY k ROWS 1], b [RANGE 5 SECONDS] WHERE a.k = b.k",
    "filtered": "SELECT k, x FROM a WHERE x % 2 = 0",
    "stays": "SELECT b.k, b.x FROM b, a WHERE a.k = b.k WINDOW = 1 SECOND",
}
NOW = {
    "wider": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS",
    "narrower": "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS",
    "shown": "SELECT a.k, a.x, b.w AS w FROM a, b WHERE a.k = b.k WINDOW = 9 SECONDS",
    "unmatched": "SELECT a.k, a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k AND a.x % 3 = b.x % 3 WINDOW = 6 SECONDS",
    "counted": "SELECT a.k, a.x, b.x AS y FROM a [PARTITION BY k ROWS 2], b [RANGE 20 SECONDS] WHERE a.k = b.k",
    "filtered": "SELECT p.k, p.x, q.x AS y FROM a p, a q WHERE p.k = q.k AND p.x < q.x WINDOW = 6 SECONDS",
    "stays": BEFORE["stays"],
}


def script(queries: Queries, options: str = "") -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, x BIGINT, w STRING, ts TIMESTAMP) WITH (source = 'json', path = '{name}', "
        "time = 'ts', lateness = '2 seconds', maxFilesPerTrigger = '1');\n"
        for name in "ab"
    )
    return streams + "".join(
        f"CREATE SINK {name} WITH (sink = 'json', path = 'out/{name}', mode = 'append') AS {query} {options};\n"
        for name, query in queries.items()
    )


def write(before: Queries, now: Queries, options: str = "") -> None:
    Path("old.sql").write_text(script(before, options))
    Path("new.sql").write_text(script(now, options))


def arrive(number: int) -> None:
    """Rows of fifteen seconds, a little out of order, none late. Names of files are no order in which they came."""
    for name, many in (("a", 3), ("b", 4)):
        Path(name).mkdir(exist_ok=True)
        rows = []
        for i in range(15 * number, 15 * number + 15):
            at = i - (1 if i % 5 == 3 else 0)
            rows.append({"k": i % many, "x": i, "w": f"w{i % 7}", "ts": f"2026-01-01 00:{at // 60:02d}:{at % 60:02d}"})
        draft = Path(f".{name}")
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
        draft.rename(Path(name) / f"{9 - number}.json")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arrive(0)
    arrive(1)


def rest() -> None:
    arrive(2)
    arrive(3)


def run(spark: SparkSession, file: str, *, flush: bool = False, on_batch: OnBatch | None = None) -> None:
    script = str(Path(file).absolute())
    settings = RunSettings(checkpoint="ck", available_now=True, buckets=2, script=script, flush=flush)
    SparkRun(spark, Path(file).read_text(), settings).run(on_batch)


def given(queries: Queries, folder: str = "out") -> Bags:
    parts = {name: Path(folder, name).glob("part-*") for name in queries}
    return {
        name: Counter(line for one in some for line in one.read_text().splitlines()) for name, some in parts.items()
    }


def in_process(queries: Queries, folder: str, *, flush: bool = False) -> Bags:
    """All that queries answer to what is there, in a place of their own."""
    text = script(queries, "OPTIONS (share = 'no')").replace("'out/", f"'{folder}/")
    settings = RunSettings(available_now=True, flush=flush)
    jobs = DurableJobs(read_script(text, opener=open_to_go_on), f"{folder}.ck", settings)
    jobs.start()
    jobs.wait(every_s=0.02)
    return given(queries, folder)


def replace(*more: str) -> str:
    done = CliRunner().invoke(app, ["replace", "ck", "new.sql", *more])
    if done.exception is not None:
        raise done.exception
    return done.output


ALONE = ("counted", "filtered")


@pytest.mark.parametrize("names", [tuple(NOW), ALONE])
def test_each_row_is_answered_by_one_of_the_two(spark: SparkSession, names: tuple[str, ...]) -> None:
    """Of queries that Spark runs as one, and of those that run by themselves."""
    before, now = ({name: one[name] for name in names} for one in (BEFORE, NOW))
    write(before, now, "OPTIONS (share = 'no')" if names == ALONE else "")
    first, then = in_process(before, "first"), in_process(now, "then")
    run(spark, "old.sql")
    assert given(before) == first
    said = replace()
    changed = [name for name in names if name != "stays"]
    assert [name for name in names if f"{name} is another query now: batches up to 1" in said] == changed
    assert given(before) == first
    rest()
    run(spark, "new.sql")
    run(spark, "new.sql", flush=True)
    whole = in_process(now, "whole", flush=True)
    for name, found in given(now).items():
        assert first[name] <= found, name
        assert found - first[name] == whole[name] - then[name], name
    assert not list(Path("ck").rglob("watersmeet-begins"))


class KilledError(BaseException):
    pass


def killed(*_: object, **__: object) -> None:
    raise KilledError


def failing(*_: object, **__: object) -> None:
    raise OSError("no more")


def test_the_place_is_taken_by_one_write_and_what_was_answered_at_the_end_of_a_run_stays_answered(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"unmatched": NOW["unmatched"]}
    before = {"unmatched": NOW["unmatched"].replace("% 3 WINDOW", "% 3 AND a.x % 2 = b.x % 2 WINDOW")}
    write(before, now)
    told: list[str] = []

    def ask(*_: object) -> None:
        with pytest.raises(RunError) as refused:
            replace()
        told.append(refused.value.message)

    run(spark, "old.sql", on_batch=ask)
    assert told == [f"a run on Spark is using the checkpoint {Path('ck').absolute()}"] * 2
    with monkeypatch.context() as patch:  # killed before it has the place
        patch.setattr(replacing, "take_place", killed)
        with pytest.raises(KilledError):
            replace()
    arrive(2)
    with monkeypatch.context() as patch:  # killed between the sink's commit and Spark's
        patch.setattr(CommittedBatches, "add", failing)
        with pytest.raises(QueryError):
            run(spark, "old.sql")
    with pytest.raises(RunError, match="killed in the middle of a batch, of which the sink has answers already"):
        replace()
    run(spark, "old.sql", flush=True)
    first = in_process(before, "first", flush=True)
    assert given(before) == first
    then = in_process(now, "then", flush=True)
    assert "unmatched is another query now: batches up to" in replace("--compare", "1 minute")
    for words in (["replace", "ck", "new.sql", "--script", "old.sql"], ["savepoint", "ck", "out.savepoint"]):
        refused = CliRunner().invoke(app, words)
        assert isinstance(refused.exception, RunError)
        assert "another query has taken the place of unmatched" in refused.exception.message
    with monkeypatch.context() as patch:  # the first start is killed in the middle of letting go
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KilledError):
            run(spark, "new.sql")
    with pytest.raises(SetupError, match="is to begin with what a savepoint says of another query"):
        run(spark, "old.sql")
    arrive(3)
    run(spark, "new.sql")
    run(spark, "new.sql", flush=True)
    in_process(now, "then")
    whole = in_process(now, "then", flush=True)
    found = given(now)["unmatched"]
    assert found - first["unmatched"] == whole["unmatched"] - then["unmatched"]
    assert found.total() > first["unmatched"].total()
