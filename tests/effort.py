"""How hard random tests try, and what they may not do."""

from __future__ import annotations

import os

from hypothesis import HealthCheck

EFFORT = int(os.environ.get("WATERSMEET_EFFORT", "1"))  # how many times more examples than usual
# Their cases are large and take long. But a test that throws most examples away says little, so that stays an error.
PATIENT = [check for check in HealthCheck if check is not HealthCheck.filter_too_much]
