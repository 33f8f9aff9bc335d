"""What the checkpoint of a run in-process occupies. Nothing is changed, so the run may be going on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from watersmeet.hosts.local.durable.notes import FILE
from watersmeet.hosts.local.durable.table_loads import TABLES
from watersmeet.runtime.occupancy import JOURNAL, LEFT, NOTES, STATE, Occupied, sizes_below, sorted_by

_ORDER = (STATE, JOURNAL, TABLES, NOTES, LEFT)


def occupied(folder: Path) -> Iterator[Occupied]:
    """By every query that has its checkpoint there."""
    below = sorted(one.parent for one in folder.glob(f"*/{FILE}"))
    for one in ([folder] if (folder / FILE).exists() else []) + below:
        others = [other for other in below if other != one]
        name = () if one == folder else (one.name,)
        sizes = sizes_below(one, but=others)
        yield Occupied(str(one), "in-process", name, sorted_by(sizes, partial(_what, one), _ORDER))


def _what(folder: Path, path: Path) -> str:
    if path.name.startswith("."):
        return LEFT
    if path.parent.name == TABLES and path.parent.parent == folder:
        return TABLES
    first = path.name.partition("-")[0]
    return {"journal": JOURNAL, "snapshot": STATE, "blocks": STATE}.get(first, NOTES)
