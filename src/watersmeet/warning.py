"""Every warning a user can meet: a class for what it is about, and a code for which it is."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import ClassVar

_PACKAGE = str(Path(__file__).parent)


class WatersmeetWarning(UserWarning):
    """The root. Its text begins with its code, so that a filter may name that:
    `warnings.filterwarnings("ignore", "late_rows")`."""

    CODES: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, code: str, message: str) -> None:
        if code not in self.CODES:
            raise ValueError(f"{type(self).__name__} has no code {code!r}")
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class DataWarning(WatersmeetWarning):
    """Rows are not in the answer, or not as one would expect."""

    CODES = frozenset(
        (
            "late_rows",
            "skipped_rows",
            "bad_rows",
            "future_rows",
            "handed_over_rows",
            "waiting_rows",
            "skipped_batch",
            "batch_not_skipped",
            "many_answers",
            "time_unit",
        )
    )


class PlanWarning(WatersmeetWarning):
    """What is written does something that is seldom meant."""

    CODES = frozenset(
        ("beside_memory", "cross_join", "integer_division", "midnight", "unused_order", "unused_sink", "unused_window")
    )


class ConnectorWarning(WatersmeetWarning):
    """What a run reads from or writes to is gone, empty, old or other than it was."""

    CODES = frozenset(
        ("source_gone", "source_changed", "handover", "old_table", "empty_table", "empty_file", "sink_gone")
    )


class StateWarning(WatersmeetWarning):
    """A checkpoint, a cache or a folder for temporary files is not as it should be; the answer is the same."""

    CODES = frozenset(
        (
            "damaged_checkpoint",
            "unguarded_checkpoint",
            "cold_state",
            "temporary_folder",
            "kernel_cache",
            "kernel_library",
        )
    )


def warn(warning: Warning) -> None:
    """A Python warning at the line of the user's own code that declares a stream or runs a query."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
