"""After a kill at any point a connector's rows were read once and its answers written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.lives import POINTS, Script, killed_again_and_again, lived
from tests.connectors.shelf import written
from tests.connectors.test_driving import JOIN, created, expected, rows_in, shelved
from tests.effort import EFFORT

COMMITS = ("tests.connectors.shelf:ShelfSink.commit before", "tests.connectors.shelf:ShelfSink.commit after")


def script_of(folder: Path, sql: str = JOIN) -> Script:
    text = created(folder, "a", "b", more=", lateness = '2 minutes'")
    text += f"CREATE SINK out WITH (sink = 'shelf', folder = '{folder / 'out'}') AS {sql};"
    return Script(text, folder / "checkpoint", "tests.connectors.shelf:register")


@pytest.mark.parametrize("point", COMMITS)
def test_a_kill_at_a_commit_changes_nothing(point: str, tmp_path: Path) -> None:
    a, b = shelved(tmp_path, "a"), shelved(tmp_path, "b")
    script = script_of(tmp_path)
    assert not lived(script, point, 0)
    assert lived(script)
    assert rows_in(written(tmp_path / "out")) == expected(a, b)


def test_many_kills_change_nothing(tmp_path: Path) -> None:
    a, b = shelved(tmp_path, "a"), shelved(tmp_path, "b")
    assert killed_again_and_again(script_of(tmp_path), (*POINTS, *COMMITS), seed=5, kills=4 * EFFORT)
    assert rows_in(written(tmp_path / "out")) == expected(a, b)
