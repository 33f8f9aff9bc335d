"""Records of Avro are told from what is none before anything believes their bytes: no panic, no row askew."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from watersmeet.io.connectors.kafka.decoding.avro import AvroDecoder
from watersmeet.io.connectors.kafka.decoding.avro_columns import is_flat
from watersmeet.io.connectors.kafka.decoding.avro_fits import columns_of
from watersmeet.io.connectors.kafka.decoding.avro_shape import are_whole, steps_of
from watersmeet.io.connectors.kafka.decoding.avro_types import as_stored

FIELDS: dict[str, tuple[Any, Any]] = {
    "long": ("long", lambda rng: rng.randrange(-(2**63), 2**63)),
    "small": ("int", lambda rng: rng.randrange(-(2**31), 2**31)),
    "yes": ("boolean", lambda rng: rng.random() < 0.5),
    "single": ("float", lambda rng: rng.random()),
    "double": ("double", lambda rng: rng.random()),
    "text": ("string", lambda rng: "ä" * rng.randrange(80)),
    "bytes": ("bytes", lambda rng: rng.randbytes(rng.randrange(5))),
    "maybe": (["null", "string"], lambda rng: rng.choice([None, "x"])),
    "perhaps": (["long", "null"], lambda rng: rng.choice([None, -1])),
    "some": ({"type": "array", "items": "long"}, lambda rng: [rng.randrange(99) for _ in range(rng.randrange(4))]),
    "few": (
        ["null", {"type": "array", "items": ["null", "int"]}],
        lambda rng: rng.choice([None, [], [None, 1]]),
    ),
    "at": ({"type": "long", "logicalType": "timestamp-micros"}, lambda rng: rng.randrange(2**40)),
    "kind": ({"type": "enum", "name": "kind", "symbols": ["A", "B"]}, lambda rng: rng.choice("AB")),
    "inner": (
        {"type": "record", "name": "inner", "fields": [{"name": "n", "type": ["null", "double"]}]},
        lambda rng: {"n": rng.choice([None, 0.5])},
    ),
}


def drawn(rng: Random) -> tuple[dict[str, Any], list[bytes]]:
    """A schema, and some records of it."""
    names = rng.sample(list(FIELDS), rng.randrange(1, 7))
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": FIELDS[name][0]} for name in names]}
    parsed = fastavro.parse_schema(dict(schema), named_schemas={})
    values = []
    for _ in range(rng.randrange(1, 20)):
        text = io.BytesIO()
        fastavro.schemaless_writer(text, parsed, {name: FIELDS[name][1](rng) for name in names})
        values.append(text.getvalue())
    return schema, values


def spoilt(value: bytes, rng: Random) -> bytes:
    match rng.randrange(4):
        case 0:
            return value[: rng.randrange(len(value) + 1)]
        case 1:
            return value + rng.randbytes(rng.randrange(1, 4))
        case 2:
            return rng.randbytes(rng.randrange(30))
    place = rng.randrange(len(value) + 1)
    return value[:place] + rng.randbytes(1) + value[place + 1 :]


def read(schema: dict[str, Any], value: bytes) -> bool:
    """Whether another library reads it to its end."""
    stream = io.BytesIO(value)
    try:
        fastavro.schemaless_reader(stream, fastavro.parse_schema(as_stored(schema), named_schemas={}), None)
    except UnicodeDecodeError:
        return True  # whether text is text is seen when it is read
    except Exception:
        return False
    return stream.tell() == len(value)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_whole_is_read_and_what_is_not_is_told_without_a_panic(
    seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = Random(seed)
    schema, values = drawn(rng)
    assert is_flat(schema)
    steps = steps_of(schema)
    assert steps is not None
    assert are_whole(values, steps).all()
    mixed = [spoilt(one, rng) if rng.random() < 0.4 else one for one in values]
    for value, whole in zip(mixed, are_whole(mixed, steps), strict=True):
        assert not whole or read(schema, value), (schema, value)
    columns = columns_of(schema)
    assert columns is not None
    for records in (values, mixed):
        decoded = AvroDecoder(columns, schema).decode(_records(records))
        assert decoded.rows.num_rows + len(decoded.bad) == len(records)
        alone = [AvroDecoder(columns, schema).decode(_records([one])).rows.num_rows for one in records]
        assert [place for place, good in enumerate(alone) if good] == list(decoded.places)  # whoever stands beside it
        assert sorted([*decoded.places, *(one.place for one in decoded.bad)]) == list(range(len(records)))
    assert capfd.readouterr().err == ""


def _records(values: list[bytes]) -> Any:
    class _Values:
        pass

    made = _Values()
    made.values = values  # type: ignore[attr-defined]
    return made


def test_items_within_items_are_read_one_by_one() -> None:
    nested = {"type": "array", "items": {"type": "array", "items": "long"}}
    schema = {"type": "record", "name": "r", "fields": [{"name": "l", "type": nested}, {"name": "n", "type": "long"}]}
    assert steps_of(schema) is None
    text = io.BytesIO()
    fastavro.schemaless_writer(text, fastavro.parse_schema(dict(schema)), {"l": [[1], []], "n": 7})
    decoded = AvroDecoder(pa.schema([("n", pa.int64())]), schema).decode(_records([text.getvalue(), b"\x02"]))
    assert decoded.rows["n"].to_pylist() == [7]
    assert [one.place for one in decoded.bad] == [1]


def test_a_count_of_items_that_no_record_could_hold_ends_at_once() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "l", "type": {"type": "array", "items": "int"}}]}
    assert steps_of({**schema, "fields": [{"name": "l", "type": {"type": "array", "items": "null"}}]}) is None
    steps = steps_of(schema)
    assert steps is not None
    most = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2**63 - 1 of them
    assert not are_whole([most + b"\x00", b"\xff" * 9 + b"\x01" + b"\x00\x00"], steps).any()
