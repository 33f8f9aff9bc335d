"""The command line: scripts run, errors are sentences on stderr, exit codes say whose fault it was."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from tests.forked import watersmeet
from watersmeet.cli import commands as cli
from watersmeet.cli.voice import JsonLines, Sentences
from watersmeet.runtime.interrupt import Interrupts

SECOND = 1_000_000
ROWS = 50


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two streams of one row a second, as the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        times = pa.array([k * SECOND for k in range(ROWS)], pa.timestamp("us"))
        pa_parquet.write_table(pa.table({"k": pa.array(range(ROWS), pa.int64()), "ts": times}), f"{name}.parquet")
    return tmp_path


STREAMS = """
CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (source='parquet', path='a.parquet', time='ts');
CREATE STREAM b WITH (path='b.parquet', time='ts', lateness='2 seconds');
"""
JOIN = "SELECT a.k, b.ts FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS"


def run(script: str, *arguments: str, command: str = "run") -> int:
    """Run a script in this process and give the exit code."""
    Path("script.sql").write_text(script)
    engine = ("--engine", "local") if command == "run" and "--engine" not in arguments else ()
    return call(command, "script.sql", *engine, *arguments)


def call(*arguments: str) -> int:
    before = sys.argv
    sys.argv = ["watersmeet", *arguments]
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.argv = before
    return 0


def test_a_bare_select_prints_its_rows(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(STREAMS + JOIN) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "k\tts"
    assert len(shown.out.splitlines()) == ROWS + 1
    assert f"query 1 done: {2 * ROWS} rows in, {ROWS} results" in shown.err


def test_a_sink_gets_the_rows(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"{STREAMS} CREATE SINK pairs WITH (sink='parquet', path='out.parquet') AS {JOIN};"
    assert run(script, "--quiet", "--batch-rows", "7") == 0
    assert sorted(pa_parquet.read_table("out.parquet")["k"].to_pylist()) == list(range(ROWS))
    assert capsys.readouterr() == ("", "")
    assert run(script) == 1
    assert "out.parquet already exists" in capsys.readouterr().err


def test_several_queries_run_in_order(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"{STREAMS} CREATE SINK one WITH (path='1.csv') AS {JOIN}; CREATE SINK two WITH (path='2.json') AS {JOIN};"
    assert run(script) == 0
    assert len(Path("1.csv").read_text().splitlines()) == ROWS + 1
    assert len(Path("2.json").read_text().splitlines()) == ROWS


@pytest.mark.parametrize(
    ("script", "code", "part"),
    [
        ("SELEC 1", 2, "did you mean SELECT?"),
        (STREAMS + "SELECT a.zz FROM a [RANGE 1 SECOND]", 2, "zz"),
        (STREAMS, 2, "nothing to run"),
        ("CREATE STREAM a WITH (path='a.parquet'); SELECT a.k FROM a", 2, "add time = 'ts'"),
        ("CREATE STREAM a WITH (path='a.parquet', time='k'); SELECT a.k FROM a", 2, "not a timestamp"),
        ("CREATE STREAM a WITH (path='a.parquet', time='ts', lateness='soon'); SELECT a.k FROM a", 2, "^^^^"),
        (STREAMS + STREAMS, 2, "'a' is declared twice"),
        ("CREATE STREAM a WITH (path='none.parquet', time='ts'); SELECT a.k FROM a", 1, "there is no file or folder"),
        (STREAMS + "SELECT a.k * 9223372036854775807 AS x FROM a", 1, "does not fit in BIGINT"),
        (f"{STREAMS} CREATE SINK s WITH (sink='rabbit') AS {JOIN}", 1, "there is no sink 'rabbit'"),
        (
            f"{STREAMS} CREATE SINK s WITH (path='o.csv') AS {JOIN}; CREATE SINK s WITH (path='p.csv') AS {JOIN}",
            2,
            "twice",
        ),
    ],
)
def test_errors_are_sentences_and_codes(
    data: Path, capsys: pytest.CaptureFixture[str], script: str, code: int, part: str
) -> None:
    assert run(script) == code
    shown = capsys.readouterr()
    assert part in shown.err
    assert "Traceback" not in shown.err


def test_a_query_that_fails_leaves_no_file(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing = "CREATE SINK s WITH (path='o.csv') AS SELECT a.k * 400000000000000000 AS x FROM a"
    assert run(STREAMS + failing, "--batch-rows", "5") == 1
    assert not [p for p in data.iterdir() if "o.csv" in p.name]


def test_bad_usage_is_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "none.sql") == 2
    assert "none.sql" in capsys.readouterr().err
    assert run(STREAMS + JOIN, "--engine", "spark", "--conf", "spark.ui.enabled") == 2
    assert "--conf spark.ui.enabled is not of the form name=value" in capsys.readouterr().err
    assert run(STREAMS + JOIN, "--engine", "spark", "--trigger", "often") == 2
    assert "--trigger" in capsys.readouterr().err
    assert run(STREAMS + JOIN, "--batch-rows", "0") == 2
    Path("binary.sql").write_bytes(b"\xff\xfe\x00")
    assert call("run", "binary.sql") == 2
    assert call("--version") == 0
    assert "watersmeet 0.1.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("engine", "options", "told"),
    [
        ("local", ["--buckets", "2", "--trigger", "5 seconds"],
         ["--trigger goes with", "--buckets goes with --engine spark: in-process the state is not cut"]),
        ("local", ["--flush"], ["--flush goes with --checkpoint DIR"]),
        ("local", ["--save-every", "1 second"], ["--save-every goes with --checkpoint DIR"]),
        ("local", ["--checkpoint", "ck", "--flush"], ["--flush answers what waits once all input"]),
        ("local", ["--checkpoint", "ck", "--final"], ["--final does not go with --checkpoint"]),
        ("spark", ["--commit-every", "1 second"], ["--commit-every goes with --engine local"]),
        ("local", ["--master", "local[2]"], ["--master goes with --engine spark: in-process there is no Spark"]),
        ("local", ["--remote", "sc://here:1"], ["--remote goes with --engine spark"]),
        ("local", ["--conf", "spark.ui.enabled=true"], ["--conf goes with --engine spark"]),
        ("local", ["--buckets", "4"], ["--buckets goes with --engine spark"]),
        ("spark", ["--final"], ["--final goes with --engine local: on Spark apply the changes to a table"]),
        ("spark", ["--batch-rows", "65536"], ["--batch-rows goes with --engine local: on Spark the source says"]),
        ("spark", ["--master", "local[*]", "--remote", "sc://here:1"], ["--master does not go with --remote"]),
        ("spark", ["--trigger", "1 second", "--available-now"], ["--trigger does not go with --available-now"]),
    ],
)  # fmt: skip
def test_options_that_would_not_be_read_are_refused(
    data: Path, capsys: pytest.CaptureFixture[str], engine: str, options: list[str], told: list[str]
) -> None:
    """Before anything is read or started: also where they say what holds anyway."""
    assert run(STREAMS + JOIN, "--engine", engine, *options) == 2
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert len(lines) == len(told) + 1
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=False))
    assert lines[-1].startswith("hint: leave ")
    assert shown.out == ""


@pytest.mark.parametrize(
    ("option", "given", "told"),
    [
        ("--save-every", "0 seconds", "--save-every must be above 0 s, not '0 seconds'"),
        ("--gather", "-1 second", "--gather must be at least 0 s, not '-1 second'"),
        ("--commit-every", "soon", "--commit-every: 'soon' is not an interval"),
    ],
)
def test_intervals_that_make_no_sense_are_refused_as_in_python(
    data: Path, capsys: pytest.CaptureFixture[str], option: str, given: str, told: str
) -> None:
    assert run(STREAMS + JOIN, "--engine", "local", "--checkpoint", "ck", "--available-now", f"{option}={given}") == 2
    assert capsys.readouterr().err.startswith(told)
    assert not Path("ck").exists()


def test_other_commands_refuse_what_they_would_not_read_too(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(STREAMS + JOIN, "--master", "local[2]", command="check") == 2
    assert "--master goes with --engine spark" in capsys.readouterr().err
    assert run(STREAMS + JOIN, "--engine", "local", "--master", "local[2]", command="complete") == 2
    assert "--master goes with --engine spark" in capsys.readouterr().err


def test_without_spark_the_way_out_is_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else find_spec(name))
    assert run(STREAMS + JOIN, "--engine", "spark") == 2
    assert "pip install 'watersmeet[spark]', or use --engine local" in capsys.readouterr().err


def test_a_mistake_is_told_before_spark_is_started(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("watersmeet.hosts.spark.launching.launch.start_spark", never)
    ticks = "CREATE STREAM ticks (n BIGINT, ts TIMESTAMP) WITH (source='rate', time='ts');"
    assert run(f"{ticks} SELECT m FROM ticks [RANGE 1 SECOND];", "--engine", "spark") == 2
    assert "there is no column m" in capsys.readouterr().err
    # Columns that only Spark can find are looked for there.
    with pytest.raises(AssertionError, match="Spark was started"):
        run("CREATE STREAM t WITH (source='rate', time='timestamp'); SELECT m FROM t;", "--engine", "spark")


def test_explain_needs_only_declared_columns(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declared = "(k BIGINT, ts TIMESTAMP) WITH (path='not/there.parquet', time='ts')"
    script = f"CREATE STREAM a {declared}; CREATE STREAM b {declared}; {JOIN};"
    assert run(script, command="explain") == 0
    assert "a" in capsys.readouterr().out


def test_a_reader_that_wants_no_more_ends_the_run_without_a_word(data: Path) -> None:
    times = pa.array([k * SECOND for k in range(50_000)], pa.timestamp("us"))
    pa_parquet.write_table(pa.table({"k": pa.array(range(50_000), pa.int64()), "ts": times}), "long.parquet")
    (data / "script.sql").write_text("CREATE STREAM a WITH (path='long.parquet', time='ts'); SELECT * FROM a;")
    source = Path(cli.__file__).parents[2]
    running = subprocess.Popen(
        [sys.executable, "-m", "watersmeet", "run", "script.sql", "--engine", "local"],
        cwd=data, env={**os.environ, "PYTHONPATH": str(source)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline() == b"k\tts\n"
    running.stdout.close()
    told = running.stderr.read()
    assert (running.wait(60), told) == (cli.PIPE_CLOSED, b"")


def test_the_summary_of_a_final_answer_counts_its_rows(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(STREAMS + "SELECT COUNT(*) AS n FROM a [RANGE 3 SECONDS];", "--final") == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert "a final answer of 1 row after " in told.err


def wait_for_output(data: Path) -> None:
    for _ in range(600):
        if any(p.stat().st_size > 1000 for p in data.glob(".out.csv*")):
            return
        time.sleep(0.05)
    raise AssertionError("the query wrote nothing in 30 seconds")


@pytest.fixture
def slow_script(data: Path) -> str:
    """A query that takes many seconds, one row at a time."""
    times = pa.array([k * SECOND for k in range(300_000)], pa.timestamp("us"))
    pa_parquet.write_table(pa.table({"k": pa.array(range(300_000), pa.int64()), "ts": times}), "a.parquet")
    return f"{STREAMS} CREATE SINK s WITH (path='out.csv') AS SELECT a.k, a.ts FROM a;"


def test_the_first_interrupt_keeps_what_was_written(data: Path, slow_script: str) -> None:
    (data / "script.sql").write_text(slow_script)
    process = watersmeet("run", "script.sql", "--engine", "local", "--batch-rows", "1")
    wait_for_output(data)
    process.send_signal(signal.SIGINT)
    code, _, told = process.communicate()
    assert code == 130
    assert "s stopped: " in told
    assert "watermark 1970-01-" in " ".join(told.split())
    lines = (data / "out.csv").read_text().splitlines()
    assert 1 < len(lines) < 300_000
    assert [int(line.split(",")[0]) for line in lines[1:]] == list(range(len(lines) - 1))


class Struck(io.RawIOBase):
    """A terminal, at which Ctrl-C is pressed while something is written."""

    said = b""

    def writable(self) -> bool:
        return True

    def write(self, text: Any, /) -> int:
        if not self.said:
            signal.raise_signal(signal.SIGINT)
        self.said += bytes(text)
        return len(text)


@pytest.mark.parametrize("kind", ["sentences", "objects"])
def test_an_interrupt_in_the_middle_of_a_word_is_told_behind_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Struck()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(terminal), line_buffering=True))
    voice = Sentences() if kind == "sentences" else JsonLines(sys.stderr)
    with Interrupts(voice.tell).stopping(lambda: None):
        voice.tell("a word")
    assert re.fullmatch(r"(?s).*a word.*\n.*again to abort.*\n", terminal.said.decode())


def test_the_second_interrupt_aborts_at_once() -> None:
    told: list[str] = []
    stops: list[bool] = []
    interrupts = Interrupts(told.append)
    with interrupts.stopping(lambda: stops.append(True)):
        signal.raise_signal(signal.SIGINT)
        assert interrupts.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stops == [True]
    assert "again to abort" in told[0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
