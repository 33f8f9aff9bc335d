"""What was written is read again, whatever stands behind it; what is damaged is told."""

import os
from pathlib import Path

import pytest

from watersmeet import RunError
from watersmeet.hosts.local.durable.journal import Journal
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.reached import Reached

SMALL, LARGE = b"few bytes", bytes(range(256)) * 1024


def written(folder: Path, *records: bytes, first: int = 0) -> Journal:
    journal = Journal(Place(folder))
    for number, record in enumerate(records, first):
        journal.append(number, [record[:3], record[3:]])
    return journal


def read(folder: Path, after: int = -1) -> list[tuple[int, bytes]]:
    return list(Journal(Place(folder)).records(after))


@pytest.mark.parametrize("records", [(), (SMALL,), (LARGE, SMALL, LARGE), (SMALL,) * 40, (LARGE,) * 6])
@pytest.mark.parametrize("closed", [True, False])
def test_records_come_back_in_order(tmp_path: Path, records: tuple[bytes, ...], closed: bool) -> None:
    journal = written(tmp_path, *records)
    if closed:
        journal.close()
        assert journal.nbytes == sum(len(one) + 24 for one in records)
    assert read(tmp_path) == list(enumerate(records))
    assert read(tmp_path, after=1) == list(enumerate(records))[2:]


def test_a_life_goes_on_behind_one_that_was_killed(tmp_path: Path) -> None:
    written(tmp_path, SMALL, SMALL)  # not closed: zeros stand behind its records
    assert len(read(tmp_path)) == 2
    written(tmp_path, LARGE, SMALL, first=2)
    assert read(tmp_path) == [(0, SMALL), (1, SMALL), (2, LARGE), (3, SMALL)]


def test_zeros_behind_a_file_that_is_not_the_last_are_its_end(tmp_path: Path) -> None:
    written(tmp_path, SMALL)  # the machine went down, so nobody has cut them off
    written(tmp_path, SMALL, first=1)
    assert [number for number, _ in read(tmp_path)] == [0, 1]


def test_a_file_without_a_record_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "journal-000000000000000.log").write_bytes(bytes(5000))
    assert read(tmp_path) == []
    written(tmp_path, SMALL).close()
    assert read(tmp_path) == [(0, SMALL)]


@pytest.mark.parametrize("kept", [1, 10, 25, 30])
def test_a_torn_end_is_cut_off(tmp_path: Path, kept: int) -> None:
    journal = written(tmp_path, SMALL, SMALL)
    (path,) = tmp_path.iterdir()
    size, end = path.stat().st_size, journal._end
    os.truncate(path, end - (24 + len(SMALL)) + kept)
    os.truncate(path, size)
    assert read(tmp_path) == [(0, SMALL)]
    written(tmp_path, LARGE, first=1)
    assert read(tmp_path) == [(0, SMALL), (1, LARGE)]


def test_what_is_damaged_before_the_end_is_told(tmp_path: Path) -> None:
    written(tmp_path, SMALL, SMALL, SMALL)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunError, match="is no record"):
        read(tmp_path)


def acknowledged(folder: Path, *records: bytes, first: int = 0) -> None:
    """As a run leaves a journal that is killed: it is noted beside it how far it was on the disk."""
    reached = Reached(Place(folder), "r")
    reached.begin(reached.logged, -1, -1)
    journal = Journal(Place(folder), "r", reached=reached)
    for number, record in enumerate(records, first):
        journal.append(number, [record])


def read_acknowledged(folder: Path) -> list[int]:
    journal = Journal(Place(folder), "r", reached=Reached(Place(folder), "r", has_begun=True))
    return [number for number, _ in journal.records(-1)]


def test_the_last_record_is_damaged_if_it_was_acknowledged_and_torn_if_not(tmp_path: Path) -> None:
    acknowledged(tmp_path, SMALL, SMALL)
    path = tmp_path / "journal-000000000000000.log"
    whole = path.read_bytes()
    end = 2 * (24 + len(SMALL))
    for data in (
        whole[: end - 1],
        whole[: end - 4] + b"?" + whole[end - 3 :],
        whole[: end // 2],
        b"",
        bytes(len(whole)),
    ):
        path.write_bytes(data)
        with pytest.raises(RunError, match=path.name):
            read_acknowledged(tmp_path)
    path.write_bytes(whole[:end] + whole[: end // 2 - 1])  # of a third one that nobody heard of
    assert read_acknowledged(tmp_path) == [0, 1]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    names = [f"journal-00000000000000{first}.log" for first in (0, 2, 4)]
    for first in (0, 2, 4):
        acknowledged(tmp_path, SMALL, SMALL, first=first)
    assert read_acknowledged(tmp_path) == list(range(6))
    for name in names:
        (tmp_path / name).rename(tmp_path / "away")
        with pytest.raises(RunError, match=f"{name} is damaged: the journal lacks the batches"):
            read_acknowledged(tmp_path)
        (tmp_path / "away").rename(tmp_path / name)


def test_files_that_were_exchanged_are_damaged(tmp_path: Path) -> None:
    for first in (0, 2):
        acknowledged(tmp_path, SMALL, SMALL, first=first)
    one, other = (tmp_path / f"journal-00000000000000{first}.log" for first in (0, 2))
    one.rename(tmp_path / "away")
    other.rename(one)
    (tmp_path / "away").rename(other)
    with pytest.raises(RunError, match="is damaged"):
        read_acknowledged(tmp_path)


def test_records_that_need_not_be_on_the_disk_at_once_come_back_too(tmp_path: Path) -> None:
    journal = Journal(Place(tmp_path))
    for number in range(6):
        journal.append(number, [SMALL], soon=number % 3 > 0)
    journal.sync(5)
    assert read(tmp_path) == [(number, SMALL) for number in range(6)]


def test_of_records_that_were_not_on_the_disk_some_may_be_missing(tmp_path: Path) -> None:
    journal = Journal(Place(tmp_path))
    for number in range(4):
        journal.append(number, [SMALL], soon=number > 0)
    (path,) = tmp_path.iterdir()
    length = journal._end // 4
    _blot_out(path, 2 * length, length)  # the disk has the fourth, but not the third
    torn = Journal(Place(tmp_path))
    assert [number for number, _ in torn.records(-1)] == [0, 1]
    assert torn.is_torn


def test_a_record_is_missing_for_good_if_the_next_was_written_when_it_was_on_the_disk(tmp_path: Path) -> None:
    journal = Journal(Place(tmp_path))
    for number in range(4):
        journal.append(number, [SMALL], soon=number > 0)
        if number == 2:
            journal.sync(2)
    (path,) = tmp_path.iterdir()
    length = journal._end // 4
    _blot_out(path, length, length)
    with pytest.raises(RunError, match="is damaged"):
        read(tmp_path)


def test_an_end_that_is_not_on_the_disk_is_brought_there_with_the_file(tmp_path: Path, monkeypatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    journal = Journal(Place(tmp_path))
    journal.append(0, [SMALL], soon=True)
    assert not synced
    journal.roll()
    assert len(synced) == 1
    journal.append(1, [SMALL], soon=True)
    journal.sync(1)
    journal.sync(1)
    assert len(synced) == 2
    journal.append(2, [SMALL])
    assert len(synced) == 3


def _blot_out(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(length))
