"""Figures 10, 11, 14 and 15: how long after the fact each approach answers."""

from __future__ import annotations

from dataclasses import replace
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
    WORKLOAD,
    Settings,
    factors,
    gap,
    numbers_of,
    panels_of,
    replays,
    responds_last,
    shop,
    sooner,
    values,
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


BY_PROCESSING = (
    "time goes on only with rows, so TPA and NTA notice with the same one and wait the same, by construction: what "
    "sets them apart is processing alone, a fraction of a millisecond"
)

FIGURE_10_CHECKS = (
    Check(
        "ITA has the longest response times in all queries, in the mean and at most",
        responds_last,
        words="In all queries, ITA incurs significant delays",
    ),
    Check(
        "by an order of magnitude: ten times TPA's in the mean over all queries",
        lambda result: fmean(factors(result, ITA, TPA)) >= 10,
        degree=True,
        words="more than an order of magnitude reduction in output response time when compared to the Input Triggered "
        "Approach",
        why=SCAN_WAITS,
    ),
    Check(
        "with a single window (Q1 to Q4) TPA answers before NTA",
        lambda result: sooner(result, TPA, NTA, slice(len(SINGLE_WINDOW))),
        words="TPA provides the smallest output response time, followed by NTA",
        timed=True,
        note=BY_PROCESSING,
    ),
    Check(
        "with two windows (Q5) NTA answers before TPA",
        lambda result: sooner(result, NTA, TPA, [-1]),
        words="which uses multiple windows, NTA has the smallest output response time",
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


CONVERGE = Check(
    "the approaches converge: from the lowest to the highest the gap between ITA and TPA halves, or more",
    lambda result: gap(result, -1) <= gap(result, 0) / 2,
    words="The performance of all approaches converges",
)
FIGURE_11_CHECKS = (
    Check(
        "ITA has the longest response times at all rates, in the mean and at most",
        responds_last,
        words="ITA still provides a higher output response time compared to the other approaches",
    ),
    replace(CONVERGE, words="The performance of all approaches converges as we increase input arrival rates."),
    Check(
        "TPA answers before NTA at all rates",
        lambda result: sooner(result, TPA, NTA),
        words="TPA has better performance followed by NTA and then ITA.",
        timed=True,
        note=BY_PROCESSING,
    ),
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
    words="NTA has the best performance, followed by TPA, and then ITA.",
    why=TURNS_COST,
    timed=True,
)
FIGURE_14_CHECKS = (
    NTA_ANSWERS_FIRST,
    Check(
        "ITA has the longest response times at all rates, in the mean and at most",
        responds_last,
        words="ITA has the highest response time since the buffers (in the join and the MAX operators) increase",
    ),
    Check(
        "all response times are longer at the highest rate than at the lowest",
        lambda result: all(values(result, line, AVERAGE)[-1] > values(result, line)[0] for line in (ITA, TPA, NTA)),
        words="For high input rate, the performance degrades in all approaches.",
        why=FASTER_IS_SOONER,
    ),
    Check(
        "NTA and TPA have the same maximum, within a tenth",
        lambda result: all(0.9 <= factor <= 1.1 for factor in factors(result, NTA, TPA, LONGEST)),
        elsewhere="it holds by construction, as the two notice with the same row",
    ),
)
FIGURE_15_CHECKS = (
    NTA_ANSWERS_FIRST,
    Check(
        "ITA has the longest response times at all selectivities, in the mean and at most",
        responds_last,
        words="NTA has the best performance, followed by TPA, and then ITA.",
    ),
    replace(
        CONVERGE,
        words="The performance converges for all approaches (similar to the single-window case) as we increase "
        "selectivity",
    ),
    Check(
        "response times rise at the highest selectivity, of all",
        lambda result: all(values(result, line)[-1] > values(result, line)[-2] for line in (ITA, TPA, NTA)),
        words="the output response times increase in all approaches for high selectivity",
        why=FASTER_IS_SOONER,
    ),
    Check(
        "the processing of all rises at the highest selectivity",
        lambda result: all(
            values(result, line, PROCESSING)[-1] > values(result, line, PROCESSING)[-2] for line in PIPELINES
        ),
        elsewhere="by processing alone; the paper plots response times",
        timed=True,
    ),
)


def _in_ms(result: Result, line: str) -> str:
    lowest, highest = sorted(value * 1000 for value in (min(values(result, line)), max(values(result, line))))
    return f"{line} {lowest:.0f} to {highest:.0f}"


def _found(result: Result) -> str:
    """Mean response times, and what NTA's are to TPA's."""
    lead = [1 - factor for factor in factors(result, NTA, TPA)]
    return (
        f"mean ms: {', '.join(_in_ms(result, line) for line in (ITA, TPA, NTA))}; NTA "
        f"{'before' if min(lead) > 0 else 'after'} TPA by {min(map(abs, lead)):.1%} to {max(map(abs, lead)):.1%}"
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "H04-E10",
        PAPER,
        "Figure 10: response times of the five queries",
        "In all queries, ITA incurs significant delays (0.85 seconds on average and 4.8 seconds maximum).",
        FIGURE_10,
        run_all_queries,
        FIGURE_10_CHECKS,
        found=_found,
    ),
    Experiment(
        "H04-E11",
        PAPER,
        "Figure 11: response times of Q3 by input rate",
        "TPA has better performance followed by NTA and then ITA.",
        FIGURE_11,
        lambda trial: run_rates(trial, "Q3"),
        FIGURE_11_CHECKS,
        found=_found,
    ),
    Experiment(
        "H04-E14",
        PAPER,
        "Figure 14: response times of Q5 by input rate",
        "NTA has the best performance, followed by TPA, and then ITA.",
        FIGURE_14,
        lambda trial: run_rates(trial, "Q5"),
        FIGURE_14_CHECKS,
        found=_found,
    ),
    Experiment(
        "H04-E15",
        PAPER,
        "Figure 15: response times of Q5 by join selectivity",
        "NTA has the best performance, followed by TPA, and then ITA.",
        FIGURE_15,
        run_join_selectivities,
        FIGURE_15_CHECKS,
        found=_found,
    ),
)
