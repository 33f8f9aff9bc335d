"""One round of `make chaos`, so that it stays fit to play."""

from __future__ import annotations

from tests.durable.chaos import played


def test_a_round_of_kills_is_exact() -> None:
    rows, where = played(seed=2)
    assert rows > 100
    assert where.total() > 0
