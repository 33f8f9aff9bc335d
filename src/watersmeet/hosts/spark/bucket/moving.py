"""The state of a query whose buckets hold it between them, as one, and the share of a bucket in such a state.

What divides by the key of the query goes where new rows of the same key go. In a join each row of a window knows all
codes that it is compared by, so that its place in any grid follows from it; of rows that are copied along a dimension
the first copies are enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from watersmeet.errors import UnsupportedError
from watersmeet.hosts.spark.bucket.copies import all_are_copies, are_copies_in, coordinates_of, some_are_copies
from watersmeet.hosts.spark.exchange.placement import Placement
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import OWN, JoinJob
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.kernels.spread import coordinates
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.repartition import merge
from watersmeet.operators.spread_rows import lie_in
from watersmeet.operators.spread_state import gathered as gathered_by
from watersmeet.operators.spread_state import shared_rows, tells_copies
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.optimizer.choose_partition_key import choose_resting_key
from watersmeet.physical.partitioning import Dimension, SpreadKeys
from watersmeet.physical.strategy import Code
from watersmeet.runtime.build import build_plan

_STORES, ORDER_KEPT, COUNTED = "window_stores.", "waiting.", "row_windows."


def key_of(job: SparkJob, operator: Operator) -> PartitionKey | None:
    """By which the state lies together, if it divides."""
    key = choose_resting_key(job.plan, job.physical)
    return None if key is None or operator.undivided(key) is not None else key


def gathered(job: SparkJob, operators: Sequence[Operator]) -> KeyedState:
    """What all buckets hold, in their order."""
    whole = job.make_operator()
    key = key_of(job, whole)
    if len(operators) == 1:
        return _check_waiting(job, _of_one(operators[0], key))
    if key is None:
        raise _undivided(job, whole)
    spread = _spread_of(job)
    if spread is not None:
        _check_tells_copies(job)
        return gathered_by(operators, key, spread)
    if not _is_a_grid(job):
        return _check_waiting(job, merge([one.keyed_state(key) for one in operators]))
    _check_counted(job)
    # Rows lie by several keys, and copies of them elsewhere: first as they come, then by the one key.
    anywhere = PartitionKey({}, next(iter(job.aliases)), at_rest=True)
    parts = [_first_copies(job, place, one.divided(anywhere)) for place, one in enumerate(operators)]
    whole = build_plan(job.physical).operator
    whole.take_over(_in_their_order(_check_waiting(job, merge(parts))))
    return whole.keyed_state(key)


def _of_one(operator: Operator, key: PartitionKey | None) -> KeyedState:
    if key is None:
        return KeyedState(whole=operator.save(tables=False).values, whole_rows=operator.kept_rows)
    return operator.keyed_state(key)


def share(job: SparkJob, state: KeyedState, bucket: int) -> KeyedState:
    """That of one bucket, by its id."""
    buckets, place = job.partitioning.buckets, job.bucket_ids.index(bucket)
    if buckets == 1:
        return state
    if state.whole:
        raise _undivided(job, job.make_operator())
    spread = _spread_of(job)
    if spread is not None:
        _check_tells_copies(job)
        operator = job.make_operator()
        key = key_of(job, operator)
        assert key is not None
        rows = shared_rows(state, operator, key, spread, buckets, place)
    elif not _is_a_grid(job):
        rows = {
            name: one.take(np.flatnonzero(coordinates(one.keys, buckets) == place)) for name, one in state.rows.items()
        }
    else:
        _check_counted(job)
        held = {**state.rows, **state.copies}
        here = {name: _is_here(job, place, name, one) for name, one in held.items()}
        rows = {name: one.take(np.flatnonzero(here[name])) for name, one in held.items()}
    if place == 0:
        return replace(state, rows=rows, copies={})
    return KeyedState(rows, latest=state.latest, earliest=state.earliest)


def waiting_apart(job: SparkJob, state: KeyedState, bucket: int) -> tuple[KeyedState, dict[str, Rows]]:
    """A share without the rows of joins that wait for time; and those, as the bucket takes new rows in."""
    if not isinstance(job, JoinJob):
        return state, {}
    found: dict[str, Rows] = {}
    left, place = dict(state.rows), job.bucket_ids.index(bucket)
    for one in job.streams:
        layout, name = job.layout(one), next((name for name in left if _waits_in(name, one.alias)), None)
        if name is None:
            continue
        rows = left.pop(name)
        placing = Placement(job, one)
        placed = placing.placed(Rows(rows.data, rows.numbers["times"]))
        own = [part.rows for part in placing.parts(placed) if part.bucket == place]
        found |= {one.alias: layout.rows(own[0])} if own else {}
    return replace(state, rows=left), found


def _waits_in(name: str, alias: str) -> bool:
    return name == f"waiting.{alias}.rows" or name.endswith(f".waiting.{alias}.rows")


def _check_waiting(job: SparkJob, state: KeyedState) -> KeyedState:
    """Rows that wait are taken in once more elsewhere, by columns that may have been left behind where they were."""
    for one in job.streams:
        kept = set(job.layout(one).schema.names)
        lacking = [name for name in job.columns_needed(one) if name not in kept]
        waits = any(len(rows) for name, rows in state.rows.items() if _waits_in(name, one.alias))
        if lacking and waits:
            raise UnsupportedError(
                f"rows of {one.alias} wait for time to go on, and the buckets do not have {lacking[0]!r} any more, "
                "which chooses them",
                hint=f"take the savepoint when none waits, as after --flush; or select {one.alias}.{lacking[0]}, anew",
            )
    return state


def _undivided(job: SparkJob, operator: Operator) -> UnsupportedError:
    key = choose_resting_key(job.plan, job.physical)
    why = "no key keeps together what belongs together" if key is None else operator.undivided(key)
    return UnsupportedError(
        f"what this query remembers cannot move into or out of several buckets: {why}",
        hint="run it in one: --buckets 1",
    )


# ---- spread keys of other joins -------------------------------------------------------------------------------------


def _spread_of(job: SparkJob) -> SpreadKeys | None:
    """The keys that are spread along the one dimension of a query that is no plain join."""
    dimensions = () if isinstance(job, JoinJob) else job.partitioning.dimensions
    return next((one.spread for one in dimensions if one.spread is not None), None)


def _check_tells_copies(job: SparkJob) -> None:
    if not tells_copies(job.make_operator()):
        raise UnsupportedError(
            "the keys of this query are spread over buckets, and its joins do not tell copies apart, so that it cannot "
            "move into or out of several buckets",
            hint="run it in one: --buckets 1, or without spread",
        )


# ---- grids ----------------------------------------------------------------------------------------------------------


def _check_counted(job: SparkJob) -> None:
    """In a grid either every bucket counts the rows of a window, or nobody knows who counts which."""
    for one in job.streams:
        if isinstance(one.window, RowsWindow) and one.alias not in job.partitioning.announced:
            raise UnsupportedError(
                f"the ROWS window of {one.alias} is counted by a key, and its rows are placed by others as well, so "
                "that it cannot move into or out of several buckets",
                hint="run it in one: --buckets 1",
            )


def _is_a_grid(job: SparkJob) -> bool:
    """Whether rows are placed by other than the one key of the query, or are in buckets where they do not belong."""
    chosen = job.partitioning
    dimensions = chosen.dimensions
    one_key = len(dimensions) == 1 and all(alias in dimensions[0].keys for alias in job.aliases)
    return not one_key or bool(chosen.announced) or dimensions[0].spread is not None


def _first_copies(job: SparkJob, place: int, state: KeyedState) -> KeyedState:
    """Without rows that are counted in another bucket."""
    rows = {name: _first_of(job, place, name, one) for name, one in state.rows.items()}
    return replace(state, rows={name: _own_rows(one) if ORDER_KEPT in name else one for name, one in rows.items()})


def _first_of(job: SparkJob, place: int, name: str, rows: KeyedRows) -> KeyedRows:
    alias = _alias_of(name)
    if all_are_copies(job, place, alias):
        return rows.take(np.arange(0))
    dimension = some_are_copies(job, alias)
    if dimension is None:
        return rows
    keys = _codes_of(job, alias, dimension, rows)
    return rows.take(np.flatnonzero(~are_copies_in(job, place, alias, dimension, keys)))


def _own_rows(rows: KeyedRows) -> KeyedRows:
    """Of rows that wait, those that belong to the bucket, with their places among all of them."""
    rows = replace(rows, numbers={**rows.numbers, "order": np.arange(len(rows))})
    if OWN not in rows.data.schema.names:
        return rows
    own = np.flatnonzero(rows.data.column(OWN).to_numpy(zero_copy_only=False))
    return replace(rows.take(own), data=rows.take(own).data.drop_columns([OWN]))


def _in_their_order(state: KeyedState) -> KeyedState:
    """Rows that wait as they came, of all buckets."""
    rows = dict(state.rows)
    for name, one in rows.items():
        if "order" in one.numbers:
            sorted_rows = one.take(np.argsort(one.numbers["order"], kind="stable"))
            numbers = {word: values for word, values in sorted_rows.numbers.items() if word != "order"}
            rows[name] = replace(sorted_rows, numbers=numbers)
    return replace(state, rows=rows)


def _is_here(job: SparkJob, place: int, name: str, rows: KeyedRows) -> npt.NDArray[np.bool_]:
    alias, found = _alias_of(name), np.ones(len(rows), np.bool_)
    if ORDER_KEPT in name or COUNTED in name:  # which are placed as new rows are, or counted in every bucket
        return found
    for dimension, at in coordinates_of(job, place):
        if alias in dimension.keys:
            keys, times = _codes_of(job, alias, dimension, rows), rows.numbers["times"]
            found &= lie_in(dimension.spread, alias, keys, times, dimension.size, at)
        elif alias == dimension.fragment:
            found &= coordinates(np.arange(len(rows)), dimension.size) == at
    return found


def _codes_of(job: SparkJob, alias: str, dimension: Dimension, rows: KeyedRows) -> Codes:
    """The keys by which rows of a window are placed along a dimension."""
    keys: Codes = rows.numbers[f"code_{_code_positions(job)[alias][dimension.keys[alias]]}"]
    return keys


def _code_positions(job: SparkJob) -> Mapping[str, Mapping[Code, int]]:
    operator = job.make_operator()
    inside = operator.inner if isinstance(operator, InTimeOrder) else operator
    assert isinstance(inside, WindowJoin)
    return inside.layout.code_positions


def _alias_of(name: str) -> str:
    """The stream whose rows these are, by the name of what holds them."""
    for begins in (_STORES, ORDER_KEPT, COUNTED):
        if begins in name:
            return name.rpartition(begins)[2].removesuffix(".rows")
    return name
