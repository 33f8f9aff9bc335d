"""How far time goes at once: an answer is made in parts, so that whoever takes it may stop between two of them.

Rows and time that come together may bring about any number of answers: RSTREAM … EVERY and HOP answer at every step up
to where time has come, and a join without a condition gives all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.operators.waiting import Waiting

PART_ROWS = 1 << 16  # that a part should make, as answers or as combinations inside
MOST_COPIES = 1 << 18  # of the rows of one instant, that are made at a time
FIRST_STEPS, MOST_STEPS = 1 << 4, 1 << 10
FIRST_ROWS = 1 << 10  # of each input, while it is not known how many partners they have
MOST_ROWS = 1 << 20


class Parts:
    """Up to which instant to answer next. What a part made says how large the following ones are; as instants stay
    whole, answers do not depend on it."""

    def __init__(self, pace_us: int | None, copies: int) -> None:
        """pace_us: how often answers are given although nothing changes. copies: how many come of a row at least; 0 if
        it has neither copies nor partners."""
        self._pace_us = pace_us
        self._multiplied = copies > 0
        self._steps = FIRST_STEPS
        self._rows = max(FIRST_ROWS // max(copies, 1), 1)

    def next(self, reached: int, wake_us: int | None, inputs: Sequence[Waiting], until: int) -> int:
        """reached: how far the last part went. wake_us: when there is something to answer next. inputs: the rows that
        wait for time to pass them."""
        # Before what was reached where expired rows are noticed at the next input only (pipeline = 'ita').
        if wake_us is None or not reached <= wake_us < until:
            return until
        ends = [until]
        if self._pace_us is not None:
            ends.append(wake_us + self._steps * self._pace_us)
        if self._multiplied:
            ends += [time_us for one in inputs if (time_us := one.time_of(self._rows)) is not None]
        return max(min(ends), wake_us + 1)

    def made(self, rows: int) -> None:
        """What the last part made."""
        if rows > PART_ROWS:
            self._steps, self._rows = (max(1, one * PART_ROWS // rows) for one in (self._steps, self._rows))
        elif 4 * rows < PART_ROWS:
            self._steps, self._rows = min(4 * self._steps, MOST_STEPS), min(4 * self._rows, MOST_ROWS)
