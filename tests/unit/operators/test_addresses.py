"""What lies at an address must be there as long as the address is used: other threads take memory meanwhile."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import watersmeet

SOURCES = Path(watersmeet.__file__).parent
KERNELS = sorted(path for path in SOURCES.rglob("*.py") if "ctypes.data" in path.read_text())

THREADS = """
import numpy as np, pyarrow as pa, watersmeet as wm
def stream(seed, rows=300_000):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, rows, rows))
    columns = [np.arange(rows), rng.integers(0, 20_000, rows), pa.array(times, pa.timestamp("us"))]
    return pa.table(columns, ["id", "k", "ts"])
session = wm.Session()
for seed, name in enumerate("abc"):
    session.stream(name, stream(seed), time="ts")
two = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 10 MILLISECONDS"
three = "SELECT a.id AS x, b.id AS y, c.id FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 10 MILLISECONDS"
for sql in (two, three):
    found = {threads: session.sql(f"{sql} OPTIONS (threads = {threads})").to_arrow() for threads in (1, 4)}
    sums = [(t.num_rows, *(int(np.asarray(c).sum()) for c in t.columns)) for t in found.values()]
    assert sums[0] == sums[1] and sums[0][0], sums
"""


def made_and_asked(kernel: ast.FunctionDef) -> dict[str, str]:
    """Arrays that a kernel makes, with the names of their addresses."""
    made: set[str] = set()
    addresses: dict[str, str] = {}
    for node in ast.walk(kernel):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        for name, given in zip(target.elts, value.elts, strict=True) if several else [(target, value)]:
            text = ast.unparse(given)
            if text.startswith(("np.empty(", "np.zeros(", "np.ones(", "np.full(", "np.arange(")):
                made.add(ast.unparse(name))
            base = name.value if isinstance(name, ast.Subscript) else name  # one of several addresses
            addresses |= {one: ast.unparse(base) for one in made if f"{one}.ctypes.data" in text}
    return addresses


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: str(path.relative_to(SOURCES)))
def test_a_kernel_asks_for_an_array_it_makes_as_long_as_for_its_address(path: Path):
    """Numba frees an array after the last place that asks for it."""
    for kernel in ast.walk(ast.parse(path.read_text())):
        if isinstance(kernel, ast.FunctionDef) and any("kernel" in ast.unparse(one) for one in kernel.decorator_list):
            last: dict[str, int] = {}
            for one in ast.walk(kernel):
                if isinstance(one, ast.Name):
                    last[one.id] = max(last.get(one.id, 0), one.lineno)
            for array, address in made_and_asked(kernel).items():
                assert last[array] > last[address], f"{kernel.name}: {array} is gone when {address} is used"


def test_threads_that_share_one_arena_of_memory_find_what_one_finds():
    """What a thread has freed is then another's at once."""
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_PERTURB_": "165"}
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
