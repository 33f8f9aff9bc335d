"""CREATE SINK without a query, and the streams that send their bad records and late rows there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.cli.commands import app
from watersmeet.errors import BindError, DataError, OptionError, WatersmeetError
from watersmeet.warning import DataWarning, PlanWarning

COLUMNS = "(id BIGINT, v DOUBLE, ts TIMESTAMP)"
LINES = [
    '{"id": 1, "v": 0.5, "ts": "2026-01-01 00:00:01"}',
    "no json at all",
    '{"id": "x", "v": 0.5, "ts": "2026-01-01 00:00:02"}',
    "",
    '{"id": 3, "v": 0.5}',
    '{"id": 4, "v": 0.5, "ts": "2026-01-01 00:00:04", "more": [1]}',
    "[1, 2]",
    '{"id": 5, "v": 0.5, "ts": "2026-01-01 00:00:05"}',
]
REASONS = {"a: not json": 2, "a: wrong type": 1, "a: null time": 1}


def script(folder: Path, policy: str, sink: str = "bad", kind: str = "json") -> str:
    return f"""
        CREATE SINK {sink} WITH (sink = 'json', path = '{folder}/bad.json', mode = 'overwrite');
        CREATE STREAM a {COLUMNS} WITH (path = '{folder}/a.{kind}', time = 'ts', on_bad = '{policy}');
        CREATE SINK out WITH (sink = 'parquet', path = '{folder}/out.parquet', mode = 'overwrite') AS SELECT id FROM a;
    """


def ids(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder / "out.parquet").column("id").to_pylist())


def kept(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "bad.json").read_text().splitlines()]


def test_bad_lines_go_to_a_sink_with_what_they_were_and_where(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("\n".join(LINES) + "\n")
    with pytest.warns(
        DataWarning, match="bad_rows: .*4 records of stream 'a' cannot be read .* go to sink 'bad': .*2 not"
    ):
        (outcome,) = wm.Session().run(script(tmp_path, "sink bad"))
    assert ids(tmp_path) == [1, 4, 5]
    bad = {one["offset"]: one for one in kept(tmp_path)}
    assert {number: one["reason"] for number, one in bad.items()} == {
        2: "not json", 3: "wrong type", 4: "null time", 6: "not json",
    }  # fmt: skip
    assert all(one["stream"] == "a" and str(one["place"]).endswith("a.json") for one in bad.values())
    assert outcome.metrics["bad_rows"] == 4
    assert outcome.metrics["bad_by_reason"] == REASONS
    assert outcome.metrics["rows_in"] == 7


def two_queries(folder: Path, path: str, sql: str = "SELECT id FROM b") -> str:
    for name in "ab":
        (folder / f"{name}.json").write_text('{"id": 1, "ts": "2026-01-01 00:00:01"}\n' + f"no json of {name}\n")
    (folder / "c.json").write_text('{"id": 1, "ts": "2026-01-01 00:00:01"}\n')
    streams = "".join(
        f"CREATE STREAM {name} (id BIGINT, ts TIMESTAMP) WITH (path = '{folder}/{name}.json', time = 'ts', "
        f"on_bad = 'sink beside'{more});"
        for name, more in {"a": "", "b": "", "c": ", on_late = 'sink beside'"}.items()
    )
    sink = f"CREATE SINK beside WITH (path = '{folder}/{path}', mode = 'overwrite');"
    return f"{sink}{streams} SELECT id FROM a; {sql}; SELECT id FROM c;"


@pytest.mark.filterwarnings("ignore:bad_rows")
@pytest.mark.parametrize("path", ["bad.json", "bad.csv", "bad.parquet"])
def test_queries_of_a_script_send_to_one_sink_without_a_checkpoint(tmp_path: Path, path: str) -> None:
    """One that the queries had each for themselves would have what the last of them left out, and no more."""
    wm.Session().run(two_queries(tmp_path, path))
    read = {"json": pa_json.read_json, "csv": pa_csv.read_csv, "parquet": pq.read_table}[path.split(".")[1]]
    found = read(tmp_path / path)
    assert found["stream"].to_pylist() == ["a", "b"]
    assert {"reason", "raw", "_watermark", "id"} <= set(found.column_names)  # also what only the last could bring


@pytest.mark.filterwarnings("ignore:bad_rows")
def test_what_queries_left_out_is_kept_if_a_later_one_fails(tmp_path: Path) -> None:
    text = two_queries(tmp_path, "bad.json", "SELECT CAST('x' || CAST(id AS VARCHAR) AS BIGINT) AS x FROM b")
    with pytest.raises(WatersmeetError):
        wm.Session().run(text)
    assert [one["stream"] for one in kept(tmp_path)][:1] == ["a"]


@pytest.mark.filterwarnings("ignore:bad_rows")
def test_the_command_has_one_sink_for_all_queries_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text(two_queries(tmp_path, "bad.json"))
    assert CliRunner().invoke(app, ["run", str(tmp_path / "two.sql"), "--engine", "local", "--quiet"]).exit_code == 0
    assert [one["stream"] for one in kept(tmp_path)] == ["a", "b"]


def test_skipped_lines_are_counted_and_an_error_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("\n".join(LINES) + "\n")
    with (
        pytest.warns(PlanWarning, match="unused_sink: .*nothing goes to sink 'bad'"),
        pytest.warns(DataWarning, match="bad_rows"),
    ):
        (outcome,) = wm.Session().run(script(tmp_path, "skip"))
    assert ids(tmp_path) == [1, 4, 5]
    assert outcome.metrics["bad_by_reason"] == REASONS
    with pytest.raises(WatersmeetError, match=r"a\.json cannot be read"):
        wm.Session().run(script(tmp_path, "error"))


def test_lines_of_csv_are_read_as_without_on_bad(tmp_path: Path) -> None:
    lines = [
        "id,v,name,ts",
        '1,0.5,"over\ntwo ""lines""",2026-01-01 00:00:01',
        "2,0.5,x",
        "three,0.5,x,2026-01-01 00:00:03",
        '4,0.5,5" pipe,2026-01-01 00:00:04',
        "5,,plain,2026-01-01T00:00:05Z",
        "6,0.5,x,",
        "7,0.5,y,2026-01-01 00:00:07",
    ]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    with pytest.warns(DataWarning, match="bad_rows"):
        (outcome,) = wm.Session().run(script(tmp_path, "sink bad", kind="csv"))
    assert ids(tmp_path) == [1, 4, 5, 7]
    assert outcome.metrics["bad_by_reason"] == {"a: not csv": 1, "a: wrong type": 1, "a: null time": 1}
    assert {one["offset"]: one["reason"] for one in kept(tmp_path)} == {
        2: "not csv", 3: "wrong type", 6: "null time",
    }  # fmt: skip


def test_bytes_that_are_no_text_and_quotes_that_never_close_are_kept_in_any_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b'id,v,ts\n1,2,2026-01-01 00:00:01\n\xff\xfe,x\n"unclosed,2\n3,2,2026-01-01 00:00:03\n'
    )
    text = script(tmp_path, "sink bad", kind="csv").replace("sink = 'json', path", "sink = 'csv', path")
    with pytest.warns(DataWarning, match="bad_rows"):
        wm.Session().run(text)
    assert ids(tmp_path) == [1, 3]
    kept = (tmp_path / "bad.json").read_text()
    assert "\\xff\\xfe,x" in kept
    assert "unclosed" in kept


def test_a_session_reads_files_with_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("\n".join(["{", *LINES]))
    session = wm.Session()
    schema = {"id": "BIGINT", "v": "DOUBLE", "ts": "TIMESTAMP"}
    session.stream("a", tmp_path / "a.json", schema=schema, time="ts", on_bad="skip")
    query = session.sql("SELECT id FROM a")
    with pytest.warns(DataWarning, match="bad_rows: .*3 not json"):
        assert query.to_arrow()["id"].to_pylist() == [1, 4, 5]
    assert query.metrics()["bad_rows"] == 5


def test_a_sink_that_is_not_declared_is_named_with_its_place(tmp_path: Path) -> None:
    text = f"""CREATE SINK late_rows WITH (sink = 'json', path = '{tmp_path}/l.json');
        CREATE STREAM a {COLUMNS} WITH (time = 'ts', on_late = 'sink late_row');"""
    with pytest.raises(BindError) as raised:
        wm.Session().sql(text)
    assert "there is no sink 'late_row'" in str(raised.value)
    assert "did you mean 'late_rows'?" in str(raised.value)
    assert "on_late = 'sink late_row'" in str(raised.value)


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    twice = "CREATE SINK s WITH (sink = 'json', path = 'x');\n" * 2
    with pytest.raises(BindError, match="created twice"):
        wm.Session().sql(twice)
    with pytest.raises(OptionError, match="on_bad: 'perhaps' is not one of 'error', 'skip' and 'sink NAME'"):
        wm.Session().sql(f"CREATE STREAM a {COLUMNS} WITH (time = 'ts', on_bad = 'perhaps')")
    (tmp_path / "a.json").write_text('{"id": 1, "ts": "2026-01-01"}\n')
    with pytest.raises(OptionError, match="says on_bad, and not its columns"):
        wm.Session().sql(f"CREATE STREAM a WITH (path = '{tmp_path}/a.json', time = 'ts', on_bad = 'skip')")


def test_rows_of_tables_and_pushes_without_a_time_are_bad_records(tmp_path: Path) -> None:
    times = pa.array([1, None, 3, 1 << 62], pa.timestamp("us"))
    session = wm.Session()
    session.sql(f"CREATE SINK bad WITH (sink = 'json', path = '{tmp_path}/bad.json', mode = 'overwrite')")
    session.stream("a", pa.table({"id": [1, 2, 3, 4], "ts": times}), time="ts", on_bad="sink bad")
    with pytest.warns(DataWarning, match="bad_rows: .*1 null time, 1 time out of range"):
        assert session.sql("SELECT id FROM a").to_arrow()["id"].to_pylist() == [1, 3]
    assert [one["offset"] for one in kept(tmp_path)] == [2, 4]
    session.stream("p", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts", on_bad="sink bad")
    with session.sql("SELECT id FROM p").start() as run:
        with pytest.warns(DataWarning, match="bad_rows"):
            run.push("p", pa.table({"id": [1, 2], "ts": times[:2]}))
        assert run.take()["id"].to_pylist() == [1]
    assert kept(tmp_path)[0]["place"] == "pushed rows"
    session.stream("q", pa.table({"id": [1, 2, 3, 4], "ts": times}), time="ts")
    with pytest.raises(DataError):
        session.sql("SELECT id FROM q").to_arrow()


def test_late_rows_go_to_a_sink_with_the_watermark_that_they_missed(tmp_path: Path) -> None:
    times = pa.array([10_000_000, 5_000_000, 12_000_000, 11_000_000], pa.timestamp("us"))
    session = wm.Session()
    session.sql(f"CREATE SINK late WITH (sink = 'json', path = '{tmp_path}/late.json')")
    session.stream("a", pa.table({"id": [1, 2, 3, 4], "ts": times}), time="ts", read="arrival", on_late="sink late")
    with pytest.warns(DataWarning, match="late_rows: .*came too late"):
        assert session.sql("SELECT id FROM a").to_arrow()["id"].to_pylist() == [1, 3]
    late = [json.loads(line) for line in (tmp_path / "late.json").read_text().splitlines()]
    assert [(one["id"], one["_stream"]) for one in late] == [(2, "a"), (4, "a")]
    assert [one["_watermark"][:19].replace("T", " ") for one in late] == ["1970-01-01 00:00:10", "1970-01-01 00:00:12"]
