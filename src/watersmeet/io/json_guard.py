"""Texts with which Arrow's parser of JSON would end the process are refused before it has them, in its own words.

It cannot take `null` for the first value of a block, nor guess the type of values that are nested very deep. Its blocks
begin where lines do, so no line may begin with `null`: one that does is no object, wherever it stands.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.io.filesystems import AnyFile

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NULL = b"null"
_END, _RETURN = b"\n\r"
_BEFORE_NULL = np.isin(np.arange(256), list(b" \tn"))  # with which a line begins that may begin with null
# One of each end, as what is sought begins with a byte then, which is found many times faster than one of a few.
_LINES_OF_NULL = (re.compile(rb"\n[ \t\r\n]*null"), re.compile(rb"\r[ \t\r\n]*null"))

_MOST_NESTED = 1_000  # the parser needs a stack of 8 MB for about 10,000
TOO_DEEP = f"values are nested more than {_MOST_NESTED:,} deep"
_NESTING = np.zeros(256, np.int8)
_NESTING[list(b"[{")], _NESTING[list(b"]}")] = 1, -1
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def refuse_null(text: bytes) -> None:
    """Raises pa.ArrowInvalid if one of these lines begins with null."""
    _refuse_null_behind_ends(b"\n" + text.removeprefix(_BYTE_ORDER_MARK))


def _refuse_null_behind_ends(text: bytes) -> None:
    found = np.frombuffer(text, np.uint8)
    before = found[:-1]  # compared, as a look into a table takes as long as parsing
    begins = found[1:][np.flatnonzero((before == _END) | (before == _RETURN))]
    if _BEFORE_NULL[begins].any() and any(one.search(text) for one in _LINES_OF_NULL):
        raise _not_an_object()


def _not_an_object() -> pa.ArrowInvalid:
    return pa.ArrowInvalid("JSON parse error: Column() changed from object to null")


def refuse_nesting(text: bytes) -> None:
    """Raises pa.ArrowInvalid if values are nested deeper than a type may be guessed of."""
    # Brackets in texts are rare enough to be left out only where they might be what is counted.
    if _nesting(text) > _MOST_NESTED and _nesting(_TEXTS.sub(b"", text)) > _MOST_NESTED:
        raise pa.ArrowInvalid(f"JSON parse error: {TOO_DEEP}")


def _nesting(text: bytes) -> int:
    return int(_NESTING[np.frombuffer(text, np.uint8)].cumsum(dtype=np.int32).max(initial=0))


def guarded_stream(path: AnyFile, *, guessing: bool = False) -> pa.NativeFile:
    """A file from front to back, unpacked if its name says that it is packed. `guessing`: its types are."""
    stream = pa.input_stream(path) if isinstance(path, Path) else path.streamed()
    return pa.PythonFile(_GuardedFile(stream, guessing), mode="r")


class _GuardedFile:
    """What Arrow reads from: every piece is looked through before it has it."""

    def __init__(self, stream: pa.NativeFile, guessing: bool) -> None:
        self._stream, self._guessing = stream, guessing
        self._is_first = True
        self._line = b"\n"  # what a line has begun with, behind the end of the one before, while that may become null

    def read(self, size: int = -1) -> bytes:
        piece: bytes = self._stream.read(size)
        text = self._line + (piece.removeprefix(_BYTE_ORDER_MARK) if self._is_first else piece)
        _refuse_null_behind_ends(text)
        if self._guessing:
            refuse_nesting(text)
        self._is_first, self._line = False, _begun(text)
        return piece

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)


def _begun(text: bytes) -> bytes:
    """
    >>> _begun(b"{}\\n nu"), _begun(b'{}\\n{"a": nu')
    (b'\\nnu', b'')
    """
    end = max(text.rfind(b"\n"), text.rfind(b"\r"))
    begun = text[end:].lstrip()
    return b"\n" + begun if end >= 0 and _NULL.startswith(begun) else b""
