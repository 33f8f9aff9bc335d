"""Random scripts, whose queries are fed together: each gives what DuckDB says of it, whatever the others ask."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import EFFORT
from tests.outsiders.beside_scripts import judge_beside
from tests.outsiders.bounded_scripts import judge_bounded
from tests.outsiders.durable_scripts import judge_lives
from tests.outsiders.running_scripts import WAYS, judge_script
from tests.outsiders.scripts import Script, draw_script, shrunk


def numbers(count: int) -> Iterator[int]:
    first = 0 if EFFORT == 1 else random.SystemRandom().randrange(10**12)
    return iter(range(first, first + count * EFFORT))


@pytest.mark.parametrize("way", WAYS)
def test_together_each_gives_what_duckdb_says_of_it(way: str) -> None:
    for number in numbers(3):
        script = draw_script(number)
        try:
            judge_script(script, way)
        except Exception as error:
            pytest.fail(told(script, way, error), pytrace=False)


def told(script: Script, way: str, error: Exception) -> str:
    def fails(other: Script) -> bool:
        try:
            judge_script(other, way)
        except Exception as now:
            return type(now) is type(error)
        return False

    small = shrunk(script, fails)
    alone = all(fails(Script(small.number, (one,), small.streams)) for one in small.queries)
    rows = "\n".join(f"{name}: {small.streams.rows[name]}" for name in sorted(small.names))
    return f"script {script.number}, {way}{', each alone too' if alone else ''}: {error}\n{small.text()}\n{rows}"


def test_what_is_left_out_is_counted_by_each_and_kept_once(tmp_path: Path) -> None:
    for number in numbers(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        judge_beside(number, folder)


def test_joins_that_share_a_memory_give_a_part_and_count_the_rest() -> None:
    for number in numbers(8):
        judge_bounded(number)


def test_killed_at_any_step_each_gives_all_of_its_answer_once(tmp_path: Path) -> None:
    died = 0
    for number in numbers(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        died += judge_lives(draw_script(number), folder)
    assert died  # else nothing was tried
