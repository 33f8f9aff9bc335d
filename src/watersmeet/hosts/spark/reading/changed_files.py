"""Files that were read and have changed since, told from where offsets are made to the driver.

Both are processes of their own, and offsets are all that goes from one to the other: the one with which a change was
noticed tells it, and Spark's progress shows it. So it is told once, in all lives of a checkpoint.

Sources of Spark use it, for which processes are started: the module imports next to nothing.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from watersmeet.io.connectors.changed_files import Changed, sentences_of

CHANGED = "changed"


class ChangedFiles(NamedTuple):
    stream: str
    files: int
    sentences: tuple[str, ...]


def changed_in_offset(stream: str, changed: Sequence[Changed]) -> dict[str, Any]:
    """What an offset says of them: it takes no lists."""
    return {"stream": stream, "files": str(len(changed)), "told": "\n".join(sentences_of(stream, changed))}


def changed_in(sources: Iterable[Any]) -> list[ChangedFiles]:
    """What the sources of a batch have noticed, as Spark's progress shows them."""
    moved = (one.endOffset for one in sources if one.endOffset != one.startOffset)
    # Most offsets say nothing of it, and name all files that were read.
    offsets = (_read(offset) for offset in moved if CHANGED in str(offset))
    found = (offset[CHANGED] for offset in offsets if CHANGED in offset)
    return [ChangedFiles(one["stream"], int(one["files"]), tuple(one["told"].split("\n"))) for one in found]


def _read(offset: str) -> dict[str, Any]:
    """As JSON; PySpark 4.2 gives what Python writes of it. Those of Spark's own sources may be neither."""
    for read in (json.loads, literal_eval):
        try:
            found = read(offset)
        except (ValueError, SyntaxError):
            continue
        return found if isinstance(found, dict) else {}
    return {}
