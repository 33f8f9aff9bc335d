"""Notices that memory was changed under a walk that reads it by address.

A walk gives its results in pieces. Between two of them whoever reads them has the word, and may push rows or advance
time; stores then move their rows, and addresses that were taken before lead anywhere. Whatever moves counts its
changes, and a walk compares the counts before it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from watersmeet.errors import StaleResultsError


class Moving(Protocol):
    generation: int


class Unmoved:
    """Things as they stand now, which must stand so when a walk goes on."""

    def __init__(self, things: Iterable[Moving]) -> None:
        self._seen = [(thing, thing.generation) for thing in things]

    def check(self) -> None:
        if any(thing.generation != generation for thing, generation in self._seen):
            raise StaleResultsError(
                "rows were pushed or time advanced before all results of the last push were read",
                hint="read the results of each push and advance to the end before the next, for instance as a list",
            )
