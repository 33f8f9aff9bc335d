"""H02's NLW-join: a left-deep pipeline of binary nested loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.operators.kernels.memory import writable_address
from watersmeet.papers.joins.contract import Int64s
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.kernels import pipeline, pipeline_join
from watersmeet.papers.joins.output import OUTPUT_ROWS
from watersmeet.papers.joins.pipeline_plan import PipelinePlan
from watersmeet.papers.joins.pipelines import Pipeline, Pipelines, Turns, pipeline_refusal

FIRST_ROOM = 256


class NestedPipeline(Pipeline):
    """Nodes scan the whole buffer on their other side."""

    STATE = (*Pipeline.STATE, "_nodes", "_lefts")

    def __init__(self, plan: PipelinePlan, output_rows: int = OUTPUT_ROWS) -> None:
        super().__init__(plan, output_rows)
        self._nodes = np.zeros((plan.inputs, pipeline_join.NODE_FIELDS), np.int64)
        self._lefts = [np.empty((0, 0), np.int64)] * plan.inputs
        # There is no node 0: position 0 is the left input of node 1, whose m-tuples are single rows.
        for k in range(1, plan.inputs):
            self._give_room(k, FIRST_ROOM)

    @property
    def nbytes(self) -> int:
        return sum(left.nbytes for left in self._lefts)

    def _give_room(self, k: int, room: int) -> None:
        held, width = self._lefts[k], pipeline_join.MEMBERS + k
        self._lefts[k] = np.empty((room, width), np.int64)
        self._lefts[k][: len(held)] = held.reshape(len(held), width)
        self._nodes[k, pipeline_join.LEFT_ROOM] = room

    def _grow(self, buffer: int) -> None:
        self._give_room(buffer, 2 * len(self._lefts[buffer]))
        self._aim()

    def _aim(self) -> None:
        self._nodes[1:, pipeline_join.LEFT] = [writable_address(left) for left in self._lefts[1:]]

    def _step(self, columns: tuple[int, int, int], arrivals: int, plan: int, out: Int64s) -> tuple[int, int]:
        tables = (plan, writable_address(self._nodes), writable_address(self.state))
        outcome, count = pipeline_join.pipeline_join(*columns, arrivals, *tables, self.counts, out)
        return int(outcome), int(count)

    def _let_go(self, silent: Int64s, plan: int) -> None:
        tables = (plan, writable_address(self._nodes), writable_address(self.state))
        for k in filter(None, silent.tolist()):
            pipeline_join.let_go(*tables, k, self.counts)

    def _count_held(self, plan: int, now_us: int, totals: Int64s) -> None:
        pipeline_join.held(plan, writable_address(self._nodes), self.plan.inputs, now_us, totals)

    def _lower_to_held(self, oldest: Int64s) -> None:
        counted = bool(self.plan.table[pipeline.COUNTED])
        pipeline_join.oldest_members(writable_address(self._nodes), self.plan.inputs, counted, oldest)


class PipelineJoin(Pipelines):
    """The NLW-join (H02-A2); for WINDOW PATH one directed pipeline each way (A9).

    `order` gives the places in FROM from the bottom of the pipeline up. `unsigned` deletes by absolute distance, as
    printed, and loses results: for tests and the lab only.
    """

    def __init__(
        self,
        description: JoinDescription,
        *,
        order: Sequence[int] | None = None,
        turns: Turns = "arrival",
        unsigned: bool = False,
        output_rows: int = OUTPUT_ROWS,
    ) -> None:
        places = tuple(range(description.inputs)) if order is None else tuple(order)
        plans = [PipelinePlan(description, places, k) for k in range(len(description.alternatives))]
        for plan in plans:
            plan.table[pipeline.UNSIGNED] = unsigned
        super().__init__(description, [NestedPipeline(plan, output_rows) for plan in plans], turns)

    refusal = staticmethod(pipeline_refusal)
