"""What goes beside the answers of a run without a checkpoint, into the sinks for it: whole, or not at all."""

from __future__ import annotations

from watersmeet.io.sinks import Sink, sink_from_options
from watersmeet.runtime.side_output import SideOutput


class SideFiles:
    """Opened before the first row is read, so that what is wrong with a sink is said then."""

    def __init__(self, output: SideOutput) -> None:
        self._output = output
        self._sinks: dict[str, Sink] = {}
        try:
            for name, sink in output.sinks.items():
                self._sinks[name] = sink_from_options(name, sink.options, output.schemas[name])
        except BaseException:
            self.abort()
            raise

    def write(self) -> None:
        """What came since the last time."""
        for name, batches in self._output.take().items():
            for batch in batches:
                self._sinks[name].write(batch)

    def close(self) -> None:
        """Keep what was written."""
        self.write()
        sinks, self._sinks = self._sinks, {}
        for sink in sinks.values():
            sink.close()

    def abort(self) -> None:
        sinks, self._sinks = self._sinks, {}
        for sink in sinks.values():
            sink.abort()
