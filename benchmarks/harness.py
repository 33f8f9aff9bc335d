"""Measuring side by side: alternating runs after a warm-up, median and spread, checksums that must agree."""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

RESULTS = Path(__file__).parent / "results"


@dataclass
class Figure:
    """One measured number: what it is, in which unit, the median over runs and the lowest and highest."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    runs: int
    goal: str = ""
    notes: dict[str, object] = field(default_factory=dict)

    def line(self) -> str:
        goal = f"   goal {self.goal}" if self.goal else ""
        notes = "".join(f"   {key} {value}" for key, value in self.notes.items())
        return f"{self.name}: {self.median:.4g} {self.unit} ({self.low:.4g} to {self.high:.4g}){goal}{notes}"


def figure(name: str, unit: str, samples: list[float], goal: str = "", /, **notes: object) -> Figure:
    return Figure(name, unit, statistics.median(samples), min(samples), max(samples), len(samples), goal, notes)


def alternate(contenders: dict[str, Callable[[], float]], runs: int = 5) -> dict[str, list[float]]:
    """Run every contender once to warm up, then all of them in turn; each returns the seconds it took."""
    for contender in contenders.values():
        contender()
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            samples[name].append(contender())
    return samples


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def checksum(table: pa.Table) -> tuple[int, int]:
    """Rows, and a sum that does not depend on their order."""
    total = 0
    for name in table.column_names:
        value = pc.sum(table[name].cast(pa.int64())).as_py()
        total += int(value or 0)
    return table.num_rows, total


def report(benchmark: str, figures: Iterable[Figure], *, beside: bool = False) -> None:
    """Print a line per figure and keep it as JSON, each as it comes.

    Until all have come, those of before stay beside them, and so they do after it if only a part was asked for.
    """
    signal.signal(signal.SIGTERM, unwind)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{benchmark}.json"
    machine = {"machine": platform.machine(), "python": platform.python_version(), "cpu": cpu_name()}
    busy = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    before = json.loads(path.read_text())["figures"] if path.exists() else []
    new: dict[str, dict[str, object]] = {}

    def keep(whole: bool) -> None:
        known = {} if whole else {one["name"]: one for one in before}
        found = list((known | new).values())
        content = {"benchmark": benchmark, **machine, **busy, "whole": whole, "figures": found}
        path.write_text(json.dumps(content, indent=2) + "\n")

    for one in figures:
        print(one.line(), flush=True)
        new[one.name] = asdict(one)
        keep(whole=False)
    keep(whole=not beside)


def unwind(*_: object) -> None:
    """One that is ended ends what it has started: servers, Spark's Java, children that measure."""
    raise SystemExit("ended")


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
