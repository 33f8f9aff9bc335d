"""Figure 6: what PROB and RAND find of OPT, over skew, M = w; by the engine's own join, beside the paper's model."""

from __future__ import annotations

import numpy as np

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.dgr03.figures_3_to_5 import MODEL, POLICIES, RANKINGS
from watersmeet.lab.papers.dgr03.joins import engine, model, offline
from watersmeet.lab.papers.dgr03.reading import Bools, Floats, everywhere, lines_of_draws, numbers, panel_of
from watersmeet.lab.papers.dgr03.streams import DATA, RECONSTRUCTED, Pair, draws, scaled

SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
SKEW = scaled(400, draws=5, largest="paper", skews=SKEWS)
SKEW = {**SKEW, "small": {**SKEW["small"], "skews": SKEWS[::2]}}
SHOWN = ("PROB", "RAND")


def run_skew(trial: ExperimentTrial) -> Result:
    window, skews = trial.settings["window"], trial.settings["skews"]
    panels = []
    for place, correlated in enumerate((False, True)):
        by_skew = []
        for number, skew in enumerate(skews):
            by_skew.append([fractions(pair, window) for pair in draws(trial, skew=skew, correlated=correlated)])
            trial.tell(place * len(skews) + number + 1, 2 * len(skews))
        of_draws = lines_of_draws(by_skew)
        title = f"found of what OPT finds, {'correlated' if correlated else 'uncorrelated'} Zipf, M = w = {window}"
        panels.append(panel_of(title, "Zipf parameter", "fraction of OPT", skews, of_draws))
    return Result(panels)


def fractions(pair: Pair, memory: int) -> dict[str, float]:
    best = int(offline(pair, memory)[memory])
    found = {name: engine(POLICIES[name], pair, memory).results / best for name in SHOWN}
    return found | {MODEL[name]: model(POLICIES[name], pair, memory, seed=1).results / best for name in SHOWN}


def gap(result: Result) -> Floats:
    return numbers(result, "PROB") - numbers(result, "RAND")


def from_skew(result: Result, least: float, most: float = 9.0) -> Bools:
    skews = np.asarray(result.panels[0].x, np.float64)
    return (skews >= least) & (skews <= most)


def apart_from_model(result: Result) -> Floats:
    return np.abs([numbers(result, "PROB", panel) - numbers(result, MODEL["PROB"], panel) for panel in (0, 1)])


SKEW_CHECKS = (
    Check("no policy beats OPT", everywhere(
        lambda r: np.array([numbers(r, name, panel) for name in SHOWN for panel in (0, 1)]) <= 1)),
    Check("the engine's own join finds as much as the paper's model by PROB: within 8 % of OPT", everywhere(
        lambda r: apart_from_model(r) <= 0.08),
        note="the model is told how often each key comes in the very rows that come, as in the paper; with uniform "
             "keys that alone is worth 5 % of OPT, which no policy without that table can have"),
    Check("at parameter 0 RAND and PROB are essentially equal: within 10 %",
          lambda r: abs(numbers(r, "PROB")[0] / numbers(r, "RAND")[0] - 1) <= 0.1),
    Check("the gap between them grows with every step of skew up to 1", everywhere(
        lambda r: np.diff(gap(r)[from_skew(r, 0, 1)]) > 0)),
    Check("and is large under high skew: over a quarter of OPT from parameter 1 on", everywhere(
        lambda r: gap(r)[from_skew(r, 1)] > 0.25)),
    Check("correlated: PROB finds over 96 % of OPT from parameter 1 on", everywhere(
        lambda r: numbers(r, "PROB", 1)[from_skew(r, 1)] > 0.96)),
    Check("uncorrelated: PROB finds over 96 % of OPT from parameter 1 on", everywhere(
        lambda r: numbers(r, "PROB")[from_skew(r, 1)] > 0.96), degree=True, why=RANKINGS),
    Check("correlated and uncorrelated are nearly identical: within 5 % of OPT", everywhere(
        lambda r: np.abs(numbers(r, "PROB") - numbers(r, "PROB", 1)) <= 0.05), degree=True, why=RANKINGS),
)  # fmt: skip

E6 = Experiment("D-E6", "DGR03", "Figure 6: what PROB and RAND find of what OPT finds, over skew",
                "RAND and PROB are equal at 0, their gap grows with skew, PROB exceeds 96 % of OPT; correlation "
                "matters little",
                SKEW, run_skew, SKEW_CHECKS, data=DATA, reconstructed=RECONSTRUCTED)  # fmt: skip
