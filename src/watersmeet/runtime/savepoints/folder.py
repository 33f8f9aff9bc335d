"""A savepoint on a disk or in a store: `manifest.json`, and a folder of Arrow files for each query.

It is there whole or not at all: a folder gets its name when all that is in it is written, and in a store the manifest
is put last. All files have a sum in it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import UTC, datetime
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs

from watersmeet.errors import RunError
from watersmeet.io.filesystems import is_in_store, located
from watersmeet.io.store_errors import gist_of
from watersmeet.io.whole_files import hidden_beside, sync
from watersmeet.runtime.changes import Held
from watersmeet.runtime.checkpoints import folder_name
from watersmeet.runtime.savepoints.arrow_state import read_state, write_state
from watersmeet.runtime.savepoints.contents import Moment, QueryContents, StreamPlace
from watersmeet.temporary_folders import hold, left_among, remove_left
from watersmeet.version import VERSION

FORMAT = 1  # to be raised when what lies in a savepoint can no longer be read by the code that reads it now
MANIFEST = "manifest.json"
QUERY = "query"  # what one is called that has no name
_APART = ("streams", "moment", "state", "present", "tables")


class SavepointWriter:
    def __init__(self, files: pa_fs.FileSystem, base: str, *, on_disk: bool) -> None:
        self._files, self._base, self._on_disk = files, base, on_disk
        self._queries: dict[str, Any] = {}

    def add(self, name: str, one: QueryContents) -> None:
        """A query, by the name that it has in its script."""
        folder = folder_name(name)
        self._files.create_dir(f"{self._base}/{folder}")

        def write(file: str, batch: pa.RecordBatch) -> dict[str, Any]:
            return self._write_arrow(f"{folder}/{file}", batch)

        present = None
        if one.present is not None:
            present = [
                write(f"present-{word}.arrow", rows) for word, rows in zip(("held", "since"), one.present, strict=True)
            ]
        own = {part.name: getattr(one, part.name) for part in fields(QueryContents) if part.name not in _APART}
        self._queries[name] = {
            **own,
            "streams": {stream: asdict(place) for stream, place in one.streams.items()},
            "moment": asdict(one.moment),
            "state": write_state(one.state, write),
            "present": present,
            "tables": {
                table: write(f"table-{folder_name(table)}.arrow", _one_batch(rows))
                for table, rows in one.tables.items()
            },
        }

    def finish(self) -> None:
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        manifest = {"format": FORMAT, "version": VERSION, "made": made, "queries": self._queries}
        manifest["sum"] = _sum_of(json.dumps(manifest).encode())
        data = json.dumps(manifest, indent=1).encode()
        with _Summed(self._files, f"{self._base}/{MANIFEST}", on_disk=self._on_disk) as file:
            file.write(data)

    def _write_arrow(self, name: str, batch: pa.RecordBatch) -> dict[str, Any]:
        with _Summed(self._files, f"{self._base}/{name}", on_disk=self._on_disk) as file:
            with pa.ipc.new_file(pa.PythonFile(file, "w"), batch.schema) as writer:
                writer.write_batch(batch)
            return {"file": name, "rows": batch.num_rows, "bytes": file.size, "sum": file.sum}


@contextmanager
def writing_savepoint(out: Path | str) -> Iterator[SavepointWriter]:
    """Whoever has added all queries leaves, and it is there."""
    if isinstance(out, str) and is_in_store(out):
        with _naming_errors(out, "written"):
            files, base = located(out.rstrip("/"), ())
            found = files.get_file_info(pa_fs.FileSelector(base, allow_not_found=True))
            if found:
                raise _in_the_way(out)
            writer = SavepointWriter(files, base, on_disk=False)
            yield writer
            writer.finish()
        return
    path = Path(out).expanduser().absolute()
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise _in_the_way(path)
    with _naming_errors(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in left_among(path.parent.glob(f".{escape(path.name)}.????????.tmp")):  # of one that was killed
            remove_left(left)
        draft = hidden_beside(path)
        draft.mkdir(mode=0o700)
        held = hold(draft)
        try:
            writer = SavepointWriter(pa_fs.LocalFileSystem(), str(draft), on_disk=True)
            yield writer
            writer.finish()
            if path.exists():
                path.rmdir()
            draft.replace(path)
            sync(path.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        finally:
            if held is not None:
                os.close(held)


def _in_the_way(out: Path | str) -> RunError:
    return RunError(f"a savepoint cannot be written to {out}: something is there already", hint="name another folder")


def is_savepoint(place: Path | str) -> bool:
    """Whether one lies there, damaged or not."""
    files, base = _located(place)
    with _naming_errors(place, "read"):
        return bool(files.get_file_info(f"{base}/{MANIFEST}").type == pa_fs.FileType.File)


def _located(place: Path | str) -> tuple[pa_fs.FileSystem, str]:
    if isinstance(place, str) and is_in_store(place):
        return located(place.rstrip("/"), ())
    return pa_fs.LocalFileSystem(), str(Path(place).expanduser().absolute())


class Savepoint:
    """One that was written."""

    def __init__(self, place: Path | str) -> None:
        self.place = place
        self._files, self._base = _located(place)
        with _naming_errors(place, "read"):
            self._manifest = self._read_manifest()

    def _read_manifest(self) -> dict[str, Any]:
        path = f"{self._base}/{MANIFEST}"
        if self._files.get_file_info(path).type != pa_fs.FileType.File:
            raise RunError(
                f"{self.place} is no savepoint: there is no {MANIFEST} in it",
                hint="watersmeet savepoint CHECKPOINT OUT makes one",
            )
        with self._files.open_input_stream(path) as file:
            data = file.read()
        try:
            manifest: dict[str, Any] = json.loads(data)
            total = manifest.pop("sum")
        except (ValueError, KeyError, AttributeError):
            raise self._damaged(MANIFEST, "it is not what was written") from None
        self._mark = str(total)
        if total != _sum_of(json.dumps(manifest).encode()):
            raise self._damaged(MANIFEST, "it is not what was written")
        if manifest["format"] != FORMAT:
            raise RunError(
                f"the savepoint {self.place} has format {manifest['format']}, which watersmeet {manifest['version']} "
                f"wrote; watersmeet {VERSION} reads format {FORMAT}",
                hint=f"go on with watersmeet {manifest['version']}",
            )
        return manifest

    @property
    def mark(self) -> str:
        """Which one it is, wherever it lies."""
        return self._mark

    def check_mark(self, mark: str) -> None:
        if self.mark != mark:
            raise RunError(
                f"{self.place} is not the savepoint any more that the run began with",
                hint="bring that one back, or begin with the other in a new checkpoint",
            )

    def identities(self) -> dict[str, str]:
        """Of its queries, by their names."""
        return {name: one["identity"] for name, one in self._manifest["queries"].items()}

    def held(self) -> dict[str, Held | None]:
        """What its queries asked, by their names."""
        return {
            name: Held(one["asked"], one["gives"], one["options"], one.get("kept")) if one.get("asked") else None
            for name, one in self._manifest["queries"].items()
        }

    def query(self, name: str) -> QueryContents:
        """All that is said of a query, by its name; of a savepoint of one query, under any name."""
        held = self._manifest["queries"]
        if name not in held and len(held) > 1:
            raise RunError(
                f"the savepoint {self.place} has no query {name!r}; it has {', '.join(map(repr, held))}",
                hint="queries are known by their names: go on with the script that was running",
            )
        said = dict(held.get(name) or next(iter(held.values())))
        with _naming_errors(self.place, "read"):
            moment = dict(said.pop("moment"))
            silent = moment.pop("silent")
            return QueryContents(
                streams={stream: StreamPlace(**place) for stream, place in said.pop("streams").items()},
                moment=Moment(silent=None if silent is None else (silent[0], silent[1]), **moment),
                state=read_state(said.pop("state"), self._read_arrow, self._manifest["version"]),
                present=self._present(said.pop("present")),
                tables={
                    table: pa.Table.from_batches([self._read_arrow(one)]) for table, one in said.pop("tables").items()
                },
                **said,
            )

    def _present(self, said: list[Mapping[str, Any]] | None) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
        if said is None:
            return None
        held, since = map(self._read_arrow, said)
        return held, since

    def _read_arrow(self, said: Mapping[str, Any]) -> pa.RecordBatch:
        path = f"{self._base}/{said['file']}"
        if self._files.get_file_info(path).type != pa_fs.FileType.File:
            raise self._damaged(said["file"], "it is not there")
        is_here = isinstance(self._files, pa_fs.LocalFileSystem)
        with pa.memory_map(path) if is_here else self._files.open_input_file(path) as file:
            data = file.read_buffer()
        if _sum_of(data) != said["sum"]:
            raise self._damaged(said["file"], "its bytes are not those that were written")
        return pa.ipc.open_file(data).get_batch(0)

    def _damaged(self, name: str, how: str) -> RunError:
        return RunError(
            f"the savepoint {self.place} is damaged: {name}: {how}",
            hint="take it once more, or bring back a whole copy",
        )


class _Summed:
    """A file that is written from front to back, with the sum of its bytes."""

    def __init__(self, files: pa_fs.FileSystem, path: str, *, on_disk: bool) -> None:
        self._path, self._on_disk = path, on_disk
        self._file = files.open_output_stream(path, compression=None)
        self._sum = blake2b(digest_size=16)
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._sum.update(data)
        self._file.write(data)
        self.size += size
        return size

    def flush(self) -> None:
        self._file.flush()

    @property
    def sum(self) -> str:
        return self._sum.hexdigest()

    def __enter__(self) -> _Summed:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._on_disk:
            sync(self._path)


def _sum_of(data: Any) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    parts = rows.combine_chunks().to_batches()
    return parts[0] if parts else pa.RecordBatch.from_pylist([], rows.schema)


@contextmanager
def _naming_errors(place: Path | str | os.PathLike[str], how: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        why = gist_of(error) or getattr(error, "strerror", None) or error
        raise RunError(f"the savepoint {place} cannot be {how}: {why}") from None
