"""`watersmeet state …`: what a checkpoint remembers, and what it occupies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import JOIN, STREAMS, call, data, run
from watersmeet.runtime.occupancy import sizes_below

__all__ = ["data"]


@pytest.fixture
def checkpoint(data: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Of two queries in-process."""
    first = "CREATE SINK pairs WITH (sink = 'parquet', path = 'out') AS "
    second = "CREATE SINK counts WITH (sink = 'parquet', path = 'out2') AS SELECT k, COUNT(*) AS n FROM a GROUP BY k;"
    options = ("--checkpoint", "ck", "--available-now", "--quiet")
    assert run(f"{STREAMS}{first}{JOIN};{second.replace('FROM a', 'FROM a [RANGE 5 SECONDS]')}", *options) == 0
    capsys.readouterr()
    return data / "ck"


def test_a_checkpoint_is_shown_with_and_without_the_word(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for words in (["ck"], ["show", "ck"], ["--rows", "1", "ck"]):
        assert call("state", *words) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] == told[2].replace("rows of a state in-process cannot be shown one by one\n", "")
    assert "ck/pairs: a run in-process" in told[0]


def test_what_a_checkpoint_occupies_is_told_by_query_and_part(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("state", "size", "ck") == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if not line.startswith("  ")] == [
        line for line in told.splitlines() if line.startswith(("ck/counts, counts: ", "ck/pairs, pairs: ", "together"))
    ]
    assert call("state", "size", "ck", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["queries"] for one in found] == [["counts"], ["pairs"]]
    for one in found:
        assert [part["what"] for part in one["parts"]] == ["state", "journal", "notes"]
        assert one["bytes"] == sum(part["bytes"] for part in one["parts"])
    # Every file is in one part.
    assert sum(one["bytes"] for one in found) == sum(sizes_below(checkpoint).values())
    files = sum(part["files"] for one in found for part in one["parts"])
    assert files == sum(path.is_file() for path in checkpoint.rglob("*"))


def test_what_a_kill_has_left_is_told_apart(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoint / "pairs" / ".snapshot-000000000000007.json").write_bytes(b"x" * 100)
    assert call("state", "size", "ck", "--json") == 0
    counts, pairs = json.loads(capsys.readouterr().out)
    assert [part["files"] for part in pairs["parts"] if part["what"] == "left behind"] == [1]
    assert [part for part in counts["parts"] if part["what"] == "left behind"] == []


def test_a_folder_that_is_none_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "other").mkdir()
    assert call("state", "size", "other") == 2
    assert "other is not the checkpoint of a run on this machine\nhint: " in capsys.readouterr().err
