"""The program that mypy must take is one that runs."""

import warnings

import pytest

from tests.typed import program


def test_the_typed_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        program.main()
    assert capsys.readouterr().out == "2 1 there is no column x\n"
