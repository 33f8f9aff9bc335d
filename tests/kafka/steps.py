"""Where a life may end: before and after every step of a commit into a topic."""

from __future__ import annotations

_SINK = "watersmeet.io.connectors.kafka.sink:KafkaSink"
STEPS = (
    f"{_SINK}._connected after",
    f"{_SINK}.commit before",
    f"{_SINK}._put before",
    f"{_SINK}._put after",
    f"{_SINK}._commit_transaction before",
    f"{_SINK}._commit_transaction after",
    f"{_SINK}.commit after",
)
