"""How results leave the stateful stage, without Spark: by way of pandas, as pyspark takes them on."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.conversion import PandasToArrowConversion
from pyspark.sql.types import StructField, StructType

from watersmeet.hosts.spark.bucket.output import REPORT, TypedOutput
from watersmeet.hosts.spark.exchange.stream_end import REACHED
from watersmeet.hosts.spark.types import spark_layout

BEFORE_1970_US, LAST_US = -62135596800000000, 253402300799999999
VALUES = {
    pa.int64(): [1, None, 2**63 - 1],
    pa.int8(): [1, None, -128],
    pa.uint64(): [1, None, 2**64 - 1],
    pa.bool_(): [True, None, False],
    pa.float64(): [1.5, None, float("inf")],
    pa.float32(): [1.5, None, -0.0],
    pa.string(): ["", None, "ü"],
    pa.binary(): [b"", None, b"\0"],
    pa.timestamp("us", tz="UTC"): [BEFORE_1970_US, None, LAST_US],
    pa.timestamp("us"): [BEFORE_1970_US, None, LAST_US],
    pa.date32(): [-719162, None, 2932896],
    pa.duration("us"): [-1, None, 1],
    pa.decimal128(38, 4): [Decimal("1.5"), None, Decimal("-9999999999999999999999999999999999.9999")],
    pa.null(): [None, None, None],
}


def taken_on(frame: pd.DataFrame, output: TypedOutput) -> pa.RecordBatch:
    """What pyspark sends to Spark of a frame."""
    made = PandasToArrowConversion.convert(
        [frame], StructType([StructField("_0", output.schema)]),
        timezone="Asia/Tokyo", arrow_cast=True, assign_cols_by_name=True,
    )  # fmt: skip
    return pa.RecordBatch.from_struct_array(made.column(0))


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_of_every_plain_type_leave_the_stage_as_they_are(kind: pa.DataType) -> None:
    results = pa.record_batch([pa.array(VALUES[kind], kind)], names=["x"])
    output = TypedOutput(results.schema, "")
    rows = taken_on(output.frame([results, results.slice(2)]), output)
    wanted = pa.chunked_array([results["x"], results["x"].slice(2)]).cast(spark_layout(results.schema).field("x").type)
    assert rows["x"].cast(wanted.type).equals(wanted.combine_chunks())
    assert rows[REPORT].null_count == 4
    report = taken_on(output.report("told", 0), output)
    assert report.to_pylist() == [{"x": None, REPORT: "told"}]


def test_rows_that_tell_something_have_the_watermark_for_event_time_and_no_other_value() -> None:
    output = TypedOutput(
        pa.schema([("at", pa.timestamp("us", tz="UTC")), ("v", pa.list_(pa.int64()))]), "at", marks_end=True
    )
    (row,) = taken_on(output.reached(2**53 + 1, 5_000), output).to_pylist()
    assert row.pop("at").timestamp() == 0.005
    assert row == {"v": None, "__end": None, REACHED: 2**53 + 1, REPORT: None}
