"""Hostile input: every mistake gets a sentence and an exit code, nothing is half-written, no traceback is seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet
from tests import forked
from watersmeet.cli import commands as cli
from watersmeet.errors import BindError, CatalogError, DataError, SinkError, WatersmeetError

SECOND = 1_000_000
AB = "a.k, b.k AS bk FROM a, b WHERE a.k = b.k"
JOIN = f"SELECT {AB} WINDOW = 5 SECONDS"


def times(values: list[int | None], unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp(unit, zone))


def write(name: str, **columns: object) -> None:
    pa_parquet.write_table(pa.table(columns), f"{name}.parquet")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nine good streams and many bad ones, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in "abcdefghi":
        write(name, k=range(20), s=[f"x{i}" for i in range(20)], ts=times([i * SECOND for i in range(20)]))
    write("empty", k=pa.array([], pa.int64()), s=pa.array([], pa.string()), ts=times([]))
    write("null_time", k=[1, 2], ts=times([None, 5]))
    write("int_time", k=[1, 2], ts=[1, 2])
    write("zoned", k=range(20), ts=times([i * SECOND for i in range(20)], zone="Europe/Berlin"))
    write("fine", k=[0, 1, 2, 3], ts=times([-1001, -1, 0, 1001], "ns"))
    write("wrapping", k=[1, 2], ts=times([18446744073709552, 18446744073709553], "ms"))
    write("too_far", k=[1, 2], ts=times([2**60, 2**61]))
    write("far", k=[1, 2], ts=times([-4 * 10**17, 4 * 10**17]))
    write("strange", **{"select": [1], "a b": [2], 'q"uote': [3], "é": [4], "ts": times([1])})
    twice = pa.table([pa.array([1]), pa.array([2]), times([1])], names=["k", "k", "ts"])
    pa_parquet.write_table(twice, "twice.parquet")
    Path("corrupt.parquet").write_bytes(b"PAR1garbage" * 20)
    Path("cut.parquet").write_bytes(Path("a.parquet").read_bytes()[:300])
    Path("nothing.parquet").write_bytes(b"")
    Path("nothing.csv").write_bytes(b"")
    Path("header.csv").write_text("k,ts\n")
    Path("ragged.csv").write_text("k,ts\n1,2020-01-01 00:00:00\n2\n")
    Path("latin.csv").write_bytes("k,s,ts\n1,é,2020-01-01 00:00:00\n".encode("latin-1"))
    Path("folder").mkdir()
    Path("there.csv").write_text("precious")
    return tmp_path


def stream(name: str, path: str, more: str = "", columns: str = "") -> str:
    return f"CREATE STREAM {name} {columns} WITH (path='{path}', time='ts'{more});\n"


A, B = stream("a", "a.parquet"), stream("b", "b.parquet")


def as_a(path: str, columns: str = "") -> str:
    """The usual join with another file behind stream a."""
    return stream("a", path, columns=columns) + B + JOIN


def run(script: str, *arguments: str) -> int:
    Path("script.sql").write_text(script, encoding="utf-8")
    return call("run", "script.sql", "--engine", "local", *arguments)


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


def paths(count: int, pairs: list[str]) -> str:
    return " AND ".join(
        f"WINDOW PATH ({pairs[i % len(pairs)]}) = ({1 + i // len(pairs)} SECONDS)" for i in range(count)
    )


QUERIES = {
    "unknown stream": (f"{A} SELECT x.k FROM zz x", 2, "no stream or table zz"),
    "unknown column": (f"{A} SELECT a.kk FROM a", 2, "did you mean k?"),
    "unknown option": (f"{A}{B}{JOIN} OPTIONS (speed = 'fast')", 2, "no option 'speed'"),
    "unknown value of an option": (f"{A}{B}{JOIN} OPTIONS (join = 'fast')", 2, "'nested_loop'"),
    "unknown type": (stream("a", "a.parquet", columns="(k FLURB)") + "SELECT a.k FROM a", 2, "FLURB is not a type"),
    "text against integer": (f"{A}{B}SELECT a.k FROM a, b WHERE a.k = b.s WINDOW = 1 SECOND", 2, "cannot be compared"),
    "no window": (f"{A}{B}SELECT {AB}", 2, "could never be forgotten"),
    "contradiction": (f"{A}{B}SELECT {AB} AND a.ts < b.ts AND b.ts < a.ts WINDOW = 5 SECONDS", 2, "contradict"),
    "negative window": (f"{A}{B}SELECT {AB} WINDOW = -5 SECONDS", 2, "negative length"),
    "half of nothing": (f"{A}{B}SELECT {AB} WINDOW = 0 SECONDS OPTIONS (boundary = 'half_open')", 2, "holds nothing"),
    "no rows": (f"{A}{B}SELECT a.k FROM a [ROWS 0], b [NOW] WHERE a.k = b.k", 2, "at least 1"),
    "less than no rows": (f"{A}{B}SELECT a.k FROM a [ROWS -1], b [NOW] WHERE a.k = b.k", 2, "a number of rows"),
    "endless interval": (f"{A}{B}SELECT {AB} WINDOW = 99999999999999999999 DAYS", 2, "longer than the system"),
    "endless shift": (f"{A}SELECT a.ts + INTERVAL 99999999999 DAYS AS x FROM a", 2, "longer than the system"),
    "shifts that overflow": (f"{A}SELECT a.ts {'+ INTERVAL 20000000 DAYS ' * 6} AS x FROM a", 1, "does not fit"),
    "endless lateness": (stream("a", "a.parquet", ", lateness='99999999999999 days'") + B + JOIN, 2, "longer than"),
    "negative lateness": (stream("a", "a.parquet", ", lateness='-1 second'") + B + JOIN, 2, "negative"),
    "nine streams": (
        "".join(stream(x, f"{x}.parquet") for x in "abcdefghi")
        + f"SELECT a.k FROM {', '.join('abcdefghi')} WINDOW = 1 SECOND", 2, "the limit is 8",
    ),
    "seven independent paths": (
        "".join(stream(x, f"{x}.parquet") for x in "abcdefgh") + f"SELECT a.k FROM {', '.join('abcdefgh')} "
        + paths(7, [f"{u}, {v}" for u, v in zip("abcdefg", "bcdefgh", strict=True)]), 2, "more than 62 ways",
    ),
    "an alias twice": (f"{A}{B}SELECT x.k FROM a x, b x WINDOW = 1 SECOND", 2, "x is used twice"),
    "a table only": ("CREATE TABLE a WITH (path='a.parquet'); SELECT a.k FROM a", 2, "only static tables"),
    "nothing": ("", 2, "nothing to run"),
    "an open quote": (f"{A}SELECT 'abc FROM a", 2, "never closed"),
    "overflow": (f"{A}SELECT a.k * 9223372036854775807 AS x FROM a", 1, "does not fit in BIGINT"),
    "a cast that fails": (f"{A}SELECT CAST(a.s AS INT) AS x FROM a", 1, "fails for some row"),
    "no file": (as_a("nope.parquet"), 1, "there is no file or folder nope.parquet"),
    "a corrupt file": (as_a("corrupt.parquet"), 1, "corrupt.parquet cannot be read"),
    "a file cut short": (as_a("cut.parquet"), 1, "cut.parquet cannot be read"),
    "an empty parquet file": (as_a("nothing.parquet"), 1, "nothing.parquet cannot be read"),
    "an empty text file": (as_a("nothing.csv"), 1, "nothing.csv is empty"),
    "an empty folder": (as_a("folder"), 1, "holds no"),
    "a ragged file": (as_a("ragged.csv"), 1, "ragged.csv cannot be read"),
    "text that is not UTF-8": (as_a("latin.csv", "(k BIGINT, s STRING, ts TIMESTAMP)"), 1, "invalid UTF8"),
    "another type than declared": (as_a("a.parquet", "(k STRING, ts TIMESTAMP)"), 1, "declared STRING"),
    "a column that is not there": (as_a("a.parquet", "(zz INT, ts TIMESTAMP)").replace("a.k", "a.zz"), 1, "has none"),
    "a column twice": (as_a("twice.parquet"), 1, "two columns named 'k'"),
    "no event time": (as_a("null_time.parquet"), 1, "NULL in 1 of 2 rows"),
    "an integer as event time": (as_a("int_time.parquet"), 2, "not a timestamp"),
    "times that would wrap around": (as_a("wrapping.parquet"), 1, "beyond the years"),
    "declared times that would wrap around": (as_a("wrapping.parquet", "(k BIGINT, ts TIMESTAMP)"), 1, "beyond"),
    "times too far off": (as_a("too_far.parquet"), 1, "beyond the years"),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_a_mistake_gets_a_sentence_and_its_exit_code(name: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, code, part = QUERIES[name]
    before = sorted(p.name for p in data.rglob("*"))
    last = script.rindex("SELECT") if "SELECT" in script else len(script)
    assert (
        run(f"{script[:last]}CREATE SINK o WITH (path='out.csv') AS {script[last:]}" if last < len(script) else script)
        == code
    )
    told = capsys.readouterr()
    assert part in told.err
    assert "Traceback" not in told.err
    assert told.out == ""
    assert sorted(p.name for p in data.rglob("*") if p.name != "script.sql") == before


SINKS = {
    "there already": ("path='there.csv'", "there.csv already exists"),
    "a folder": ("sink='csv', path='folder'", "folder already exists"),
    "a folder to overwrite": ("sink='csv', path='folder', mode='overwrite'", "replaces only files"),
    "below a file": ("path='there.csv/out.csv'", "there.csv"),
    "no such compression": ("path='out.parquet', compression='magic'", "magic"),
    "a delimiter of two characters": ("path='out.csv', delimiter='ab'", "must be one character"),
    "an empty path": ("sink='csv', path=''", "no path"),
    "a path with NUL": ("path='o\0ut.csv'", "NUL"),
    "no such kind": ("sink='rabbit', path='x'", "there is no sink 'rabbit'"),
}


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_that_cannot_be_is_refused_and_nothing_is_touched(
    name: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, part = SINKS[name]
    before = sorted(p.name for p in data.rglob("*"))
    assert run(f"{A}{B}CREATE SINK o WITH ({options}) AS {JOIN}") == 1
    assert part in capsys.readouterr().err
    assert sorted(p.name for p in data.rglob("*") if p.name != "script.sql") == before
    assert Path("there.csv").read_text() == "precious"


@pytest.mark.parametrize(
    "options",
    [
        "path='out.csv', delimiter='ab'",
        "path='out.parquet', compression='magic'",
        "path='out.csv', mode='apend'",
        "sink='csv'",
        "sink='rabbit', path='x'",
        "path='out.csv', partition_by='nobody'",
        "sink='console', limit='some'",
    ],
)
def test_what_is_wrong_with_the_last_sink_is_told_before_the_first_query_runs(options: str, data: Path) -> None:
    script = f"{A}{B}CREATE SINK o WITH (path='first.csv') AS {JOIN};CREATE SINK p WITH ({options}) AS {JOIN}"
    assert run(script) == 1
    with pytest.raises(SinkError):
        watersmeet.Session().run(script)
    assert not Path("first.csv").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_place_that_may_not_be_written_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").chmod(0o555)
    assert run(f"{A}{B}CREATE SINK o WITH (path='folder/out.csv') AS {JOIN}") == 1
    assert "permission denied" in capsys.readouterr().err


def test_a_script_that_is_no_text_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("script.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    assert call("run", "script.sql") == 2
    assert "cannot be read as text" in capsys.readouterr().err
    assert call("run", "folder") == 2
    assert call("run", "no.sql") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_line_of_an_error_is_shown_in_part_if_it_is_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{A}SELECT a.k FROM a WHERE a.zz = 1 AND a.s = '{'x' * 100_000}'") == 2
    told = capsys.readouterr().err
    assert "a has no column zz" in told
    assert len(told) < 1000


VALID = {
    "one empty stream": (as_a("empty.parquet"), 0),
    "all streams empty": (stream("a", "empty.parquet") + stream("b", "empty.parquet") + JOIN, 0),
    "empty streams in windows of rows": (
        stream("a", "empty.parquet") + stream("b", "empty.parquet")
        + "SELECT a.k FROM a [ROWS 3], b [PARTITION BY k ROWS 2] WHERE a.k = b.k", 0,
    ),
    "an empty stream alone": (stream("a", "empty.parquet") + "SELECT a.k FROM a", 0),
    "a text file with nothing but its header": (as_a("header.csv", "(k BIGINT, ts TIMESTAMP)"), 0),
    "a window of length zero": (f"{A}{B}SELECT {AB} WINDOW = 0 SECONDS", 20),
    "a very long window": (f"{A}{B}SELECT {AB} WINDOW = 300000 DAYS", 20),
    "a very long lateness": (stream("a", "a.parquet", ", lateness='300000 days'") + B + JOIN, 20),
    "more rows than there can be": (f"{A}{B}SELECT a.k FROM a [ROWS {10**30}], b [NOW] WHERE a.k = b.k", 20),
    "more rows for each value than there can be": (
        f"{A}{B}SELECT a.k FROM a [PARTITION BY k ROWS 9223372036854775807], b [NOW] WHERE a.k = b.k", 20,
    ),
    "a stream with a zone and one without": (as_a("zoned.parquet"), 20),
    "years that Python cannot count": (stream("a", "far.parquet") + "SELECT a.k, a.ts FROM a", 2),
    "64 paths over the same streams": (
        f"{A}{B}SELECT {AB} {paths(64, ['a, b'])}", 20,
    ),
    "a byte order mark": (f"\ufeff{A}SELECT a.k FROM a", 20),
    "odd names": (stream("a", "strange.parquet") + 'SELECT a."select", a."a b", a."q""uote", a."é" FROM a', 1),
    "a comment of a megabyte": (f"/*{'x' * 1_000_000}*/{A}SELECT a.k FROM a", 20),
    "a text of a megabyte": (f"{A}SELECT '{'x' * 1_000_000}' AS x FROM a WHERE a.k = 1", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize("sink", ["csv", "json"])
def test_what_is_odd_but_valid_is_answered(
    name: str, sink: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, rows = VALID[name]
    last = script.rindex("SELECT")
    assert run(f"{script[:last]}CREATE SINK o WITH (path='out.{sink}') AS {script[last:]}") == 0
    lines = Path(f"out.{sink}").read_text(encoding="utf-8").splitlines()
    assert len(lines) == rows + (sink == "csv")
    assert not list(data.glob(".out*"))
    assert run(script) == 0
    assert len(capsys.readouterr().out.splitlines()) == rows + 1


@pytest.mark.parametrize("columns", ["", "(k BIGINT, ts TIMESTAMP)"], ids=["found", "declared"])
def test_digits_below_the_microsecond_are_cut_where_the_stream_says_so_also_before_1970(columns: str) -> None:
    fine = stream("a", "fine.parquet", ", rounding='down'", columns)
    assert run(fine + "CREATE SINK o WITH (path='o.parquet') AS SELECT a.ts FROM a") == 0
    assert pa_parquet.read_table("o.parquet")["ts"].cast(pa.int64()).to_pylist() == [-2, -1, 0, 1]


@pytest.mark.parametrize("columns", ["", "(k BIGINT, ts TIMESTAMP)"], ids=["found", "declared"])
def test_digits_below_the_microsecond_are_refused_with_a_way_out(
    columns: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(stream("a", "fine.parquet", columns=columns) + "SELECT a.ts FROM a") == 1
    said = capsys.readouterr().err
    assert "'a': column 'ts': 3 rows have times finer than a microsecond" in said
    assert "rounding = 'down'" in said


def test_times_below_the_microsecond_of_data_in_memory_are_cut_where_the_stream_says_so() -> None:
    session = watersmeet.Session(timezone="Europe/Berlin")
    data = pa.table({"ts": times([-1001, -1, 0, 999], "ns", "UTC")})
    session.stream("a", data, time="ts", rounding="down")
    answer = session.sql("SELECT a.ts FROM a").to_arrow()["ts"]
    assert answer.type == pa.timestamp("us", "Europe/Berlin")
    assert answer.cast(pa.int64()).to_pylist() == [-2, -1, 0, 0]


GOOD = {"k": [1], "ts": times([1])}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"data": pa.table(GOOD), "time": "when"}, "no column 'when'"),
        ({"data": pa.table(GOOD), "time": None}, "which column holds its event time"),
        ({"data": pa.table(GOOD), "time": "k"}, "not a timestamp"),
        ({"data": pa.table(GOOD), "time": "ts", "lateness": "soon"}, "not an interval"),
        ({"data": pa.table(GOOD), "time": "ts", "lateness": "99999999999999 days"}, "longer than"),
        ({"data": 42, "time": "ts"}, "int"),
        ({"data": "nope.parquet", "time": "ts"}, "no file or folder"),
        ({"data": pa.table([[1], [2], times([1])], names=["k", "k", "ts"]), "time": "ts"}, "two columns named 'k'"),
    ],
)
def test_a_stream_declared_wrongly_in_python_is_refused(arguments: dict[str, object], part: str) -> None:
    with pytest.raises(WatersmeetError, match=part):
        watersmeet.Session().stream("a", **arguments)  # type: ignore[arg-type]


def test_rows_are_not_counted_by_nested_values() -> None:
    session = watersmeet.Session()
    session.stream("a", pa.table({**GOOD, "x": [[1]]}), time="ts")
    with pytest.raises(BindError, match="which is nested"):
        session.sql("SELECT a.k FROM a [PARTITION BY x ROWS 1], a AS b [NOW]")


def test_a_name_is_declared_once() -> None:
    session = watersmeet.Session()
    session.stream("a", pa.table(GOOD), time="ts")
    with pytest.raises(CatalogError, match="declared twice"):
        session.table("A", pa.table(GOOD))


def test_batches_that_change_their_columns_are_refused() -> None:
    session = watersmeet.Session()
    first, then = pa.record_batch(GOOD), pa.record_batch({"j": [1], "ts": times([1])})
    session.stream("a", iter([first, then]), time="ts")
    with pytest.raises(WatersmeetError, match="change their columns"):
        session.sql("SELECT a.k FROM a").to_arrow()


def test_a_null_event_time_in_a_later_batch_says_where() -> None:
    session = watersmeet.Session()
    session.stream("a", pa.table({"k": range(100), "ts": times([*range(99), None])}), time="ts", read="arrival")
    with pytest.raises(DataError, match=r"'a'.*NULL in 1 of 10 rows \(among rows 91 to 100\)"):
        session.sql("SELECT a.k FROM a").to_arrow(batch_rows=10)


def test_the_second_interrupt_leaves_nothing_behind(data: Path) -> None:
    """The batch in hand makes a hundred million rows, so that the first interrupt cannot end it soon."""
    for name in "ab":
        write(name, k=range(10_000), ts=times([i * 1000 for i in range(10_000)]))
    before = sorted(p.name for p in data.iterdir())
    Path("script.sql").write_text(f"{A}{B}CREATE SINK s WITH (path='out.csv') AS SELECT a.k FROM a, b WINDOW = 1 HOUR")
    process = forked.watersmeet("run", "script.sql", "--engine", "local")
    _wait_for(lambda: any(p.stat().st_size > 1000 for p in data.glob(".out.csv*")))
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    code, _, told = process.communicate()
    assert code == 130
    assert "again to abort" in told
    assert "aborted; nothing of the " in told
    assert "Traceback" not in told
    assert sorted(p.name for p in data.iterdir() if p.name != "script.sql") == before


def _wait_for(happened: object) -> None:
    assert callable(happened)
    for _ in range(600):
        if happened():
            return
        time.sleep(0.05)
    raise AssertionError("nothing happened in 30 seconds")


def test_importing_the_library_loads_nothing_heavy() -> None:
    source = str(Path(cli.__file__).parents[2])
    code = "import sys, watersmeet; print([m for m in ('pyarrow', 'numpy', 'numba', 'sqlglot') if m in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "[]"
    assert {"Query", "Session"} <= set(dir(watersmeet))
