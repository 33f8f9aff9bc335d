"""Random queries over topics of a real broker, into topics: through kills between any two steps of a batch and of a
commit, while rows are put and partitions progress unequally, answers are DuckDB's, each once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.connectors.lives import POINTS, Script, lived
from tests.effort import EFFORT
from tests.kafka.feeding import Feed, Feeding
from tests.kafka.mock_cluster import committed_records
from tests.kafka.random_queries import STREAMS, Data, RandomQuery, expected, found, random_queries
from tests.kafka.steps import STEPS
from tests.kafka.topics import make_topic, sink, stream
from watersmeet.demo.broker import Broker

pytestmark = pytest.mark.kafka

KILLS = 20
SEEDS = range(3 * EFFORT)
# Rows are up to 0.4 s out of order in their partition, and partitions are up to a minute apart.
DATA = Data(count=240, partitions=3, lateness="1 second", gap="30 seconds")


def script_of(broker: Broker, name: str, queries: Sequence[RandomQuery], data: Data) -> str:
    said = {"timeout": "1 minute"}
    text = "".join(
        stream(broker.brokers, one, f"{name}-{one}", lateness=data.lateness, **said)
        for one in STREAMS
        if any(one in query.streams for query in queries)
    )
    for number, query in enumerate(queries):
        more = {**said, "mode": "upsert"} if query.upsert else said
        text += sink(broker.brokers, f"{name}-{number}", query.sql, name=f"answer{number}", **more)
    return text


def feeds_of(broker: Broker, name: str, data: Data, rng: Random) -> list[Feed]:
    for one in STREAMS:
        make_topic(broker.brokers, f"{name}-{one}", data.partitions)
    return [Feed(broker.brokers, f"{name}-{one}", data.rows(one), rng) for one in STREAMS]


def check(broker: Broker, name: str, queries: Sequence[RandomQuery], data: Data) -> None:
    for number, query in enumerate(queries):
        answer = found(query, committed_records(broker.brokers, f"{name}-{number}"), data)
        wanted = expected(query, data)
        assert answer == wanted, (
            f"{query.sql}\nmissing, or not often enough: {list((wanted - answer).items())[:3]}\n"
            f"too much: {list((answer - wanted).items())[:3]}"
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_kills_change_no_answer(seed: int, broker: Broker, tmp_path: Path) -> None:
    rng, name = Random(seed), f"random{seed}"
    queries = random_queries(seed)
    feeds = feeds_of(broker, name, DATA, rng)
    script = Script(script_of(broker, name, queries, DATA), tmp_path / "checkpoint")
    for feed in feeds:
        feed.put(0.01)
    died = 0
    for life in range(KILLS):
        with Feeding(feeds, life / (KILLS + 1), (life + 1) / (KILLS + 1)):
            died += not lived(script, rng.choice([*POINTS, *STEPS, *STEPS]), rng.randrange(3))
    for feed in feeds:
        feed.put(1)
    assert lived(script)
    assert died > KILLS // 2, "hardly a life was killed"
    check(broker, name, queries, DATA)
