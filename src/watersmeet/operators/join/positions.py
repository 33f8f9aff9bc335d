"""Numbers of rows in a store. Indexes hold them in 32 bits: half the memory of 64, and twice as many per cache line."""

from __future__ import annotations

import numpy as np

from watersmeet.errors import DataError

MOST_ROWS = int(np.iinfo(np.int32).max)


def check_positions(rows: int) -> None:
    """Refuse more rows than can be numbered, of which the last would be found by nobody."""
    if rows > MOST_ROWS:
        raise DataError(
            f"a window would hold {rows:,} rows at once, and {MOST_ROWS:,} is the most that one store can number",
            hint="make the window shorter, bound it with OPTIONS (memory = '…'), or spread the rows over more buckets "
            "on Spark (--buckets)",
        )
