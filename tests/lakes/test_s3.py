"""Files and tables in a local S3 server: read, written, refused."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.lakes import opened
from tests.lakes.store import Store
from watersmeet.errors import SinkError, SourceError

pytestmark = pytest.mark.lakes

ROWS = pa.schema([("k", pa.int64()), ("v", pa.string())])


def packed(*numbers: int) -> bytes:
    sink = io.BytesIO()
    pa_parquet.write_table(pa.table({"k": list(numbers), "v": [f"v{one}" for one in numbers]}, ROWS), sink)
    return sink.getvalue()


def rows(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"k": list(numbers), "v": [f"v{one}" for one in numbers]}, ROWS)]


def keys(found: list[dict[str, Any]]) -> list[int]:
    return sorted(row["k"] for row in found)


def written(store: Store, folder: str) -> list[int]:
    table = pa_dataset.dataset(f"{store.bucket}/{folder}", filesystem=store.files, format="parquet").to_table()
    return sorted(table["k"].to_pylist())


def ways(store: Store) -> dict[str, str]:
    return {name.replace(".", "__"): value for name, value in store.ways.items()}


def test_objects_are_a_stream_that_goes_on(store: Store) -> None:
    store.put("in/a.parquet", packed(1, 2))
    store.put("in/b.parquet", packed(3))
    source = opened.source("files", path=store.address("in"), **ways(store))
    found, at = opened.read_all(source, source.begin(), 1)
    assert keys(found) == [1, 2, 3]
    store.put("in/0.parquet", packed(4))  # in the same second, and before the others by its name
    found, at = opened.read_all(source, at)
    assert keys(found) == [4]


def test_text_and_patterns_are_read(store: Store) -> None:
    store.put("in/day=1/x.csv", b"k,v\n1,a\n")
    store.put("in/day=2/x.csv", b"k,v\n2,b\n")
    source = opened.source("files", path=store.address("in/**/*.csv"), **ways(store))
    assert keys(opened.read_all(source, source.begin())[0]) == [1, 2]
    store.put("json/x.json", b'{"k": 5, "v": "x"}\n')
    assert opened.table("files", path=store.address("json"), **ways(store)).to_pylist() == [{"k": 5, "v": "x"}]


def test_a_number_is_put_once(store: Store) -> None:
    for _ in range(2):
        sink = opened.sink("files", ROWS, path=store.address("out"), format="parquet", **ways(store))
        sink.commit(4, rows(1, 2))
        sink.commit(4, rows(1, 2))
    sink.commit(9, rows(3))
    assert written(store, "out") == [1, 2, 3]
    assert opened.sink("files", ROWS, path=store.address("out"), format="parquet", **ways(store)).committed() == 9


def test_a_script_reads_and_writes_a_store(store: Store) -> None:
    store.put("in/a.parquet", packed(1, 2, 3))
    wm.Session().run(
        f"""CREATE STREAM s WITH (path = '{store.address("in/a.parquet")}', time = 'k', time_unit = 's', {store.with_});
            CREATE SINK out WITH (sink = 'parquet', path = '{store.address("out")}', {store.with_}) AS
            SELECT CAST(SUBSTRING(v, 2) AS BIGINT) AS k FROM s WHERE v <> 'v2';"""
    )
    assert written(store, "out") == [1, 3]


def test_a_delta_table_in_a_store(store: Store) -> None:
    pytest.importorskip("deltalake")
    for _ in range(2):
        sink = opened.sink("delta", ROWS, path=store.address("t"), **ways(store))
        sink.commit(0, rows(1, 2))
    sink.commit(1, rows(3))
    source = opened.source("delta", path=store.address("t"), **ways(store))
    assert keys(opened.read_all(source, source.begin())[0]) == [1, 2, 3]


def test_a_delta_table_in_the_store_that_the_environment_names(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.ways["fs.endpoint_override"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", store.ways["fs.access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.ways["fs.secret_key"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    opened.sink("delta", ROWS, path=store.address("t")).commit(0, rows(1, 2))
    source = opened.source("delta", path=store.address("t"))
    assert keys(opened.read_all(source, source.begin())[0]) == [1, 2]


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_bucket_or_a_folder_that_is_not_there_is_told(store: Store) -> None:
    with pytest.raises(SourceError, match="there is no file or folder s3://"):
        opened.source("files", path=store.address("nothing"), format="parquet", **ways(store)).schema  # noqa: B018
    with pytest.raises(SinkError, match=r"s3://nobodys-bucket/out .*: there is no such bucket") as told:
        opened.sink("files", ROWS, path="s3://nobodys-bucket/out", format="parquet", **ways(store)).commit(0, rows(1))
    assert "hush" not in str(told.value)


def test_a_store_that_does_not_answer_is_told(store: Store) -> None:
    options = ways(store) | {"fs__endpoint_override": "http://127.0.0.1:9", "fs__connect_timeout": "1"}
    with pytest.raises(SourceError, match="the store does not answer"):
        opened.source("files", path=store.address("x"), format="parquet", **options).schema  # noqa: B018


def test_a_bucket_that_may_only_be_read_is_told_and_a_restart_goes_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import watersmeet.io.connectors.files.store_folder as sinks

    for number in range(3):
        path = tmp_path / "in" / f"{number}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("k,v\n" + "".join(f"{number * 10 + one},x\n" for one in range(10)))
        os.utime(path, (number + 1, number + 1))
    session = wm.Session()
    session.stream("s", str(tmp_path / "in"), time="k", time_unit="s")
    query = session.sql("SELECT CAST(v AS VARCHAR) AS v FROM s")
    sink = {"sink": "parquet", "path": store.address("out"), **store.ways}
    whole = sinks.put

    def refused(*_: object) -> None:
        raise PermissionError("AWS Error ACCESS_DENIED during PutObject operation: Access Denied")

    monkeypatch.setattr(sinks, "put", refused)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(SinkError, match="cannot be written: access denied") as told:
            query.start(checkpoint=tmp_path / "c", sink=sink, available_now=True, flush=True).wait()
        assert "nothing is lost" in str(told.value)
        monkeypatch.setattr(sinks, "put", whole)
        query.start(checkpoint=tmp_path / "c", sink=sink, available_now=True, flush=True).wait()
    table = pa_dataset.dataset(f"{store.bucket}/out", filesystem=store.files, format="parquet").to_table()
    assert table.num_rows == 30
