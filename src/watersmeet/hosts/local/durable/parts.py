"""A batch of which more answers come than are given at once: they are given in parts, each under a number of its own.

Where a part ends follows from the answers alone, however they came, so a batch that is repeated has the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.operators.answers import Answer, as_batches
from watersmeet.plan.nodes import AT

PART_ROWS = 1 << 20


class LeftInTheMiddle(BaseException):
    """A stop was asked for, and the batch in hand is not finished: a later start repeats it."""


def cut(answers: Sequence[Answer], rows: int) -> tuple[list[Answer], list[Answer]] | None:
    """The first answers, about so many rows, and the others; None if there are fewer. What changes at one instant is
    not divided."""
    before: list[Answer] = []
    held = 0
    for place, one in enumerate(answers):
        if held + one.num_rows > rows:
            (batch,) = as_batches([one])
            at = rows - held
            if AT in batch.schema.names:
                instants = batch.column(AT).to_numpy(zero_copy_only=False)
                first = int(np.searchsorted(instants, instants[at]))
                at = first if held + first else int(np.searchsorted(instants, instants[at], side="right"))
            return [*before, batch.slice(0, at)], [batch.slice(at), *answers[place + 1 :]]
        before.append(one)
        held += one.num_rows
    return None
