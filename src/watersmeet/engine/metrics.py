"""What a run has done so far, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from watersmeet.model.time import BEGINNING_US

_OPTIONAL = (
    "shed_by_stream", "queue_shed_rows", "archived_rows", "archived_bytes", "lost_between", "recall_is_estimate",
    "switches", "work", "delays",
)  # fmt: skip


@dataclass
class Metrics:
    """Totals of a run. `window_rows`, `state_bytes` and `watermark_us` are as of now; the rest add up.

    `shed_rows` are rows that bounded memory let go of early, also by stream; `lost_results` is what was not found
    because of it. `exact_results` is what the answer would be without shedding, and `recall` the share of it that was
    given; all three are None if the losses are not known. `queue_shed_rows` are the rows among them that were shed
    before they were joined, as processing was too far behind; the losses are estimated then, as `recall_is_estimate`
    tells. `incomplete_rows` are rows that did not meet all their partners (DGR03's ArM): what completion would have to
    read again; `archived_rows` were written down for that.
    `work` is what one of the papers' join algorithms has counted, if one ran. `delays` says how late, in seconds of
    event time, the changes of an answer were noticed, if that could be late (pipeline = 'ita'). `plan_switches`
    counts changes of the join order, which `switches` tells of one by one where the query runs in-process.
    """

    rows_in: int = 0
    late_rows: int = 0
    stored_rows: int = 0
    expired_rows: int = 0
    shed_rows: int = 0
    shed_by_stream: dict[str, int] = field(default_factory=dict)
    queue_shed_rows: int = 0
    archived_rows: int = 0
    archived_bytes: int = 0
    results: int = 0
    lost_results: int | None = 0
    lost_between: tuple[int, int] | None = None
    recall_is_estimate: bool = False
    incomplete_rows: int | None = 0
    kernel_seconds: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    state_bytes: int = 0
    window_rows: int = 0
    watermark_us: int = BEGINNING_US
    work: dict[str, int] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    plan_switches: int = 0
    switches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def exact_results(self) -> int | None:
        return None if self.lost_results is None else self.results + self.lost_results

    @property
    def recall(self) -> float | None:
        exact = self.exact_results
        return None if exact is None else 1.0 if exact == 0 else self.results / exact

    @property
    def recall_between(self) -> tuple[float, float] | None:
        """The bounds of the recall, where it is estimated."""
        if self.lost_between is None:
            return None
        low, high = (self.results / (self.results + lost) if lost else 1.0 for lost in reversed(self.lost_between))
        return low, high

    def as_dict(self) -> dict[str, Any]:
        """All of it; what is not about every query only if there is any."""
        told = {name: value for name, value in asdict(self).items() if value or name not in _OPTIONAL}
        told |= {"exact_results": self.exact_results, "recall": self.recall}
        return told if self.lost_between is None else {**told, "recall_between": self.recall_between}
