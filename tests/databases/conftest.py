from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases.places import Place, file_place


@pytest.fixture(params=["sqlite", "duckdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return file_place(request.param, tmp_path)
