"""A start over a checkpoint with a query that has changed, and that can go on with what the one before has kept.

The one before comes back first, made again from its text: it repeats what it has to, its answers go to its sink, and
its state is saved. What it knows then is told as a savepoint tells it, and the changed query goes on with that: the
same run, behind one more batch, in which nothing came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.change_note import noted_in
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.run_parts import MakeSink
from watersmeet.io.connectors.contract import NumberedSink, Reader
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.query import Plan
from watersmeet.runtime.changes import changes, from_notes, goes_on, is_of_streams
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.rebinding import plan_of
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.contents import QueryContents


def query_before(place: Place, plan: Plan) -> Plan | None:
    """The query that a checkpoint is of, where it is another one that goes on with what this has kept."""
    noted = noted_in(place)
    held = from_notes(noted)
    if held is None or noted["query"] == sum_of(identity_of(plan)):
        return None
    found = changes(held, plan)
    if not found or not goes_on(found) or is_of_streams(found):
        return None
    before = None if noted.get("text") is None else plan_of(noted["text"], plan)
    if before is None:
        raise RunError(
            f"the checkpoint {place.shown()} is of the query as it was, which cannot be read without what it was "
            "declared with",
            hint=f"watersmeet savepoint {place.shown()} OUT --script OLD.sql, then watersmeet run NEW.sql --from OUT "
            "with a new --checkpoint",
        )
    return before


def what_it_knows(
    before: Plan,
    place: Place,
    make_sink: MakeSink,
    readers: Mapping[str, Reader],
    settings: RunSettings,
    tell: Tell,
    wired: Callable[[DurableExecution], None] = lambda run: None,
) -> QueryContents:
    """Of the query before, all of whose batches are answered now, with the answers in its sink."""
    own = replace(settings, script=None, writes_on=False)
    run = DurableExecution(before, place, make_sink, readers, own, tell=tell)
    wired(run)
    return run.recover_only()


class Untaken(NumberedSink):
    """In the place of answers that wait to be taken by a program: of the query as it was nobody can take them now."""

    def __init__(self, place: Place) -> None:
        self._shown = place.shown()

    def committed(self) -> int:
        return -1

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if any(batch.num_rows for batch in rows):
            raise RunError(
                f"answers of the query as it was, up to batch {number:,} of {self._shown}, were not taken, and a query "
                "that has changed does not give them",
                hint="start it as it was, take what waits, stop it, then start it changed",
            )
