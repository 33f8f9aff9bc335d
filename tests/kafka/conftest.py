from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.mock_cluster import MockCluster
from watersmeet.demo.broker import Broker, running_broker
from watersmeet.errors import SetupError


@pytest.fixture(scope="session")
def mock() -> MockCluster:
    return MockCluster()


def _broker(factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        with running_broker(factory.mktemp("broker")) as found:
            yield found
    except SetupError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    yield from _broker(tmp_path_factory)


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that a test may stop."""
    yield from _broker(tmp_path_factory)
