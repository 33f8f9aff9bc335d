"""Every scenario runs on every runner."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.runners import RUNNERS, Bag, Runner, Source
from watersmeet.errors import UnsupportedError


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Runner:
    return RUNNERS[request.param]


@pytest.fixture
def run_changing(run: Runner) -> Runner:
    """As `run`, for answers that change; the runners that cannot give those yet are skipped."""

    def answered(sql: str, sources: Sequence[Source]) -> Bag:
        try:
            return run(sql, sources)
        except UnsupportedError as error:
            pytest.skip(error.message)

    return answered
