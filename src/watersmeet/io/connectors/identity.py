"""What is read, told from another that was made anew under the same name: offsets of the one mean nothing there."""

from __future__ import annotations

from watersmeet.errors import SourceError
from watersmeet.io.connectors.contract import PartitionedSource


def check_identity(source: PartitionedSource, noted: str | None) -> None:
    """Refuse to go on if what was noted at the beginning is not what is there now."""
    if noted is None:
        return
    now = source.identity()
    if now is not None and now != noted:
        raise made_anew(source.description)


def made_anew(what: str) -> SourceError:
    return SourceError(
        f"{what}, is not what this run has read: it was deleted and made anew, or the stream read another before",
        hint="name what it read before, or start anew with another checkpoint, from start = 'earliest' or at a time; "
        "what was read stays answered",
    )
