"""Figures 9, 10 and 11: what PROB, RAND and EXACT are to OPT over memory, by the size of the domain."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.dgr03.figures_3_to_5 import (
    BESIDE,
    HELD_OPT,
    MODEL,
    POLICIES,
    UPPER_BOUND,
    WHAT_IS_HELD,
)
from watersmeet.lab.papers.dgr03.joins import engine, model, offline
from watersmeet.lab.papers.dgr03.reading import WINDOW, Floats, at_w, everywhere, from_w, numbers, panel_of
from watersmeet.lab.papers.dgr03.streams import DATA, RECONSTRUCTED, Pair, draws, memories_of, scaled

DOMAINS = (10, 50, 200)
DOMAIN = {domain: scaled(400, draws=4, domain=domain) for domain in DOMAINS}
SHOWN = ("PROB", "RAND")


def run_domain(trial: ExperimentTrial) -> Result:
    """The figure of its own domain, and for all three what PROB and EXACT are to OPT at M = w."""
    own, found = trial.settings["domain"], {}
    given = tuple(trial.settings[name] for name in ("ticks", "window", "draws", "shares"))
    for number, domain in enumerate(DOMAINS):
        one = Result([panel_of_domain(domain, trial.seed, *given)], {WINDOW: trial.settings["window"]})
        for name in ("PROB", "EXACT"):
            found[f"{name}/OPT at M = w, domain {domain}"] = at_w(one, name)
        trial.tell(number + 1, len(DOMAINS))
    return Result([panel_of_domain(own, trial.seed, *given)], {WINDOW: trial.settings["window"], **found})


@lru_cache(maxsize=len(DOMAINS))  # the three figures are made of the same runs
def panel_of_domain(domain: int, seed: int, ticks: int, window: int, draws_: int, shares: tuple[float, ...]) -> Panel:
    settings = {"ticks": ticks, "window": window, "draws": draws_, "domain": domain, "skew": 1.0, "shares": shares}
    sizes = memories_of(settings)
    of_draws = [fractions(pair, sizes) for pair in draws(ExperimentTrial(settings, seed))]
    title = f"found of what OPT finds, domain of {domain} keys, w = {window}"
    return panel_of(title, "memory size (rows)", "fraction of OPT", sizes, of_draws)


def fractions(pair: Pair, sizes: list[int]) -> dict[str, Floats]:
    """Of OPT in the memory asked for; OPT in the most memory that the engine held stands beside it."""
    curve = offline(pair, max(sizes))
    best, held = curve[sizes], np.array(sizes)
    found: dict[str, Floats] = {"EXACT": pair.exact / best, "OPT": best / best}
    for name in SHOWN:
        runs = [engine(POLICIES[name], pair, m) for m in sizes]
        held = np.maximum(held, [run.memory_held() for run in runs])
        found[name] = np.array([run.results for run in runs]) / best
        found[MODEL[name]] = np.array([model(POLICIES[name], pair, m, seed=1).results for m in sizes]) / best
    return found | {HELD_OPT: curve[held] / best}


def by_domain(result: Result, name: str) -> Floats:
    return np.array([result.numbers[f"{name}/OPT at M = w, domain {domain}"] for domain in DOMAINS])


DOMAIN_CHECKS = (
    Check("PROB falls against OPT as the domain grows: at M = w from 10 to 50 to 200", everywhere(
        lambda r: np.diff(by_domain(r, "PROB")) < 0),
        words="As the domain size increases, the performance of PROB seems to get worse as compared to OPT"),
    Check("EXACT and OPT come closer as the domain grows: at M = w from 10 to 50 to 200", everywhere(
        lambda r: np.diff(by_domain(r, "EXACT")) < 0),
        words="As a tendency the lines for EXACT and OPT get closer as the domain size increases from 10 to 200"),
    Check("PROB is above RAND at every memory", everywhere(lambda r: numbers(r, "PROB") > numbers(r, "RAND")),
          words="PROB clearly improves on the state of the art, i.e., random tuple shedding"),
    Check("no policy beats OPT with the memory that was held", everywhere(
        lambda r: np.array([numbers(r, name) for name in SHOWN]) <= numbers(r, HELD_OPT)),
        words=UPPER_BOUND, note=WHAT_IS_HELD),
    Check("the engine's own join finds as much as the paper's model: within 4 % of EXACT", everywhere(
        lambda r: np.abs([numbers(r, name) - numbers(r, MODEL[name]) for name in SHOWN])
        <= 0.04 * numbers(r, "EXACT")), elsewhere=BESIDE),
)  # fmt: skip
MEETS_EXACT = Check("OPT and EXACT meet from M = w on: within 2 %", everywhere(
    lambda r: numbers(r, "EXACT")[from_w(r)] <= 1.02),
    words="in Figure 11 the graphs for OPT and EXACT meet already for M=w")  # fmt: skip


def _found(result: Result) -> str:
    prob = numbers(result, "PROB")
    return (
        f"PROB finds {prob.min():.0%} to {prob.max():.0%} of OPT; at M = w PROB {_of_domains(result, 'PROB')}, EXACT "
        f"{_of_domains(result, 'EXACT')} with 10, 50, 200 keys"
    )


def _of_domains(result: Result, name: str) -> str:
    return ", ".join(f"{share:.0%}" for share in by_domain(result, name))


def figure(number: int, domain: int, claim: str, checks: tuple[Check, ...]) -> Experiment:
    shows = f"Figure {number}: what PROB, RAND and EXACT are to OPT over memory, domain of {domain} keys"
    return Experiment(f"D-E{number}", "DGR03", shows, claim, DOMAIN[domain], run_domain, checks, data=DATA,
                      reconstructed=RECONSTRUCTED, found=_found)  # fmt: skip


WORSE = "As the domain size increases, the performance of PROB seems to get worse as compared to OPT"
CLOSER = "the lines for EXACT and OPT get closer as the domain size increases from 10 to 200"
E9 = figure(9, 10, WORSE, DOMAIN_CHECKS)
E10 = figure(10, 50, CLOSER, DOMAIN_CHECKS)
E11 = figure(11, 200, MEETS_EXACT.words, (*DOMAIN_CHECKS, MEETS_EXACT))
