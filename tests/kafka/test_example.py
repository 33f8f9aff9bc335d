"""The example is a script that can be planned, and the demo of topics is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from watersmeet.cli.commands import app
from watersmeet.testing import queries_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka" / "checkout.sql"


def test_the_example_can_be_planned() -> None:
    assert len(queries_of(EXAMPLE.read_text())) == 3


@pytest.mark.kafka
def test_the_demo_is_right() -> None:
    done = CliRunner().invoke(app, ["demo", "--kafka", "--rows", "6000"])
    assert done.exit_code == 0, done.output
    assert "each once" in done.output
