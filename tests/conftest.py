"""Random tests draw the same cases each time, so that what passes here passes anywhere. With more effort than usual
(`make fuzz`, `make soak`) they draw new ones each time."""

from __future__ import annotations

from hypothesis import settings

from tests.effort import EFFORT

settings.register_profile("watersmeet", derandomize=EFFORT == 1)
settings.load_profile("watersmeet")
