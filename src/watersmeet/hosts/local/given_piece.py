"""A piece of a stream as each of several queries is given it: rows that concern it, with columns that it looks at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from watersmeet.hosts.local.lines import Looking
from watersmeet.model.catalog import Stream
from watersmeet.operators.answers import Answer
from watersmeet.operators.contract import Rows
from watersmeet.runtime.predicate_index import RowsByValue


class Given(Looking, Protocol):
    """A query that is given pieces."""

    def step(self, stream: str, rows: Rows | None, concerned: Rows | None = None) -> Iterable[Answer]: ...


class GivenPiece:
    """A piece of a stream, or its end, as each of several queries is given it."""

    def __init__(
        self, stream: Stream, rows: Rows | None, by_value: RowsByValue[int] | None, whole: frozenset[int]
    ) -> None:
        """whole: those who are given all columns."""
        self._stream, self._rows, self._by_value, self._whole = stream, rows, by_value, whole
        self._narrowed: dict[frozenset[str], Rows] = {}

    @property
    def name(self) -> str:
        return self._stream.name

    @property
    def count(self) -> int:
        return 0 if self._rows is None else len(self._rows)

    def step_of(self, run: Given) -> Iterator[Answer]:
        """Not before they are asked for: what goes wrong is then the query's own."""
        if self._rows is None:
            yield from run.step(self._stream.name, None)
            return
        concerned = None if self._by_value is None else self._by_value.of(id(run))
        columns = self._columns_of(run)
        if concerned is not None and columns is not None:
            concerned = concerned.only(columns)
        yield from run.step(self._stream.name, self.rows_for(run), concerned)

    def rows_for(self, run: Given) -> Rows:
        assert self._rows is not None
        columns = self._columns_of(run)
        if columns is None:
            return self._rows
        if columns not in self._narrowed:
            self._narrowed[columns] = self._rows.only(columns)
        return self._narrowed[columns]

    def _columns_of(self, run: Given) -> frozenset[str] | None:
        return None if id(run) in self._whole else _columns_for(run, self._stream)


def _columns_for(run: Looking, stream: Stream) -> frozenset[str] | None:
    """What a query looks at of a stream that others look at too; None: all."""
    columns = run.columns_of(stream.name)
    if columns is None or stream.by_arrival or stream.late_to is not None:
        return None
    return columns | {stream.time}
