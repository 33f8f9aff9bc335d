"""Programs that hold a run with a checkpoint, and end as programs do."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.forked import program

PROGRAM = """
import datetime as dt, os, signal, sys
import watersmeet as wm

folder, how = sys.argv[1:]
session = wm.Session()
session.stream("a", schema={"k": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
query = session.sql("SELECT k FROM a WHERE k % 2 = 0")
to = {"sink": folder + "/out.parquet"} if how != "untaken" else {}
run = query.start(checkpoint=folder + "/" + ("untaken" if how == "untaken" else "state"), save_every="50 ms", **to)
first = run.taken("a")
for k in range(first, first + 50):
    run.push("a", {"k": k, "ts": dt.datetime(2026, 1, 1) + dt.timedelta(seconds=k)})
print(first, flush=True)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "interrupted":
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with run:
            run.wait()
    except KeyboardInterrupt:
        print("stopped" if not run.is_open else "open")
"""


def ended(folder: Path, how: str) -> list[str]:
    """In an interpreter of its own, which sees to its threads at its end."""
    command = [sys.executable, "-c", PROGRAM, str(folder), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_however_programs_end_the_next_goes_on_behind_them(tmp_path: Path) -> None:
    assert program(PROGRAM, str(tmp_path), "killed").communicate() == (-signal.SIGKILL, "0\n", "")
    assert ended(tmp_path, "without a word") == ["50"]
    assert program(PROGRAM, str(tmp_path), "interrupted").communicate() == (0, "100\nstopped\n", "")
    found = pq.read_table(tmp_path / "out.parquet")["k"].to_pylist()
    assert sorted(found) == list(range(0, 150, 2))


def test_a_program_that_takes_no_answers_ends_all_the_same(tmp_path: Path) -> None:
    assert ended(tmp_path, "untaken") == ["0"]
