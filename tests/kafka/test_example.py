"""The example runs: topics joined into a topic, a table of PostgreSQL and one of Delta, as DuckDB says; and the demo is
right."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from tests.databases.conftest import on_server, server  # noqa: F401 (fixtures)
from tests.databases.places import Place
from tests.kafka.command import HOSTS, Command
from tests.kafka.mock_cluster import QUIET, committed_records
from tests.kafka.topics import make_topic
from watersmeet.cli.commands import app
from watersmeet.demo.broker import Broker
from watersmeet.io.connectors.kafka.encoding import json_records
from watersmeet.testing import queries_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka" / "checkout.sql"
MINUTE_US = 60_000_000
VISITORS, ORDERS = 10, 60
AT_US = 1_767_225_600_000_000
TOPICS = ("clicks", "orders", "payments", "led-to", "unreadable")
PAID = """SELECT o.id, c.page, o.amount, p.method, p.ts FROM clicks c, orders o, payments p
WHERE c.visitor = o.visitor AND o.id = p.order_id
AND o.ts BETWEEN c.ts AND c.ts + INTERVAL 5 MINUTES AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 10 MINUTES"""


def test_the_example_can_be_planned() -> None:
    assert len(queries_of(EXAMPLE.read_text())) == 3


def shop() -> dict[str, pa.Table]:
    """Half an hour of a shop, in the order of time; one click, order and payment of nobody ends it much later."""
    rng = np.random.default_rng(3)

    def times(count: int) -> Any:
        return np.append(AT_US + np.sort(rng.integers(0, 30 * MINUTE_US, count)), AT_US + 50 * MINUTE_US)

    def at(count: int) -> pa.Array:
        return pa.array(times(count), pa.timestamp("us"))

    pages = [f"/{one}" for one in rng.integers(0, 5, 300)]
    amounts = [Decimal(int(cents)) / 100 for cents in rng.integers(100, 9_999, ORDERS)]
    return {
        "clicks": pa.table(
            {"visitor": np.append(rng.integers(0, VISITORS, 300), -1), "page": [*pages, "/last"], "ts": at(300)}
        ),
        "orders": pa.table(
            {
                "id": np.append(np.arange(ORDERS), -1),
                "visitor": np.append(rng.integers(0, VISITORS, ORDERS), -2),
                "amount": pa.array([*amounts, Decimal("0.00")], pa.decimal128(10, 2)),
                "ts": at(ORDERS),
            }
        ),
        "payments": pa.table(
            {
                "order_id": np.append(rng.permutation(ORDERS), -3),
                "method": ["card" if one else "invoice" for one in rng.integers(0, 2, ORDERS + 1)],
                "ts": at(ORDERS),
            }
        ),
    }


def put(brokers: str, topic: str, rows: pa.Table) -> None:
    producer = Producer({"bootstrap.servers": brokers, **QUIET})
    for batch in rows.to_batches():
        for value in json_records(batch):
            producer.produce(topic, value, partition=0)
    producer.flush()


@pytest.mark.kafka
@pytest.mark.parametrize("host", HOSTS)
def test_the_example_gives_what_duckdb_gives(
    host: str,
    broker: Broker,
    on_server: Place,  # noqa: F811 (the fixture)
    tmp_path: Path,
) -> None:
    deltalake = pytest.importorskip("deltalake")
    text = EXAMPLE.read_text().replace("localhost:9092", broker.brokers)
    for topic in TOPICS:
        text = text.replace(f"topic='{topic}'", f"topic='{host}-{topic}'")
    tables = shop()
    for name, table in tables.items():
        make_topic(broker.brokers, f"{host}-{name}", 1)
        put(broker.brokers, f"{host}-{name}", table)
    producer = Producer({"bootstrap.servers": broker.brokers, **QUIET})
    producer.produce(f"{host}-orders", b"no order at all", partition=0)
    producer.flush()
    run = Command(
        tmp_path, text, *HOSTS[host], "--available-now", environment={"SHOP_DATABASE": on_server.options["dsn"]}
    )
    assert run.ended() == 0, run.said
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        paid = Counter(connection.execute(PAID).fetchall())
        by_page = Counter(
            connection.execute(f"SELECT page, COUNT(*), SUM(amount) FROM ({PAID}) GROUP BY page").fetchall()
        )
    assert sum(paid.values()) > ORDERS // 2
    kept = deltalake.DeltaTable(tmp_path / "shop" / "paid").to_pyarrow_table()
    assert Counter((*row[:4], row[4].replace(tzinfo=None)) for row in _rows(kept)) == paid
    led_to = [json.loads(value or b"null") for _, value in committed_records(broker.brokers, f"{host}-led-to")]
    found = Counter((row["id"], row["page"], Decimal(str(row["amount"])), row["method"]) for row in led_to)
    assert found == Counter(row[:4] for row in paid.elements())
    assert Counter(on_server.run("SELECT page, orders, amount FROM paid_by_page")) == by_page
    unreadable = [json.loads(value or b"") for _, value in committed_records(broker.brokers, f"{host}-unreadable")]
    assert [one["reason"] for one in unreadable] == ["not json"] * 3  # each query reads for itself


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.kafka
def test_the_demo_is_right() -> None:
    done = CliRunner().invoke(app, ["demo", "--kafka", "--rows", "6000"])
    assert done.exit_code == 0, done.output
    assert "each once" in done.output
