"""Figures 10, 11, 14 and 15: how long after the fact each approach answers."""

from __future__ import annotations

from statistics import fmean

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.h04.workload import (
    AVERAGE,
    ITA,
    LONGEST,
    NTA,
    PAPER,
    PIPELINES,
    PROCESSING,
    QUERIES,
    SINGLE_WINDOW,
    SIZES,
    TPA,
    WAITING,
    WORKLOAD,
    Settings,
    factors,
    gap,
    numbers_of,
    panels_of,
    replays,
    shop,
    sooner,
    values,
    waits_longest,
)

FIGURE_10: Settings = {scale: {**WORKLOAD, **size} for scale, size in SIZES.items()}
FIGURE_11: Settings = {scale: {**WORKLOAD, "rates": (5, 10, 20, 40), **size} for scale, size in SIZES.items()}
FIGURE_11["small"] = {**FIGURE_11["small"], "rates": (5, 40), "seconds": 30, "window": 10}
FIGURE_14: Settings = {
    scale: {**WORKLOAD, "rates": (10, 20, 30, 40), "join_q5": 0.2, **size} for scale, size in SIZES.items()
}
FIGURE_14["small"] = {**FIGURE_14["small"], "rates": (10, 40)}
FIGURE_15: Settings = {
    scale: {**WORKLOAD, "selectivities": (0.1, 0.2, 0.4, 0.8), **size} for scale, size in SIZES.items()
}
FIGURE_15["small"] = {**FIGURE_15["small"], "selectivities": (0.1, 0.8)}
SCAN_WAITS = (
    "TPA and NTA also wait here, for the next row of any kind, so that the factor is about one over the share of rows "
    "that get through"
)
TURNS_COST = (
    "a turn of an operator costs the same however little it does, and negative tuples take more turns; the scan that "
    "made TPA slow in the paper looks at some thousand tuples in a microsecond, so that it shows only with windows of "
    "very many rows (H04-E16)"
)
FASTER_IS_SOONER = (
    "more rows mean shorter waits for the next one; and processing, which grew in the paper, is a small part of the "
    "response here"
)


def run_all_queries(trial: ExperimentTrial) -> Result:
    cases = {query: (shop(query, trial.settings, trial.seed), query, trial.settings) for query in QUERIES}
    found = replays(trial, cases)
    return Result(panels_of(found, "query"), numbers_of(found))


FIGURE_10_CHECKS = (
    Check("ITA has the longest waits in all queries, in the mean and at most", waits_longest),
    Check("ITA's delays are significant: twice TPA's or more", lambda r: min(factors(r, ITA, TPA, WAITING)) >= 2),
    Check(
        "with a single window (Q1 to Q4) TPA answers before NTA",
        lambda result: sooner(result, TPA, NTA, slice(len(SINGLE_WINDOW))),
        timed=True,
    ),
    Check(
        "ITA's response times are an order of magnitude longer, over all queries",
        lambda result: fmean(factors(result, ITA, TPA)) >= 10,
        degree=True,
        why=SCAN_WAITS,
        timed=True,
    ),
    Check(
        "with two windows (Q5) NTA answers before TPA",
        lambda result: sooner(result, NTA, TPA, [-1]),
        degree=True,
        why=TURNS_COST,
        timed=True,
    ),
)


def run_rates(trial: ExperimentTrial, query: str) -> Result:
    cases = {}
    for rate in trial.settings["rates"]:
        settings = {**trial.settings, "rate": rate}
        cases[rate] = (shop(query, settings, trial.seed), query, settings)
    found = replays(trial, cases)
    return Result(panels_of(found, "input rate, tuples a second"), numbers_of(found))


FIGURE_11_CHECKS = (
    Check("ITA has the longest waits at all rates", waits_longest),
    Check(
        "the approaches converge as the rate rises: from the lowest to the highest the gap halves, or more",
        lambda result: gap(result, -1) <= gap(result, 0) / 2,
    ),
    Check("TPA answers before NTA at all rates", lambda result: sooner(result, TPA, NTA), timed=True),
)


def run_join_selectivities(trial: ExperimentTrial) -> Result:
    cases = {}
    for share in trial.settings["selectivities"]:
        settings = {**trial.settings, "join_q5": share}
        cases[share] = (shop("Q5", settings, trial.seed), "Q5", settings)
    found = replays(trial, cases)
    return Result(panels_of(found, "join selectivity"), numbers_of(found))


NTA_ANSWERS_FIRST = Check(
    "NTA answers before TPA throughout",
    lambda result: sooner(result, NTA, TPA),
    why=TURNS_COST,
    timed=True,
)
FIGURE_14_CHECKS = (
    Check("ITA has the longest waits at all rates", waits_longest),
    Check(
        "NTA and TPA have the same maximum, within a tenth",
        lambda result: all(0.9 <= factor <= 1.1 for factor in factors(result, NTA, TPA, LONGEST)),
    ),
    NTA_ANSWERS_FIRST,
    Check(
        "all response times rise with the rate",
        lambda result: all(values(result, line, AVERAGE)[-1] > values(result, line)[0] for line in PIPELINES),
        degree=True,
        why=FASTER_IS_SOONER,
        timed=True,
    ),
)
FIGURE_15_CHECKS = (
    Check("ITA has the longest waits at all selectivities", waits_longest),
    Check(
        "the approaches converge as the selectivity rises: the gap halves, or more",
        lambda result: gap(result, -1) <= gap(result, 0) / 2,
    ),
    NTA_ANSWERS_FIRST,
    Check(
        "the processing of all rises at the highest selectivity",
        lambda result: all(
            values(result, line, PROCESSING)[-1] > values(result, line, PROCESSING)[-2] for line in PIPELINES
        ),
        degree=True,
        why=FASTER_IS_SOONER,
        timed=True,
    ),
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "H04-E10",
        PAPER,
        "Figure 10: response times of the five queries",
        "At 20 tuples a second ITA answers late in all five queries; TPA is best with one window, NTA with two.",
        FIGURE_10,
        run_all_queries,
        FIGURE_10_CHECKS,
    ),
    Experiment(
        "H04-E11",
        PAPER,
        "Figure 11: response times of Q3 by input rate",
        "A join and a GROUP BY (Q3), 5 to 40 tuples a second: TPA, then NTA, then ITA, converging as the rate rises.",
        FIGURE_11,
        lambda trial: run_rates(trial, "Q3"),
        FIGURE_11_CHECKS,
    ),
    Experiment(
        "H04-E14",
        PAPER,
        "Figure 14: response times of Q5 by input rate",
        "Two windows (Q5), 10 to 40 tuples a second: NTA answers first, then TPA, then ITA; NTA and TPA have the same "
        "maximum.",
        FIGURE_14,
        lambda trial: run_rates(trial, "Q5"),
        FIGURE_14_CHECKS,
    ),
    Experiment(
        "H04-E15",
        PAPER,
        "Figure 15: response times of Q5 by join selectivity",
        "Two windows (Q5), join selectivity 0.1 to 0.8: NTA answers first, then TPA, then ITA, converging.",
        FIGURE_15,
        run_join_selectivities,
        FIGURE_15_CHECKS,
    ),
)
