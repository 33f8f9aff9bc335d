"""How far a stream was read, in the words of a reader in-process and in those of offsets, which Spark goes by."""

from __future__ import annotations

from typing import Any

KAFKA = "kafka"


def as_offsets(position: Any) -> dict[str, Any] | None:
    """What a reader says as `offsets`, `inside` and, where it is known, `files` and `of`; None where it says it in
    another way."""
    if isinstance(position, dict) and "offsets" in position:
        return position
    nexts = position.get("next") if isinstance(position, dict) else position
    if not isinstance(nexts, list):
        return None
    found: dict[str, Any] = {"offsets": {str(i): next for i, next in enumerate(nexts)}, "inside": None}
    known = position.get("of") if isinstance(position, dict) else None
    return found if known is None else {**found, "of": known}


def as_position(kind: str, offsets: dict[str, Any]) -> Any:
    """The other way round."""
    if kind != KAFKA:
        return offsets
    nexts = [int(offsets["offsets"][name]) for name in sorted(offsets["offsets"], key=int)]
    return {"of": offsets.get("of"), "next": nexts}
