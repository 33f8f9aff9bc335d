"""The rows of several queries on one screen, although they come side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa

from watersmeet.io.console import ConsoleSink
from watersmeet.io.sinks import Sink

HELD_BYTES = 64 << 20  # more than that waits on disk


class HeldRows:
    """Rows that wait to be printed."""

    def __init__(self, schema: pa.Schema, most_bytes: int = HELD_BYTES) -> None:
        self._schema, self._most_bytes = schema, most_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if self._writer is not None:
            self._writer.write_batch(batch)
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._most_bytes:
            self._to_disk()

    def take(self) -> Iterator[pa.RecordBatch]:
        """All of them, once, in the order in which they came."""
        batches, self._batches = self._batches, []
        yield from batches
        if self._file is not None and self._writer is not None:
            self._writer.close()
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)
        self.forget()

    def forget(self) -> None:
        self._batches = []
        if self._file is not None:
            self._file.close()
            self._file = self._writer = None

    def _to_disk(self) -> None:
        self._file = TemporaryFile(prefix="watersmeet-")  # noqa: SIM115
        self._writer = pa.ipc.new_stream(self._file, self._schema)
        for batch in self._batches:
            self._writer.write_batch(batch)
        self._batches = []


class InTurn:
    """Queries whose input ends: the rows of one come after those of the other, as if they ran one after the other. The
    first prints as it goes, the rows of the others wait."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    def sink(self, name: str, sink: ConsoleSink, schema: pa.Schema) -> Sink:
        """Sinks print in the order in which they are asked for."""
        self._waiting.append(_Waiting(self, sink, HeldRows(schema)))
        return self._waiting[-1]

    def is_next(self, one: _Waiting) -> bool:
        return self._waiting[0] is one

    def go_on(self) -> None:
        """Those that have ended print all that they have, the next one what it has so far."""
        while self._waiting:
            first = self._waiting[0]
            for batch in first.held.take():
                first.sink.write(batch)
            if not first.has_ended:
                return
            first.finish()
            self._waiting.pop(0)


class _Waiting:
    def __init__(self, turns: InTurn, sink: Sink, held: HeldRows) -> None:
        self._turns, self.sink, self.held = turns, sink, held
        self.has_ended = self._is_aborted = False

    def write(self, batch: pa.RecordBatch) -> None:
        if self._turns.is_next(self):
            self.sink.write(batch)
        else:
            self.held.add(batch)

    def finish(self) -> None:
        if not self._is_aborted:
            self.sink.close()

    def close(self) -> None:
        self.has_ended = True
        self._turns.go_on()

    def abort(self) -> None:
        self.sink.abort()
        self.held.forget()
        self._is_aborted = True
        self.close()


class ByName:
    """Queries that may go on for ever: rows are printed as they come, and a line before them says whose they are where
    those before were of another query."""

    def __init__(self) -> None:
        self._last: _Named | None = None

    def sink(self, name: str, sink: ConsoleSink, schema: pa.Schema) -> Sink:
        return _Named(self, sink, name)

    def begin(self, one: _Named) -> None:
        if self._last is not one:
            if self._last is not None:
                self._last.sink.flush()
            sys.stdout.write(f"-- {one.name}\n")
            self._last = one


class _Named:
    def __init__(self, screen: ByName, sink: ConsoleSink, name: str) -> None:
        self._screen, self.sink, self.name = screen, sink, name

    def write(self, batch: pa.RecordBatch) -> None:
        self._screen.begin(self)
        self.sink.write(batch)

    def close(self) -> None:
        self._screen.begin(self)
        self.sink.close()

    def abort(self) -> None:
        self.sink.abort()


Screen = InTurn | ByName
