"""What goes beside the answers of a run that goes on, into the sinks for it: under the numbers of its batches.

Each is a sink of numbered batches like that of the answers, with a name of its own for the run, so that two of them may
be of one kind and in one place. What a batch brings here is the same whenever it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.sink_writer import SinkWriter
from watersmeet.io.connectors.contract import NumberedSink, Start
from watersmeet.io.connectors.numbered_sinks import adding, adds_to_files, numbered_sink
from watersmeet.model.side_sink import SideSink
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.fitting import check_not_ahead
from watersmeet.runtime.side_output import SideOutput, side_run
from watersmeet.warning import warn


class SideOutputs:
    def __init__(
        self,
        output: SideOutput,
        checkpoint: Checkpoint,
        start: Start,
        tell: Tell = warn,
        others: Collection[str] = (),
    ) -> None:
        """others: the names of sinks into which other queries of the script have written before this start."""
        self._output = output
        self.last_with_rows = dict(checkpoint.committed().sides)  # the last batch that brought something, by sink
        self._sinks: dict[str, NumberedSink] = {}
        self._flows: dict[str, SinkWriter] = {}
        had = set(checkpoint.notes.get("sides", []))
        try:
            for name, sink in output.sinks.items():
                options = _options(sink, had=name in had, others_had=name in others)
                if checkpoint.follows is not None:
                    run = side_run(checkpoint.follows.run, name)
                    check_not_ahead(name, checkpoint.follows, numbered_sink(name, options, output.schemas[name], run))
                self._sinks[name] = numbered_sink(
                    name,
                    options,
                    output.schemas[name],
                    side_run(checkpoint.run, name),
                    committed=self.last_with_rows.get(name, -1),
                    tell=tell,
                    start=start,
                )
            self._there = {name: sink.committed() for name, sink in self._sinks.items()}
            if self._sinks:
                checkpoint.notes.note(sides=sorted({*had, *self._sinks}))
        except BaseException:
            self.close(commit=False)
            raise

    def start(
        self, settings: RunSettings, on_error: Callable[[BaseException], None], before: Callable[[int], None]
    ) -> None:
        self._flows = {name: SinkWriter(sink, settings, on_error, before) for name, sink in self._sinks.items()}

    @property
    def sinks(self) -> Collection[NumberedSink]:
        return self._sinks.values()

    @property
    def names(self) -> list[str]:
        return list(self._sinks)

    def committed(self) -> int:
        """The last number that one of the sinks had when it was opened."""
        return max(self._there.values(), default=-1)

    def put(self, number: int) -> None:
        """Hand on what a batch has brought, to those that do not have it yet."""
        brought = self._output.take()
        for name, flow in self._flows.items():
            is_there = number <= self._there[name]  # it was committed before a crash
            if any(one.num_rows for one in brought.get(name, [])):
                self.last_with_rows[name] = number
            flow.put(number, [] if is_there else brought.get(name, []))

    def pass_over(self, number: int) -> None:
        """What a batch has brought is another query's."""
        self._output.take()
        for flow in self._flows.values():
            flow.put(number, [])

    def flush(self, number: int) -> None:
        """Return when all up to a batch is in the sinks."""
        for flow in self._flows.values():
            flow.flush(number)

    def hurry(self) -> None:
        """From now on nothing waits for the time of its commit."""
        for flow in self._flows.values():
            flow.hurry()

    def close(self, *, commit: bool) -> None:
        # They stay, for who still waits for them beside: what was not committed must not count as if it were.
        failure: BaseException | None = None
        for name, sink in self._sinks.items():
            try:
                if name in self._flows:
                    self._flows[name].close(commit=commit)
                else:
                    sink.close()
            except BaseException as error:
                failure = failure or error
        if failure is not None:
            raise failure


def _options(sink: SideSink, *, had: bool, others_had: bool) -> dict[str, str]:
    """What lay there before was looked at when the sink was new to the first query of the script. What lies there since
    may be another query's, also where this one has written nothing yet, or was added later."""
    given = {name.lower(): value for name, value in sink.options.items()}
    return adding(given) if others_had or (had and adds_to_files(given)) else given
