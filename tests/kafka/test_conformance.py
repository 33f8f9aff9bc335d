"""Topics are held to the contract of connectors: sources on a cluster that the client library plays, and sinks, which
need transactions that shut others out, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.connectors.test_conformance import COLUMNS, batch, opener, opening, rows
from tests.kafka.mock_cluster import MockCluster, committed_records
from tests.kafka.openings import source
from tests.kafka.topics import make_topic
from watersmeet.demo.broker import Broker
from watersmeet.testing import SINK_CHECKS, SOURCE_CHECKS, SinkCase, SourceCase

_names = count()


@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=lambda check: check.__name__)
def test_a_topic_as_a_source_keeps_the_contract(mock: MockCluster, check: Callable[[SourceCase], None]) -> None:
    topic = mock.topic()
    partitions = count()

    def put(table: Any) -> None:
        mock.put(topic, [json.dumps(row).encode() for row in table.to_pylist()], partition=next(partitions) % 3)

    def at(start: str) -> Callable[[], Any]:
        return lambda: source(mock.brokers, topic, COLUMNS, None, start=start)

    check(SourceCase(at("earliest"), put, rows, at("latest")))


@pytest.mark.kafka
@pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)
def test_a_topic_as_a_sink_keeps_the_contract(broker: Broker, check: Callable[[SinkCase], None]) -> None:
    topic = f"conforming-{next(_names)}"  # which is the name of its run, too: markers of all topics lie together
    make_topic(broker.brokers, topic)

    def read() -> list[dict[str, Any]]:
        return [json.loads(value or b"null") for _, value in committed_records(broker.brokers, topic)]

    asked = opening(brokers=broker.brokers, topic=topic, format="json", timeout="10 seconds")
    check(SinkCase(opener("kafka"), replace(asked, run=topic), batch, read))
