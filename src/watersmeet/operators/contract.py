"""What the engine asks of an operator: take batches and time, give batches. Nothing about hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import Times
from watersmeet.physical.estimate import Switch
from watersmeet.physical.strategy import Code

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of one input in arrival order, with their event times.

    `coded`: the door of a join (join/admission) let these rows in before, elsewhere, and the codes it made of them lie
    in these columns of `data`. Nobody needs to filter or encode them again; what only that needed may be missing.
    """

    data: pa.RecordBatch
    times: Times
    coded: Mapping[Code, str] | None = None

    def __len__(self) -> int:
        return int(self.times.size)

    def take(self, positions: Positions) -> Rows:
        return Rows(self.data.take(pa.array(positions)), self.times[positions], self.coded)

    def slice(self, start: int, stop: int) -> Rows:
        return Rows(self.data.slice(start, stop - start), self.times[start:stop], self.coded)

    @staticmethod
    def together(parts: Sequence[Rows]) -> Rows:
        """Several pieces of one input, at least one, as one."""
        if len(parts) == 1:
            return parts[0]
        data = pa.concat_batches([part.data for part in parts])
        return Rows(data, np.concatenate([part.times for part in parts]), parts[0].coded)


@dataclass
class Counters:
    """What an operator has done so far. Whole numbers, except the seconds spent inside kernels.

    `shed_rows` are those that lost their memory early, by stream, and `lost_results` what was not found because of it,
    None if that is not known; `lost_between` are its bounds where it is estimated, and `incomplete_rows` the members of
    such results. `queue_shed_rows` are those of the shed rows that were never joined; what they themselves would have
    found is estimated. `work` is what one of the papers' algorithms has counted, by name; empty for other operators.
    `switches` are the changes of a join's routes.
    """

    stored_rows: int = 0
    expired_rows: int = 0
    results: int = 0
    lost_results: int | None = 0
    lost_between: tuple[int, int] | None = None
    incomplete_rows: int | None = 0
    shed_rows: dict[str, int] = field(default_factory=dict)
    queue_shed_rows: int = 0
    kernel_seconds: float = 0.0
    work: dict[str, int] = field(default_factory=dict)
    switches: list[Switch] = field(default_factory=list)

    @property
    def losses_are_estimated(self) -> bool:
        return self.lost_between is not None or (self.queue_shed_rows > 0 and self.lost_results is not None)


class Operator(Protocol):
    """Inputs are named by their alias in the query."""

    @property
    def counters(self) -> Counters: ...

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Take new rows; results that are certain come at once."""
        ...

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """No row before these times will come any more: emit what waited for that, forget what it makes useless."""
        ...

    def restore(self, log: Mapping[str, Rows], complete_until: int) -> None:
        """Take back rows that were pushed before, and time that had come this far, without answering again."""
        ...

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> npt.NDArray[np.bool_]:
        """Which of all the rows ever pushed for an input a restore would miss, now that time has come this far."""
        ...

    @property
    def window_rows(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...
