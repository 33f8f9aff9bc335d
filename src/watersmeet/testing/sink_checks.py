"""Whether a sink does what hosts rely on: what it must do is one tuple of checks, which every sink is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import SinkError
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening, Start
from watersmeet.io.connectors.gone import check_committed
from watersmeet.io.connectors.guarded import GuardedSink
from watersmeet.testing.difference import difference
from watersmeet.testing.rows import Row

OLD = Start("0a0a0a0a")
NEW = Start("0b0b0b0b", frozenset({"0a0a0a0a"}))
COPY = Start("0c0c0c0c")  # of a checkpoint from before OLD


@dataclass(frozen=True)
class SinkCase:
    """A sink that has nothing yet, and how what it has is read.

    open: opens it; what is in the opening of the case is varied by checks: its run, its start, what is committed. rows:
    so many rows from the so manieth on, all different, with the columns of the opening. read: all rows that somebody
    who reads finds there. other_columns: columns for which rows there is no room beside those of the opening, if the
    other end has columns of its own; None if it takes any.
    """

    open: Callable[[SinkOpening], NumberedSink]
    opening: SinkOpening
    rows: Callable[[int, int], pa.RecordBatch]
    read: Callable[[], list[Row]]
    other_columns: pa.Schema | None = None


def check_sink(make: Callable[[], SinkCase]) -> None:
    """Hold a sink to the contract in `watersmeet.io.connectors.contract`: an AssertionError says what it breaks.

    make: a new case for each check. `SINK_CHECKS` are the checks, for who wants a test of each.
    """
    for check in SINK_CHECKS:
        check(make())


# ---- the checks -----------------------------------------------------------------------------------------------------


def has_nothing_at_first(case: SinkCase) -> None:
    sink = _opened(case)
    _has(case, sink, -1, 0)
    sink.close()


def commits_each_number_once(case: SinkCase) -> None:
    sink = _opened(case)
    sink.commit(0, [case.rows(0, 3)])
    _has(case, sink, 0, 3)
    sink.commit(1, [case.rows(3, 2), case.rows(5, 1)])
    _has(case, sink, 1, 6)
    sink.commit(1, [case.rows(100, 2)])
    sink.commit(0, [case.rows(200, 2)])
    _has(case, sink, 1, 6)
    sink.close()


def commits_many_batches_under_the_last_number(case: SinkCase) -> None:
    sink = _opened(case)
    sink.commit(4, [case.rows(0, 3)])
    sink.commit(17, [case.rows(3, 3)])
    _has(case, sink, 17, 6)
    sink.commit(9, [case.rows(100, 2)])
    _has(case, sink, 17, 6)
    sink.close()


def goes_on_when_it_is_opened_again(case: SinkCase) -> None:
    for life in range(3):
        sink = _opened(case, committed=life - 1)
        _has(case, sink, life - 1, 2 * life)
        if life:
            sink.commit(life - 1, [case.rows(100, 2)])  # a batch that is repeated
        sink.commit(life, [case.rows(2 * life, 2)])
        _has(case, sink, life, 2 * life + 2)
        sink.close()


def has_nothing_of_another_run(case: SinkCase) -> None:
    """It may refuse to write beside what another has written, and must not take its numbers for its own."""
    sink = _opened(case)
    sink.commit(3, [case.rows(0, 2)])
    sink.close()
    try:
        other = case.open(replace(case.opening, run="fedcba987654"))
    except SinkError:
        return
    assert other.committed() == -1, f"it takes number {other.committed()} of another run for its own"
    other.commit(0, [case.rows(2, 2)])
    other.close()
    _has(case, _opened(case), 3, 4)


def misses_what_it_has_written_before(case: SinkCase) -> None:
    """What is gone is not made anew without a word, unless that was said."""
    warnings_given: list[Warning] = []
    opening = replace(case.opening, committed=3)
    try:
        sink = case.open(opening)
        check_committed(opening.name, sink, opening.committed, None, warnings_given.append)
    except SinkError:
        return _made_anew(case)
    assert sink.may_forget, "what it has committed is gone, and it goes on without a word"
    assert warnings_given, "what it has committed is gone, and nobody is told"
    sink.close()
    return _made_anew(case)


def _made_anew(case: SinkCase) -> None:
    sink = case.open(replace(case.opening, committed=3, makes_anew=True))
    sink.commit(4, [case.rows(0, 2)])
    _has(case, sink, 4, 2)
    sink.close()


def is_owned_by_the_newest_start(case: SinkCase) -> None:
    old = _opened(case, start=OLD)
    old.commit(0, [case.rows(0, 2)])
    new = _opened(case, start=NEW)
    _has(case, new, 0, 2)
    if new.claim is not None:
        assert new.written_by == OLD.token, f"written_by is {new.written_by!r}, not the start that wrote the last batch"
        _refused("a start that is not the newest commits", lambda: old.commit(1, [case.rows(100, 2)]))
    new.commit(1, [case.rows(2, 2)])
    _refused("a start commits behind what a newer one has written", lambda: old.commit(2, [case.rows(200, 2)]))
    _has(case, new, 1, 4)
    new.close()
    old.close()


def is_refused_to_a_copy_that_does_not_know_its_writer(case: SinkCase) -> None:
    sink = _opened(case, start=OLD)
    sink.commit(0, [case.rows(0, 2)])
    sink.close()
    if sink.claim is None:
        return
    _refused("a checkpoint that is older than the sink opens it", lambda: case.open(replace(case.opening, start=COPY)))
    again = _opened(case, start=NEW)
    again.commit(1, [case.rows(2, 2)])
    _has(case, again, 1, 4)
    again.close()


def refuses_rows_for_which_it_has_no_columns(case: SinkCase) -> None:
    other = case.other_columns
    if other is None:
        return
    sink = _opened(case)
    sink.commit(0, [case.rows(0, 2)])
    sink.close()
    said = f"rows with ({', '.join(other.names)}) are taken beside others"
    _refused(said, lambda: case.open(replace(case.opening, schema=other)))
    _has(case, _opened(case), 0, 2)


def can_be_closed_twice(case: SinkCase) -> None:
    sink = _opened(case)
    sink.commit(0, [case.rows(0, 2)])
    sink.close()
    sink.close()
    _has(case, _opened(case), 0, 2)


#: All that `check_sink` looks at, one function each: for tests that name what fails.
SINK_CHECKS: tuple[Callable[[SinkCase], None], ...] = (
    has_nothing_at_first,
    commits_each_number_once,
    commits_many_batches_under_the_last_number,
    goes_on_when_it_is_opened_again,
    has_nothing_of_another_run,
    misses_what_it_has_written_before,
    is_owned_by_the_newest_start,
    is_refused_to_a_copy_that_does_not_know_its_writer,
    refuses_rows_for_which_it_has_no_columns,
    can_be_closed_twice,
)


# ---- writing, as a host does ----------------------------------------------------------------------------------------


def _opened(case: SinkCase, *, committed: int = -1, start: Start | None = None) -> NumberedSink:
    """As a host opens it: it also looks whether somebody else has written."""
    found = case.open(replace(case.opening, committed=committed, start=start))
    sink = GuardedSink("the sink", found)
    sink.committed()
    return sink


def _has(case: SinkCase, sink: NumberedSink, number: int, rows: int) -> None:
    assert sink.committed() == number, f"committed() is {sink.committed()}, but batch {number} was the last"
    expected = [] if rows == 0 else case.rows(0, rows).to_pylist()
    said = difference(f"rows up to batch {number}", expected, _read(case), in_order=False)
    assert said is None, said


def _read(case: SinkCase) -> Sequence[Row]:
    names = case.opening.schema.names
    return [{name: row[name] for name in names} for row in case.read()]


def _refused(what: str, do: Callable[[], object]) -> None:
    try:
        do()
    except SinkError:
        return
    raise AssertionError(f"{what}, and is not refused with a SinkError")
