"""The same topics on Spark, by our connector and by Spark's own, and in Flink SQL, each with equal answers.

What cannot be had here is left out, with a word.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Figure, figure
from benchmarks.rivals import jvm
from benchmarks.topics.cluster import new_topic
from benchmarks.topics.in_flink import statements
from benchmarks.topics.rows import Query, Told, script
from benchmarks.topics.steps import check

LONG_S = 240.0


@dataclass(frozen=True)
class Load:
    """Topics that are filled, a query over them, and its answer."""

    brokers: str
    topics: dict[str, str]
    query: Query
    form: str
    rows: int
    expected: Told

    @property
    def name(self) -> str:
        return f"{self.form}, {self.query.name}"


class Spark:
    """A process with Spark in it. `start_s`: how long it took to be there."""

    def __init__(self) -> None:
        try:
            jars = sorted(Path(jvm.fetched("spark_kafka")[:-1]).glob("*.jar"))
        except jvm.MissingError as missing:
            print(f"Spark's own connector is left out: {missing}", flush=True)
            jars = []
        self.has_own = bool(jars)
        command = [sys.executable, "-m", "benchmarks.topics.on_spark", *map(str, jars)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.start_s = self._told()

    def run(self, load: Load, whose: str, folder: Path) -> float:
        """The seconds; raises FailedError, and ends if the answer is wrong."""
        out = new_topic(load.brokers, "bench-out")
        asked = {
            "whose": whose,
            "script": script(load.brokers, load.topics, load.query.text, load.form, out),
            "brokers": load.brokers,
            "topics": list(load.topics.values()),
            "window_s": load.query.window_s,
            "out": out,
            "checkpoint": str(folder / out),
        }
        assert self._process.stdin is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        seconds = self._told()
        check(load.brokers, out, load.query, load.expected, f"{whose} on Spark")
        return seconds

    def _told(self) -> float:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return _seconds(line)
        raise jvm.FailedError(f"Spark ended with {self._process.wait()}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30.0)
        self._process.kill()


def _seconds(line: str) -> float:
    told = json.loads(line)
    if "failed" in told:
        raise jvm.FailedError(told["failed"])
    return float(told["seconds"])


@contextmanager
def a_spark() -> Iterator[Spark]:
    spark = Spark()
    try:
        yield spark
    finally:
        spark.close()


def on_spark(loads: list[Load], small: Load, runs: int, folder: Path) -> Iterator[Figure]:
    """small: of a few rows, which tells what a run costs before rows count."""
    with a_spark() as spark:
        yield figure("Spark: until a session is there", "s", [spark.start_s])
        for whose in ("ours", "own") if spark.has_own else ("ours",):
            first_s = _tried(lambda whose=whose: spark.run(small, whose, folder), f"{whose} on Spark")
            if first_s is None:
                continue
            again = [spark.run(small, whose, folder) for _ in range(runs)]
            yield figure(f"{small.rows:,} rows on Spark, {whose}", "s", again, "", first=round(first_s, 2))
            for load in loads:
                if whose == "own" and load.form != "json":
                    continue  # it has no Avro without one more jar
                name = f"{load.name}, on Spark, {whose}, into a topic"
                samples = [_tried(lambda load=load, whose=whose: spark.run(load, whose, folder), name)
                           for _ in range(runs)]  # fmt: skip
                there = [load.rows / one for one in samples if one is not None]
                if there:
                    yield figure(name, "rows/s", there)


def in_flink(loads: list[Load], small: Load, runs: int, folder: Path) -> Iterator[Figure]:
    try:
        jars = jvm.fetched("flink_kafka")
        classes = jvm.compiled("flink_kafka", ["FlinkTopics.java"], jars)
    except jvm.MissingError as missing:
        print(f"Flink is left out: {missing}", flush=True)
        return
    planned = [small, *(load for load in loads for _ in range(runs))]
    outs = [new_topic(load.brokers, "bench-out") for load in planned]
    files = []
    for load, out in zip(planned, outs, strict=True):
        files.append(folder / f"{out}.sql")
        files[-1].write_text(statements(load.brokers, load.topics, load.query, load.form, out))
    opened = [f"--add-opens={one}" for one in jvm.OPENED]
    command = ["java", *opened, "-Xmx2g", "-cp", f"{classes}:{jars}", "FlinkTopics", str(folder), *map(str, files)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LONG_S, cwd=folder)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    except subprocess.TimeoutExpired as stopped:
        print(f"Flink had not ended after {LONG_S:g} s", flush=True)
        said = stopped.stdout or b""
        lines = [line for line in said.decode().splitlines() if line.startswith("{")]
    found: dict[str, list[float]] = {}
    for load, out, line in zip(planned, outs, lines, strict=False):
        seconds = _tried(lambda line=line: _seconds(line), f"{load.name}, Flink")
        if seconds is not None:
            check(load.brokers, out, load.query, load.expected, "Flink")
            if load is small:
                yield figure(f"{small.rows:,} rows in Flink, the first", "s", [seconds])
            else:
                found.setdefault(load.name, []).append(load.rows / seconds)
    for name, samples in found.items():
        yield figure(f"{name}, in Flink SQL, into a topic", "rows/s", samples)


def _tried(work: object, name: str) -> float | None:
    try:
        return float(work())  # type: ignore[operator]
    except jvm.FailedError as error:
        print(f"{name} failed: {error}", flush=True)
        return None
