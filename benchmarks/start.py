"""How long until something happens: the import, and the first result in a new process with compiled kernels cached."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.harness import figure, report

IMPORT = "import watersmeet"
FIRST = """
import datetime as dt, pyarrow as pa, watersmeet as wm
at = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 1)]
session = wm.Session()
for name in "ab":
    session.stream(name, pa.table({"k": [1, 2], "ts": at}), time="ts")
assert session.sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND").to_arrow().num_rows == 2
"""


def fresh_process(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def main() -> None:
    fresh_process(FIRST)
    bare = [fresh_process("import pyarrow") for _ in range(7)]
    imports = [fresh_process(IMPORT) for _ in range(7)]
    first = [fresh_process(FIRST) for _ in range(7)]
    empty = [fresh_process("pass") for _ in range(7)]
    report(
        "start",
        [
            figure("a process that does nothing", "s", empty),
            figure("a process that imports pyarrow", "s", bare),
            figure("a process that imports watersmeet", "s", imports, "< 0.3"),
            figure("a process up to its first join result", "s", first, "< 3"),
        ],
    )


if __name__ == "__main__":
    main()
