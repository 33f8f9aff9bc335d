"""Why a stream has no event time where the user said, as far as its data tells; the catalog says the rest."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from watersmeet.errors import CatalogError
from watersmeet.io.files import FileSource
from watersmeet.model.names import column_named
from watersmeet.model.types import is_text


def check_time_column(name: str, time: str, schema: pa.Schema, source: Any, data: object = None) -> None:
    """Refuse a column that is not there but in the index of a frame, and one that is text because of some value."""
    column = column_named(time, schema.names)
    if column is None and _is_index(data):
        raise CatalogError(
            f"stream {name!r} has no column {time!r} to take its event time from: the index of a frame is none",
            hint=f"give the frame with its index as a column, named {time}: frame.rename_axis('{time}').reset_index()",
        )
    if column is not None and is_text(schema.field(column).type) and isinstance(source, FileSource):
        misread = source.misread_as_time(column)
        if misread is not None:
            raise CatalogError(
                f"the event time {column!r} of stream {name!r} was taken for text: {misread}",
                hint="times are written as 2026-01-31 12:00:00; mend what is none, or name another column as time",
            )


def _is_index(data: object) -> bool:
    """Whether a pandas frame has an index of its own: of times, or with a name."""
    index: Any = getattr(data, "index", None)
    if type(data).__module__.split(".", 1)[0] != "pandas" or index is None:
        return False
    return type(index).__name__ == "DatetimeIndex" or any(one is not None for one in index.names)
