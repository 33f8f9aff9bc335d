"""One S3 server for all tests, and a bucket for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lakes.store import Store, server


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with server() as found:
        yield found


@pytest.fixture
def store(endpoint: str) -> Store:
    return Store(endpoint)
