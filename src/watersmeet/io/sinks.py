"""Where results go. A file appears under its final name only when it is complete."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.io.connectors.opening import open_sink
from watersmeet.io.connectors.registry import connector_of, known_sinks
from watersmeet.io.console import ConsoleSink
from watersmeet.io.drafts import Drafts, put_in_place
from watersmeet.io.modes import check_replaceable, in_the_way, is_file_not_folder, mode_of, visible_files
from watersmeet.io.partitioned import partition_columns
from watersmeet.io.path_formats import SPELLINGS
from watersmeet.io.whole_files import hidden_beside
from watersmeet.io.writers import WRITERS, check_settings, writable


class Sink(Protocol):
    """An output. `close` makes what was written visible, `abort` leaves no trace of it."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class FilesOnce:
    """Files of a run that nobody goes on with: under hidden names until it ends."""

    def __init__(
        self, target: Path, drafts: Drafts, put: Callable[[Mapping[str, str]], None], scratch: Path | None = None
    ) -> None:
        """put: puts drafts where they belong. scratch: a folder that holds nothing but them."""
        self._target, self._drafts, self._put, self._scratch = target, drafts, put, scratch

    def write(self, batch: pa.RecordBatch) -> None:
        with writable(self._target):
            self._drafts.write(batch)

    def close(self) -> None:
        with writable(self._target):
            self._put(self._drafts.finish())

    def abort(self) -> None:
        with writable(self._target):
            self._drafts.discard()
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)


def sink_from_options(
    name: str,
    options: Mapping[str, str],
    schema: pa.Schema,
    *,
    keys: tuple[str, ...] = (),
    changes: str | None = None,
    threads: int = 1,
) -> Sink:
    """The sink that WITH (sink = …, path = …, mode = …) asks for. Options that nothing reads are refused before, where
    the script is read. keys, changes, threads: as for `numbered_sink`."""
    given = {key.lower(): value for key, value in options.items()}
    connector = connector_of("sink", given)
    if connector is not None:
        # Nothing goes on with this run, so its name is nobody else's.
        run = uuid4().hex[:12]
        return CommittingSink(open_sink(connector, name, given, schema, run, keys, changes, threads=threads))
    kind, path = kind_and_path(name, given)
    if path is None:
        return ConsoleSink(schema, sys.stdout, limit=limit_of(name, given))
    columns = partition_columns(name, given.get("partition_by"), schema)
    if columns:
        return _open_partitioned(path, kind, mode_of(name, given), schema, given, columns, threads)
    return _open(path, kind, mode_of(name, given), schema, given, threads)


def check_sink(name: str, options: Mapping[str, str], schema: pa.Schema) -> None:
    """What is wrong with a sink, as far as that can be told before it is opened."""
    given = {key.lower(): value for key, value in options.items()}
    if connector_of("sink", given) is not None:
        return
    kind, path = kind_and_path(name, given)
    if path is None:
        limit_of(name, given)
        return
    mode_of(name, given)
    partition_columns(name, given.get("partition_by"), schema)
    check_settings(kind, given)


def kind_and_path(name: str, options: Mapping[str, str]) -> tuple[str, Path | None]:
    """The kind of a sink and where it writes to; the console has no path."""
    given = {key.lower(): value for key, value in options.items()}
    path = given.get("path")
    kind = given.get("sink", "").lower() or _kind_of(name, path)
    kind = SPELLINGS.get(kind, kind)
    if kind == "console":
        return kind, None
    if kind not in WRITERS:
        raise SinkError(f"there is no sink {kind!r}", hint=known_sinks(kind))
    if not path:
        raise SinkError(f"sink {name!r} has no path to write to", hint="add path = '…' to its WITH (…)")
    if "\0" in path:
        raise SinkError(f"sink {name!r} has a path with a NUL character in it: {path!r}")
    return kind, Path(path).expanduser()


def _kind_of(name: str, path: str | None) -> str:
    suffix = Path(path or "").suffix.lower().lstrip(".")
    kind = SPELLINGS.get(suffix, suffix)
    if kind not in WRITERS:
        raise SinkError(f"sink {name!r} does not say its kind", hint=known_sinks())
    return kind


def limit_of(name: str, options: Mapping[str, str]) -> int | None:
    written = options.get("limit")
    if written is None:
        return None
    if not written.isdigit():
        raise SinkError(f"sink {name!r} has limit = {written!r}; it must be a whole number of rows")
    return int(written)


def _open(path: Path, kind: str, mode: str, schema: pa.Schema, options: Mapping[str, str], threads: int) -> Sink:
    if mode == "error" and path.exists():
        raise _exists(path)
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            return _open_in_folder(path, kind, mode, schema, options, threads)
        start = path if mode == "append" and path.exists() else None
        if start is not None and kind == "parquet":
            raise SinkError(
                f"{path} is a parquet file, and such files cannot grow",
                hint="give a folder as path; append then adds a file to it",
            )
        return file_sink(path, kind, schema, options, start, threads, is_new=mode == "error")


def file_sink(
    target: Path,
    kind: str,
    schema: pa.Schema,
    options: Mapping[str, str],
    start: Path | None = None,
    threads: int = 1,
    *,
    is_new: bool = False,
) -> FilesOnce:
    """One file. start: a file whose content comes first. is_new: nothing may lie there at the end either."""
    folder, hidden = target.parent, hidden_beside(target)
    drafts = Drafts(folder, kind, schema, options, (), lambda inside, count: (hidden.name, target.name), start, threads)

    def put(files: Mapping[str, str]) -> None:
        if is_new and target.exists():  # somebody else has written it meanwhile
            drafts.discard()
            raise _exists(target)
        # In one folder a rename is atomic: readers see the old file or the whole new one.
        put_in_place(folder, files, folder)

    return FilesOnce(target, drafts, put)


def _open_in_folder(
    path: Path, kind: str, mode: str, schema: pa.Schema, options: Mapping[str, str], threads: int
) -> Sink:
    if mode == "overwrite":
        raise SinkError(
            f"{path} is a folder, and overwrite replaces only files",
            hint="remove the folder first, or say mode = 'append' to add a file to it",
        )
    return file_sink(path / _part(_next_part(path), kind), kind, schema, options, None, threads)


def _open_partitioned(
    path: Path,
    kind: str,
    mode: str,
    schema: pa.Schema,
    options: Mapping[str, str],
    columns: Sequence[str],
    threads: int,
) -> Sink:
    """Its files are in a hidden folder beside the target, and take its place or are added to it."""
    if path.is_file():
        raise is_file_not_folder(path)
    with writable(path):
        if mode == "error" and path.exists() and any(path.iterdir()):
            raise _exists(path)
        if mode == "overwrite":
            check_replaceable(path, visible_files(LocalFileSystem(), str(path)), columns)
        hidden = hidden_beside(path)
        hidden.mkdir(parents=True)

    def names(inside: str, count: int) -> tuple[str, str]:
        return (place := f"{inside}/{_part(count, kind)}"), place

    def put(files: Mapping[str, str]) -> None:
        if mode == "append" and path.exists():
            put_in_place(hidden, files, path)
            shutil.rmtree(hidden)
            return
        if mode == "error" and path.exists() and any(path.iterdir()):  # somebody else has written there meanwhile
            shutil.rmtree(hidden)
            raise _exists(path)
        if path.exists():
            shutil.rmtree(path)
        hidden.replace(path)

    return FilesOnce(path, Drafts(hidden, kind, schema, options, columns, names, None, threads), put, hidden)


def _exists(path: Path) -> SinkError:
    return in_the_way(f"{path} already exists", has_checkpoint=False)


def _part(number: int, kind: str) -> str:
    # The random part keeps two writers apart that counted at the same time.
    return f"part-{number:05d}-{uuid4().hex[:8]}.{kind}"


def _next_part(folder: Path) -> int:
    """A number after those of the parts that are there, so that name order is writing order."""
    numbers = [p.name.split("-")[1] for p in folder.glob("part-*-*")]
    return 1 + max((int(number) for number in numbers if number.isdigit()), default=-1)


COMMIT_ROWS = 1 << 18


class CommittingSink:
    """A sink of numbered batches for a run without a checkpoint: rows are committed as they come, so many at a time.

    What was committed stays if the run fails later: where others read along, nothing can be taken back.
    """

    def __init__(self, sink: NumberedSink) -> None:
        self._sink = sink
        self._number = 0
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._rows += batch.num_rows
        if self._rows >= COMMIT_ROWS:
            self._commit()

    def close(self) -> None:
        if self._waiting:
            self._commit()
        self._sink.close()

    def abort(self) -> None:
        self._sink.close()

    def _commit(self) -> None:
        self._sink.commit(self._number, self._waiting)
        self._number += 1
        self._waiting, self._rows = [], 0
