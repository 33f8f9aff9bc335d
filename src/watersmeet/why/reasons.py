"""What is said of rows that were asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["condition", "window", "expired", "late", "forgotten", "skipped", "elsewhere"]


@dataclass(frozen=True)
class Reason:
    """One thing that keeps rows apart: a condition, a window, rows that came since, that one came too late, that
    bounded memory let go of one; or something that only a run can tell."""

    kind: Kind
    text: str
