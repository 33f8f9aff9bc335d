"""The files of Spark's state store, read without Spark, which takes many seconds to start.

A partition of the state is a folder of snapshots, `7.zip` with the files of a RocksDB, and of change logs,
`8.changelog`, each with what a batch wrote. The state after a batch is the latest snapshot before it and the logs that
follow. Snapshots are opened by RocksDB itself, which comes with pyspark, in a JVM of its own (rocksdb.py); logs are
records, packed by LZ4. Where a checkpoint is written in another way, or lies elsewhere, `NotReadableError` says so, and
Spark must read it.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from watersmeet.hosts.spark.checkpoints.rocksdb import RocksReader

Entries = dict[bytes, bytes]
# What a checkpoint of ours has, by the settings that Spark writes down with every batch.
WRITTEN_AS = {
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
}
_MAGIC = b"LZ4Block"
_RAW, _PUT, _DELETE, _END = 0x10, 0x01, 0x10, 0x00


class NotReadableError(Exception):
    """Why these files can be read by Spark only."""


@dataclass(frozen=True)
class StateFiles:
    """The states of a query after one of its batches. Nothing is changed; the query may be running."""

    checkpoint: Path
    version: int

    @classmethod
    def of(cls, checkpoint: Path, batch: int | None) -> StateFiles:
        """After a batch, by default the last that has ended."""
        ended = sorted(_numbers(checkpoint / "commits"))
        if not ended:
            raise NotReadableError("no batch has ended")
        if batch is not None and batch not in ended:
            raise NotReadableError(f"batch {batch} is not among those that are kept, {ended[0]} to {ended[-1]}")
        number = ended[-1] if batch is None else batch
        _check_settings(checkpoint / "offsets" / str(number))
        return cls(checkpoint, number + 1)

    def variables(self, operator: int, reader: RocksReader) -> dict[str, Entries]:
        """What an operator keeps, over all partitions, by the names of its variables."""
        found: dict[str, Entries] = {}
        folder = self.checkpoint / "state" / str(operator)
        for partition in sorted(_numbers(folder)):
            for name, entries in self._partition(folder / str(partition), reader).items():
                found.setdefault(name, {}).update(entries)
        return found

    def _partition(self, folder: Path, reader: RocksReader) -> dict[str, Entries]:
        snapshots = [number for number in _numbers(folder, ".zip") if number <= self.version]
        if not snapshots:
            raise NotReadableError(f"{folder} has no snapshot that can be read")
        entries, names = _snapshot(folder, max(snapshots), reader)
        for number in range(max(snapshots) + 1, self.version + 1):
            path = folder / f"{number}.changelog"
            if not path.is_file():
                raise NotReadableError(f"{path} is missing")
            for key, value in changes_in(path.read_bytes()):
                if value is None:
                    entries.pop(key, None)
                else:
                    entries[key] = value
        by_name: dict[str, Entries] = {}
        for key, value in entries.items():
            name = names.get(struct.unpack_from("<h", key)[0])  # each variable has a number, before all its keys
            if name is not None:
                by_name.setdefault(name, {})[key[2:]] = value
        return by_name


def _snapshot(folder: Path, number: int, reader: RocksReader) -> tuple[Entries, dict[int, str]]:
    with zipfile.ZipFile(folder / f"{number}.zip") as files:
        about = json.loads(files.read("metadata").split(b"\n", 1)[1])
        tables = {one["localFileName"]: folder / "SSTs" / one["dfsSstFileName"] for one in about["sstFiles"]}
        entries = reader.entries(files, tables)
    return entries, {number: name for name, number in about.get("columnFamilyMapping", {}).items()}


def changes_in(packed: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """What a change log wrote: keys and their values, None for those that went."""
    data = unpacked(packed)
    if data[:4] != b"\x00\x02v2":
        raise NotReadableError("its change logs have another format")
    at = 4
    while data[at] != _END:
        kind, (size,) = data[at], struct.unpack_from(">i", data, at + 1)
        key = data[at + 5 : at + 5 + size]
        at += 5 + size
        (size,) = struct.unpack_from(">i", data, at)
        value = data[at + 4 : at + 4 + max(size, 0)]
        at += 4 + max(size, 0)
        if kind not in (_PUT, _DELETE):
            raise NotReadableError("its change logs have records of another kind")
        yield key, value if kind == _PUT else None


def unpacked(packed: bytes) -> bytes:
    """A stream of LZ4 blocks, as the library writes it that Spark uses: a head of 21 bytes, then the block."""
    codec, at, parts = pa.Codec("lz4_raw"), 0, []
    while at < len(packed):
        if packed[at : at + 8] != _MAGIC:
            raise NotReadableError("its change logs are not packed by LZ4")
        method, size, plain = packed[at + 8] & 0xF0, *struct.unpack_from("<ii", packed, at + 9)
        block = packed[at + 21 : at + 21 + size]
        at += 21 + size
        parts.append(block if method == _RAW or not plain else codec.decompress(block, plain).to_pybytes())
    return b"".join(parts)


def stages_of(checkpoint: Path) -> list[int]:
    """The numbers under which Spark knows our stages; operators of its own may follow them."""
    found = sorted(number for number in _numbers(checkpoint / "state") if _is_ours(checkpoint / "state" / str(number)))
    if not found:
        raise NotReadableError("it does not say which of its operators are ours")
    return found


def _is_ours(operator: Path) -> bool:
    """By the variables that it keeps, which Spark writes down: a line with the version, and one with everything."""
    noted = operator / "_metadata" / "v2"
    written = [noted / str(number) for number in sorted(_numbers(noted))]
    if not written:
        return False
    about = json.loads(written[-1].read_text(encoding="utf-8").splitlines()[1])
    variables = json.loads(about.get("operatorPropertiesJson") or "{}").get("stateVariables", ())
    return {one["stateName"] for one in variables} >= {"meta", "segments"}


def _numbers(folder: Path, suffix: str = "") -> list[int]:
    """The files or folders that are named by a number."""
    found = folder.iterdir() if folder.is_dir() else ()
    return [int(one.stem) for one in found if one.suffix == suffix and one.stem.isdecimal()]


def _check_settings(offsets: Path) -> None:
    """The log of a batch: a line with the version, one with the settings, then an offset for each source."""
    try:
        settings = json.loads(offsets.read_text(encoding="utf-8").splitlines()[1])["conf"]
    except (OSError, ValueError, LookupError) as error:
        raise NotReadableError(f"{offsets} does not say how the state is written") from error
    for name, value in WRITTEN_AS.items():
        if settings.get(name, value).lower() != value:
            raise NotReadableError(f"its state is written with {name} = {settings[name]}")
