"""DGR03's experiments in miniature: each gives its verdict, and numbers that are not so do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from watersmeet.lab.experiment import Experiment, ExperimentTrial, Result
from watersmeet.lab.judge import judge
from watersmeet.lab.papers.dgr03 import ENGINE, EXPERIMENTS

KNOWN = {one.id: one for one in EXPERIMENTS}
AS_SMALL: dict[str, Any] = {}
LESS: dict[str, dict[str, Any]] = {
    "D-E6": {"skews": (0.0, 0.5, 1.0, 2.0), "draws": 1},
    "D-E6v": {"skews": (0.0, 0.5, 1.0, 2.0), "draws": 1},
    "D-E7": {"ticks": 12_000, "window": 2000},
    "D-E8": {"ticks": 12_000, "window": 2000},
}
DIFFERENT = {"D-E3", "D-E4", "D-E5", "D-E6", "D-E6v"}
TRIED = [name for name in KNOWN if name != "D-E7f"]


@cache
def measured(name: str) -> Result:
    one = KNOWN[name]
    return one.run(ExperimentTrial({**one.settings["small"], **LESS.get(name, AS_SMALL)}, seed=1))


def with_line(name: str, change: Callable[[float], float], panel: int = 0) -> Callable[[Result], Result]:
    def doctor(result: Result) -> Result:
        one = result.panels[panel]
        line = [None if y is None else change(y) for y in one.lines[name]]
        panels = list(result.panels)
        panels[panel] = replace(one, lines={**one.lines, name: line})
        return Result(panels, result.numbers)

    return doctor


def with_number(name: str, value: float) -> Callable[[Result], Result]:
    return lambda result: Result(result.panels, {**result.numbers, name: value})


DOCTORED: list[tuple[str, Callable[[Result], Result]]] = [
    ("D-W1", with_number("optimum, fixed memory", 6)),
    ("D-W2", with_line("kept", lambda y: y + 1)),
    *((name, with_line("PROB", lambda y: 0.5 * y)) for name in ("D-E3", "D-E4", "D-E5", "D-E6", "D-E7", "D-E9")),
    *((name, with_line("RAND", lambda y: 1.2 * y)) for name in ("D-E3", "D-E4", "D-E5", "D-E6")),
    *((name, with_line("OPT", lambda y: 0.9 * y)) for name in ("D-E3", "D-E4")),
    ("D-E5", with_line("OPT", lambda y: 0.5 * y)),
    ("D-E5", with_number("OPT/RAND at M = 400, uniform", 5.0)),
    ("D-E6", with_line("PROB", lambda y: 0.95 * y, panel=1)),
    ("D-E6v", with_line("PROBV over PROB", lambda y: -y)),
    ("D-E6v", with_line("OPTV over OPT", lambda y: 4 * y)),
    ("D-E6v", with_line("S", lambda y: 50.0, panel=1)),
    ("D-E7", with_line("PROBV", lambda y: 0.9 * y)),
    ("D-E8", with_line("last year", lambda y: 0.7 * y)),
    ("D-E9", with_number("PROB/OPT at M = w, domain 200", 0.999)),
    ("D-E10", with_number("EXACT/OPT at M = w, domain 10", 1.0)),
    ("D-E11", with_line("EXACT", lambda y: y + 0.03)),
]  # fmt: skip


@pytest.mark.parametrize("name", TRIED)
def test_the_verdict_follows_the_numbers(name: str) -> None:
    expected = "reproduced with a difference" if name in DIFFERENT else "reproduced"
    assert judge(KNOWN[name], measured(name)).verdict == expected
    doctors = [doctor for one, doctor in DOCTORED if one == name]
    assert doctors
    for doctor in doctors:
        assert judge(KNOWN[name], doctor(measured(name))).verdict == "not reproduced"


def test_a_life_as_poor_as_random_would_agree_with_the_paper() -> None:
    """The check that fails, AMB-30, can hold."""
    result = measured("D-E3")
    rand = result.line("RAND")
    lines = {**result.panels[0].lines, "LIFE": rand, ENGINE["LIFE"]: result.line(ENGINE["RAND"])}
    failed = judge(KNOWN["D-E3"], Result([replace(result.panels[0], lines=lines)])).failed
    assert not any("LIFE" in check.says for check in failed)


def test_the_same_seed_gives_the_same_numbers_and_another_does_not() -> None:
    one: Experiment = KNOWN["D-E3"]
    few = {**one.settings["small"], "draws": 1, "ticks": 2000}
    first, again, other = (one.run(ExperimentTrial(few, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_flights_agree_but_for_their_skew() -> None:
    few = {"ticks": 6000, "window": 400}
    assert judge(KNOWN["D-E7f"], KNOWN["D-E7f"].run(ExperimentTrial(few))).verdict == "reproduced with a difference"
