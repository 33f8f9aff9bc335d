"""Which watersmeet this is: two processes that exchange plans must run the same one."""

from __future__ import annotations

import zlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def code() -> str:
    """A short sum over the sources, in a folder or a zip: a version alone does not tell two copies at work apart."""
    total = 0
    # Sorted, as folders and zips list their files in orders of their own.
    for name, source in sorted(_sources(files("watersmeet"), "")):
        total = zlib.crc32(source, zlib.crc32(name.encode(), total))
    return f"{total:08x}"


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.name.endswith(".py"):
            found.append((prefix + entry.name, entry.read_bytes()))
        elif entry.is_dir() and entry.name != "__pycache__":
            found += _sources(entry, f"{prefix}{entry.name}/")
    return found
