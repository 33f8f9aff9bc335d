"""What to say when a CSV file does not hold what it should: which column, which value, where, and what would do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SourceError
from watersmeet.io.filesystems import AnyFile
from watersmeet.model.types import sql_type, type_for
from watersmeet.model.wording import counted

NULL_WORDS = frozenset({"na", "n/a", "nan", "null", "none", "nil", "-", "?", "\\n"})
# By Arrow's words, as its errors carry nothing else.
_CONVERSION = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): (.*)", re.DOTALL)
_QUOTED = re.compile(r"'(.*)'", re.DOTALL)
_ZONE = re.compile(r"expected (no|a) zone offset")
_TOO_FINE = re.compile(r"In CSV column #(\d+): .*Rescaling Decimal value would cause data loss")
_WHOLE = re.compile(r"[+-]?\d{1,100}", re.ASCII)
_LONGEST = 60
_ONE_COLUMN = re.compile(r"Expected 1 columns, got \d+")
# The values of one column of a file as text, in pieces.
Values = Callable[[str], Iterator[pa.Array]]


def value_error(
    error: pa.ArrowInvalid, path: AnyFile, wanted: pa.Schema, names: list[str], values: Values, *, header: bool
) -> SourceError | None:
    """The same error with names, or None for one that is not about a value. `names` are the columns of the file."""
    found = _CONVERSION.search(str(error))
    if found is None or int(found[1]) >= len(names) or names[int(found[1])] not in wanted.names:
        return None
    column = wanted.field(names[int(found[1])])
    if "invalid UTF8" in found[3]:
        return not_text(path, column.name)
    quoted = _QUOTED.search(found[3])
    if quoted is None:
        return None
    value, zone = quoted[1], _ZONE.search(found[3])
    # Arrow does not always count the rows, so the value is looked for.
    row = _row_of(value, values(column.name))
    which = "" if zone is None else f", with{'' if zone[1] == 'no' else 'out'} a zone"
    where = "" if row is None else f" in row {row:,}{' after the header' if header else ''}"
    shown = value if len(value) <= _LONGEST else value[:_LONGEST] + "…"
    return SourceError(
        f"{path} cannot be read: column {column.name!r} is {sql_type(column.type)}, but holds {shown!r}{where}{which}",
        hint=_zones(column) if zone else _way_out(value, column),
    )


def ragged(expected: int, found: int) -> str:
    """What to say of a line with too many or too few values."""
    return f"it has {counted(found, 'value')} for {counted(expected, 'column')}"


def misfit(words: str, wanted: pa.Schema, names: list[str], values: list[str]) -> str | None:
    """What Arrow says of a value that is not of the type of its column, in words of ours; None if it says something
    else. `values` are those of the row."""
    found = _CONVERSION.search(words) or _TOO_FINE.search(words)
    place = len(names) if found is None else int(found[1])
    if place >= min(len(names), len(values)) or names[place] not in wanted.names:
        return None
    column = wanted.field(names[place])
    finer = f", which has more than {column.type.scale} digits behind the point" if _TOO_FINE.search(words) else ""
    return f"{column.name!r} is {sql_type(column.type)}, but {values[place]!r} is there{finer}"


def is_blank(error: pa.ArrowInvalid) -> bool:
    """Whether a file has nothing but empty lines."""
    return "Empty CSV file" in str(error)


def not_text(path: AnyFile, column: str) -> SourceError:
    return SourceError(
        f"{path} cannot be read: column {column!r} holds invalid UTF8 data",
        hint="write the file anew in UTF-8, as by iconv -f latin1 -t utf-8; or declare the column BINARY",
    )


def _row_of(value: str, pieces: Iterator[pa.Array]) -> int | None:
    before = 0
    for piece in pieces:
        index = pc.index(piece, pa.scalar(value, piece.type)).as_py()
        if index >= 0:
            return before + int(index) + 1
        before += len(piece)
    return None


def _way_out(value: str, column: pa.Field) -> str | None:
    if value.strip().lower() in NULL_WORDS:
        return f"null_values = '{value.strip()}' in WITH (…) reads it as NULL"
    if pa.types.is_integer(column.type) and _WHOLE.fullmatch(value.strip()):
        return f"declare {column.name} {type_for(int(value))}, which holds it"
    if pa.types.is_integer(column.type) and _is_number(value):
        return f"declare {column.name} DOUBLE, and CAST it in the query: CAST({column.name} AS {sql_type(column.type)})"
    if pa.types.is_timestamp(column.type):
        return "times are written as 2026-01-31 12:00:00; mend the row, or declare the column STRING"
    return None


def _zones(column: pa.Field) -> str:
    return f"either all times of {column.name} have a zone or none has; declare it STRING to read it as text"


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def shape_error(error: pa.ArrowInvalid, path: AnyFile, delimiter: str) -> SourceError | None:
    """The same error for a file whose header holds no delimiter, but whose rows do; None for any other."""
    if _ONE_COLUMN.search(str(error)) is None:
        return None
    return SourceError(
        f"{path} cannot be read: its header is one column, but rows have several between {delimiter!r}",
        hint="say what separates columns: delimiter = ';' in the WITH (…) of a CREATE",
    )
