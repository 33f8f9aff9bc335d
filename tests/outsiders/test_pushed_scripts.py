"""Queries side by side over the same pushes, which come and go."""

from __future__ import annotations

import random

import pytest

from tests.effort import EFFORT
from tests.outsiders.pushed_scripts import Asked, Drawing, check, dt, session, taken_in

MIN, MAX = dt.datetime.min, dt.datetime.max


def numbers(count: int) -> range:
    first = 0 if EFFORT == 1 else random.SystemRandom().randrange(10**12)
    return range(first, first + count * EFFORT)


@pytest.mark.filterwarnings("ignore::watersmeet.DataWarning")
def test_each_judges_by_its_own_watermark_which_rows_are_late() -> None:
    lost = 0
    for number in numbers(3):
        draw = random.Random(f"late {number}")
        drawing, lateness_s = Drawing(draw), draw.choice((0, 2))
        pushes = drawing.pushes(draw.choice((4, 10)))
        queries = [drawing.query() for _ in range(draw.randint(2, 6))]
        runs = session(lateness_s).start(";\n".join(asked.ours for asked in queries))
        each = [runs[name] for name in runs]
        for name, rows in pushes:
            if any(name in asked.streams for asked in queries):
                runs.push(name, rows)
        runs.finish()
        for asked, run in zip(queries, each, strict=True):
            rows_in, late = taken_in(asked, pushes, lateness_s)
            told = {name: count for name, count in run.metrics()["late_by_stream"].items() if count}
            assert told == dict(late), f"script {number}: {asked.ours}"
            check(asked, run.take(), rows_in, draw, MIN)
            lost += sum(late.values())
    assert lost  # else nothing was tried


def test_from_when_it_says_one_that_is_added_gives_all() -> None:
    whole = 0
    for number in numbers(3):
        draw = random.Random(f"come and go {number}")
        drawing, lateness_s = Drawing(draw), draw.choice((0, 2))
        pushes = drawing.pushes(lateness_s)
        asked: dict[str, Asked] = {"query 1": drawing.join()}
        runs, since, taken = session(lateness_s).start(asked["query 1"].ours), {"query 1": MIN}, []
        for at, (name, rows) in enumerate(pushes):
            if any(name in asked[one].streams for one in runs):
                runs.push(name, rows)
                taken.append((name, rows))
            if draw.random() < 0.1:
                one = f"added at {at}"
                asked[one] = drawing.query() if draw.random() < 0.7 else draw.choice(list(asked.values()))
                since[one] = runs.add(asked[one].ours, name=one).whole_from
            if draw.random() < 0.05 and len(runs) > 1:
                runs.drop(draw.choice(list(runs)))
        each = {one: runs[one] for one in runs}
        runs.finish()
        for one, run in each.items():
            rows_in, late = taken_in(asked[one], taken, lateness_s)
            assert not late
            check(asked[one], run.take(), rows_in, draw, since[one])
            whole += MIN < since[one] < MAX
    assert whole
