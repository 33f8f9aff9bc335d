"""In which types Arrow's parser of JSON takes what columns are declared as, and how those become the declared ones."""

from __future__ import annotations

import pyarrow as pa


def parsed_type(kind: pa.DataType) -> pa.DataType:
    """Dates are written as text, but the parser takes only numbers for them.

    >>> parsed_type(pa.list_(pa.date32()))
    ListType(list<item: string>)
    """
    if pa.types.is_date(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(parsed_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(parsed_type(field.type)) for field in kind])
    return kind


def parsed_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(parsed_type(field.type)) for field in schema])


def as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Raises pa.ArrowInvalid for a text that is no date."""
    if batch.schema.equals(schema):
        return batch
    columns = [_as_type(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
