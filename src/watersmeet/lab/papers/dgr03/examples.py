"""The two examples of the text: five rows of each stream, and three components of a static join."""

from __future__ import annotations

import numpy as np

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.dgr03.streams import Settings
from watersmeet.papers.shedding.arrivals import one_per_tick
from watersmeet.papers.shedding.measures import archive_metric
from watersmeet.papers.shedding.optimum import optimum
from watersmeet.papers.shedding.static import Components, loss_curve, retain_by_side, retention_curve

EXAMPLE: Settings = {"small": {"r": (1, 1, 1, 3, 2), "s": (2, 3, 1, 1, 3), "window": 3, "memory": 2}}
STATIC: Settings = {"small": {"of_a": (3, 2, 1), "of_b": (1, 2, 4), "by_side": ((3, 3), (2, 4))}}


def run_example(trial: ExperimentTrial) -> Result:
    given = trial.settings
    streams = one_per_tick(given["r"], given["s"], given["window"])
    fixed, variable = (optimum(streams, given["memory"], how) for how in ("fixed", "variable"))
    return Result(numbers={
        "exact results": streams.exact_results,
        "optimum, fixed memory": fixed.results,
        "optimum, variable memory": variable.results,
        "incomplete rows at the variable optimum": archive_metric(streams, variable.until),
        "incomplete rows of the exact join": archive_metric(streams, streams.last),
    })  # fmt: skip


def equals(name: str, value: float) -> Check:
    return Check(f"{name}: {value}", lambda result: result.numbers[name] == value)


EXAMPLE_CHECKS = (
    equals("exact results", 7),
    equals("optimum, fixed memory", 5),
    equals("optimum, variable memory", 6),
    equals("incomplete rows at the variable optimum", 2),
    equals("incomplete rows of the exact join", 0),
)


def run_static(trial: ExperimentTrial) -> Result:
    graph = Components(np.array(trial.settings["of_a"]), np.array(trial.settings["of_b"]))
    kept = {
        f"results kept by {a} and {b} rows": retain_by_side(graph, a, b).edges for a, b in trial.settings["by_side"]
    }
    curves = {"kept": retention_curve(graph).tolist(), "lost": loss_curve(graph).tolist()}
    panel = Panel(
        "the best rows to keep or to delete", "rows kept, or deleted", "results", range(graph.nodes + 1), curves
    )
    return Result([panel], kept)


KEPT, LOST = (0, 0, 1, 2, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11), (0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 9, 10, 11, 11)
STATIC_CHECKS = (
    Check(f"keeping 0, 1, … 13 rows keeps {KEPT} results", lambda r: tuple(r.line("kept")) == KEPT),
    Check(f"deleting 0, 1, … 13 rows loses {LOST} results", lambda r: tuple(r.line("lost")) == LOST),
    Check("3 and 3 rows keep 5 results, 2 and 4 keep 4",
          lambda r: list(r.numbers.values()) == [5, 4]),
)  # fmt: skip

W1 = Experiment("D-W1", "DGR03", "example of section 3.2: five rows a stream, w = 3, M = 2",
                "of 7 results the best strategy with fixed memory finds 5", EXAMPLE, run_example, EXAMPLE_CHECKS,
                data="the paper's own rows")  # fmt: skip
W2 = Experiment("D-W2", "DGR03", "section 3.1: static join of K(3,1), K(2,2), K(1,4)",
                "a dynamic program over the keys finds the rows whose loss costs least",
                STATIC, run_static, STATIC_CHECKS, data="three components, chosen by us",
                reconstructed={"of_a, of_b, by_side": "chosen by us: the section has no numbers"})  # fmt: skip
