"""A row is the same bytes in the files of both hosts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from tests.spark.kinds import every_kind
from tests.unit.io.test_row_texts import NESTED, TEXTS
from watersmeet import Session
from watersmeet.errors import SinkError
from watersmeet.hosts.spark.writing.sinks import SparkSink
from watersmeet.runtime.script import read_script

NOT_ON_SPARK = ("null", "time", "seconds", "unsigned")  # it has no such types


def rows(*, flat: bool) -> pa.Table:
    """All values of `test_row_texts.py`, NULLs behind them, and every type that both hosts have."""
    columns = {name: pa.array([one[0] for one in values], kind) for name, (kind, values) in TEXTS.items()}
    columns |= {} if flat else {name: pa.array([one[0] for one in some], kind) for name, (kind, some) in NESTED.items()}
    both = every_kind()
    columns |= {f"{name} too": both[name].combine_chunks() for name in both.column_names}
    most = max(map(len, columns.values()))
    filled = {name: pa.concat_arrays([one, pa.nulls(most - len(one), one.type)]) for name, one in columns.items()}
    kept = {
        name.replace(" ", "_"): one
        for name, one in filled.items()
        if name not in NOT_ON_SPARK and not (flat and pa.types.is_nested(one.type))
    }
    return pa.table({"at": pa.array(range(most), pa.timestamp("s")), **kept})


def script(folder: Path, kind: str, columns: list[str], more: str = "") -> str:
    quoted = ", ".join(f'"{name}"' for name in columns)
    return (
        f"CREATE STREAM a WITH (path = '{folder}/in.parquet', time = 'at');"
        f"CREATE SINK o WITH (sink = '{kind}', path = '{folder}/{{host}}.{kind}'{more}) AS SELECT {quoted} FROM a "
        "OPTIONS (timezone = 'Asia/Kolkata');"
    )


def written(folder: Path, kind: str) -> list[bytes]:
    return [one.read_bytes() for one in sorted((folder / f"spark.{kind}").glob(f"part-*.{kind}"))]


@pytest.mark.parametrize("kind", ["json", "csv", "tsv"])
def test_a_row_is_the_same_bytes_on_both_hosts(spark, tmp_path, kind):
    table = rows(flat=kind != "json")
    pa_parquet.write_table(table, tmp_path / "in.parquet")
    text = script(tmp_path, kind, table.column_names)
    Session().run(text.replace("{host}", "local"))
    Session(spark, buckets=1).run(text.replace("{host}", "spark"))
    (found,) = written(tmp_path, kind)
    assert found == (tmp_path / f"local.{kind}").read_bytes()
    assert found.count(b"\t") > 100 if kind == "tsv" else b"\t" not in found.replace(b"\t\r", b"")


def test_intervals_of_parquet_are_durations_on_both_hosts(spark, tmp_path):
    table = rows(flat=True).select(["at", "interval"])
    pa_parquet.write_table(table, tmp_path / "in.parquet")
    text = script(tmp_path, "parquet", table.column_names)
    Session().run(text.replace("{host}", "local"))
    Session(spark, buckets=1).run(text.replace("{host}", "spark"))
    local = pa_parquet.read_table(tmp_path / "local.parquet")
    (part,) = (tmp_path / "spark.parquet").glob("part-*.parquet")
    assert local.schema.field("interval").type == pa.duration("us")
    assert pa_parquet.read_table(part).equals(local)


@pytest.mark.parametrize(
    ("sink", "connect", "told"),
    [
        (
            "sink = 'json', path = 'hdfs://host/out'",
            False,
            "as json to hdfs://host/out, .*sink = 'files', format = 'json'",
        ),
        ("sink = 'tsv', path = 'out'", True, "as tsv by the Spark Connect server, .*say sink = 'spark.csv'"),
    ],
)
def test_what_only_sparks_own_writer_does_is_refused_with_its_name(tmp_path, sink, connect, told):
    declared = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (path = 'a.csv', time = 'ts')"
    (job,) = read_script(f"{declared}; CREATE SINK o WITH ({sink}) AS SELECT k FROM a", open_sources=False)
    with pytest.raises(SinkError, match=f"(?s){told}"):
        SparkSink(job, str(tmp_path / "ck"), over_connect=connect)
