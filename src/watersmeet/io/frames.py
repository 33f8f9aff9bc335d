"""Frames of other libraries as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError


def _from_pandas(frame: Any, name: str) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        columns = getattr(frame, "columns", None)
        if columns is not None and not columns.is_unique:
            twice = columns[columns.duplicated()][0]
            raise SourceError(
                f"the pandas data of stream {name} has two columns named {twice!r}", hint="rename one of them"
            ) from None
        raise SourceError(f"the pandas data of stream {name} cannot become columns: {_first_line(error)}") from None


def _from_polars(frame: Any, name: str) -> pa.Table:
    try:
        collected = frame.collect() if hasattr(frame, "collect") else frame
        return collected.to_arrow()
    except Exception as error:  # a lazy frame runs the user's own query here
        raise SourceError(f"the polars data of stream {name} cannot become columns: {_first_line(error)}") from None


_FRAMES: dict[str, Callable[[Any, str], pa.Table]] = {"pandas": _from_pandas, "polars": _from_polars}


def of_library(data: object, name: str) -> pa.Table | None:
    convert = _FRAMES.get(type(data).__module__.split(".", 1)[0])
    return None if convert is None else convert(data, name)


def frame_as_table(data: object, name: str) -> pa.Table | None:
    """The rows of a frame of any library that Arrow knows; None if it is none."""
    framed = of_library(data, name)
    if framed is not None or not hasattr(data, "__arrow_c_stream__"):
        return framed
    return pa.RecordBatchReader.from_stream(data).read_all()


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
