"""How long until something happens in-process: imports, and the first result of a new process, phase by phase.

    python -m benchmarks.start                 as installed here: with kernels cached, and compiled anew
    python -m benchmarks.start dist/NAME.whl   the same in a new environment with that wheel and an empty home

DuckDB answers the same join beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Figure, figure, report

ROOT = Path(__file__).parents[1]
RUNS = 7
ROWS = """
import datetime as dt, pyarrow as pa
at = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 1)]
rows = pa.table({"k": [1, 2], "s": ["x", "y"], "ts": at})
"""
SESSION = f"""{ROWS}
import watersmeet as wm
session = wm.Session()
for name in "ab":
    session.stream(name, rows, time="ts")
"""
JOIN = f"""{SESSION}
assert session.sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND").to_arrow().num_rows == 2
"""
GROUPS = f"""{SESSION}
joined = "FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"
counted = f"SELECT a.s, COUNT(*) AS n, SUM(b.k) AS t {{joined}} GROUP BY a.s"
assert session.sql(counted).to_arrow().num_rows == 4
"""
DUCKDB = f"""{ROWS}
import duckdb
joined = "SELECT a.k FROM rows a, rows b WHERE a.k = b.k AND abs(epoch_us(a.ts) - epoch_us(b.ts)) <= 1000000"
assert len(duckdb.sql(joined).fetchall()) == 2
"""
PHASES = """
import json, time
marks, last = {}, time.perf_counter()
def mark(name):
    global last
    now = time.perf_counter()
    marks[name], last = now - last, now
import datetime as dt
import numpy; mark("import numpy")
import pyarrow as pa; mark("import pyarrow")
import watersmeet as wm; wm.Session; mark("import the session")
at = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 1)]
session = wm.Session()
for name in "ab":
    session.stream(name, pa.table({"k": [1, 2], "ts": at}), time="ts")
mark("declare two streams")
import sqlglot; mark("import sqlglot")
query = session.sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"); mark("parse and bind")
batches = query.batches(); mark("import the engine, plan and build")
next(batches); mark("answer")
print(json.dumps(marks))
"""


class Place:
    """A Python with watersmeet, and a home of its own, in which kernels are kept."""

    def __init__(self, python: str, home: Path, path: str | None) -> None:
        self.python = python
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "PYTHON"))}
        self.environment = {**kept, "HOME": str(home), **({"PYTHONPATH": path} if path else {})}

    def run(self, code: str) -> str:
        done = subprocess.run([self.python, "-c", code], check=True, env=self.environment, stdout=subprocess.PIPE)
        return done.stdout.decode()

    def seconds(self, code: str) -> float:
        started = time.perf_counter()
        self.run(code)
        return time.perf_counter() - started

    def forget(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()


def place(folder: Path, wheel: str | None) -> Place:
    home = folder / "home"
    home.mkdir()
    if wheel is None:
        return Place(sys.executable, home, str(ROOT / "src"))
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = str(folder / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), wheel, "duckdb"], check=True)
    return Place(python, home, None)


def first_results(here: Place) -> list[Figure]:
    """With an empty home, then with what the first left there."""
    figures = []
    for name, code in (("join", JOIN), ("GROUP BY over a join", GROUPS)):
        fresh = []
        for _ in range(3):
            here.forget()
            fresh.append(here.seconds(code))
        cached = [here.seconds(code) for _ in range(RUNS)]
        figures += [
            figure(f"a process up to its first result, {name}, fresh environment", "s", fresh, "<= 3"),
            figure(f"a process up to its first result, {name}, kernels cached", "s", cached, "<= 1"),
        ]
    return figures


def phases(here: Place) -> list[Figure]:
    """Where the time of a first join goes, kernels cached."""
    here.run(JOIN)
    runs = [json.loads(here.run(PHASES)) for _ in range(RUNS)]
    found = [figure(f"phase: {name}", "s", [run[name] for run in runs]) for name in runs[0]]
    total = statistics.median(sum(run.values()) for run in runs)
    return [*found, figure("all phases", "s", [total])]


def main() -> None:
    wheel = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        here = place(Path(folder), wheel)
        report(
            "start" if wheel is None else "start_wheel",
            [
                figure("a process that does nothing", "s", [here.seconds("pass") for _ in range(RUNS)]),
                figure("a process that imports pyarrow", "s", [here.seconds("import pyarrow") for _ in range(RUNS)]),
                figure(
                    "a process that imports watersmeet", "s", [here.seconds("import watersmeet") for _ in range(RUNS)]
                ),
                *first_results(here),
                figure("a process up to DuckDB's first result, join", "s", [here.seconds(DUCKDB) for _ in range(RUNS)]),
                *phases(here),
            ],
        )


if __name__ == "__main__":
    main()
