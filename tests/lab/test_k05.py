"""K05's experiments at their small scale: their verdicts, that they repeat, and that wrong numbers fail them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.lab.doctoring import Line, counted, with_line, with_number
from watersmeet.lab.experiment import Experiment, Result, Trial
from watersmeet.lab.papers import k05
from watersmeet.lab.workloads.steady import steady

BY_ID = {one.id: one for one in k05.EXPERIMENTS}


@cache
def small(name: str) -> Result:
    return BY_ID[name].run(Trial(BY_ID[name].settings["small"]))


def failing(experiment: Experiment, result: Result) -> list[str]:
    """What does not hold; wall time is left out, as the machine may be busy."""
    return [check.says for check in experiment.checks if not check.timed and not check.holds(result)]


@pytest.mark.parametrize("name", BY_ID)
def test_every_count_is_as_the_paper_says(name: str) -> None:
    assert failing(BY_ID[name], small(name)) == []


def test_the_strategies_differ_in_time_as_figure_7_shows() -> None:
    assert k05.E7.verdict(small("K05-E7")) == "reproduced"


@pytest.mark.parametrize("name", ["K05-E5", "K05-E7", "K05-E8"])
def test_the_same_seed_gives_the_same_counts(name: str) -> None:
    settings = BY_ID[name].settings["small"]
    again = BY_ID[name].run(Trial({**settings, "repeats": 1}))
    assert counted(again) == counted(small(name))


def test_another_seed_gives_other_rows() -> None:
    one, other = (steady({"a": 10}, 10, 100, seed)["a"] for seed in (1, 2))
    assert one["attr"] != other["attr"]
    assert one["ts"] == other["ts"]


def scaled(factor: float) -> Callable[[Line], Line]:
    return lambda line: [None if y is None else factor * y for y in line]


def last_doubled(line: Line) -> Line:
    assert line[-1] is not None
    return [*line[:-1], 2 * line[-1]]


DOCTORED: dict[str, Callable[[Result], Result]] = {
    "K05-E4": lambda result: with_line(result, 0, "WHJ", scaled(2)),
    "K05-E5": lambda result: with_line(result, 0, "WHJ", lambda line: [line[0]] * len(line)),
    "K05-E6": lambda result: with_number(result, "flat_from, selectivity 0.01", 50),
    "K05-E7": lambda result: with_line(result, 0, "probe and insert time", scaled(2)),
    "K05-E8": lambda result: with_line(result, 0, "optimal", last_doubled),
}


@pytest.mark.parametrize("name", BY_ID)
def test_wrong_counts_are_not_reproduced(name: str) -> None:
    assert BY_ID[name].verdict(DOCTORED[name](small(name))) == "not reproduced"


def test_a_slower_build_up_of_stale_rows_is_a_difference() -> None:
    doctored = with_line(small("K05-E8"), 0, "probe time", lambda line: [*line[:-1], 1.2 * (line[-1] or 0)])
    assert k05.E8.verdict(doctored) == "reproduced with a difference"
