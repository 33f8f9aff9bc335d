"""Ctrl-C while DuckDB works. It sees that itself, and tells it as a failure of the query, which it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_INTERRUPTED = "Query interrupted"  # as DuckDB says it


@contextmanager
def ctrl_c_as_such() -> Iterator[None]:
    """Within the block Ctrl-C raises KeyboardInterrupt, as everywhere in Python."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None
