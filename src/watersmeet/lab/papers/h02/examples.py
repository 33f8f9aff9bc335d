"""The worked examples of the paper: Figures 2, 3 and 6."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.h02.serving import HW, MW, NLW, OPTIONS, PAPER, RIPPLE, XJOIN, join_sql
from watersmeet.lab.papers.running import session_of

# Timestamps that satisfy what the paper says of its Figures 2, 3 and 6 with a window of 10: times of a to e, and for
# Figure 2 the keys of its black (1) and white (2) dots. Then combinations that must be found, by their times.
EXAMPLES: dict[str, dict[str, Any]] = {
    "Figure 2": {
        "times": [[20], [13, 16, 19, 22, 35], [15, 18, 23], [3, 21], [8, 24]],
        "keys": [[1], [2, 1, 1, 1, 1], [1, 2, 1], [1, 1], [1, 1]],
        "named": [(20, b, c, 21, 24) for b in (16, 19, 22) for c in (15, 23)],
        "of": 6,
    },
    "Figure 3": {
        "times": [[12], [11, 20], [14], [13], [8]],
        "named": [(12, 11, 14, 13, 8)],
        "of": 1,
    },
    "Figure 6": {
        "times": [[10, 23, 30], [11, 21, 25, 30], [16, 31], [2, 22, 30], [9, 20, 29]],
        "named": [(23, 21, 16, 22, 20), (23, 25, 16, 22, 20)],
        "of": None,
    },
}


def run_example(trial: ExperimentTrial) -> Result:
    """Run all algorithms over a figure's rows, and count what they find of it."""
    wanted = trial.settings
    keys = wanted.get("keys") or [[1] * len(times) for times in wanted["times"]]
    session = session_of(
        {
            name: pa.table({"k": key, "ts": pa.array([t * 1_000_000 for t in times], pa.timestamp("us"))})
            for name, times, key in zip("abcde", wanted["times"], keys, strict=True)
        }
    )
    select = ", ".join(f"EPOCH_US({x}.ts) AS {x}" for x in "abcde")
    lines = (RIPPLE, XJOIN, NLW, HW, MW)
    counted: dict[str, list[float]] = {}
    for line in lines:
        found = session.sql(join_sql("abcde", "k", "WINDOW = 10 SECONDS", OPTIONS[line], select)).to_arrow().to_pylist()
        times = [tuple(row[x] // 1_000_000 for x in "abcde") for row in found]
        named = sum(times.count(tuple(one)) for one in wanted["named"])
        spread = sum(max(one) - min(one) > 10 for one in times)
        counted[line] = [named, len(times), spread]
    x = ["of the figure", "all", "out of the window"]
    panel = Panel("Combinations found", "", "combinations", x, counted, bars=True)
    return Result([panel], {"named": len(wanted["named"]), "all": wanted["of"] or counted[NLW][1]})


EXAMPLE_CHECKS = (
    Check(
        "every algorithm finds the figure's combinations, each once",
        lambda result: all(line[0] == result.numbers["named"] for line in result.panels[0].lines.values()),
    ),
    Check(
        "and all of them the same number in all, none out of the window",
        lambda result: all(
            line[1] == result.numbers["all"] and line[2] == 0 for line in result.panels[0].lines.values()
        ),
    ),
)

WORKED = tuple(
    Experiment(
        f"H02-W{number}",
        PAPER,
        figure,
        "The worked example of the paper: what is found of it, and nothing else.",
        {"small": settings, "paper": settings},
        run_example,
        EXAMPLE_CHECKS,
        data="rows that satisfy what the text says of the figure, which has no numbers",
        reconstructed={"times": "the figure has no numbers; these satisfy what the text says of it"},
    )
    for number, (figure, settings) in enumerate(EXAMPLES.items(), 1)
)
