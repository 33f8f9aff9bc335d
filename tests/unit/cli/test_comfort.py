"""The command line where people and programs meet it: stdin, Tab, JSON lines, and a terminal of 80 columns."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.unit.cli.test_commands import JOIN, STREAMS, call, data, run
from watersmeet.runtime.metrics import METRICS, Metrics
from watersmeet.runtime.progress import EventClock, LineProgress

__all__ = ["data"]

ROOT = Path(__file__).parents[3]
DAY_US = 86_400_000_000


# ---- a script from stdin --------------------------------------------------------------------------------------------


def from_stdin(monkeypatch: pytest.MonkeyPatch, script: bytes, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(script)))
    return call(*arguments)


@pytest.mark.parametrize(
    ("command", "told"),
    [(("run", "-", "--engine", "local", "-q"), "49\t"), (("explain", "-"), "join 2 inputs"), (("check", "-"), "equal")],
)
def test_a_dash_stands_for_stdin(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str], told: str
) -> None:
    assert from_stdin(monkeypatch, f"\ufeff{STREAMS}{JOIN};".encode(), *command) == 0
    assert told in capsys.readouterr().out


def test_what_is_wrong_with_stdin_is_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert from_stdin(monkeypatch, b"", "run", "-", "--engine", "local") == 2
    assert "the script has nothing to run" in capsys.readouterr().err
    assert from_stdin(monkeypatch, b"\xff\xfe", "explain", "-") == 2
    assert "stdin cannot be read as text" in capsys.readouterr().err


def test_a_script_that_is_not_there_is_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", "nope.sql") == 2
    assert "nope.sql does not exist\nhint: name a file" in capsys.readouterr().err
    assert call("explain", ".") == 2
    assert ". is a folder" in capsys.readouterr().err


# ---- JSON lines -----------------------------------------------------------------------------------------------------

# As docs/command_line.md has it.
SCHEMA = {
    "phase": {"what", "state"},
    "progress": {"query", "seconds", "metrics"},
    "notice": {"text"},
    "warning": {"text", "code"},
    "serving": {"url", "queries"},
    "done": {"query", "seconds", "metrics"},
    "error": {"text", "hint", "shown", "exit_code"},
}


def test_the_page_of_the_command_line_names_every_event_field_and_command() -> None:
    from watersmeet.cli.commands import app

    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    lines = {event: line for line in text.splitlines() for event in SCHEMA if line.startswith(f"| `{event}`")}
    assert [(event, one) for event, names in SCHEMA.items() for one in names if f"`{one}`" not in lines[event]] == []
    names = [one.name or (one.callback.__name__ if one.callback else "") for one in app.registered_commands]
    assert [name for name in names if f"`watersmeet {name}" not in text] == []


def events_of(told: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in told.splitlines()]
    for one in events:
        assert SCHEMA[one["event"]] <= set(one) - {"event", "time"}, one
        assert set(one) <= SCHEMA[one["event"]] | {"event", "time", "seconds", "batch"}, one
    return events


def test_json_tells_all_of_a_run_in_objects(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{STREAMS}{JOIN};", "--json") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "k\tts"
    events = events_of(err)
    assert {"phase", "progress", "done"} <= {one["event"] for one in events}
    begun = [one["what"] for one in events if one.get("state") == "begin"]
    assert begun == [one["what"] for one in events if one.get("state") == "end"]
    done = events[-1]
    assert (done["event"], done["query"]) == ("done", "query 1")
    assert done["metrics"]["rows_in"] == 100
    assert done["metrics"]["watermark_us"] is None  # the input has ended
    assert set(done["metrics"]) <= {*METRICS, "exact_results", "recall"}


def test_json_tells_errors_and_warnings_too(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{STREAMS}SELECT nothing FROM a;", "--json") == 2
    (*_, error) = events_of(capsys.readouterr().err)
    assert error["event"] == "error"
    assert (error["exit_code"], error["text"]) == (2, "there is no column nothing")
    assert "^^^^^^^" in error["shown"]
    Path("b.csv").write_text("k,ts\n1,1970-01-01 00:00:40\n2,1970-01-01 00:00:02\n")
    late = "CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (path='b.csv', time='ts', read='arrival');"
    assert run(f"{late} SELECT k FROM b [ROWS 1] GROUP BY k;", "--json", "--batch-rows", "1") == 0
    told = events_of(capsys.readouterr().err)
    assert [one["code"] for one in told if one["event"] == "warning"] == ["late_rows"], told
    assert told[-1]["metrics"]["late_by_stream"] == {"b": 1}


def test_a_command_leaves_the_log_as_it_was(data: Path) -> None:
    log = logging.getLogger("watersmeet")
    before = (list(log.handlers), log.propagate)
    assert run(f"{STREAMS}{JOIN};", "--json") == 0
    assert (list(log.handlers), log.propagate) == before


def test_json_does_not_go_with_quiet(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{STREAMS}{JOIN};", "--json", "--quiet") == 2
    assert "--json does not go with --quiet" in events_of(capsys.readouterr().err)[-1]["text"]


# ---- progress of days -----------------------------------------------------------------------------------------------


def test_a_run_over_days_shows_dates_from_the_second_day_on() -> None:
    out, now = io.StringIO(), [0.0]
    with LineProgress(out, clock=lambda: now[0]) as progress:
        for number, us in enumerate((10 * 3_600_000_000, DAY_US + 1, 3 * DAY_US)):
            now[0] = 10.0 * (number + 1)
            progress.update(Metrics(rows_in=987_654_321, late_rows=99_999, results=88_888_888, watermark_us=us))
    lines = out.getvalue().splitlines()
    assert [line.partition(", at ")[2].partition(", kept")[0] for line in lines] == [
        "10:00:00", "1970-01-02 00:00", "1970-01-04 00:00",
    ]  # fmt: skip
    assert max(map(len, lines)) <= 80


def test_a_run_of_one_day_shows_no_date() -> None:
    clock = EventClock()
    assert [clock(us) for us in (DAY_US, DAY_US + 3_600_000_000)] == ["00:00:00", "01:00:00"]


# ---- Tab ------------------------------------------------------------------------------------------------------------


def test_tab_offers_commands_options_values_and_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def completions(words: str) -> list[str]:
        """What bash would offer for a line."""
        monkeypatch.setenv("_WATERSMEET_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        call()
        return capsys.readouterr().out.split()

    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkout.sql").touch()
    (tmp_path / "checkout.csv").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.sql").touch()
    assert completions("watersmeet ch") == ["check"]
    assert completions("watersmeet run --en") == ["--engine"]
    assert completions("watersmeet run --engine ") == ["local", "spark"]
    assert completions("watersmeet run che") == ["checkout.sql"]
    assert completions("watersmeet explain sub/m") == ["sub/more.sql"]
    assert completions("watersmeet lab run K05-E4") == ["K05-E4"]


def test_the_script_that_makes_a_shell_complete_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(typer.main, "get_command", typer.main.get_command.__wrapped__)  # that is read where it is made
    assert call("--show-completion", "bash") == 0
    assert "complete -o default -F _watersmeet_completion watersmeet" in capsys.readouterr().out


# ---- 80 columns -----------------------------------------------------------------------------------------------------

COMMANDS = [
    "",
    "run",
    "explain",
    "advise",
    "complete",
    "check",
    "demo",
    "state",
    "state show",
    "lab",
    "lab list",
    "lab run",
]
COMMANDS += ["state size", "lab report", "lab workloads", "lab make", "lab orders", "lab associativity", "lab static"]


def assert_fits(told: str) -> None:
    assert told
    assert [line for line in told.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    call(*command.split(), "--help")
    assert_fits(capsys.readouterr().out)


@pytest.mark.parametrize(
    "command", ["lab list", "lab workloads", "lab workloads retail nexmark zipf", "lab orders A:1,10,5 B:2,10,5"]
)
def test_lists_fit_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call(*command.split()) == 0
    assert_fits(capsys.readouterr().out)


def test_what_a_run_tells_fits_80_columns(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(f"{STREAMS}{JOIN};") == 0
    told = capsys.readouterr().err
    assert_fits(told)
    assert "query 1 done: 100 rows in" in told


# ---- on Spark, without Spark ----------------------------------------------------------------------------------------


class OneBatch:
    """A run on Spark that ends after one batch."""

    def __init__(self, spark: object, text: str, choices: object) -> None:
        from watersmeet.runtime.script import read_script

        self.jobs, self.explained, self.buckets = read_script(text), list[object](), 1

    def request_stop(self) -> None:
        raise AssertionError("nobody asks for it")

    def run(self, tell: Any, boards: Any = None) -> list[Any]:
        from watersmeet.hosts.spark.progress.running_query import RunningQuery
        from watersmeet.hosts.spark.progress.tally import Batch

        batch = Batch(0, 1.5, {"rows_in": 100, "results": 7, "watermark_us": 3_723_000_000})
        (job,) = self.jobs
        running = RunningQuery(job, None, "ck")  # type: ignore[arg-type]
        running.tally.total.add(batch.values)
        running.tally.last = batch
        tell(running, batch)
        return [running]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_run_on_spark_tells_every_batch(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    pytest.importorskip("pyspark")
    from watersmeet.cli import run_on_spark
    from watersmeet.cli.voice import speak
    from watersmeet.runtime.run_settings import RunSettings

    monkeypatch.setattr(run_on_spark, "SparkRun", OneBatch)
    monkeypatch.setattr(run_on_spark, "SparkHost", lambda spark, buckets: None)
    speak(as_json=as_json)
    try:
        assert not run_on_spark.run_command(None, f"{STREAMS}{JOIN};", RunSettings(available_now=True))  # type: ignore[arg-type]
    finally:
        speak()
    told = capsys.readouterr().err
    if not as_json:
        assert "no lateness is said for a, so it is 0" in " ".join(told.split())
        assert "query 1 done: 100 rows in, 7 results" in told
        return
    progress, done = [one for one in map(json.loads, told.splitlines()) if one["event"] in ("progress", "done")]
    assert progress["batch"] == {"number": 0, "seconds": 1.5, "rows_in": 100, "results": 7}
    assert progress["metrics"]["watermark_us"] == 3_723_000_000
    assert (done["query"], done["metrics"]["results"]) == ("query 1", 7)
