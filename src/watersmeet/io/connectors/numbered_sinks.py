"""The sinks that take numbered batches, by the options of CREATE SINK."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from watersmeet.io.connectors.contract import NumberedSink, SinkOpening, Start
from watersmeet.io.connectors.files.sink import folder_sink
from watersmeet.io.connectors.gone import OPTION, check_committed
from watersmeet.io.connectors.opening import open_sink
from watersmeet.io.connectors.registry import connector_of
from watersmeet.io.console import ConsoleSink
from watersmeet.io.sinks import kind_and_path, limit_of
from watersmeet.warning import warn

_MODE = "mode"


class NumberedConsole(NumberedSink):
    """Prints what comes. A screen cannot be asked what is on it: after a crash the last rows may come once more."""

    def __init__(self, schema: pa.Schema, limit: int | None) -> None:
        self._console = ConsoleSink(schema, sys.stdout, limit=limit)

    def committed(self) -> int:
        return -1

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        for batch in rows:
            self._console.write(batch)
        self._console.flush()

    def close(self) -> None:
        self._console.close()


class NoSink(NumberedSink):
    """Answers are only for those who listen."""

    def committed(self) -> int:
        return -1

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        pass


def numbered_sink(
    name: str,
    options: Mapping[str, str],
    schema: pa.Schema,
    run: str,
    *,
    keys: tuple[str, ...] = (),
    changes: str | None = None,
    committed: int = -1,
    tell: Callable[[Warning], None] = warn,
    start: Start | None = None,
    threads: int = 1,
) -> NumberedSink:
    """The sink that WITH (sink = …, path = …, mode = …) asks for, for a run that goes on. keys, changes: by which
    columns the rows of a changing answer are known, and which one says whether they come or go. committed: the last
    number that the checkpoint knows it to have; if it has not, that is an error, or told where readers may take files
    away. start: this one of the run, which owns the sink from now on. threads: in how many rows may be encoded."""
    given = {key.lower(): value for key, value in options.items()}
    connector = connector_of("sink", given)
    if connector is not None:
        sink = open_sink(connector, name, given, schema, run, keys, changes, committed, start, threads)
        check_committed(name, sink, committed, given.get(OPTION), tell)
        return sink
    kind, path = kind_and_path(name, given)
    if path is None:
        return NumberedConsole(schema, limit_of(name, given))
    sink = folder_sink(SinkOpening(name, given, schema, run, start=start, threads=threads), path, kind)
    check_committed(name, sink, committed, None, tell)
    return sink


def adding(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a sink that leaves what is there where it is, whatever its mode; of one that has no such modes,
    as they are."""
    given = {name.lower(): value for name, value in options.items()}
    connector = connector_of("sink", given)
    has_modes = adds_to_files(given) if connector is None else _MODE in connector.sink_options.names
    replaces = given.get(_MODE, "error").lower() in ("error", "overwrite")
    return {**given, _MODE: "append"} if has_modes and replaces else given


def adds_to_files(options: Mapping[str, str]) -> bool:
    """Whether a sink writes files, of this machine or a store; names of options are in lower case."""
    connector = connector_of("sink", options)
    return options.get("sink", "").lower() != "console" if connector is None else connector.name == "files"
