"""What a checkpoint must know before the parts of a run are made that begins with a savepoint."""

from __future__ import annotations

from watersmeet.hosts.local.durable.beginning import Beginning
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.table_loads import begin_tables
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.side_output import SideOutput


def enter(beginning: Beginning, checkpoint: Checkpoint, plan: Plan) -> None:
    """The tables as they were, where readers go on, and that sinks have what the run before has given."""
    contents = beginning.contents
    begin_tables(checkpoint, contents.tables)
    places = contents.streams.items()
    checkpoint.notes.note(beginnings={name: one.position for name, one in places if one.position is not None})
    if not beginning.afresh:
        checkpoint.notes.note(sides=sorted(SideOutput(streams_below(plan.root)).sinks))
