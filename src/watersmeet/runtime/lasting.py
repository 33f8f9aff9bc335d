"""How a run that goes on is asked for from Python: what `query.start(checkpoint=…)` was told, checked once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.io.filesystems import is_in_store
from watersmeet.model.time import interval_us

Interval = str | timedelta
OnAnswer = Callable[[pa.RecordBatch], Any]
OnLate = Callable[[str, pa.RecordBatch], Any]
# A path; the words of CREATE SINK … WITH (…); or what makes a sink of one's own, given the name of the run.
Sink = str | PathLike[str] | Mapping[str, str] | Callable[[str], Any]


@dataclass(frozen=True)
class Lasting:
    """Where a run keeps its progress (a text if that is in a store), where its answers go, and how it goes."""

    checkpoint: Path | str
    sink: Mapping[str, str] | Callable[[str], Any] | None
    save_every_s: float
    commit_every_s: float | None  # None: as the sink says
    gather_s: float
    batch_rows: int
    available_now: bool
    flush: bool
    on_answer: OnAnswer | None
    on_late: OnLate | None
    max_waiting: int
    timeout_s: float | None
    skipped: frozenset[int] = frozenset()  # batches that are not repeated


def lasting(
    checkpoint: str | PathLike[str],
    *,
    sink: Sink | None = None,
    save_every: Interval | None = None,
    commit_every: Interval | None = None,
    gather: Interval | None = None,
    batch_rows: int | None = None,
    available_now: bool = False,
    flush: bool = False,
    skip_batches: Collection[int] = (),
    on_answer: OnAnswer | None = None,
    on_late: OnLate | None = None,
    max_waiting: int,
    timeout: float | None,
) -> Lasting:
    """What was said, as values; refuses what nothing can be made of."""
    if flush and not available_now:
        raise OptionError(
            "flush answers what waits once all input is read: it needs available_now=True",
            hint="in a run that goes on, run.flush() answers what waits now",
            option="flush",
        )
    return Lasting(
        _folder(checkpoint),
        _sink(sink),
        _seconds("save_every", save_every, 10.0, above_zero=True),
        None if commit_every is None else _seconds("commit_every", commit_every, 1.0),
        _seconds("gather", gather, 0.0),
        _rows("batch_rows", batch_rows, 1 << 16),
        available_now,
        flush,
        on_answer,
        on_late,
        max_waiting,
        timeout,
        batch_numbers("skip_batches", skip_batches),
    )


def _folder(checkpoint: object) -> Path | str:
    written = fspath(checkpoint) if isinstance(checkpoint, PathLike) else checkpoint
    if not isinstance(written, str) or not written or "\0" in written:
        raise OptionError(f"checkpoint must be the path of a folder, not {checkpoint!r}", option="checkpoint")
    return written if is_in_store(written) else Path(written).expanduser().absolute()


def _sink(sink: Any) -> Mapping[str, str] | Callable[[str], Any] | None:
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
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | PathLike):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    raise OptionError(f"the {key} of sink must be text, not {value!r}", option="sink")


def _seconds(name: str, given: Interval | None, otherwise: float, *, above_zero: bool = False) -> float:
    if given is None:
        return otherwise
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
