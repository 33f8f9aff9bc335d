"""Rows of a stream as an operator keeps them, so that another one of the same stream may begin with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US, Times
from watersmeet.plan.expressions import Expression
from watersmeet.plan.identity import neutral_text


@dataclass(frozen=True)
class KeptRows:
    """In the order of their times, with the columns that are kept. From `since_us` on none is missing that passes the
    conditions `passed`, which are texts without the name that a query has for the stream; no row at all was left out
    after `left_out_us`."""

    data: pa.RecordBatch
    times: Times
    since_us: int
    passed: frozenset[str] = frozenset()
    left_out_us: int = BEGINNING_US

    def __len__(self) -> int:
        return int(self.times.size)

    def since_for(self, columns: Collection[str], tested: Collection[str]) -> int:
        """From which instant on they are all for a query that looks at these columns, and only at rows that pass these
        conditions; FOREVER_US if they never are."""
        if not set(columns) <= set(self.data.schema.names):
            return FOREVER_US
        return self.since_us if self.passed <= set(tested) else max(self.since_us, self.left_out_us + 1)

    def of_late_start(self, since_us: int, left_out_us: int) -> KeptRows:
        """As kept by one that began with rows from an instant on, of which up to another some had been left out."""
        since_us, left_out_us = max(since_us, self.since_us), max(left_out_us, self.left_out_us)
        return replace(self, since_us=since_us, left_out_us=left_out_us)

    def and_also(self, others: Sequence[KeptRows]) -> KeptRows:
        """With other rows of the same input, kept by others for as long."""
        if not others:
            return self
        times = np.concatenate([self.times, *(one.times for one in others)])
        in_order = np.argsort(times, kind="stable")
        data = pa.concat_batches([self.data, *(one.data for one in others)])
        left_out_us = max(one.left_out_us for one in [self, *others])
        return replace(self, data=data.take(pa.array(in_order)), times=times[in_order], left_out_us=left_out_us)


def tests_of(filters: Collection[Expression], codes: Collection[Expression]) -> frozenset[str]:
    """The conditions on rows of which some pass filters, and none of these values of which is NULL."""
    return frozenset([*map(neutral_text, filters), *(f"{neutral_text(code)} is not NULL" for code in codes)])
