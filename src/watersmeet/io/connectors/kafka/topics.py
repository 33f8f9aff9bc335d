"""Topics that a sink needs, made if they are not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from watersmeet.errors import SinkError
from watersmeet.io.connectors.kafka.client import Cluster, Heard, made, named_error, naming_errors

_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_DEFAULT = -1  # as the brokers are set


def ensure_topic(
    cluster: Cluster,
    sink: str,
    name: str,
    *,
    partitions: int | None = None,
    replication: int | None = None,
    config: Mapping[str, str] | None = None,
    if_missing: Callable[[str], None] = lambda name: None,
) -> int | None:
    """Make a topic unless it is there; how many partitions it has, or None if they are as the brokers say. if_missing:
    is told before it is made, and may raise."""
    what = f"sink {sink!r} cannot write to topic {name!r}"
    heard = Heard()
    # A consumer asks without making the topic by asking.
    asker: Consumer = made(SinkError, cluster, what, Consumer, cluster.config(heard, group_id="watersmeet"))
    heard.serve = lambda: asker.poll(0)
    try:
        with naming_errors(SinkError, cluster, what, heard):
            found = asker.list_topics(name, timeout=cluster.timeout_s).topics[name]
    finally:
        asker.close()
    if found.error is None:
        return len(found.partitions)
    if found.error.code() not in _MISSING:
        raise named_error(SinkError, cluster, what, found.error, heard)
    if_missing(name)
    _make(cluster, sink, NewTopic(name, partitions or _DEFAULT, replication or _DEFAULT, config=dict(config or {})))
    return partitions


def is_missing(cluster: Cluster, name: str, timeout_s: float) -> bool:
    """Whether brokers that answer have no such topic."""
    asker = Consumer(cluster.config(group_id="watersmeet"))
    try:
        error = asker.list_topics(name, timeout=timeout_s).topics[name].error
    except KafkaException:
        return False
    finally:
        asker.close()
    return error is not None and error.code() in _MISSING


def _make(cluster: Cluster, sink: str, topic: NewTopic) -> None:
    what = f"sink {sink!r} cannot make topic {topic.topic!r}, which is not there"
    heard = Heard()
    admin: AdminClient = made(SinkError, cluster, what, AdminClient, cluster.config(heard))
    heard.serve = lambda: admin.poll(0)
    with naming_errors(SinkError, cluster, what, heard, hint="make it by hand, or ask for the right to"):
        try:
            admin.create_topics([topic], request_timeout=cluster.timeout_s)[topic.topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
