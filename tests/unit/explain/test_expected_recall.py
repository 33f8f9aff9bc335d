"""The recall that EXPLAIN expects of bounded memory where inputs meet by different keys, beside what a run has."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.session import Query

ROWS = 900


def query(memory: str, skew: float) -> Query:
    """Three streams, the first two of which share a key and the last two another."""
    rng = np.random.default_rng(3)
    session = wm.Session()
    for name in "abc":
        keys = {column: np.minimum(rng.zipf(skew, ROWS), 60) for column in "xy"}
        at = pa.array(np.arange(ROWS) * 10_000, pa.timestamp("us"))
        session.stream(name, pa.table({**keys, "ts": at}), time="ts")
    return session.sql(
        "SELECT a.x AS x FROM a, b, c WHERE a.x = b.x AND b.y = c.y WINDOW = 1 SECOND "
        f"OPTIONS (memory = '{memory}', shed = 'prob')"
    )


def expected(memory: str, skew: float = 1.7) -> float:
    told = json.loads(query(memory, skew).explain(format="json", analyze=True, sample=3 * ROWS))
    found = [value["recall"] for value in _dicts(told) if "rows_needed" in value]
    assert found
    return float(found[0])


def _dicts(value: object) -> list[dict[str, object]]:
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [*([value] if isinstance(value, dict) else []), *(one for each in below for one in _dicts(each))]


@pytest.mark.slow
def test_what_is_expected_of_two_keys_is_near_what_comes() -> None:
    asked = query("150 rows", 1.7)
    asked.to_arrow()
    assert expected("150 rows") == pytest.approx(asked.metrics()["recall"], abs=0.2)


@pytest.mark.lab
def test_more_memory_is_expected_to_find_more() -> None:
    recalls = [expected(memory) for memory in ("40 rows", "150 rows", "400 rows")]
    assert recalls == sorted(recalls)
    assert recalls[0] < 0.6 < 0.99 < recalls[-1]
