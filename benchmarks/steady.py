"""An hour of steady load on runs with a checkpoint: whether memory, latency and files stay as they are.

Two queries run side by side in one process: a join of two streams that are pushed, and groups of a stream whose files
come one every few seconds. Rows are sent when they are due, whether or not the runs keep up, and their event time is
when they were due, so the event time of an answer tells how long it was waited for. State is saved and answers are
committed as by default. Every few seconds a sample is taken; at the end a line through the samples tells what grows.

    python -m benchmarks.steady [--minutes 60] [--rate 5000] [--every 10] [--json FILE] [--plot FILE.svg]
    python -m benchmarks.steady --draw FILE.json --plot FILE.svg
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from benchmarks.harness import cpu_name

KEYS = 1_000
COLUMNS = {"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us"))])
JOIN = "SELECT a.id AS x, b.id AS y, event_time() AS t FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND"
GROUPS = "SELECT k, COUNT(*) AS n, SUM(id) AS total FROM f [RANGE 10 SECONDS] GROUP BY k"
SHARES = {"a": 0.4, "b": 0.4, "f": 0.2}  # of the rows that come
FILE_S = 2.0  # how often a file comes
KEPT_S = 60.0  # for how long files, read or written, stay
TICK_S = 0.001
WARM_UP = 0.1  # of the run, which the lines leave out
LEAST_WARM_UP_S = 60.0


@dataclass
class Sample:
    """What is true now, and how long answers took since the sample before."""

    at_s: float
    rss_mb: float
    p50_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float
    answers: int
    open_files: int
    threads: int
    checkpoint_mb: float
    checkpoint_files: int
    behind_rows: int  # that were due and are not in yet


@dataclass
class Line:
    """A number over time. `drift` is what the line gains from its first to its last sample, in parts of its mean."""

    mean: float
    slope_per_hour: float
    error_per_hour: float
    drift: float
    verdict: str


class Pushes(threading.Thread):
    """Sends the rows of the pushed streams when they are due."""

    def __init__(self, run: wm.Run, rate: int, stop: threading.Event) -> None:
        super().__init__(name="sends", daemon=True)
        self.run_, self.rate, self.stop = run, rate, stop
        self.sent = dict.fromkeys("ab", 0)
        self.start_us = time.time_ns() // 1_000
        self.error: BaseException | None = None
        self.last: list[Future[int]] = []  # what was sent last, to be waited for in the end

    def due(self, name: str) -> int:
        return int((time.time_ns() // 1_000 - self.start_us) * self.rate * SHARES[name] / 1e6)

    def run(self) -> None:
        rng = np.random.default_rng(1)
        try:
            while not self.stop.is_set():
                if not any(self._send(name, rng) for name in self.sent):
                    time.sleep(TICK_S)
        except BaseException as error:
            self.error = error

    def _send(self, name: str, rng: np.random.Generator) -> bool:
        first, due = self.sent[name], self.due(name)
        if due > first:
            every_us = 1e6 / (self.rate * SHARES[name])
            rows = batch_of(np.arange(first, due), self.start_us, every_us, rng)
            self.last = self.run_.push_soon(name, rows)
            self.sent[name] = due
        return due > first


class Files(threading.Thread):
    """Writes a file whenever one is due, and removes old ones."""

    def __init__(self, folder: Path, rate: int, stop: threading.Event) -> None:
        super().__init__(name="writes files", daemon=True)
        self.folder, self.rate, self.stop = folder, rate, stop
        self.written = 0

    def run(self) -> None:
        rng, per_file = np.random.default_rng(2), max(int(self.rate * SHARES["f"] * FILE_S), 1)
        start_us, number = time.time_ns() // 1_000, 0
        while not self.stop.wait(max((start_us - time.time_ns() // 1_000) / 1e6 + (number + 1) * FILE_S, 0)):
            ids = np.arange(self.written, self.written + per_file)
            rows = batch_of(ids, start_us, 1e6 * FILE_S / per_file, rng)
            draft = self.folder / f".{number:06d}.parquet"
            pq.write_table(pa.Table.from_batches([rows]), draft)
            draft.rename(self.folder / f"{number:06d}.parquet")
            self.written, number = self.written + per_file, number + 1
            remove_old(self.folder)


def batch_of(ids: Any, start_us: int, every_us: float, rng: np.random.Generator) -> pa.RecordBatch:
    times = start_us + (ids * every_us).astype(np.int64)
    keys = rng.integers(0, KEYS, len(ids))
    return pa.RecordBatch.from_arrays(
        [pa.array(ids), pa.array(keys), pa.array(times, pa.timestamp("us"))], schema=SCHEMA
    )


def remove_old(folder: Path) -> None:
    until_s = time.time() - KEPT_S
    for path in folder.glob("*.parquet"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < until_s:
                path.unlink()


class Waits:
    """How long answers took, since they were last asked for."""

    def __init__(self) -> None:
        self._lock, self._waits = threading.Lock(), list[Any]()

    def __call__(self, batch: pa.RecordBatch) -> None:
        now_us = time.time_ns() // 1_000
        waits = now_us - batch.column("t").view(pa.int64()).to_numpy(zero_copy_only=False)
        with self._lock:
            self._waits.append(waits)

    def taken(self) -> Any:
        with self._lock:
            found, self._waits = self._waits, []
        return np.concatenate(found) / 1_000 if found else np.zeros(0)


def sample(at_s: float, waits: Any, checkpoints: Sequence[Path], behind: int) -> Sample:
    sizes = [path.stat().st_size for folder in checkpoints for path in folder.iterdir() if path.exists()]
    p50, p99, p999 = np.percentile(waits, [50, 99, 99.9]) if waits.size else (0.0, 0.0, 0.0)
    return Sample(
        round(at_s, 1),
        round(rss_mb(), 2),
        round(float(p50), 3),
        round(float(p99), 3),
        round(float(p999), 3),
        round(float(waits.max()), 1) if waits.size else 0.0,
        int(waits.size),
        open_files(),
        threading.active_count(),
        round(sum(sizes) / 1e6, 3),
        len(sizes),
        behind,
    )


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def line_of(samples: Sequence[Sample], name: str, tolerated: float) -> Line:
    """A line through the samples behind the warm-up. The error allows for neighbours that are alike. Flat is what gains
    less than twice its error, or less than is tolerated."""
    since_s = max(samples[-1].at_s * WARM_UP, min(LEAST_WARM_UP_S, samples[-1].at_s / 2))
    kept = [one for one in samples if one.at_s >= since_s]
    hours = np.array([one.at_s for one in kept]) / 3600
    values = np.array([float(getattr(one, name)) for one in kept])
    mean = float(values.mean())
    if len(kept) < 4:
        return Line(mean, 0.0, float("inf"), 0.0, "too short to tell")
    centred = hours - hours.mean()
    slope = float(centred @ (values - mean) / (centred @ centred))
    rest = values - mean - slope * centred
    alike = max(float(rest[1:] @ rest[:-1] / (rest @ rest)) if rest @ rest else 0.0, 0.0)
    apart = max(len(kept) * (1 - alike) / (1 + alike), 3.0)  # as many samples as know nothing of each other
    error = float(np.sqrt((rest @ rest) / (apart - 2) / (centred @ centred) * len(kept) / apart))
    drift = slope * float(hours[-1] - hours[0]) / mean if mean else 0.0
    grows = slope > 2 * error and drift > tolerated
    return Line(round(mean, 3), round(slope, 4), round(error, 4), round(drift, 4), "grows" if grows else "flat")


TOLERATED = {"rss_mb": 0.03, "p50_ms": 0.1, "p99_ms": 0.1, "checkpoint_mb": 0.1, "open_files": 0.0, "threads": 0.0}


def measured(minutes: float, rate: int, every_s: float, folder: Path) -> dict[str, Any]:
    warm_up()
    before = {"open_files": open_files(), "threads": threading.active_count()}
    session, stop, waits = wm.Session(), threading.Event(), Waits()
    (folder / "f").mkdir()
    now = np.array([-1]), time.time_ns() // 1_000
    pq.write_table(pa.Table.from_batches([batch_of(*now, 1.0, np.random.default_rng(0))]), folder / "f" / "0.parquet")
    for name in "ab":
        session.stream(name, schema=COLUMNS, time="ts")
    session.stream("f", str(folder / "f"), time="ts", lateness="1 second")
    join = session.sql(JOIN).start(checkpoint=folder / "join", sink=folder / "out.parquet", on_answer=waits)
    groups = session.sql(GROUPS).start(checkpoint=folder / "groups", sink=folder / "counts.parquet")
    pushes, files = Pushes(join, rate, stop), Files(folder / "f", rate, stop)
    pushes.start()
    files.start()
    samples: list[Sample] = []
    began_s = time.monotonic()
    try:
        while time.monotonic() < began_s + minutes * 60:
            time.sleep(max(began_s + (len(samples) + 1) * every_s - time.monotonic(), 0))
            check(join, groups, pushes)
            behind = sum(pushes.due(name) - join.taken(name) for name in "ab")
            samples.append(
                sample(time.monotonic() - began_s, waits.taken(), [folder / "join", folder / "groups"], behind)
            )
            print(told(samples[-1]), flush=True)
            remove_old(folder / "out.parquet")
            remove_old(folder / "counts.parquet")
    finally:
        stop.set()
        pushes.join()
        files.join()
        for sent in pushes.last:
            sent.result()
        join.stop()
        groups.stop()
    rows = sum(pushes.sent.values()) + files.written
    time.sleep(0.5)
    after = {"open_files": open_files(), "threads": threading.active_count()}
    return {
        "minutes": minutes,
        "rate": rate,
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "python": platform.python_version(),
        "rows": rows,
        "lost_rows": sum(pushes.sent.values()) - join.taken("a") - join.taken("b"),
        "late_rows": join.metrics()["late_rows"] + groups.metrics()["late_rows"],
        "batches": join.batches + groups.batches,
        "before": before,
        "after": after,
        "lines": {name: asdict(line_of(samples, name, tolerated)) for name, tolerated in TOLERATED.items()},
        "samples": [asdict(one) for one in samples],
    }


def warm_up() -> None:
    """Have kernels loaded before files are counted."""
    session, rng = wm.Session(), np.random.default_rng(0)
    for name in "abf":
        session.stream(name, pa.Table.from_batches([batch_of(np.arange(100), 0, 1e5, rng)]), time="ts")
    for query in (JOIN, GROUPS):
        session.sql(query).to_arrow()


def check(join: wm.Run, groups: wm.Run, pushes: Pushes) -> None:
    for run in (join, groups):
        if not run.is_open:
            run.wait()
            raise RuntimeError("a run ended by itself")
    if pushes.error is not None:
        raise pushes.error


def told(one: Sample) -> str:
    return (
        f"{one.at_s:7.0f} s  {one.rss_mb:7.1f} MB"
        f"  p50 {one.p50_ms:6.2f}  p99 {one.p99_ms:7.2f}  p99.9 {one.p99_9_ms:7.2f} ms"
        f"  {one.answers:9,} answers  {one.open_files} files  {one.threads} threads"
        f"  checkpoints {one.checkpoint_mb:6.2f} MB in {one.checkpoint_files}  behind {one.behind_rows:,}"
    )


def verdict(found: dict[str, Any]) -> str:
    lines = [f"{found['rows']:,} rows in {found['minutes']:g} minutes, {found['batches']:,} batches"]
    for name, line in found["lines"].items():
        lines.append(
            f"{name:14} {line['mean']:10.3f} on average, {line['slope_per_hour']:+.3f} ± {line['error_per_hour']:.3f} "
            f"an hour, {100 * line['drift']:+.1f} % over the run: {line['verdict']}"
        )
    lines.append(f"rows sent and not in: {found['lost_rows']}; late: {found['late_rows']}")
    lines.append(f"before and after: {found['before']}, {found['after']}")
    return "\n".join(lines)


def draw(found: dict[str, Any], target: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "watersmeet"  # so that the same samples give the same file
    from matplotlib import pyplot

    minutes = [one["at_s"] / 60 for one in found["samples"]]
    figure, axes = pyplot.subplots(3, 1, figsize=(7, 6), sharex=True, layout="constrained")
    axes[0].plot(minutes, [one["rss_mb"] for one in found["samples"]])
    axes[0].set(ylabel="memory, MB", ylim=(0, 1.15 * max(one["rss_mb"] for one in found["samples"])))
    for name, label in (("p50_ms", "p50"), ("p99_ms", "p99"), ("p99_9_ms", "p99.9")):
        axes[1].plot(minutes, [one[name] for one in found["samples"]], label=label)
    axes[1].set(ylabel="push to answer, ms", yscale="log")
    axes[1].legend(ncols=3)
    axes[2].plot(minutes, [one["checkpoint_mb"] for one in found["samples"]], label="checkpoints, MB")
    axes[2].plot(minutes, [one["open_files"] for one in found["samples"]], label="open files")
    axes[2].plot(minutes, [one["threads"] for one in found["samples"]], label="threads")
    axes[2].set(xlabel=f"minutes at {found['rate']:,} rows/s", ylim=(0, None))
    axes[2].legend(ncols=3)
    figure.savefig(target, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=5_000, help="rows a second, of all streams")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--draw", type=Path, help="only draw what was measured before")
    asked = parser.parse_args()
    if asked.draw is not None:
        found = json.loads(asked.draw.read_text())
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(asked.minutes, asked.rate, asked.every, Path(folder))
    print(verdict(found))
    if asked.json is not None:
        asked.json.write_text(json.dumps(found) + "\n")
    if asked.plot is not None:
        draw(found, asked.plot)
    return 1 if any(line["verdict"] == "grows" for line in found["lines"].values()) or found["lost_rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
