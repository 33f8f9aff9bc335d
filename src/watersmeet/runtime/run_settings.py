"""How a run goes, and where its answers go: values that are read and checked once, on the command line or in Python,
and travel to whoever reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from inspect import iscoroutinefunction
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.io.filesystems import is_in_store
from watersmeet.model.declaration import as_text
from watersmeet.model.time import interval_us

Interval = str | timedelta
MAX_WAITING, TIMEOUT_S = 1_000_000, 60.0
COMPARE_S = 5.0  # for how long answers are compared of a query that is to take the place of another
OnAnswer = Callable[[pa.RecordBatch], Any]
OnLate = Callable[[str, pa.RecordBatch], Any]
# A path; the words of CREATE SINK … WITH (…); or what makes a sink of one's own, given the name of the run.
Sink = str | PathLike[str] | Mapping[str, str] | Callable[[str], Any]


@dataclass(frozen=True)
class Spelling:
    """How settings are written where a user is."""

    name: Callable[[str], str]
    available_now: str
    checkpoint: str
    without_flush: str
    savepoint: str


IN_PYTHON = Spelling(str, "available_now=True", "checkpoint='…'", "run.flush() answers what waits now", "savepoint='…'")
COMMAND_LINE = Spelling(
    lambda name: f"--{name.replace('_', '-')}", "--available-now", "--checkpoint DIR", "leave it out, or add that",
    "--from OUT",
)  # fmt: skip


@dataclass(frozen=True)
class RunSettings:
    """How a run goes.

    checkpoint: where its progress is kept, if it is. available_now: it ends when all that is there was read, and with
    `flush` answers then what waits for later rows. `skipped`: batches that are not repeated, as their rows make the
    query fail; for a script `skip_batches` says them, N, or NAME:N where there are several queries.

    In-process: a batch closes at so many rows, or `gather_s` after its first row. The state is saved every
    `save_every_s`. Answers are committed `commit_every_s` after the first of them came, None for the sink to say, or
    when there are so many rows; who brings more than `most_uncommitted` waits. `sync`: a batch counts as written when
    it is on the disk; if not, a crash of the process is survived, one of the machine may lose the last moments.
    `writes_on`: when the query fails, what is pushed is still written down, for a later start that can go on; without
    it the run ends.

    `script`: the file that the queries are from, which the checkpoint notes.

    `savepoint`: what a new run begins with; `afresh`: its sinks are those of any new run, whatever they have.

    On Spark: a batch begins every `trigger_s`, or when the one before has ended; the state is cut into `buckets`.
    """

    checkpoint: Path | str | None = None
    available_now: bool = False
    flush: bool = False
    batch_rows: int = 1 << 16
    gather_s: float = 0.0
    save_every_s: float = 10.0
    commit_every_s: float | None = None
    commit_rows: int = 1 << 18
    most_uncommitted: int = 1 << 20
    skipped: frozenset[int] = frozenset()
    skip_batches: tuple[str, ...] = ()
    sync: bool = True
    writes_on: bool = False
    trigger_s: float | None = None
    buckets: int | None = None
    savepoint: Path | str | None = None
    afresh: bool = False
    script: str | None = None

    @classmethod
    def read(
        cls,
        spelling: Spelling = IN_PYTHON,
        *,
        checkpoint: Path | str | None = None,
        available_now: bool = False,
        flush: bool = False,
        batch_rows: int | None = None,
        gather: Interval | None = None,
        save_every: Interval | None = None,
        commit_every: Interval | None = None,
        skip_batches: Collection[int] = (),
        skip_batch: Sequence[str] = (),
        trigger: Interval | None = None,
        buckets: int | None = None,
        savepoint: Path | str | None = None,
        afresh: bool = False,
        script: str | None = None,
    ) -> RunSettings:
        """What a user says, as values; refuses what nothing can be made of."""

        def seconds(name: str, given: Interval | None, *, above_zero: bool = False) -> float | None:
            return None if given is None else seconds_of(spelling.name(name), given, above_zero=above_zero)

        if skip_batch and checkpoint is None:
            problem = f"{spelling.name('skip_batch')} goes with {spelling.checkpoint}"
            raise OptionError(problem, hint="leave it out, or add one", option="skip_batch")
        _check_savepoint(spelling, savepoint, afresh, checkpoint is not None)
        _check_no_savepoint(spelling, checkpoint)
        if flush:
            _check_flush(spelling, available_now, checkpoint is not None)
        save_every_s = seconds("save_every", save_every, above_zero=True)
        return cls(
            checkpoint=checkpoint,
            available_now=available_now,
            flush=flush,
            batch_rows=_rows(spelling.name("batch_rows"), batch_rows, cls.batch_rows),
            gather_s=seconds("gather", gather) or cls.gather_s,
            save_every_s=cls.save_every_s if save_every_s is None else save_every_s,
            commit_every_s=seconds("commit_every", commit_every),
            skipped=batch_numbers("skip_batches", skip_batches),
            skip_batches=tuple(skip_batch),
            trigger_s=seconds("trigger", trigger),
            buckets=buckets,
            savepoint=savepoint,
            afresh=afresh,
            script=script,
        )

    @property
    def ends(self) -> bool:
        """Whether nothing may wait for a later run: there is none that goes on, or that was asked for."""
        return self.available_now and (self.checkpoint is None or self.flush)


@dataclass(frozen=True)
class Answers:
    """Where the answers of a run go: if it keeps its progress, into a sink, by its options or made by whoever asked;
    else to who is called, or takes them, `max_waiting` rows at most. Who pushes more waits for `timeout_s`."""

    sink: Mapping[str, str] | Callable[[str], Any] | None = None
    on_answer: OnAnswer | None = None
    on_late: OnLate | None = None
    max_waiting: int = MAX_WAITING
    timeout_s: float | None = TIMEOUT_S

    @classmethod
    def read(
        cls,
        sink: object,
        on_answer: OnAnswer | None,
        on_late: OnLate | None,
        max_waiting: int,
        timeout: float | None,
    ) -> Answers:
        """What a user says, as a value; refuses what nothing can be made of."""
        _check_waiting(max_waiting, timeout)
        _check_called("on_answer", on_answer)
        _check_called("on_late", on_late)
        return cls(_sink(sink), on_answer, on_late, max_waiting, timeout)


def _check_no_savepoint(spelling: Spelling, checkpoint: Path | str | None) -> None:
    """A run that kept its progress in a savepoint would not go on from it."""
    if checkpoint is None or is_in_store(str(checkpoint)) or not Path(checkpoint).expanduser().is_dir():
        return
    from watersmeet.runtime.savepoints.folder import is_savepoint  # with all that reads one

    if is_savepoint(checkpoint):
        raise OptionError(
            f"{checkpoint} is a savepoint, and no checkpoint",
            hint=f"say {spelling.savepoint} to begin with it, and give the run a checkpoint of its own",
            option="checkpoint",
        )


def checkpoint_place(checkpoint: object, name: str = "checkpoint") -> Path | str:
    """A folder; a text if it is in a store."""
    written = fspath(checkpoint) if isinstance(checkpoint, PathLike) else checkpoint
    if not isinstance(written, str) or not written or "\0" in written:
        raise OptionError(f"{name} must be the path of a folder, not {checkpoint!r}", option=name)
    return written if is_in_store(written) else Path(written).expanduser().absolute()


def _sink(sink: Any) -> Mapping[str, str] | Callable[[str], Any] | None:
    """A sink as `start` takes it: options, or what makes one."""
    if sink is None:
        return None
    if callable(sink):
        made: Callable[[str], Any] = sink
        return made
    if isinstance(sink, str | PathLike):
        return {"path": str(fspath(sink))}
    if isinstance(sink, Mapping) and all(isinstance(key, str) for key in sink):
        return {key: _word(key, value) for key, value in sink.items()}
    raise OptionError(
        f"sink must be a path, the words of CREATE SINK … WITH (…) as a dict, or a function, not {sink!r}",
        hint="write sink='out.parquet', or sink={'sink': 'parquet', 'path': 'out', 'partition_by': 'day'}",
        option="sink",
    )


def _word(key: str, value: object) -> str:
    is_list = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
    if is_list or isinstance(value, str | int | PathLike):
        return as_text(value)
    raise OptionError(f"the {key} of sink must be text, not {value!r}", option="sink")


def _check_savepoint(spelling: Spelling, savepoint: Path | str | None, afresh: bool, is_kept: bool) -> None:
    name = spelling.savepoint
    if savepoint is not None and not is_kept:
        problem = f"{name} goes with {spelling.checkpoint}: a run that goes on from a savepoint keeps its own progress"
        raise OptionError(problem, hint="add a new one", option="savepoint")
    if afresh and savepoint is None:
        raise OptionError(
            f"{spelling.name('afresh')} goes with {name}", hint="leave it out, or add that", option="afresh"
        )


def _check_flush(spelling: Spelling, available_now: bool, is_kept: bool) -> None:
    missing = [] if available_now else [spelling.available_now]
    missing += [] if is_kept else [spelling.checkpoint]
    if not missing:
        return
    whole = "without a checkpoint a run that ends gives the whole answer anyway"
    raise OptionError(
        f"{spelling.name('flush')} answers what waits once all input is read: it needs {' and '.join(missing)}",
        hint=spelling.without_flush if is_kept else whole,
        option="flush",
    )


def seconds_of(name: str, given: Interval, *, above_zero: bool = False) -> float:
    try:
        seconds = interval_us(given) / 1_000_000
    except ValueError as error:
        raise OptionError(f"{name}: {error}", option=name) from None
    if seconds < 0 or (above_zero and seconds == 0):
        raise OptionError(f"{name} must be {'above' if above_zero else 'at least'} 0 s, not {given!r}", option=name)
    return seconds


def batch_numbers(name: str, given: Collection[int]) -> frozenset[int]:
    if isinstance(given, Collection) and all(isinstance(one, int) and one >= 0 for one in given):
        return frozenset(given)
    raise OptionError(f"{name} must be a list of the numbers of batches, not {given!r}", option=name)


def _rows(name: str, given: int | None, otherwise: int) -> int:
    if given is None:
        return otherwise
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise OptionError(f"{name} must be a whole number of rows, 1 or more, not {given!r}", option=name)
    return given


def _check_waiting(max_waiting: object, timeout: object) -> None:
    if not isinstance(max_waiting, int) or max_waiting < 1:
        raise OptionError(f"max_waiting must be a whole number of rows, 1 or more, not {max_waiting!r}")
    if timeout is not None and (not isinstance(timeout, int | float) or timeout < 0):
        raise OptionError(f"timeout must be a number of seconds, or None to wait for ever, not {timeout!r}")


def _check_called(name: str, function: object) -> None:
    """Nobody would await what a coroutine function gives, and its rows would be lost."""
    if function is not None and not callable(function):
        raise OptionError(f"{name} must be a function, not {function!r}", option=name)
    if iscoroutinefunction(function):
        raise OptionError(
            f"{name} is a coroutine function, which nobody would await",
            hint="start_async() awaits its on_answer; or give a plain function",
            option=name,
        )
