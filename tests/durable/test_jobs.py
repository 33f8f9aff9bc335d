"""The queries of a script side by side: if one fails, all of them end, and somebody is told."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import pytest

import watersmeet as wm
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.io.connectors.contract import SourceBatch
from watersmeet.io.connectors.offset_reader import OffsetReader
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script
from watersmeet.warning import WatersmeetWarning

LONG_S = 60.0


@pytest.mark.parametrize("failing", ["a", "b"])
def test_a_query_that_fails_ends_the_others_whichever_it_is(tmp_path: Path, failing: str) -> None:
    script = ""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        script += f"""
            CREATE STREAM {name} (k BIGINT, ts TIMESTAMP)
            WITH (source = 'json', path = '{tmp_path}/{name}', time = 'ts');
            CREATE SINK of_{name} WITH (sink = 'json', path = '{tmp_path}/of_{name}') AS SELECT k FROM {name};
        """
    runs = DurableJobs(read_script(script, opener=open_to_go_on), tmp_path / "state", RunSettings())
    runs.start()
    told: list[str] = []

    def wait() -> None:
        try:
            runs.wait(every_s=5.0)  # it fails and ends while it is waited for
        except Exception as error:
            told.append(str(error))

    waiting = Thread(target=wait, daemon=True)
    waiting.start()
    (tmp_path / "draft").write_text("nonsense\n")
    (tmp_path / "draft").rename(tmp_path / failing / "1.json")
    waiting.join(LONG_S)
    still_there = waiting.is_alive()
    runs.request_stop()
    assert not still_there
    assert all(run.has_ended for run in runs.runs.values())
    assert "1.json cannot be read" in told[0]


def test_warnings_say_which_of_several_queries_they_are_of(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    rows = [f'{{"k": 1, "ts": "2026-01-01 00:00:{second:02d}"}}' for second in (30, 10)]
    (tmp_path / "a" / "1.json").write_text("\n".join(rows) + "\n")
    script = f"""
        CREATE STREAM a (k BIGINT, ts TIMESTAMP)
        WITH (source = 'json', path = '{tmp_path}/a', time = 'ts', lateness = '0 seconds', read = 'arrival');
    """
    for name in ("paid", "busy"):
        script += f"CREATE SINK {name} WITH (sink = 'json', path = '{tmp_path}/{name}') AS SELECT k FROM a;"
    told: list[str] = []

    def tell(warning: Warning) -> None:
        assert isinstance(warning, WatersmeetWarning)
        told.append(warning.message)

    settings = RunSettings(available_now=True)
    runs = DurableJobs(read_script(script, opener=open_to_go_on), tmp_path / "state", settings, tell=tell)
    runs.start()
    runs.wait()
    late = sorted(one.partition(": ")[0] for one in told if "came too late" in one)
    assert late == ["busy", "paid"]


def test_queries_of_a_script_read_a_source_once_and_go_on_each_from_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()

    def put(number: int) -> None:
        lines = [f'{{"k": {10 * number + one}, "ts": "2026-01-01 00:00:{number:02d}"}}\n' for one in range(10)]
        (tmp_path / "draft").write_text("".join(lines))
        (tmp_path / "draft").rename(tmp_path / "a" / f"{number}.json")

    polled: list[int] = []
    poll = OffsetReader.poll

    def counted(self: OffsetReader, most_rows: int) -> SourceBatch | None:
        batch = poll(self, most_rows)
        polled.append(0 if batch is None else batch.rows.num_rows)
        return batch

    monkeypatch.setattr(OffsetReader, "poll", counted)
    declared = f"""
        CREATE STREAM a (k BIGINT, ts TIMESTAMP)
        WITH (source = 'json', path = '{tmp_path}/a', time = 'ts', lateness = '1 second');
    """
    sinks = {
        name: f"CREATE SINK {name} WITH (sink = 'json', path = '{tmp_path}/{name}') AS " for name in ("x", "y", "z")
    }
    texts = {
        "x": "SELECT k FROM a;",
        "y": "SELECT k FROM a WHERE k >= 0;",
        "z": "SELECT k FROM a OPTIONS (share = 'no');",
    }

    def run(*names: str, state: str = "state") -> int:
        """How many rows were read."""
        polled.clear()
        script = declared + "".join(sinks[name] + texts[name] for name in names)
        jobs = read_script(script, opener=open_to_go_on)
        runs = DurableJobs(jobs, tmp_path / state, RunSettings(available_now=True))
        runs.start()
        runs.wait()
        return sum(polled)

    def given(name: str) -> list[int]:
        files = (tmp_path / name).glob("*.json")
        return sorted(json.loads(line)["k"] for file in files for line in file.read_text().splitlines())

    put(0)
    put(1)
    assert run("x", "y") == 20
    put(2)
    assert run("x", "y", "z") == 10 + 30
    assert given("x") == given("y") == given("z") == list(range(30))
    put(3)
    run("x", state="state/x")  # y stays behind
    put(4)
    assert run("x", "y") == 10 + 20
    assert given("x") == given("y") == list(range(50))


def test_joins_that_share_memory_keep_their_first_parts(tmp_path: Path) -> None:
    """What a repeated batch gives goes by them."""
    for name in "ab":
        (tmp_path / name).mkdir()
        times = [f"{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}" for n in range(20_000)]
        rows = [f'{{"k": {n % 50}, "ts": "2026-01-01 {time}"}}' for n, time in enumerate(times)]
        (tmp_path / name / "1.json").write_text("\n".join(rows) + "\n")
    script = "SET memory = '300 rows';" + "".join(
        f"CREATE STREAM {one} (k BIGINT, ts TIMESTAMP) WITH (source = 'json', path = '{tmp_path}/{one}', time = 'ts');"
        for one in "ab"
    )
    for name, priority in (("one", 1), ("other", 2)):
        script += f"""
            CREATE SINK {name} WITH (sink = 'json', path = '{tmp_path}/{name}') AS
            SELECT a.k FROM a [RANGE 10 MINUTES], b [RANGE 10 MINUTES] WHERE a.k = b.k
            OPTIONS (shed = 'rand', priority = {priority});
        """
    runs = DurableJobs(read_script(script, opener=open_to_go_on), tmp_path / "state", RunSettings(available_now=True))
    runs.start()
    runs.wait()
    metrics = {name: run.metrics() for name, run in runs.runs.items()}
    assert {name: one["memory_rows"] for name, one in metrics.items()} == {"one": 100, "other": 200}
    # Streams are read in step, however large their files are: one that was far ahead would fill the memory.
    assert 0.8 * expected_recall(tmp_path, 100) < metrics["one"]["recall"] < 1


def expected_recall(folder: Path, rows: int) -> float:
    session = wm.Session()
    for name in "ab":
        session.stream(name, str(folder / name / "1.json"), time="ts")
    query = session.sql(
        "SELECT a.k FROM a [RANGE 10 MINUTES], b [RANGE 10 MINUTES] WHERE a.k = b.k "
        f"OPTIONS (memory = '{rows} rows', shed = 'rand')"
    )
    query.to_arrow()
    recall: float = query.metrics()["recall"]
    return recall
