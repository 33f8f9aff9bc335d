"""The baselines that H02 adapts to windows: old rows stay until a periodic purge, every 10 000 inputs."""

from __future__ import annotations

from watersmeet.operators.classic.description import Description
from watersmeet.operators.classic.output import OUTPUT_ROWS
from watersmeet.operators.classic.w_join import WJoin

PURGE_EVERY = 10_000


class RippleJoin(WJoin):
    """The ripple join: nested loops over everything kept of the other inputs (H02-B1)."""

    def __init__(
        self, description: Description, *, purge_every: int = PURGE_EVERY, output_rows: int = OUTPUT_ROWS
    ) -> None:
        super().__init__(description, purge_every=purge_every, output_rows=output_rows)
