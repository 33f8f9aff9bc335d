"""How far a durable run is, by the numbers of its batches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Progress:
    number: int = -1  # the last batch that was answered
    written: int = -1  # the last in the journal
    saved: int = -1  # the last whose state was copied to be saved
    given: int = -1  # the last whose answers, if any, were handed on
    given_before: int = -1  # the last of those that were taken by who gets them in a life before
    answered: int = -1  # the last that gave answers
    answered_before: int = -1  # the last of those that no life repeats any more
    first: int = 0  # the first of this life
    repeated: int = 0  # how many were repeated in this life
    failed: int | None = None  # the one that could not be answered
    error: BaseException | None = None  # what ended the run, if something went wrong
    rows_before: int = 0  # that came before this life
    seconds: float = 0.0  # that batches of this life took, from what came to its answers
