"""A table of a server is held to the contract of connectors, as those of files are in tests/connectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.connectors.test_conformance import OTHER, batch, opener, opening
from tests.databases.places import Place
from watersmeet.testing import SINK_CHECKS, SinkCase


@pytest.mark.postgres
@pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)
def test_a_table_of_a_server_keeps_the_contract(on_server: Place, check: Callable[[SinkCase], None]) -> None:
    def read() -> list[dict[str, Any]]:
        return [{"k": k, "v": v} for k, v in on_server.run('SELECT k, v FROM "out"')]

    check(SinkCase(opener("postgres"), opening(**on_server.options), batch, read, OTHER))
