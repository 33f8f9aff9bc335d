"""Figures 13 and 14: windows that differ, and paths."""

from __future__ import annotations

from itertools import combinations

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.h02.figure_9 import four_streams
from watersmeet.lab.papers.h02.serving import (
    COUNTED,
    GENERATED,
    NLW,
    NUMBERS,
    PAPER,
    RECONSTRUCTED,
    REPEATS,
    SECONDS,
    TIME,
    Settings,
    below,
    compare,
    join_sql,
    ratios,
    values,
)
from watersmeet.lab.papers.running import session_of
from watersmeet.lab.workloads.poisson import poisson

FIGURE_13: Settings = {
    scale: {
        "keys": 1000,
        "seconds": seconds,
        "rate": 1000,
        "wide": "1 SECOND",
        "narrow": (0.8, 0.1),
        "repeats": REPEATS[scale],
    }
    for scale, seconds in SECONDS.items()
}
FIGURE_14: Settings = {
    scale: {
        **NUMBERS,
        "seconds": seconds,
        "rates": {"small variation": (1000, 950, 900, 850), "large variation": (1000, 700, 400, 100)},
        "repeats": REPEATS[scale],
    }
    for scale, seconds in SECONDS.items()
}


def run_conservative(trial: ExperimentTrial) -> Result:
    """One pair with the wide window, all others with a narrow one."""
    wanted = trial.settings
    rates = dict.fromkeys("abcd", wanted["rate"])
    session = session_of(poisson(rates, seconds=wanted["seconds"], keys=wanted["keys"], seed=trial.seed))

    def sql(narrow: float, options: str) -> str:
        sizes = dict.fromkeys(combinations("abcd", 2), f"{narrow} SECONDS") | {("a", "b"): wanted["wide"]}
        windows = " AND ".join(f"WINDOW ({x}, {y}) = {size}" for (x, y), size in sizes.items())
        return join_sql("abcd", "k", windows, options)

    found = compare(trial, ("GCA", "LCA"), dict.fromkeys(wanted["narrow"], session), sql)
    return Result(found.panels("the narrow windows, in seconds; the wide one has 1"), found.speeds)


def run_path(trial: ExperimentTrial) -> Result:
    size = trial.settings["window"]
    return four_streams(trial, ("LCA", NLW), f"WINDOW PATH (a, b, c, d) = ({size}, {size}, {size})")


FIGURE_13_CHECKS = (
    Check(
        "LCA has the shorter service time, for 0.8 and for 0.1 instead of 1 second",
        lambda result: below(result, "LCA", "GCA", TIME),
        words="From the figure, the LCA outperforms the GCA even for small variations between window values.",
        timed=True,
    ),
    Check(
        "LCA makes fewer comparisons than GCA, even for 0.8 instead of 1 second",
        lambda r: below(r, "LCA", "GCA"),
        elsewhere=COUNTED,
    ),
    Check(
        "the gain in comparisons is at least twice as large for 0.1 second",
        lambda result: ratios(result, "GCA", "LCA")[1] > 2 * ratios(result, "GCA", "LCA")[0],
        elsewhere=COUNTED,
    ),
)
FIGURE_14_CHECKS = (
    Check(
        "with small variation of rates NLW has the shorter service time",
        lambda result: values(result, NLW, TIME)[0] < values(result, "LCA", TIME)[0],
        words="for small variations, the NLW-join outperforms the LCA",
        timed=True,
    ),
    Check(
        "with large variation LCA has the shorter service time",
        lambda result: values(result, "LCA", TIME)[1] < values(result, NLW, TIME)[1],
        words="however for large variations LCA performs the best",
        timed=True,
    ),
    Check(
        "with small variation of rates NLW makes fewer comparisons",
        lambda result: values(result, NLW)[0] < values(result, "LCA")[0],
        elsewhere=COUNTED,
    ),
    Check(
        "with large variation LCA makes fewer comparisons",
        lambda result: values(result, "LCA")[1] < values(result, NLW)[1],
        elsewhere=COUNTED,
    ),
)

E13 = Experiment(
    "H02-E13",
    PAPER,
    "Figure 13",
    "From the figure, the LCA outperforms the GCA even for small variations between window values.",
    FIGURE_13,
    run_conservative,
    FIGURE_13_CHECKS,
    data=GENERATED,
    reconstructed={name: RECONSTRUCTED[name] for name in ("keys", "seconds")},
    plot=TIME,
    found=lambda result: "LCA is {:.2f} times as fast for 0.8 seconds, {:.1f} times for 0.1".format(
        *ratios(result, "GCA", "LCA", TIME)
    ),
)
E14 = Experiment(
    "H02-E14",
    PAPER,
    "Figure 14",
    "for small variations, the NLW-join outperforms the LCA, however for large variations LCA performs the best",
    FIGURE_14,
    run_path,
    FIGURE_14_CHECKS,
    data=GENERATED,
    reconstructed={
        **RECONSTRUCTED,
        "rates": "small and large variation are not said in numbers: from 1000 a second down to 850, and down to 100",
    },
    plot=TIME,
    found=lambda result: "LCA takes {:.1f} times as long as NLW with small variation, {:.1f} times with large".format(
        *ratios(result, "LCA", NLW, TIME)
    ),
)
