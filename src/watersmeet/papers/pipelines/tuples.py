"""What flows between H04's operators: positive, negative and invalid tuples with their tuple-orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.continuous.delta import Int64s, empty_batch, joined
from watersmeet.operators.contract import Positions

POSITIVE, NEGATIVE, INVALID = 1, -1, -2  # enters; has left its window; is withdrawn although its window has it
NEVER = FOREVER_US  # the timestamp of a constituent that a tuple does not have, or that never expires
Int64Table = npt.NDArray[np.int64]  # of two dimensions


@dataclass(frozen=True)
class Tuples:
    """Rows with the instant at which each is output (its maxTS), in that order; what happens at one instant stands in
    the order in which it happened.

    `stamps` has the timestamps of the constituents, a column for each input of FROM, under time probing; under negative
    tuples there are none, as nobody expires by time. `order` is the number of a tuple, under which it is withdrawn.
    """

    STATE: ClassVar = ("data", "instants", "kinds", "order", "stamps")

    data: pa.RecordBatch
    instants: Int64s
    kinds: Int64s
    order: Int64s
    stamps: Int64Table

    def __len__(self) -> int:
        return int(self.instants.size)

    def take(self, positions: Positions) -> Tuples:
        return Tuples(
            self.data.take(pa.array(positions)),
            self.instants[positions],
            self.kinds[positions],
            self.order[positions],
            self.stamps[positions],
        )

    def before(self, instant: int) -> tuple[Tuples, Tuples]:
        """The tuples before an instant, and the others."""
        cut = int(np.searchsorted(self.instants, instant))
        everyone = np.arange(len(self))
        return self.take(everyone[:cut]), self.take(everyone[cut:])


def no_tuples(schema: pa.Schema, stamps: int) -> Tuples:
    nothing = np.empty(0, np.int64)
    return Tuples(empty_batch(schema), nothing, nothing, nothing, np.empty((0, stamps), np.int64))


def together(parts: Sequence[Tuples], schema: pa.Schema) -> Tuples:
    """Several outputs as one, by their instants; of those at one instant the first part's come first."""
    full = [part for part in parts if len(part)]
    if not full:
        return no_tuples(schema, parts[0].stamps.shape[1])
    everything = Tuples(
        joined([part.data for part in full], schema),
        np.concatenate([part.instants for part in full]),
        np.concatenate([part.kinds for part in full]),
        np.concatenate([part.order for part in full]),
        np.concatenate([part.stamps for part in full]),
    )
    return everything.take(np.argsort(everything.instants, kind="stable"))
