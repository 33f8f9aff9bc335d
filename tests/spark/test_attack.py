"""What another user of the machine planted is neither believed nor run, and the user hears of it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tests.attacks import Give, give_away
from tests.spark.simulation import Simulation, another_worker, reports_in
from tests.spark.test_processor import QUERIES, expected, six_batches
from watersmeet.errors import SetupError, UnsafeFolderError
from watersmeet.hosts.spark import memory_folder
from watersmeet.hosts.spark.bucket import warm_state
from watersmeet.hosts.spark.bucket.output import OBSERVED, REPORTS
from watersmeet.hosts.spark.jobs.ids import GUARD
from watersmeet.hosts.spark.launching.java import shim
from watersmeet.hosts.spark.progress.listener import MetricsListener
from watersmeet.hosts.spark.progress.tally import Tally
from watersmeet.hosts.spark.reading import generated_files
from watersmeet.hosts.spark.run import _kept
from watersmeet.operators.saving import ALIGN
from watersmeet.operators.select import Select
from watersmeet.runtime.metrics import Metrics
from watersmeet.warning import StateWarning

__all__ = ["give_away"]
pytestmark = pytest.mark.usefixtures("warm_copies")


class Answers(Select):
    """An operator whose answers another might wish to make."""

    STATE = ("answer",)

    def __init__(self, answer: str = "") -> None:
        super().__init__((), ())
        self.answer = answer


def fetch(version: int, nonce: int) -> Answers | None:
    found = warm_state.fetch("q", 0, version, nonce, Answers)
    assert found is None or isinstance(found, Answers)
    return found


def plant() -> Path:
    """A warm copy, right in every way but its origin."""
    warm_state.keep("q", 0, 1, 11, Answers("planted"))
    warm_state._at_hand.clear()
    return memory_folder.folder_of("q") / "0"


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_state, "_at_hand", {})
    monkeypatch.setattr(warm_state, "_trouble", None)


def test_the_planted_copy_would_do_harm() -> None:
    """So that the tests below show something."""
    plant()
    found = fetch(1, 11)
    assert found is not None
    assert found.answer == "planted"
    assert warm_state.trouble() is None


def test_a_copy_is_no_code() -> None:
    """Whatever stands in one, nothing of it is run."""
    copy = plant()
    stamp = copy.read_bytes()[: warm_state._HEAD.size]
    body = pickle.dumps(Harm())
    version, nonce, _ = warm_state._HEAD.unpack(stamp)
    copy.write_bytes(warm_state._HEAD.pack(version, nonce, ALIGN + len(body)).ljust(ALIGN, b"\0") + body)
    assert fetch(1, 11) is None


class Harm:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a copy was run",)


ATTACKS = ["another's copy", "another's folder", "another's base", "writable copy", "writable folder",
           "writable base", "linked copy", "linked folder", "linked base", "replaceable base"]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_copy_planted_by_another_user_is_not_loaded(attack: str, tmp_path: Path, give_away: Give) -> None:
    copy = plant()
    memory_folder.base_folder().chmod(0o700)
    how, what = attack.split()
    target = {"copy": copy, "folder": copy.parent, "base": memory_folder.base_folder()}[what]
    match how:
        case "another's":
            give_away(target)
        case "writable":
            target.chmod(0o777)
        case "linked":
            target.rename(tmp_path / "elsewhere")
            target.symlink_to(tmp_path / "elsewhere")
        case "replaceable":
            target.parent.chmod(0o777)
    assert fetch(1, 11) is None
    told = warm_state.trouble()
    assert told is not None
    assert str(target.parent if how == "replaceable" else target) in told
    assert "\n" not in told


@pytest.mark.parametrize("attack", ["another's", "writable", "linked"])
def test_nothing_is_kept_or_removed_in_a_folder_that_is_refused(attack: str, tmp_path: Path, give_away: Give) -> None:
    copy = plant()
    base = memory_folder.base_folder()
    match attack:
        case "another's":
            give_away(base)
        case "writable":
            base.chmod(0o777)
        case "linked":
            base.rename(tmp_path / "elsewhere")
            base.symlink_to(tmp_path / "elsewhere")
    before = copy.read_bytes()
    kept = Answers("own")
    warm_state.keep("q", 0, 2, 22, kept)
    assert "WATERSMEET_WARM_DIR" in (warm_state.trouble() or "")
    with pytest.raises(UnsafeFolderError):
        memory_folder.discard("q")
    assert copy.read_bytes() == before
    assert fetch(2, 22) is kept  # what this very process has at hand is safe


def test_a_query_goes_on_without_what_is_refused_and_is_right() -> None:
    sources, pieces = six_batches("a common key")
    memory_folder.base_folder().mkdir(parents=True)
    memory_folder.base_folder().chmod(0o777)
    run = Simulation(QUERIES["a common key"], sources, 2, between_batches=another_worker)
    assert run.run(pieces) == expected("a common key", sources, pieces)
    assert run.counted("cache_hits") == 0
    assert run.counted("cache_misses") > 0
    told = [one for one in map(json.loads, reports_in(run.frames)) if one["bucket"] != GUARD]
    assert {one["bucket"] for one in told} == set(run.job.bucket_ids)
    assert all(f"others may write to the folder {memory_folder.base_folder()}" in one["cold_because"] for one in told)


def test_the_user_hears_of_it_with_the_batch() -> None:
    told = [json.dumps({"bucket": bucket, "cold_because": "others may write to x"}) for bucket in (0, 1)]
    row = SimpleNamespace(asDict=lambda: {REPORTS: told, "cache_misses": 2, "rows_in": 5})
    progress = SimpleNamespace(
        id="q",
        runId="r",
        name=None,
        batchId=0,
        timestamp="t",
        sources=[],
        durationMs={"addBatch": 1},
        observedMetrics={OBSERVED: row},
        numInputRows=5,
        eventTime={},
    )
    tally = Tally()
    assert str(tally.add(progress)).endswith(", 2 cold, not kept warm: others may write to x")
    assert tally.total.as_dict()["cold_because"] == "others may write to x"
    listener, metrics = MetricsListener(), Metrics()
    listener.follow(OBSERVED, metrics, [])
    with pytest.warns(StateWarning, match="cold_state: .*not kept warm between batches: others may write to x"):
        listener.onQueryProgress(SimpleNamespace(progress=progress))
    assert metrics.cold_because == "others may write to x"


@pytest.mark.parametrize("inner", [False, True], ids=["scratch folder", "folder of the rows"])
@pytest.mark.parametrize("attack", ["another's", "writable", "linked"])
def test_rows_that_another_prepared_are_not_read(
    attack: str, inner: bool, tmp_path: Path, give_away: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = generated_files.stored(pa.table({"k": [1, 2]}))
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    target = folder if inner else folder.parent
    match attack:
        case "another's":
            give_away(target)
        case "writable":
            target.chmod(0o777)
        case "linked":
            target.rename(tmp_path / "elsewhere")
            target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFolderError, match=str(target)):
        generated_files.stored(pa.table({"k": [1, 2]}))


def test_a_failure_is_told_even_if_its_text_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    log = Path(_kept("q", "text").removeprefix("all that Spark says is in "))
    assert (log.read_text(), log.stat().st_mode & 0o777) == ("q\ntext\n", 0o600)
    log.parent.chmod(0o777)
    assert f"could not be kept: others may write to the folder {log.parent}" in _kept("q", "text")


def fake_java(home: Path) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\n")
    program.chmod(0o755)
    return program


def test_a_java_that_another_prepared_is_not_run(
    tmp_path: Path, give_away: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first place is refused, the next is taken; where all are refused, each is told."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    java = fake_java(tmp_path / "real")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = shim(java, environ)
    assert first.parent == tmp_path / "cache" / "watersmeet"
    give_away(first.parent)
    second = shim(java, environ)
    assert second.parent == tmp_path / "tmp" / f"watersmeet-{os.geteuid()}"
    second.parent.chmod(0o777)
    with pytest.raises(
        SetupError, match=r"can be kept and run: the folder .*/cache.* belongs to .*; others may write to"
    ):
        shim(java, environ)


def test_a_script_that_another_changed_is_replaced(tmp_path: Path, give_away: Give) -> None:
    java = fake_java(tmp_path / "real")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    script = shim(java, environ) / "bin" / "java"
    text = script.read_text()
    script.chmod(0o777)
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/trace\n")
    give_away(script)
    shim(java, environ)
    assert (script.read_text(), script.stat().st_mode & 0o777) == (text, 0o700)
    subprocess.run([script, "-version"], check=True, capture_output=True)
    assert not (tmp_path / "trace").exists()
