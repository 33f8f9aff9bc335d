"""Which batch a start leaves out. Spark repeats the batch that it has begun and not committed, and only that one.

It is noted before it is repeated: should this start be killed between the commit of a sink and Spark's own, the next
must leave it out as well, or the state would have rows whose answers the sink passes over.
"""

from __future__ import annotations

import logging

from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint
from watersmeet.runtime.skipped_batches import not_repeated

log = logging.getLogger("watersmeet")


def left_out(checkpoint: Checkpoint, asked: frozenset[int], name: str) -> frozenset[int]:
    """The numbers of batches that are left out now: of those that are asked for, and those that a start before was
    asked for. `name`: that of the query."""
    noted = frozenset(checkpoint.notes.get("skipped", []))
    if not noted and not asked:
        return frozenset()
    repeated = checkpoint.repeated_batch()
    for number in sorted(asked - noted - {repeated}):
        log.warning("%s: %s", name, not_repeated(number))
    found = (asked | noted) & {repeated}
    if found - noted:
        checkpoint.notes.note(skipped=sorted(found))
    return frozenset(found)
