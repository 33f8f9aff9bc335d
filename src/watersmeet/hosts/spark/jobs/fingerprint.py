"""Whose state lies in a checkpoint, in a short text: the format of the state, and the sum of what it depends on."""

from __future__ import annotations

from collections.abc import Iterable

from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.query import Plan

# To be raised whenever what lies in the state store can no longer be read by the code that reads it now.
STATE_FORMAT = 6
_UNNUMBERED = "3 or before"  # fingerprints of these did not tell
ANOTHER = (
    "belongs to another query, or to the same one with other columns, buckets, or rates that spread its rows "
    "differently"
)
GUARDED = "this checkpoint"  # how the guard of a state begins what it says
GO_BACK = "start the changed query with a new checkpoint, or go back to the query that wrote this one"
OTHER_VERSION = "go on with the version of watersmeet that wrote it, or start anew with a new checkpoint"


def fingerprint_of(plan: Plan, more: Iterable[str]) -> str:
    """What must not change between two runs on one checkpoint: what the query asks, and `more`: where rows lie."""
    return f"{STATE_FORMAT}-{sum_of(identity_of(plan), *more)}"


def is_of_this_format(fingerprint: str) -> bool:
    return fingerprint.startswith(f"{STATE_FORMAT}-")


def refusal(held: str) -> tuple[str, str]:
    """Why state under another fingerprint than ours is not ours, and what would do."""
    if is_of_this_format(held):
        return ANOTHER, GO_BACK
    number, dash, _ = held.partition("-")
    written = number if dash else _UNNUMBERED
    return f"holds state of format {written}, and this version of watersmeet reads format {STATE_FORMAT}", OTHER_VERSION
