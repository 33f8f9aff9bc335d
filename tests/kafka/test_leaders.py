"""While a broker starts it knows of no leaders, or of older ones, which passes by itself."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from watersmeet.io.connectors.kafka.client import Cluster
from watersmeet.io.connectors.kafka.offsets import ON_ITS_WAY, listed_offsets

PLACE = TopicPartition("rows", 0)


class Starting:
    """Answers as a broker does that has been restarted: so many times with an error, then with an offset."""

    def __init__(self, code: int, times: int) -> None:
        self.code, self.left = code, times

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        answer: Future[Any] = Future()
        if self.left:
            self.left -= 1
            answer.set_exception(KafkaException(KafkaError(self.code)))
        else:
            answer.set_result(ListOffsetsResultInfo(7, -1, 0))
        return dict.fromkeys(asked, answer)


def listed(code: int, times: int, timeout_s: float = 5.0) -> dict[int, int]:
    asked = {PLACE: OffsetSpec.latest()}
    cluster = Cluster("broker:9092", timeout_s=timeout_s)
    return listed_offsets(
        Starting(code, times),
        cluster,
        asked,
        IsolationLevel.READ_UNCOMMITTED,
        ON_ITS_WAY.__contains__,
    )


@pytest.mark.parametrize("code", sorted(ON_ITS_WAY))
def test_leaders_that_are_on_their_way_are_waited_for(code: int) -> None:
    assert listed(code, 3) == {0: 7}


def test_other_errors_are_not_waited_for() -> None:
    with pytest.raises(KafkaException, match="authorization"):
        listed(KafkaError.TOPIC_AUTHORIZATION_FAILED, 1)


def test_leaders_are_waited_for_as_long_as_a_broker() -> None:
    with pytest.raises(KafkaException, match="epoch"):
        listed(KafkaError.UNKNOWN_LEADER_EPOCH, 1_000_000, timeout_s=0.1)
