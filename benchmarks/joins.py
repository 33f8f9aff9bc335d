"""The join kernels on one core: hash joins of 2 to 6 streams by window size beside one in C++ (yardstick.cpp), theta
scans, and 3 to 6 streams against their binary probes.

Kernel time is what the operator spends in probing, inserting and indexing; "whole operator" adds computing the
codes and gathering the result columns. All is processor time.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from time import thread_time
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.harness import Figure, alternate, checksum, figure, report
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.operators.join import window_join
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.runtime.build import build
from watersmeet.sql import bind

BATCH, RUNS = 16_384, 7
PIECE = 256  # rows of a stream that the join in C++ takes before it takes some of the next
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("ts", pa.timestamp("us"))])


def catalog(streams: int) -> Catalog:
    made = Catalog()
    for i in range(streams):
        made.add(Stream(f"s{i}", SCHEMA, "ts"))
    return made


def batches(count: int, rows: int, keys: int, seed: int, start_us: int = 0, spacing_us: int = 1) -> list[Rows]:
    """Batches in time order, one row every `spacing_us`."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        times = start_us + spacing_us * np.arange(i * rows, (i + 1) * rows, dtype=np.int64)
        columns = [
            rng.integers(0, keys, rows),
            rng.integers(0, 1_000_000_000, rows),
            pa.array(times, pa.timestamp("us")),
        ]
        made.append(Rows(pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=SCHEMA), times))
    return made


def drive(
    join: WindowJoin, feeds: list[list[Rows]], full_after: int, read: Callable[[pa.RecordBatch], None] | None = None
) -> tuple[int, float, float]:
    """Push batches round robin; rows, and the processor seconds of kernels and in all, from the moment the windows are
    full. What is found then is read."""
    aliases = list(join.windows.streams)
    rows = 0
    kernel = whole = 0.0
    for i in range(len(feeds[0])):
        timed = i >= full_after
        before = join.counters.kernel_seconds
        started = thread_time()
        for alias, feed in zip(aliases, feeds, strict=True):
            for batch in join.push(alias, feed[i]):
                if timed and read is not None:
                    read(batch)
            rows += len(feed[i]) if timed else 0
        list(join.advance({alias: int(feed[i].times[-1]) for alias, feed in zip(aliases, feeds, strict=True)}))
        if timed:
            whole += thread_time() - started
            kernel += join.counters.kernel_seconds - before
    return rows, kernel, whole


def make_join(sql: str, streams: int) -> WindowJoin:
    operator = build(bind(sql, catalog(streams)))
    assert isinstance(operator, WindowJoin)
    return operator


class Yardstick:
    """The join of yardstick.cpp."""

    def __init__(self, library: ctypes.CDLL, streams: int, window_us: int, whole: bool) -> None:
        self._library, self.columns = library, streams + whole
        self._join = library.make_join(streams, window_us, whole)
        self._found = ctypes.POINTER(ctypes.c_int64)()

    def drive(
        self, feeds: list[list[Rows]], full_after: int, read: Callable[[pa.RecordBatch], None] | None = None
    ) -> tuple[int, float]:
        rows, taken = 0, 0.0
        for i in range(len(feeds[0])):
            timed = i >= full_after
            columns = np.array([[c.buffers()[1].address for c in feed[i].data.columns] for feed in feeds], np.int64)
            started = thread_time()
            count = self._library.push(
                self._join, len(feeds[0][i]), PIECE, columns.ctypes.data, ctypes.byref(self._found)
            )
            taken += thread_time() - started if timed else 0.0
            rows += sum(len(feed[i]) for feed in feeds) if timed else 0
            if timed and read is not None:
                read(self._results(count))
        self._library.free_join(self._join)
        return rows, taken

    def _results(self, count: int) -> pa.RecordBatch:
        values = np.ctypeslib.as_array(self._found, (count,)).reshape(-1, self.columns).copy()
        return pa.RecordBatch.from_arrays([pa.array(one) for one in values.T], [str(i) for i in range(self.columns)])


def yardstick() -> ctypes.CDLL | None:
    compiler = shutil.which("g++")
    if compiler is None:
        print("There is no g++ here, so the joins are not measured beside one in C++.")
        return None
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "yardstick.so"
        source = Path(__file__).with_name("yardstick.cpp")
        options = ["-std=c++17", "-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, str(source), "-o", str(built)], check=True)
        library = ctypes.CDLL(str(built))
    library.make_join.restype, library.push.restype = ctypes.c_void_p, ctypes.c_int64
    library.make_join.argtypes, library.free_join.argtypes = [ctypes.c_int64] * 3, [ctypes.c_void_p]
    library.push.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 2]
    return library


class Sum:
    """Rows, and a sum that does not depend on their order."""

    def __init__(self) -> None:
        self.rows = self.total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        rows, total = checksum(pa.Table.from_arrays(batch.columns, [str(i) for i in range(batch.num_columns)]))
        self.rows, self.total = self.rows + rows, self.total + total


def hash_join(streams: int, window: int) -> tuple[str, list[list[Rows]], int]:
    """A join by one key with about one partner in each other stream, batches of its streams, and after how many of them
    the windows are full."""
    fill = -(-window // BATCH) + 1
    feeds = [batches(fill + max(40, fill), BATCH, window, seed + 1) for seed in range(streams)]
    names = [f"s{i}" for i in range(streams)]
    sql = f"SELECT s0.k, {', '.join(f'{n}.x' for n in names)} FROM "
    sql += f"{', '.join(f'{n} [RANGE {window} US]' for n in names)} WHERE "
    sql += " AND ".join(f"s0.k = {n}.k" for n in names[1:])
    return sql, feeds, fill


def hash_by_window(cpp: ctypes.CDLL | None) -> Iterator[Figure]:
    """Our joins beside one in C++ that gives the numbers of rows, as kernels do, and one that gives their columns."""
    goals = {100_000: ">= 15 M rows/s", 1_000_000: ">= 8 M rows/s"}
    cases = [(2, window) for window in (10_000, 30_000, 100_000, 300_000, 1_000_000)]
    cases += [(streams, window) for streams in (3, 4, 5, 6) for window in (10_000, 100_000, 1_000_000)]
    for streams, window in cases:
        sql, feeds, fill = hash_join(streams, window)
        ours = Sum()
        drive(make_join(sql, streams), feeds, fill, ours.add)
        if cpp is not None:
            theirs = Sum()
            Yardstick(cpp, streams, window, True).drive(feeds, fill, theirs.add)
            assert (ours.rows, ours.total) == (theirs.rows, theirs.total)
        rates: dict[str, list[float]] = {name: [] for name in ("kernel", "whole operator", "C++, numbers", "C++")}
        for _ in range(RUNS):
            rows, kernel_s, whole_s = drive(make_join(sql, streams), feeds, fill)
            rates["kernel"].append(rows / kernel_s / 1e6)
            rates["whole operator"].append(rows / whole_s / 1e6)
            if cpp is not None:
                for name, whole in (("C++, numbers", False), ("C++", True)):
                    rates[name].append(rows / Yardstick(cpp, streams, window, whole).drive(feeds, fill)[1] / 1e6)
        named = f"{streams}-way hash, window {window:,} rows"
        goal = goals.get(window, "") if streams == 2 else ""
        matches = round(ours.rows / rows, 2)
        yield figure(f"{named}, kernel", "M rows/s", rates["kernel"], goal, matches_per_row=matches)
        yield from (figure(f"{named}, {name}", "M rows/s", r) for name, r in rates.items() if r and name != "kernel")
        ratios = [
            ("kernel / C++, numbers", ">= 1.2"),
            ("whole operator / C++", ""),
            ("whole operator / kernel", ">= .8"),
        ]
        for ratio, wanted in ratios:
            over, under = ratio.split(" / ")
            both = [a / b for a, b in zip(rates[over], rates[under], strict=bool(rates[under]))]
            if both:
                yield figure(f"{named}, {ratio}", "x", both, wanted)


def theta() -> Iterator[Figure]:
    window, rows = 100_000, 2_000
    old = batches(1, window, 10, 3)[0]
    new = batches(1, rows, 10, 4, start_us=window)[0]
    sql = f"SELECT s0.x FROM s0 [RANGE {2 * window} US], s1 [RANGE {2 * window} US] WHERE s1.x > s0.x + 999000000"
    rates, results = [], 0
    for run in range(6):
        join = make_join(sql, 2)
        list(join.push("s0", old))
        before = join.counters.kernel_seconds
        results = sum(batch.num_rows for batch in join.push("s1", new))
        if run:
            rates.append(window * rows / (join.counters.kernel_seconds - before) / 1e9)
    yield figure("theta scan, window 100,000 rows", "G comparisons/s", rates, ">= 2", results=results)


def n_way() -> Iterator[Figure]:
    """An n-way probe against the sum of its n - 1 binary probes, all on the same stores and new rows."""
    window = 100_000
    for streams in (3, 4, 5, 6):
        old = [batches(1, window, window, 10 + i)[0] for i in range(streams)]
        new = batches(1, BATCH, window, 99, start_us=window)[0]
        names = [f"s{i}" for i in range(streams)]
        whole = f"SELECT s0.x FROM {', '.join(names)} WHERE {' AND '.join(f's0.k = {n}.k' for n in names[1:])}"
        whole += " WINDOW = 1 SECOND"

        def probe(sql: str, aliases: list[str], old=old, new=new, streams=streams) -> float:
            join = make_join(sql, streams)
            for alias in aliases:
                list(join.push(alias, old[int(alias[1:])]))
            rows = new
            before = join.counters.kernel_seconds
            list(join.push("s0", rows))
            return join.counters.kernel_seconds - before

        pairs = {n: f"SELECT s0.x FROM s0, {n} WHERE s0.k = {n}.k WINDOW = 1 SECOND" for n in names[1:]}
        samples = alternate(
            {
                "n-way": lambda whole=whole, names=names, probe=probe: probe(whole, names[1:]),
                "binary": lambda pairs=pairs, probe=probe: sum(probe(sql, [n]) for n, sql in pairs.items()),
            },
            runs=7,
        )
        ratios = [a / b for a, b in zip(samples["n-way"], samples["binary"], strict=True)]
        per_row = round(min(samples["n-way"]) / BATCH * 1e9, 1)
        yield figure(f"{streams}-way probe / its binary probes", "x", ratios, "<= 2", ns_per_row=per_row)


if __name__ == "__main__":
    with patch.object(window_join, "perf_counter", thread_time):  # kernels by the processor's time too
        report("joins", chain(hash_by_window(yardstick()), theta(), n_way()))
