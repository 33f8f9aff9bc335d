"""Runs whose state is split by key, goes on in parts that know nothing of each other, and is merged again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from tests.relays import Batch, Relay, shown
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.repartition import merge, split
from watersmeet.operators.saving import Saved
from watersmeet.optimizer.choose_partition_key import choose_partition_key
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.plan.nodes import AT, OP

NO_KEY = PartitionKey({})
Answers = Counter[str]


@dataclass
class Partitioned:
    """A plan whose operators take each other's state over."""

    relay: Relay

    @cached_property
    def key(self) -> PartitionKey | None:
        return choose_partition_key(self.relay.plan, plan_query(self.relay.plan))

    @cached_property
    def undivided(self) -> str | None:
        """Why one part holds everything, if one does."""
        if self.key is None:
            return "no key keeps together what belongs together"
        return self.relay.fresh().undivided(self.key)

    def states(self, operators: Sequence[Operator]) -> list[KeyedState]:
        """What operators hold, as bytes and back."""
        if self.undivided is None:
            told = [operator.keyed_state(self.key or NO_KEY) for operator in operators]
        else:
            told = [
                KeyedState(whole=operator.save(tables=False).values, whole_rows=operator.kept_rows)
                for operator in operators
            ]
        return [KeyedState.read(Saved.from_bytes(state.saved().to_bytes())) for state in told]

    def taken_over(self, states: Sequence[KeyedState]) -> list[Operator]:
        operators = [self.relay.fresh() for _ in states]
        for operator, state in zip(operators, states, strict=True):
            operator.take_over(state)
        return operators

    def in_parts(self, operators: Sequence[Operator], parts: int) -> list[Operator]:
        """So many operators that hold between them what others do."""
        return self.taken_over(split(merge(self.states(operators)), parts))

    def take(self, operators: Sequence[Operator], batch: Batch) -> Answers:
        """What a batch brings about, each row where its key is placed."""
        rows, watermarks = batch
        answers: Answers = Counter()
        for part, operator in enumerate(operators):
            own = {alias: one.take(self._positions(alias, one, len(operators))[part]) for alias, one in rows.items()}
            answers.update(shown(operator.take(own, watermarks)))
        return answers

    def _positions(self, alias: str, rows: Rows, parts: int) -> list[np.ndarray]:
        if self.undivided is not None or self.key is None:
            return [np.arange(len(rows)), *[np.arange(0)] * (parts - 1)]
        return self.key.positions(alias, rows.data, rows.times, parts)


def answered_in_parts(partitioned: Partitioned, batches: Sequence[Batch], parts: Sequence[int]) -> list[Answers]:
    """The answers to every batch, each taken by so many parts, which hold between them what those before held."""
    operators = [partitioned.relay.fresh()]
    found = []
    for batch, count in zip(batches, parts, strict=True):
        operators = partitioned.in_parts(operators, count)
        found.append(partitioned.take(operators, batch))
    return found


def answered_in_threads(relay: Relay, batches: Sequence[Batch], threads: int) -> list[Answers]:
    """The answers to every batch of an operator in threads, and once more of one that is pushed to without waiting."""
    several = relay.in_threads(threads)
    operator = several.fresh()
    found = [Counter(shown(operator.take(*batch))) for batch in batches]
    if operator.parts > 1:  # others are tested elsewhere
        assert sum(pushed_in_threads(several, batches), Counter()) == sum(found, Counter())
    return found


def pushed_in_threads(relay: Relay, batches: Sequence[Batch]) -> Iterator[Answers]:
    operator, last = relay.fresh(), (BEGINNING_US, 0)
    for rows, watermarks in batches:
        calls = [*(operator.push(alias, one) for alias, one in rows.items()), operator.advance(watermarks)]
        for given in chain.from_iterable(calls):
            yield Counter(shown(iter([given])))
            if relay.plan.kind == "changes":
                last = in_order(given, last)


def in_order(log: pa.RecordBatch, last: tuple[int, int]) -> tuple[int, int]:
    """The last change of a log whose changes come after another in order: by instant, `-` before `+`."""
    signs = ["-+".index(sign) for sign in log[OP].to_pylist()]
    changes = [last, *zip(log[AT].cast(pa.int64()).to_pylist(), signs, strict=True)]
    assert changes == sorted(changes)
    return changes[-1]


def answered_at_once(relay: Relay, batches: Sequence[Batch]) -> list[Answers]:
    operator = relay.fresh()
    return [Counter(shown(operator.take(*batch))) for batch in batches]
