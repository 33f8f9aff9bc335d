"""Figures 13 and 16: as fast as it goes; and from which size of windows on a scan of all that is held is what costs."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from time import thread_time
from typing import Any

from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.h04.workload import ITA, NTA, PAPER, PIPELINES, TPA, WORKLOAD, Settings, asked, factors, shop
from watersmeet.lab.papers.running import times_to

FAST = {**WORKLOAD, "rate": 2056, "window": 60, "batch_rows": 1024, "repeats": 3}
FIGURE_13: Settings = {
    "small": {**FAST, "seconds": 100, "outputs": (4_000, 8_000)},
    "paper": {**FAST, "seconds": 120, "outputs": (10_000, 20_000, 30_000, 40_000), "repeats": 5},
    "10x": {**FAST, "seconds": 600, "outputs": (100_000, 200_000, 300_000, 400_000)},
    "100x": {**FAST, "seconds": 5000, "outputs": (1_000_000, 2_000_000, 3_000_000, 4_000_000), "repeats": 2},
}
FIGURE_16: Settings = {
    "small": {**FIGURE_13["small"], "windows": (15, 60)},
    "paper": {**FIGURE_13["paper"], "windows": (15, 60, 240, 600)},
}


def run_throughput(trial: ExperimentTrial, query: str) -> Result:
    """Seconds until so many outputs: medians of several rounds, in which the approaches take turns."""
    wanted = trial.settings
    session = shop(query, wanted, trial.seed)
    rounds: dict[str, list[list[float]]] = {line: [] for line in PIPELINES}
    speed: dict[str, list[float]] = {line: [] for line in PIPELINES}
    for turn in range(wanted["repeats"]):
        for place, line in enumerate(PIPELINES):
            trial.tell(len(PIPELINES) * turn + place, len(PIPELINES) * wanted["repeats"])
            text = asked(query, line, wanted)
            seconds, rows = times_to(session, text, wanted["outputs"], batch_rows=wanted["batch_rows"])
            rounds[line].append(seconds)
            speed[line].append(rows)
    lines = {line: [median(column) for column in zip(*found, strict=True)] for line, found in rounds.items()}
    numbers = {f"rows/s, {line}": median(found) for line, found in speed.items()}
    for line, found in rounds.items():
        numbers[f"time, s, fastest of {len(found)}, {line}"] = min(one[-1] for one in found)
        numbers[f"time, s, slowest of {len(found)}, {line}"] = max(one[-1] for one in found)
    return Result([Panel("Time to produce", "output tuples", "seconds", list(wanted["outputs"]), lines)], numbers)


def run_windows(trial: ExperimentTrial) -> Result:
    """Q5: time to produce, and what a tuple costs by the size of the windows."""
    result = run_throughput(trial, "Q5")
    costs: dict[str, list[float]] = {line: [] for line in PIPELINES}
    numbers = dict(result.numbers)
    for window in trial.settings["windows"]:
        settings = {**trial.settings, "window": window, "seconds": 1.5 * window}
        session = shop("Q5", settings, trial.seed)
        for line in PIPELINES:
            seconds, rows, compared = _whole_run(session.sql(asked("Q5", line, settings)).plan, settings)
            costs[line].append(seconds / rows * 1e6)
            numbers[f"comparisons per tuple to find what expired, {line}, {window} s"] = compared / rows
    panel = Panel("Processing", "window of sales, seconds", "µs per tuple", list(trial.settings["windows"]), costs)
    return Result([*result.panels, panel], numbers)


def _whole_run(plan: Any, settings: Mapping[str, Any]) -> tuple[float, int, int]:
    run = PulledExecution(plan, batch_rows=settings["batch_rows"])
    started = thread_time()
    for _ in run.batches():
        pass
    return thread_time() - started, run.metrics.rows_in, run.metrics.work.get("expiry_comparisons", 0)


def total(result: Result, top: str, bottom: str) -> float:
    return factors(result, top, bottom)[-1]


def with_large_windows(result: Result) -> float:
    """NTA's time over TPA's with the largest windows."""
    return factors(result, NTA, TPA, 1)[-1]


ALIKE = Check(
    "ITA and TPA need about the same time (within a third)",
    lambda result: 0.75 <= total(result, ITA, TPA) <= 4 / 3,
    timed=True,
)
FIGURE_13_CHECKS = (
    ALIKE,
    Check(
        "NTA needs more time than TPA",
        lambda result: total(result, NTA, TPA) > 1,
        timed=True,
        degree=True,
        why="a join that finds few partners costs little to do twice beside what every batch costs",
    ),
)
FIGURE_16_CHECKS = (
    ALIKE,
    Check(
        "NTA has the best throughput where windows are large: a tenth less time than TPA, or better",
        lambda result: with_large_windows(result) <= 0.9,
        timed=True,
        why="the scan of all that is held is what the paper's TPA pays, and it looks at a thousand tuples in a "
        "microsecond: with windows that hold few results it costs less than negative tuples do",
    ),
    Check(
        "NTA has the best throughput with windows of a minute: a tenth less time than TPA, or better",
        lambda result: total(result, NTA, TPA) <= 0.9,
        timed=True,
        degree=True,
        why="windows of a minute hold too few results for a scan of them to cost more than sending negative tuples",
    ),
    Check(
        "to find what has expired NTA compares least, by a factor of ten at least, and TPA more the larger the windows",
        lambda result: _compares_least(result),
    ),
)


def _compares_least(result: Result) -> bool:
    name = "comparisons per tuple to find what expired, {}, {} s"
    windows = [int(x) for x in result.panels[1].x]
    probing = [result.numbers[name.format(TPA, window)] for window in windows]
    negative = [result.numbers[name.format(NTA, window)] for window in windows]
    return sorted(probing) == probing and probing[-1] > 10 * negative[-1]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "H04-E13",
        PAPER,
        "Figure 13: time to produce outputs of Q4",
        "Two selections and a join (Q4) at 2056 tuples a second: ITA and TPA need the same time for 40,000 outputs, "
        "NTA more.",
        FIGURE_13,
        lambda trial: run_throughput(trial, "Q4"),
        FIGURE_13_CHECKS,
    ),
    Experiment(
        "H04-E16",
        PAPER,
        "Figure 16: time to produce outputs of Q5",
        "Two windows (Q5) at a high rate: NTA has the best throughput, TPA and ITA the same.",
        FIGURE_16,
        run_windows,
        FIGURE_16_CHECKS,
    ),
)
