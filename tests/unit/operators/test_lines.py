"""Tables that begin with a line of the cache."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.operators.lines import zeros_in_lines


@pytest.mark.parametrize("rows", [0, 1, 64, 100_000])
@pytest.mark.parametrize("fields", [4, 5])
def test_a_table_begins_with_a_line_and_holds_zeros(rows: int, fields: int) -> None:
    made = [zeros_in_lines(rows, fields) for _ in range(5)]
    for one in made:
        assert one.shape == (rows, fields)
        assert one.flags.c_contiguous
        assert one.flags.writeable
        assert not one.any()
        assert rows == 0 or one.ctypes.data % 64 == 0
        one[:] = -1
    assert all(np.all(one == -1) for one in made)
