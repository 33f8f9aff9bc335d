"""How hard random tests try, and what they may not do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

EFFORT = int(os.environ.get("WATERSMEET_EFFORT", "1"))  # how many times more examples than usual
# Their cases are large and take long. But a test that throws most examples away says little, so that stays an error.
PATIENT = [check for check in HealthCheck if check is not HealthCheck.filter_too_much]


def random_cases(count: int, **more: Any) -> settings:
    """Draw so many, times the effort. `make test`, whose cases are the same each time, draws a third of them."""
    drawn = max(4, count // 3) if EFFORT == 1 else count * EFFORT
    return settings(max_examples=drawn, deadline=None, suppress_health_check=PATIENT, **more)


def first_of(cases: Sequence[Any]) -> list[Any]:
    """The first case is for `make test`, the others are slow."""
    rest = (pytest.param(*one.values, marks=[*one.marks, pytest.mark.slow]) for one in cases[1:])
    return [cases[0], *rest]


def thinned(*axes: Iterable[Any]) -> list[Any]:
    """All combinations of parameters for `parametrize`. `make test` runs one of two or three, spread so that every
    value comes, and of three axes every pair; `make soak` runs the others, too."""
    lists = [list(axis) for axis in axes]
    one_of = min(3, *map(len, lists))
    return [
        pytest.param(
            *(value for _, value in one), marks=() if sum(at for at, _ in one) % one_of == 0 else pytest.mark.soak
        )
        for one in product(*map(enumerate, lists))
    ]
