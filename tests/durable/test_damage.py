"""Whatever befalls a file of a checkpoint: it is named, or the answer is what it would have been."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import watersmeet as wm
from tests.durable.damage import KINDS, Damage, Kind, Stage, damages
from tests.effort import EFFORT

of_every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def played(kind: Kind, folder: Path) -> tuple[Stage, list[str]]:
    """With the answer of the next life if nothing is damaged."""
    stage = Stage(kind, folder)
    stage.play()
    stage.restore()
    expected = stage.go_on()
    assert expected
    assert not [one for one in stage.told if "damaged" in one]
    return stage, expected


@pytest.mark.slow
@of_every_kind
def test_a_damaged_file_is_named_or_does_no_harm(kind: Kind, tmp_path: Path) -> None:
    stage, expected = played(kind, tmp_path)
    every = list(damages(stage, 8 * EFFORT))
    some = random.Random(kind.name).sample(every, min(24 * EFFORT, len(every)))
    _check(stage, [*(one for one in every if one.what == "delete"), *some], expected)


@pytest.mark.soak
@of_every_kind
def test_all_that_may_befall_a_file_is_named_or_does_no_harm(kind: Kind, tmp_path: Path) -> None:
    stage, expected = played(kind, tmp_path)
    _check(stage, list(damages(stage, 20 * EFFORT, seed=1)), expected)


def _check(stage: Stage, some: list[Damage], expected: list[str]) -> None:
    wrong = [found for damage in some if (found := _outcome(stage, damage, expected)) is not None]
    assert not wrong, f"{len(wrong)} of {len(some)}:\n" + "\n".join(wrong)


def _outcome(stage: Stage, damage: Damage, expected: list[str]) -> str | None:
    stage.restore()
    damage.do(*(stage.checkpoint / name for name in damage.names))
    try:
        found = stage.go_on()
    except wm.WatersmeetError as error:
        named = [Path(name).name for name in damage.names if Path(name).name in str(error)]
        return None if named else f"{damage}: not named: {error}"
    except BaseException as error:
        return f"{damage}: {type(error).__name__}: {error}"
    return None if found == expected else f"{damage}: {len(found)} rows instead of {len(expected)}, told {stage.told}"


@pytest.fixture
def pushed(tmp_path: Path) -> tuple[Stage, list[str]]:
    return played(KINDS[0], tmp_path)


@pytest.mark.parametrize("is_gone", [True, False])
def test_that_an_older_state_is_taken_is_told(pushed: tuple[Stage, list[str]], is_gone: bool) -> None:
    stage, expected = pushed
    stage.restore()
    newest = max(stage.checkpoint.glob("snapshot-*.json"))
    if is_gone:
        newest.unlink()
    else:
        newest.write_bytes(newest.read_bytes().replace(b'"number"', b'"numbes"'))
    assert stage.go_on() == expected
    (told,) = [one for one in stage.told if "damaged" in one]
    assert newest.name in told
    assert "goes on from the state of batch 3" in told
    stage.go_on()  # by then it has a newer one
    assert not [one for one in stage.told if "damaged" in one]


def test_an_older_state_is_refused_if_the_journal_does_not_go_back_to_it(pushed: tuple[Stage, list[str]]) -> None:
    stage, _ = pushed
    stage.restore()
    newest = max(stage.checkpoint.glob("snapshot-*.json"))
    newest.unlink()
    (stage.checkpoint / "journal-000000000000004.log").unlink()
    with pytest.raises(wm.RunError, match=newest.name):
        stage.go_on()


def test_what_only_says_how_far_a_run_was_can_be_missing_and_is_made_anew(pushed: tuple[Stage, list[str]]) -> None:
    stage, expected = pushed
    stage.restore()
    (stage.checkpoint / "reached").unlink()
    assert stage.go_on() == expected
    assert len([one for one in stage.told if "reached is damaged" in one]) == 1
    stage.go_on()
    assert not [one for one in stage.told if "damaged" in one]


def test_what_a_crash_left_half_written_is_removed(pushed: tuple[Stage, list[str]]) -> None:
    stage, expected = pushed
    stage.restore()
    (stage.checkpoint / ".query.json.0a1b2c3d.tmp").write_text("{")
    assert stage.go_on() == expected
    assert not list(stage.checkpoint.glob(".*"))


def test_files_of_another_run_of_the_same_query_are_not_taken(tmp_path: Path) -> None:
    stage, _ = played(KINDS[0], tmp_path / "one")
    other, _ = played(KINDS[0], tmp_path / "other")
    for name in ("journal-000000000000006.log", "snapshot-000000000000005.json", "query.json"):
        stage.restore()
        (stage.checkpoint / name).write_bytes((other.image / "checkpoint" / name).read_bytes())
        if name.startswith("snapshot"):  # the older one does
            stage.go_on()
            assert name in "".join(stage.told)
            continue
        with pytest.raises(wm.RunError, match="is damaged"):
            stage.go_on()


def test_a_checkpoint_of_the_layout_before_is_refused(pushed: tuple[Stage, list[str]]) -> None:
    stage, _ = pushed
    stage.restore()
    (stage.checkpoint / "query.json").write_text(
        '{"run": "0a", "query": "f", "pipeline": "", "options": {}, "layout": 1, "version": "0.1.0"}'
    )
    with pytest.raises(wm.RunError, match=r"has layout 1, which watersmeet 0\.1\.0 wrote"):
        stage.go_on()


def test_a_start_that_fails_does_not_wait_until_answers_are_taken(pushed: tuple[Stage, list[str]]) -> None:
    stage, _ = pushed
    stage.restore()
    for one in sorted(stage.checkpoint.glob("snapshot-*.json"))[1:]:
        one.unlink()
    last = max(stage.checkpoint.glob("journal-*.log"))
    data = last.read_bytes()
    last.write_bytes(data[:40] + b"?" + data[41:])
    with pytest.raises(wm.RunError, match=last.name):
        stage.go_on()


def test_an_older_state_is_refused_if_streams_have_arrived_in_another_way_since(tmp_path: Path) -> None:
    def start(lateness: str) -> wm.Run:
        session = wm.Session()
        session.stream("a", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts", lateness=lateness)
        return session.sql("SELECT id FROM a").start(checkpoint=tmp_path, on_answer=lambda rows: None)

    for number, lateness in enumerate(("1 s", "2 s", "3 s")):
        with start(lateness) as run:
            run.push("a", [{"id": number, "ts": f"2026-01-01 12:00:0{number}"}])
    start("4 s").stop()
    max(tmp_path.glob("snapshot-*.json")).unlink()
    with pytest.raises(wm.RunError, match="has changed with batch 3"):
        start("4 s")


def test_a_batch_that_was_left_out_stays_so_in_an_older_state(tmp_path: Path) -> None:
    def start(*skipped: int) -> wm.Run:
        session = wm.Session()
        session.stream("a", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
        query = session.sql("SELECT COUNT(*) AS n FROM a [UNBOUNDED]")
        return query.start(checkpoint=state, on_answer=lambda rows: None, skip_batches=list(skipped))

    state = tmp_path / "state"
    with start() as run:
        run.push("a", [{"id": 0, "ts": "2026-01-01 12:00:00"}])
    with start() as run:
        run.push("a", [{"id": 1, "ts": "2026-01-01 12:00:01"}])
        shutil.copytree(state, tmp_path / "killed")
    state = tmp_path / "killed"
    with pytest.warns(wm.DataWarning, match="skipped_batch"):
        run = start(1)
    assert run.taken("a") == 1
    run.push("a", [{"id": 2, "ts": "2026-01-01 12:00:02"}])
    run.stop()
    max(state.glob("snapshot-*.json")).unlink()
    with (
        pytest.warns(wm.StateWarning, match="damaged_checkpoint: .*batch 0"),
        pytest.warns(wm.DataWarning, match="skipped_batch"),
    ):
        run = start()
    assert run.taken("a") == 2
    run.stop()
