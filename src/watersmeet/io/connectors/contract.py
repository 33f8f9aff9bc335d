"""What a connector is: a source whose rows can be read again, and a sink that takes numbered batches.

A connector knows neither a host nor the engine. Its source tells what is there, as offsets, and reads what lies between
two of them; every host drives it by these few calls. Its sink is given batches with numbers, and takes each once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from watersmeet.io.connectors.changed_files import Changed

# What a reader tells of where rows lie, as JSON: only the reader itself understands it.
Range = Any
Position = Any
# How far each lane of a source was read, as JSON: a lane is a partition of a topic, or all of a table. What stands
# there for a lane is the source's own.
Offsets = Mapping[str, Any]

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
class Lot:
    """Rows that lie together, and the records among them that could not be read, as BAD_RECORDS. `left_out`: so many
    more lie there that belong to another part of the stream, as a handover says."""

    rows: pa.RecordBatch
    bad: pa.RecordBatch | None = None
    left_out: int = 0


@dataclass(frozen=True)
class Slice:
    """What lies in one lane behind one offset, up to another. As JSON it is [lane, after, upto]."""

    lane: str
    after: Any
    upto: Any


@runtime_checkable
class LanedSource(Protocol):
    """Where the rows of a stream lie: in lanes, in each of which they have an order.

    It is small and can be pickled, as it is sent to where rows are read; what it opens, it opens when it is used, and
    only there. It raises SourceError, in a sentence, for whatever is wrong at the other end.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""

    @property
    def description(self) -> str:
        """What it is, for people; never a password."""

    def begin(self) -> Offsets:
        """Where a new run begins."""

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        """How far can be read now, with lanes that are new since; about so many rows behind `after` at most. The same
        as `after` if nothing has come. Does not wait."""

    def slices(self, after: Offsets, upto: Offsets) -> list[Slice]:
        """What lies between, as parts that may be read by several at once; none that are empty. Of one lane each begins
        where the one before ends, so that the end of each is a place to go on from."""

    def read(self, part: Slice) -> Iterator[Lot]:
        """The rows of a part: the same in the same order each time, in another process too."""

    def close(self) -> None:
        """Let go of what was opened."""


@runtime_checkable
class LaggingSource(Protocol):
    """A source that knows how much it has that was not read yet."""

    def lag(self, after: Offsets) -> dict[str, int]:
        """How many rows lie behind `after` in each lane, or about so many."""


@runtime_checkable
class KnownSource(Protocol):
    """A source whose other end may be deleted and made anew under the same name, and then is another."""

    def identity(self) -> str | None:
        """What is read, by a name that it shares with nothing that was there before; None if that is not known. Asked
        when a run begins, and when it goes on."""


@runtime_checkable
class WatchedSource(Protocol):
    """A source of files, which somebody may write anew after they were read. A part is one file."""

    @property
    def stream(self) -> str:
        """Of which it is the source."""

    def file_of(self, part: Slice) -> list[Any]:
        """The file that a part is, as it looked when it was found, as JSON."""

    def remember(self, files: Sequence[list[Any]]) -> None:
        """Files that were read in lives before."""

    def noted(self, files: Sequence[list[Any]]) -> list[list[Any]]:
        """The same as they looked last, so that no later life tells again what was told."""

    def changed_files(self) -> list[Changed]:
        """Files that were read and have changed, as far as it was noticed since it was asked last."""


@runtime_checkable
class PollingSource(Protocol):
    """A source that can do better, where one process reads all of it: a reader of its own, which waits for rows."""

    def reader(self) -> Reader:
        """Begins where `begin` says, until it is told to resume."""


@runtime_checkable
class NotingSource(Protocol):
    """A source at whose other end it can be noted how far it was read, as a consumer group does, for others to see.
    Nothing goes by it here; a reader of its own sees to it by itself."""

    def note(self, offsets: Offsets) -> None:
        """All up to these was answered. What goes wrong with noting it is no failure."""


@dataclass(frozen=True)
class Piece:
    """Rows that were read, and where they lie: `again` gives the same rows for the same range. `lane`: rows of one lane
    do not make those of another late. `bad`: the records among them that could not be read, as BAD_RECORDS; there
    may be no rows beside them. `lanes`: all other lanes that have rows which are not read yet: time waits for the first
    row of each that has brought none. A lane that is empty is not among them."""

    rows: pa.RecordBatch
    range: Range
    lane: str = ""
    bad: pa.RecordBatch | None = None
    lanes: tuple[str, ...] = ()
    left_out: int = 0  # as in a Lot


def as_piece(found: pa.RecordBatch | Piece, range: Range) -> Piece:
    """What `again` gave, which may be rows alone."""
    return found if isinstance(found, Piece) else Piece(found, range)


class Reader(Protocol):
    """The rows of one stream in the order they came. Used by one thread at a time. `tell` is called with what whoever
    runs it should know.

    It may have besides: `pause_s`, how long to wait before it is polled again when it had nothing, 0 if it waits
    itself; `is_behind`, whether it knows of rows that it has not given yet, None if it cannot know: without it, to have
    nothing now is the end; `lag()`, how many rows of each lane it knows to be waiting; `changed_files`, how many files
    that were read it has told of as changed since; `first_position()`, a position before the first row: that is kept
    with the checkpoint at once, so that one that begins at the latest row begins there after a restart too;
    `keep_step(order)`, by which it is told how far lanes are in event time, the one that is furthest behind first, so
    that it reads of the first that has rows; `poll_together(most_rows)`, which gives small pieces of several lanes at
    once, as slices of one batch.
    """

    tell: Callable[[Warning], None]

    def poll(self, most_rows: int) -> Piece | None:
        """The next rows, so many at most; None if there is nothing now. Does not wait for long."""

    def again(self, range: Range) -> pa.RecordBatch | Piece:
        """The rows of a range that was read before, in another life maybe. What comes next is what came after them. A
        Piece where there may be bad records among them; the lane of the rows is known from before."""

    def position_after(self, range: Range) -> Position:
        """What had been read when these rows were: for `resume`. May be called while another thread reads."""

    def resume(self, position: Position) -> None:
        """Go on behind what had been read."""

    def close(self) -> None: ...


# How long to wait before a reader that had nothing is polled again, unless it says so itself.
PAUSE_S = 0.1


def has_more(reader: Reader, piece: Piece | None) -> bool:
    """Whether more rows are sure to come, or likely to, after a reader gave these or nothing. One that knows where the
    end is says so itself: nobody should wait for rows that were not there when it began."""
    known: bool | None = getattr(reader, "is_behind", None)
    return piece is not None if known is None else known


def lag_of(reader: Reader) -> dict[str, int]:
    """How many rows of each lane wait to be read, of readers that know."""
    lag: Callable[[], dict[str, int]] | None = getattr(reader, "lag", None)
    return {} if lag is None else lag()


def changed_files_of(reader: Reader) -> int:
    """How many files that were read have changed since, of readers that look."""
    return int(getattr(reader, "changed_files", 0))


def watched(source: LanedSource) -> WatchedSource | None:
    """The source itself, which may be guarded, if it is one of files."""
    inner = getattr(source, "inner", source)
    return inner if isinstance(inner, WatchedSource) else None


def untold(what: Warning) -> None:
    """Nobody listens."""


class NumberedSink(Protocol):
    """Takes the rows of batches, in order, under the number of the last batch they are of. What it has taken is there
    for good, whole or not at all. One that wants few large commits also has `commit_every_s`: in-process, answers of so
    many seconds come together. One whose commits take little has `commits_soon`: in-process, unless a run says how
    often to commit, answers go there as soon as those before are there. `may_forget`, if it is true: whoever reads may
    take away what it has, as with files, so a run that misses there what it gave goes on with a warning; else it ends.
    `taken_number`, of one from which answers are taken: up to this batch they were. `written_by`: the token of the
    start that has written its last batch, as it was found when the sink was opened; None if nothing was.

    The newest start of a run owns the sink. So one that can keeps the start beside the number: it claims the sink when
    it is opened, and a commit, in the step that makes it count, finds the claim its own or is refused (`claims.py`
    has the words). One that does not keep it should at least ask anew which number it has whenever `last_number` is
    read: then a commit behind which somebody else has written is refused, too."""

    @property
    def last_number(self) -> int:
        """The last number it has taken from this run, or -1."""

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        """Take rows, whole or not at all. A number that it has taken before is passed over."""

    def close(self) -> None: ...


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
    that says whether a row comes or goes, None if rows only come. `taken`: the last number that the checkpoint knows
    the sink to have, -1 if all that it was given will be given again. `makes_anew`: the user has said that what is gone
    is to be made anew all the same."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    schema: pa.Schema
    run: str
    keys: tuple[str, ...] = ()
    changes: str | None = None
    taken: int = -1
    makes_anew: bool = False
    start: Start | None = None

    @property
    def must_be_there(self) -> bool:
        """Whether what the sink has written before must not be made anew: rows would be gone without a word."""
        return self.taken >= 0 and not self.makes_anew


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
    source: Callable[[SourceOpening], LanedSource] | str | None = None
    sink: Callable[[SinkOpening], NumberedSink] | str | None = None
    table: Callable[[TableOpening], pa.Table] | str | None = None
    source_options: Options = field(default_factory=lambda: Options(()))
    sink_options: Options = field(default_factory=lambda: Options(()))
    table_options: Options = field(default_factory=lambda: Options(()))
    extra: str | None = None
    moment: str | None = None
