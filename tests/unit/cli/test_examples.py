"""Examples come with the package: listed, written out with their data, and ready to run from where one is."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import call
from watersmeet.cli.examples import EXAMPLES, IN_TREE

ROOT = Path(__file__).parents[3]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody who has no tree."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("examples") == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{shown}" for name in EXAMPLES)
    assert "watersmeet examples NAME" in shown


def test_every_file_of_the_examples_belongs_to_one() -> None:
    listed = {path for one in EXAMPLES.values() for pattern in one.files for path in IN_TREE.glob(pattern)}
    found = {path for path in IN_TREE.rglob("*") if path.is_file() and path.suffix in (".sql", ".csv", ".ipynb")}
    assert listed == found


def test_the_wheel_brings_them() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert built["force-include"] == {"examples": "watersmeet/_examples"}


@pytest.mark.parametrize("folder", ["examples", "my/o'shop", "."])
def test_one_that_was_written_runs(here: Path, capsys: pytest.CaptureFixture[str], folder: str) -> None:
    assert call("examples", "checkout", folder) == 0
    told = capsys.readouterr().out
    assert f"watersmeet run {shlex.quote(folder)}/checkout.sql --engine local" in told
    assert {path.name for path in here.rglob("*.*")} == {"checkout.sql", "clicks.csv", "orders.csv", "payments.csv"}
    assert call("run", f"{folder}/checkout.sql", "--engine", "local", "--quiet") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_an_absolute_folder_runs_from_anywhere(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("examples", "dashboard", str(here / "shop")) == 0
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert call("run", "../shop/dashboard.sql", "--engine", "local", "--final", "--quiet") == 0
    assert "looks" in capsys.readouterr().out


def test_streams_that_are_too_large_to_bring_are_made(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("examples", "nexmark") == 0
    assert call("run", "examples/nexmark/q2.sql", "--engine", "local", "--quiet") == 0
    assert len(capsys.readouterr().out.splitlines()) > 100
    assert call("examples", "nexmark") == 0
    assert "nexmark is there already, and is left as it is" in capsys.readouterr().out


def test_what_somebody_changed_is_not_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("examples", "checkout") == 0
    assert call("examples", "checkout") == 0  # the same once more
    script = here / "examples" / "checkout.sql"
    script.write_text("SELECT mine")
    (here / "examples" / "checkout" / "clicks.csv").unlink()
    capsys.readouterr()
    assert call("examples", "checkout") == 2
    assert "checkout.sql is there already, and is another\nhint: name another folder" in capsys.readouterr().err
    assert script.read_text() == "SELECT mine"
    assert not (here / "examples" / "checkout" / "clicks.csv").exists()


def test_one_that_is_not_there_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("examples", "checkuot") == 2
    assert "there is no example 'checkuot'\nhint: there are checkout, dashboard" in capsys.readouterr().err
    Path("file").write_text("")
    assert call("examples", "checkout", "file") == 2
    assert "cannot be written" in capsys.readouterr().err
    assert list(here.iterdir()) == [here / "file"]
