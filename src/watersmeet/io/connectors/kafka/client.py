"""The settings of a client of Kafka, and what its errors mean to people. Secrets are in no sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.model.time import parse_interval

PREFIX = "kafka."
# What follows from our own options, or must be as we set it, and where to say it instead.
OURS = {
    "bootstrap.servers": "say brokers = '…'",
    "metadata.broker.list": "say brokers = '…'",
    "group.id": "say group = '…'",
    "enable.auto.commit": "say group = '…', and offsets are committed as rows are read",
    "enable.auto.offset.store": "leave it out",
    "auto.offset.reset": "say start = 'earliest' or 'latest'",
    "enable.partition.eof": "leave it out",
    "transactional.id": "leave it out: it is made of the run's name",
    "enable.idempotence": "leave it out: the sink needs it",
}
_SECRET_WORDS = ("password", "secret", "username", "oauthbearer", "token", "key.pem", "jaas")
_SHORTEST_SECRET = 3  # shorter ones would blot out half of a sentence
_DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)  # fmt: skip
_UNREACHED = frozenset(
    {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE,
     KafkaError._SSL, KafkaError._TIMED_OUT_QUEUE}
)  # fmt: skip
DEFAULT_TIMEOUT_S = 15.0
# Half of it is also how long the library waits before a client's second connection: the first, to an address that it
# was given, it gives up as soon as it has heard which broker is there. Tries in vain take twice as long each.
_RECONNECT_MS = 20
# What the library says goes to Python's logging, and nowhere if nobody has set that up; errors come as ours anyway.
_LOGGER = logging.getLogger("watersmeet.kafka")
_LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Cluster:
    """Where the brokers are, and the settings that were passed through, by librdkafka's names."""

    brokers: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # passwords are among them
    timeout_s: float = DEFAULT_TIMEOUT_S

    def config(self, heard: Heard | None = None, **ours: Any) -> dict[str, Any]:
        """The settings of a client; a keyword has '_' in place of '.'. Ours are defaults that the user's override."""
        made: dict[str, Any] = {"bootstrap.servers": self.brokers, "log_level": 3, "logger": _LOGGER}
        made["reconnect.backoff.ms"] = _RECONNECT_MS
        made |= {name.replace("_", "."): value for name, value in ours.items()}
        made |= dict(self.settings)
        if heard is not None:
            made["error_cb"] = heard.note
        return made

    def without_secrets(self, text: str) -> str:
        for name, value in self.settings:
            if len(value) >= _SHORTEST_SECRET and any(word in name for word in _SECRET_WORDS):
                text = text.replace(value, "…")
        return text


@dataclass
class Heard:
    """What a client has told of its connections, in a thread of its own; the last of it explains what then fails."""

    last: KafkaError | None = None
    denied: KafkaError | None = None
    # Lets a client say what it has to say, where nobody polls it.
    serve: Callable[[], object] | None = None

    def note(self, error: KafkaError) -> None:
        self.last = error
        if error.code() in _DENIED:
            self.denied = error


def cluster_of(owner: str, options: Mapping[str, str]) -> Cluster:
    brokers = options.get("brokers", "").strip()
    if not brokers:
        raise OptionError(
            f"{owner!r} does not say where its brokers are", hint="add brokers = 'localhost:9092'", option="brokers"
        )
    settings: list[tuple[str, str]] = []
    for name, value in options.items():
        if name.startswith(PREFIX):
            own = name.removeprefix(PREFIX)
            if own in OURS:
                raise OptionError(f"option {name} of {owner!r} cannot be set", hint=OURS[own], option=name)
            settings.append((own, value))
    return Cluster(brokers, tuple(settings), timeout_of(owner, options))


def timeout_of(owner: str, options: Mapping[str, str]) -> float:
    written = options.get("timeout")
    if written is None:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = parse_interval(written) / 1e6
    except ValueError as error:
        raise OptionError(f"timeout of {owner!r}: {error}", option="timeout") from None
    if seconds <= 0:
        raise OptionError(f"timeout of {owner!r} is {written!r}; write for example '15 seconds'", option="timeout")
    return seconds


@contextmanager
def naming_errors(
    kind: type[WatersmeetError], cluster: Cluster, what: str, heard: Heard | None = None, hint: str | None = None
) -> Iterator[None]:
    """Errors of the client library as ours. what: what could not be done, as the beginning of a sentence."""
    try:
        yield
    except KafkaException as error:
        raise named_error(kind, cluster, what, error.args[0], heard, hint) from None


def named_error(
    kind: type[WatersmeetError],
    cluster: Cluster,
    what: str,
    error: KafkaError,
    heard: Heard | None = None,
    hint: str | None = None,
) -> WatersmeetError:
    if heard is not None and heard.serve is not None:
        heard.serve()
    denied = heard.denied if heard is not None else None
    if error.code() == KafkaError._INVALID_ARG:
        return OptionError(
            f"Kafka's client library refuses a setting: {_words(cluster, error)}",
            hint="settings that begin with 'kafka.' are those of librdkafka, by its names",
        )
    if denied is not None or error.code() in _DENIED:
        return kind(
            f"{what}: the brokers at {cluster.brokers} refuse the credentials ({_words(cluster, denied or error)})",
            hint="look at kafka.security.protocol and at the kafka.sasl.… and kafka.ssl.… options",
        )
    if error.code() in _UNREACHED:
        last = heard.last if heard is not None and heard.last is not None else error
        return kind(
            f"{what}: no broker answers at {cluster.brokers} within {cluster.timeout_s:g} s ({_words(cluster, last)})",
            hint=hint or "check brokers = '…', and that they are up; timeout = '1 minute' waits longer",
        )
    return kind(f"{what}: {_words(cluster, error)}", hint=hint)


def _words(cluster: Cluster, error: KafkaError) -> str:
    return cluster.without_secrets(str(error.str()).split("\n", 1)[0].rstrip(". ")) or error.name()


def made(
    kind: type[WatersmeetError], cluster: Cluster, what: str, factory: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
) -> Any:  # fmt: skip
    """A client of the library, which checks its settings when it is made."""
    try:
        return factory(config)
    except KafkaException as error:
        raise named_error(kind, cluster, what, error.args[0]) from None
    except (TypeError, ValueError) as error:
        raise OptionError(f"Kafka's client library refuses a setting: {cluster.without_secrets(str(error))}") from None
