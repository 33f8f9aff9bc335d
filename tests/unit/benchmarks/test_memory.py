"""What rows in windows take of memory."""

from __future__ import annotations

import pytest

from benchmarks.memory import CASES, told


@pytest.mark.parametrize("name", ["join of two, text as key", "DISTINCT", "join of two, three texts, spilling"])
def test_live_rows_are_weighed_beside_their_arrow_bytes(name):
    found = told(CASES[name], 20_000)
    assert all(held > 0 for held in found["state"])
    assert found["arrow"] >= 8 * len(CASES[name].columns) - 8
    assert (found["spilled"] > 0) == ("spilling" in name)
