"""Rows that are put into topics little by little, the partitions of which progress as differently as they like."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from random import Random
from threading import Thread
from time import sleep
from types import TracebackType

import pyarrow as pa
from confluent_kafka import Producer

from tests.kafka.mock_cluster import QUIET
from watersmeet.io.connectors.kafka.encoding import json_records

PAUSE_S = 0.03


class Feed:
    """The rows of each partition of a topic, in their order. `put(share)` brings every partition about so far, one much
    further than another, in transactions, of which some are given up."""

    def __init__(self, brokers: str, topic: str, partitions: Sequence[pa.Table], rng: Random) -> None:
        self._topic, self._rng = topic, rng
        self._values = [[value for batch in one.to_batches() for value in json_records(batch)] for one in partitions]
        self._at = [0] * len(partitions)
        self._producer = Producer({"bootstrap.servers": brokers, "transactional.id": f"feeds-{topic}", **QUIET})
        self._producer.init_transactions(30)

    def put(self, share: float) -> None:
        self._producer.begin_transaction()
        for partition, values in enumerate(self._values):
            for value in values[: self._rng.choice([0, 3])]:
                self._producer.produce(self._topic, value, partition=partition)
        self._producer.flush()
        self._producer.abort_transaction()
        self._producer.begin_transaction()
        for partition, values in enumerate(self._values):
            at, upto = self._at[partition], self._upto(len(values), share)
            for value in values[at:upto]:
                self._producer.produce(self._topic, value, partition=partition)
            self._at[partition] = max(at, upto)
        self._producer.commit_transaction()

    def _upto(self, total: int, share: float) -> int:
        """At least a row, as nobody waits for a partition that is empty; the last when all are to be there."""
        if share >= 1:
            return total
        return max(1, int(total * min(share * self._rng.choice([0.3, 1.0, 1.5]), 0.95)))


class Feeding(AbstractContextManager["Feeding"]):
    """Puts rows into all topics beside what runs, from one share up to another."""

    def __init__(self, feeds: Sequence[Feed], begin: float, end: float, steps: int = 4) -> None:
        self._feeds = feeds
        self._shares = [begin + (end - begin) * step / steps for step in range(1, steps + 1)]
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Feeding:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.join()

    def _run(self) -> None:
        for share in self._shares:
            for feed in self._feeds:
                feed.put(share)
            sleep(PAUSE_S)
