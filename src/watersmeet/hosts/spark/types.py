"""Spark's types and Arrow's, both ways, for every type the two share."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

from watersmeet.errors import CatalogError

_PLAIN: list[tuple[type[spark.DataType], pa.DataType]] = [
    (spark.BooleanType, pa.bool_()),
    (spark.ByteType, pa.int8()),
    (spark.ShortType, pa.int16()),
    (spark.IntegerType, pa.int32()),
    (spark.LongType, pa.int64()),
    (spark.FloatType, pa.float32()),
    (spark.DoubleType, pa.float64()),
    (spark.StringType, pa.string()),
    (spark.BinaryType, pa.binary()),
    (spark.DateType, pa.date32()),
    (spark.TimestampNTZType, pa.timestamp("us")),
    (spark.TimestampType, pa.timestamp("us", tz="UTC")),
    (spark.DayTimeIntervalType, pa.duration("us")),
    (spark.NullType, pa.null()),
]
# Wider or stranger Arrow types that Spark has no own type for, as Spark reads them.
_WIDENED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def arrow_schema(schema: spark.StructType, where: str) -> pa.Schema:
    """The Arrow schema of a DataFrame; `where` names it in errors."""
    return pa.schema([pa.field(f.name, arrow_type(f.dataType, f"{where}, column {f.name!r}")) for f in schema.fields])


def arrow_type(kind: spark.DataType, where: str) -> pa.DataType:
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.VarcharType | spark.CharType):
        return pa.string()
    if isinstance(kind, spark.ArrayType):
        return pa.list_(arrow_type(kind.elementType, where))
    if isinstance(kind, spark.MapType):
        return pa.map_(arrow_type(kind.keyType, where), arrow_type(kind.valueType, where))
    if isinstance(kind, spark.StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.dataType, where)) for f in kind.fields])
    for spark_kind, arrow_kind in _PLAIN:
        if type(kind) is spark_kind:
            return arrow_kind
    raise CatalogError(
        f"{where} has the Spark type {kind.simpleString()}, which cannot be carried over",
        hint="cast it, or leave it out of the DataFrame",
    )


def spark_schema(schema: pa.Schema) -> spark.StructType:
    return spark.StructType([spark.StructField(f.name, _type_of(f)) for f in schema])


def _type_of(column: pa.Field) -> spark.DataType:
    try:
        return spark_type(column.type)
    except CatalogError as error:
        raise CatalogError(f"column {column.name!r}: {error.message}", hint=error.hint) from None


def spark_type(kind: pa.DataType) -> spark.DataType:
    kind = _WIDENED.get(kind, kind)
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pa.types.is_map(kind):
        return spark.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return spark.ArrayType(spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return spark.StructType([spark.StructField(f.name, spark_type(f.type)) for f in kind])
    if pa.types.is_large_string(kind):
        return spark.StringType()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return spark.BinaryType()
    if pa.types.is_date(kind):
        return spark.DateType()
    for spark_kind, arrow_kind in _PLAIN:
        if kind == arrow_kind:
            return spark_kind()
    raise CatalogError(f"the type {kind} has no counterpart in Spark", hint="cast it in the SELECT list")


def spark_layout(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema in which Spark takes back columns of `schema`."""
    return pa.schema([pa.field(f.name, arrow_type(spark_type(f.type), f.name)) for f in schema])


def is_of_fixed_size(kind: pa.DataType) -> bool:
    """Whether every value takes a few bytes."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))
