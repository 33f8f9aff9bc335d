"""The state of a query as of a batch, on disk. Of a large state mostly little has changed, and only that is written.

Arrays are cut into blocks, which are known by the sum of their bytes and stored once, in files of blocks; a snapshot is
a small file that names the blocks of every array, with a sum over it. It appears under its name when all its blocks are
on the disk. Files of which less than half is in use are given up: what is in use of them is written once more.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.place import Place
from watersmeet.io.whole_files import sync
from watersmeet.operators.saving import FORMAT as STATE_FORMAT
from watersmeet.operators.saving import Saved, check_format
from watersmeet.version import VERSION

BLOCK = 1 << 18
SYNCED = 1 << 22  # so many bytes are brought onto the disk at a time: the journal waits for the disk, too
KEPT = 2  # so many snapshots are kept, and the journal behind them: the last one, and the one before in case it is lost
_BLOCKS = "blocks-"
_NAME = re.compile(r"snapshot-\d{15,}\.json")


@dataclass(frozen=True)
class Block:
    """Where the bytes of a block lie."""

    file: str
    at: int
    size: int


@dataclass(frozen=True)
class Snapshot:
    """The state after a batch, and what the host notes beside it."""

    number: int
    state: Saved
    notes: Mapping[str, Any]


@dataclass(frozen=True)
class Committed:
    """The last number with rows: of the answers, and of each sink beside them. -1 where all is given again."""

    answers: int = -1
    sides: Mapping[str, int] = field(default_factory=dict)


@dataclass
class _Manifest:
    number: int
    notes: Mapping[str, Any]
    places: dict[str, Block] = field(default_factory=dict)


class Snapshots:
    def __init__(self, place: Place, run: str = "") -> None:
        self._place = place
        self._run = run
        self._kept: list[_Manifest] = []
        self.damaged: list[RunError] = []  # what is wrong with those that are newer than the latest
        self.written_bytes = 0

    # ---- after a restart --------------------------------------------------------------------------------------------

    def latest(self) -> Snapshot | None:
        """The last one that is whole; None if there is none."""
        for name in self.names():
            try:
                return self._load(name)
            except RunError as error:
                self.damaged.append(error)
        return None

    def committed(self) -> Committed:
        """What is in the sinks of a run for certain: a snapshot counts only when they have all up to it."""
        for name in self.names():
            with suppress(RunError):  # one that is damaged is told of by those who need all of it
                notes = self.manifest(name)["notes"]
                return Committed(int(notes["answered"]), dict(notes["sides"]))
        return Committed()

    def names(self) -> list[str]:
        """Of what names the parts of each snapshot that counts, the last one first."""
        return [name for name in reversed(self._place.names("snapshot-*.json")) if _NAME.fullmatch(name)]

    def manifest(self, name: str) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(bytes(self._place.read_sealed(name, self._run)))
        return manifest

    def _load(self, name: str) -> Snapshot:
        manifest = self.manifest(name)
        check_format(manifest["format"], manifest["version"])
        places = {name: Block(*place) for name, place in manifest["blocks"].items()}
        reader = _BlockReader(self._place, places)
        values = {name: _read(value, reader) for name, value in manifest["values"].items()}
        notes = _with_long_positions(manifest["notes"], reader)
        self._kept = [_Manifest(manifest["number"], notes, places)]
        return Snapshot(manifest["number"], Saved(values, manifest["format"], manifest["version"]), notes)

    @property
    def oldest(self) -> _Manifest | None:
        """The oldest that a restart may begin with, if there are as many as are kept."""
        return self._kept[0] if len(self._kept) >= KEPT else None

    # ---- writing ----------------------------------------------------------------------------------------------------

    def write(self, snapshot: Snapshot) -> None:
        """Write what is new of a state, and a draft of what names it all; `publish` makes it count."""
        blocks = _BlockWriter(self._place, f"{_BLOCKS}{snapshot.number:015d}", self._usable())
        values = {name: _as_json(value, blocks) for name, value in snapshot.state.values.items()}
        notes = _without_long_positions(snapshot.notes, blocks)
        blocks.close()
        self.written_bytes = blocks.written
        manifest = {
            "number": snapshot.number,
            "format": STATE_FORMAT,
            "version": VERSION,
            "notes": notes,
            "values": values,
            "blocks": {name: [place.file, place.at, place.size] for name, place in blocks.used.items()},
        }
        name = snapshot_name(snapshot.number)
        data = json.dumps(manifest, separators=(",", ":")).encode()
        self._place.write_sealed(name, data, self._run, draft=f".{name}")
        self._kept.append(_Manifest(snapshot.number, snapshot.notes, blocks.used))

    def publish(self, number: int) -> None:
        """From now on a restart begins here; what no kept snapshot uses is removed."""
        place, published = self._place, snapshot_name(number)
        with place.writing(f".{published}"):
            (place.folder / f".{published}").replace(place.folder / published)
            sync(place.folder)
        place.put(published)
        self._kept = self._kept[-KEPT:]
        names = {snapshot_name(one.number) for one in self._kept}
        for name in self.names():
            if name not in names:
                place.remove(name)
        # One block may lie in two files: for each snapshot in its own.
        used = {place.file for one in self._kept for place in one.places.values()}
        for name in place.names(f"{_BLOCKS}*"):
            if name not in used:
                place.remove(name)

    def drop_drafts(self) -> None:
        """Remove what a crash has left of files that never counted."""
        for path in [*self._place.folder.glob(".snapshot-*"), *self._place.folder.rglob(".*.tmp")]:
            path.unlink(missing_ok=True)

    def _usable(self) -> dict[str, Block]:
        """The blocks that may be used again where they are: not those in files that are mostly waste."""
        latest = self._kept[-1].places if self._kept else {}
        live: dict[str, int] = {}
        for place in latest.values():
            live[place.file] = live.get(place.file, 0) + place.size
        full = {name for name, size in live.items() if 2 * size >= _size_of(self._place.folder / name)}
        return {name: place for name, place in latest.items() if place.file in full}


def manifests(place: Place, run: str) -> list[dict[str, Any]]:
    """What names the parts of each snapshot that is whole, the last one first."""
    kept = Snapshots(place, run)
    found = []
    for name in kept.names():
        with suppress(RunError):
            found.append(kept.manifest(name))
    return found


def snapshot_name(number: int) -> str:
    return f"snapshot-{number:015d}.json"


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _BlockWriter:
    def __init__(self, place: Place, name: str, known: Mapping[str, Block]) -> None:
        self._place, self._name = place, name
        self._known = known
        self._file: Any = None
        self._unsynced = 0
        self.written = 0
        self.used: dict[str, Block] = {}

    def blocks_of(self, data: memoryview) -> list[str]:
        return [self._block(data[at : at + BLOCK]) for at in range(0, data.nbytes, BLOCK)]

    def _block(self, data: memoryview) -> str:
        name = _sum_of(data)
        if name not in self.used:
            self.used[name] = self._known.get(name) or self._write(data)
        return name

    def _write(self, data: memoryview) -> Block:
        with self._place.writing(self._name):
            if self._file is None:
                self._file = (self._place.folder / self._name).open("wb")
            self._file.write(data)
            self._unsynced += data.nbytes
            if self._unsynced >= SYNCED:
                self._sync()
        place = Block(self._name, self.written, data.nbytes)
        self.written += data.nbytes
        return place

    def close(self) -> None:
        if self._file is None:
            return
        with self._place.writing(self._name):
            self._sync()
            self._file.close()
        self._place.put(self._name)

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsynced = 0


class _BlockReader:
    def __init__(self, place: Place, places: Mapping[str, Block]) -> None:
        self._place = place
        self._places = places

    def read(self, names: list[str]) -> bytearray:
        data = bytearray()
        for name in names:
            data += self._block(name)
        return data

    def _block(self, name: str) -> bytes:
        block = self._places[name]
        with self._place.reading(block.file), (self._place.folder / block.file).open("rb") as file:
            file.seek(block.at)
            data = file.read(block.size)
        if _sum_of(memoryview(data)) != name:
            raise self._place.damaged(block.file, f"the bytes at {block.at:,} are not those that were written")
        return data


def _without_long_positions(notes: Mapping[str, Any], blocks: _BlockWriter) -> dict[str, Any]:
    """A position may name all files that were read, and grows at its end: in blocks only that is written."""
    short, long = dict(notes.get("positions", {})), {}
    for name, position in notes.get("positions", {}).items():
        data = json.dumps(position, separators=(",", ":")).encode()
        if len(data) > BLOCK:
            long[name] = blocks.blocks_of(memoryview(data))
            del short[name]
    return {**notes, "positions": short, "long_positions": long} if long else dict(notes)


def _with_long_positions(notes: Mapping[str, Any], blocks: _BlockReader) -> dict[str, Any]:
    found = {name: json.loads(blocks.read(of)) for name, of in notes.get("long_positions", {}).items()}
    return {**notes, "positions": {**notes["positions"], **found}} if found else dict(notes)


def _sum_of(data: memoryview) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _as_json(value: Any, blocks: _BlockWriter) -> Any:
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        data = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        return {"array": array.dtype.str, "shape": array.shape, "of": blocks.blocks_of(data)}
    if isinstance(value, pa.Array | pa.RecordBatch):
        batch = value if isinstance(value, pa.RecordBatch) else pa.RecordBatch.from_arrays([value], [""])
        kind = "batch" if isinstance(value, pa.RecordBatch) else "column"
        return {"arrow": kind, "of": blocks.blocks_of(memoryview(_stream_of(batch)))}
    return value


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read(value: Any, blocks: _BlockReader) -> Any:
    if not isinstance(value, dict) or "of" not in value:
        return value
    data = blocks.read(value["of"])
    if "array" in value:
        kind = np.dtype(value["array"])
        return (np.frombuffer(data, kind) if data else np.empty(0, kind)).reshape(value["shape"])
    batch = pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
    return batch if value["arrow"] == "batch" else batch.column(0)
