"""A served script whose stream comes of a connector: what arrives there is answered over HTTP, through restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pytest

from tests.connectors.shelf import COLUMNS, put, register
from tests.serve.serving import Client, listening, serving
from watersmeet.io.connectors import registry

SCRIPT = """
CREATE STREAM a WITH (source = 'shelf', folder = '{folder}/a', time = 'ts');
SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k;
SELECT id, k FROM a;
"""


@pytest.fixture(autouse=True)
def _shelf() -> Iterator[None]:
    register()
    yield
    registry.forget("shelf")


def lay(folder: Path, *seconds: int) -> None:
    rows = [{"id": second, "k": second % 2, "v": 0.5, "ts": second * 1_000_000} for second in seconds]
    put(folder / "a", "0", pa.Table.from_pylist(rows, schema=COLUMNS))


def awaited(client: Client, query: str, wanted: list[dict[str, Any]]) -> None:
    ends = monotonic() + 10
    while (found := sorted(client.answer(query), key=lambda row: row["k"])) != wanted:
        assert monotonic() < ends, found
        sleep(0.05)


def test_answers_follow_what_the_connector_has(tmp_path: Path) -> None:
    lay(tmp_path, 1, 2, 3)
    with serving(tmp_path, SCRIPT) as client:
        awaited(client, "query_1", [{"k": 0, "n": 1}, {"k": 1, "n": 1}])  # others may come at the newest instant
        with listening(client, "query_2") as events:
            lay(tmp_path, 4)
            assert events.next()["data"]["rows"] == [{"id": 4, "k": 0}]
        awaited(client, "query_1", [{"k": 0, "n": 1}, {"k": 1, "n": 2}])
        told = client.post("a", [{"id": 9, "k": 1, "v": 1, "ts": "2026-01-01 00:00:00"}])
        assert told.status_code >= 400
        assert "shelf" in told.text or "source" in told.text
    lay(tmp_path, 5)
    with serving(tmp_path, SCRIPT) as client:
        awaited(client, "query_1", [{"k": 0, "n": 2}, {"k": 1, "n": 2}])
