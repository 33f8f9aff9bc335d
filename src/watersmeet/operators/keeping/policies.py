"""Which rows are worth their memory.

A priority is how many results a row may still bring, made of two parts: how often its partners come, from the key
counts of the other streams, and a factor for its age.

    rand   a random number for each row, which stays
    prob   how often partners came, ever since the start (DGR03's PROB)
    life   the same x how long the row will stay in its window (DGR03's LIFE)
    age    the same x the best rate of matches that rows of its age can still look forward to, as learnt: rows past
           the age at which partners come are worth nothing, rows before it are
    drift  how often partners came of late x how much of the near future the row will see: the expected benefit when
           keys come and go
    arm    how many rows its loss would leave incomplete, itself and partners to come, for the time it would stay: a
           row that is incomplete already is worth next to nothing, so that losses gather in few keys (DGR03 names
           the measure, ArM, and leaves the policy open)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.dataclass import dataclass
from watersmeet.operators.keeping.kernels.priorities import best_means

Bins = npt.NDArray[np.float64]

AGE_BINS = 256
# After how much of a window what a key did counts half, when keys drift.
HALF_LIFE = 1 / 8
MIN_REFRESHED = 32.0
# Matches at single ages are few: neighbouring bins are taken together.
SMOOTHED_BINS = 4


@dataclass(frozen=True)
class Policy:
    """`keys`: whether priorities depend on keys. `fades`: whether what came long ago counts less. `ageing`: whether
    priorities of rows in memory change as they grow older. `completes`: whether priorities are about rows that stay
    complete, not about results."""

    name: str
    keys: bool = True
    fades: bool = False
    learns_ages: bool = False
    ageing: bool = False
    completes: bool = False

    @property
    def needs_records(self) -> bool:
        """Whether it goes by what became of rows that lost their memory."""
        return self.learns_ages or self.completes

    @property
    def is_of_turns(self) -> bool:
        """Whether priorities go by the rows that came alone, and not by what became of them."""
        return not self.needs_records

    @property
    def refreshed_after(self) -> tuple[float, float, float]:
        """After how many new rows all priorities are to be looked at again, as parts of the rows in memory and of all
        that ever came, and at least: if they age when a tenth of them may be new, else when what is known of keys has
        grown by half."""
        return (1 / 10, 0.0, 0.0) if self.ageing else (0.0, 1 / 3, MIN_REFRESHED)

    def new_rows_to_refresh(self, in_memory: int, ever: int) -> float:
        """The same as a number of rows."""
        of_memory, of_ever, least = self.refreshed_after
        return max(of_memory * in_memory, of_ever * ever, least)

    def by_age(self, ages: AgeCurve) -> Bins:
        """The factor for every bin of age, from 0 to the whole life."""
        left = 1.0 - (np.arange(AGE_BINS) + 0.5) / AGE_BINS
        match self.name:
            case "life":
                return left
            case "drift":
                return 1.0 - 0.5 ** (left / HALF_LIFE)
            case "age":
                return ages.best_rates()
        return np.ones(AGE_BINS)


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("rand", keys=False),
        Policy("prob"),
        Policy("life", ageing=True),
        Policy("age", learns_ages=True, ageing=True),
        Policy("drift", fades=True, ageing=True),
        Policy("arm", ageing=True, completes=True),
    )
}


class AgeCurve:
    """At which ages the rows of a stream are matched, for each row that reaches the age."""

    STATE = ("matched", "exposed")

    def __init__(self) -> None:
        self.matched: Bins = np.zeros(AGE_BINS)
        self.exposed: Bins = np.zeros(AGE_BINS)

    def best_rates(self) -> Bins:
        """For each age, the highest mean rate over any stretch of the life that begins there."""
        if not self.matched.any():
            return np.ones(AGE_BINS)
        exposed = self.exposed + max(float(self.exposed.mean()), 1.0) / 16
        rates = _smoothed(self.matched / exposed)
        best = best_means(rates)
        # Against the mean of the stream, so that streams whose partners come at other ages compare in one pool.
        shares: Bins = best / rates.mean() + 1e-9
        return shares

    def fade(self) -> None:
        self.matched *= 0.98
        self.exposed *= 0.98


def _smoothed(rates: Bins) -> Bins:
    kernel = np.ones(SMOOTHED_BINS) / SMOOTHED_BINS
    return np.convolve(np.pad(rates, SMOOTHED_BINS // 2, mode="edge"), kernel, mode="same")[
        SMOOTHED_BINS // 2 : SMOOTHED_BINS // 2 + AGE_BINS
    ]
