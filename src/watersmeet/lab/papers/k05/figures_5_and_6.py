"""Figures 5 and 6: the hash join by number of buckets, and by selectivity."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.k05.windowed_join import GENERATED, PAPER, UNKNOWN_RATES, Settings, timed_and_counted, whj
from watersmeet.lab.papers.measuring import SpreadLines
from watersmeet.lab.papers.shapes import is_falling, is_level, line_of, points

FIGURE_5: Settings = {
    "small": {"rate": 200, "values": 100, "buckets": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), "repeats": 3},
    "paper": {"rate": 1000, "values": 100, "buckets": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), "repeats": 3},
    "10x": {"rate": 10_000, "values": 1000, "buckets": (10, 50, 100, 500, 1000, 2000, 10_000), "repeats": 1},
}
BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
MORE_BUCKETS = (10, 50, 100, 200, 1000, 2000, 10_000, 20_000)
FIGURE_6: Settings = {
    "small": {"rate": 100, "values": (10, 100, 1000), "buckets": BUCKETS, "repeats": 3},
    "paper": {"rate": 300, "values": (10, 100, 1000), "buckets": BUCKETS, "repeats": 3},
    "10x": {"rate": 5000, "values": (100, 1000, 10_000), "buckets": MORE_BUCKETS, "repeats": 1},
}


def figure_5(trial: ExperimentTrial) -> Result:
    given = trial.settings
    rate, values = given["rate"], given["values"]
    contenders = {str(buckets): whj(buckets) for buckets in given["buckets"]}
    took, counted = timed_and_counted(contenders, (rate, rate), values, trial.seed, given["repeats"])
    scans = [counted[name].work["scanned"] for name in contenders]
    seconds = SpreadLines()
    for name in contenders:
        seconds.add({"WHJ": took[name]})
    x, axis = given["buckets"], "number of hash buckets"
    title = f"Selectivity {1 / values:g}"
    return Result(
        [
            Panel(title, axis, "rows scanned in 30 s", x, {"WHJ": scans}, x_log=True, y_log=True),
            seconds.panel(title, axis, "processing time (s)", x, x_log=True, y_log=True),
        ],
        {
            "values": values,
            "flat_from": flat_from(x, scans),
            "time_ratio": took[str(x[0])].median / took[str(values)].median,
        },
    )


def flat_from(buckets: Sequence[int], scans: Sequence[float]) -> float:
    """The smallest number of buckets from which on more of them change less than a tenth."""
    return next(one for place, one in enumerate(buckets) if is_level(scans[place:], 0.1))


def _inversely_proportional(result: Result) -> bool:
    products = [buckets * scans for buckets, scans in points(result, "WHJ") if buckets <= result.numbers["values"]]
    return len(products) > 2 and is_level(products, 0.1)


def _gain_beyond_values(result: Result) -> float:
    """How much less time than with a bucket for each value the best number of more buckets takes."""
    flat = [seconds for buckets, seconds in points(result, "WHJ", 1) if buckets >= result.numbers["values"]]
    return 1 - min(flat) / flat[0]


def _time_falls(result: Result) -> bool:
    """Tenfold: from 1 bucket to 10, and on to one for each value."""
    found = dict(points(result, "WHJ", 1))
    steps = [buckets for buckets in found if buckets in (1, 10, 100, 1000) and buckets <= result.numbers["values"]]
    return is_falling([found[buckets] for buckets in steps])


def _time_is_inverse(result: Result) -> bool:
    products = [
        buckets * seconds for buckets, seconds in points(result, "WHJ", 1) if buckets <= result.numbers["values"]
    ]
    return len(products) > 2 and is_level(products, 1 / 3)


COUNTED = "by rows scanned; the paper plots time"

E5 = Experiment(
    "K05-E5",
    PAPER,
    "Figure 5: the windowed hash join by number of buckets",
    "the total processing time is inversely proportional to number of buckets (everything else held constant)",
    FIGURE_5,
    figure_5,
    [
        Check(
            "processing time falls from 1 bucket to 10, and from 10 to as many as values",
            _time_falls,
            words="the total processing time is inversely proportional to number of buckets",
            timed=True,
        ),
        Check(
            "more buckets than values save no time: less than a fifth",
            lambda result: _gain_beyond_values(result) < 0.2,
            words="when the number of buckets is greater than the number of distinct values of the join attributes, "
            "there is no longer any advantage to increasing the number of buckets",
            timed=True,
        ),
        Check(
            "processing time is inversely proportional to the buckets, up to as many as values, within a third",
            _time_is_inverse,
            degree=True,
            words="the total processing time is inversely proportional to number of buckets",
            timed=True,
            why="our loops compare about four rows in a nanosecond: what every arrival and every result costs, "
            "whatever the buckets, soon is the larger part of the time",
        ),
        Check(
            "rows scanned are inversely proportional to the buckets, up to as many as values",
            _inversely_proportional,
            elsewhere=COUNTED,
        ),
        Check(
            "and flat from there on",
            lambda result: result.numbers["flat_from"] == result.numbers["values"],
            elsewhere=COUNTED,
        ),
    ],
    data=GENERATED,
    reconstructed={"rate": UNKNOWN_RATES, "buckets": "the points of the axis are not legible"},
    plot=1,
    found=lambda result: (
        f"with a bucket for each value {result.numbers['time_ratio']:.0f} times as fast as with one, "
        f"scans {line_of(result, 'WHJ')[0] / min(line_of(result, 'WHJ')):.0f} times fewer; flat from there on"
    ),
)


def figure_6(trial: ExperimentTrial) -> Result:
    given = trial.settings
    rate, x = given["rate"], given["buckets"]
    scans: dict[str, list[float]] = {}
    seconds = SpreadLines()
    numbers: dict[str, float] = {}
    for done, values in enumerate(given["values"]):
        trial.tell(done, len(given["values"]))
        contenders = {str(buckets): whj(buckets) for buckets in x}
        took, counted = timed_and_counted(contenders, (rate, rate), values, trial.seed, given["repeats"])
        name = f"selectivity {1 / values:g}"
        scans[name] = [counted[one].work["scanned"] for one in contenders]
        for one in contenders:
            seconds.add({name: took[one]})
        numbers[f"values, {name}"] = values
        numbers[f"flat_from, {name}"] = flat_from(x, scans[name])
    axis = "number of hash buckets"
    return Result(
        [
            Panel("WHJ by selectivity", axis, "rows scanned in 30 s", x, scans, x_log=True, y_log=True),
            seconds.panel("WHJ by selectivity", axis, "processing time (s)", x, x_log=True, y_log=True),
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


def _times(result: Result, name: str) -> tuple[dict[float, float], list[float]]:
    """With fewer buckets than values, by their number; and with as many or more."""
    found, values = points(result, name, 1), result.numbers[f"values, {name}"]
    return {x: y for x, y in found if x < values}, [y for x, y in found if x >= values]


def _by_selectivity(result: Result) -> list[tuple[dict[float, float], list[float]]]:
    return [_times(result, name) for name in result.panels[1].lines]


def _no_gain_beyond_values(result: Result) -> bool:
    return all(min(flat) >= 0.75 * flat[0] for _, flat in _by_selectivity(result))


def _time_falls_up_to_values(result: Result) -> bool:
    """One bucket takes twice as long as one for each value; a tenth of those, 1.2 times, where there are so many."""
    for name in result.panels[1].lines:
        falling, flat = _times(result, name)
        a_tenth = falling[result.numbers[f"values, {name}"] / 10]
        if falling[min(falling)] < 2 * median(flat) or a_tenth < 1.2 * median(flat):
            return False
    return True


def _time_is_flat_only_from_there(result: Result) -> bool:
    """With half as many buckets as values, or the next fewer, it takes at least 1.25 times as long."""
    return all(falling[max(falling)] >= 1.25 * median(flat) for falling, flat in _by_selectivity(result))


E6 = Experiment(
    "K05-E6",
    PAPER,
    "Figure 6: the windowed hash join by number of buckets and selectivity",
    "flattening occurs approximately when the number of buckets equals the number of distinct hash values",
    FIGURE_6,
    figure_6,
    [
        Check(
            "processing time gains nothing by more buckets than join values, for each selectivity: less than a quarter",
            _no_gain_beyond_values,
            words="flattening occurs approximately when the number of buckets equals the number of distinct hash "
            "values",
            timed=True,
        ),
        Check(
            "it falls until then: for each selectivity one bucket takes at least twice as long, a tenth of as many as "
            "values at least 1.2 times",
            _time_falls_up_to_values,
            words="Figure 6 depicts total processing time of the windowed hash join for different values of "
            "selectivity and number of hash buckets",
            timed=True,
        ),
        Check(
            "and not before: with the next fewer buckets it takes at least 1.25 times as long, for each selectivity",
            _time_is_flat_only_from_there,
            degree=True,
            words="approximately when the number of buckets equals the number of distinct hash values",
            timed=True,
            why="with many values a bucket is short long before each value has its own: a scan of 60 rows and one of "
            "30 both take less time than the arrival itself",
        ),
        Check(
            "scans are flat exactly from as many buckets as join values on, for each selectivity",
            _flat_at_values,
            elsewhere=COUNTED,
        ),
        Check(
            "the flat part is proportional to the selectivity",
            _fewer_with_selectivity,
            elsewhere=COUNTED,
        ),
    ],
    data=GENERATED,
    reconstructed={
        "rate": UNKNOWN_RATES,
        "values": "`different values of selectivity`: 0.01 and ten times each way",
        "buckets": "the points of the axis are not legible",
    },
    plot=1,
    found=lambda result: (
        "one bucket takes {} times as long as one for each value; beyond, {:.0%} are gained at most".format(
            ", ".join(f"{falling[min(falling)] / flat[0]:.1f}" for falling, flat in _by_selectivity(result)),
            max(1 - min(flat) / flat[0] for _, flat in _by_selectivity(result)),
        )
    ),
)
