"""Several queries read one source: each is given what a reader of its own would give it, wherever it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from watersmeet.io.connectors import shared_reader
from watersmeet.io.connectors.contract import Position, Range, Reader, SourceBatch
from watersmeet.io.connectors.readers import TableReader, kind_of, reader_of
from watersmeet.io.connectors.shared_reader import SharedReader, SharedSource
from watersmeet.model.catalog import Stream

COLUMNS = {"id": "BIGINT", "ts": "TIMESTAMP"}
Act = tuple[str, int, int]


def stream_of(data: Any, **how: Any) -> Stream:
    session = wm.Session()
    session.stream("a", data, time="ts", **how)
    stream = session.catalog["a"]
    assert isinstance(stream, Stream)
    return stream


def folder_stream(folder: Path) -> Stream:
    return stream_of(str(folder), schema=COLUMNS)


def write(folder: Path, number: int, rows: int) -> None:
    lines = [json.dumps({"id": 100 * number + one, "ts": "2026-01-01 00:00:00"}) for one in range(rows)]
    (folder / f"{number:03}.draft").write_text("".join(f"{line}\n" for line in lines))
    (folder / f"{number:03}.draft").rename(folder / f"{number:03}.json")


class Asked:
    """Counts how often rows are read for anybody."""

    def __init__(self, stream: Stream) -> None:
        self.times = 0
        self._stream = stream

    def __call__(self) -> Reader:
        reader = reader_of(self._stream)
        poll = reader.poll

        def counted(most_rows: int) -> SourceBatch | None:
            batch = poll(most_rows)
            self.times += batch is not None
            return batch

        reader.poll = counted  # type: ignore[method-assign]
        return reader


class Follower:
    """A query: what it was given, and where it goes on after a restart."""

    def __init__(self, source: SharedSource) -> None:
        self.ids: list[int] = []
        self.saved: Position | None = None
        self.since: list[Range] = []  # given after it
        self.saved_ids: list[int] = []
        self.begin(source)

    def begin(self, source: SharedSource) -> None:
        """From where its state was saved, with what it has in its journal since given again."""
        self.reader = source.reader()
        first = self.reader.first_position() if self.saved is None else None
        if self.saved is not None:
            self.reader.resume(self.saved)
        elif first is not None:
            self.saved = json.loads(json.dumps(first))
        self.ids = list(self.saved_ids)
        for place in self.since:
            self.ids += ids_of(self.reader.again(place))

    def poll(self, most_rows: int) -> bool:
        batch = self.reader.poll(most_rows)
        if batch is not None:
            self.since.append(json.loads(json.dumps(batch.range)))
            self.ids += ids_of(batch)
        return batch is not None

    def save(self) -> None:
        if self.since:
            self.saved = json.loads(json.dumps(self.reader.position_after(self.since[-1])))
            self.saved_ids, self.since = list(self.ids), []


def ids_of(batch: SourceBatch) -> list[int]:
    found: list[int] = batch.rows.column("id").to_pylist()
    return found


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["poll"] * 6 + ["save", "save", "restart", "write"]), st.integers(0, 2), st.integers(1, 4)
    ),
    max_size=60,
)


@random_cases(80)
@given(acts=ACTS, most=st.sampled_from([0, 100, 1 << 20]))
def test_each_is_given_every_row_once_whatever_the_others_do(acts: list[Act], most: int) -> None:
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_reader, "MOST_BYTES", most)
        patch.setattr(shared_reader, "BATCH_BYTES", 1)
        patch.setattr(shared_reader, "FEWEST_BATCHES", 1)
        folder, written = Path(name), 1
        write(folder, 0, 5)
        stream = folder_stream(folder)
        source = SharedSource(lambda: reader_of(stream))
        followers = [Follower(source) for _ in range(3)]
        for act, who, number in acts:
            match act:
                case "poll":
                    followers[who].poll(number)
                case "save":
                    followers[who].save()
                case "write":
                    write(folder, written, number)
                    written += 1
                case "restart":  # of the whole script
                    for one in followers:
                        one.reader.close()
                    source = SharedSource(lambda: reader_of(stream))
                    for one in followers:
                        one.begin(source)
        alone, ids = reader_of(stream), []
        while (batch := alone.poll(100)) is not None:
            ids += ids_of(batch)
        for one in followers:
            while one.poll(3):
                pass
            assert one.ids == ids
        # All are at the end, so from now on they are one.
        for one in followers:
            one.poll(3)
        assert len(source.lines) == 1
        for one in followers:
            one.reader.close()


def test_a_file_is_read_once_for_all(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, number, 5)
    asked = Asked(folder_stream(tmp_path))
    source = SharedSource(asked)
    followers = [Follower(source) for _ in range(5)]
    for one in followers:
        while one.poll(100):
            pass
    assert asked.times == 4
    assert all(one.ids == followers[0].ids for one in followers)
    assert kind_of(followers[0].reader) == kind_of(reader_of(folder_stream(tmp_path)))


def test_one_that_begins_later_is_given_what_the_others_had(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, number, 5)
    asked = Asked(folder_stream(tmp_path))
    source = SharedSource(asked)
    first, late = Follower(source), Follower(source)
    while first.poll(100):
        pass
    while late.poll(100):
        pass
    assert late.ids == first.ids
    assert asked.times == 4


def test_one_that_is_left_behind_reads_by_itself_until_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_reader, "MOST_BYTES", 100)
    monkeypatch.setattr(shared_reader, "BATCH_BYTES", 1)
    monkeypatch.setattr(shared_reader, "FEWEST_BATCHES", 2)
    for number in range(9):
        write(tmp_path, number, 5)
    asked = Asked(folder_stream(tmp_path))
    source = SharedSource(asked)
    fast, slow = Follower(source), Follower(source)
    assert slow.poll(100)
    while fast.poll(100):
        pass
    assert asked.times == 9
    while slow.poll(100):
        pass
    assert slow.ids == fast.ids
    assert asked.times == 9 + 8
    assert len(source.lines) == 1
    write(tmp_path, 9, 5)
    assert slow.poll(100)
    assert fast.poll(100)
    assert asked.times == 18
    assert slow.ids == fast.ids


def test_what_goes_wrong_with_the_source_is_raised_to_all_who_stand_there(tmp_path: Path) -> None:
    write(tmp_path, 0, 5)
    source = SharedSource(lambda: reader_of(folder_stream(tmp_path)))
    followers = [Follower(source) for _ in range(3)]
    for one in followers:
        assert one.poll(100)
    (tmp_path / "001.json").write_text("nonsense\n")
    for one in followers:
        with pytest.raises(wm.SourceError, match=r"001\.json cannot be read"):
            one.poll(100)


def test_rows_at_hand_are_shared_too() -> None:
    rows = pa.table({"id": pa.array(range(9), pa.int64()), "ts": pa.array(range(9), pa.timestamp("us"))})
    source = SharedSource(lambda: reader_of(stream_of(rows)))
    followers = [Follower(source) for _ in range(2)]
    for one in followers:
        while one.poll(2):
            pass
        one.save()
        assert one.ids == list(range(9))
    assert isinstance(followers[0].reader, SharedReader)
    assert isinstance(followers[0].reader.own, TableReader)


def test_readers_that_cannot_tell_how_far_others_are_read_alone(tmp_path: Path) -> None:
    write(tmp_path, 0, 5)

    class Own(TableReader):
        may_be_shared = False

    rows = pa.table({"id": pa.array(range(3), pa.int64()), "ts": pa.array(range(3), pa.timestamp("us"))})
    stream = stream_of(rows)
    source = SharedSource(lambda: Own(stream.source, stream))  # type: ignore[arg-type]
    assert [type(source.reader()) for _ in range(2)] == [Own, Own]


def test_warnings_of_a_source_reach_all_who_stand_in_line(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, 0, 5)
    source = SharedSource(lambda: reader_of(folder_stream(folder)))
    followers, told = [Follower(source) for _ in range(3)], [0, 0, 0]

    def hear(number: int) -> Callable[[Warning], None]:
        def tell(warning: Warning) -> None:
            told[number] += 1

        return tell

    for number, one in enumerate(followers):
        one.reader.tell = hear(number)
        assert one.poll(100)
    folder.rename(tmp_path / "out")
    assert not followers[1].poll(100)
    assert told == [1, 1, 1]


@pytest.mark.parametrize("readers", [2, 6])
def test_threads_may_ask_at_once(tmp_path: Path, readers: int) -> None:
    for number in range(40):
        write(tmp_path, number, 5)
    asked = Asked(folder_stream(tmp_path))
    source = SharedSource(asked)
    followers = [Follower(source) for _ in range(readers)]

    def read(one: Follower) -> None:
        while len(one.ids) < 200:
            one.poll(7)
            if len(one.ids) % 3 == 0:
                one.save()

    threads = [Thread(target=read, args=(one,), daemon=True) for one in followers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [sorted(one.ids) == one.ids and len(one.ids) == 200 for one in followers] == [True] * readers
    assert asked.times == 40


class Slow(TableReader):
    """Waits for rows itself, so that somebody nearly always asks it."""

    pause_s = 0.0
    closed = 0

    def poll(self, most_rows: int) -> SourceBatch | None:
        batch = super().poll(min(most_rows, 1))
        sleep(0.02 if batch is None else 0.0)
        return batch

    def close(self) -> None:
        Slow.closed += 1


def test_lines_meet_though_somebody_always_waits_for_rows() -> None:
    rows = pa.table({"id": pa.array(range(9), pa.int64()), "ts": pa.array(range(9), pa.timestamp("us"))})
    stream = stream_of(rows)
    source = SharedSource(lambda: Slow(stream.source, stream))  # type: ignore[arg-type]
    readers = [source.reader() for _ in range(2)]
    readers[0].resume(4)
    readers[1].resume(7)
    found: list[list[int]] = [[], []]
    stop = monotonic() + 10
    Slow.closed = 0

    def read(number: int) -> None:
        while monotonic() < stop and (len(source.lines) != 1 or len(found[number]) < (5, 2)[number]):
            batch = readers[number].poll(10)
            found[number] += [] if batch is None else ids_of(batch)

    threads = [Thread(target=read, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [[4, 5, 6, 7, 8], [7, 8]]
    assert len(source.lines) == 1
    assert Slow.closed == 1
    for reader in readers:
        reader.close()
    assert Slow.closed == 2


def test_one_that_ends_before_it_began_keeps_nothing_back() -> None:
    rows = pa.table({"id": pa.array(range(9), pa.int64()), "ts": pa.array(range(9), pa.timestamp("us"))})
    source = SharedSource(lambda: reader_of(stream_of(rows)))
    first, never = source.reader(), source.reader()
    assert first.poll(2) is not None
    assert len(source.lines[0].batches) == 1
    never.close()
    assert first.poll(2) is not None
    assert not source.lines[0].batches


def test_who_was_left_behind_has_more() -> None:
    rows = pa.table({"id": pa.array(range(9), pa.int64()), "ts": pa.array(range(9), pa.timestamp("us"))})
    source = SharedSource(lambda: reader_of(stream_of(rows)))
    first, second = source.reader(), source.reader()
    batch = first.poll(1)
    assert first.has_more(batch) is True
    assert isinstance(first, SharedReader)
    while (batch := second.poll(1)) is not None:
        pass
    first.fall_behind()
    source.lines[0].readers.remove(first)
    assert first.has_more(None) is True
    batch = first.poll(1)
    assert batch is not None
    assert ids_of(batch) == [1]
