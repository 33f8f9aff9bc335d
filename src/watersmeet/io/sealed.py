"""Files that carry a sum over what they hold and how they are called: one that was changed, cut, or put in the place of
another is noticed when it is read."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from watersmeet.errors import SinkError

_MARK = b"\nsum "
_DIGITS = 32
_LENGTH = len(_MARK) + _DIGITS + 1


class BrokenSealError(ValueError):
    """What was read is not what was written."""


def sealed(name: str, data: bytes) -> bytes:
    """
    >>> sealed("note", b"{}")
    b'{}\\nsum 4083e9e92b9ea3e9c3786fd8a1f5b715\\n'
    """
    return b"".join((data, _MARK, _sum_of(name, data), b"\n"))


def unsealed(name: str, data: bytes) -> memoryview:
    """What was sealed under that name.

    >>> bytes(unsealed("note", sealed("note", b"{}")))
    b'{}'
    """
    if not has_seal(data):
        raise BrokenSealError("it does not end with its sum")
    held = memoryview(data)[:-_LENGTH]
    if _sum_of(name, held) != data[-_DIGITS - 1 : -1]:
        raise BrokenSealError("it does not hold what was written under its name")
    return held


def sealed_note(name: str, data: bytes, where: str) -> dict[str, Any]:
    """What a sink has noted of its last commit."""
    try:
        return dict(json.loads(bytes(unsealed(name, data))))
    except BrokenSealError as error:
        raise SinkError(
            f"{where} is damaged: {error}",
            hint="restore the folder with its checkpoint from a copy, or start anew with another path and checkpoint",
        ) from None


def has_seal(data: bytes) -> bool:
    """Whether data ends as what is sealed does."""
    return data[-_LENGTH : -_DIGITS - 1] == _MARK and data[-1:] == b"\n"


def _sum_of(name: str, data: bytes | memoryview) -> bytes:
    whole = blake2b(name.encode() + b"\n", digest_size=_DIGITS // 2)
    whole.update(data)
    return whole.hexdigest().encode()
