"""What records hold: Avro, Protobuf, changes of Debezium, topics whose last record counts. On a played cluster."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from tests.kafka.mock_cluster import MockCluster
from tests.kafka.openings import EVENTS, all_bad, all_rows, sink, source
from watersmeet.errors import OptionError, SourceError
from watersmeet.io.connectors.kafka.markers import DEFAULT_TOPIC

JAN = datetime(2026, 1, 1)
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
EVENT = {
    "type": "record",
    "name": "event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ts", "type": MICROS},
        {"name": "s", "type": ["null", "string"]},
    ],
}
MAPPED = {
    "type": "record",
    "name": "m",
    "fields": [*EVENT["fields"], {"name": "m", "type": {"type": "map", "values": "int"}}],
}
COLUMNS = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("s", pa.string())])


def avro(number: int, schema: dict[str, object] = EVENT, **more: object) -> bytes:
    made = io.BytesIO()
    fastavro.schemaless_writer(
        made, fastavro.parse_schema(schema), {"id": number, "ts": JAN.replace(tzinfo=UTC), "s": f"s{number}", **more}
    )
    return made.getvalue()


@pytest.mark.parametrize("schema", [EVENT, MAPPED], ids=["by columns", "one by one"])
def test_avro_records_that_are_cut_short_or_too_long_are_told_and_the_others_stay(
    mock: MockCluster, schema: dict[str, object]
):
    topic = mock.topic()
    good = [avro(number, schema, m={"x": 1}) if schema is MAPPED else avro(number) for number in range(6)]
    mock.put(topic, [good[0], good[1][:-2], good[2], b"", good[3] + b"more", good[4], None, good[5]])
    opened = source(mock.brokers, topic, COLUMNS, format="avro", schema=json.dumps(schema))
    assert [(row["id"], row["ts"], row["s"]) for row in all_rows(opened)] == [
        (number, JAN, f"s{number}") for number in (0, 2, 4, 5)
    ]
    told = all_bad(source(mock.brokers, topic, COLUMNS, format="avro", schema=json.dumps(schema)))
    assert [(row["offset"], row["reason"]) for row in told] == [
        (1, "not avro"),
        (3, "not avro"),
        (4, "not avro"),
        (6, "no value"),
    ]


def test_avro_tells_its_columns_and_refuses_others(mock: MockCluster):
    topic = mock.topic()
    mock.put(topic, [avro(1)])
    opened = source(mock.brokers, topic, None, format="avro", schema=json.dumps(EVENT))
    assert opened.schema.names == ["id", "ts", "s"]
    wrong = pa.schema([("id", pa.string()), ("ts", pa.timestamp("us"))])
    with pytest.raises(SourceError, match="column 'id' of 'events' is declared STRING"):
        source(mock.brokers, topic, wrong, format="avro", schema=json.dumps(EVENT))
    with pytest.raises(SourceError, match="does not say the schema"):
        source(mock.brokers, topic, COLUMNS, format="avro")
    with pytest.raises(OptionError, match="no JSON"):
        source(mock.brokers, topic, COLUMNS, format="avro", schema="{")


@pytest.fixture
def registry() -> Iterator[str]:
    older = {**EVENT, "fields": EVENT["fields"][:2]}  # type: ignore[index]
    schemas = {"/schemas/ids/7": EVENT, "/schemas/ids/3": older}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = schemas.get(self.path.partition("?")[0])
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(found)}).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_registry_knows_the_schema_of_every_record(mock: MockCluster, registry: str):
    topic = mock.topic()
    older = {**EVENT, "fields": EVENT["fields"][:2]}  # type: ignore[index]

    def framed(known: int, value: bytes) -> bytes:
        return b"\0" + known.to_bytes(4, "big") + value

    mock.put(topic, [framed(7, avro(1)), framed(3, avro(2, older)), framed(7, avro(3)), avro(4)])
    options = {"format": "avro", "registry": registry}
    found = [(row["id"], row["s"]) for row in all_rows(source(mock.brokers, topic, COLUMNS, **options))]
    assert found == [(1, "s1"), (2, None), (3, "s3")]
    assert [row["offset"] for row in all_bad(source(mock.brokers, topic, COLUMNS, **options))] == [3]
    mock.put(topic, [framed(99, avro(1))])
    with pytest.raises(SourceError, match="schema 99 cannot be had from the registry"):
        all_rows(source(mock.brokers, topic, COLUMNS, **options))


def answering(answers: dict[str, object]) -> tuple[str, HTTPServer]:
    """A registry that answers so, and else as one does that has no such schema."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found or {"error_code": 40403, "message": "Schema not found"}).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}", server


def test_a_schema_of_a_registry_may_name_others(mock: MockCluster):
    kind = {"type": "enum", "name": "geo.Kind", "symbols": ["A", "B"]}
    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "kind", "type": "geo.Kind"}]}
    schema = {"type": "record", "name": "R", "fields": [*EVENT["fields"], {"name": "p", "type": "geo.Place"}]}
    whole = {
        **schema,
        "fields": [*EVENT["fields"], {"name": "p", "type": {**place, "fields": [{"name": "kind", "type": kind}]}}],
    }
    address, server = answering({
        "/schemas/ids/1": {
            "schema": json.dumps(schema), "references": [{"name": "geo.Place", "subject": "a b", "version": 2}],
        },
        "/subjects/a%20b/versions/2": {
            "schema": json.dumps(place), "references": [{"name": "geo.Kind", "subject": "kind", "version": 1}],
        },
        "/subjects/kind/versions/1": {"schema": json.dumps(kind)},
        "/schemas/ids/2": {
            "schema": json.dumps(schema), "references": [{"name": "geo.Place", "subject": "gone", "version": 1}],
        },
        "/schemas/ids/3": {"schema": json.dumps(schema)},
        "/schemas/ids/4": {"schema": "message M {}", "schemaType": "PROTOBUF"},
    })  # fmt: skip
    columns = pa.schema([*COLUMNS, ("p", pa.struct([("kind", pa.string())]))])
    record = avro(1, whole, p={"kind": "B"})

    def read(known: int) -> list[dict[str, object]]:
        topic = mock.topic()
        mock.put(topic, [b"\0" + known.to_bytes(4, "big") + record])
        return all_rows(source(mock.brokers, topic, columns, format="avro", registry=address))

    try:
        assert read(1) == [{"id": 1, "ts": JAN, "s": "s1", "p": {"kind": "B"}}]
        for known, told in (
            (2, "version 1 of gone"),
            (3, r"a type geo\.Place, which it has not"),
            (4, "one of Protobuf"),
        ):
            with pytest.raises(SourceError, match=told):
                read(known)
    finally:
        server.shutdown()


def test_a_record_of_a_schema_that_the_registry_has_not_is_bad_alone(mock: MockCluster):
    topic = mock.topic()
    address, server = answering({"/schemas/ids/1": {"schema": json.dumps(EVENT)}})
    mock.put(topic, [b"\0" + known.to_bytes(4, "big") + avro(known) for known in (1, 9, 1)])
    opened = source(mock.brokers, topic, COLUMNS, format="avro", registry=address)
    try:
        assert [(row["offset"], row["detail"]) for row in all_bad(opened)] == [(1, "the registry knows no schema 9")]
        opened = source(mock.brokers, topic, COLUMNS, format="avro", registry=address)
        assert [row["id"] for row in all_rows(opened)] == [1, 1]
    finally:
        server.shutdown()


@pytest.mark.parametrize("address", ["localhost:8081", "http://me:hidden@localhost:8081", "me:hidden@localhost"])
def test_an_address_of_a_registry_that_is_none_or_holds_a_password_is_refused_without_it(
    mock: MockCluster, address: str
):
    with pytest.raises(OptionError) as raised:
        source(mock.brokers, mock.topic(), COLUMNS, format="avro", registry=address)
    assert "hidden" not in str(raised.value)


def test_python_takes_the_schema_of_records_as_text(mock: MockCluster):
    import watersmeet as wm

    topic = mock.topic()
    mock.put(topic, [avro(1)])
    session = wm.Session()
    session.stream(
        "e", source="kafka", brokers=mock.brokers, topic=topic, format="avro", time="ts", schema=json.dumps(EVENT)
    )
    assert session.sql("SELECT id, s FROM e").to_arrow().to_pylist() == [{"id": 1, "s": "s1"}]


def described(tmp_path: Path) -> Path:
    """The descriptors of shop.Event, as protoc writes them."""
    from google.protobuf import descriptor_pb2

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Event")
    for number, (name, type_) in enumerate([("id", kind.TYPE_INT64), ("s", kind.TYPE_STRING), ("ms", kind.TYPE_INT64)]):
        message.field.add(name=name, number=number + 1, type=type_, label=kind.LABEL_OPTIONAL)
    path = tmp_path / "event.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return path


def test_protobuf_messages_by_their_descriptors(mock: MockCluster, tmp_path: Path):
    path = described(tmp_path)
    topic = mock.topic()
    mock.put(topic, [b"\x08\x05\x12\x01a\x18\x07", b"\x08", b"\x08\x06"])
    options = {"format": "protobuf", "schema_file": str(path), "message": "shop.Event"}
    opened = source(mock.brokers, topic, None, None, **options)
    assert all_rows(opened) == [{"id": 5, "s": "a", "ms": 7}, {"id": 6, "s": "", "ms": 0}]
    assert [row["reason"] for row in all_bad(source(mock.brokers, topic, None, None, **options))] == ["not protobuf"]
    with pytest.raises(SourceError, match=r"no message 'shop\.Evnt'"):
        source(mock.brokers, topic, None, None, **{**options, "message": "shop.Evnt"})


def test_protobuf_messages_behind_the_id_of_a_schema(mock: MockCluster, tmp_path: Path):
    """Behind the id stands which message of its file it is: a zero for the first, or a count and so many numbers."""
    head, message = b"\0" + (7).to_bytes(4, "big"), b"\x08\x05\x12\x01a\x18\x07"
    topic = mock.topic()
    good = [head + b"\0" + message, head + b"\x02\x00" + message, head + b"\x04\x02\x00" + message]
    mock.put(topic, [*good, message, head, head + b"\x7f", head + b"\0\x08"])
    options = {
        "format": "protobuf", "schema_file": str(described(tmp_path)), "message": "shop.Event", "wire": "registry",
    }  # fmt: skip
    assert all_rows(source(mock.brokers, topic, None, None, **options)) == [{"id": 5, "s": "a", "ms": 7}] * 3
    bad = all_bad(source(mock.brokers, topic, None, None, **options))
    assert [(row["offset"], row["reason"]) for row in bad] == [(one, "not protobuf") for one in (3, 4, 5, 6)]


def shop_described(path: Path) -> type:
    """Other, and Order, which has a map, a message within itself and a required field; gives the class of Order."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto2")
    file.message_type.add(name="Other").field.add(name="id", number=1, type=kind.TYPE_INT64, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=kind.TYPE_INT64, label=kind.LABEL_REQUIRED)
    entry = order.nested_type.add(name="NotesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kind.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kind.TYPE_INT32, label=1)
    order.field.add(name="notes", number=2, type=kind.TYPE_MESSAGE, label=3, type_name=".shop.Order.NotesEntry")
    order.field.add(name="part", number=3, type=kind.TYPE_MESSAGE, label=1, type_name=".shop.Order")
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return found


def test_protobuf_has_maps_and_no_column_of_a_message_within_itself(mock: MockCluster, tmp_path: Path):
    order = shop_described(tmp_path / "shop.desc")
    topic = mock.topic()
    mock.put(topic, [order(id=1, notes={"a": 5}).SerializeToString(), order(id=2).SerializeToString(), b"\x12\x00"])
    options = {"format": "protobuf", "schema_file": str(tmp_path / "shop.desc"), "message": "shop.Order"}
    columns = pa.schema([("id", pa.int64()), ("notes", pa.map_(pa.string(), pa.int32()))])
    opened = source(mock.brokers, topic, columns, None, **options)
    assert all_rows(opened) == [{"id": 1, "notes": [("a", 5)]}, {"id": 2, "notes": []}]
    bad = all_bad(source(mock.brokers, topic, columns, None, **options))
    assert [(row["offset"], row["detail"]) for row in bad] == [(2, "it lacks what its type requires: id")]
    with pytest.raises(SourceError, match=r"'part' of message 'shop\.Order' holds messages of its own type"):
        source(mock.brokers, topic, None, None, **options)


def test_a_message_of_another_type_is_not_read_as_the_one_that_is_asked_for(mock: MockCluster, tmp_path: Path):
    shop_described(tmp_path / "shop.desc")
    topic, head = mock.topic(), b"\0" + (7).to_bytes(4, "big")
    mock.put(topic, [head + b"\x02\x02\x08\x01", head + b"\x00\x08\x02", head + b"\x02\x00\x08\x03"])
    options = {"format": "protobuf", "schema_file": str(tmp_path / "shop.desc"), "wire": "registry"}
    columns = pa.schema([("id", pa.int64())])
    for message, ids in (("shop.Order", [1]), ("shop.Other", [2, 3])):
        opened = source(mock.brokers, topic, columns, None, message=message, **options)
        assert [row["id"] for row in all_rows(opened)] == ids
    bad = all_bad(source(mock.brokers, topic, columns, None, message="shop.Order", **options))
    assert [row["offset"] for row in bad] == [1, 2]
    assert bad[0]["detail"] == "it is a shop.Other, by what stands before it, and no shop.Order"


def change(op: str, before: object, after: object, *, wrapped: bool = False) -> bytes:
    made = {"op": op, "before": before, "after": after, "ts_ms": 9, "source": {"ts_ms": 1_767_225_600_000, "db": "x"}}
    return json.dumps({"schema": {}, "payload": made} if wrapped else made).encode()


def test_changes_of_debezium_feed_a_table_with_versions(mock: MockCluster):
    topic = mock.topic()
    old = {"id": 1, "ts": "2020-01-01T00:00:00"}
    new = {"id": 1, "ts": "2021-01-01T00:00:00"}
    records = [change("c", None, old), change("u", old, new, wrapped=True), change("d", new, None), None, b"{}"]
    mock.put(topic, records)
    columns = pa.schema([*EVENTS, ("op", pa.string())])
    options = {"format": "debezium", "key": "id", "op": "op"}
    assert all_rows(source(mock.brokers, topic, columns, **options)) == [
        {"id": 1, "ts": datetime(2020, 1, 1), "op": "c"},
        {"id": 1, "ts": datetime(2021, 1, 1), "op": "u"},
        {"id": 1, "ts": JAN, "op": "d"},
    ]
    assert [row["reason"] for row in all_bad(source(mock.brokers, topic, columns, **options))] == ["no change"]
    with pytest.raises(SourceError, match="an update came in stream 'events', whose rows only come"):
        all_rows(source(mock.brokers, topic, EVENTS, format="debezium"))
    with pytest.raises(OptionError, match="no column that says"):
        source(mock.brokers, topic, EVENTS, format="debezium", key="id")


def test_the_last_record_of_a_key_counts_and_none_takes_it_away(mock: MockCluster):
    topic = mock.topic()
    value = b'{"id": 1, "ts": "2020-01-01T00:00:00"}'
    mock.put(topic, [value, None, value, None, None], keys=[b"1", b"1", b"2", b'{"id": 3}', b"x"])
    columns = pa.schema([*EVENTS, ("op", pa.string())])
    options = {"format": "upsert", "key": "id", "op": "op"}
    found = [(row["id"], row["op"]) for row in all_rows(source(mock.brokers, topic, columns, **options))]
    assert found == [(1, "u"), (1, "d"), (1, "u"), (3, "d")]
    assert [row["reason"] for row in all_bad(source(mock.brokers, topic, columns, **options))] == ["no key"]
    with pytest.raises(OptionError, match="replaces the one before"):
        source(mock.brokers, topic, columns, format="upsert")


@pytest.mark.parametrize(
    ("kind", "old", "options", "gone"),
    [
        (pa.int64(), 5, {"time_unit": "ms"}, 1_767_225_600_500),
        (pa.int64(), 5, {"time_unit": "us"}, 1_767_225_600_500_000),
        (pa.int64(), 5, {"time_unit": "s"}, 1_767_225_600),
        (pa.float64(), 5.5, {"time_unit": "s"}, 1_767_225_600.5),
        (pa.string(), "5", {"time_unit": "s"}, "1767225600.5"),
        (pa.string(), "2020-01-01", {"time_format": "iso"}, "2026-01-01T00:00:00.500000+00:00"),
        (
            pa.string(),
            "1.1.2020 1:00",
            {"time_format": "%d.%m.%Y %H:%M", "time_zone": "Europe/Paris"},
            "01.01.2026 01:00",
        ),
    ],
)
def test_what_is_taken_away_is_so_from_the_moment_of_the_change_however_times_are_written(
    mock: MockCluster, kind: pa.DataType, old: object, options: dict[str, str], gone: object
):
    topics = mock.topic(), mock.topic()
    row = {"id": 1, "ts": old}
    moment = {"ts_ms": 1_767_225_600_500}
    put = json.dumps({"op": "c", "before": None, "after": row, "source": moment}).encode()
    taken = json.dumps({"op": "d", "before": row, "after": None, "source": moment}).encode()
    mock.put(topics[0], [put, taken])
    mock.put(topics[1], [json.dumps(row).encode(), None], keys=[b"1", b"1"], time_ms=moment["ts_ms"] - 1)
    columns = pa.schema([("id", pa.int64()), ("ts", kind), ("op", pa.string())])
    for topic, form in zip(topics, ("debezium", "upsert"), strict=True):
        # A name is found whatever its case.
        opened = source(mock.brokers, topic, columns, "TS", format=form, key="id", op="op", **options)
        assert [one["ts"] for one in all_rows(opened)] == [old, gone]


@pytest.mark.parametrize(
    ("form", "record", "detail"),
    [
        ("json", b'{"n": 1, "id": 1.5}', "'id' is BIGINT, but 1.5 is there"),
        ("json", b'{"n": 300, "id": 1}', "'n' is TINYINT, but 300 is there"),
        ("json", b'{"d": 1.005}', "'d' is DECIMAL(10, 2), but 1.005 is there, which has 3 digits behind the point"),
        ("json", b'{"d": "much"}', "'d' is DECIMAL(10, 2), but 'much' is there"),
        ("json", b'{"day": "2026-02-30"}', "'day' is DATE, but '2026-02-30' is there"),
        ("json", b'{"n": {}}', "'n' is TINYINT, but an object is there"),
        ("csv", b"x,1,1,2026-01-01", "'n' is TINYINT, but 'x' is there"),
        ("csv", b"1", "it has 1 value, but 4 columns are declared"),
    ],
)
def test_what_is_wrong_with_a_record_names_its_column(mock: MockCluster, form: str, record: bytes, detail: str):
    topic = mock.topic()
    mock.put(topic, [record])
    columns = pa.schema([("n", pa.int8()), ("id", pa.int64()), ("d", pa.decimal128(10, 2)), ("day", pa.date32())])
    assert [row["detail"] for row in all_bad(source(mock.brokers, topic, columns, None, format=form))] == [detail]


MAP = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("form", "kind", "told"),
    [
        ("json", MAP, "no map is made of JSON"),
        ("json", pa.list_(pa.struct([("m", MAP)])), "no map is made of JSON"),
        ("debezium", MAP, "no map is made of JSON"),
        ("csv", pa.list_(pa.int32()), "which no value of CSV is"),
    ],
)
def test_types_that_a_format_has_not_are_refused_before_anything_is_read(
    mock: MockCluster, form: str, kind: pa.DataType, told: str
):
    with pytest.raises(SourceError, match=told):
        source(mock.brokers, mock.topic(), pa.schema([("id", pa.int64()), ("m", kind)]), None, format=form)


def test_a_schema_of_avro_that_tells_no_columns_is_told(mock: MockCluster):
    fields = [{"name": "id", "type": "long"}, {"name": "m", "type": {"type": "map", "values": "int"}}]
    schema = json.dumps({"type": "record", "name": "e", "fields": fields})
    with pytest.raises(SourceError, match="its schema of Avro has a map"):
        source(mock.brokers, mock.topic(), None, None, format="avro", schema=schema)


def test_avro_that_was_written_is_read(mock: MockCluster):
    mock.topic(DEFAULT_TOPIC)
    topic = mock.topic()
    rows = pa.record_batch({"id": [1, 2], "ts": pa.array([JAN, JAN], pa.timestamp("us")), "s": ["a", None]})
    one = sink(mock.brokers, topic, rows.schema, run="avro", format="avro")
    one.commit(0, [rows])
    from watersmeet.io.connectors.kafka.avro_encoding import schema_of

    schema = json.dumps(schema_of("answers", rows.schema))
    found = all_rows(source(mock.brokers, topic, COLUMNS, format="avro", schema=schema))
    assert sorted(found, key=lambda row: str(row["id"])) == rows.to_pylist()
