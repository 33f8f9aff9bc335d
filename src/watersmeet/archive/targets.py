"""Where completed rows go: to the query's sink, chunk by chunk.

A chunk of a file sink is a file of its own, with a name that says which one it is: done twice, it replaces itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import SinkError
from watersmeet.io.console import ConsoleSink
from watersmeet.io.sinks import Sink, file_sink, kind_and_path
from watersmeet.io.writers import writable


class ConsoleTarget:
    """The screen, which cannot take back what it has shown: a chunk that was interrupted is shown again."""

    description = "the console"

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = ConsoleSink(schema, sys.stdout)

    def sink(self, name: str) -> Sink:
        return self

    def clear(self, prefix: str) -> None:
        """What was shown was shown."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.write(batch)

    def close(self) -> None:
        self._sink.flush()

    def abort(self) -> None:
        self._sink.abort()


class FolderTarget:
    """A folder that gets a file for each chunk that has rows."""

    def __init__(self, folder: Path, kind: str, schema: pa.Schema, options: Mapping[str, str]) -> None:
        self.folder, self._kind, self._schema, self._options = folder, kind, schema, options

    @property
    def description(self) -> str:
        return str(self.folder)

    def sink(self, name: str) -> Sink:
        return _OnlyIfRows(self, name)

    def clear(self, prefix: str) -> None:
        """Remove the chunks of an earlier completion."""
        with writable(self.folder):
            for path in self.folder.glob(f"{prefix}*.{self._kind}"):
                path.unlink()

    def open(self, name: str) -> Sink:
        with writable(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / f"{name}.{self._kind}"
        return file_sink(target, self._kind, self._schema, self._options)


class _OnlyIfRows:
    def __init__(self, target: FolderTarget, name: str) -> None:
        self._target, self._name = target, name
        self._sink: Sink | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._sink is None:
            self._sink = self._target.open(self._name)
        self._sink.write(batch)

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()

    def abort(self) -> None:
        if self._sink is not None:
            self._sink.abort()


Target = ConsoleTarget | FolderTarget


def target_of(name: str, options: Mapping[str, str], schema: pa.Schema) -> Target:
    """Where a query's completed rows go. A folder takes them in; beside a file, which cannot grow, or a folder whose
    files a Spark stream keeps account of, they get a folder of their own."""
    kind, path = kind_and_path(name, options)
    if path is None:
        return ConsoleTarget(schema)
    if any(key.lower() == "partition_by" for key in options):
        raise SinkError(
            f"sink {name!r} is partitioned, and rows that were missing cannot be added to it folder by folder",
            hint="run complete on a copy of the script whose sink has another path and no partition_by",
        )
    # Spark's readers go by that log and would not see files that are not in it.
    accounted = (path / "_spark_metadata").exists()
    folder = path if path.is_dir() and not accounted else path.with_name(f"{path.stem}-completed")
    return FolderTarget(folder, kind, schema, {key.lower(): value for key, value in options.items()})
