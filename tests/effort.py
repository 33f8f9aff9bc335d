"""How hard random tests try, and what they may not do."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

EFFORT = int(os.environ.get("WATERSMEET_EFFORT", "1"))  # how many times more examples than usual
# Their cases are large and take long. But a test that throws most examples away says little, so that stays an error.
PATIENT = [check for check in HealthCheck if check is not HealthCheck.filter_too_much]


def random_cases(count: int, **more: Any) -> settings:
    """Draw so many, times the effort. `make test`, whose cases are the same each time, draws a third of them."""
    drawn = max(4, count // 3) if EFFORT == 1 else count * EFFORT
    return settings(max_examples=drawn, deadline=None, suppress_health_check=PATIENT, **more)
