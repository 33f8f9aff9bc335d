"""Event time across the page: where an instant stands, and where times are written."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.dataclass import dataclass
from watersmeet.model.time import UNITS_US
from watersmeet.timeline.story import Story

_SECOND, _MINUTE, _HOUR, _DAY = (UNITS_US[name] for name in ("second", "minute", "hour", "day"))
_STEPS: tuple[int, ...] = (
    *(digit * 10**power for power in range(6) for digit in (1, 2, 5)),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(digit * 10**power * _DAY for power in range(6) for digit in (1, 2, 5)),
)
MOST_TICKS = 8


@dataclass(frozen=True)
class Scale:
    """Instants from start to end on so many pixels from x on."""

    start_us: int
    end_us: int
    x: float
    width: float

    def at(self, us: int) -> float:
        """Where an instant stands; what is beyond the edge, at the edge."""
        inside = min(max(us, self.start_us), self.end_us)
        return self.x + self.width * (inside - self.start_us) / (self.end_us - self.start_us)

    @property
    def step_us(self) -> int:
        span = self.end_us - self.start_us
        return next((step for step in _STEPS if span / step <= MOST_TICKS), _STEPS[-1])

    def ticks(self) -> Iterator[int]:
        step = self.step_us
        first = -(-self.start_us // step) * step
        return iter(range(first, self.end_us + 1, step))


def span_of(story: Story) -> tuple[int, int]:
    """From the first row to the last; where no others follow on to where windows end, but no longer than twice that."""
    times = [row.at_us for lane in story.lanes if not lane.is_table for row in lane.rows]
    if not times:
        return 0, _SECOND
    start, last = min(times), max(times)
    if story.is_cut and last > start:
        return start, last
    ends = [row.until_us for lane in story.lanes for row in lane.rows if row.until_us is not None and row.is_held]
    ends += [one.since_us for one in story.answers] + [
        one.until_us for one in story.answers if one.until_us is not None
    ]
    ends += [one.at_us for one in story.matches]
    end = max([last, *(us for us in ends if us <= last + max(last - start, 0))] if last > start else [last, *ends])
    return start, end if end > start else start + _SECOND
