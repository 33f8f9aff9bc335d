"""Which warnings came."""

from __future__ import annotations

from warnings import WarningMessage

from watersmeet.warning import WatersmeetWarning


def code_of(one: Warning | WarningMessage) -> str | None:
    """The code of a warning that was caught; None of one that is not ours."""
    warning = one.message if isinstance(one, WarningMessage) else one
    return warning.code if isinstance(warning, WatersmeetWarning) else None
