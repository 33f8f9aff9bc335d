"""What a durable run says of itself in a savepoint, after the batch that was answered last; and how another run begins
with what one says.

The new run has a checkpoint and a name of its own. All before the savepoint is its batch FIRST, whose answers the run
before has given; the state after it is saved before anything else is done, so that the savepoint is needed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

import numpy as np

from watersmeet.hosts.local.durable.beginning import Beginning
from watersmeet.hosts.local.durable.run_parts import RunParts
from watersmeet.hosts.local.durable.snapshots import Snapshot
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.io.connectors.readers import kind_of
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.saving import state_of
from watersmeet.optimizer.choose_partition_key import choose_resting_key
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.plan.identity import identity_of
from watersmeet.runtime.kept_of_joins import kept_of_join
from watersmeet.runtime.savepoints.contents import QueryContents, StreamPlace
from watersmeet.runtime.savepoints.fitting import check_kinds, whole_since
from watersmeet.runtime.savepoints.moments import load_moment, moment_of

FIRST = 0
HOST = "in-process"


# ---- taking one -----------------------------------------------------------------------------------------------------


def contents_of(parts: RunParts) -> QueryContents:
    """As it is after the last batch, in arrays of its own: the run may go on."""
    execution = parts.answering.execution
    sides = {name: parts.outputs.sides.last_with_rows.get(name, -1) for name in parts.outputs.sides.names}
    with parts.answering.lock:
        state = _copied(keyed_state(execution))
        return QueryContents(
            sql=execution.plan.sql.strip(),
            identity=parts.checkpoint.identity.query,
            options=parts.checkpoint.identity.options,
            pipeline=parts.checkpoint.pipeline,
            host=HOST,
            run=parts.checkpoint.run,
            batch=parts.progress.number,
            sides=sides,
            streams=_places(parts),
            moment=moment_of(execution.clock, parts.answering.wall.now_us()),
            key=words_of(key_of(execution)),
            state=state,
            present=execution.present_parts(),
            pushed=parts.taken_pushes.as_json(),
            tables=execution.held_tables(),
            asked=identity_of(execution.plan),
            gives=execution.plan.kind,
            kept=kept_of_join(execution.plan, state),
            whole_us=execution.whole_us,
        )


def _places(parts: RunParts) -> dict[str, StreamPlace]:
    positions = parts.readers.positions()
    found = {}
    for name, clock in parts.answering.execution.clock.clocks.items():
        reader = parts.readers.of.get(name)
        kind = None if reader is None else kind_of(reader)
        position = positions.get(name)
        if position is None and reader is not None:  # nothing of it was read
            position = parts.checkpoint.notes.get("beginnings", {}).get(name, reader.first_position())
        found[name] = StreamPlace(kind, position, clock.last_us, clock.oldest_us)
    return found


def key_of(execution: PushedExecution) -> PartitionKey | None:
    """By which its rows lie together, if its state divides."""
    key = choose_resting_key(execution.plan, plan_query(execution.plan))
    return None if key is None or execution.operator.undivided(key) is not None else key


def keyed_state(execution: PushedExecution) -> KeyedState:
    key, operator = key_of(execution), execution.operator
    if key is None:
        return KeyedState(whole=operator.save(tables=False).values, whole_rows=operator.kept_rows)
    return operator.keyed_state(key)


def words_of(key: PartitionKey | None) -> str | None:
    if key is None:
        return None
    by = ", ".join(sorted(str(code) for code in key.codes.values()))
    return by if key.fragment is None else f"anything, of {key.fragment}"


def _copied(state: KeyedState) -> KeyedState:
    """Without what the operator goes on with; what Arrow holds never changes."""

    def rows(one: KeyedRows) -> KeyedRows:
        return KeyedRows(one.keys.copy(), one.origins, {name: n.copy() for name, n in one.numbers.items()}, one.data)

    return replace(
        state,
        counters=deepcopy(state.counters),
        rows={name: rows(one) for name, one in state.rows.items()},
        copies={name: rows(one) for name, one in state.copies.items()},
        whole={name: one.copy() if isinstance(one, np.ndarray) else one for name, one in state.whole.items()},
    )


# ---- beginning with one ---------------------------------------------------------------------------------------------


def begin_with(parts: RunParts, beginning: Beginning) -> None:
    """Bring fresh parts to where another run was, and save that."""
    contents, execution, progress = beginning.contents, parts.answering.execution, parts.progress
    check_kinds(contents, _kinds(parts))
    wall = parts.answering.wall
    wall.go_on()
    _bring(parts, contents)
    places = contents.streams.items()
    parts.readers.resume({name: place.position for name, place in places if place.position is not None})
    if contents.pushed is not None:
        parts.taken_pushes.load(contents.pushed)
    progress.number = progress.written = progress.given = progress.saved = FIRST
    state = state_of(execution, tables=False)
    notes = {
        "positions": parts.readers.positions(),
        "wall": [wall.now, wall.today],
        "pushed": parts.taken_pushes.as_json(),
        "answered": -1,
        "sides": {},
        "tables": dict.fromkeys(execution.reloaded, 0),
    }
    parts.checkpoint.write_state(Snapshot(FIRST, state, notes))
    parts.checkpoint.publish_state(FIRST)


def _bring(parts: RunParts, contents: QueryContents) -> None:
    """Operators and clocks to where others were."""
    execution = parts.answering.execution
    execution.operator.take_over(contents.state)
    load_moment(execution.clock, contents.moment, parts.answering.wall.now_us())
    for name, clock in execution.clock.clocks.items():
        place = contents.streams[name]
        clock.oldest_us, clock.last_us = place.oldest_us, place.newest_us
    execution.go_on_from(contents.present)
    execution.whole_us, execution.since_us = whole_since(contents, execution.plan)


def _kinds(parts: RunParts) -> Mapping[str, str | None]:
    readers = parts.readers.of
    return {
        name: kind_of(readers[name]) if name in readers else None for name in parts.answering.execution.clock.clocks
    }


# ---- a query that has changed ---------------------------------------------------------------------------------------


def go_on_changed(parts: RunParts, contents: QueryContents, snapshot: Snapshot | None) -> None:
    """Bring fresh parts to where the query before was, whose last state this is (None if no batch has come), and save
    that behind one more batch."""
    execution, progress = parts.answering.execution, parts.progress
    if snapshot is None:
        parts.checkpoint.go_on_changed(execution.plan, None)
        return
    notes = snapshot.notes
    parts.answering.wall.put(*notes["wall"])
    _bring(parts, contents)
    parts.readers.resume(notes["positions"])
    parts.taken_pushes.load(notes["pushed"])
    number = snapshot.number + 1
    progress.number = progress.written = progress.given = progress.given_before = progress.saved = number
    progress.answered = progress.answered_before = notes["answered"]
    parts.checkpoint.go_on_changed(execution.plan, Snapshot(number, state_of(execution, tables=False), notes))
