"""Whether a source does what hosts rely on: what it must do is one tuple of checks, which every source is held to."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.io.connectors.contract import BAD_RECORDS, Offsets, PartitionedSource, Reader, Split
from watersmeet.io.connectors.guarded import GuardedSource
from watersmeet.io.connectors.offset_reader import reader_of_partitions
from watersmeet.testing.difference import difference
from watersmeet.testing.rows import Row

MOST_STEPS = 1_000  # a source that takes more for a few rows does not get on


@dataclass(frozen=True)
class SourceCase:
    """A source with nothing to read yet, and how rows come to it.

    open: the source, opened anew from its beginning, as a later life of a run opens it. put: add rows at its other end;
    they lie behind those that are there, in whichever partitions. rows: so many rows from the so manieth on, all
    different, as `put` takes them. latest: the source opened where rows that come from now on are, if it has that.
    put_elsewhere: add rows in a partition that was not there before, if there may be several.
    """

    open: Callable[[], PartitionedSource]
    put: Callable[[pa.Table], None]
    rows: Callable[[int, int], pa.Table]
    latest: Callable[[], PartitionedSource] | None = None
    put_elsewhere: Callable[[pa.Table], None] | None = None


def check_source(make: Callable[[], SourceCase]) -> None:
    """Hold a source to the contract in `watersmeet.io.connectors.contract`: an AssertionError says what it breaks.

    make: a new case for each check. `SOURCE_CHECKS` are the checks, for who wants a test of each.
    """
    for check in SOURCE_CHECKS:
        check(make())


# ---- the checks -----------------------------------------------------------------------------------------------------


def says_what_it_is(case: SourceCase) -> None:
    case.put(case.rows(0, 1))
    source = case.open()
    assert isinstance(source, PartitionedSource), f"{type(source).__name__} does not derive from PartitionedSource"
    assert isinstance(source.schema, pa.Schema), f"schema is a {type(source.schema).__name__}, not a pyarrow.Schema"
    assert isinstance(source.description, str), f"description is a {type(source.description).__name__}, not a text"
    assert source.identity() == case.open().identity(), "identity() is another when the same is opened again"


def has_nothing_beyond_what_came(case: SourceCase) -> None:
    case.put(case.rows(0, 2))
    source = case.open()
    _, end = _read(source, source.begin())
    assert _offsets(source.newest(end)) == end, f"newest({end}) is further on, though nothing came"
    assert _offsets(source.newest(end, 1)) == end, f"newest({end}, 1) is further on, though nothing came"
    assert source.splits(end, end) == [], f"splits() gives something between {end} and the same"
    reader = _reader(case.open())
    _same("rows of its reader", case.rows(0, 2), [row for _, rows in _polled(reader) for row in rows])
    assert reader.poll(10) is None, "poll() gives something, though nothing came"
    reader.close()


def reads_all_that_is_there(case: SourceCase) -> None:
    _put(case, 0, 7, 3)
    source = case.open()
    found, _ = _read(source, source.begin())
    _same("rows from the beginning", case.rows(0, 10), found)


def reads_the_same_again_and_elsewhere(case: SourceCase) -> None:
    _put(case, 0, 4, 3)
    source = case.open()
    splits = _splits(source, source.begin(), source.newest(source.begin()))
    first = {number: _rows_of(source, one) for number, one in enumerate(splits)}
    case.put(case.rows(7, 3))
    others = {"again": source, "by a pickled copy": _copied(source), "by a later life": case.open()}
    for how, other in others.items():
        for number, one in enumerate(splits):
            _same_rows(f"{one}, read {how}", first[number], _rows_of(other, one), in_order=True)


def reads_between_the_same_offsets_when_more_came(case: SourceCase) -> None:
    case.put(case.rows(0, 5))
    source = case.open()
    begin = source.begin()
    found, end = _read(source, begin)
    case.put(case.rows(5, 5))
    for other in (source, case.open()):
        again = [row for one in _splits(other, begin, end) for row in _rows_of(other, one)]
        _same_rows(f"rows between {begin} and {end} when more came", found, again)


def goes_on_behind_what_was_read(case: SourceCase) -> None:
    _put(case, 0, 3, 2)
    source = case.open()
    _, end = _read(source, source.begin())
    _put(case, 5, 2, 2)
    for how, other in {"": source, " in a later life": case.open(), " by a copy": _copied(source)}.items():
        found, _ = _read(other, end)
        _same(f"rows behind {end}{how}", case.rows(5, 4), found)


def comes_in_steps_to_the_same(case: SourceCase) -> None:
    _put(case, 0, 3, 2, 2, 2)
    source = case.open()
    whole, _ = _read(source, source.begin())
    for most_rows in (1, 4):
        found, at = [], _offsets(source.begin())
        for _ in range(MOST_STEPS):
            upto = _offsets(source.newest(at, most_rows))
            if upto == at:
                break
            found += [row for one in _splits(source, at, upto) for row in _rows_of(source, one)]
            at = upto
        else:
            raise AssertionError(f"newest(…, {most_rows}) does not come to an end")
        _same_rows(f"rows that come about {most_rows} at a time", whole, found)


def divides_a_partition_without_gaps(case: SourceCase) -> None:
    _put(case, 0, 3, 3, 3, 3)
    source = case.open()
    begin = _offsets(source.begin())
    upto = _offsets(source.newest(begin))
    at = dict(begin)
    for one in _splits(source, begin, upto):
        known = at.get(one.partition, one.after)
        assert known == one.after, f"{one} does not begin at {known}, where the one before ends"
        assert one.after != one.upto, f"{one} is empty"
        at[one.partition] = one.upto
        found, _ = _read(source, at)  # each end is a place to go on from
    _same_rows("rows behind the last split", [], found)


def begins_at_the_latest_for_good(case: SourceCase) -> None:
    if case.latest is None:
        return
    case.put(case.rows(0, 5))
    source = case.latest()
    begin = _offsets(source.begin())
    _same_rows("rows at the latest", [], _read(source, begin)[0])
    case.put(case.rows(5, 3))
    for other in (source, case.latest()):  # a later life goes by what was noted
        _same("rows that came after the latest", case.rows(5, 3), _read(other, begin)[0])


def takes_in_new_partitions(case: SourceCase) -> None:
    if case.put_elsewhere is None:
        return
    case.put(case.rows(0, 5))
    source = case.open()
    _, end = _read(source, source.begin())
    case.put_elsewhere(case.rows(5, 3))
    found, later = _read(source, end)
    assert set(later) > set(end), f"no partition is new in {sorted(later)}"
    _same("rows of a new partition", case.rows(5, 3), found)


def can_be_closed_twice_and_used_again(case: SourceCase) -> None:
    case.put(case.rows(0, 3))
    source = case.open()
    begin = source.begin()
    source.close()
    source.close()
    _same("rows after close()", case.rows(0, 3), _read(source, begin)[0])
    source.close()


def is_read_on_by_its_reader(case: SourceCase) -> None:
    _put(case, 0, 3, 2)
    reader = _reader(case.open())
    first = reader.first_position()
    polled = list(_polled(reader))
    _same("rows of its reader", case.rows(0, 5), [row for _, rows in polled for row in rows])
    case.put(case.rows(5, 4))
    later = _later(reader)
    _same("rows of its reader that came later", case.rows(5, 4), [row for _, rows in later for row in rows])
    reader.close()
    again = _reader(case.open())
    if first is not None:
        again.resume(_noted(first))
    for place, rows in [*polled, *later]:
        _same_rows(f"rows of {place}, read again", rows, again.again(place).rows.to_pylist(), in_order=True)
    again.close()


def is_resumed_behind_every_range(case: SourceCase) -> None:
    _put(case, 0, 2, 3, 1)
    reader = _reader(case.open())
    polled = list(_polled(reader))
    positions = [_noted(reader.position_after(place)) for place, _ in polled]
    reader.close()
    for number, position in enumerate(positions, 1):
        resumed = _reader(case.open())
        resumed.resume(position)
        left = [row for _, rows in polled[number:] for row in rows]
        _same_rows(f"rows behind {position}", left, [row for _, rows in _polled(resumed) for row in rows])
        resumed.close()


#: All that `check_source` looks at, one function each: for tests that name what fails.
SOURCE_CHECKS: tuple[Callable[[SourceCase], None], ...] = (
    says_what_it_is,
    has_nothing_beyond_what_came,
    reads_all_that_is_there,
    reads_the_same_again_and_elsewhere,
    reads_between_the_same_offsets_when_more_came,
    goes_on_behind_what_was_read,
    comes_in_steps_to_the_same,
    divides_a_partition_without_gaps,
    begins_at_the_latest_for_good,
    takes_in_new_partitions,
    can_be_closed_twice_and_used_again,
    is_read_on_by_its_reader,
    is_resumed_behind_every_range,
)


# ---- reading, as a host does ----------------------------------------------------------------------------------------


def _put(case: SourceCase, first: int, *many: int) -> None:
    """Some rows after the other."""
    for one in many:
        case.put(case.rows(first, one))
        first += one


def _noted(value: Any) -> Any:
    """As it is after a restart, which finds it as JSON."""
    return json.loads(json.dumps(value))


def _offsets(given: Offsets) -> dict[str, Any]:
    assert isinstance(given, Mapping), f"offsets are a {type(given).__name__}, not a mapping by partitions"
    assert all(isinstance(one, str) for one in given), f"partitions are named by texts, not {sorted(map(repr, given))}"
    return dict(_noted(dict(given)))


def _copied(source: PartitionedSource) -> PartitionedSource:
    copied: PartitionedSource = pickle.loads(pickle.dumps(source))
    return copied


def _read(source: PartitionedSource, after: Offsets) -> tuple[list[Row], dict[str, Any]]:
    """All that lies behind, and how far that is. Partitions that are gone have nothing more."""
    before = _offsets(after)
    upto = before | _offsets(source.newest(before))
    return [row for one in _splits(source, before, upto) for row in _rows_of(source, one)], upto


def _splits(source: PartitionedSource, after: Offsets, upto: Offsets) -> list[Split]:
    found = source.splits(_offsets(after), _offsets(upto))
    assert all(isinstance(one, Split) for one in found), f"splits() gave {found}, which are not all a Split"
    return [Split(one.partition, _noted(one.after), _noted(one.upto)) for one in found]


def _rows_of(source: PartitionedSource, split: Split) -> list[Row]:
    found: list[Row] = []
    for batch in source.read(split):
        given, said = batch.rows.schema, source.schema
        assert given.equals(said), f"read() gave rows with ({given}), but its schema says ({said})"
        assert batch.bad is None or batch.bad.schema.equals(BAD_RECORDS), "bad records have not those columns"
        found += batch.rows.to_pylist()
    return found


def _reader(source: PartitionedSource) -> Reader:
    """The one that hosts use: its own, or one that goes by its offsets."""
    return reader_of_partitions(GuardedSource("the source", source))


def _polled(reader: Reader) -> Iterator[tuple[Any, list[Row]]]:
    """What it gives until it has nothing more, two rows at a time, and where that lies."""
    for _ in range(MOST_STEPS):
        batch = reader.poll(2)
        if batch is not None:
            yield _noted(batch.range), batch.rows.to_pylist()
        elif not reader.is_behind:
            return
    raise AssertionError("its reader does not come to an end")


def _later(reader: Reader) -> list[tuple[Any, list[Row]]]:
    """What came since it had nothing; one that waits itself may hear of it only by and by."""
    for _ in range(MOST_STEPS):
        found = list(_polled(reader))
        if found:
            return found
    return []


def _same(what: str, put: pa.Table, found: list[Row]) -> None:
    """A source may have columns beside those that were put."""
    names = put.schema.names
    _same_rows(what, put.to_pylist(), [{name: row[name] for name in names} for row in found])


def _same_rows(what: str, expected: list[Row], found: list[Row], *, in_order: bool = False) -> None:
    said = difference(what, expected, found, in_order=in_order)
    assert said is None, said
