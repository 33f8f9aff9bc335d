from __future__ import annotations

import pytest

from tests.kafka.mock_cluster import MockCluster


@pytest.fixture(scope="session")
def mock() -> MockCluster:
    return MockCluster()
