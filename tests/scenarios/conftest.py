"""Every scenario runs on every runner."""

from __future__ import annotations

import pytest

from tests.runners import RUNNERS, Runner


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Runner:
    return RUNNERS[request.param]
