"""Options of sinks that nothing reads are refused where they stand, with what was meant."""

from __future__ import annotations

import pytest

from tests.unit.declared import AsSpark
from watersmeet.errors import OptionError
from watersmeet.runtime.script import Job, read_script

STREAM = "CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (path='a.parquet', time='ts');\n"


def read(options: str, *, on_spark: bool = False) -> list[Job]:
    """The jobs of a script with such a sink, as each host reads it."""
    text = f"{STREAM}CREATE SINK out WITH ({options}) AS SELECT a.k FROM a"

    return read_script(text, opener=AsSpark()) if on_spark else read_script(text, open_sources=False)


@pytest.mark.parametrize("on_spark", [False, True])
@pytest.mark.parametrize(
    ("options", "wrong", "meant"),
    [
        ("path='o.csv', delimeter=';'", "delimeter=';'", "did you mean delimiter?"),
        ("path='o.csv', sepp=';'", "sepp=';'", "did you mean sep?"),
        ("path='o.parquet', compresion='gzip'", "compresion='gzip'", "did you mean compression?"),
        ("path='o.json', MODUS='append'", "MODUS='append'", "did you mean mode?"),
        ("path='o.json', delimiter=';'", "delimiter=';'", "the options of a json sink are sink, path, mode"),
        ("sink='console', limits=5", "limits=5", "did you mean limit?"),
        ("sink='console', path='o'", "path='o'", "the options of a console sink are sink, limit"),
        ("path='o.csv', limit=5", "limit=5", "the options of a csv sink are"),
        ("path='o.csv', header='yes'", "header='yes'", "write header = 'true' or header = 'false'"),
        ("path='o.csv', sep=';', delimiter=','", "delimiter=','", "leave one out"),
        ("path='o.csv', checkpointLocation='ck'", "checkpointLocation='ck'", "--checkpoint DIR"),
    ],
)
def test_an_option_that_nothing_reads_is_refused_with_its_place(
    options: str, wrong: str, meant: str, on_spark: bool
) -> None:
    with pytest.raises(OptionError) as refused:
        read(options, on_spark=on_spark)
    told = str(refused.value).splitlines()
    assert told[2] == " " * told[1].index(wrong) + "^" * len(wrong)
    assert meant in told[3]


@pytest.mark.parametrize("on_spark", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        "sink='console', limit=5",
        "SINK='CSV', Path='o', Mode='overwrite', Header='false', Delimiter=';'",
        "path='o.parquet', compression='snappy'",
        "path='o.tsv', header='false'",
        "sink='tsv', path='o', delimiter='|'",
    ],
)
def test_options_that_are_read_are_taken(options: str, on_spark: bool) -> None:
    assert len(read(options, on_spark=on_spark)) == 1


@pytest.mark.parametrize(
    "options", ["path='o.parquet', 'parquet.block.size'='1000000'", "path='o.parquet', retention='1 day'"]
)  # fmt: skip
def test_options_of_sparks_writers_go_with_spark(options: str) -> None:
    assert len(read(options, on_spark=True)) == 1
    with pytest.raises(OptionError, match=r"(?s)one of Spark's own writer.*run it with --engine spark"):
        read(options)


@pytest.mark.parametrize(
    ("kind", "option"),
    [("csv", "quoteAll='true'"), ("json", "ignoreNullFields='false'"), ("csv", "retention='1 day'"),
     ("json", "'spark.pretty'='true'")],
)  # fmt: skip
def test_options_of_sparks_writers_of_text_go_with_those(kind: str, option: str) -> None:
    assert len(read(f"sink='spark.{kind}', path='o', {option}", on_spark=True)) == 1
    with pytest.raises(OptionError, match=rf"(?s)one of Spark's own writer.*say sink = 'spark.{kind}'"):
        read(f"sink='{kind}', path='o', {option}", on_spark=True)


def test_a_format_that_others_brought_to_spark_knows_its_options() -> None:
    assert len(read("sink='kafka', topic='t', 'kafka.bootstrap.servers'='h:1'", on_spark=True)) == 1


def test_an_option_for_sparks_writer_goes_on_under_its_own_name(tmp_path) -> None:
    pytest.importorskip("pyspark")
    from watersmeet.hosts.spark.writing.sinks import SparkSink

    (job,) = read(f"sink='spark.csv', path='{tmp_path}/o', 'spark.quoteAll'='true', header='true'", on_spark=True)
    options = SparkSink(job, str(tmp_path / "ck")).options
    assert options["quoteAll"] == options["header"] == "true"
    assert not any(name.startswith("spark.") for name in options)
