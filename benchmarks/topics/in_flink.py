"""The same join in Flink SQL, through its own connector, exactly once."""

from __future__ import annotations

from datetime import timedelta

from benchmarks.topics.rows import Query

_TIMES = {
    "json": "ts TIMESTAMP(3)",
    "avro": "ts_us BIGINT NOT NULL, ts AS TO_TIMESTAMP_LTZ(ts_us / 1000, 3)",
}
_FORMATS = {"json": "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'", "avro": "'format' = 'avro'"}


def statements(brokers: str, topics: dict[str, str], query: Query, form: str, out: str) -> str:
    """Tables, and what is written; divided by empty lines."""
    there = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{brokers}'"
    rows = "id BIGINT NOT NULL, k BIGINT NOT NULL, page STRING NOT NULL"
    bounded = "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
    tables = [
        f"CREATE TABLE {name} ({rows}, {_TIMES[form]}, WATERMARK FOR ts AS ts - INTERVAL '1' HOUR) "
        f"WITH ({there}, 'topic' = '{topic}', {bounded}, {_FORMATS[form]})"
        for name, topic in topics.items()
    ]
    ids = ", ".join(f"{one} BIGINT" for one in query.columns)
    once = (
        f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{out}', "
        "'properties.transaction.timeout.ms' = '600000'"
    )
    tables.append(
        f"CREATE TABLE answers ({ids}, page STRING) WITH ({there}, 'topic' = '{out}', 'format' = 'json', {once})"
    )
    return "\n\n".join([*tables, _insert(query)])


def _insert(query: Query) -> str:
    ids = ", ".join(f"{one}.id" for one in query.streams)
    size = f"INTERVAL '{timedelta(seconds=query.window_s)}' HOUR TO SECOND"
    near = [
        f"{other}.ts BETWEEN {one}.ts - {size} AND {one}.ts + {size}"
        for place, one in enumerate(query.streams)
        for other in query.streams[place + 1 :]
    ]
    close = " AND ".join([query.equal, *near])
    return f"INSERT INTO answers SELECT {ids}, a.page FROM {', '.join(query.streams)} WHERE {close}"
