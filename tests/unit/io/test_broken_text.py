"""Text that is not UTF-8, in values and in names: refused at the door, or left out where a stream says so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from watersmeet.io.broken_text import is_sound

RAW = [b"ok", b"a\xffb", None, "naïve".encode()]
TS = pa.array(range(4), pa.timestamp("us"))
HINT = "\nhint: write it anew in UTF-8; on_bad = 'skip' leaves such rows of a stream out"


def text(raw: list[bytes | None]) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(raw), pa.array(raw, pa.binary()).buffers())


def broken(column: str = "plain") -> pa.Table:
    made = {
        "plain": text(RAW),
        "large": text(RAW).cast(pa.large_string()),
        "dictionary": text(RAW).dictionary_encode(),
        "list": pa.ListArray.from_arrays([0, 1, 2, 3, 4], text(RAW)),
        "struct": pa.StructArray.from_arrays([text(RAW)], ["x"]),
    }
    return pa.table({"ts": TS, "s": made[column]})


def misnamed() -> pa.Table:
    """What comes from another process may call a column anything."""
    sink = pa.BufferOutputStream()
    table = pa.table({"ts": TS, "s": ["x"] * 4, "zz": range(4)})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue().to_pybytes().replace(b"zz", b"\xff\xfe")).read_all()


def answer(data: object, **options: str) -> list[object]:
    session = wm.Session()
    session.stream("a", data, time="ts", **options)  # type: ignore[arg-type]
    return session.sql("SELECT s FROM a").to_arrow()["s"].to_pylist()


@pytest.mark.parametrize("column", ["plain", "large", "dictionary", "list", "struct"])
def test_it_is_refused_by_column_and_row(column: str) -> None:
    flowing = pa.RecordBatchReader.from_batches(broken(column).schema, broken(column).to_batches())
    for data in (broken(column), flowing):
        with pytest.raises(wm.errors.DataError) as told:
            answer(data)
        assert str(told.value) == f"stream 'a': column 's' holds text that is not UTF-8, in row 2 of 4{HINT}"


def test_files_are_looked_at_too(tmp_path: Path) -> None:
    pa_parquet.write_table(broken(), tmp_path / "a.parquet")
    (tmp_path / "a.json").write_bytes(b'{"ts": "2026-01-01 00:00:00", "s": "a\xffb"}\n')
    for file in ("a.parquet", "a.json"):
        with pytest.raises(wm.errors.DataError, match=r"column 's' holds text that is not UTF-8"):
            answer(str(tmp_path / file))
    session = wm.Session()
    session.stream("a", pa.table({"ts": TS, "s": ["ok"] * 4}), time="ts")
    session.table("t", str(tmp_path / "a.parquet"))
    with pytest.raises(wm.errors.DataError, match=r"table 't': column 's' holds text that is not UTF-8, in row 2 of 4"):
        session.sql("SELECT a.s FROM a, t WHERE a.s = t.s").to_arrow()


@pytest.mark.parametrize("column", ["plain", "list"])
@pytest.mark.filterwarnings("ignore:bad_rows")
def test_such_rows_are_left_out_where_the_stream_says_so(tmp_path: Path, column: str) -> None:
    """And kept, so that nothing of them is lost."""
    pa_parquet.write_table(broken(column), tmp_path / "a.parquet")
    session = wm.Session()
    session.run(
        f"""CREATE SINK bad WITH (sink = 'parquet', path = '{tmp_path}/bad');
            CREATE STREAM a WITH (path = '{tmp_path}/a.parquet', time = 'ts', on_bad = 'sink bad');
            CREATE SINK out WITH (sink = 'parquet', path = '{tmp_path}/out.parquet') AS SELECT s FROM a;"""
    )
    assert pa_parquet.read_table(tmp_path / "out.parquet").num_rows == 3
    (left,) = pa_parquet.read_table(tmp_path / "bad").to_pylist()
    assert (left["reason"], left["offset"]) == ("not utf-8", 2)
    assert rb"a\\xffb" in left["raw"]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.filterwarnings("ignore:bad_rows")
def test_a_push_is_refused_as_a_whole_or_taken_without_such_rows(tmp_path: Path, durable: bool) -> None:
    for on_bad, taken in (("error", 0), ("skip", 3)):
        session = wm.Session()
        schema = pa.schema([("ts", pa.timestamp("us")), ("s", pa.string())])
        session.stream("a", schema=schema, time="ts", on_bad=on_bad)
        where = {"checkpoint": tmp_path / on_bad} if durable else {}
        with session.sql("SELECT s FROM a").start(**where) as run:  # type: ignore[call-overload]
            for rows in (broken(), broken().to_batches()[0], {"ts": TS, "s": text(RAW)}, broken("large")):
                if on_bad == "error":
                    with pytest.raises(wm.errors.DataError, match=r"column 's' holds text that is not UTF-8"):
                        run.push("a", rows)
            if on_bad == "skip":
                run.push("a", broken("large"))
            run.finish()
            assert run.take(timeout=5 if durable and taken else 0).num_rows == taken


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"ts": "2026-01-01 00:00:00", "\xff": 1}\n')
    (tmp_path / "a.csv").write_bytes(b"ts,s,\xff\n2026-01-01 00:00:00,1,2\n")
    for data in (misnamed(), str(tmp_path / "a.json"), str(tmp_path / "a.csv")):
        with pytest.raises(wm.errors.SourceError, match=r"has a column whose name is not UTF-8\nhint: rename it"):
            answer(data)
    session = wm.Session()
    session.stream("a", schema={"ts": "TIMESTAMP", "s": "STRING"}, time="ts")
    with (
        session.sql("SELECT s FROM a").start() as run,
        pytest.raises(wm.errors.SourceError, match="what was pushed has a column whose name is not UTF-8"),
    ):
        run.push("a", misnamed())


@pytest.mark.parametrize("at", [0, 1, 299, 599])
def test_many_texts_are_looked_through_at_once(at: int) -> None:
    raw = [b"plain"] * 600
    assert is_sound(text(list(raw)))
    raw[at] = "é".encode()
    assert is_sound(text(list(raw)))
    raw[at] = b"\xc3"
    assert not is_sound(text(list(raw)))
    assert is_sound(text(list(raw)).slice(at + 1))
    assert is_sound(text(list(raw)).slice(0, at))
