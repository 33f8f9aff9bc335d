"""No answer depends on memory that nobody has written: with nonsense in it all answers are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.poisoned import BYTE, ENVIRONMENT, POISONED

ROOT = Path(__file__).parents[2]
# A little of everything that keeps rows, sums and lists; by hand any tests may be run with the plugin.
CASES = (
    "tests/unit/operators/continuous/test_collected.py",
    "tests/properties/test_over.py::test_rows_by_event_time_are_what_plain_sql_gives",
    "tests/properties/test_over.py::test_values_collected_in_order_are_those_of_plain_sql_however_many_partitions_there_are",
    "tests/properties/test_over.py::test_answers_that_change_are_those_of_the_reference_and_of_duckdb",
    "tests/properties/test_unnest.py::test_windows_of_rows_count_rows_and_not_their_entries",
    "tests/properties/test_continuous.py::test_the_engine_gives_what_the_reference_gives",
    "tests/properties/test_joins.py::test_the_engine_and_the_reference_agree_for_any_batches",
)  # fmt: skip


def test_arrays_that_nobody_has_written_hold_nonsense() -> None:
    assert POISONED.empty((2, 3), np.bool_).view(np.uint8).tolist() == [[BYTE] * 3] * 2
    assert (
        POISONED.empty_like(np.zeros(2), np.int64).tolist() == [int.from_bytes([BYTE] * 8, "little", signed=True)] * 2
    )
    assert POISONED.zeros(2).tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_answers_do_not_depend_on_memory_that_nobody_has_written() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.poisoned", *CASES]
    ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-1000:]
