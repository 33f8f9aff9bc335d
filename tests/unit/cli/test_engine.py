"""Where queries run: the command line says it, else the script, else the environment, else what is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import JOIN, ROWS, STREAMS, call, data
from watersmeet import Session
from watersmeet.errors import BindError
from watersmeet.runtime.script import read_script

__all__ = ["data"]

LOCAL, SPARK = "SET engine = 'local';\n", "SET engine = 'spark';\n"
IN_PROCESS = f"{2 * ROWS} rows in, {ROWS} results"


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where commands went: Spark is not started."""
    went: list[str] = []
    monkeypatch.delenv("WATERSMEET_ENGINE", raising=False)
    monkeypatch.setattr("watersmeet.cli.run._run_on_spark", lambda *_: went.append("spark"))
    monkeypatch.setattr("watersmeet.cli.run._run_in_process", lambda *_: went.append("local"))
    monkeypatch.setattr("watersmeet.cli.commands._check_on_spark", lambda *_: went.append("spark") or True)
    monkeypatch.setattr("watersmeet.cli.commands._check", lambda *_: went.append("local") or True)
    monkeypatch.setattr("watersmeet.cli.commands._complete_on_spark", lambda *_: went.append("spark"))
    monkeypatch.setattr("watersmeet.cli.complete.complete_script", lambda *_, **__: went.append("local"))
    monkeypatch.setattr("watersmeet.demo.run_demo", lambda rows, seed, keep, engine: went.append(engine) or 0)
    return went


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else find_spec(name))


def asked(command: str, script: str, *arguments: str) -> int:
    if command == "demo":
        return call("demo", *arguments)
    Path("script.sql").write_text(script + STREAMS + JOIN)
    return call(command, "script.sql", *arguments)


@pytest.mark.parametrize("command", ["run", "check", "complete"])
@pytest.mark.parametrize(
    ("typed", "script", "environment", "chosen"),
    [
        (["--engine", "spark"], LOCAL, "local", "spark"),
        (["--engine", "local"], SPARK, "spark", "local"),
        ([], LOCAL, "spark", "local"),
        ([], SPARK, "local", "spark"),
        ([], "set ENGINE = Local;", "spark", "local"),
        ([], "", "local", "local"),
        ([], "", "Spark", "spark"),
        ([], "", "", None),
    ],
)
def test_the_command_line_wins_over_the_script_and_that_over_the_environment(
    data: Path, hosts: list[str], monkeypatch: pytest.MonkeyPatch,
    command: str, typed: list[str], script: str, environment: str, chosen: str | None,
) -> None:  # fmt: skip
    pytest.importorskip("pyspark")
    monkeypatch.setenv("WATERSMEET_ENGINE", environment)
    assert asked(command, script, *typed) == 0
    assert hosts == [chosen or ("local" if command == "check" else "spark")]


def test_the_demo_goes_by_the_environment_too(hosts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERSMEET_ENGINE", "local")
    assert call("demo") == 0
    assert hosts == ["local"]


def test_a_script_that_says_it_runs_in_process(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("run", LOCAL) == 0
    shown = capsys.readouterr()
    assert IN_PROCESS in shown.err
    assert len(shown.out.splitlines()) == ROWS + 1


@pytest.mark.parametrize("command", ["run", "complete", "demo"])
def test_without_spark_it_runs_in_process_and_a_line_says_so(
    data: Path, hosts: list[str], without_spark: None, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert asked(command, "") == 0
    assert hosts == ["local"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "Spark is not installed (watersmeet[spark] brings it): this runs in-process"


def test_who_has_said_local_hears_nothing_of_spark(
    data: Path, hosts: list[str], without_spark: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked("run", LOCAL) == 0
    assert asked("check", "") == 0
    assert hosts == ["local", "local"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("script", "environment"), [(SPARK, ""), ("", "spark")])
def test_who_has_said_spark_does_not_get_another_engine(
    data: Path, without_spark: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    script: str, environment: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("WATERSMEET_ENGINE", environment)
    assert asked("run", script) == 2
    assert "Spark is not installed\nhint: pip install 'watersmeet[spark]'" in capsys.readouterr().err


def test_a_wrong_name_is_refused_with_what_would_do(
    data: Path, hosts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked("run", "SET engine = 'flink';") == 2
    assert "write SET engine = 'local' or SET engine = 'spark'" in capsys.readouterr().err
    assert asked("run", "SET threads = 4;") == 2
    assert "SET engine = 'local' says where a script runs" in capsys.readouterr().err
    assert asked("run", LOCAL + SPARK) == 2
    assert "engine is set twice" in capsys.readouterr().err
    monkeypatch.setenv("WATERSMEET_ENGINE", "flink")
    assert asked("run", "") == 2
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "WATERSMEET_ENGINE" in told
    assert "'flink' is not one of 'local', 'spark'" in told
    assert hosts == []


def test_who_said_the_engine_is_told_with_options_that_it_does_not_read(
    data: Path, hosts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked("run", LOCAL, "--buckets", "4") == 2
    assert capsys.readouterr().err.splitlines() == [
        "--buckets goes with --engine spark: in-process the state is not cut into parts",
        "hint: leave it out; SET engine in the script says local",
    ]
    monkeypatch.setenv("WATERSMEET_ENGINE", "local")
    assert asked("run", "", "--buckets", "4") == 2
    assert "hint: leave it out; WATERSMEET_ENGINE says local" in capsys.readouterr().err
    assert hosts == []


def test_a_session_runs_where_it_is_and_refuses_a_script_that_says_otherwise(data: Path) -> None:
    session = Session()
    (outcome,) = session.run(LOCAL + STREAMS + JOIN)
    assert outcome.answer is not None
    assert outcome.answer.num_rows == ROWS
    for run in (session.run, session.sql):
        with pytest.raises(BindError, match="here queries run in this process") as raised:
            run(SPARK + "SELECT k FROM a [RANGE 1 SECOND]")
        assert "SET engine = 'spark'" in str(raised.value)


def test_what_is_only_asked_of_a_query_is_answered_wherever_it_runs(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked("explain", SPARK) == 0
    assert "join 2 inputs" in capsys.readouterr().out
    (job,) = read_script(SPARK + STREAMS + JOIN)
    assert job.name == "query 1"


def test_a_server_is_in_process_and_refuses_a_script_that_says_otherwise(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("starlette")
    assert asked("serve", SPARK) == 2
    assert "here queries run in this process" in capsys.readouterr().err
