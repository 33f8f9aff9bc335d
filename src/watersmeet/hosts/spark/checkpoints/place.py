"""The place of a query's checkpoint: a folder of this machine, or wherever Spark's server reads and writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.errors import RunError, SetupError
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.formats import lacking_store
from watersmeet.hosts.spark.launching.launch import is_connect
from watersmeet.hosts.spark.paths import has_scheme
from watersmeet.io.filesystems import is_in_store
from watersmeet.io.holding import Holding
from watersmeet.io.whole_files import write_whole
from watersmeet.temporary_folders import hold

# How Spark's Hadoop is told of a way into S3, and how that is called where a checkpoint is held.
_S3A = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
}


class SparkPlace:
    def __init__(self, spark: SparkSession | None, folder: str, *, is_here: bool) -> None:
        """spark: to read and write what is not here."""
        self.folder, self.is_here = folder, is_here
        self._spark = spark

    def names(self, folder: str) -> list[str]:
        """Of the files in a folder of it."""
        if self.is_here:
            path = Path(self.folder) / folder
            return [one.name for one in path.iterdir()] if path.is_dir() else []
        assert self._spark is not None
        try:
            text = self._spark.read.text(f"{self.folder}/{folder}")
            return [row[0] for row in text.select("_metadata.file_name").distinct().collect()]
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return []
            raise self._refused("cannot be read", error) from None

    def read(self, name: str) -> bytes | None:
        """None if there is no such file, or nothing in it."""
        if self.is_here:
            path = Path(self.folder) / name
            # What was written through Spark is a folder of parts.
            parts = [path] if path.is_file() else sorted(path.glob("part-*"))
            found = b"\n".join(part.read_bytes() for part in parts)
        else:
            found = self._read_by_spark(name)
        return found.rstrip(b"\n") + b"\n" if found else None

    def _read_by_spark(self, name: str) -> bytes:
        assert self._spark is not None
        try:
            return "\n".join(row[0] for row in self._spark.read.text(f"{self.folder}/{name}").collect()).encode()
        except Exception as error:
            if "PATH_NOT_FOUND" in str(error):
                return b""
            raise self._refused("cannot be read", error) from None

    def write_whole(self, name: str, data: bytes) -> None:
        if self.is_here:
            folder = Path(self.folder)
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / name, data, on_disk=False)  # as Spark does with its own
            return
        assert self._spark is not None
        # Spark writes a folder of that name, and reads it like a file.
        line = self._spark.createDataFrame([(data.decode().rstrip(),)], "value string").coalesce(1)
        try:
            line.write.mode("overwrite").text(f"{self.folder}/{name}")
        except Exception as error:
            raise self._refused("cannot be written", error) from None

    def damaged(self, name: str, how: str) -> SetupError:
        return SetupError(
            f"{self.folder}/{name} is damaged: {how}",
            hint="restore the checkpoint from a copy, or start anew with a new one",
        )

    def _refused(self, what: str, error: Exception) -> SetupError:
        store = lacking_store(str(error))
        by_jars = f"Spark knows {store}:// by jars of Hadoop's, in --conf spark.jars; --engine local needs none"
        return SetupError(
            f"the checkpoint {self.folder} {what}: {first_useful_line(error)}", hint=None if store is None else by_jars
        )


@contextmanager
def held(spark: SparkSession, folder: str) -> Iterator[Callable[[], None]]:
    """With a checkpoint in a store held: by one start, of which others are refused. Gives what raises if another has
    taken it over. One of this machine is in use (see `stopped`)."""
    if is_here(spark, folder):
        with _in_use(Path(folder)):
            yield lambda: None
        return
    is_elsewhere = is_connect(spark) or not is_in_store(folder) or folder.lower().startswith("file:")
    holding = None if is_elsewhere else Holding.by_conditions(folder, _ways(spark))
    try:
        yield lambda: None if holding is None else holding.check()
    finally:
        if holding is not None:
            holding.release()


@contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """Starts beside each other are told apart by what they write."""
    with suppress(OSError):  # which Spark tells in its words
        folder.mkdir(parents=True, exist_ok=True)
    handle = hold(folder) if folder.is_dir() else None
    try:
        yield
    finally:
        with suppress(OSError):  # a start that was refused leaves nothing
            folder.rmdir()
        if handle is not None:
            os.close(handle)


@contextmanager
def stopped(folder: Path) -> Iterator[None]:
    """With no run of this machine in a checkpoint, and none that begins meanwhile."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"a run on Spark is using the checkpoint {folder}",
                hint="stop it first: Ctrl-C, or SIGTERM, which lets the batch in hand end",
            ) from None
        yield
    finally:
        os.close(handle)


def _ways(spark: SparkSession) -> dict[str, str]:
    hadoop = spark._jsc.hadoopConfiguration()
    told = {ours: hadoop.get(f"fs.s3a.{name}") for name, ours in _S3A.items()}
    return {ours: value for ours, value in told.items() if value}


def is_here(spark: SparkSession, folder: str) -> bool:
    if is_connect(spark) or has_scheme(folder):
        return False
    default: str | None = spark._jsc.hadoopConfiguration().get("fs.defaultFS")
    return (default or "file:").startswith("file:")
