"""How Spark's state of a query is laid out, as a number that goes before its fingerprint: `4-5f0c…`.

Whoever finds a state of another format can then say so, instead of taking it for that of another query.
"""

from __future__ import annotations

from watersmeet.version import VERSION

LOG_OF_ROWS = 3  # is not written, as checkpoints of version 0.1 have no number
# A state that is kept whole is one of named arrays (operators/saving.py), which have a format number themselves. It was
# a pickle, under the number of logs.
KEPT_WHOLE = 4
NEW_CHECKPOINT = "start anew with a new checkpoint, or go on with the version that wrote this one"


def with_format(fingerprint: str, number: int) -> str:
    return fingerprint if number == LOG_OF_ROWS else f"{number}-{fingerprint}"


def other_format(held: str, wanted: str, version: str = "") -> str | None:
    """What is to be said if a state is that of the query wanted, but in another format, or in one that is not known
    here; by their fingerprints, and by the version of watersmeet that wrote it if that is known."""
    (given, of), (read, asked) = _parted(held), _parted(wanted)
    if given == read or (of != asked and given in (LOG_OF_ROWS, KEPT_WHOLE)):
        return None
    writer = f"watersmeet {version}" if version else "another version of watersmeet"
    return f"was written by {writer} in state format {given}; this is watersmeet {VERSION}, which reads format {read}"


def _parted(fingerprint: str) -> tuple[int, str]:
    number, dash, rest = fingerprint.partition("-")
    return (int(number), rest) if dash and number.isdigit() else (LOG_OF_ROWS, fingerprint)
