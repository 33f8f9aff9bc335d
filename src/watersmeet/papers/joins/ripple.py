"""The baselines that H02 adapts to windows: old rows stay until a periodic purge, every 10 000 inputs."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.hash_pipeline import HashPipelineJoin
from watersmeet.papers.joins.kernels import pipeline
from watersmeet.papers.joins.output import OUTPUT_ROWS
from watersmeet.papers.joins.pipelines import Turns
from watersmeet.papers.joins.w_join import WJoin

PURGE_EVERY = 10_000  # H02 section 4.3, Figures 7 and 8


class RippleJoin(WJoin):
    """The ripple join: nested loops over everything kept of the other inputs (H02-B1)."""

    def __init__(
        self, description: JoinDescription, *, purge_every: int = PURGE_EVERY, output_rows: int = OUTPUT_ROWS
    ) -> None:
        super().__init__(description, purge_every=purge_every, output_rows=output_rows)


class XJoin(HashPipelineJoin):
    """The XJoin's part in memory (H02-B2): probes delete nothing, and every `purge_every` inputs all buckets are
    looked over."""

    def __init__(
        self,
        description: JoinDescription,
        *,
        order: Sequence[int] | None = None,
        turns: Turns = "arrival",
        buckets: int | None = None,
        purge_every: int = PURGE_EVERY,
        output_rows: int = OUTPUT_ROWS,
    ) -> None:
        super().__init__(
            description, order=order, turns=turns, buckets=buckets, sweep_every=purge_every, output_rows=output_rows
        )
        for one in self.pipelines:
            one.plan.table[pipeline.LAZY] = one.plan.table[pipeline.PURGE_ALL] = 1
