"""Topics of Kafka as streams and as sinks. What needs the client library is imported when it is opened."""

from __future__ import annotations

from watersmeet.io.connectors.contract import Connector, Options

_SECRETS = (
    "kafka.sasl.password", "kafka.sasl.username", "kafka.sasl.oauthbearer.client.secret",
    "kafka.sasl.oauthbearer.config", "kafka.ssl.key.password", "kafka.ssl.key.pem", "kafka.ssl.keystore.password",
    "registry_auth", "registry.basic.auth.user.info",
)  # fmt: skip
_SHARED = ("brokers", "topic", "format", "schema", "schema_file", "timeout")

KAFKA = Connector(
    "kafka",
    source="watersmeet.io.connectors.kafka.source:open_source",
    sink="watersmeet.io.connectors.kafka.sink:open_sink",
    source_options=Options(
        (*_SHARED, "start", "group", "message", "delimiter", "null_values", "registry", "registry_auth", "wire"),
        prefixes=("kafka.", "registry."),
        secret=_SECRETS,
    ),
    sink_options=Options(
        (*_SHARED, "mode", "key", "key_format", "partitions", "replication", "marker_topic", "delimiter"),
        prefixes=("kafka.",),
        secret=_SECRETS,
    ),
    extra="kafka",
    moment="kafka",
)
