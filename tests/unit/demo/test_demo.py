"""The demo shows a checked answer on 80 columns, and fails when the answer is wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pa_parquet
import pytest

from watersmeet import demo
from watersmeet.runtime.script import read_script

ROWS = 30_000
EXAMPLE = Path(__file__).parents[3] / "examples" / "cameras.sql"


def test_the_demo_agrees_with_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run_demo(ROWS, seed=3, engine="local") == 0
    shown = capsys.readouterr().out
    assert f"rows in                {ROWS:,}" in shown
    assert "they agree." in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown


def test_a_wrong_answer_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("watersmeet.demo.checking.answer", lambda plan, arrivals: [("something", "else")])
    assert demo.run_demo(ROWS, seed=3, engine="local") == 1
    assert "THEY DIFFER" in capsys.readouterr().out


def test_what_is_kept_can_be_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "it's here"
    assert demo.run_demo(ROWS, seed=3, keep=folder, engine="local") == 0
    (job,) = read_script((folder / "cameras.sql").read_text())
    assert job.plan.schema == pa_parquet.read_schema(folder / "tracks.parquet")


def test_a_seed_makes_the_same_traffic() -> None:
    first, again, other = (demo.sightings(ROWS, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sum(table.num_rows for table in first.values()) == ROWS
    assert any(demo.is_late(table).any() for table in first.values())


def test_the_example_is_the_script_of_the_demo() -> None:
    assert EXAMPLE.read_text().endswith(demo.script("cameras"))
