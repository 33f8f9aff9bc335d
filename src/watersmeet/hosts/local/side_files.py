"""What goes beside the answers of runs without a checkpoint, into the sinks for it: whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from watersmeet.io.sinks import Sink, sink_from_options
from watersmeet.model.catalog import Stream
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below
from watersmeet.runtime.side_output import SideOutput, with_columns


class SideSinks:
    """The sinks of one run, or of all queries of a script: each is opened once, as two queries may send to it, and has
    the columns of what all of them bring."""

    def __init__(self, output: SideOutput) -> None:
        self._output = output
        self._open: dict[str, Sink] = {}
        self._kept: set[str] = set()

    def open(self, name: str) -> None:
        if name not in self._open:
            schema = self._output.schemas[name]
            self._open[name] = sink_from_options(name, self._output.sinks[name].options, schema)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        self._open[name].write(with_columns(batch, self._output.schemas[name]))

    def keep(self, names: Iterable[str]) -> None:
        """What was written to these is to stay, whatever fails later."""
        self._kept.update(names)

    def close(self) -> None:
        sinks, self._open = self._open, {}
        for name, sink in sinks.items():
            if name in self._kept:
                sink.close()
            else:
                sink.abort()


@contextmanager
def beside_all(plans: Iterable[Plan]) -> Iterator[SideSinks]:
    """The sinks that all queries share. If one fails, what others sent is kept, and what it sent itself to the same
    sinks."""
    read = [one for plan in plans for one in relations_below(plan.root)]
    sinks = SideSinks(SideOutput(one for one in read if isinstance(one, Stream)))
    try:
        yield sinks
    finally:
        sinks.close()


class SideFiles:
    """Those of one run, or of queries that are fed together, opened before the first row is read, so that what is wrong
    with a sink is said then."""

    def __init__(self, output: SideOutput, shared: SideSinks | None = None) -> None:
        self._output = output
        self._sinks = SideSinks(output) if shared is None else shared
        self._is_shared = shared is not None
        try:
            for name in output.sinks:
                self._sinks.open(name)
        except BaseException:
            self.abort()
            raise

    def write(self) -> None:
        """What came since the last time."""
        for name, batches in self._output.take().items():
            for batch in batches:
                self._sinks.write(name, batch)

    def close(self, kept: Iterable[str] | None = None) -> None:
        """Keep what was written, or only what was written to some."""
        self.write()
        self._sinks.keep(self._output.sinks if kept is None else kept)
        if not self._is_shared:
            self._sinks.close()

    def abort(self) -> None:
        if not self._is_shared:
            self._sinks.close()
