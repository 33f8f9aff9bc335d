"""One Spark for all tests of this folder that need one, which `make test` runs in one process beside the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.harness import quiet_session

HERE = Path(__file__).parent


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests with the session below start Spark; those that do so by themselves are marked where they stand. This is
    before pytest looks at the markers, and xdist at the groups."""
    if HERE in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
        item.add_marker("spark")
    if item.get_closest_marker("spark"):
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = quiet_session("local[2]", tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def warm_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for the warm copies of processors that run inside the test."""
    folder = tmp_path / "warm"
    monkeypatch.setenv("WATERSMEET_WARM_DIR", str(folder))
    return folder
