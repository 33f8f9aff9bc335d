"""What was found about memory and recall, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

GOALS = (0.9, 0.99)


@dataclass(frozen=True)
class Trial:
    """One run over the sample: which rows were kept, in how much memory, and what was found."""

    policy: str
    allocation: str
    rows: int
    results: int
    recall: float


@dataclass(frozen=True)
class Ceiling:
    """The most that any choice of rows finds in a memory, knowing all that is to come."""

    allocation: str
    rows: int
    recall: float


@dataclass(frozen=True)
class Need:
    """The least memory that was seen to reach a recall, between two sizes by a straight line."""

    recall: float
    rows: int
    policy: str
    allocation: str


@dataclass(frozen=True)
class Advice:
    """`rows_needed` is the most that the windows held at a time, `row_bytes` what one row takes, `bound` the memory
    that the query asks for, in rows; `notes` say what to keep in mind."""

    sample_rows: int
    event_seconds: float
    seconds: float
    exact_results: int
    rows_needed: int
    row_bytes: float
    trials: tuple[Trial, ...]
    ceilings: tuple[Ceiling, ...] = ()
    bound: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies that were tried, in order."""
        return tuple(dict.fromkeys(trial.policy for trial in self.trials))

    @property
    def allocations(self) -> tuple[str, ...]:
        """The allocations that were tried, in order."""
        return tuple(dict.fromkeys(trial.allocation for trial in self.trials))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of memory that were tried, in rows."""
        return tuple(sorted({trial.rows for trial in self.trials}))

    def recall(self, policy: str, allocation: str, rows: int) -> float | None:
        """What a policy found in so many rows, if that was tried; the policy `optimum` is the ceiling."""
        known: Sequence[Trial | Ceiling] = self.ceilings if policy == "optimum" else self.trials
        for one in known:
            wanted = policy == "optimum" or (isinstance(one, Trial) and one.policy == policy)
            if wanted and (one.allocation, one.rows) == (allocation, rows):
                return one.recall
        return None

    def needs(self, recall: float) -> Need | None:
        """The least memory for a recall, and how to use it; None if no size that was tried is enough."""
        found = [
            Need(recall, rows, policy, allocation)
            for policy in self.policies
            for allocation in self.allocations
            if (rows := self._rows_for(recall, policy, allocation)) is not None
        ]
        return min(found, key=lambda one: one.rows, default=None)

    def _rows_for(self, recall: float, policy: str, allocation: str) -> int | None:
        below, found = 0, 0.0  # no memory finds nothing: the line begins there
        for rows in self.sizes:
            now = self.recall(policy, allocation, rows)
            if now is None:
                continue
            if now >= recall:
                share = 1.0 if now == found else (recall - found) / (now - found)
                return max(1, round(below + share * (rows - below)))
            below, found = rows, now
        return None

    def __str__(self) -> str:
        from watersmeet.advise.text import advice_text

        return advice_text(self)

    def plot(self, path: str | Path) -> None:
        """Draw recall by memory into a file, SVG, PNG or PDF by its name; needs matplotlib."""
        from watersmeet.advise.plot import check_plot, draw_advice

        check_plot(Path(path))
        draw_advice(self, Path(path))

    def as_dict(self) -> dict[str, Any]:
        """Names that stay: programs read them."""
        needs = [need for goal in GOALS if (need := self.needs(goal)) is not None]
        return {
            "sample_rows": self.sample_rows,
            "event_seconds": self.event_seconds,
            "seconds": self.seconds,
            "exact_results": self.exact_results,
            "rows_needed": self.rows_needed,
            "bytes_needed": self.rows_needed * self.row_bytes,
            "row_bytes": self.row_bytes,
            "bound_rows": self.bound,
            "trials": [asdict(trial) for trial in self.trials],
            "optimum": [asdict(ceiling) for ceiling in self.ceilings],
            "needs": [asdict(need) for need in needs],
            "notes": list(self.notes),
        }
