"""Names of types in declarations, and what columns become when they come in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.model.types import arrow_type
from watersmeet.model.zones import entering_type, zoned_type


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("varchar(20)", pa.string()),
        ("CHAR ( 3 )", pa.string()),
        ("decimal", pa.decimal128(18, 3)),
        ("NUMERIC(5)", pa.decimal128(5, 0)),
        ("numeric ( 38, 38 )", pa.decimal128(38, 38)),
        ("double  precision", pa.float64()),
        ("timestamp(6) with time zone", pa.timestamp("us", tz="UTC")),
        ("BIGINT[]", pa.list_(pa.int64())),
        ("varchar(9)[][]", pa.list_(pa.list_(pa.string()))),
        ("ARRAY<ARRAY<INT>>", pa.list_(pa.list_(pa.int32()))),
        ("struct(Name TEXT, price DECIMAL(10, 2), tags STRING[])",
         pa.struct({"Name": pa.string(), "price": pa.decimal128(10, 2), "tags": pa.list_(pa.string())})),
        ('STRUCT<a: INT, "b c": STRUCT<d TIMESTAMP>>',
         pa.struct({"a": pa.int32(), "b c": pa.struct({"d": pa.timestamp("us")})})),
        ("MAP(STRING, DOUBLE)", pa.map_(pa.string(), pa.float64())),
    ],
)  # fmt: skip
def test_a_type_may_be_written_as_databases_do(written: str, kind: pa.DataType) -> None:
    assert arrow_type(written) == kind


@pytest.mark.parametrize(
    "written",
    [
        "decimal(39)",
        "decimal(0)",
        "numeric(3, 4)",
        "int(3)",
        "timestamp(3)",
        "money",
        "money[]",
        "struct(a)",
        "map(int)",
    ],
)
def test_a_type_that_is_none_is_not_guessed(written: str) -> None:
    assert arrow_type(written) is None


BERLIN = "Europe/Berlin"
FINE, COARSE = pa.timestamp("ns", tz="UTC"), pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("given", "inside"),
    [
        (pa.date64(), pa.date32()),
        (pa.duration("s"), pa.duration("us")),
        (pa.list_(pa.field("each", FINE, nullable=False)), pa.list_(pa.field("each", COARSE, nullable=False))),
        (pa.large_list(FINE), pa.large_list(COARSE)),
        (pa.map_(pa.date64(), FINE), pa.map_(pa.date32(), COARSE)),
        (pa.struct({"at": FINE, "n": pa.int8()}), pa.struct({"at": COARSE, "n": pa.int8()})),
    ],
    ids=str,
)
def test_times_inside_values_are_treated_as_those_of_columns(given: pa.DataType, inside: pa.DataType) -> None:
    assert entering_type(given) == inside
    assert str(zoned_type(given, BERLIN)) == str(inside).replace("UTC", BERLIN)
