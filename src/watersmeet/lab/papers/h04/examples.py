"""Figures 1(a) and 2, and what W-DISTINCT outputs (Eq. 1)."""

from __future__ import annotations

from datetime import UTC

import numpy as np
import pyarrow as pa

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.h04.workload import (
    ITA,
    LONGEST,
    NTA,
    PAPER,
    PIPELINES,
    TPA,
    Settings,
    numbers_of,
    panels_of,
    values,
)
from watersmeet.lab.papers.running import replay, session_of
from watersmeet.lab.slow_paths import told_on_slow_paths
from watersmeet.optimizer.cost.inputs import StreamRate
from watersmeet.papers.pipelines.cost import distinct_output_rate

# Figure 1(a): a value for each tick
EXAMPLE = {-4: 6, -3: 9, -2: 1, -1: 3, 0: 5, 1: 8, 2: 2, 3: 3, 4: 1, 5: 7, 6: 2}
START, SECOND_US = 100, 1_000_000  # the instant of tick 0
SUM_ABOVE_4 = "SELECT SUM(v) AS total FROM s [RANGE 6 SECONDS] WHERE v > 4"
WINDOW = 6  # ticks, half-open: to the age of 5, as in the figure
PROBING, VOLUNTARY = "TPA, which probes", "by its own clock (wrong)"
PRINTED, OURS, EQUATION = "as printed", "here", "Eq. 1"
RATES: Settings = {
    "small": {"keys": 26, "window": 10, "rates": (0.5, 2, 10, 50), "seconds": 200},
    "paper": {"keys": 26, "window": 10, "rates": (0.5, 2, 10, 50), "seconds": 2000},
}


def run_figure_1a(trial: ExperimentTrial) -> Result:
    """The sum of values above 4 in a window of 6 ticks: when each of its changes is told."""
    ticks, values_sold = list(EXAMPLE), list(EXAMPLE.values())
    at = pa.array([(tick + START) * SECOND_US for tick in ticks], pa.timestamp("us"))
    session = session_of({"s": pa.table({"v": values_sold, "ts": at})})
    found = {}
    for line, pipeline in PIPELINES.items():
        # Half-open, 6 ticks keep a row to the age of 5, as in the figure.
        found["SUM", line] = replay(session, f"{SUM_ABOVE_4} OPTIONS (boundary = 'half_open', pipeline = '{pipeline}')")
    return Result(panels_of(found, ""), numbers_of(found))


FIGURE_1A_CHECKS = (
    Check("ITA tells the sum of T2 at T5, three ticks late", lambda result: values(result, ITA, LONGEST) == [3.0]),
    Check(
        "TPA and NTA tell every sum at its tick",
        lambda result: values(result, TPA, LONGEST) == [0.0] and values(result, NTA, LONGEST) == [0.0],
    ),
)


def run_figure_2(trial: ExperimentTrial) -> Result:
    """The same sum, where the tuple of value 7 takes three ticks to reach it."""
    del trial  # the rows are the paper's
    above_4 = {tick: value for tick, value in EXAMPLE.items() if value > 4}
    ticks = range(1, 9)
    told = {name: sums_told(by_own_clock=wrong) for name, wrong in ((PROBING, False), (VOLUNTARY, True))}
    lines = {name: [found.get(tick, [None])[0] for tick in ticks] for name, found in told.items()}
    numbers = {
        f"times that {name} tells a sum that never was": float(
            sum(value not in _true_sums(above_4) for found in told[name].values() for value in found)
        )
        for name in told
    }
    return Result([Panel("Sums told", "tick", "first sum told", list(ticks), lines)], numbers)


def sums_told(*, by_own_clock: bool) -> dict[int, list[float]]:
    """The sums of the figure by the tick at which they were told."""
    at = pa.array([(tick + START) * SECOND_US for tick in EXAMPLE], pa.timestamp("us"))
    session = session_of({"s": pa.table({"v": list(EXAMPLE.values()), "ts": at})})
    sql = f"{SUM_ABOVE_4} OPTIONS (boundary = 'half_open', pipeline = 'tpa_scan')"
    late = (START + 5) * SECOND_US
    log = told_on_slow_paths(
        session, sql, lambda times: np.where(times == late, 3 * SECOND_US, 0), by_own_clock=by_own_clock
    )
    told: dict[int, list[float]] = {}
    for row in log.to_pylist():
        if row["_op"] == "+" and row["total"] is not None:
            tick = round(row["_told"].replace(tzinfo=UTC).timestamp()) - START
            told.setdefault(tick, []).append(float(row["total"]))
    return told


def _true_sums(values_by_tick: dict[int, int]) -> set[int]:
    return {
        sum(value for at, value in values_by_tick.items() if at <= tick < at + WINDOW)
        for tick in range(min(values_by_tick), max(values_by_tick) + WINDOW)
    }


FIGURE_2_CHECKS = (
    Check(
        "expiry by an operator's own clock tells a sum that never was, and never tells 20",
        lambda result: (
            result.numbers[f"times that {VOLUNTARY} tells a sum that never was"] > 0
            and 20 not in values(result, VOLUNTARY)
        ),
    ),
    Check(
        "TPA tells no such sum, and tells 20",
        lambda result: (
            result.numbers[f"times that {PROBING} tells a sum that never was"] == 0 and 20 in values(result, PROBING)
        ),
    ),
)


def run_output_rates(trial: ExperimentTrial) -> Result:
    """Tuples a second out of W-DISTINCT, over the rate of its input."""
    wanted = trial.settings
    rng = np.random.default_rng(trial.seed)
    lines: dict[str, list[float]] = {PRINTED: [], OURS: [], EQUATION: []}
    for rate in wanted["rates"]:
        at = np.cumsum(rng.exponential(1e6 / rate, max(50, int(rate * wanted["seconds"])))).astype(np.int64)
        table = pa.table({"k": rng.integers(0, wanted["keys"], at.size), "ts": at.astype("M8[us]")})
        text = f"SELECT DISTINCT k FROM s [RANGE {wanted['window']} SECONDS] OPTIONS (boundary = 'half_open'"
        query = session_of({"s": table}).sql(f"{text}, pipeline = 'tpa_scan')")
        log = query.to_arrow()
        seconds = float(at[-1]) / 1e6
        lines[PRINTED].append(query.metrics()["work"]["distinct_outputs"] / seconds)
        lines[OURS].append(sum(op == "+" for op in log["_op"].to_pylist()) / seconds)
        lines[EQUATION].append(distinct_output_rate(StreamRate("s", rate, wanted["window"], distinct=wanted["keys"])))
    return Result(
        [Panel("Output of W-DISTINCT", "input rate", "tuples a second", list(wanted["rates"]), lines, x_log=True)]
    )


OUTPUT_RATE_CHECKS = (
    Check(
        "the operator as printed outputs what Eq. 1 says, up to a third more",
        lambda result: all(
            0.9 <= x / y <= 1.34 for x, y in zip(values(result, PRINTED), values(result, EQUATION), strict=True)
        ),
    ),
    Check(
        "its output rate is regulated: five times the input rate gives less than 1.3 times the output",
        lambda result: values(result, PRINTED)[-1] < 1.3 * values(result, PRINTED)[-2],
    ),
    Check(
        "what replaces an equal tuple at once need not be told: here hardly anything comes out at high rates",
        lambda result: values(result, OURS)[-1] < 0.2 * values(result, PRINTED)[-1],
    ),
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "H04-W1",
        PAPER,
        "Figure 1(a): when each sum is told",
        "A sum over a selection: ITA tells what left at T2 and T3 only at T5.",
        {"small": {}},
        run_figure_1a,
        FIGURE_1A_CHECKS,
    ),
    Experiment(
        "H04-W2",
        PAPER,
        "Figure 2: sums told by a clock of one's own",
        "An operator that expires tuples by its own clock, while others are on their way to it, tells wrong sums.",
        {"small": {}},
        run_figure_2,
        FIGURE_2_CHECKS,
    ),
    Experiment(
        "H04-M1",
        PAPER,
        "Eq. 1: output rate of W-DISTINCT",
        "W-DISTINCT regulates its output: with a fast input it gives n_key / |w| tuples a second.",
        RATES,
        run_output_rates,
        OUTPUT_RATE_CHECKS,
    ),
)
