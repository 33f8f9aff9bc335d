"""By what the rows of a run in this process are placed: in how many threads, and which keys are spread over them."""

from __future__ import annotations

from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.plan.options import Options
from watersmeet.plan.spread import Spread


@dataclass(frozen=True)
class Placing:
    """`spread` as it may be written in OPTIONS."""

    threads: int = 1
    spread: str | None = None

    @staticmethod
    def of(threads: int, options: Options) -> Placing:
        """One thread has all keys."""
        return Placing(threads, None if threads == 1 or options.spread is None else str(options.spread))

    def within(self, options: Options) -> Options:
        """The options that ask for it."""
        return options.but(threads=self.threads, spread=None if self.spread is None else Spread.parse(self.spread))

    def as_json(self) -> list[Any]:
        """One thread takes no room.

        >>> Placing().as_json(), Placing(2).as_json(), Placing(*Placing(2, "a: 17").as_json())
        ([], [2], Placing(threads=2, spread='a: 17'))
        """
        if self.spread is not None:
            return [self.threads, self.spread]
        return [self.threads] if self.threads > 1 else []
