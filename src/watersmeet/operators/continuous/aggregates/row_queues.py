"""The first row of every group by a key, where rows leave in the order they came."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s
from watersmeet.operators.kernels.queues import (
    KEY,
    NODE_FIELDS,
    PAYLOAD,
    QUEUE_FIELDS,
    ROOM_FIELDS,
    SPARE,
    USED,
    first_in_queues,
)


class RowQueues:
    """A monotonic queue per group; see kernels/queues.py."""

    STATE = ("_queues", "_used", "_room")

    def __init__(self) -> None:
        self._queues: Int64s = np.zeros((0, QUEUE_FIELDS), np.int64)
        self._nodes: Int64s = np.zeros((0, NODE_FIELDS), np.int64)
        self._room: Int64s = np.zeros(ROOM_FIELDS, np.int64)

    def first(self, changes: Cells, lives: Int64s, keys: Int64s, payloads: Int64s) -> tuple[Int64s, Mask]:
        """The payload of the row with the smallest key, after each cell."""
        coming = int(np.count_nonzero(lives > 0))
        # Freed nodes are used again, so those in use and one for each row that comes are enough.
        self._nodes = grown(self._nodes, int(self._room[USED] - self._room[SPARE]) + coming, by=0.25)
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        first_in_queues(
            changes.groups, lives, changes.ends, keys, payloads, self._queues, self._nodes, self._room, out, valid
        )
        return out, valid

    def rename(self, payload: Callable[[Int64s], Int64s], key: Callable[[Int64s], Int64s] | None) -> None:
        """Change all payloads, and the keys too if they are made from payloads; their order stays."""
        self._nodes[:, PAYLOAD] = payload(self._nodes[:, PAYLOAD])
        if key is not None:
            self._nodes[:, KEY] = key(self._nodes[:, PAYLOAD])

    def grow(self, groups: int) -> None:
        self._queues = grown(self._queues, groups)

    @property
    def nbytes(self) -> int:
        return self._queues.nbytes + self._used.nbytes

    @property
    def _used(self) -> Int64s:
        """Without the nodes that were kept ready and never used."""
        return self._nodes[: self._room[USED]]

    @_used.setter
    def _used(self, nodes: Int64s) -> None:
        self._nodes = nodes
