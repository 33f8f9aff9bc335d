"""K05: Kostowski and Claypool, Analytical and Experimental Evaluation of Stream-Based Join. Figures 4 to 8.

Two streams, windows of 30 s, a batch of 60 s of which the last 30 are measured; 100 join values and 100 buckets unless
varied. The paper gives no rates: those of the scale `paper` are chosen so that its statements can be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result, Scale
from watersmeet.lab.papers.measuring import MeasuredStretch, StagedRun, after, medians
from watersmeet.lab.papers.shapes import all_near, is_level, line_of, mean, near, points, ratios
from watersmeet.lab.workloads.steady import SECOND_US, steady
from watersmeet.optimizer.cost.inputs import StreamRate
from watersmeet.papers.orders.cost_k05 import UnitCosts, stale_in_table, whj_cost, wnl_cost
from watersmeet.plan.options import INVALIDATIONS

Settings = Mapping[Scale, Mapping[str, Any]]

PAPER = "K05"
WINDOW_S, BATCH_S = 30, 60
MEASURED_S = BATCH_S - WINDOW_S
STRATEGIES = {
    "probe": "probe time",
    "probe_insert": "probe and insert time",
    "probe_all": "probe all buckets",
    "all": "optimal",
}
SCANS_ONLY = UnitCosts(invalidate=0, insert=0, scan=1)

# 10x stops short of what would take hours, and there is no 100x: nested loops over windows of 3,000,000 rows compare
# 10^13 times. In Figures 7 and 8 values and buckets grow with the rates.
FIGURE_4: Settings = {
    "small": {"rates": (25, 50, 100, 200), "values": 100, "buckets": 100, "repeats": 3},
    "paper": {"rates": (100, 250, 500, 750, 1000), "values": 100, "buckets": 100, "repeats": 3},
    "10x": {"rates": (1000, 2000, 4000), "values": 100, "buckets": 100, "repeats": 1},
}
FIGURE_5: Settings = {
    "small": {"rate": 200, "values": 100, "buckets": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), "repeats": 3},
    "paper": {"rate": 1000, "values": 100, "buckets": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), "repeats": 3},
    "10x": {"rate": 10_000, "values": 1000, "buckets": (10, 50, 100, 500, 1000, 2000, 10_000), "repeats": 1},
}
FIGURE_6: Settings = {
    "small": {"rate": 100, "values": (10, 100, 1000), "buckets": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)},
    "paper": {"rate": 500, "values": (10, 100, 1000), "buckets": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)},
    "10x": {"rate": 5000, "values": (100, 1000, 10_000), "buckets": (10, 50, 100, 200, 1000, 2000, 10_000, 20_000)},
}
# The probed stream is 100 times faster than the other, as in Figure 8.
FIGURE_7: Settings = {
    "small": {"rates": (500, 1000, 2000), "values": 100, "repeats": 5},
    "paper": {"rates": (500, 1000, 2000, 4000), "values": 100, "repeats": 5},
    "10x": {"rates": (10_000, 20_000), "values": 1000, "repeats": 3},
}
# A bucket of the fast stream is probed every N/λ_A seconds: 5 s here, so stale rows settle well before the end, and
# N/(λ_A·30 s), the share of rows that are stale with probe time invalidation, is large enough to see.
FIGURE_8: Settings = {
    "small": {"slow": 20, "fast": 2000, "values": 100},
    "paper": {"slow": 20, "fast": 2000, "values": 100},
    "10x": {"slow": 200, "fast": 20_000, "values": 1000},
}


def join_sql(options: str) -> str:
    sources = f"a [RANGE {WINDOW_S} SECONDS], b [RANGE {WINDOW_S} SECONDS]"
    return f"SELECT a.ts FROM {sources} WHERE a.attr = b.attr OPTIONS (boundary = 'half_open', {options})"


WNL = "join = 'nested_loop'"


def whj(buckets: int, invalidate: str = "probe_insert") -> str:
    return f"join = 'hash', buckets = {buckets}, invalidate = '{invalidate}'"


def second_half(
    options: str, rates: tuple[float, float], values: int, seed: int, *, matching: bool = True
) -> MeasuredStretch:
    """What a join does in the last 30 s. Without `matching` the rows meet in the same buckets, but none is equal."""
    tables = steady(dict(zip("ab", rates, strict=True)), BATCH_S, values, seed)
    if not matching:
        # Beyond the values of a, but with the same remainders as long as buckets divide the number of values.
        never = tables["b"]["attr"].to_numpy() + values
        tables["b"] = tables["b"].set_column(1, "attr", [never])
    return after(join_sql(options), tables, WINDOW_S * SECOND_US)


def timed_and_counted(
    options: Mapping[str, str],
    rates: tuple[float, float],
    values: int,
    seed: int,
    repeats: int,
    *,
    matching: bool = True,
) -> tuple[dict[str, float], dict[str, MeasuredStretch]]:
    """Median seconds and the counts by name; the counts are the same every time."""
    counted: dict[str, MeasuredStretch] = {}

    def once(name: str) -> float:
        counted[name] = second_half(options[name], rates, values, seed, matching=matching)
        return counted[name].seconds

    return medians({name: partial(once, name) for name in options}, repeats), counted


# ---- Figure 4 --------------------------------------------------------------------------------------------------------


def figure_4(trial: ExperimentTrial) -> Result:
    given = trial.settings
    rates, values, buckets = given["rates"], given["values"], given["buckets"]
    contenders = {"WNL": WNL, "WHJ": whj(buckets)}
    scans: dict[str, list[float]] = {f"{name}{kind}": [] for name in contenders for kind in ("", ", Equations 1 and 2")}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    one_side: dict[str, list[float]] = {name: [] for name in contenders}
    for done, rate in enumerate(rates):
        trial.tell(done, len(rates) + 1)
        took, counted = timed_and_counted(contenders, (rate, rate), values, trial.seed, given["repeats"])
        side = StreamRate("s", rate, WINDOW_S, values, buckets)
        foreseen = {"WNL": wnl_cost(side, side, SCANS_ONLY), "WHJ": whj_cost(side, side, SCANS_ONLY)}
        for name in contenders:
            scans[name].append(counted[name].work["scanned"])
            scans[f"{name}, Equations 1 and 2"].append(MEASURED_S * foreseen[name])
            seconds[name].append(took[name])
            # rows of A, whose rate changes, against a stream B that stays at the slowest rate
            alone = second_half(contenders[name], (rate, rates[0]), values, trial.seed)
            one_side[name].append(alone.work["scanned"])
    trial.tell(len(rates), len(rates) + 1)
    fastest = (rates[-1], rates[-1])
    bare, _ = timed_and_counted(contenders, fastest, values, trial.seed, given["repeats"], matching=False)
    return Result(
        [
            Panel(
                "Both rates alike",
                "input rate of each stream (rows/s)",
                "rows scanned in 30 s",
                rates,
                scans,
                y_log=True,
            ),
            Panel(
                "The rate of one stream",
                "input rate of stream A (rows/s)",
                "rows scanned in 30 s",
                rates,
                one_side,
                y_log=True,
            ),
            Panel(
                "Both rates alike",
                "input rate of each stream (rows/s)",
                "processing time (s)",
                rates,
                seconds,
                y_log=True,
            ),
        ],
        {
            "scan_ratio": scans["WNL"][-1] / scans["WHJ"][-1],
            "time_ratio": seconds["WNL"][-1] / seconds["WHJ"][-1],
            "time_ratio_without_results": bare["WNL"] / bare["WHJ"],
        },
    )


def _two_orders_fewer(result: Result) -> bool:
    return all(near(ratio, 100, 0.25) for ratio in ratios(line_of(result, "WNL"), line_of(result, "WHJ")))


def _as_foreseen(result: Result) -> bool:
    return all(
        all_near(line_of(result, name), line_of(result, f"{name}, Equations 1 and 2"), 0.1) for name in ("WNL", "WHJ")
    )


def _linear_in_one_rate(result: Result) -> bool:
    rates = cast(Sequence[float], result.panels[1].x)
    return all(is_level(ratios(line_of(result, name, 1), rates), 0.1) for name in ("WNL", "WHJ"))


E4 = Experiment(
    "K05-E4",
    PAPER,
    "Figure 4: windowed nested loops (WNL) and windowed hash join (WHJ) by input rate",
    "With 100 buckets the hash join is two orders of magnitude faster: scanning the buffers dominates.",
    FIGURE_4,
    figure_4,
    [
        Check("WNL scans about 100 times as many rows as WHJ with 100 buckets, at every rate", _two_orders_fewer),
        Check("the scans are those of Equations 1 and 2, within a tenth", _as_foreseen),
        Check("with the other stream's rate fixed, scans are linear in the rate, not quadratic", _linear_in_one_rate),
        Check(
            "WHJ is faster, by far more than it costs to hash: at least three times at the highest rate",
            lambda result: result.numbers["time_ratio"] >= 3,
            timed=True,
        ),
        Check(
            "WHJ is two orders of magnitude faster (at least 30 times at the highest rate)",
            lambda result: result.numbers["time_ratio"] >= 30,
            timed=True,
            essential=False,
            why="our loops compare about four rows in a nanosecond, so scanning no longer dominates in WHJ: what every "
            "arrival costs, and writing the results, which WNL and WHJ have in common, take most of its time",
        ),
    ],
)


# ---- Figures 5 and 6 -------------------------------------------------------------------------------------------------


def figure_5(trial: ExperimentTrial) -> Result:
    given = trial.settings
    rate, values = given["rate"], given["values"]
    contenders = {str(buckets): whj(buckets) for buckets in given["buckets"]}
    took, counted = timed_and_counted(contenders, (rate, rate), values, trial.seed, given["repeats"])
    scans = [counted[name].work["scanned"] for name in contenders]
    x, axis = given["buckets"], "number of hash buckets"
    title = f"Selectivity {1 / values:g}"
    return Result(
        [
            Panel(title, axis, "rows scanned in 30 s", x, {"WHJ": scans}, x_log=True, y_log=True),
            Panel(title, axis, "processing time (s)", x, {"WHJ": list(took.values())}, x_log=True, y_log=True),
        ],
        {
            "values": values,
            "flat_from": flat_from(x, scans),
            "time_ratio": took[str(x[0])] / took[str(values)],
        },
    )


def flat_from(buckets: Sequence[int], scans: Sequence[float]) -> float:
    """The smallest number of buckets from which on more of them change less than a tenth."""
    return next(one for place, one in enumerate(buckets) if is_level(scans[place:], 0.1))


def _inversely_proportional(result: Result) -> bool:
    products = [buckets * scans for buckets, scans in points(result, "WHJ") if buckets <= result.numbers["values"]]
    return len(products) > 2 and is_level(products, 0.1)


def _time_is_flat(result: Result) -> bool:
    flat = [seconds for buckets, seconds in points(result, "WHJ", 1) if buckets >= result.numbers["values"]]
    return max(flat) <= 3 * min(flat)


E5 = Experiment(
    "K05-E5",
    PAPER,
    "Figure 5: the windowed hash join by number of buckets",
    "Processing time is inversely proportional to the number of buckets, up to the number of join values (100).",
    FIGURE_5,
    figure_5,
    [
        Check(
            "rows scanned are inversely proportional to the buckets, up to as many as values", _inversely_proportional
        ),
        Check("and flat from there on", lambda result: result.numbers["flat_from"] == result.numbers["values"]),
        Check(
            "it takes at least three times as long with one bucket as with one for each value",
            lambda result: result.numbers["time_ratio"] >= 3,
            timed=True,
        ),
        Check("from as many buckets as values on, times differ by less than a factor of 3", _time_is_flat, timed=True),
    ],
)


def figure_6(trial: ExperimentTrial) -> Result:
    given = trial.settings
    rate, x = given["rate"], given["buckets"]
    scans: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    numbers: dict[str, float] = {}
    for done, values in enumerate(given["values"]):
        trial.tell(done, len(given["values"]))
        found = [second_half(whj(buckets), (rate, rate), values, trial.seed) for buckets in x]
        name = f"selectivity {1 / values:g}"
        scans[name] = [one.work["scanned"] for one in found]
        seconds[name] = [one.seconds for one in found]
        numbers[f"values, {name}"] = values
        numbers[f"flat_from, {name}"] = flat_from(x, scans[name])
    axis = "number of hash buckets"
    return Result(
        [
            Panel("WHJ by selectivity", axis, "rows scanned in 30 s", x, scans, x_log=True, y_log=True),
            Panel("WHJ by selectivity", axis, "processing time (s)", x, seconds, x_log=True, y_log=True),
        ],
        numbers,
    )


def _flat_at_values(result: Result) -> bool:
    names = result.panels[0].lines
    return all(result.numbers[f"flat_from, {name}"] == result.numbers[f"values, {name}"] for name in names)


def _fewer_with_selectivity(result: Result) -> bool:
    """Lines come in order of falling selectivity; with the most buckets they are as far apart as their values."""
    last = [line_of(result, name)[-1] * result.numbers[f"values, {name}"] for name in result.panels[0].lines]
    return is_level(last, 0.1)


E6 = Experiment(
    "K05-E6",
    PAPER,
    "Figure 6: the windowed hash join by number of buckets and selectivity",
    "For every selectivity, processing time is flat once there are as many buckets as join values.",
    FIGURE_6,
    figure_6,
    [
        Check("scans are flat exactly from as many buckets as join values on, for each selectivity", _flat_at_values),
        Check("the flat part is proportional to the selectivity", _fewer_with_selectivity),
    ],
)


# ---- Figure 7 --------------------------------------------------------------------------------------------------------


def figure_7(trial: ExperimentTrial) -> Result:
    given = trial.settings
    rates, values = given["rates"], given["values"]
    # As many buckets as values, as in the paper's common settings.
    contenders = {STRATEGIES[one]: whj(values, one) for one in INVALIDATIONS}
    compared: dict[str, list[float]] = {name: [] for name in contenders}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    scans: dict[str, list[float]] = {name: [] for name in contenders}
    for done, rate in enumerate(rates):
        trial.tell(done, len(rates))
        took, counted = timed_and_counted(contenders, (rate / 100, rate), values, trial.seed, given["repeats"])
        for name in contenders:
            compared[name].append(counted[name].comparisons / counted[name].rows)
            scans[name].append(counted[name].work["scanned"])
            seconds[name].append(took[name])
    axis = "input rate of the fast stream (rows/s)"
    title = "One stream 100 times as fast as the other"
    return Result(
        [
            Panel(title, axis, "comparisons per arriving row", rates, compared, y_log=True),
            Panel(title, axis, "rows scanned for matches in 30 s", rates, scans, y_log=True),
            Panel(title, axis, "processing time (s)", rates, seconds, y_log=True),
        ],
        {f"time, {name} to probe time": took[name] / took["probe time"] for name in contenders},
    )


def _more_than_probe_time(result: Result, name: str) -> list[float]:
    """Comparisons that each arriving row costs beyond those of probe time."""
    pairs = zip(line_of(result, name), line_of(result, "probe time"), strict=True)
    return [more - least for more, least in pairs]


E7 = Experiment(
    "K05-E7",
    PAPER,
    "Figure 7: processing cost of four invalidation strategies",
    "Probe and insert time invalidation costs as little as probe time; invalidating all buckets costs far more.",
    FIGURE_7,
    figure_7,
    [
        Check(
            "probe and insert time costs a row at most 2 comparisons more than probe time",
            lambda result: max(_more_than_probe_time(result, "probe and insert time")) <= 2,
        ),
        Check(
            "probing all buckets and `optimal` cost at least 50 and 100 more",
            lambda result: (
                min(_more_than_probe_time(result, "probe all buckets")) >= 50
                and min(_more_than_probe_time(result, "optimal")) >= 100
            ),
        ),
        Check(
            "all four scan the same rows for matches",
            lambda result: len({tuple(line) for line in result.panels[1].lines.values()}) == 1,
        ),
        Check(
            "probe and insert time takes at most 1.5 times as long as probe time",
            lambda result: result.numbers["time, probe and insert time to probe time"] <= 1.5,
            timed=True,
        ),
        Check(
            "both greedy strategies take at least 1.5 times as long as probe time",
            lambda result: (
                min(result.numbers[f"time, {name} to probe time"] for name in ("probe all buckets", "optimal")) >= 1.5
            ),
            timed=True,
        ),
    ],
)


# ---- Figure 8 --------------------------------------------------------------------------------------------------------


SAMPLE_S = 2


def figure_8(trial: ExperimentTrial) -> Result:
    given = trial.settings
    slow, fast, values = given["slow"], given["fast"], given["values"]
    tables = steady({"a": slow, "b": fast}, BATCH_S, values, trial.seed)
    instants = list(range(SAMPLE_S, BATCH_S + 1, SAMPLE_S))
    held: dict[str, list[float]] = {}
    numbers: dict[str, float] = {"live": fast * WINDOW_S}
    arriving = StreamRate("a", slow, WINDOW_S, values, values)
    stored = StreamRate("b", fast, WINDOW_S, values, values)
    for done, strategy in enumerate(INVALIDATIONS):
        trial.tell(done, len(INVALIDATIONS))
        name = STRATEGIES[strategy]
        run = StagedRun(join_sql(whj(values, strategy)), tables)
        held[name] = [held_by(run, instant, "b") for instant in instants]
        # The last 10 s, when buckets that are rarely probed have had their turn too.
        numbers[f"stale, {name}"] = mean(held[name][-5:]) - fast * WINDOW_S
        numbers[f"stale foreseen, {name}"] = stale_in_table(strategy, arriving, stored)
    axis = "time (s)"
    return Result(
        [Panel("The stream 100 times as fast", axis, "rows in all buckets of the probed side", instants, held)], numbers
    )


def held_by(run: StagedRun, instant_s: int, alias: str) -> int:
    run.until(instant_s * SECOND_US)
    return run.held()[alias]


THRIFTY = ("probe and insert time", "probe all buckets", "optimal")


def _after(result: Result, name: str, second: int) -> list[float]:
    return [held for instant, held in points(result, name) if instant > second]


def _steady_after_a_window(result: Result) -> bool:
    return all(is_level(_after(result, name, WINDOW_S), 0.02) for name in THRIFTY)


def _probe_time_holds_more(result: Result) -> bool:
    most = max(mean(_after(result, name, 40)) for name in THRIFTY)
    return mean(_after(result, "probe time", 40)) >= 1.1 * most


def _alike(result: Result) -> bool:
    return is_level([mean(_after(result, name, WINDOW_S)) for name in THRIFTY], 0.02)


def _stale_as_foreseen(result: Result) -> bool:
    """`optimal` is held to one row in the model; sampled between arrivals it may be none."""
    return near(result.numbers["stale, probe time"], result.numbers["stale foreseen, probe time"], 0.25) and all(
        abs(result.numbers[f"stale, {name}"] - result.numbers[f"stale foreseen, {name}"])
        <= 0.002 * result.numbers["live"]
        for name in THRIFTY
    )


E8 = Experiment(
    "K05-E8",
    PAPER,
    "Figure 8: rows held under four invalidation strategies",
    "Steady after 30 s; probe time alone holds more, the other three about the same: probe and insert time is best.",
    FIGURE_8,
    figure_8,
    [
        Check("from 30 s on, three strategies hold the same number of rows within 2 %", _steady_after_a_window),
        Check("these three differ by less than 2 % from each other", _alike),
        Check("probe time alone holds at least a tenth more", _probe_time_holds_more),
        Check("stale rows are as many as Section 3 foresees, read as rows per bucket", _stale_as_foreseen),
        Check(
            "with probe time alone, too, rows held are steady from 40 s on, within 5 %",
            lambda result: is_level(_after(result, "probe time", 40), 0.05),
            essential=False,
            why="a bucket is cleaned when it is probed, every N/λ_A seconds on average, and some of these have to pass "
            "after the first row has expired",
        ),
    ],
)


EXPERIMENTS: tuple[Experiment, ...] = (E4, E5, E6, E7, E8)
