"""Figure 9: more streams, and one that is now slow and now fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.h02.sales import DATA, RECONSTRUCTED, SALES, TIME_ORDER, sales_of, sold_in_all
from watersmeet.lab.papers.h02.serving import (
    COMPARISONS,
    COUNTED,
    GENERATED,
    HW,
    MW,
    NLW,
    NUMBERS,
    PAPER,
    REPEATS,
    SECONDS,
    TIME,
    Settings,
    below,
    compare,
    ends,
    fastest,
    hashed_best,
    in_turns,
    join_sql,
    ratios,
    values,
)
from watersmeet.lab.papers.h02.serving import RECONSTRUCTED as OF_NUMBERS
from watersmeet.lab.papers.running import session_of
from watersmeet.lab.papers.spread import spread_panel
from watersmeet.lab.workloads.poisson import poisson
from watersmeet.session import Session

FASTEST, SLOWEST = 1000, 100
FIGURE_9A: Settings = {
    scale: {
        **NUMBERS,
        "seconds": seconds,
        "ways": (2, 3, 4, 5, 6),
        "rates": (FASTEST, SLOWEST),
        "backlog_seconds": 8,
        "repeats": REPEATS[scale],
    }
    for scale, seconds in SECONDS.items()
}
SLOW_AND_FAST = [(10, 100), (1000, 100)]  # 100 rows at 10 a second, then 100 at 1000
FIGURE_9C: Settings = {
    scale: {
        **NUMBERS,
        "seconds": seconds,
        "rates": {"all at 1000/s": (1000, 1000, 1000, 1000), "D at 10 or 1000/s": (1000, 1000, 1000, SLOW_AND_FAST)},
        "repeats": REPEATS[scale],
    }
    for scale, seconds in SECONDS.items()
}
# Items that are rare, and such as are frequent: the paper does not say which its sales were. Then how the factor
# between NLW and MW follows from their number, for several seeds. Smaller runs have fewer sales of fewer items.
OF_SALES = {**SALES, "described": False, "ways": (2, 3, 4, 5, 6)}
FIGURE_9B: Settings = {
    "small": {
        **OF_SALES,
        "per_hour": 1500,
        "days": 1,
        "items": (30_000, 3_000),
        "swept": (1_000, 3_000, 10_000, 30_000),
        "seeds": 3,
        "repeats": 1,
    },
    "paper": {
        **OF_SALES,
        "days": 3,
        "items": (100_000, 10_000),
        "swept": (5_000, 10_000, 20_000, 50_000, 100_000),
        "seeds": 5,
        "repeats": 3,
    },
    "10x": {
        **OF_SALES,
        "days": 35,
        "items": (100_000, 10_000),
        "swept": (10_000, 100_000),
        "seeds": 3,
        "repeats": 1,
    },
}


# ---- (a) rates that differ ------------------------------------------------------------------------------------------


def spread_rates(trial: ExperimentTrial, ways: int, seconds: float) -> Session:
    """Streams s0, s1 and so on with constant rates from the fastest to the slowest."""
    fastest, slowest = trial.settings["rates"]
    rates = {f"s{i}": float(rate) for i, rate in enumerate(np.linspace(fastest, slowest, ways))}
    return session_of(poisson(rates, seconds=seconds, keys=trial.settings["keys"], seed=trial.seed))


def run_variable_rates(trial: ExperimentTrial) -> Result:
    def sql(ways: int, options: str) -> str:
        return join_sql([f"s{i}" for i in range(ways)], "k", f"WINDOW = {trial.settings['window']}", options)

    sessions = {ways: spread_rates(trial, ways, trial.settings["seconds"]) for ways in trial.settings["ways"]}
    found = compare(trial, (NLW, MW, HW), sessions, sql)
    numbers = found.speeds
    for ways in sessions:
        backlog = spread_rates(trial, ways, trial.settings["backlog_seconds"])
        numbers[f"NLW / MW, read in turns, {ways}"] = in_turns(backlog, sql(ways, "join = 'nlw'"))[0]
    return Result(found.panels("streams"), numbers)


FIGURE_9A_CHECKS = (
    Check(
        "HW has the shortest service time with any number of streams, give or take a tenth",
        lambda result: fastest(result, HW, (NLW, MW)),
        words="HW-join is more scalable and achieves the best performance",
        timed=True,
        note="with 2 streams HW and MW are as good as equal: windows hold some hundred rows, and what every arrival "
        "costs anyway is most of it",
    ),
    Check(
        "MW has a shorter service time than NLW with any number",
        lambda result: below(result, MW, NLW, TIME),
        words="For variable rate data streams, the MW-join is more than an order of magnitude better than NLW-join",
        timed=True,
    ),
    Check(
        "MW is more than 10 times as fast as NLW",
        lambda result: min(ratios(result, NLW, MW, TIME)) > 10,
        degree=True,
        words="more than an order of magnitude better",
        why=TIME_ORDER,
        timed=True,
    ),
    Check(
        "the factor between MW and NLW is kept as streams are added: from 2 to the most it does not fall by a fifth",
        lambda result: ratios(result, NLW, MW, TIME)[-1] >= 0.8 * ratios(result, NLW, MW, TIME)[0],
        words="this relative performance is maintained even as we increase the number of streams",
        timed=True,
    ),
    Check("HW makes the fewest comparisons with any number of streams", hashed_best, elsewhere=COUNTED),
    Check(
        "MW makes fewer comparisons than NLW with any number",
        lambda result: below(result, MW, NLW),
        elsewhere=COUNTED,
    ),
    Check(
        "the factor between them in comparisons is kept as streams are added",
        lambda result: ratios(result, NLW, MW)[-1] >= 0.8 * ratios(result, NLW, MW)[0],
        elsewhere=COUNTED,
    ),
)


# ---- (b) rates that are alike ---------------------------------------------------------------------------------------


def run_comparable_rates(trial: ExperimentTrial) -> Result:
    """All panels for each number of items, those of rare items first; then the factor over numbers of items."""
    panels: list[Panel] = []
    numbers: dict[str, float] = {}
    sql = sold_in_all(trial.settings["window"])
    for items in trial.settings["items"]:
        one = replace(trial, settings={**trial.settings, "items": items})
        found = compare(one, (NLW, MW, HW), sales_of(one), sql)
        panels += found.panels("streams", f", {items:,} items")
        numbers |= {f"{name}, {items} items": value for name, value in found.speeds.items()}
    swept = sweep_of_items(trial)
    return Result([*panels, swept], {**numbers, **first_that_converges(swept)})


def sweep_of_items(trial: ExperimentTrial) -> Panel:
    """By how much the factor between NLW and MW falls from the fewest to the most streams, by how rare items are."""
    ends = (min(trial.settings["ways"]), max(trial.settings["ways"]))
    samples: list[list[float]] = []
    for items in trial.settings["swept"]:
        fallen = []
        for seed in trial.seeds(trial.settings["seeds"]):
            one = replace(trial, settings={**trial.settings, "items": items, "ways": ends}, seed=seed)
            found = compare(one, (NLW, MW), sales_of(one), sold_in_all(trial.settings["window"]), repeats=1).served
            few, many = (found[n, NLW].mean_comparisons / found[n, MW].mean_comparisons for n in ends)
            fallen.append(many / few)
        samples.append(fallen)
    return spread_panel(
        "How much closer NLW and MW come, by how rare items are",
        "items",
        f"NLW / MW in comparisons, with {ends[1]} streams to with {ends[0]}",
        list(trial.settings["swept"]),
        {FALLEN: samples},
        x_log=True,
        spread=f"the least and the most of {trial.settings['seeds']} seeds",
    )


FALLEN = f"factor with most streams / with 2, {NLW} to {MW}"
FALLS = 0.75  # by a quarter or more they have converged


def first_that_converges(swept: Panel) -> dict[str, float]:
    """The fewest items from which on the highest of all seeds is below the mark."""
    good = [
        items for items, most in zip(swept.x, swept.high[FALLEN], strict=True) if most is not None and most <= FALLS
    ]
    return {"items from which on all seeds converge": float(min(good))} if good else {}


def converge(result: Result, panel: int) -> bool:
    """Whether the factor between NLW and MW has fallen by a quarter or more from the fewest to the most streams."""
    factors = ratios(result, NLW, MW, panel)
    return factors[-1] <= FALLS * factors[0]


AT_FREQUENT = COMPARISONS + 3  # the panels
TIME_AT_FREQUENT = TIME + 3
SWEPT = AT_FREQUENT + 3
OF_SALES_BEFORE = "with as many items as Figures 7 and 8 are run with"
FREQUENT = (
    "where most items have partners in every window, NLW holds ever more partial combinations as streams are added, "
    "and scans them as MW scans its buffers; which of the two cases the paper's sales were is not known, so the last "
    "panel has the factor over the number of items"
)
FIGURE_9B_CHECKS = (
    Check(
        "HW has the shortest service time with any number of streams, give or take a tenth",
        lambda result: fastest(result, HW, (NLW, MW), TIME_AT_FREQUENT),
        words="HW-join is more scalable and achieves the best performance",
        timed=True,
        note=OF_SALES_BEFORE,
    ),
    Check(
        "NLW and MW come closer as streams are added: from 2 to 6 the factor falls by a quarter or more",
        lambda result: converge(result, TIME_AT_FREQUENT),
        words="the performance of the NLW-join and the MW-join converges to each other",
        timed=True,
        note=OF_SALES_BEFORE,
    ),
    Check(
        "to each other: with 6 streams they are within a fifth",
        lambda result: ratios(result, NLW, MW, TIME_AT_FREQUENT)[-1] <= 1.2,
        degree=True,
        words="converges to each other",
        timed=True,
        why=FREQUENT,
        note=OF_SALES_BEFORE,
    ),
    Check(
        "HW makes the fewest comparisons with any number of streams",
        lambda result: hashed_best(result) and hashed_best(result, AT_FREQUENT),
        elsewhere=COUNTED,
    ),
    Check(
        "NLW and MW converge by comparisons with as many items as Figures 7 and 8 have",
        lambda result: converge(result, AT_FREQUENT),
        elsewhere=COUNTED,
        why=FREQUENT,
    ),
    Check(
        "NLW and MW converge by comparisons where items are rare",
        lambda result: converge(result, COMPARISONS),
        elsewhere="with ten times as many items, by comparisons; how rare the items of the paper's sales were is not "
        "known",
    ),
    Check(
        "the rarer items are the more they converge, for every seed where they are rarest",
        lambda result: _falls(result),
        elsewhere="over numbers of items, by comparisons, with several seeds",
    ),
)


def _falls(result: Result) -> bool:
    panel = result.panels[SWEPT]
    medians = [one for one in panel.lines[FALLEN] if one is not None]
    most = panel.high[FALLEN][-1] if panel.high else median(medians)
    return medians == sorted(medians, reverse=True) and most is not None and most <= FALLS


# ---- (c) a stream that is now slow and now fast ---------------------------------------------------------------------


def four_streams(trial: ExperimentTrial, lines: Sequence[str], windows: str) -> Result:
    """Streams a to d, for each of the settings' rates."""
    wanted = trial.settings
    sessions = {
        case: session_of(
            poisson(
                dict(zip("abcd", rates, strict=True)), seconds=wanted["seconds"], keys=wanted["keys"], seed=trial.seed
            )
        )
        for case, rates in wanted["rates"].items()
    }
    found = compare(trial, lines, sessions, lambda _, options: join_sql("abcd", "k", windows, options))
    return Result(found.panels(""), found.speeds)


def after_to_before(result: Result, line: str, panel: int = COMPARISONS) -> float:
    """What the second case costs, to the first."""
    first, second = values(result, line, panel)
    return second / first


FIGURE_9C_CHECKS = (
    Check(
        "MW has a shorter service time where D is now slow, now fast",
        lambda result: after_to_before(result, MW, TIME) < 1,
        words="MW-join reacts rapidly to changes in the stream rates and its performance is greatly improved",
        timed=True,
    ),
    Check(
        "greatly: less than half of it",
        lambda result: after_to_before(result, MW, TIME) < 0.5,
        degree=True,
        words="its performance is greatly improved",
        why="what every arrival costs anyway is the same in both",
        timed=True,
    ),
    Check(
        "the service times of NLW and HW change by less than a fifth",
        lambda result: all(0.8 < after_to_before(result, line, TIME) < 1.2 for line in (NLW, HW)),
        words="The performance for the algorithms NLW-join and HW-join are not changed significantly.",
        timed=True,
    ),
    Check(
        "MW makes less than half the comparisons",
        lambda result: after_to_before(result, MW) < 0.5,
        elsewhere=COUNTED,
    ),
    Check(
        "the comparisons of NLW and HW change by less than a third",
        lambda result: all(2 / 3 < after_to_before(result, line) < 4 / 3 for line in (NLW, HW)),
        elsewhere=COUNTED,
    ),
)

E9A = Experiment(
    "H02-E9a",
    PAPER,
    "Figure 9(a)",
    "For variable rate data streams, the MW-join is more than an order of magnitude better than NLW-join and this "
    "relative performance is maintained even as we increase the number of streams.",
    FIGURE_9A,
    run_variable_rates,
    FIGURE_9A_CHECKS,
    data=GENERATED,
    reconstructed={
        **OF_NUMBERS,
        "rates": "`variable rates between 1000 and 100`: constant rates, spread evenly between them",
        "backlog_seconds": "no setting of the paper: how much is read in turns for the numbers beside the figure",
    },
    plot=TIME,
    found=lambda result: (
        f"MW is {ends(ratios(result, NLW, MW, TIME))} times as fast as NLW, HW {ends(ratios(result, NLW, HW, TIME))} "
        f"times"
    ),
)
E9B = Experiment(
    "H02-E9b",
    PAPER,
    "Figure 9(b)",
    "When we consider data streams with comparable data rates (Figures 9(b)), the performance of the NLW-join and the "
    "MW-join converges to each other.",
    FIGURE_9B,
    run_comparable_rates,
    FIGURE_9B_CHECKS,
    data=DATA,
    reconstructed={
        **RECONSTRUCTED,
        "items": "how often items recur is not said: rare ones beside those of Figures 7 and 8",
        "days": "the length of a run is not said; three days",
    },
    plot=TIME_AT_FREQUENT,
    found=lambda result: (
        "MW is {:.1f} times as fast as NLW with 2 streams, {:.1f} with 6; in comparisons {:.1f} and {:.1f}".format(
            *(ratios(result, NLW, MW, panel)[place] for panel in (TIME_AT_FREQUENT, AT_FREQUENT) for place in (0, -1))
        )
    ),
)
E9C = Experiment(
    "H02-E9c",
    PAPER,
    "Figure 9(c)",
    "MW-join reacts rapidly to changes in the stream rates and its performance is greatly improved.",
    FIGURE_9C,
    lambda trial: four_streams(trial, (NLW, MW, HW), f"WINDOW = {trial.settings['window']}"),
    FIGURE_9C_CHECKS,
    data=GENERATED,
    reconstructed=OF_NUMBERS,
    plot=TIME,
    found=lambda result: "service times change to {:.0%} (MW), {:.0%} (NLW), {:.0%} (HW)".format(
        *(after_to_before(result, line, TIME) for line in (MW, NLW, HW))
    ),
)
