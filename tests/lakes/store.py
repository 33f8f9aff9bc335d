"""A local S3 server, and what is in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from uuid import uuid4

import pyarrow.fs as pa_fs
import pytest


class Store:
    """One bucket of its own."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.bucket = f"b{uuid4().hex[:10]}"
        self.files = pa_fs.S3FileSystem(
            access_key="key", secret_key="hush-hush", endpoint_override=endpoint, region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip
        self.files.create_dir(self.bucket)

    @property
    def ways(self) -> dict[str, str]:
        """How to enter it, as options of a CREATE."""
        return {
            "fs.access_key": "key",
            "fs.secret_key": "hush-hush",
            "fs.endpoint_override": self.endpoint,
            "fs.region": "us-east-1",
        }

    @property
    def with_(self) -> str:
        return ", ".join(f"'{name}' = '{value}'" for name, value in self.ways.items())

    def address(self, path: str) -> str:
        return f"s3://{self.bucket}/{path}"

    def put(self, path: str, data: bytes) -> None:
        with self.files.open_output_stream(f"{self.bucket}/{path}") as stream:
            stream.write(data)

    def names(self, folder: str = "") -> list[str]:
        base = f"{self.bucket}/{folder}".rstrip("/")
        found = self.files.get_file_info(pa_fs.FileSelector(base, recursive=True, allow_not_found=True))
        return sorted(one.path[len(base) + 1 :] for one in found if one.is_file)


@contextmanager
def server(trusting_calls: int | None = None) -> Iterator[str]:
    """In a process of its own: some clients hold up all threads of theirs while they wait. trusting_calls: after so
    many calls it asks who calls, and what they may do; without it, never."""
    pytest.importorskip("moto.server", reason="needs a local S3 server: pip install 'moto[server]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    told = {} if trusting_calls is None else {"INITIAL_NO_AUTH_ACTION_COUNT": str(trusting_calls)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | told)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            sleep(0.1)
    raise TimeoutError("the S3 server did not start")
