"""When an answer that changes looks for rows that have left: as time goes on, or pane by pane.

K05 asks when a join removes what has expired; any operator over windows may be asked that. Whenever it is, all changes
are told with the instants at which they are: what waits is told later, and nothing else. A look costs 1 + N_stale rows,
as K05 counts: the front of what is held, and whatever has gathered since the last look. (It is pipeline = 'ita' that
looks with the next row, as K05's joins do.)
"""

from __future__ import annotations

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.counters import Counters


@dataclass(frozen=True)
class Passes:
    """Over what windows hold, at multiples of so much."""

    every_us: int

    def until(self, passed_us: int) -> int:
        """How far an answer may go, where time has passed so far; at the end of all input it is whole."""
        if passed_us >= FOREVER_US or passed_us <= BEGINNING_US:
            return passed_us
        return passed_us // self.every_us * self.every_us

    @staticmethod
    def count(counters: Counters, left: int) -> None:
        work = counters.work
        work["passes"] = work.get("passes", 0) + 1
        work["rows_looked_at"] = work.get("rows_looked_at", 0) + 1 + left
