"""`watersmeet clean` removes what kills have left of a durable run, and nothing that a start needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durable.cleaning import clean
from tests.durable.lives import Case, answer, lived, made_run, write_files
from tests.one_life import lived_through
from tests.unit.cli.test_commands import call

COUNT = 1600
JOIN = "SELECT a.id AS x, b.id AS y, a.s FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
BY_KEY = "SELECT a.id, a.k FROM a"
# After a kill there a file is left that was not written to its end, or that never counted.
LEAVING = ("Snapshots.write after", "FilesSink.commit before", "Place.write_whole before")


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others have left on this machine is not the test's."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("WATERSMEET_WARM_DIR", str(tmp_path))


def begun(folder: Path, *, partition_by: str | None = None) -> Case:
    folder.mkdir(parents=True)
    query, streams = (JOIN, ("a", "b")) if partition_by is None else (BY_KEY, ("a",))
    case = Case(query, folder, streams, partition_by=partition_by)
    write_files(case, COUNT)
    return case


def files_of(*folders: Path) -> set[Path]:
    return {path for folder in folders for path in folder.rglob("*") if path.is_file()}


def test_a_run_goes_on_exactly_after_kills_and_cleanings_that_are_killed_too(tmp_path: Path) -> None:
    whole, killed = begun(tmp_path / "whole"), begun(tmp_path / "killed")
    assert lived(whole, COUNT)
    folders = [killed.folder / "checkpoint", killed.folder / "out"]
    removed = 0
    for number, point in enumerate(LEAVING * 2):
        assert not lived(killed, COUNT, point, 0)
        for name in (".query.json.0123abcd.tmp", ".snapshot-000000000000009.json", "savepoint-answered.json"):
            (folders[0] / name).write_bytes(b"half of i")
        before = files_of(*folders)
        died = not lived_through(clean, folders, number % 3 if number < 5 else None)
        assert died == (number < 5)
        removed += len(before - files_of(*folders))
    assert removed > 6
    assert lived(killed, COUNT)
    assert answer(killed).equals(answer(whole))


def test_drafts_of_a_commit_that_counts_already_are_needed(tmp_path: Path) -> None:
    whole, killed = begun(tmp_path / "whole", partition_by="k"), begun(tmp_path / "killed", partition_by="k")
    assert lived(whole, COUNT)
    assert not lived(killed, COUNT, "LocalFolder._finish before", 1)
    drafts = set((killed.folder / "out").glob(".part-*.tmp"))
    assert drafts
    (killed.folder / "out" / ".part-0123456789ab-000000000000007-00000-01234567.tmp").write_bytes(b"of another run")
    assert lived_through(clean, [killed.folder / "out"], None)
    assert set((killed.folder / "out").glob(".part-*.tmp")) == drafts
    assert lived(killed, COUNT)
    assert answer(killed).equals(answer(whole))


def test_blocks_that_no_state_names_go_and_those_of_a_state_stay(tmp_path: Path) -> None:
    case = begun(tmp_path / "case")
    assert not lived(case, COUNT, "Snapshots.write after", 1)
    checkpoint = case.folder / "checkpoint"
    blocks = set(checkpoint.glob("blocks-*"))
    assert lived_through(clean, [checkpoint], None)
    left = set(checkpoint.glob("blocks-*"))
    assert left < blocks
    newest = max(checkpoint.glob("snapshot-*.json"))
    damaged = newest.read_bytes()
    newest.write_bytes(damaged[:-9])
    (checkpoint / "blocks-000000000000999").write_bytes(b"perhaps of the damaged one")
    assert lived_through(clean, [checkpoint], None)
    assert (checkpoint / "blocks-000000000000999").exists(), "a copy of the snapshot may be brought back"
    newest.write_bytes(damaged)
    assert lived(case, COUNT)


def test_a_checkpoint_in_use_is_left_alone_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = begun(tmp_path / "case")
    run = made_run(case)
    run.start()
    try:
        draft = case.folder / "checkpoint" / ".snapshot-000000000000009.json"
        draft.write_bytes(b"in the middle of it")
        assert call("clean", str(case.folder / "checkpoint")) == 1
        assert draft.exists()
        assert "left alone: another run is using the checkpoint" in capsys.readouterr().err.replace("\n  ", " ")
    finally:
        run.stop()


@pytest.mark.parametrize("state", ["a folder of mine", "nothing"])
def test_what_is_no_runs_is_refused(state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine"
    if state != "nothing":
        mine.mkdir()
        (mine / ".draft.tmp").write_text("precious")
    assert call("clean", str(mine)) == 2
    assert "is no checkpoint, archive or folder of a sink" in capsys.readouterr().err.replace("\n  ", " ")
    assert (mine / ".draft.tmp").exists() == mine.exists()
