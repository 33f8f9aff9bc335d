"""Files in Azure's storage, as its emulator plays it: abfs:// as a stream that goes on, and as a sink."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs
import pytest

from tests.connectors.commands import check_sentence, run

pytestmark = pytest.mark.lakes

ACCOUNT = "devstoreaccount1"
# That of every emulator, as its documentation says.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
MISSING = (
    "there is no emulator of Azure's storage here: npm install azurite, or say where its azurite-blob is in AZURITE"
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = os.environ.get("AZURITE") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip(MISSING)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    where = ["--location", str(tmp_path_factory.mktemp("azure")), "--blobHost", "127.0.0.1", "--blobPort", port]
    process = subprocess.Popen(
        [program, *where, "--silent", "--skipApiVersionCheck", "--disableTelemetry"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(int(port))
        yield f"127.0.0.1:{port}"
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
    raise TimeoutError("the emulator did not start")


def ways(authority: str, key: str = KEY) -> dict[str, str]:
    return {
        "account_key": key,
        "blob_storage_authority": authority,
        "dfs_storage_authority": authority,
        "blob_storage_scheme": "http",
        "dfs_storage_scheme": "http",
    }


def with_(authority: str, key: str = KEY) -> str:
    return ", ".join(f"'fs.{name}' = '{value}'" for name, value in ways(authority, key).items())


def script(tmp_path: Path, authority: str, key: str = KEY) -> Path:
    place = f"abfs://box@{ACCOUNT}"
    file = tmp_path / "script.sql"
    file.write_text(
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = '{place}/in', time = 'ts', "
        f"lateness = '1 hour', {with_(authority, key)}); "
        f"CREATE SINK out WITH (sink = 'parquet', path = '{place}/out', {with_(authority, key)}) AS SELECT k FROM s;"
    )
    return file


def test_a_run_goes_on_from_files_to_files(authority: str, tmp_path: Path) -> None:
    files = pa_fs.AzureFileSystem(account_name=ACCOUNT, **ways(authority))
    files.create_dir("box")
    for number in range(3):
        with files.open_output_stream(f"box/in/{number}.csv") as stream:
            stream.write(f"k,ts\n{number},2026-01-01 00:00:0{number}\n".encode())
        ended = run(script(tmp_path, authority), tmp_path / "state")
        assert ended.code == 0, ended.said
        found = pa_dataset.dataset("box/out", filesystem=files, format="parquet").to_table()
        assert sorted(found["k"].to_pylist()) == list(range(number + 1))
    wrong = KEY.replace("Eby8", "Ezz8")
    check_sentence(run(script(tmp_path, authority, wrong), tmp_path / "state"), f"abfs://box@{ACCOUNT}", never=(wrong,))
