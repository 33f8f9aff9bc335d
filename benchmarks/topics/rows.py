"""The rows of topics, as records, the queries over them, and which answers are right."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass

import duckdb
import fastavro
import numpy as np
import pyarrow as pa

from watersmeet.io.connectors.kafka.encoding import json_records

KEYS = 100_000
STEP_US = 1_000
BEGIN_US = 1_767_225_600_000_000  # of 2026: Spark takes a row of 1970's first moment for late
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "k", "type": "long"},
        {"name": "page", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


@dataclass(frozen=True)
class Query:
    """A join of all streams on k whose rows are at most so long apart."""

    name: str
    streams: str
    window_s: int

    @property
    def text(self) -> str:
        ids = ", ".join(f"{one}.id AS {column}" for one, column in zip(self.streams, "xyz", strict=False))
        return (
            f"SELECT {ids}, a.page FROM {', '.join(self.streams)} WHERE {self.equal} WINDOW = {self.window_s} SECONDS"
        )

    @property
    def equal(self) -> str:
        return " AND ".join(f"{one}.k = {other}.k" for one, other in zip(self.streams, self.streams[1:], strict=False))

    @property
    def columns(self) -> str:
        return "xyz"[: len(self.streams)]


QUERIES = (Query("join of two", "ab", 100), Query("join of three", "abc", 200))


def rows_of(number: int, streams: int, rows: int) -> pa.RecordBatch:
    """Every so many-th row is of this stream."""
    rng = np.random.default_rng(number)
    ids = np.arange(number, rows, streams)
    pages = rng.integers(0, 50, ids.size)
    return pa.record_batch(
        {
            "id": ids,
            "k": rng.integers(0, KEYS, ids.size),
            "page": pa.array([f"/page/{page}" for page in pages]),
            "ts": pa.array(BEGIN_US + ids * STEP_US, pa.timestamp("us")),
        }
    )


def encoded(rows: pa.RecordBatch, form: str) -> list[bytes | None]:
    if form == "json":
        return json_records(rows)
    parsed = fastavro.parse_schema(dict(SCHEMA))
    found: list[bytes | None] = []
    times = rows.column("ts").cast(pa.int64()).to_pylist()
    for row, time_us in zip(rows.drop_columns(["ts"]).to_pylist(), times, strict=True):
        made = io.BytesIO()
        fastavro.schemaless_writer(made, parsed, {**row, "ts": time_us})
        found.append(made.getvalue())
    return found


@dataclass(frozen=True)
class Told:
    """How many answers there are, and a sum over their ids that does not depend on their order."""

    answers: int
    checksum: int


def right(streams: dict[str, pa.RecordBatch], window_us: int) -> Told:
    """What DuckDB says of a join on k."""
    with duckdb.connect() as oracle:
        oracle.execute("SET threads TO 2")
        for name, rows in streams.items():
            oracle.register(name, pa.table({"id": rows["id"], "k": rows["k"], "us": rows["ts"].cast(pa.int64())}))
        names = list(streams)
        close = [
            f"{one}.k = {other}.k AND abs({one}.us - {other}.us) <= {window_us}"
            for place, one in enumerate(names)
            for other in names[place + 1 :]
        ]
        weighed = " + ".join(f"{weight} * {one}.id" for one, weight in zip(names, WEIGHTS, strict=False))
        asked = f"SELECT count(*), sum({weighed})::BIGINT FROM {', '.join(names)} WHERE {' AND '.join(close)}"
        found = oracle.execute(asked).fetchone()
    assert found is not None
    return Told(found[0], found[1] or 0)


WEIGHTS = (1, 7, 31)


def told_by(values: list[bytes], columns: str) -> Told:
    """The same of answers as JSON."""
    if not values:
        return Told(0, 0)
    read = pa.json.read_json(pa.BufferReader(b"\n".join(values)))
    ids = [read.column(one).to_numpy() for one in columns]
    return Told(read.num_rows, int(sum((weight * own).sum() for weight, own in zip(WEIGHTS, ids, strict=False))))


def script(brokers: str, topics: dict[str, str], query: str, form: str, sink: str | None, **options: str) -> str:
    """sink: the topic of the answers, or none."""
    # Partitions are read one a little ahead of the other, and the join waits for none: so it may be any lateness.
    more = {"lateness": "1 hour", **({"schema": json.dumps(SCHEMA)} if form == "avro" else {}), **options}
    said = "".join(f", {name} = '{value}'" for name, value in more.items())
    declared = "".join(
        f"CREATE STREAM {name} (id BIGINT, k BIGINT, page VARCHAR, ts TIMESTAMP) WITH (source = 'kafka', "
        f"brokers = '{brokers}', topic = '{topic}', format = '{form}', time = 'ts'{said});\n"
        for name, topic in topics.items()
    )
    if sink is None:
        return declared + query + ";"
    return declared + f"CREATE SINK out WITH (sink = 'kafka', brokers = '{brokers}', topic = '{sink}') AS {query};"
