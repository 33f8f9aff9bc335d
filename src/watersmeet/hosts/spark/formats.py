"""Formats that Spark does not have by itself: what brings those that people ask for, on the versions that there are."""

from __future__ import annotations

import re

from watersmeet.io.connectors.registry import connector_named

_MISSING = re.compile(r"(?:Failed to find (?:the )?data source:?|Could not find data source)\s*[`'\"]?([\w.-]+)", re.I)
# Tried on Spark 4.3.0, of which the connector has no release; spark.jars.packages finds other versions and fails.
KAFKA_JARS = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar, spark-token-provider-kafka-0-10_2.13-4.0.0.jar, kafka-clients-3.9.2.jar and "
    "commons-pool2-2.12.1.jar"
)
_NO_STORE = re.compile(r'No FileSystem for scheme "?([a-z0-9]+)|Class org\.apache\.hadoop\.fs\.(\w+)\.\w+ not found')


def missing_format(text: str) -> str | None:
    """The name of the format that Spark says it does not have, if that is what it says.

    >>> missing_format("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure …")
    'kafka'
    >>> missing_format("Path does not exist: kafka")
    """
    found = _MISSING.search(text)
    return None if found is None else found.group(1).rstrip(".").lower()


def how_to_get(name: str, word: str) -> str:
    """What to do about a format that is missing; `word` is 'source' or 'sink'."""
    own = f"{word} = '{name}' is ours and needs no jars" if connector_named(name) is not None else None
    if name == "kafka":
        jars = f"Spark 4.3 has it with {KAFKA_JARS} from Maven Central in --conf spark.jars (spark.jars.packages fails)"
        return jars if own is None else f"{own}; {jars}"
    if name in ("delta", "iceberg"):
        none = f"no build of {name.capitalize()} loads on Spark 4.3"
        return f"{none}; write the rows as Parquet" if own is None else f"{own}; {none}"
    return own or "it comes as a jar of its own, which --conf spark.jars=… brings"


def way_out(text: str, word: str) -> str | None:
    """What to do about what Spark says it lacks; None if it says something else. `word` is 'source' or 'sink'.

    >>> way_out('No FileSystem for scheme "s3"', "sink")
    "sink = 'files', format = '…' is ours and needs none of Hadoop's jars, without which Spark knows no s3://"
    """
    missing = missing_format(text)
    if missing is not None:
        return how_to_get(missing, word)
    store = lacking_store(text)
    if store is None:
        return None
    return f"{word} = 'files', format = '…' is ours and needs none of Hadoop's jars, without which Spark knows no {store}://"


def lacking_store(text: str) -> str | None:
    """The scheme of the store that Spark says it knows nothing of, if that is what it says.

    >>> lacking_store("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found")
    's3a'
    """
    found = _NO_STORE.search(text)
    return None if found is None else found.group(1) or found.group(2)
