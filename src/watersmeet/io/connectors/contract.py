"""What a connector is: a source whose rows can be read again, and a sink that takes numbered batches.

A connector knows neither a host nor the engine. Its source says what is there, as offsets, and reads what lies between
two of them; every host drives it by these few calls. Its sink is given batches with numbers, and commits each once.
What only some connectors have (a reader of their own, an identity, a lag) every connector can be asked for: who derives
from the classes here says only what differs from the answers they give.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from watersmeet.io.connectors.changed_files import Changed

# What a reader says of where rows lie, as JSON: only the reader itself understands it.
Range = Any
Position = Any
# How far each partition of a source was read, as JSON: that of a topic, or all of a table. What stands there for a
# partition is the source's own.
Offsets = Mapping[str, Any]
# How long to wait before a reader that had nothing is polled again, unless it says so itself.
PAUSE_S = 0.1

# A record that could not be read, as it was, where it lay, and why. `reason` is one of a few words, which are counted;
# `detail` says it for this record.
BAD_RECORDS = pa.schema(
    [
        ("stream", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("place", pa.string()),  # the topic, the file, the table
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("raw", pa.binary()),
    ]
)


@dataclass(frozen=True)
class SourceBatch:
    """Rows that were read together, on their way from a source to a query.

    `bad`: the records among them that could not be read, as BAD_RECORDS; there may be no rows beside them. `left_out`:
    so many more lie there that belong to another part of the stream, as a handover says.

    What a reader gives also says where it lies. `range`: for which `again` gives the same rows. `partition`: rows of
    one partition do not make those of another late. `waiting`: all other partitions that have rows which are not read
    yet: time waits for the first row of each that has brought none. A partition that is empty is not among them.
    """

    rows: pa.RecordBatch
    bad: pa.RecordBatch | None = None
    left_out: int = 0
    range: Range = field(default=None, kw_only=True)
    partition: str = field(default="", kw_only=True)
    waiting: tuple[str, ...] = field(default=(), kw_only=True)

    @classmethod
    def of_all(cls, batches: Sequence[SourceBatch]) -> SourceBatch:
        """Several that follow each other, at least one, as one."""
        if len(batches) == 1:
            return batches[0]
        rows = pa.concat_batches([one.rows for one in batches])
        return cls(rows, all_bad(*(one.bad for one in batches)), sum(one.left_out for one in batches))


def all_bad(*parts: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Bad records of several places; None if there are none."""
    some = [one for one in parts if one is not None and one.num_rows]
    return pa.concat_batches(some) if len(some) > 1 else some[0] if some else None


@dataclass(frozen=True)
class Split:
    """What lies in one partition behind one offset, up to another. As JSON it is [partition, after, upto]. `rows`: how
    many there are at most, where that is known; where they are few, one task reads several such parts."""

    partition: str
    after: Any
    upto: Any
    rows: int | None = field(default=None, compare=False)


class WatchedFiles(Protocol):
    """The files of a source, which somebody may write anew after they were read. A split is one file."""

    @property
    def stream(self) -> str:
        """Of which it is the source."""

    def newest_files(self, after: Offsets, most_files: int) -> Offsets:
        """As `newest`, so many files behind `after` at most."""

    def remember(self, files: Sequence[list[Any]], upto: Offsets) -> None:
        """The last files that were read in lives before, up to these offsets, as they were noted."""

    def noted(self, upto: Offsets) -> list[Any]:
        """What a later life must know of the files that were read up to these offsets, as JSON, in the order in which
        they were read. May be called while another thread reads."""

    def changed_files(self) -> list[Changed]:
        """Files that were read and have changed, as far as it was noticed since it was asked last."""

    def gone(self) -> str | None:
        """Where the files lay, if that was there and is not any more."""


class PartitionedSource(ABC):
    """Where the rows of a stream lie: in partitions, in each of which they have an order.

    It is small and can be pickled, as it is sent to where rows are read; what it opens, it opens when it is used, and
    only there. It raises SourceError, in a sentence, for whatever is wrong at the other end. `schema` and `description`
    may be attributes, fields of a dataclass or properties.
    """

    if TYPE_CHECKING:

        @property
        def schema(self) -> pa.Schema:
            """The columns of its rows."""

        @property
        def description(self) -> str:
            """What it is, for people; never a password."""

    @abstractmethod
    def begin(self) -> Offsets:
        """Where a new run begins."""

    @abstractmethod
    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        """How far can be read now, with partitions that are new since; about so many rows behind `after` at most. The
        same as `after` if nothing has come. Does not wait."""

    @abstractmethod
    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        """What lies between, as parts that may be read by several at once; none that are empty. Of one partition each
        begins where the one before ends, so that the end of each is a place to go on from."""

    @abstractmethod
    def read(self, split: Split) -> Iterator[SourceBatch]:
        """The rows of a part: the same in the same order each time, in another process too."""

    def close(self) -> None:
        """Let go of what was opened. It may be used again, and closed again."""
        return

    def identity(self) -> str | None:
        """What is read, by a name that it shares with nothing that was there before, where the other end may be deleted
        and made anew under the same name; None if that is not known. Asked when a run begins, and when it goes on."""
        return None

    def reader(self) -> Reader | None:
        """One of its own, which waits for rows, where one process reads all of the source: it begins where `begin` says
        until it is told to resume. None: it is read by its offsets."""
        return None

    def watched(self) -> WatchedFiles | None:
        """Its files, where somebody may write them anew after they were read."""
        return None

    def only(self, columns: Sequence[str]) -> PartitionedSource:
        """The same rows with these of its columns at least, where it takes less to leave others out."""
        return self

    def note(self, offsets: Offsets) -> None:
        """All up to these was answered: to be noted at the other end, as a consumer group does, for others to see.
        Nothing goes by it here, and what goes wrong with it is no failure. A reader of its own sees to it by itself."""
        return


def ignore_warning(what: Warning) -> None:
    """Nobody listens."""


class Reader(ABC):
    """The rows of one stream in the order they came. Used by one thread at a time. `tell` is called with what whoever
    runs it should know."""

    tell: Callable[[Warning], None] = staticmethod(ignore_warning)

    @property
    def pause_s(self) -> float:
        """How long to wait before it is polled again when it had nothing; 0 if it waits itself."""
        return PAUSE_S

    @property
    def is_behind(self) -> bool | None:
        """Whether it knows of rows that it has not given yet; None if it cannot know: to have nothing now is the end
        then."""
        return None

    @property
    def changed_files(self) -> int:
        """How many files that were read have changed since, of readers that look."""
        return 0

    @property
    def keeps_step(self) -> bool:
        """Whether `keep_step` has an effect."""
        return False

    @abstractmethod
    def poll(self, most_rows: int) -> SourceBatch | None:
        """The next rows, so many at most; None if there is nothing now. Does not wait for long."""

    def poll_together(self, most_rows: int) -> list[SourceBatch]:
        """The same, or small batches of several partitions at once, as slices of one; none if there is nothing now."""
        batch = self.poll(most_rows)
        return [] if batch is None else [batch]

    @abstractmethod
    def again(self, range: Range) -> SourceBatch:
        """What a range had that was read before, in another life maybe, with its bad records. What comes next is what
        came after it. The partition is known from before."""

    @abstractmethod
    def position_after(self, range: Range) -> Position:
        """What had been read when these rows were: for `resume`. May be called while another thread reads."""

    @abstractmethod
    def resume(self, position: Position) -> None:
        """Go on behind what had been read."""

    @property
    def may_be_shared(self) -> bool:
        """Whether several queries may be given what it reads: then `place_after` tells how far each of them is."""
        return False

    def place_after(self, position: Position | None, ranges: Sequence[Range]) -> Position:
        """As `position_after` tells it, of somebody who was at a position, None if at the beginning, and has been given
        these since, at least one. May be called while another thread reads, and of somebody who is behind."""
        raise NotImplementedError

    def where(self, position: Position | None) -> Any:
        """The place alone that a position tells, which is equal for all who go on with the same row, as JSON."""
        return position

    def be_shared(self) -> None:
        """From now on it is asked for `place_after` only, and not for `position_after`."""
        return

    def first_position(self) -> Position | None:
        """A position before the first row. It is kept with the checkpoint at once, so that one that begins at the
        latest row begins there after a restart too. None for one that always begins at the same place."""
        return None

    def lag(self) -> dict[str, int]:
        """How many rows of each partition it knows to be waiting. For any thread."""
        return {}

    def keep_step(self, order: Sequence[str]) -> None:
        """How far partitions are in event time, the one that is furthest behind first: read of the first that has rows,
        and before them of those that are not among them."""
        return

    def has_more(self, batch: SourceBatch | None) -> bool:
        """Whether more rows are sure to come, or likely to, after it gave these or nothing. One that knows where the
        end is goes by that: nobody should wait for rows that were not there when it began."""
        known = self.is_behind
        return batch is not None if known is None else known

    def close(self) -> None:
        """Let go of what was opened."""
        return


class Claimed(Protocol):
    """What a sink knows of its owner (`claims.py`)."""

    @property
    def written_by(self) -> str | None:
        """The token of the start that has written its last batch, as it was found when the sink was opened."""


class NumberedSink(ABC):
    """Commits the rows of batches, in order, under the number of the last batch they are of. What is committed is there
    for good, whole or not at all.

    The newest start of a run owns the sink. So one that can keeps the start beside the number, and has a `claim`: it
    claims the sink when it is opened, and a commit, in the step that makes it count, finds the claim its own or is
    refused (`claims.py` has the words). One that does not keep it should at least look anew in `committed`: then a
    commit behind which somebody else has written is refused, too.
    """

    # One that wants few large commits: in-process, answers of so many seconds come together.
    commit_every_s: float | None = None
    # One whose commits take little: in-process, unless a run says how often to commit, answers go there as soon as
    # those before are there.
    commits_soon: bool = False
    # Whoever reads may take away what it has, as with files: a run that misses there what it gave goes on with a
    # warning; else it ends.
    may_forget: bool = False
    claim: Claimed | None = None

    @abstractmethod
    def committed(self) -> int:
        """The number of the last batch of this run that it has, or -1."""

    @abstractmethod
    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        """Take rows, whole or not at all. A number that it has is passed over."""

    @property
    def taken_number(self) -> int:
        """Up to this batch all answers were taken, of one from which they are; -1 of all others."""
        return -1

    @property
    def written_by(self) -> str | None:
        """The token of the start that has written its last batch, as it was found when the sink was opened; None if
        nothing was, or if it keeps no owner."""
        return None if self.claim is None else self.claim.written_by

    def close(self) -> None:
        """Let go of what was opened."""
        return


@dataclass(frozen=True)
class SourceOpening:
    """What a source is opened with. `options` are those of WITH, their names in lower case, `${NAME}` replaced by what
    the environment holds. `columns` are the declared ones, if any were. `time` is the column that event time is taken
    from, as it was written; the engine itself reads it."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    columns: pa.Schema | None = None
    time: str | None = None


@dataclass(frozen=True)
class Start:
    """One start of a run. Copies of one checkpoint may all be started, and only the newest start owns the sinks of the
    run. `token` is its own, eight hexadecimal digits; `known`, those of the starts before it that its checkpoint knows:
    what a sink has was written by one of them, or by another copy. `since` and `place` are for people."""

    token: str
    known: frozenset[str] = frozenset()
    since: str = ""
    place: str = ""


@dataclass(frozen=True)
class SinkOpening:
    """What a sink is opened with. `run` is the name of the run, the same in all its lives, new for a new checkpoint;
    `start` is this life of it, None if no other can ever be.
    `keys` are the columns by which the rows of a changing answer are known, if it has any; `changes` names the column
    that says whether a row comes or goes, None if rows only come. `committed`: the last number that the checkpoint
    knows the sink to have, -1 if all that it was given will be given again. `makes_anew`: the user has said that what
    is gone is to be made anew all the same. `threads`: in how many of them the rows of a commit may be encoded."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    schema: pa.Schema
    run: str
    keys: tuple[str, ...] = ()
    changes: str | None = None
    committed: int = -1
    makes_anew: bool = False
    start: Start | None = None
    threads: int = 1

    @property
    def must_be_there(self) -> bool:
        """Whether what the sink has written before must not be made anew: rows would be gone without a word."""
        return self.committed >= 0 and not self.makes_anew


@dataclass(frozen=True)
class TableOpening:
    """What a static table is loaded with."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    columns: pa.Schema | None = None


@dataclass(frozen=True)
class Options:
    """The names of options that a connector reads; any other is refused. `prefixes`: what begins so is passed through,
    such as settings of a client library. `secret`: the values of these are never printed."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()


@dataclass(frozen=True)
class Connector:
    """A kind of place that rows come from or go to, by the name that `source = '…'` and `sink = '…'` say.

    What opens it is a function, or 'module:function', which is imported when it is asked for. `extra`: what
    `pip install 'watersmeet[…]'` brings the libraries that it needs. `moment`: the name of a time that its records have
    of themselves, which `time = '…'` may say though no column of that name is declared, and no other such.
    """

    name: str
    source: Callable[[SourceOpening], PartitionedSource] | str | None = None
    sink: Callable[[SinkOpening], NumberedSink] | str | None = None
    table: Callable[[TableOpening], pa.Table] | str | None = None
    source_options: Options = field(default_factory=lambda: Options(()))
    sink_options: Options = field(default_factory=lambda: Options(()))
    table_options: Options = field(default_factory=lambda: Options(()))
    extra: str | None = None
    moment: str | None = None
