"""What a join would do on 10, 100 and 1,000 executors, foretold from what one and two do here.

    python -m benchmarks.scale [--cluster] [--rows 400000] [--batches 5] [--cores 4] [--gigabits 10] [--trigger 10]

Measured are bytes and seconds a row of every step (source, pack, shuffle, unpack, join, state, sink) on one executor of
one core, and what a batch and a bucket cost that have next to nothing to do, on one and on two. Executors are threads
of one Java, or with `--cluster` processes of their own (`local-cluster`). From these, and from where the real placement
puts four million rows of a million keys in a thousand buckets, `Model` works out a batch on any number of executors. It
is checked by a run that it does not know: large batches on two executors.

What the model takes for granted, so that its figures are the most that can be had: sources have a partition for every
core; executors are as quick as here and wait for nothing but each other; the network gives each what it is told; the
driver does one thing at a time. Memory is not foretold, nor what goes wrong when machines do. All is by the clock, so
the machine must have nothing else to do: where it has, what is foretold for two is not what they take, and nothing else
of it is worth anything either.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import watersmeet as wm
from benchmarks.harness import Figure, figure, report
from benchmarks.spark_joins import reports, write_streams
from watersmeet.hosts.spark.exchange.pack import Packing
from watersmeet.hosts.spark.exchange.placement import Placement
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.hosts.spark.launching.launch import start_spark
from watersmeet.hosts.spark.launching.query_start import start_in_turn
from watersmeet.hosts.spark.reading.file_stream import ParquetStream
from watersmeet.model.time import Times
from watersmeet.operators.contract import Rows

WINDOW_ROWS, WARM_UP, FEW_ROWS = 200_000, 2, 200
FEW, MANY = 2, 16  # buckets, by which the cost of a task is told
KEYS, DRAWN, BUCKETS = 1_000_000, 2_000_000, 1_000  # rows of each stream
HEAVY = 20  # keys that are spread, if any
EXECUTORS = (10, 100, 1_000)
RETAINED = 100  # batches of which Spark keeps the change logs
SQL = f"SELECT a.k, a.v AS va, b.v AS vb FROM a, b WHERE a.k = b.k WINDOW = {WINDOW_ROWS // 2} MILLISECONDS"
CLUSTER, LOCAL = "local-cluster[{},1,2048]", "local[{}]"
INSIDE = {"unpack": "unpack_ns", "join": "kernel_ns", "state": "state_ns"}
Shares = npt.NDArray[np.float64]
Keys = npt.NDArray[np.int64]


# ---- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """Seconds and bytes a row; of a batch the seconds of the driver alone (`batch_s`, and for each task `launch_s`) and
    of the core that a task runs on (`task_s`)."""

    map_s: float
    reduce_s: float
    shuffle_bytes: float
    log_bytes: float
    batch_s: float
    launch_s: float
    task_s: float

    def batch(self, rows: float, cluster: Cluster, shares: Shares) -> float:
        """The seconds of a batch; `shares` of its rows lie in each bucket."""
        moved = rows * float(shares.sum()) * self.shuffle_bytes * (1 - 1 / cluster.executors)
        tasks = np.sort(self.task_s + rows * shares * self.reduce_s)[::-1]
        return (
            self.batch_s
            + self.launch_s * len(shares)
            + rows * self.map_s / cluster.slots
            + moved / (cluster.executors * cluster.network_bytes_s)
            + last_of(tasks, cluster.slots)
        )

    def rows_a_batch(self, seconds: float, cluster: Cluster, shares: Shares) -> float:
        """The most that are done in so many seconds."""
        low, high = 0.0, 1.0
        while self.batch(high, cluster, shares) < seconds and high < 1e15:
            low, high = high, 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.batch(middle, cluster, shares) <= seconds else (low, middle)
        return low


@dataclass(frozen=True)
class Cluster:
    executors: int
    cores: int
    network_bytes_s: float

    @property
    def slots(self) -> int:
        return self.executors * self.cores


def last_of(tasks: Shares, slots: int) -> float:
    """When the last of some tasks ends, if each begins where a core is free first.

    >>> float(last_of(np.array([3.0, 2.0, 2.0]), 2))
    4.0
    """
    ends = [0.0] * min(slots, len(tasks))
    for seconds in tasks.tolist():
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


# ---- where rows lie --------------------------------------------------------------------------------------------------


def job(buckets: int, options: str = "") -> SparkJob:
    session = wm.Session()
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
    for name in "ab":
        session.stream(name, schema.empty_table(), time="ts")
    return job_of(session.sql(f"{SQL} {options}").plan, {}, buckets)


def shares_of(keys: Sequence[Keys], buckets: int, options: str = "") -> Shares:
    """By the placement that runs in the workers, as parts of all rows of both streams. Where rows are copied it is more
    than the whole."""
    placing = job(buckets, options)
    counts = sum(_counts(Placement(placing, one), some) for one, some in zip(placing.streams, keys, strict=True))
    return np.asarray(counts / sum(map(len, keys)), np.float64)


def _counts(placement: Placement, keys: Keys) -> npt.NDArray[np.int64]:
    times: Times = np.zeros(len(keys), np.int64)
    columns = [pa.array(keys), pa.array(keys), pa.array(times, pa.timestamp("us"))]
    placed = placement.placed(Rows(pa.RecordBatch.from_arrays(columns, ["k", "v", "ts"]), times))
    counts = [np.bincount(placed.cells + copy, minlength=placement.buckets) for copy in placed.copies]
    return np.sum(counts, axis=0, dtype=np.int64)


def alike(seed: int) -> Keys:
    return np.random.default_rng(seed).integers(0, KEYS, DRAWN)


def zipf(seed: int) -> Keys:
    """The n-th key, which is the number n - 1, is as frequent as 1 / n."""
    weights = np.cumsum(1 / np.arange(1, KEYS + 1))
    return np.searchsorted(weights / weights[-1], np.random.default_rng(seed).random(DRAWN))


# ---- measuring -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """Of the warm batches of a run: seconds of each, what buckets counted in all, in seconds; bytes of change logs in
    all; of a row that is kept, at the end; the results."""

    seconds: list[float]
    inside: dict[str, float]
    log_bytes: int
    kept_row_bytes: float
    results: int
    sink_bytes: int

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def ran(master: str, cases: Sequence[tuple[Path, int]]) -> list[Ran]:
    """Over the streams of folders, in so many buckets each."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        settings = {
            "spark.local.dir": str(scratch / "local"), "spark.sql.warehouse.dir": str(scratch / "warehouse")
        }  # fmt: skip
        spark = start_spark(master, settings)
        spark.sparkContext.setLogLevel("FATAL")
        try:
            return [_ran(spark, folder, scratch / str(n), buckets) for n, (folder, buckets) in enumerate(cases)]
        finally:
            spark.stop()


def _ran(spark: SparkSession, folder: Path, scratch: Path, buckets: int) -> Ran:
    spark.conf.set("spark.sql.shuffle.partitions", buckets)
    session = wm.Session(spark, buckets=buckets)
    for name in "ab":
        session.stream(name, ParquetStream(str(folder / name), max_files_per_trigger=1), time="ts")
    writer = session.sql(SQL).dataframe().writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(scratch / "ck")).trigger(availableNow=True)
    query = start_in_turn(spark, "the join", lambda: writer.start(str(scratch / "out")), lambda: False)
    query.awaitTermination()
    warm = [one for one in query.recentProgress if one.numInputRows and one.batchId >= WARM_UP]
    told = [count for one in warm for count in reports(one)]
    inside = {step: sum(one["counts"].get(name, 0) for one in told) / 1e9 for step, name in INSIDE.items()}
    written = list((scratch / "out").glob("*.parquet"))
    return Ran(
        [one.durationMs["triggerExecution"] / 1000 for one in warm],
        inside,
        sum(path.stat().st_size for path in (scratch / "ck").rglob("*.changelog")),
        _sum_of(reports(warm[-1]), "state_bytes") / _sum_of(reports(warm[-1]), "kept_rows"),
        sum(pq.read_metadata(path).num_rows for path in written),
        sum(path.stat().st_size for path in written),
    )


def _sum_of(told: Sequence[dict[str, Any]], name: str) -> int:
    return sum(one.get(name, 0) for one in told)


@dataclass(frozen=True)
class Alone:
    """Steps that can be done in this process: seconds and bytes a row."""

    source_s: float
    source_bytes: float
    pack_s: float
    packet_bytes: float


def alone(folder: Path, buckets: int) -> Alone:
    packing, file = Packing(JobGroup((job(buckets),)), "a"), next(iter(sorted((folder / "a").iterdir())))
    source, pack, size = list[float](), list[float](), 0
    for number in range(4):
        began = time.process_time()
        rows = [_without_zone(one) for one in pq.ParquetFile(file).iter_batches()]
        source.append(time.process_time() - began)
        began = time.process_time()
        packed = packing.packets(rows, number)
        pack.append(time.process_time() - began)
        size = pa.compress(_bytes(packed), codec="lz4", asbytes=False).size  # as Spark does on its way
    count = sum(one.num_rows for one in rows)
    return Alone(min(source) / count, file.stat().st_size / count, min(pack) / count, size / count)


def _without_zone(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(2, "ts", batch.column("ts").cast(pa.timestamp("us")))


def _bytes(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def figures(master: str, rows: int, batches: int, cores: int, gigabits: float, trigger_s: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-data-", ignore_cleanup_errors=True) as root:
        large, small = Path(root) / "large", Path(root) / "small"
        write_streams(large, 2, rows, batches, WINDOW_ROWS)
        write_streams(small, 2, FEW_ROWS, 2 * batches, WINDOW_ROWS)
        here = alone(large, FEW)
        whole, few, many = ran(master.format(1), [(large, FEW), (small, FEW), (small, MANY)])
        checked, many_of_two = ran(master.format(2), [(large, FEW), (small, MANY)])
    warm, results = rows * (batches - WARM_UP), whole.results / (rows * batches)
    row_s = (whole.median - few.median) / rows
    inside = {step: spent / warm for step, spent in whole.inside.items()}
    rest_s = max(0.0, row_s - here.source_s - here.pack_s - sum(inside.values()))
    for step, seconds in {"source": here.source_s, "pack": here.pack_s, **inside}.items():
        yield figure(f"{step}, one core", "ns a row", [seconds * 1e9])
    yield figure("shuffle, sink and all else of Spark, one core", "ns a row", [rest_s * 1e9])
    yield figure("all steps, one core", "ns a row", [(one - few.median) / rows * 1e9 for one in whole.seconds])
    yield figure("source", "bytes a row", [here.source_bytes])
    yield figure("shuffle, packed", "bytes a row", [here.packet_bytes])
    yield figure("change logs", "bytes a row", [whole.log_bytes / (rows * batches)])
    yield figure("state", "bytes a kept row", [whole.kept_row_bytes])
    yield figure("sink", "bytes a result", [whole.sink_bytes / max(whole.results, 1)], results_a_row=round(results, 2))
    yield figure(f"a batch of {FEW_ROWS} rows, one core, {FEW} buckets", "s", few.seconds)
    yield figure(f"a batch of {FEW_ROWS} rows, one core, {MANY} buckets", "s", many.seconds)
    yield figure(f"a batch of {FEW_ROWS} rows, two executors, {MANY} buckets", "s", many_of_two.seconds)
    model = _model(here, inside, rest_s, whole, rows * batches, (few.median, many.median, many_of_two.median))
    yield figure("a batch, on the driver", "s", [model.batch_s])
    yield figure("a bucket, on the driver", "ms", [model.launch_s * 1e3])
    yield figure("a bucket, on its core", "ms", [model.task_s * 1e3])
    yield from _check(model, rows, whole, checked, gigabits, master.format(2))
    yield from _foretold(model, cores, gigabits, trigger_s)


def _model(
    here: Alone, inside: dict[str, float], rest_s: float, whole: Ran, rows: int, small: tuple[float, float, float]
) -> Model:
    """Half of what cannot be told apart is taken to be before the shuffle. What batches of few rows take, by buckets
    and executors, gives three equations for the driver and the tasks."""
    few, many, many_of_two = small
    a_bucket = max(0.0, (many - few) / (MANY - FEW))
    task_s = min(a_bucket, max(0.0, (many - many_of_two) / (MANY / 2)))
    launch_s = a_bucket - task_s
    return Model(
        map_s=here.source_s + here.pack_s + rest_s / 2,
        reduce_s=sum(inside.values()) + rest_s / 2,
        shuffle_bytes=here.packet_bytes,
        log_bytes=whole.log_bytes / rows,
        batch_s=max(0.0, few - FEW * a_bucket),
        launch_s=launch_s,
        task_s=task_s,
    )


def _check(model: Model, rows: int, whole: Ran, checked: Ran, gigabits: float, master: str) -> Iterator[Figure]:
    """Two executors of one core on this machine, whose network is its memory."""
    even = np.full(FEW, 1 / FEW)
    foretold = model.batch(rows, Cluster(2, 1, gigabits * 1e9), even)
    assert checked.results == whole.results, "two executors give another answer"
    yield figure("two executors, a batch, measured", "s", checked.seconds, master=master)
    yield figure("two executors, a batch, foretold", "s", [foretold])
    yield figure("two executors, foretold to measured", "times", [foretold / one for one in checked.seconds])


def _foretold(model: Model, cores: int, gigabits: float, trigger_s: float) -> Iterator[Figure]:
    heavy = ", ".join(map(str, range(HEAVY)))
    for name, keys, options in (
        ("keys alike", (alike(1), alike(2)), ""),
        ("keys of one stream by Zipf", (zipf(1), alike(2)), ""),
        (f"… and the {HEAVY} first spread", (zipf(1), alike(2)), f"OPTIONS (spread = 'a: {heavy}')"),
    ):
        shares = shares_of(keys, BUCKETS, options)
        times = float(shares.max() * BUCKETS)
        yield figure(f"{name}: fullest of {BUCKETS:,} buckets, to the mean", "times", [times])
        for executors in EXECUTORS:
            cluster = Cluster(executors, cores, gigabits * 1e9 / 8)
            rows = model.rows_a_batch(trigger_s, cluster, shares)
            label = f"{name}, {executors:,} executors"
            yield figure(f"{label}: foretold", "M rows/s", [rows / trigger_s / 1e6])
            yield figure(f"{label}: fullest bucket", "rows a batch", [rows * float(shares.max())])
            yield figure(f"{label}: shuffle", "GB a batch", [rows * model.shuffle_bytes * float(shares.sum()) / 1e9])
            yield figure(f"{label}: change logs", "GB a batch", [rows * model.log_bytes / 1e9])
            yield figure(f"{label}: change logs of {RETAINED} batches", "GB", [rows * model.log_bytes * RETAINED / 1e9])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000, help="of a large batch")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--cores", type=int, default=4, help="of an executor")
    parser.add_argument("--gigabits", type=float, default=10.0, help="a second, of the network of an executor")
    parser.add_argument("--trigger", type=float, default=10.0, help="how many seconds a batch may take")
    parser.add_argument("--cluster", action="store_true", help="with each executor in a process of its own")
    given = parser.parse_args()
    master = CLUSTER if given.cluster else LOCAL
    report("scale", figures(master, given.rows, given.batches, given.cores, given.gigabits, given.trigger))


if __name__ == "__main__":
    main()
