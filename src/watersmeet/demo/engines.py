"""The two places the demo runs in: Spark, and this process."""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.hosts.local.run_job import run_job
from watersmeet.noticing import phase
from watersmeet.plan.query import Plan
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.progress import progress_on
from watersmeet.runtime.script import read_script
from watersmeet.session import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from watersmeet.hosts.spark.progress.running_query import RunningQuery
    from watersmeet.hosts.spark.progress.tally import Batch


@dataclass(frozen=True)
class Outcome:
    late_rows: int
    interrupted: bool


class DemoEngine(Protocol):
    default_rows: int
    arguments: str

    @property
    def plan(self) -> Plan: ...

    def begin(self) -> None:
        """Have what takes a while begin; until `start` nothing may be imported."""
        ...

    def start(self) -> None: ...

    def prepare(self, text: str) -> str:
        """Read the script, and explain how it will run."""
        ...

    def run(self) -> Outcome: ...


def tell(console: Console, label: str, value: str) -> None:
    console.print(f"{label:<22} {value}")


class InProcess:
    default_rows = 6_000_000
    arguments = "--engine local"

    def __init__(self, console: Console) -> None:
        self.console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def begin(self) -> None:
        return None

    def start(self) -> None:
        return None

    def prepare(self, text: str) -> str:
        (self.job,) = read_script(text)
        return Query(self.job.plan).explain()

    @property
    def plan(self) -> Plan:
        return self.job.plan

    def run(self) -> Outcome:
        interrupts = Interrupts(lambda text: print(text, file=sys.stderr))
        one, peak_rows, peak_bytes = PulledExecution(self.job.plan), 0, 0
        one.tell = lambda warning: None  # the totals tell how many rows were late
        started = time.perf_counter()
        with progress_on(sys.stderr, live=True) as progress:

            def show(metrics: Metrics) -> None:
                nonlocal peak_rows, peak_bytes
                peak_rows, peak_bytes = max(peak_rows, metrics.kept_rows), max(peak_bytes, metrics.state_bytes)
                progress.update(metrics)

            metrics = run_job(self.job, one, interrupts, show)
        _totals(self.console, metrics, time.perf_counter() - started, peak_rows, peak_bytes)
        return Outcome(metrics.late_rows, interrupts.requested)


class OnSpark:
    default_rows = 3_000_000
    arguments = "--available-now"

    def __init__(self, console: Console) -> None:
        self.console = console
        self._told: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._starting is not None and self._own:
            with suppress(Exception):  # what it failed with was raised where it was waited for
                self._starting.result().stop()

    _own = False
    _starting: Future[SparkSession] | None = None

    def begin(self) -> None:
        self._since = time.monotonic()
        with phase("loading Spark"):
            from pyspark import SparkContext

            from watersmeet.hosts.spark.launching.launch import SMALL_BATCHES, start_spark
        self._own = SparkContext._active_spark_context is None  # a session that was there before is not ours to stop
        # Java starts while the streams are made.
        self._starting = ThreadPoolExecutor(1, "spark").submit(
            start_spark, conf={SMALL_BATCHES: "true"}, tell=self._told.append
        )

    def start(self) -> None:
        assert self._starting is not None
        with phase("starting Spark", since_s=self._since):
            self.spark = self._starting.result()
        seconds = time.monotonic() - self._since
        java = self.spark.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
        self.console.print("\nSpark", style="bold")
        self.console.print(f"Spark {self.spark.version} on Java {java}, started in {seconds:.1f} s.")
        for one in self._told:
            self.console.print(one)

    def prepare(self, text: str) -> str:
        from watersmeet.explain.explaining import explained
        from watersmeet.hosts.spark.host import SparkHost
        from watersmeet.hosts.spark.run import SparkRun
        from watersmeet.plan.explaining import Explaining
        from watersmeet.runtime.run_settings import RunSettings

        self.script = SparkRun(self.spark, text, RunSettings(available_now=True))
        return explained(self.plan, Explaining(), SparkHost(self.spark))

    @property
    def plan(self) -> Plan:
        return self.script.jobs[0].plan

    def run(self) -> Outcome:
        interrupts = Interrupts(lambda text: print(text, file=sys.stderr))
        started = time.perf_counter()

        def show(running: RunningQuery, batch: Batch) -> None:
            self.console.print(str(batch))

        with interrupts.stopping(self.script.request_stop):
            (running,) = self.script.run(show)
        seconds, tally = time.perf_counter() - started, running.tally
        _totals(self.console, tally.total, seconds, tally.peak_rows, tally.peak_bytes)
        hits, misses = tally.total.cache_hits, tally.total.cache_misses
        tell(self.console, "buckets kept warm", f"{hits:,} of {hits + misses:,} times")
        return Outcome(tally.total.late_rows, interrupts.requested)


def _totals(console: Console, metrics: Metrics, seconds: float, peak_rows: int, peak_bytes: int) -> None:
    tell(console, "rows in", f"{metrics.rows_in:,}")
    tell(console, "tracks found", f"{metrics.results:,}")
    tell(console, "time", f"{seconds:.1f} s, of it {metrics.kernel_seconds:.1f} s in the join's kernels")
    tell(console, "speed", f"{metrics.rows_in / seconds:,.0f} rows/s, from files to files")
    tell(console, "late rows left out", f"{metrics.late_rows:,}")
    tell(console, "windows at their peak", f"{peak_rows:,} rows, {peak_bytes / 2**20:.0f} MB")
