"""Rows that a sink is given as text, made in several threads in pieces and handed on in the order of their rows: text
takes many times what a join does for a row, and is made without Python's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from watersmeet.io.row_texts import pieces_of

T = TypeVar("T")


def encoded(rows: pa.RecordBatch, encode: Callable[[pa.RecordBatch], T], threads: int) -> Iterator[T]:
    """What `encode` makes of each piece of some rows, a few pieces ahead of whoever takes them."""
    pieces = list(pieces_of(rows))
    if min(threads, len(pieces)) <= 1:
        yield from map(encode, pieces)
        return
    # To start threads takes a hundredth of what a piece does, and none is left when nothing is written.
    with ThreadPoolExecutor(min(threads, len(pieces)), "watersmeet encodes") as others:
        ahead: deque[Future[T]] = deque()
        for piece in pieces:
            if len(ahead) > threads:
                yield ahead.popleft().result()
            ahead.append(others.submit(encode, piece))
        while ahead:
            yield ahead.popleft().result()
