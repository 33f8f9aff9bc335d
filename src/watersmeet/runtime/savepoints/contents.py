"""What a savepoint says of a query: what it asks, how far it was, and the state of its operators.

Nothing in it depends on where the run was: rows lie by their keys, not by buckets or threads; streams are known by
their names, and offsets are what their connectors say; processing time is told as the time that has passed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.runtime.changes import Held
from watersmeet.runtime.kept_of_joins import Kept


@dataclass(frozen=True)
class StreamPlace:
    """How far a stream was read. `kind`: what reads it, in words; None of one that is pushed. `position`: as the reader
    of a run in-process would say it; None before its first row. `newest_us`, `oldest_us`: of the rows that were in
    time. `moves`: whether others can go on behind it."""

    kind: str | None
    position: Any
    newest_us: int
    oldest_us: int
    moves: bool = True


@dataclass(frozen=True)
class Moment:
    """How far time is. `streams`: the clock of each by its name, in the words of its state, where processing time is
    how long ago something was (see moments.py)."""

    watermark_us: int
    moved_ago_us: int
    silent: tuple[int, int] | None
    streams: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class QueryContents:
    """`identity` and `options` tell whether another query is the same; `pipeline`: which was chosen for it. `run`,
    `batch`: the run and its last batch, which the sinks have. `sides`: the last batch that brought something of each
    sink beside the answers. `key`: by what rows lie together, in words; None where the state does not divide.
    `present`: of an answer that changes, its rows and the changes since; None if nobody has added it up. `asked`: the
    text of which `identity` is the sum; `gives`: rows or changes; `kept`: what a
    join with other windows could go on with; `whole_us`: from when on the answer is whole."""

    sql: str
    identity: str
    options: Mapping[str, str]
    pipeline: str
    host: str
    run: str
    batch: int
    sides: Mapping[str, int]
    streams: Mapping[str, StreamPlace]
    moment: Moment
    key: str | None
    state: KeyedState
    present: tuple[pa.RecordBatch, pa.RecordBatch] | None = None
    pushed: Any = None
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    asked: str = ""
    gives: str = ""
    kept: Kept | None = None
    whole_us: int = BEGINNING_US

    @property
    def held(self) -> Held | None:
        """What is compared with a query that has changed; None of one that was written before that was noted."""
        return Held(self.asked, self.gives, self.options, self.kept) if self.asked else None
