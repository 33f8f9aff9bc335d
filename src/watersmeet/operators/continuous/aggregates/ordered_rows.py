"""The rows of all groups in order, where rows may leave in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.aggregates.columns import grown
from watersmeet.operators.continuous.aggregates.contract import Cells, Int64s, frozen
from watersmeet.operators.kernels.cells import additions_first
from watersmeet.operators.kernels.ordered import (
    FANOUT,
    FIRST_FIELDS,
    NEEDS_ROOM,
    NODE_FIELDS,
    NOT_THERE,
    STALE,
    STATE_FIELDS,
    USED,
    entries,
    first_in_order,
    insert_all,
)

FIRST_NODES = 8


class Tree:
    """The nodes of a counted B+ tree (kernels/ordered.py), which grow while its kernels run."""

    STATE = ("nodes", "state")

    def __init__(self) -> None:
        self.nodes: Int64s = np.zeros((FIRST_NODES, NODE_FIELDS), np.int64)
        self.state: Int64s = np.zeros(STATE_FIELDS, np.int64)
        self.state[USED] = 1  # the root, an empty leaf

    def run(self, kernel: Any, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """Call kernel(*before, nodes, state, at, *after), again and again with more nodes until it is through."""
        at = np.zeros(2, np.int64)
        while (ended := kernel(*before, self.nodes, self.state, at, *after)) == NEEDS_ROOM:
            self.grow()
        if ended == NOT_THERE:
            raise AssertionError("a row left that had not come")

    def grow(self) -> None:
        """Make room for more nodes."""
        self.nodes = grown(self.nodes, self.nodes.shape[0] + FIRST_NODES, by=0.25)

    def entries(self) -> Int64s:
        """All keys as rows of (group, code, weight, payload), in order."""
        out = np.empty((int(self.state[USED]) * FANOUT, 4), np.int64)
        return out[: entries(self.nodes, self.state, out)]

    def rebuilt(self, rows: Int64s) -> Tree:
        """A tree of other rows."""
        tree = Tree()
        at = np.zeros(2, np.int64)
        while insert_all(rows, at, tree.nodes, tree.state) == NEEDS_ROOM:
            tree.grow()
        return tree

    def renamed(self, payload: Callable[[Int64s], Int64s], key: Callable[[Int64s], Int64s] | None) -> Tree:
        """A tree with other payloads, and other codes in the same order if codes are made from payloads."""
        rows = self.entries()
        rows[:, 3] = payload(rows[:, 3])
        if key is not None:
            rows[:, 1] = key(rows[:, 3])
        return self.rebuilt(rows)


class OrderedRows:
    """The first row of every group, looked up only when it may have changed."""

    STATE = ("_tree", "_counts", "_firsts")

    def __init__(self) -> None:
        self._tree = Tree()
        self._counts: Int64s = np.zeros(0, np.int64)
        self._firsts: Int64s = np.zeros((0, FIRST_FIELDS), np.int64)

    def first(self, changes: Cells, lives: Int64s, keys: Int64s, payloads: Int64s) -> tuple[Int64s, Mask]:
        """The payload of the row with the smallest key, after each cell."""
        out, valid = np.zeros(len(changes), np.int64), np.empty(len(changes), np.bool_)
        groups, lives, keys, payloads = in_turn(changes, lives, changes.groups, lives, keys, payloads)
        before = groups, lives, changes.ends, keys, payloads, self._counts, self._firsts
        self._tree.run(first_in_order, before, (out, valid))
        return out, valid

    def rename(self, payload: Callable[[Int64s], Int64s], key: Callable[[Int64s], Int64s] | None) -> None:
        """Change all payloads, and the keys too if they are made from payloads; their order stays."""
        self._tree = self._tree.renamed(payload, key)
        self._firsts[:, STALE] = 1

    def rename_keys(self, key: Callable[[Int64s], Int64s]) -> None:
        """Change all keys; their order stays."""
        rows = self._tree.entries()
        rows[:, 1] = key(np.ascontiguousarray(rows[:, 1]))
        self._tree = self._tree.rebuilt(rows)
        self._firsts[:, STALE] = 1

    def grow(self, groups: int) -> None:
        known = len(self._counts)
        self._counts, self._firsts = grown(self._counts, groups), grown(self._firsts, groups)
        # The zeros of a new group are no key.
        self._firsts[known:, STALE] = 1

    @property
    def nbytes(self) -> int:
        return self._tree.nodes.nbytes + self._counts.nbytes + self._firsts.nbytes


def in_turn(changes: Cells, lives: Int64s, *arrays: Int64s) -> tuple[Int64s, ...]:
    """The arrays with the additions of every cell before its removals."""
    order = additions_first(lives, changes.ends)
    return tuple(frozen(array[order]) for array in arrays) if order.size else arrays
