"""`watersmeet clean` over a checkpoint on Spark whose driver, with all its processes, was killed in the middle of a
batch: only what was not written to its end goes, and the next start answers all the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import sleep

import duckdb
import pytest

from tests.spark.harness import ROOT, worker_environment
from tests.spark.killed_sinks import drive
from tests.spark.processes import in_batch, kill_driver, state_written, wait_for
from tests.unit.cli.test_commands import call

FILES, ROWS = 8, 40
STREAM = "CREATE STREAM {0} (k BIGINT, x BIGINT, ts TIMESTAMP) WITH (source = 'json', path = '{1}/{0}', time = 'ts', "
STREAM += "maxFilesPerTrigger = '1');\n"
SINK = "CREATE SINK out WITH (sink = 'json', path = '{}/out', mode = 'append') AS "
JOIN = "SELECT a.x AS p, b.x AS q FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS;"
EXPECTED = "SELECT a.x, b.x FROM a, b WHERE a.k = b.k AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 5000000"


def arrive(folder: Path) -> None:
    for name, many in (("a", 3), ("b", 4)):
        (folder / name).mkdir()
        for number in range(FILES):
            numbers = range(ROWS * number, ROWS * number + ROWS)
            rows = [{"k": i % many, "x": i, "ts": f"2026-01-01 00:{i // 60:02d}:{i % 60:02d}"} for i in numbers]
            path = folder / name / f"{number}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (1e9 + number, 1e9 + number))


def killed_amid(folder: Path, batch: int, *, after_its_state: bool) -> None:
    worker_environment()
    checkpoint = folder / "checkpoint"
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.drive_sink", str(folder)],
            cwd=ROOT,
            env=os.environ | {"WATERSMEET_WARM_DIR": str(folder / "warm")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        amid = (state_written if after_its_state else in_batch)(checkpoint, batch)
        assert wait_for(amid, driver), (folder / "driver.log").read_text()[-3000:]
        sleep(0.05)
        assert kill_driver(driver)
    finally:
        kill_driver(driver)


def files_in(*folders: Path) -> set[Path]:
    return {path for folder in folders for path in folder.rglob("*") if path.is_file()}


def is_draft(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith((".tmp", ".tmp.crc"))


def given(folder: Path) -> Counter[tuple[int, int]]:
    lines = [line for one in folder.glob("out/part-*") for line in one.read_text().splitlines()]
    return Counter((row["p"], row["q"]) for row in map(json.loads, lines))


@pytest.mark.spark
@pytest.mark.slow
def test_a_start_goes_on_exactly_after_a_driver_was_killed_and_its_checkpoint_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(tmp_path)
    streams = "".join(STREAM.format(name, tmp_path) for name in "ab")
    (tmp_path / "script.sql").write_text(f"{streams}{SINK.format(tmp_path)}{JOIN}")
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    for batch, after_its_state in ((1, False), (4, True)):
        killed_amid(tmp_path, batch, after_its_state=after_its_state)
        (checkpoint / "offsets" / f".{batch + 1}.5f0c9f62-4a1e-4a3c-9a35-6d1f0d2b7a11.tmp").write_text("v1\n{")
        half = out / f".part-0123abcd-{batch:015d}-00000-0123abcd.tmp"
        half.write_bytes(b"half of i")
        before = files_in(checkpoint, out)
        with monkeypatch.context() as patch:  # what others have left on this machine is not the test's
            patch.setattr("tempfile.tempdir", str(tmp_path))
            patch.setenv("WATERSMEET_WARM_DIR", str(tmp_path))
            assert call("clean", str(checkpoint), str(out), "--older-than", "0 s") == 0
        gone = before - files_in(checkpoint, out)
        assert {path for path in before if is_draft(path) and path.is_relative_to(checkpoint)} <= gone
        assert all(is_draft(path) for path in gone)
        assert half in gone
    assert drive(tmp_path)
    with duckdb.connect() as connection:
        for name in "ab":
            rows = f"read_json('{tmp_path}/{name}/*.json')"
            connection.execute(f"CREATE VIEW {name} AS SELECT * REPLACE (ts::TIMESTAMP AS ts) FROM {rows}")
        expected = Counter(connection.execute(EXPECTED).fetchall())
    assert given(tmp_path) == expected
