"""What a run has done so far, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from watersmeet.model.time import BEGINNING_US


@dataclass
class Metrics:
    """Totals of a run. `window_rows`, `state_bytes` and `watermark_us` are as of now; the rest add up.

    `exact_results` is what the answer would be without shedding, and `recall` the share of it that was given.
    `work` is what one of the papers' join algorithms has counted, if one ran. `delays` says how late, in seconds of
    event time, the changes of an answer were noticed, if that could be late (pipeline = 'ita'). `plan_switches`
    counts changes of the join order, which `switches` tells of one by one where the query runs in-process.
    """

    rows_in: int = 0
    late_rows: int = 0
    stored_rows: int = 0
    expired_rows: int = 0
    shed_rows: int = 0
    results: int = 0
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
    def exact_results(self) -> int:
        return self.results

    @property
    def recall(self) -> float:
        return 1.0 if self.exact_results == 0 else self.results / self.exact_results

    def as_dict(self) -> dict[str, Any]:
        """All of it; `work`, `delays` and `switches` only if there are any."""
        told = {
            name: value for name, value in asdict(self).items() if value or name not in ("work", "delays", "switches")
        }
        return {**told, "exact_results": self.exact_results, "recall": self.recall}
