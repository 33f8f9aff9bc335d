"""A RocksDB opened for reading, by the library that comes with pyspark, in a small JVM without Spark."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]

from watersmeet.hosts.spark.launching.java import use_java
from watersmeet.private_folders import temporary_folder

# It lives for a second or two: neither the second compiler nor several threads of a collector would pay.
JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]


class RocksReader:
    """Starts its JVM when it is first needed, and ends it."""

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
