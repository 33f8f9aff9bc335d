"""The connector that CONTRIBUTING shows is whole, and does what a connector must."""

from __future__ import annotations

import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from tests.docs.test_shown import ROOT, blocks
from watersmeet.io.connectors import registry
from watersmeet.io.connectors.readers import reader_of


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    Path("logs/a.log").write_text("2026-01-01T12:00:00 all well\n2026-01-01T12:00:02 an error of a\n")
    Path("logs/b.log").write_text("2026-01-01T12:00:01 another error\n2026-01-01T12:00:03 half a li")
    text, test = (text for language, text in blocks(ROOT / "CONTRIBUTING.md") if language == "python")
    Path("logs.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    names = run_path("logs.py", run_name="__main__")
    yield names, capsys.readouterr().out, test
    sys.modules.pop("logs", None)
    registry.forget("logs")


def test_it_answers_over_lines_that_are_whole(shown: Any) -> None:
    _, printed, _ = shown
    assert printed == "['another error', 'an error of a']\n"


def test_it_goes_on_with_what_comes_and_gives_the_same_again(shown: Any) -> None:
    names, _, _ = shown
    stream = names["session"].catalog.find("log")
    reader = reader_of(stream)
    found = []
    while (piece := reader.poll(1)) is not None:
        found.append((piece.range, piece.rows["line"].to_pylist()))
    assert len(found) == 3
    with Path("logs/b.log").open("a") as file:
        file.write("ne\n")
    last = reader.poll(1)
    assert last is not None
    assert last.rows["line"].to_pylist() == ["half a line"]
    again = reader_of(stream)
    for where, lines in found:
        assert again.again(where).rows["line"].to_pylist() == lines


def test_it_keeps_the_contract_as_the_test_beside_it_says(shown: Any) -> None:
    _, _, test = shown
    tests: dict[str, Any] = {}
    exec(test, tests)
    tests["test_it_keeps_the_contract"]()
