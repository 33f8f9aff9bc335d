"""Whose a checkpoint is, by the file in it."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from watersmeet.errors import SetupError
from watersmeet.hosts.spark.checkpoints import checkpoint
from watersmeet.hosts.spark.checkpoints.checkpoint import Checkpoint, CommittedBatches, Owner
from watersmeet.hosts.spark.jobs.fingerprint import STATE_FORMAT
from watersmeet.hosts.spark.paths import NOTES

OWNER = Owner("SELECT 1", 2, {"a": "k int64"}, [f"{STATE_FORMAT}-f1"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """Of this machine, so that no Spark is asked; its state knows nothing yet."""
    monkeypatch.setattr(checkpoint, "is_here", lambda spark, folder: True)
    monkeypatch.setattr(checkpoint, "read_guard", lambda spark, folder: None)
    return Checkpoint(None, str(tmp_path))  # type: ignore[arg-type]


def started(folder: Checkpoint) -> Path:
    (Path(folder.folder) / "metadata").write_text('{"id": "1"}')
    return Path(folder.folder) / NOTES["owner"]


def test_a_new_checkpoint_becomes_that_of_the_first_query(folder: Checkpoint) -> None:
    assert folder.refuse_others(OWNER)
    note = started(folder)
    folder.note(OWNER)
    assert folder.refuse_others(replace(OWNER, sql="select  1"))
    before = note.read_text()
    folder.note(replace(OWNER, sql="select 1"))
    assert note.read_text() == before
    with pytest.raises(SetupError, match=r"belongs to another query:\nSELECT 1\n"):
        folder.refuse_others(Owner("SELECT 2", 2, {"a": "k int64"}, [f"{STATE_FORMAT}-f2"]))


def test_a_start_that_failed_before_it_had_a_checkpoint_leaves_it_to_anybody(folder: Checkpoint) -> None:
    (Path(folder.folder) / NOTES["owner"]).write_text("")
    assert folder.refuse_others(OWNER)


def test_a_checkpoint_of_a_run_in_process_is_refused(folder: Checkpoint) -> None:
    folder.refuse_in_process()
    (Path(folder.folder) / "query.json").write_text("{}")
    with pytest.raises(SetupError, match="is the checkpoint of a run in-process, which no query on Spark can go on"):
        folder.refuse_in_process()


def with_a_state(folder: Checkpoint, schema: Path) -> None:
    """As Spark leaves it: the newest note of an operator names the files of its schema, with their whole paths."""
    notes = Path(folder.folder) / "state" / "0" / "_metadata" / "v2"
    notes.mkdir(parents=True)
    for number, named in (("9", "/nowhere/else/state/0/x"), ("10", str(schema))):
        held = {"operatorInfo": {}, "stateStoreInfo": [{"stateSchemaFilePaths": [f"file:{named}"]}]}
        (notes / number).write_text(f"v2\n{json.dumps(held)}")
    (notes / ".10.crc").write_text("")


def test_a_checkpoint_that_was_moved_is_refused_in_words(folder: Checkpoint, tmp_path: Path) -> None:
    started(folder)
    folder.note(OWNER)
    with_a_state(folder, tmp_path / "old" / "ck" / "state" / "0" / "_stateSchema" / "default" / "0_a")
    with pytest.raises(SetupError, match=f"{tmp_path} was made as {tmp_path}/old/ck, and Spark can go on"):
        folder.refuse_others(OWNER)


def test_a_checkpoint_that_is_named_by_another_path_is_not_moved(folder: Checkpoint, tmp_path: Path) -> None:
    started(folder)
    folder.note(OWNER)
    (tmp_path / "link").symlink_to(tmp_path)
    schema = tmp_path / "link" / "state" / "0" / "_stateSchema" / "0_a"
    with_a_state(folder, schema)
    schema.parent.mkdir()
    schema.write_text("")
    assert folder.refuse_others(OWNER)


def test_a_checkpoint_without_the_file_is_left_to_the_guard(folder: Checkpoint) -> None:
    started(folder)
    assert not folder.refuse_others(OWNER)


@pytest.mark.parametrize("text", ["no json", '{"other": 1}', "[]", "{}\nsum 0123456789abcdef0123456789abcdef\n"])
def test_a_file_that_says_something_else_is_named(folder: Checkpoint, text: str) -> None:
    started(folder).write_text(text)
    with pytest.raises(SetupError, match=r"watersmeet\.json is damaged"):
        folder.refuse_others(OWNER)


def test_whatever_befalls_a_note_is_named_or_does_no_harm(folder: Checkpoint) -> None:
    """Of the notes of a run that has given rows to a sink: any byte flipped, cut, zeroed, deleted, or exchanged."""
    started(folder)
    run = folder.run_name()
    folder.note(OWNER)
    folder.notes.note(committed={"out": [3, 4]})
    notes = [Path(folder.folder) / name for name in (NOTES["owner"], NOTES["run"], NOTES["committed"])]
    whole = {one: one.read_bytes() for one in notes}

    def outcome(**damaged: bytes | None) -> str:
        for one in notes:
            data = damaged.get(one.stem, whole[one])
            one.unlink(missing_ok=True) if data is None else one.write_bytes(data)
        try:
            folder.refuse_others(OWNER)
            assert folder.run_name() == run
            assert CommittedBatches(folder)._numbers in ({"out": [3, 4]}, {})
        except SetupError as error:
            return "named" if any(one.name in str(error) for one in notes if one.stem in damaged) else str(error)
        return "harmless"

    for one in notes:
        data = whole[one]
        for place in range(len(data)):
            flipped = bytes([data[place] ^ 1 << place % 8])
            assert outcome(**{one.stem: data[:place] + flipped + data[place + 1 :]}) == "named"
        # An empty file is one that is not there.
        assert [outcome(**{one.stem: data[:size]}) for size in (0, 1, len(data) - 2)] == ["harmless", "named", "named"]
        assert outcome(**{one.stem: bytes(len(data))}) == "named"
        assert outcome(**{one.stem: None}) == "harmless"
        for other in notes:
            if one != other:
                assert outcome(**{one.stem: whole[other], other.stem: data}) == "named"


def test_what_a_server_wrote_is_read_as_well(folder: Checkpoint) -> None:
    note = started(folder)
    folder.note(OWNER)
    text = note.read_text()
    note.unlink()
    note.mkdir()
    (note / "part-00000-x.txt").write_text(text)
    with pytest.raises(SetupError, match="made with 2 buckets, and this run has 3"):
        folder.refuse_others(replace(OWNER, buckets=3, states=[f"{STATE_FORMAT}-f3"]))


def test_a_file_that_cannot_be_written_does_not_end_the_query(
    folder: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    started(folder).mkdir()
    with caplog.at_level(logging.WARNING):
        folder.note(OWNER)
    assert "watersmeet.json cannot be written" in caplog.text


@pytest.mark.parametrize(
    ("state", "version", "told"),
    [
        ("f1", "", r"format 3 or before, and this version of watersmeet reads format \d+$"),
        ("9-f1", "7.1.0", r"format 9, and .* reads format \d+, written by watersmeet 7\.1\.0$"),
        ("9-f2", "7.1.0", r"format 9, and .* reads format \d+, written by watersmeet 7\.1\.0$"),
    ],
)
def test_a_state_of_another_format_is_refused_with_who_wrote_it(
    folder: Checkpoint, monkeypatch: pytest.MonkeyPatch, state: str, version: str, told: str
) -> None:
    """By the file, and by the guard alone, which does not know the version."""
    note = started(folder)
    folder.note(replace(OWNER, states=[state], version=version))
    with pytest.raises(SetupError) as refused:
        folder.refuse_others(OWNER)
    assert re.search(f"holds state of {told}", refused.value.message)
    assert "new checkpoint" in str(refused.value.hint)
    note.unlink()
    monkeypatch.setattr(checkpoint, "read_guard", lambda spark, folder: state)
    with pytest.raises(SetupError, match=r"holds state of format .* this version of watersmeet reads format \d"):
        folder.refuse_others(OWNER)


def test_a_store_that_spark_knows_nothing_of_is_told() -> None:
    def refuse(path: str) -> None:
        raise RuntimeError(f'An error occurred\nNo FileSystem for scheme "s3"\n\tat org.apache ({path})')

    spark = SimpleNamespace(read=SimpleNamespace(text=refuse))
    elsewhere = Checkpoint(spark, "s3://bucket/ck")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="the checkpoint s3://bucket/ck cannot be read: ") as told:
        elsewhere.refuse_others(OWNER)
    assert "--engine local needs none" in str(told.value)
