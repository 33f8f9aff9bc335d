"""CSV: one line in every record, without a header. They are parsed as lines of one text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from watersmeet.dataclass import dataclass
from watersmeet.io.connectors.bad_reasons import NO_VALUE, NOT_CSV, WRONG_TYPE
from watersmeet.io.connectors.kafka.decoding.contract import Decoded, UndecodableError, sorted_out
from watersmeet.io.connectors.kafka.records import Records
from watersmeet.model.types import sql_type

# The place of a record comes before its first field, so that lines cannot be taken for those of others.
_PLACE = "watersmeet place"
_QUOTE = b'"'
_COUNT = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")
_VALUE = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to .+?: invalid value ('.*')", re.DOTALL
)


@dataclass(frozen=True)
class CsvDecoder:
    """Fields in the order of the columns. An empty field without quotes is NULL, and so are `null_values`."""

    schema: pa.Schema
    delimiter: str = ","
    null_values: tuple[str, ...] = ()

    def decode(self, records: Records) -> Decoded:
        return sorted_out(records.values, self.schema, self.rows, (NO_VALUE, "the record has no value"))

    def rows(self, values: Sequence[bytes]) -> pa.RecordBatch:
        comma = self.delimiter.encode()
        if any(one.count(_QUOTE) % 2 for one in values):  # Arrow would close it at the end of the text
            raise UndecodableError(NOT_CSV, "a quote is not closed")
        text = b"\n".join([b"%d%s%s" % (place, comma, one) for place, one in enumerate(values)])
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(text),
                pa_csv.ReadOptions(
                    use_threads=False, block_size=len(text) + 1, column_names=[_PLACE, *self.schema.names]
                ),
                pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=False),
                pa_csv.ConvertOptions(
                    column_types={_PLACE: pa.int64(), **{one.name: one.type for one in self.schema}},
                    null_values=["", *self.null_values],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise _undecodable(str(error), self.schema) from None
        places = table.column(_PLACE).to_numpy()
        if len(places) != len(values) or not np.array_equal(places, np.arange(len(values))):
            raise UndecodableError(NOT_CSV, "it is not one line")
        columns = [table.column(one.name).combine_chunks() for one in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _undecodable(words: str, schema: pa.Schema) -> UndecodableError:
    """Arrow counts the place of a record as a column of its own."""
    if counted := _COUNT.match(words):
        expected, got = (int(one) - 1 for one in counted.groups())
        return UndecodableError(
            NOT_CSV, f"it has {got} value{'' if got == 1 else 's'}, but {expected} columns are declared"
        )
    found = _VALUE.match(words)
    if found and 0 < int(found[1]) <= len(schema):
        column = schema.field(int(found[1]) - 1)
        return UndecodableError(WRONG_TYPE, f"{column.name!r} is {sql_type(column.type)}, but {found[2]} is there")
    return UndecodableError(WRONG_TYPE if "conversion error" in words else NOT_CSV, words)
