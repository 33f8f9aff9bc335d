"""K05's experiments at their small scale: their verdicts, that they repeat, and that wrong numbers fail them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.lab.doctoring import Line, counted, with_line, with_number
from watersmeet.lab.experiment import Experiment, ExperimentTrial, Result
from watersmeet.lab.papers import k05
from watersmeet.lab.workloads.steady import steady

BY_ID = {one.id: one for one in k05.EXPERIMENTS}


@cache
def small(name: str) -> Result:
    return again(name)


def again(name: str) -> Result:
    """Without repeats, as wall time is not looked at."""
    return BY_ID[name].run(ExperimentTrial({**BY_ID[name].settings["small"], "repeats": 1}))


def failing(experiment: Experiment, result: Result) -> list[str]:
    """What does not hold; wall time is left out, as the machine may be busy."""
    return [check.says for check in experiment.checks if not check.timed and not check.holds(result)]


@pytest.mark.parametrize("name", BY_ID)
def test_every_count_is_as_the_paper_says(name: str) -> None:
    assert failing(BY_ID[name], small(name)) == []


@pytest.mark.parametrize("name", ["K05-E8"])
def test_the_verdict_follows_from_the_counts(name: str) -> None:
    assert BY_ID[name].verdict(small(name)) == "reproduced"


def test_times_like_the_papers_make_the_verdict() -> None:
    """Wall time is put in, so that a busy machine cannot fail the test."""
    fast = with_number(small("K05-E7"), "time, probe and insert time to probe time", 1.05)
    for greedy in ("probe all buckets", "optimal"):
        fast = with_number(fast, f"time, {greedy} to probe time", 4)
    assert BY_ID["K05-E7"].verdict(fast) == "reproduced"
    assert BY_ID["K05-E7"].verdict(with_number(fast, "time, optimal to probe time", 1.2)) == (
        "reproduced with a difference"
    )
    assert BY_ID["K05-E7"].verdict(with_number(fast, "time, optimal to probe time", 1.02)) == "not reproduced"


def test_two_orders_of_magnitude_are_a_hundred_times() -> None:
    def with_times(factor: float) -> Result:
        wnl = with_line(small("K05-E4"), 2, "WNL", lambda line: [factor for _ in line])
        return with_line(wnl, 2, "WHJ", lambda line: [1.0 for _ in line])

    verdict = BY_ID["K05-E4"].verdict
    assert verdict(with_times(100)) == "reproduced"
    assert verdict(with_times(99)) == "reproduced with a difference"
    assert verdict(with_times(0.9)) == "not reproduced"


def test_figure_6_is_judged_by_its_times() -> None:
    """Flat from as many buckets as values on is reproduced; times that go on falling are not."""
    judged = BY_ID["K05-E6"]
    x = [float(one) for one in judged.settings["small"]["buckets"]]
    falling, flat = small("K05-E6"), small("K05-E6")
    for values in (10, 100, 1000):
        name = f"selectivity {1 / values:g}"
        flat = with_line(flat, 1, name, lambda _, values=values: [max(1 / buckets, 1 / values) for buckets in x])
        falling = with_line(falling, 1, name, lambda _: [1 / buckets for buckets in x])
    assert judged.verdict(flat) == "reproduced"
    assert judged.verdict(falling) == "not reproduced"


@pytest.mark.parametrize("name", ["K05-E5", "K05-E7", "K05-E8"])
def test_the_same_seed_gives_the_same_counts(name: str) -> None:
    assert counted(again(name)) == counted(small(name))


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
    "K05-O2": lambda result: with_line(result, 0, "expiry, counted", scaled(1.2)),
}


@pytest.mark.parametrize("name", BY_ID)
def test_wrong_counts_fail_a_check(name: str) -> None:
    """Also where the paper plots times, and counts are beside them."""
    assert failing(BY_ID[name], DOCTORED[name](small(name)))


@pytest.mark.parametrize("name", ["K05-E4", "K05-E8", "K05-O2"])
def test_wrong_counts_are_not_reproduced_where_they_decide(name: str) -> None:
    assert BY_ID[name].verdict(DOCTORED[name](small(name))) == "not reproduced"


def test_a_slower_build_up_of_stale_rows_is_a_difference() -> None:
    doctored = with_line(small("K05-E8"), 0, "probe time", lambda line: [*line[:-1], 1.2 * (line[-1] or 0)])
    assert BY_ID["K05-E8"].verdict(doctored) == "reproduced with a difference"
