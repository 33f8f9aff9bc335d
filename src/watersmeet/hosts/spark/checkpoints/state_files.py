"""The files of Spark's state store, read without Spark, which takes many seconds to start.

A partition of the state is a folder of snapshots, `7.zip` with the files of a RocksDB, and of change logs,
`8.changelog`, each with what a batch wrote. The state after a batch is the latest snapshot before it and the logs that
follow. Snapshots are opened by RocksDB itself, which comes with pyspark, in a JVM of its own; logs are records, packed
by LZ4. Where a checkpoint is written in another way, or lies elsewhere, `NotReadableError` says so, and Spark must read
it.

That is what `watersmeet state` waits for; a query that goes on reads none of it here. Of a small state with two
partitions the JVM takes 0.4 s of processor time this way. Spark's source "statestore" takes 29 s (18 of them to start a
session; 2 s in one that has read it before), and Spark's own class RocksDB, in a JVM without a session, 3.3 s.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError
from watersmeet.hosts.spark.jobs.ids import slot_of
from watersmeet.hosts.spark.launching.java import use_java
from watersmeet.temporary_folders import temporary_folder

STATE = "state"  # Spark's folder of states in a checkpoint
# It lives for a second or two: neither the second compiler nor several threads of a collector would pay.
JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
Packet = tuple[int, int, int]  # bucket, input, number of the segment
Entries = dict[bytes, bytes]
# What a checkpoint of ours has, by the settings that Spark writes down with every batch.
WRITTEN_AS = {
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
}
_MAGIC = b"LZ4Block"
_HEAD = 9  # of a row: the version and the NULL bits
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
            raise SourceError(f"{checkpoint} has no state yet: no batch has ended")
        if batch is not None and batch not in ended:
            raise NotReadableError(f"batch {batch} is not among those that are kept, {ended[0]} to {ended[-1]}")
        number = ended[-1] if batch is None else batch
        _check_settings(checkpoint / "offsets" / str(number))
        return cls(checkpoint, number + 1)

    def variables(self, operator: int, reader: RocksReader) -> dict[str, Entries]:
        """What an operator keeps, over all partitions, by the names of its variables."""
        found: dict[str, Entries] = {}
        folder = self.checkpoint / STATE / str(operator)
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
    found = sorted(number for number in _numbers(checkpoint / STATE) if _is_ours(checkpoint / STATE / str(number)))
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


class RocksReader:
    """A RocksDB opened for reading, in a small JVM without Spark, which starts when it is first needed, and ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "_gateway" in self.__dict__:
            self._gateway.shutdown()

    def entries(self, files: zipfile.ZipFile, tables: Mapping[str, Path]) -> dict[bytes, bytes]:
        """All keys and values: `files` has what describes the database, `tables` where its tables lie."""
        with temporary_folder("state-") as made:
            files.extractall(made)
            for name, path in tables.items():
                _placed(path, made / name)
            return self._all(str(made))

    def _all(self, folder: str) -> dict[bytes, bytes]:
        rocks = self._gateway.jvm.org.rocksdb
        options = rocks.Options()
        database = rocks.RocksDB.openReadOnly(options, folder)
        try:
            found, cursor = {}, database.newIterator()
            cursor.seekToFirst()
            while cursor.isValid():
                found[bytes(cursor.key())] = bytes(cursor.value())
                cursor.next()
            cursor.close()
            return found
        finally:
            database.close()
            options.close()

    @cached_property
    def _gateway(self) -> Any:
        use_java()
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
        jars = Path(pyspark.__file__).parent / "jars"
        needed = [str(path) for name in ("rocksdbjni", "py4j") for path in jars.glob(f"{name}-*.jar")]
        port, token = launch_gateway(
            classpath=os.pathsep.join(needed),
            javaopts=JAVA_OPTIONS,
            java_path=str(java),
            die_on_exit=True,
            redirect_stderr=subprocess.DEVNULL,
            enable_auth=True,
        )
        return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))


def _placed(path: Path, to: Path) -> None:
    """A link, as tables are never changed and may be large; to another disk only a copy can be made."""
    try:
        os.link(path, to)
    except OSError:
        to.write_bytes(path.read_bytes())


# ---- what the stateful stage keeps, as its processor laid it down: a value for every bucket, and a map of packets ----
#
# Spark stores both as rows of its own layout: a byte for the version, a word of NULL bits, a word for every field; what
# has a length lies behind them, and its word says where (the upper half) and how long (the lower).


@dataclass(frozen=True)
class Kept:
    """A bucket: how often it was written, and its manifest; of a guard the fingerprint instead."""

    bucket: int
    version: int
    manifest: bytes


@dataclass(frozen=True)
class Stage:
    """What one query, or one stage of it, keeps."""

    guard: str | None
    buckets: tuple[Kept, ...]
    packets: Mapping[Packet, bytes]


def by_query(kept: Sequence[Kept], packets: Mapping[Packet, bytes]) -> list[Stage]:
    """The same for each of the queries that keep their buckets together."""
    found: dict[int, list[Kept]] = {}
    for one in kept:
        found.setdefault(slot_of(one.bucket), []).append(one)
    return [_stage(found[slot], packets) for slot in sorted(found)]


def _stage(kept: Sequence[Kept], packets: Mapping[Packet, bytes]) -> Stage:
    guard = next((one.manifest.decode() for one in kept if one.bucket < 0), None)
    return Stage(guard, tuple(one for one in kept if one.bucket >= 0), packets)


def unpacked_stages(variables: Mapping[str, Mapping[bytes, bytes]]) -> list[Stage]:
    """From keys and values as bytes; see META, SEGMENT_KEY and SEGMENT of the processor."""
    kept = [
        Kept(_integer(key, 0), _long(value, 0), _binary(value, 2)) for key, value in variables.get("meta", {}).items()
    ]
    packets = {_packet(key): _binary(value, 0) for key, value in variables.get("segments", {}).items()}
    return by_query(kept, packets)


def _packet(key: bytes) -> Packet:
    """The bucket, a row inside a row, with its length before it; then the key of the map, a row inside a row too."""
    (size,) = struct.unpack_from("<i", key)
    bucket, inside = _struct(key[4 : 4 + size], 0), _struct(key[4 + size :], 0)
    return _integer(bucket, 0), _integer(inside, 0), _long(inside, 1)


def _struct(row: bytes, field: int) -> bytes:
    """A row inside a row, which has no version of its own: with one, so that it reads as all others do."""
    return b"\0" + _binary(row, field)


def _integer(row: bytes, field: int) -> int:
    return int(struct.unpack_from("<i", row, _HEAD + 8 * field)[0])


def _long(row: bytes, field: int) -> int:
    return int(struct.unpack_from("<q", row, _HEAD + 8 * field)[0])


def _binary(row: bytes, field: int) -> bytes:
    size, start = struct.unpack_from("<ii", row, _HEAD + 8 * field)
    return row[1 + start : 1 + start + size]
