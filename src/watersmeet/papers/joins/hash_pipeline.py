"""H02's HW-join: the pipeline with hash tables on both sides of each node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.operators.kernels.memory import writable_address
from watersmeet.papers.joins.contract import Int64s
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.kernels import hash_pipeline as kernel
from watersmeet.papers.joins.kernels import pipeline
from watersmeet.papers.joins.output import OUTPUT_ROWS
from watersmeet.papers.joins.pipeline_plan import PipelinePlan
from watersmeet.papers.joins.pipelines import Pipeline, Pipelines, Turns, pipeline_refusal

FIRST_ROOM = 256
SWEEP_EVERY = 1_000  # arrivals; the paper does not say when (AMB-20), and results do not depend on it


class HashPipeline(Pipeline):
    """Nodes probe one bucket of the table on their other side. Without a given number of buckets a table has one
    for each entry it has room for, and more as it grows."""

    STATE = (*Pipeline.STATE, "_tables", "_arenas", "_heads")

    def __init__(self, plan: PipelinePlan, buckets: int | None, output_rows: int = OUTPUT_ROWS) -> None:
        super().__init__(plan, output_rows)
        self.buckets = buckets
        self._tables = np.zeros((2 * plan.inputs, kernel.TABLE_FIELDS), np.int64)
        self._tables[:, kernel.FREE] = -1
        nothing: Int64s = np.empty((0, 0), np.int64)
        self._arenas = [nothing] * (2 * plan.inputs)
        self._heads = [nothing] * (2 * plan.inputs)
        # Two tables for each node, left and right; 0 and 1 would be those of node 0, which does not exist.
        for buffer in range(2, 2 * plan.inputs):
            self._give_room(buffer, FIRST_ROOM)
            self._give_buckets(buffer, buckets or FIRST_ROOM)
        self.state[pipeline.EPOCH] = 1

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self._arenas, *self._heads))

    def _width(self, buffer: int) -> int:
        k, side = divmod(buffer, 2)
        return kernel.MEMBERS + (k if side == kernel.LEFT else 1)

    def _give_room(self, buffer: int, room: int) -> None:
        held, width = self._arenas[buffer], self._width(buffer)
        arena = np.empty((room, width), np.int64)
        arena[: len(held)] = held.reshape(len(held), width)
        self._arenas[buffer] = arena
        self._tables[buffer, kernel.ROOM] = room

    def _give_buckets(self, buffer: int, buckets: int) -> None:
        self._heads[buffer] = np.full((buckets, kernel.HEAD_FIELDS), -1, np.int64)
        self._tables[buffer, kernel.BUCKETS] = buckets

    def _grow(self, buffer: int) -> None:
        room = 2 * len(self._arenas[buffer])
        self._give_room(buffer, room)
        if self.buckets is None:
            self._give_buckets(buffer, room)
        self._aim()
        # Chains may move: a table only grows when no walk is in it (see climb).
        kernel.relink(writable_address(self._tables[buffer]), self._width(buffer))

    def _aim(self) -> None:
        self._tables[2:, kernel.ARENA] = [writable_address(arena) for arena in self._arenas[2:]]
        self._tables[2:, kernel.HEADS] = [writable_address(heads) for heads in self._heads[2:]]

    def _step(self, columns: tuple[int, int, int], arrivals: int, plan: int, out: Int64s) -> tuple[int, int]:
        tables = (plan, writable_address(self._tables), writable_address(self.state))
        outcome, count = kernel.hash_pipeline(*columns, arrivals, *tables, self.counts, out)
        return int(outcome), int(count)

    def _let_go(self, silent: Int64s, plan: int) -> None:
        """Buckets that no probe visits are swept, those of silent inputs among them."""

    def _count_held(self, plan: int, now_us: int, totals: Int64s) -> None:
        kernel.held(plan, writable_address(self._tables), self.plan.inputs, now_us, totals)

    def _lower_to_held(self, oldest: Int64s) -> None:
        if self.plan.table[pipeline.COUNTED]:
            kernel.oldest_members(writable_address(self._tables), self.plan.inputs, oldest)


class HashPipelineJoin(Pipelines):
    """The HW-join (H02-A3); for WINDOW PATH one directed pipeline each way (A9).

    `order` gives the places in FROM from the bottom of the pipeline up; by default the first order, by place, in
    which every input shares a key with one before it. Buckets that no probe visits are swept after `sweep_every`
    arrivals, or as many as there are buckets if these are more: a sweep then costs an arrival about one bucket.
    """

    def __init__(
        self,
        description: JoinDescription,
        *,
        order: Sequence[int] | None = None,
        turns: Turns = "arrival",
        buckets: int | None = None,
        sweep_every: int = SWEEP_EVERY,
        output_rows: int = OUTPUT_ROWS,
    ) -> None:
        places = keyed_order(description) if order is None else tuple(order)
        plans = [PipelinePlan(description, places, k) for k in range(len(description.alternatives))]
        for plan in plans:
            plan.table[pipeline.PURGE_EVERY] = sweep_every
        super().__init__(description, [HashPipeline(plan, buckets, output_rows) for plan in plans], turns)

    @staticmethod
    def refusal(description: JoinDescription) -> str | None:
        """Why hash tables cannot answer this join, or None if they can."""
        if len(keyed_order(description)) < description.inputs:
            return "a hash join needs equalities that connect all inputs, and some input has none with the others"
        return pipeline_refusal(description)


def keyed_order(description: JoinDescription) -> tuple[int, ...]:
    """The inputs, each but the first sharing an equality with one before it; fewer than all if that is impossible."""
    equal = {(p.left, p.right) for p in description.predicates if p.operator == "eq"}
    order, waiting = [0], list(range(1, description.inputs))
    while waiting:
        keyed = [v for v in waiting if any((u, v) in equal or (v, u) in equal for u in order)]
        if not keyed:
            break
        order.append(keyed[0])
        waiting.remove(keyed[0])
    return tuple(order)
