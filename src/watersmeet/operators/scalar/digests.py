"""Sums of bytes, and bytes as text. A text is its UTF-8 bytes. Only Python has these: each is worked out once for every
value that occurs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.types import is_text
from watersmeet.operators.scalar.values import Function, Value, as_text, over_unique
from watersmeet.plan.expressions import Call


def as_bytes(value: Value) -> Value:
    return pc.cast(as_text(value) if is_text(value.type) else value, pa.binary())


def _of_bytes(function: Callable[[bytes], str | int]) -> Function:
    return lambda args, call: over_unique(as_bytes(args[0]), function, call.type)


def _of_text(function: Callable[[str], bytes]) -> Function:
    return lambda args, call: over_unique(as_text(args[0]), function, call.type)


def hexadecimal(value: Value, call: Call) -> Value:
    """Two digits a byte; a number without zeros before it, a negative one as its 64 bits."""
    if pa.types.is_integer(value.type):
        return over_unique(value, lambda number: f"{number % 2**64:X}", pa.string())
    return over_unique(as_bytes(value), lambda data: data.hex().upper(), pa.string())


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")
    except ValueError:
        raise pa.ArrowInvalid(f"{text!r} is not hexadecimal") from None


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise pa.ArrowInvalid(f"{text!r} is not Base64") from None


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise pa.ArrowInvalid(f"0x{data.hex()} is not text in UTF-8") from None


FUNCTIONS: dict[str, Function] = {
    "md5": _of_bytes(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest()),
    "sha1": _of_bytes(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest()),
    "sha256": _of_bytes(lambda data: hashlib.sha256(data).hexdigest()),
    "crc32": _of_bytes(zlib.crc32),
    "hex": lambda args, call: hexadecimal(args[0], call),
    "unhex": _of_text(_from_hex),
    "base64": _of_bytes(lambda data: base64.b64encode(data).decode()),
    "from_base64": _of_text(_from_base64),
    "encode": lambda args, call: as_bytes(args[0]),
    "decode": _of_bytes(_decoded),
    "octet_length": lambda args, call: pc.cast(pc.binary_length(as_bytes(args[0])), pa.int64()),
}
